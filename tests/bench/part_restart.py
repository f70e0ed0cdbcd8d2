"""The first minute after a restart, with the hot keys' list and without."""
import contextlib
import subprocess
import time

import generator
import servers
from harness.wait import wait_until
from part_growth import table

RATE, KEYS = 200, 1000
SPACES = {"slow": {"query": "SELECT rpad($1::text, 100, 'x') || left(pg_sleep(0.05)::text, 0) AS value", "wait": "1m"}}


def load(daemon, seconds):
    return generator.start(generator.stream("segar", daemon.socket, prefix="slow:", len=100, keys=KEYS, zipf=0.99,
                                            connections=50, depth=64, rate=RATE), seconds=seconds, warm=0)


def counted(daemon):
    stats = daemon.stats()
    hits = stats["hits_fresh"] + stats["hits_stale"]
    return hits, hits + stats["misses"], stats["builds"]


def first_minute(daemon, seconds):
    """At each mark, in seconds after the first request: the share of hits since then, and the builds."""
    process, told = load(daemon, seconds), []
    wait_until(lambda: counted(daemon)[1] > 0, what="the first get")
    begun = time.monotonic()
    for mark in (seconds / 60, seconds / 6, seconds):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0, begun + mark - time.monotonic()))
        hits, gets, builds = counted(daemon)
        told.append((hits / max(1, gets), builds))
    [got] = generator.finish(process)
    return told, got


def run_restart(folder, origin, options):
    """One round: it takes minutes, and what is counted hardly varies."""
    seconds = 3 if options.quick else 60
    store = servers.Store(folder / "store")
    store.start()
    state = folder / "restart"
    daemon = servers.Daemon(state, origin.dsn(), SPACES, store={"url": store.url}, state_dir=str(state),
                            origin={"concurrency": 20, "budget": "100/s"}).start()
    rows = []
    try:
        generator.fill("segar", daemon.socket, "slow:", 100, KEYS, depth=16)
        for lost in (False, True):
            for listed in (True, False):
                options.say(f"Redis {'empty' if lost else 'full'}, {'with' if listed else 'without'} the list")
                generator.finish(load(daemon, seconds / 3))
                known = len(daemon.client().call("top", 1000)["hot"])
                daemon.stop()
                if lost:
                    store.flush()
                if not listed:
                    (state / "hot").unlink()
                daemon.start()
                if listed:
                    wait_until(lambda: daemon.stats()["hot_listed"], what="the list to be read")
                told, got = first_minute(daemon, seconds)
                rows.append(("lost all" if lost else "has all", f"{known} keys" if listed else "none",
                             *(f"{share:.2%}" for share, _ in told), *(builds for _, builds in told),
                             got["errors"]))
    finally:
        daemon.stop()
        store.stop()
    marks = [f"{seconds / 60:g} s", f"{seconds / 6:g} s", f"{seconds:g} s"]
    return (f"{RATE:,} gets a second from the first moment on, of {KEYS:,} keys by Zipf's law; builds of 50 ms, at most 100 a second. "
            "One round. Hits are answered from memory at once; counted since the start:\n\n" +
            table(("Redis", "hot list", *(f"hits, {mark}" for mark in marks), *(f"builds, {mark}" for mark in marks), "errors"),
                  rows))
