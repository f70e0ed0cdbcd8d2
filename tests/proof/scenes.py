"""What happens to the fleet, one scene after the other, and what DESIGN.md allows under it.

A scene says what the checker may excuse, and why:

    extra    builds of one key beside the one of its expiry, by keyspace: each for a lease that is lost
    alone    a span of events in which the store is away: one build a daemon more
    burst    begins of builds in one second beside the budget
    errors   codes of errors that may be served, by keyspace; none elsewhere, but those of the keys that were never built
"""
import signal
import socket
import threading


from world import CONCURRENCY, WRONG_CLOCK, let_pass

from harness.wait import wait_until  # where world.py says
from harness.wire import Client, Error, request

SCENES = []
# What a request may be told that finds nothing to serve, while the origin or its budget has no room for all.
BUSY = ["timeout", "overloaded"]
AWAY = [*BUSY, "unavailable", "origin_error"]


def scene(title, seconds, hot="hot", rows=0.2, items=5, short=False, more=(), needs=lambda world: True, **allow):
    """`seconds`: how long the load lasts, for the fresh time at hand."""

    def add(act):
        SCENES.append({"name": act.__name__, "title": title, "act": act, "seconds": seconds, "hot": hot,
                       "writes": {table: rate for table, rate in (("rows", rows), ("items", items)) if rate},
                       "short": short, "more": more, "needs": needs,
                       "allow": {"extra": {}, "alone": False, "burst": 0, "errors": {}, **allow}})
        return act

    return add


def streams(one, size):
    rest = sum(stream["rate"] for stream in one["more"])
    hot = {"keyspace": one["hot"], "rate": 0.9 * size.rate - rest}
    return [hot, {"keyspace": "item", "rate": 0.1 * size.rate, "keys": size.items, "zipf": 1.0}, *one["more"]]


def after_fresh(size):
    """Long enough for two expiries."""
    return 2.3 * (1 + size.jitter) * size.fresh_ms / 1000


def at_least(seconds):
    return lambda size: max(seconds, 1.2 * (1 + size.jitter) * size.fresh_ms / 1000)


def refresh(world, host, key="hot:1"):
    """Has that daemon build the key; nobody waits for it."""
    client = world.client(host)
    world.event("refresh", keyspace=key.split(":")[0], key=int(key.split(":")[1]))
    client.send("refresh", key, {"wait_ms": 3000})
    wait_until(lambda: world.daemons[host].stats()["permits"] > 0, what="the build")


# nothing goes wrong


@scene("Cold start: an empty Redis, empty daemons, all keys asked for at once", at_least(15), short=True,
       errors={"item": BUSY})
def cold_start(world):
    pass


@scene("Soft expiry of the hot key, early refresh off", after_fresh, hot="soft", rows=0, short=True, errors={"item": BUSY})
def soft_expiry(world):
    pass


@scene("Soft expiry with early refresh", after_fresh, rows=0, errors={"item": BUSY})
def early_refresh(world):
    pass


@scene("Hard expiry of the hot key: no stale value may be served", after_fresh, hot="hard", rows=0, short=True,
       errors={"item": BUSY})
def hard_expiry(world):
    pass


# changes


@scene("The hot row is updated 100 times a second", at_least(15), rows=100, short=True, errors={"item": BUSY})
def updates(world):
    pass


@scene("All items expire at once", at_least(15), errors={"item": BUSY})
def mass_expiry(world):
    let_pass(2)
    world.event("invalidate", keyspace="item", spread_ms=0)
    world.client(0).call("invalidate", {"keyspace": "item"})


@scene("A keyspace is invalidated over 10 s", at_least(18), errors={"item": BUSY})
def invalidation(world):
    let_pass(2)
    world.event("invalidate", keyspace="item", spread_ms=10000)
    world.client(0).call("invalidate", {"keyspace": "item", "spread_ms": 10000})


@scene("A flood of keys that do not exist", at_least(12), short=True, errors={"item": BUSY},
       more=[{"keyspace": "item", "rate": 500, "keys": 1 << 30, "from": 1000000}])
def penetration(world):
    pass


# builders


