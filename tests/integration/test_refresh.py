"""Promises 3, 4 and 6: how old a reply may be, and that it says so."""
import pytest

from harness.wait import wait_until
from harness.wire import Error, collect


@pytest.fixture
def client(segard):
    return segard.client()


# refresh and min_version


def test_refresh_is_not_answered_by_a_build_that_began_before(segard, origin, client):
    with origin.gate("item") as gate:
        early = client.send("get", "item:1", {})
        gate.wait_for(1)
        origin.set_item(1, "new", 2)
        late = client.send("refresh", "item:1", {})
        segard.wait_stats(waiters=2)
        gate.open()
        assert client.receive(early)["value"] == b"item 1"
        reply = client.receive(late)
    assert (reply["version"], reply["built"]) == (2, True)
    assert client.get("item:1")["value"] == b"new"
    assert origin.builds("item") == 2


def test_min_version_is_not_answered_by_a_build_that_began_before(segard, origin, client):
    with origin.gate("item") as gate:
        early = client.send("get", "item:1", {})
        gate.wait_for(1)
        origin.set_item(1, "new", 2)
        late = client.send("get", "item:1", {"min_version": 2})
        segard.wait_stats(waiters=2)
        gate.open()
        assert client.receive(early)["version"] == 1
        reply = client.receive(late)
    assert (reply["value"], reply["version"]) == (b"new", 2)
    assert origin.builds("item") == 2


def test_many_refreshes_in_a_build_share_one_next_build(segard, origin):
    clients = segard.connections(50)
    with origin.gate("item") as gate:
        early = clients[0].send("get", "item:1", {})
        gate.wait_for(1)
        requests = [(c, c.send("refresh", "item:1", {})) for c in clients]
        segard.wait_stats(waiters=51)
        gate.open()
        assert clients[0].receive(early)["value"] == b"item 1"
        collect(requests)
    assert origin.builds("item") == 2


def test_refresh_replaces_a_fresh_value(origin, client):
    assert client.get("item:1")["value"] == b"item 1"
    origin.set_item(1, "new", 20000)
    assert client.get("item:1")["value"] == b"item 1"
    assert client.refresh("item:1")["version"] == 20000
    reply = client.get("item:1")
    assert (reply["state"], reply["value"], reply["source"]) == ("fresh", b"new", "near")


def test_refresh_builds_nothing_when_the_entry_is_new_enough(origin, client):
    origin.set_item(1, "item 1", 5)
    client.get("item:1")
    for options in ({"min_version": 5}, {"min_version": 4}, {"if_older_ms": 600000}):
        reply = client.refresh("item:1", **options)
        assert (reply["built"], reply["version"]) == (False, 5)
    assert origin.builds("item") == 1
    assert client.refresh("item:1", min_version=6)["built"]
    assert origin.builds("item") == 2


def test_get_with_a_satisfied_min_version_builds_nothing(origin, client):
    origin.set_item(1, "item 1", 5)
    client.get("item:1")
    assert client.get("item:1", min_version=5)["source"] == "near"
    assert origin.builds("item") == 1


def test_refresh_that_does_not_wait_returns_at_once_and_builds(segard, origin, client):
    client.get("item:1")
    origin.set_item(1, "new", 20000)
    with origin.gate("item") as gate:
        first = client.refresh("item:1", wait_ms=0)
        second = client.refresh("item:1", wait_ms=0)
        assert first["queued"] and not first["joined"]
        assert second["queued"]
        gate.wait_for(1)
    wait_until(lambda: client.get("item:1")["value"] == b"new")


def test_an_inserted_row_shows_on_the_next_refresh(origin, client):
    assert client.get("item:77777")["state"] == "absent"
    origin.set_item(77777, "born", 1)
    reply = client.get("item:77777")
    assert (reply["state"], reply["value"]) == ("absent", None)
    client.refresh("item:77777")
    assert client.get("item:77777")["value"] == b"born"
    assert origin.builds("item") == 2


def test_a_deleted_row_is_absent_after_a_refresh(origin, client):
    client.get("item:1")
    origin.sql("DELETE FROM items WHERE id = 1")
    client.refresh("item:1")
    reply = client.get("item:1")
    assert (reply["state"], reply["value"], reply["version"]) == ("absent", None, None)


def test_an_older_version_does_not_replace_a_newer_one(origin, client):
    """A replica that lags, or a build that was delayed."""
    origin.set_item(1, "new", 10)
    client.get("item:1")
    origin.set_item(1, "old", 9)
    client.refresh("item:1")
    reply = client.get("item:1")
    assert (reply["version"], reply["value"]) == (10, b"new")


# stale replies


@pytest.fixture
def brief(origin, make_segard):
    """Keyspace item is fresh for 50 ms only, stale for long."""
    return make_segard(origin, keyspaces={"item": {"fresh": "50ms", "stale": "10m", "negative": "50ms"}}).start()


