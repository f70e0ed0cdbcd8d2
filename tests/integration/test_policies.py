"""What docs/POLICIES.md promises of each policy, from outside; where another file has it already, not here again."""
import pytest

from harness.wait import wait_until
from harness.wire import Error, collect


def test_a_client_with_ten_thousand_missing_keys_does_not_starve_one_with_a_single_one(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1, "budget": "20000/s"}).start()
    greedy, modest = segard.connections(2)
    with origin.gate("item") as gate:
        first = modest.send("get", "item:1", {})
        gate.wait_for(1)
        for begin in range(1, 10001, 1000):
            greedy.send("mget", [f"text:{i}" for i in range(begin, begin + 1000)], {})
        wait_until(lambda: segard.stats()["waiters"] > 5000)
        single = modest.send("get", "item:2", {})
        segard.wait_stats(timeout=30, requests=10002)
        gate.open()
        assert modest.receive(first)["value"] == b"item 1"
        assert modest.receive(single)["value"] == b"item 2"
    order = [(keyspace, arg) for _, keyspace, arg in origin.build_log()]
    assert order.index(("item", "2")) < 10
    greedy.close()


def test_a_queued_refresh_rises_when_someone_waits_for_it(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1}).start()
    client = segard.client()
    with origin.gate("item") as gate:
        busy = client.send("get", "item:100", {})
        gate.wait_for(1)
        for i in range(1, 6):
            client.refresh(f"item:{i}", wait_ms=0)
        segard.wait_stats(queued=5)
        waiting = client.send("get", "item:5", {})
        segard.wait_stats(waiters=2)
        gate.open()
        client.receive(busy)
        assert client.receive(waiting)["value"] == b"item 5"
    segard.wait_stats(queued=0, flights=0)
    assert [arg for _, _, arg in origin.build_log()][:2] == ["100", "5"]


def test_background_work_is_dropped_where_there_is_no_room(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1},
                         keyspaces={"item": {"fresh": "20ms", "stale": "10m"}}).start()
    client = segard.client()
    client.get("item:1")
    with origin.gate("text") as gate:
        busy = client.send("get", "text:1", {})
        gate.wait_for(1)
        # an early refresh may have been dropped before, and the next is not tried at once
        wait_until(lambda: client.get("item:1")["state"] == "stale" and
                   client.call("stats", "item")["refreshes"].get("stale.dropped", 0) > 0,
                   what="a refresh to be dropped")
        stats = client.stats()
        assert (stats["queued"], stats["inside"]) == (0, 1)
        assert client.get("item:1")["state"] == "stale"
        gate.open()
        client.receive(busy)
    wait_until(lambda: client.get("item:1")["value"] == b"item 1")
    assert origin.builds("text") == 1


def test_failures_are_kept_ever_longer(origin, make_segard):
    """Twice as long each time it fails again, and up to a tenth more."""
    segard = make_segard(origin, keyspaces={"item": {"error": "400ms"}}).start()
    client = segard.client()
    told = {}

    def failed_so_often(builds):
        with pytest.raises(Error) as failure:
            client.get("item:1")
        if origin.builds("item") == builds:
            told.setdefault(builds, failure.value.retry_after_ms)
        return builds in told

    origin.behave("item", error="broken")
    for builds in (1, 2, 3):
        wait_until(lambda: failed_so_often(builds))
    # what is told is what is left of it: on a busy machine less, but never more
    assert told[1] <= 440 and told[2] <= 880 and told[3] <= 1760
    assert told[2] > 440 or told[3] > 880, told


def test_a_lost_origin_is_probed_by_one_at_a_time(own_origin, make_segard):
    segard = make_segard(own_origin, keyspaces={"item": {"wait": "200ms"}}).start()
    clients = segard.connections(50)
    clients[0].get("item:1")
    own_origin.server.kill()
    key = 100
    for _ in range(6):
        requests = []
        for client in clients:
            key += 1
            requests.append((client, client.send("get", f"item:{key}", {})))
        assert {reply.code for reply in collect(requests)} <= {"unavailable", "overloaded"}
    account = clients[0].call("stats", "item")
    stats = segard.stats()
    assert stats["breaker_opened"] >= 1 and stats["breaker"] != 0
    # 300 keys were asked for; only probes have tried, and those that were under way when it went away
    assert account["builds"] + account["breaker_refused"] >= 100
    assert account["builds_lost"] < 100 < account["breaker_refused"]
    own_origin.server.start()

    def is_back():
        try:
            return clients[0].get("item:7")["value"] == b"item 7"
        except Error as error:
            assert error.code in ("unavailable", "overloaded", "timeout")
            return False

    wait_until(is_back)
    assert segard.stats()["breaker"] == 0