@scene("The builder is killed before its write", at_least(15), short=True, extra={"hot": 1}, errors={"item": BUSY})
def builder_killed(world):
    let_pass(2)
    refresh(world, 0)
    with world.span("daemon down", daemon=0):
        world.daemons[0].kill()
        let_pass(2)
        world.daemons[0].start()


@scene("The builder is paused past its lease", at_least(20), extra={"hot": 1}, errors={"item": BUSY})
def builder_paused(world):
    let_pass(2)
    refresh(world, 2)
    with world.span("daemon paused", daemon=2):
        world.daemons[2].process.signal(signal.SIGSTOP)
        let_pass(10)
        world.daemons[2].process.signal(signal.SIGCONT)


# deploys


def restart(world, host):
    daemon = world.daemons[host]
    with world.span("daemon down", daemon=host):
        daemon.stop()
        daemon.clients = []
        daemon.start()


@scene("A deploy: all daemons restarted one by one", lambda size: 8 + 0.35 * size.daemons, short=True, errors={"item": BUSY})
def rolling_restart(world):
    let_pass(2)
    world.event("restart one by one")
    for host in range(len(world.daemons)):
        restart(world, host)


# Two processors start a hundred daemons for longer than Redis may take to answer them: for some it is away.
@scene("All daemons restarted at once", at_least(20), alone=True, errors={"item": AWAY, "hot": AWAY})
def restart_at_once(world):
    let_pass(2)
    world.event("restart at once")
    threads = [threading.Thread(target=restart, args=[world, host]) for host in range(len(world.daemons))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


# Redis


@scene("Redis is killed, and comes back empty", at_least(30), short=True, alone=True, extra={"hot": 1, "item": 1},
       errors={"item": AWAY, "hot": AWAY})
def redis_killed(world):
    let_pass(2)
    with world.span("redis away"):
        world.redis.kill()
        let_pass(5 if world.size.short else 15)
        world.redis.start()


@scene("Redis is paused", at_least(25), alone=True, extra={"hot": 1, "item": 1}, errors={"item": AWAY, "hot": AWAY})
def redis_paused(world):
    let_pass(2)
    with world.span("redis away"):
        world.redis.pause()
        let_pass(10)
        world.redis.go_on()


@scene("Redis is flushed", at_least(15), short=True, extra={"hot": 1, "item": 1}, errors={"item": BUSY})
def redis_flushed(world):
    let_pass(3)
    world.event("redis flushed")
    world.redis.flush()


@scene("Redis is out of memory", at_least(22), alone=True, extra={"hot": 1, "item": 1}, errors={"item": AWAY, "hot": AWAY})
def redis_oom(world):
    let_pass(2)
    with world.span("redis away"):
        world.redis.call("CONFIG", "SET", "maxmemory", "1")
        let_pass(10)
        world.redis.call("CONFIG", "SET", "maxmemory", "0")


@scene("Redis is read-only", at_least(22), alone=True, extra={"hot": 1, "item": 1}, errors={"item": AWAY, "hot": AWAY})
def redis_readonly(world):
    let_pass(2)
    with world.span("redis away"):
        world.redis.call("REPLICAOF", "127.0.0.1", "1")
        let_pass(10)
        world.redis.call("REPLICAOF", "NO", "ONE")


@scene("Redis is cut off from half of the daemons", at_least(22), short=True, alone=True, extra={"hot": 1, "item": 1},
       errors={"item": AWAY, "hot": AWAY})
def redis_cut_off(world):
    let_pass(2)
    with world.span("redis away"):
        world.relay.refusing = True
        world.relay.cut_all()
        let_pass(10)
        world.relay.refusing = False


@scene("Redis is restarted on a clock 10 minutes ahead", at_least(22), alone=True, extra={"hot": 1, "item": 1},
       errors={"item": AWAY, "hot": AWAY})
def redis_other_clock(world):
    let_pass(2)
    with world.span("redis away"):
        world.redis.kill()
        world.set_skew(600_000_000)
        let_pass(1)
        world.redis.start()


# PostgreSQL


@scene("PostgreSQL is killed, and started after 5 s", at_least(25), short=True, extra={"hot": 1, "item": 1},
       errors={"item": AWAY, "hot": AWAY})
def origin_killed(world):
    let_pass(2)
    with world.span("origin away"):
        world.postgres.kill()
        let_pass(5)
        world.postgres.start()


@scene("PostgreSQL is restarted", at_least(20), extra={"hot": 1, "item": 1}, errors={"item": AWAY, "hot": AWAY})
def origin_restarted(world):
    let_pass(2)
    with world.span("origin away"):
        world.postgres.stop()
        world.postgres.start()


@scene("PostgreSQL is ten times slower", at_least(25), errors={"item": AWAY, "hot": AWAY})
def origin_slow(world):
    let_pass(2)
    with world.span("origin slow"):
        world.set_pace(10)
        let_pass(10)
        world.set_pace()


@scene("PostgreSQL hangs", at_least(30), extra={"hot": 1, "item": 1}, burst=CONCURRENCY, errors={"item": AWAY, "hot": AWAY})
def origin_hangs(world):
    let_pass(2)
    with world.span("origin away"):
        world.postgres.pause()
        let_pass(10)
        world.postgres.resume()


@scene("PostgreSQL has no connections left", at_least(25), extra={"hot": 1, "item": 1}, errors={"item": AWAY, "hot": AWAY})
def origin_full(world):
    let_pass(2)
    with world.span("origin away"):
        world.postgres.sql("ALTER ROLE segard CONNECTION LIMIT 1")
        world.postgres.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'segard'")
        let_pass(8)
        world.postgres.sql("ALTER ROLE segard CONNECTION LIMIT -1")


# hosts and clients


@scene("One host's clock is 10 minutes wrong, and steps", at_least(20), errors={"item": BUSY},
       needs=lambda world: world.wrong_clock() is not None)
def wrong_clock(world):
    for offset in ("+600", "-600", "+0"):
        let_pass(4)
        world.event("clock", daemon=WRONG_CLOCK, offset_s=offset)
        world.wrong_time.write_text(offset)


@scene("A client that does not read, 1,000 that say nothing, one that sends garbage", at_least(12), short=True,
       errors={"item": BUSY})
def bad_clients(world):
    let_pass(2)
    world.event("bad clients")
    idle = [socket.socket(socket.AF_UNIX) for _ in range(1000)]
    for sock in idle:
        sock.connect(str(world.daemons[4 % len(world.daemons)].socket))
    slow = socket.socket(socket.AF_UNIX)
    slow.connect(str(world.daemons[3 % len(world.daemons)].socket))
    slow.setblocking(False)
    for number in range(20000):
        try:
            slow.send(request(number, "get", "hot:1"))
        except BlockingIOError:
            break
    for _ in range(50):
        with socket.socket(socket.AF_UNIX) as garbage:
            garbage.connect(str(world.daemons[5 % len(world.daemons)].socket))
            garbage.sendall(b"\xc1" * 100)
    let_pass(5)
    for sock in [slow, *idle]:
        sock.close()


# last: the first server is gone then


@scene("PostgreSQL fails over to a standby that lags", at_least(30), extra={"hot": 2, "item": 1}, rows=2,
       errors={"item": AWAY, "hot": AWAY})
def origin_failed_over(world):
    let_pass(3)
    world.standby.sql("ALTER SYSTEM SET primary_conninfo = ''")
    world.standby.sql("SELECT pg_reload_conf()")
    let_pass(4)
    with world.span("origin away"):
        world.postgres.kill()
        let_pass(2)
        world.event("promoted")
        world.standby.sql("SELECT pg_promote()")
    world.failed_over()


def prepare_standby(world):
    world.standby = world.postgres.make_standby(world.folder / "pg2").start()


origin_failed_over.prepare = prepare_standby


def check_whole(world):
    """After each scene: all daemons serve the hot key, and share."""
    world.wait_in_touch()
    for daemon in world.daemons:
        with Client(daemon.socket) as client:
            def served():
                try:
                    return client.get("hot:1", wait_ms=3000)["state"] in ("fresh", "stale")
                except Error:
                    return False
            wait_until(served, 30, what="the hot key to be served")