def test_a_stale_value_is_served_while_one_build_refreshes_it(brief, origin):
    clients = brief.connections(20)
    clients[0].get("item:1")
    origin.set_item(1, "new", 20000)
    with origin.gate("item") as gate:
        wait_until(lambda: clients[0].get("item:1")["state"] == "stale")
        replies = collect([(c, c.send("get", "item:1", {})) for c in clients for _ in range(20)])
        for reply in replies:
            assert (reply["state"], reply["value"], reply["reason"]) == ("stale", b"item 1", "refreshing")
            assert reply["stale_ms"] > 0 and reply["ttl_ms"] == 0
            assert reply["age_ms"] >= reply["stale_ms"]
        gate.wait_for(1)
        assert origin.builds("item") == 2
    wait_until(lambda: clients[0].get("item:1")["value"] == b"new")


def test_a_request_may_forbid_stale_values(brief, origin):
    client = brief.client()
    client.get("item:1")
    origin.set_item(1, "new", 20000)
    with origin.gate("item"):
        wait_until(lambda: client.get("item:1")["state"] == "stale")
        strict = client.send("get", "item:1", {"max_stale_ms": 0})
        brief.wait_stats(waiters=1)
    assert client.receive(strict)["value"] == b"new"


def test_a_request_may_bound_how_stale(brief, origin):
    client = brief.client()
    client.get("item:1")
    with origin.gate("item"):
        wait_until(lambda: client.get("item:1")["state"] == "stale")
        assert client.get("item:1", max_stale_ms=600000)["state"] == "stale"
        wait_until(lambda: client.get("item:1")["stale_ms"] > 1)
        with pytest.raises(Error) as refused:
            client.get("item:1", max_stale_ms=1, wait_ms=0)
        assert refused.value.code == "timeout"


def test_a_keyspace_may_forbid_stale_values(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"fresh": "50ms", "stale": "0s"}}).start()
    client = segard.client()
    client.get("item:1")
    origin.set_item(1, "new", 20000)

    def renewed():
        reply = client.get("item:1")
        assert reply["state"] == "fresh"
        return reply["value"] == b"new"

    wait_until(renewed)


def test_no_value_is_served_past_its_last_moment(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"fresh": "100ms", "stale": "300ms"}}).start()
    client = segard.client()
    client.get("item:1")
    seen = set()
    with origin.gate("item"):

        def ends():
            try:
                reply = client.get("item:1", wait_ms=0)
            except Error as error:
                assert error.code == "timeout"
                return True
            seen.add(reply["state"])
            assert reply["stale_ms"] <= 300
            assert reply["age_ms"] <= 400
            return False

        wait_until(ends)
    assert "stale" in seen


def test_a_failed_refresh_does_not_prolong_a_value(origin, make_segard):
    keyspaces = {"item": {"fresh": "100ms", "stale": "400ms", "error": "10ms"}}
    segard = make_segard(origin, keyspaces=keyspaces).start()
    client = segard.client()
    client.get("item:1")
    origin.behave("item", error="out of order")

    def ends():
        try:
            reply = client.get("item:1")
        except Error as error:
            assert error.code == "origin_error"
            return True
        assert reply["age_ms"] <= 500
        assert reply["reason"] in (None, "refreshing", "origin_error")
        return False

    wait_until(ends)


def test_jitter_spreads_the_ends_of_freshness(origin, make_segard):
    keyspaces = {"item": {"fresh": "100s", "jitter": "10%"}}
    client = make_segard(origin, keyspaces=keyspaces).start().client()
    ends = [reply["ttl_ms"] + reply["age_ms"]
            for reply in client.call("mget", [f"item:{i}" for i in range(1, 201)], {})]
    assert 89900 <= min(ends) < 93000 and 107000 < max(ends) <= 110000


# invalidate


def test_an_invalidated_value_is_stale_until_it_is_rebuilt(origin, client):
    client.get("item:1")
    origin.set_item(1, "new", 20000)
    assert client.call("invalidate", "item:1", {}) == {}
    with origin.gate("item"):
        reply = client.get("item:1")
        assert (reply["state"], reply["value"]) == ("stale", b"item 1")
        assert reply["reason"] in ("changed", "refreshing")
    wait_until(lambda: client.get("item:1")["value"] == b"new")
    assert origin.builds("item") == 2


def test_a_hard_invalidated_value_is_gone(origin, client):
    client.get("item:1")
    origin.set_item(1, "new", 20000)
    client.call("invalidate", "item:1", {"hard": True})
    reply = client.get("item:1")
    assert (reply["state"], reply["value"]) == ("fresh", b"new")


def test_a_build_that_began_before_an_invalidation_is_not_fresh_after_it(segard, origin, client):
    with origin.gate("item") as gate:
        early = client.send("get", "item:1", {})
        gate.wait_for(1)
        origin.set_item(1, "new", 20000)
        client.call("invalidate", "item:1", {})
        gate.open()
        assert client.receive(early)["value"] == b"item 1"
    wait_until(lambda: client.get("item:1")["value"] == b"new")