def test_times_of_a_row_are_bounded(origin, make_segard):
    """Nothing, the least, the most and what is not taken."""
    def times(fresh, stale):
        return {"query": f"SELECT 'x' AS value, {fresh} AS fresh_ms, {stale} AS stale_ms", "jitter": "0%", "error": "10m"}

    most = 3650 * 86400 * 1000
    segard = make_segard(origin, keyspaces={
        "least": times(1, 0), "most": times(f"{most}::bigint", f"{most}::bigint"), "none": times(0, 5),
        "negative": times(5, -1), "huge": times(f"{most + 1}::bigint", 5), "never": times("NULL::int", "NULL::int"),
    }).start()
    client = segard.client()
    assert client.get("least")["state"] == "fresh"
    reply = client.get("most")
    assert reply["state"] == "fresh" and 0 < reply["ttl_ms"] <= most
    assert client.get("most")["source"] == "near"
    assert client.get("never")["ttl_ms"] <= 600000
    for name, said in (("none", "fresh_ms is 0; expected 1 to"), ("negative", "stale_ms is -1; expected 0 to"),
                       ("huge", f"fresh_ms is {most + 1}; expected 1 to {most}")):
        with pytest.raises(Error, match="^origin_error: .*" + said):
            client.get(name)


def refreshes(client, cause):
    return sum(count for name, count in client.call("stats", "item")["refreshes"].items() if name.startswith(cause))


def test_a_hot_value_is_refreshed_before_it_expires_each_time_by_one_build(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"fresh": "1s", "stale": "10m", "early": 1.0}}).start()
    origin.behave("item", delay_s=0.1)
    client = segard.client()

    def refreshed():
        for _ in range(100):
            assert client.get("item:1")["state"] in ("fresh", "stale")
        return refreshes(client, "early.") >= 3

    wait_until(refreshed, what="three early refreshes")
    segard.wait_stats(flights=0)
    assert origin.builds("item") == refreshes(client, "")


def test_without_early_there_is_none(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"fresh": "50ms", "stale": "10m", "early": 0}}).start()
    client = segard.client()
    wait_until(lambda: client.get("item:1") and refreshes(client, "stale.") >= 5, what="five refreshes")
    assert refreshes(client, "early.") == 0


def test_an_invalidated_keyspace_is_built_anew_key_by_key_over_the_fleet(origin, make_fleet):
    fleet = make_fleet(origin, 2)
    keys = [f"item:{i}" for i in range(1, 41)]
    clients = [daemon.client() for daemon in fleet]
    for client in clients:
        assert all(reply["state"] == "fresh" for reply in client.call("mget", keys, {}))
    assert origin.builds("item") == 40
    origin.sql("UPDATE items SET value = 'newer', row_version = 100000 WHERE id <= 40")
    clients[0].call("invalidate", {"keyspace": "item", "spread_ms": 500})

    def all_newer():
        replies = [reply for client in clients for reply in client.call("mget", keys, {})]
        assert all(reply["value"] for reply in replies), "it is served meanwhile"
        return all((reply["value"], reply["state"]) == (b"newer", "fresh") for reply in replies)

    wait_until(all_newer, what="all to be built anew")
    assert origin.builds("item") == 80


def test_a_version_that_never_comes_costs_few_builds_and_is_named_as_the_reason(segard, origin):
    """After the first, 20, 80, 320 and 1280 ms lie between them, at least."""
    client = segard.client()
    with pytest.raises(Error) as missing:
        client.get("item:1", min_version=10**9, wait_ms=3000)
    assert missing.value.code == "timeout" and "no such version" in str(missing.value)
    assert 2 <= origin.builds("item") <= 5
    assert client.get("item:1")["version"] == 1


def test_an_mget_keeps_what_was_built_for_it_beside_a_slow_key(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"fresh": "20ms", "stale": "0s"}}).start()
    client, other = segard.connections(2)
    origin.sql("INSERT INTO texts VALUES ('slow', 'at last')")
    with origin.gate("text") as gate:
        request = client.send("mget", ["item:1", "text:slow"], {})
        gate.wait_for(1)
        # another's later get has it built again: the first value is over
        wait_until(lambda: other.get("item:1") and origin.builds("item") >= 2, what="the value to end")
        built = origin.builds("item")
        gate.open()
        reply = client.receive(request)
    assert [each["value"] for each in reply] == [b"item 1", b"at last"]
    assert (reply[0]["state"], reply[0]["ttl_ms"]) == ("fresh", 0)
    assert origin.builds("item") == built
