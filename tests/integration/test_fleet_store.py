"""Redis in trouble: reasons are told apart, the origin stays within its limits, nothing is lost for good."""
import time

import pytest

from harness.segard import PROGRAM
from harness.wait import wait_until
from harness.wire import Error, collect

CONCURRENCY = 4
BUDGET = 30  # less than is asked for at once


def hang_up(redis):
    for kind in "normal", "pubsub":
        redis.call("CLIENT", "KILL", "TYPE", kind)


def oom(redis):
    redis.call("CONFIG", "SET", "maxmemory", "1")


def oom_over(redis):
    redis.call("CONFIG", "SET", "maxmemory", "0")


def read_only(redis):
    redis.call("REPLICAOF", "127.0.0.1", "1")


def read_only_over(redis):
    redis.call("REPLICAOF", "NO", "ONE")


def misconf(redis):
    # a snapshot that cannot be written, and from then on no writes
    redis.call("CONFIG", "SET", "save", "1 1")
    (redis.folder / "dump.rdb").mkdir()
    redis.call("SET", "x", "1")
    redis.call("BGSAVE")
    wait_until(lambda: b"rdb_last_bgsave_status:err" in redis.call("INFO", "persistence"), what="a failed snapshot")


def misconf_over(redis):
    redis.call("CONFIG", "SET", "save", "")


def password(redis):
    redis.call("CONFIG", "SET", "requirepass", "secret")
    redis.password = "secret"
    hang_up(redis)


def password_over(redis):
    redis.call("CONFIG", "SET", "requirepass", "")
    redis.password = None


# what is done, what ends it, the reason that the daemons count
TROUBLES = {
    "oom": (oom, oom_over, "oom"),
    "read-only": (read_only, read_only_over, "readonly"),
    "misconf": (misconf, misconf_over, "misconf"),
    "password": (password, password_over, "password"),
}


@pytest.fixture
def fleet(origin, make_fleet):
    yield make_fleet(origin, 2, origin={"concurrency": CONCURRENCY, "budget": f"{BUDGET}/s"},
                     keyspaces={"item": {"wait": "60s"}})
    origin.check_rate(BUDGET)


def check_whole(origin, fleet):
    """All is as if nothing had been: every slot can be used, no key is held, all hosts share again."""
    fleet.wait_in_touch()
    fleet.wait_rest()
    with origin.gate("item") as gate:
        requests = [(client, client.send("get", f"item:{5000 + i}", {}))
                    for i, client in enumerate(fleet.connections(4 * CONCURRENCY))]
        gate.wait_for(CONCURRENCY)
        gate.open()
        collect(requests)
    before = origin.builds("item")
    assert fleet[0].client().get("item:6000")["state"] == "fresh"
    assert fleet[1].client().get("item:6000")["source"] == "store"
    assert origin.builds("item") == before + 1
    fleet.wait_rest()


