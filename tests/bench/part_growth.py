"""What things cost as there is more of them."""
import resource
import signal
import socket
import subprocess
import time

import generator
import servers
from harness.wait import wait_until


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows])


def hits(server, options, prefix, keys, depth=16, value_len=100):
    """µs of the server's processor time for a hit."""
    [got] = generator.run(generator.stream("segar", server.socket, prefix=prefix, len=value_len, keys=keys,
                                           connections=50, depth=depth), seconds=options.seconds, pid=server.pid)
    if got["errors"] or got["misses"]:
        raise SystemExit(f"bench: {prefix} lacks values: {got}")
    return got["server_cpu_s"] / got["replies"] * 1e6


def run_memory(folder, _origin, options):
    """Bytes beyond key and value."""
    keys, value_len = 20000 if options.quick else 1000000, 100
    rows = []
    for name, protocol, start in (
            ("segard", "segar", lambda: servers.stand_in(folder, 4096)),
            ("memcached", "classic", lambda: servers.memcached(folder)),
            ("redis", "redis", lambda: servers.redis(folder))):
        server = start()
        try:
            prefix = "k0:own-100-"
            # what a first entry brings along is not the entries'
            generator.fill(protocol, server.socket, prefix, value_len, 1)
            before = server.rss_bytes()
            per_s = generator.fill(protocol, server.socket, prefix, value_len, keys)
            each = (server.rss_bytes() - before) / keys
            payload = value_len + len(prefix) + servers.KEY_DIGITS
            rows.append((name, f"{each:.0f}", f"{each - payload:.0f}", f"{per_s / 1000:.0f} k/s"))
        finally:
            server.stop()
    return f"{keys:,} entries of {value_len} B with keys of {payload - value_len} B, by resident memory:\n\n" + table(
        ("server", "bytes an entry", "beyond key and value", "filled at"), rows)


def run_entries(folder, _origin, options):
    """A hit's time, however many entries there are."""
    sizes = (1000, 10000) if options.quick else (1000, 10000, 100000, 1000000, 10000000)
    server = servers.stand_in(folder, 6144)
    rows = []
    try:
        for keys in sizes:
            generator.fill("segar", server.socket, "k0:own-20-", 20, keys)
            rows.append((f"{keys:,}", f"{hits(server, options, 'k0:own-20-', keys, value_len=20):.2f}",
                         f"{hits(server, options, 'k0:own-20-', keys, depth=1, value_len=20):.2f}"))
    finally:
        server.stop()
    return "Values of 20 B, uniform keys, 50 connections:\n\n" + table(
        ("entries", "µs of processor time a hit, 16 in flight", "1 in flight"), rows)


