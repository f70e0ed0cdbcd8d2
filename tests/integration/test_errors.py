"""Failing builds: told to all at once, remembered, never mistaken for "no such row"."""
import pytest

from harness.wait import wait_until
from harness.wire import Error, collect


def outcome(client, key, **options):
    """The reply, or the Error."""
    try:
        return client.get(key, **options)
    except Error as error:
        return error


def test_all_waiters_of_a_failing_build_get_its_error(segard, origin):
    clients = segard.connections(200)
    with origin.gate("item", error="the shelf fell over") as gate:
        requests = [(c, c.send("get", "item:1", {})) for c in clients]
        segard.wait_stats(waiters=200)
        gate.wait_for(1)
        gate.open()
        replies = collect(requests)
    assert {type(r) for r in replies} == {Error}
    assert {r.code for r in replies} == {"origin_error"}
    assert len({r.text for r in replies}) == 1
    assert origin.builds("item") == 1


def test_a_failure_is_remembered_and_causes_no_retry_storm(segard, origin):
    origin.behave("item", error="the shelf fell over")
    clients = segard.connections(20)
    replies = collect([(c, c.send("get", "item:1", {})) for c in clients for _ in range(50)])
    assert {r.code for r in replies} == {"origin_error"}
    assert all("the shelf fell over" in r.text for r in replies)
    assert len({r.text for r in replies}) == 1
    assert all(r.retry_after_ms > 0 for r in replies)
    assert origin.builds("item") == 1
    logged = [line for line in segard.log().splitlines() if "event=build.failed" in line]
    assert len(logged) == 1 and "key=item:1 " in logged[0] and "the shelf fell over" in logged[0]


def test_after_the_error_time_it_is_tried_again(origin, make_segard):
    client = make_segard(origin, keyspaces={"item": {"error": "200ms"}}).start().client()
    origin.behave("item", error="the shelf fell over")
    assert outcome(client, "item:1").code == "origin_error"
    origin.behave("item")
    wait_until(lambda: not isinstance(outcome(client, "item:1"), Error))
    assert client.get("item:1")["value"] == b"item 1"


def test_a_failure_of_one_key_is_not_anothers(segard, origin):
    client = segard.client()
    origin.behave("item", error="the shelf fell over")
    assert outcome(client, "item:1").code == "origin_error"
    origin.behave("item")
    assert client.get("item:2")["value"] == b"item 2"
    assert outcome(client, "item:1").code == "origin_error"


def test_refresh_tells_of_the_failure_too(segard, origin):
    client = segard.client()
    client.get("item:1")
    origin.behave("item", error="the shelf fell over")
    with pytest.raises(Error, match="^origin_error: .*the shelf fell over"):
        client.refresh("item:1")
    assert client.get("item:1")["value"] == b"item 1"


def test_a_failure_does_not_hide_a_stale_value(origin, make_segard):
    client = make_segard(origin, keyspaces={"item": {"fresh": "50ms", "stale": "10m"}}).start().client()
    client.get("item:1")
    origin.behave("item", error="the shelf fell over")
    wait_until(lambda: client.get("item:1")["reason"] == "origin_error")
    reply = client.get("item:1")
    assert (reply["state"], reply["value"]) == ("stale", b"item 1")
    assert origin.builds("item") == 2


def test_the_default_stands_in_for_a_failed_build(origin, make_segard):
    client = make_segard(origin, keyspaces={"item": {"default": "sold out"}}).start().client()
    origin.behave("item", error="the shelf fell over")
    reply = client.get("item:1")
    assert (reply["state"], reply["value"], reply["reason"], reply["source"], reply["version"]) == (
        "default", b"sold out", "origin_error", None, None)


def test_the_default_stands_in_at_the_deadline(origin, make_segard):
    client = make_segard(origin, keyspaces={"item": {"default": ""}}).start().client()
    with origin.gate("item"):
        reply = client.get("item:1", wait_ms=50)
        assert (reply["state"], reply["value"], reply["reason"]) == ("default", b"", "timeout")
    wait_until(lambda: client.get("item:1")["state"] == "fresh")


def test_no_such_row_is_no_failure_and_has_no_default(origin, make_segard):
    client = make_segard(origin, keyspaces={"item": {"default": "sold out"}}).start().client()
    reply = client.get("item:77777")
    assert (reply["state"], reply["value"]) == ("absent", None)


def test_a_query_of_two_rows_is_an_error(origin, make_segard):
    keyspaces = {"twice": {"query": "SELECT v AS value FROM generate_series(1, 2) v"}}
    client = make_segard(origin, keyspaces=keyspaces).start().client()
    with pytest.raises(Error, match="^origin_error: .*row"):
        client.get("twice")


def test_the_servers_words_are_passed_on(origin, make_segard):
    keyspaces = {"ratio": {"query": "SELECT 10 / $1::int AS value"}}
    client = make_segard(origin, keyspaces=keyspaces).start().client()
    with pytest.raises(Error, match="^origin_error: .*division by zero"):
        client.get("ratio:0")
    assert client.get("ratio:5")["value"] == b"2"


@pytest.mark.parametrize("query, words", [
    ("SELECT value FROM nowhere WHERE id = $1", "nowhere"),
    ("SELEKT 1 AS value", "SELEKT"),
    ("SELECT 1 AS something", "value"),
    ("INSERT INTO texts VALUES ($1, 'x') RETURNING value", ""),
])
def test_a_keyspace_that_does_not_prepare_is_refused_alone(origin, make_segard, query, words):
    segard = make_segard(origin, keyspaces={"broken": {"query": query}}).start()
    client = segard.client()
    with pytest.raises(Error) as refused:
        client.get("broken:1")
    assert refused.value.code == "origin_error" and words in refused.value.text
    assert client.get("item:1")["value"] == b"item 1"


def test_an_unknown_keyspace_and_an_unknown_method_are_told_apart(segard):
    client = segard.client()
    with pytest.raises(Error, match="^unknown_keyspace: .*nothing"):
        client.get("nothing:1")
    with pytest.raises(Error, match="^unknown_method: .*fetch"):
        client.call("fetch", "item:1")


def test_one_bad_key_of_an_mget_does_not_fail_the_rest(segard):
    first, bad, unknown, absent, last = segard.client().call(
        "mget", ["item:1", "item:x", "nothing:1", "item:77777", ["item", 2]], {})
    assert first["value"] == b"item 1" and last["value"] == b"item 2"
    assert bad["error"].startswith("bad_request: ")
    assert unknown["error"].startswith("unknown_keyspace: ")
    assert absent["state"] == "absent"