def check_serving(fleet, keys):
    """Every key is answered by every host, or clearly not; what was in the near caches is served."""
    replies = collect([(client, client.send("get", f"item:{key}", {}))
                       for client in fleet.connections(len(fleet)) for key in keys])
    for reply in replies:
        if isinstance(reply, Error):
            assert reply.code in ("overloaded", "unavailable", "timeout"), reply
        else:
            assert reply["state"] in ("fresh", "stale"), reply
    assert not all(isinstance(reply, Error) for reply in replies)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_each_trouble_of_redis_has_its_name_and_leaves_nothing_behind(origin, fleet, trouble):
    begin, end, name = TROUBLES[trouble]
    near = fleet[0].client()
    assert near.get("item:1")["state"] == "fresh"
    with origin.gate("item") as gate:
        caught = [(client, client.send("get", f"item:{key}", {})) for key, client in
                  enumerate(fleet.connections(CONCURRENCY // 2), 100)]
        gate.wait_for(CONCURRENCY // 2)
        begin(fleet.redis)
        caught += [(client, client.send("get", f"item:{key}", {})) for key, client in
                   enumerate(fleet.connections(len(fleet)), 110)]
        wait_until(lambda: all(fleet.stats(f"store_error_{name}")), what=f"{name} to be counted")
        gate.open()
        assert {reply["state"] for reply in collect(caught)} == {"fresh"}
    assert near.get("item:1")["value"] == b"item 1"
    check_serving(fleet, range(200, 220))
    end(fleet.redis)
    check_whole(origin, fleet)


def test_a_busy_redis_is_told_apart_and_waited_for(origin, fleet):
    fleet.redis.call("CONFIG", "SET", "busy-reply-threshold", "10")
    with fleet.redis.sending("EVAL", "while true do end", "0"):
        wait_until(lambda: all(fleet.stats("store_error_busy")), what="busy to be counted")
        check_serving(fleet, range(200, 220))
        fleet.redis.call("SCRIPT", "KILL")
    check_whole(origin, fleet)


def test_scripts_that_redis_forgot_are_loaded_again(origin, fleet):
    for key in range(1, 20):
        fleet.redis.call("SCRIPT", "FLUSH")
        assert fleet[key % 2].client().get(f"item:{key}")["state"] == "fresh"
    assert origin.builds("item") == 19
    assert fleet.sum("builds") - fleet.sum("retries_late") == 19 and sum(fleet.stats("store_alone")) == 0
    check_whole(origin, fleet)


def test_a_redis_that_hangs_up_is_found_again(origin, fleet):
    with origin.gate("item") as gate:
        caught = [(client, client.send("get", f"item:{key}", {})) for key, client in
                  enumerate(fleet.connections(CONCURRENCY // 2), 100)]
        gate.wait_for(CONCURRENCY // 2)
        hang_up(fleet.redis)
        gate.open()
        assert {reply["state"] for reply in collect(caught)} == {"fresh"}
    check_whole(origin, fleet)


@pytest.mark.parametrize("how", ["restart", "pause"])
def test_a_build_outlives_its_redis(origin, fleet, how):
    with origin.gate("item") as gate:
        caught = [(client, client.send("get", "item:1", {})) for client in fleet.connections(20)]
        gate.wait_for(1)
        fleet.wait_sum(waiters=20)
        if how == "restart":
            fleet.redis.kill()
        else:
            fleet.redis.pause()
        gate.open()
        # on the host that builds; the other may build it too, being cut off from it
        assert {reply["value"] for reply in collect(caught)} == {b"item 1"}
        if how == "restart":
            fleet.redis.start()
        else:
            fleet.redis.go_on()
    assert origin.builds("item") <= 2
    check_whole(origin, fleet)


# clocks

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"


@pytest.mark.skipif(b"libasan" in PROGRAM.read_bytes() if PROGRAM.exists() else True,
                    reason="libfaketime and the sanitizers do not go together")
@pytest.mark.parametrize("steps", [["+600", "+600"], ["-600", "-600"], ["-600", "+600"]])
def test_a_host_with_a_wrong_clock_serves_nothing_too_old(origin, make_fleet, workshop, serial, steps):
    """By the moments that PostgreSQL wrote into the values. The clock may also step meanwhile."""
    file = workshop / f"time{next(serial)}"
    file.write_text(steps[0])
    wrong = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(file), "FAKETIME_DONT_FAKE_MONOTONIC": "1",
             "FAKETIME_NO_CACHE": "1"}
    fleet = make_fleet(origin, 2, environments={1: wrong}, keyspaces={"now": {
        "query": "SELECT extract(epoch FROM clock_timestamp()) || build_begins('now', '')::text AS value",
        "fresh": "1s", "stale": "500ms"}})
    with open(f"/proc/{fleet[1].process.pid}/maps") as maps:
        assert "libfaketime" in maps.read()
    clients = fleet.connections(2)
    generations = set()
    while len(generations) < 6:
        for client in clients:
            asked_at = time.time()
            reply = client.get("now")
            # no older when it was asked for, so much less when it was answered
            assert asked_at - float(reply["value"]) <= 1.5, reply
            generations.add(reply["value"])
        if len(generations) == 3:
            file.write_text(steps[1])
    assert origin.builds("now") <= len(generations) + 1
