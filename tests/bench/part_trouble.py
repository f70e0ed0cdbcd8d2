"""The time of hits while other things go wrong: an open loop, timed from when each request was due."""
import contextlib
import statistics
import threading

import generator
import servers
from harness.wire import Client, Error

RATE = 50000
SMALL = {"prefix": "hot:", "len": 100, "connections": 50, "depth": 64}
TROUBLED = 1.5  # times the quiet value, at most
BESIDE_BIG = 2.0


def spaces():
    made = {"query": "SELECT rpad($1::text, 100, 'x') AS value"}
    return {"hot": {**made, "fresh": "1d", "wait": "5m"},
            "brief": {**made, "fresh": "1s", "stale": "30s"},
            "cold": {"query": "SELECT rpad($1::text, 100, 'x') || left(pg_sleep(0.02)::text, 0) AS value", "wait": "1m"},
            "v204800": {"query": "SELECT rpad($1::text, 204800, 'x') AS value"}}


def hot(daemon, **settings):
    return generator.stream("segar", daemon.socket, name="hits", rate=RATE, **{**SMALL, **settings})


@contextlib.contextmanager
def meanwhile(act, every_s):
    """`act` again and again, until the block ends."""
    ended = threading.Event()

    def loop():
        while not ended.wait(every_s):
            act()

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def quiet(daemon, _store, seconds):
    return generator.run(hot(daemon), seconds=seconds)[0]


def soft_expiry(daemon, _store, seconds):
    """The hot key's freshness ends once a second: served stale, and built anew, beside."""
    with Client(daemon.socket) as client, meanwhile(lambda: client.call("invalidate", "hot:0000000000"), 1):
        return generator.run(hot(daemon), seconds=seconds)[0]


def short_fresh(daemon, _store, seconds):
    return generator.run(hot(daemon, prefix="brief:"), seconds=seconds)[0]


def misses(daemon, _store, seconds):
    """1,000 other keys are asked for that nobody has, and wait for the origin."""
    cold = generator.stream("segar", daemon.socket, name="cold", prefix="cold:", len=100, keys=1 << 30,
                            connections=10, depth=100)
    return generator.run(hot(daemon), cold, seconds=seconds)[0]


def redis_down(daemon, store, seconds):
    store.pause()
    try:
        return generator.run(hot(daemon), seconds=seconds)[0]
    finally:
        store.go_on()


def redis_dead(daemon, store, seconds):
    store.kill()
    try:
        return generator.run(hot(daemon), seconds=seconds)[0]
    finally:
        store.start()


def reload(daemon, _store, seconds):
    """The configuration is read again four times a second. None: this daemon doesn't do that."""
    with Client(daemon.socket) as client:
        try:
            client.call("reload")
        except Error as error:
            if error.code == "unknown_method":
                return None
            raise
        with meanwhile(lambda: client.call("reload"), 0.25):
            return generator.run(hot(daemon), seconds=seconds)[0]


warmed = 0


def warm_up(daemon, _store, seconds):
    """Thousands of keys that nobody asks for are built. None: this daemon doesn't do that."""
    global warmed
    warmed += 1
    with Client(daemon.socket) as client:
        try:
            client.call("warm", {"keys": [f"hot:w{warmed}-{i}" for i in range(1000)]})
        except Error as error:
            if error.code == "unknown_method":
                return None
            raise
    return generator.run(hot(daemon), seconds=seconds)[0]


def big(daemon, _store, seconds, rate=2000):
    values = generator.stream("segar", daemon.socket, name="big", prefix="v204800:", len=204800, keys=10,
                              connections=20, depth=4, rate=rate)
    return generator.run(hot(daemon), values, seconds=seconds)[0]


# (name, what happens, how many times the quiet p99 and p99.9 are allowed)
TROUBLES = [
    ("nothing", quiet, None),
    ("the hot key is invalidated once a second", soft_expiry, TROUBLED),
    ("the hot key is fresh for 1 s only", short_fresh, TROUBLED),
    ("1,000 other keys miss", misses, TROUBLED),
    ("the configuration is reloaded 4 times a second", reload, TROUBLED),
    ("1,000 keys are warmed up", warm_up, TROUBLED),
    ("Redis is paused", redis_down, TROUBLED),
    ("Redis is killed", redis_dead, TROUBLED),
    ("200 KiB values at 2,000/s beside", big, BESIDE_BIG),
]


def run_trouble(folder, origin, options):
    store = servers.Store(folder / "store")
    store.start()
    daemon = servers.Daemon(folder / "trouble", origin.dsn(), spaces(), store={"url": store.url},
                            origin={"concurrency": 4, "budget": "1000/s"}, state_dir=str(folder)).start()
    seconds = options.seconds if options.quick else max(3, options.seconds)
    measured = {name: [] for name, _, _ in TROUBLES}
    try:
        for prefix, value_len, keys in (("hot:", 100, 1), ("brief:", 100, 1), ("v204800:", 204800, 10)):
            generator.fill("segar", daemon.socket, prefix, value_len, keys)
        for turn in range(options.rounds):
            options.say(f"round {turn + 1} of {options.rounds}")
            for name, act, _ in TROUBLES:
                got = act(daemon, store, seconds)
                if got:
                    measured[name].append(got)
    finally:
        daemon.stop()
        store.stop()
    return report(measured)


def report(measured):
    lines = ["| meanwhile | p50 µs | p99 µs | p99.9 µs | p99, times quiet | allowed | stale | errors |", "|---" * 8 + "|"]
    quiet_p99 = statistics.median(m["p99_us"] for m in measured[TROUBLES[0][0]])
    for name, _, allowed in TROUBLES:
        if not measured[name]:
            continue
        got = {p: statistics.median(m[p] for m in measured[name]) for p in ("p50_us", "p99_us", "p999_us")}
        lines.append(f"| {name} | {got['p50_us']:.0f} | {got['p99_us']:.0f} | {got['p999_us']:.0f} | "
                     f"{got['p99_us'] / quiet_p99:.2f} | {allowed or ''} | "
                     f"{sum(m['stale'] for m in measured[name])} | {sum(m['errors'] for m in measured[name])} |")
    return (f"Hits of one key, {RATE:,} a second, on {SMALL['connections']} connections, each timed from the moment that it was "
            "due:\n\n" + "\n".join(lines))