def run_idle(folder, origin, options):
    """Connections that do nothing."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    daemon = servers.Daemon(folder / "idle", origin.dsn(), limits={"connections": 12000}).start()
    rows, idle = [], []
    try:
        generator.fill("segar", daemon.socket, "v100:", 100, 1000)
        empty = daemon.process.rss_bytes()
        for count in (1, 10, 100) if options.quick else (1, 10, 100, 1000, 10000):
            while len(idle) < count:
                one = socket.socket(socket.AF_UNIX)
                one.connect(str(daemon.socket))
                idle.append(one)
            wait_until(lambda n=count: daemon.stats()["connections"] > n, what="the connections to be taken")
            rows.append((f"{count:,}", f"{hits(daemon, options, 'v100:', 1000):.2f}",
                         f"{max(0, daemon.process.rss_bytes() - empty) / count:.0f}"))
    finally:
        for one in idle:
            one.close()
        daemon.stop()
    return table(("idle connections", "µs a hit on 50 others", "bytes of memory each"), rows)


def run_keyspaces(folder, _origin, options):
    rows = []
    for count in (1, 10) if options.quick else (1, 10, 100, 1000):
        server = servers.stand_in(folder / str(count), 256, count)
        try:
            last = f"k{count - 1}:own-100-"
            filled = generator.fill("segar", server.socket, last, 100, 10000)
            rows.append((f"{count:,}", f"{hits(server, options, last, 1000):.2f}", f"{filled / 1000:.0f} k/s"))
        finally:
            server.stop()
    return "In the last of them:\n\n" + table(("keyspaces", "µs a hit", "misses"), rows)


STATE = b"\xa5state"  # once in each reply


def wait_on_one(daemon, count, key):
    """`count` requests for one key that is being built, on 100 connections. How long the daemon ran to take them in,
    and to answer them; and the time from the first answer to the last."""
    request = bytes([0x94, 0, 0, 0xa3]) + b"get\x91" + bytes([0xa0 | len(key)]) + key
    connections = min(count, 100)
    clients = []
    for i in range(connections):
        one = socket.socket(socket.AF_UNIX)
        one.connect(str(daemon.socket))
        clients.append((one, count // connections + (i < count % connections)))
    before = daemon.process.cpu_s()
    for one, requests in clients:
        one.sendall(request * requests)
    wait_until(lambda: daemon.stats()["waiters"] == count, what=f"{count} requests to wait")
    waiting = daemon.process.cpu_s()
    first = last = 0
    for one, requests in clients:
        came = b""
        while came.count(STATE) < requests:
            part = one.recv(1 << 20)
            last = time.monotonic()
            first = first or last
            if not part:
                raise SystemExit(f"bench: segard hung up on those that wait for {key}")
            came += part
        one.close()
    return waiting - before, daemon.process.cpu_s() - waiting, last - first


def run_waiters(folder, origin, options):
    spaces = {"slow": {"query": "SELECT $1::text || pg_sleep(5)::text AS value"}}
    daemon = servers.Daemon(folder / "waiters", origin.dsn(), spaces).start()
    rows = []
    try:
        for count in (1, 100) if options.quick else (1, 10, 100, 1000, 10000):
            took_in, answered, spread = wait_on_one(daemon, count, f"slow:{count}".encode())
            rows.append((f"{count:,}", f"{took_in * 1e6 / count:.0f}", f"{answered * 1e6 / count:.0f}",
                         f"{spread * 1000:.1f}"))
    finally:
        daemon.stop()
    return ("Requests for one key that takes 5 s to build (the daemon's processor time, in ticks of 10 ms: of few "
            "requests it says nothing):\n\n" + table(
                ("waiters", "µs to take one in", "µs to answer one", "ms from first to last answer"), rows))


def run_life(folder, origin, options):
    """Start-up, and the end with a full near cache."""
    keys = 20000 if options.quick else 1000000
    begun = time.monotonic()
    daemon = servers.Daemon(folder / "life", origin.dsn()).spawn()
    wait_until(daemon.answers, what="segard to answer")
    started = time.monotonic() - begun
    daemon.stop()
    server = servers.stand_in(folder, 4096)
    generator.fill("segar", server.socket, "k0:own-100-", 100, keys)
    begun = time.monotonic()
    server.process.signal(signal.SIGTERM)
    server.process.wait(120)
    return table(("", "ms"), [("start-up, to the first answer", f"{started * 1000:.0f}"),
                              (f"stop, with {keys:,} entries", f"{(time.monotonic() - begun) * 1000:.0f}")])


def redis_benchmark(store, seconds):
    count = int(100000 * seconds)
    told = subprocess.run(["redis-benchmark", "-s", store.socket, "-c", "50", "-n", str(count), "-d", "100", "-q", "--csv",
                           "-t", "get"], capture_output=True, text=True, check=True, preexec_fn=servers.pin(1))
    return float(told.stdout.splitlines()[-1].split(",")[1].strip('"'))


def pgbench(folder, origin, seconds):
    script = folder / "query.sql"
    script.write_text("\\set id random(1, 1000000000)\nSELECT rpad(:id::text, 100, 'x') AS value;\n")
    server = origin.server
    program = next(iter(sorted(servers.pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench"))))
    told = subprocess.run([program, "-n", "-M", "prepared", "-c", "4", "-f", script, "-T", str(max(1, round(seconds))),
                           "-h", server.folder, "-U", "postgres", "postgres"], capture_output=True, text=True, check=True)
    return float(next(line for line in told.stdout.splitlines() if line.startswith("tps")).split()[2])


def run_misses(folder, origin, options):
    """What goes past the near cache."""
    keys = 8000 if options.quick else 50000
    store = servers.Store(folder / "store")
    store.start()
    daemon = servers.Daemon(folder / "misses", origin.dsn(), store={"url": store.url}, near={"memory": "1MiB"},
                            state_dir=str(folder)).start()
    try:
        builds = generator.fill("segar", daemon.socket, "v100:", 100, keys)
        # the near cache holds a part of them at most
        loads = generator.fill("segar", daemon.socket, "v100:", 100, keys)
        rows = [("builds: segard, a lease, a permit and a save each", f"{builds:,.0f}"),
                ("the same query: pgbench, 4 clients, prepared", f"{pgbench(folder, origin, 2 * options.seconds):,.0f}"),
                ("loads from Redis: segard", f"{loads:,.0f}"),
                ("GET: redis-benchmark, 50 clients", f"{redis_benchmark(store, options.seconds):,.0f}")]
    finally:
        daemon.stop()
        store.stop()
    return table(("", "per second"), rows)
