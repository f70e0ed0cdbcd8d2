"""Near hits against peers and against the limit: interleaved rounds, medians, in one run on one machine."""
import statistics

import generator
import servers

# (name, bytes of a value, connections, in flight on each)
SHAPES = [
    ("100 B 1×1", 100, 1, 1),
    ("100 B 50×1", 100, 50, 1),
    ("100 B 50×16", 100, 50, 16),
    ("1 KiB 50×16", 1024, 50, 16),
    ("16 KiB 50×16", 16384, 50, 16),
    ("200 KiB 50×1", 204800, 50, 1),
]
MANY = ("100 B 50×16, many keys", 100, 50, 16)
HOT_KEYS = {100: 1000, 1024: 1000, 16384: 100, 204800: 10}
ZIPF = 0.99  # as YCSB: Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010

# what the results must reach: (shape, server, at least so many times the other)
TARGETS = [
    ("100 B 1×1", "memcached classic", 1.0), ("100 B 50×1", "memcached classic", 1.2),
    ("100 B 50×16", "memcached classic", 5.0), ("100 B 50×16", "memcached meta", 1.7), ("100 B 50×16", "redis", 2.2),
    ("1 KiB 50×16", "memcached classic", 4.5), ("16 KiB 50×16", "memcached classic", 1.3),
    ("200 KiB 50×1", "memcached classic", 0.9), (MANY[0], "memcached meta", 1.3),
    ("100 B 1×1", "echo", 0.85), ("100 B 50×1", "echo", 0.85), ("100 B 50×16", "echo", 0.65),
    ("16 KiB 50×16", "echo", 0.9), ("200 KiB 50×1", "echo", 0.9),
]


class Contender:
    """A server, and how it is spoken to."""

    def __init__(self, name, protocol, server):
        self.name = name
        self.protocol = protocol
        self.server = server  # or a function of (value_len, depth)

    def measure(self, shape, keys, zipf, seconds):
        name, value_len, connections, depth = shape
        server = self.server(value_len, depth) if callable(self.server) else self.server
        [got] = generator.run(
            generator.stream(self.protocol, server.socket, prefix=servers.prefix_of(value_len), len=value_len
                             if self.protocol != "echo" else value_len + servers.REPLY_HEAD[value_len],
                             keys=keys, zipf=zipf, connections=connections, depth=depth),
            seconds=seconds, warm=min(0.2, seconds / 4), pid=server.pid)
        if got["misses"] or got["errors"]:
            raise SystemExit(f"bench: {self.name} has no value for some keys, {name}: {got}")
        got["cpu_us"] = got["server_cpu_s"] / got["replies"] * 1e6
        return got


class Contest:
    """All servers, filled; measured in turn."""

    def __init__(self, folder, origin, options):
        self.options = options
        self.many_keys = 2000 if options.quick else 100000
        self.echoes = {}
        self.folder = folder
        # in the table only at 1×1 and 50×1 is there anything to sleep for
        self.polling = servers.Daemon(folder / "polling", origin.dsn(),
                                      listen={"poll_before_sleep": "0.05ms"}).start()
        self.segard = servers.Daemon(folder / "segard", origin.dsn()).start()
        self.memcached = servers.memcached(folder)
        self.redis = servers.redis(folder)
        self.contenders = [
            Contender("memcached classic", "classic", self.memcached),
            Contender("memcached meta", "meta", self.memcached),
            Contender("redis", "redis", self.redis),
            Contender("segard", "segar", self.segard),
            Contender("segard, polling 50 µs", "segar", self.polling),
            Contender("echo", "echo", self.echo),
        ]

    def echo(self, value_len, depth):
        key = value_len, depth > 128
        if key not in self.echoes:
            self.echoes[key] = servers.echo(self.folder, value_len, depth)
        return self.echoes[key]

    def fill(self, many):
        for value_len, keys in HOT_KEYS.items():
            keys = self.many_keys if many and value_len == 100 else keys
            for protocol, server in (("segar", self.segard), ("segar", self.polling), ("classic", self.memcached),
                                     ("redis", self.redis)):
                generator.fill(protocol, server.socket, servers.prefix_of(value_len), value_len, keys)

    def run(self, shapes):
        """{(shape, contender): [measurements]}"""
        got = {(shape[0], c.name): [] for shape in shapes for c in self.contenders}
        for turn in range(self.options.rounds):
            self.options.say(f"round {turn + 1} of {self.options.rounds}")
            for shape in shapes:
                many = shape is MANY
                keys = self.many_keys if many else HOT_KEYS[shape[1]]
                for contender in self.contenders:
                    got[shape[0], contender.name].append(
                        contender.measure(shape, keys, None if many else ZIPF, self.options.seconds))
        return got

    def stop(self):
        for server in (self.segard, self.polling, self.memcached, self.redis, *self.echoes.values()):
            server.stop()


def medians(got):
    return {key: {name: statistics.median(m[name] for m in measured)
                  for name in ("per_s", "cpu_us", "p50_us", "p99_us", "p999_us")} for key, measured in got.items()}


def rate(per_s):
    return f"{per_s / 1e6:.2f} M/s" if per_s >= 1e6 else f"{per_s / 1e3:.1f} k/s"


def table(shapes, names, cell):
    lines = ["| server | " + " | ".join(shape[0] for shape in shapes) + " |", "|---" * (len(shapes) + 1) + "|"]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(cell(shape[0], name) for shape in shapes) + " |")
    return "\n".join(lines)


def report(got, shapes, names):
    """Markdown: rates as multiples of memcached's, processor time, percentiles, targets."""
    base = "memcached classic"

    def ratio(shape, name):
        ratio = got[shape, name]["per_s"] / got[shape, base]["per_s"]
        return f"1.0 ({rate(got[shape, name]['per_s'])})" if name == base else f"{ratio:.2f}"

    judged = []
    for shape, other, least in TARGETS:
        if (shape, other) in got:
            ratio_to = got[shape, "segard"]["per_s"] / got[shape, other]["per_s"]
            judged.append(f"| {shape} | {other} | {least:.2f} | {ratio_to:.2f} | "
                          f"{'reached' if ratio_to >= least else 'missed'} |")
    return "\n\n".join([
        "Replies a second, as multiples of memcached's classic `get`:",
        table(shapes, names, ratio),
        "Processor time of the server for each reply, µs (kernel's work included):",
        table(shapes, names, lambda shape, name: f"{got[shape, name]['cpu_us']:.2f}"),
        "Time of a reply at the client, p50 / p99 / p99.9 in µs (closed loop: at the highest rate):",
        table(shapes, names, lambda shape, name: " / ".join(
            f"{got[shape, name][p]:.0f}" for p in ("p50_us", "p99_us", "p999_us"))),
        "What segard is to reach, as a multiple of another:",
        "| | of | at least | measured | |\n|---|---|---|---|---|\n" + "\n".join(judged),
    ])


def run_hits(folder, origin, options):
    return run(folder, origin, options, SHAPES)


def run_keys(folder, origin, options):
    return run(folder, origin, options, [MANY])


def run(folder, origin, options, shapes):
    contest = Contest(folder, origin, options)
    try:
        options.say("filling")
        contest.fill(many=MANY in shapes)
        got = medians(contest.run(shapes))
        text = report(got, shapes, [c.name for c in contest.contenders])
        if MANY in shapes:
            text = f"{contest.many_keys:,} keys, each as likely as the others.\n\n{text}"
        return text
    finally:
        contest.stop()
