"""Batches: keys that are to be built and come close together are one statement, and each its own."""
import pytest

from harness.wait import wait_until
from harness.wire import collect

MANY = {"query": "SELECT value, version FROM many($1)", "single_row": True,
        "batch": {"query": "SELECT key, value, version FROM many_of($1)", "linger": "20ms"}}
KEYSPACES = {"many": MANY}


def keyspaces(**batch):
    return {"many": {**MANY, "batch": {**MANY["batch"], **batch}}}


def keys(*ranges):
    return [f"many:{i}" for numbers in ranges for i in numbers]


def values(reply):
    return [each.get("value") for each in reply]


def items(*ranges):
    return [f"item {i}".encode() for numbers in ranges for i in numbers]


def each_built_once(origin, *ranges):
    built = [int(arg) for _, keyspace, arg in origin.build_log() if keyspace == "many"]
    assert sorted(built) == sorted(i for numbers in ranges for i in numbers)


@pytest.mark.parametrize("linger", ["0", "1s"])
def test_a_cold_mget_is_one_statement(origin, make_segard, linger):
    segard = make_segard(origin, keyspaces=keyspaces(linger=linger)).start()
    with segard.client() as client:
        reply = client.call("mget", keys(range(1, 65)), {})
    assert values(reply) == items(range(1, 65))
    assert {(each["state"], each["source"]) for each in reply} == {("fresh", "origin")}
    each_built_once(origin, range(1, 65))
    assert origin.builds("statement") == 1
    stats = segard.stats()
    begun = 1 + stats["retries_late"]  # the first connection may take longer than a permit is good for
    assert (stats["builds"], stats["batches"]) == (64 * begun, begun)
    segard.wait_rest()


def test_more_than_fit_are_as_few_as_can_be(origin, make_segard):
    segard = make_segard(origin, keyspaces=KEYSPACES).start()
    reply = segard.client().call("mget", keys(range(1, 201)), {})
    assert values(reply) == items(range(1, 201))
    each_built_once(origin, range(1, 201))
    assert origin.builds("statement") == 4


def test_gets_of_many_clients_within_linger_are_one_statement(origin, make_segard):
    segard = make_segard(origin, keyspaces=keyspaces(linger="1s", max=40)).start()
    clients = segard.connections(40)
    replies = collect([(client, client.send("get", f"many:{i}", {})) for i, client in enumerate(clients, 1)])
    assert values(replies) == items(range(1, 41))
    assert origin.builds("statement") == 1  # full before the second was over


def test_a_thousand_gets_over_two_daemons_build_each_key_once(origin, make_fleet):
    fleet = make_fleet(origin, 2, keyspaces=keyspaces(linger="1s"))
    requests = [(client, client.send("get", f"many:{1 + i % 64}", {}))
                for i, client in enumerate(fleet.connections(50) * 20)]
    replies = collect(requests)
    assert len(replies) == 1000
    assert {each["value"] for each in replies} == set(items(range(1, 65)))
    each_built_once(origin, range(1, 65))
    assert origin.builds("statement") <= 16
    fleet.wait_rest()


def test_a_batch_takes_one_permit(origin, make_segard):
    # The next one would come after 11 s.
    segard = make_segard(origin, keyspaces={"many": {**MANY, "wait": "5s"}}, origin={"budget": "6/m"}).start()
    reply = segard.client().call("mget", keys(range(1, 65)), {})
    assert values(reply) == items(range(1, 65))


def test_a_batch_takes_one_slot(origin, make_segard):
    segard = make_segard(origin, keyspaces=KEYSPACES, origin={"concurrency": 1}).start()
    with origin.gate("many") as gate:
        client = segard.client()
        first = client.send("mget", keys(range(1, 65)), {})
        gate.wait_for(1)
        segard.wait_stats(permits=1, leases=64)
        second = client.send("mget", keys(range(65, 129)), {})
        segard.wait_stats(queued=1)
        assert client.call("inspect", "many:7")["flight"]["keys"] == 64
        gate.open()
        assert values(client.receive(first)) == items(range(1, 65))
        assert values(client.receive(second)) == items(range(65, 129))
    assert origin.builds("statement") == 2


def test_what_is_there_already_is_not_built_with_the_rest(origin, make_fleet):
    # full ones do not linger: so long that the store's answers come before, however busy the machine is
    fleet = make_fleet(origin, 2, keyspaces=keyspaces(linger="1s", max=10))
    assert values(fleet[0].client().call("mget", keys(range(1, 11)), {})) == items(range(1, 11))
    reply = fleet[1].client().call("mget", keys(range(1, 21)), {})
    assert values(reply) == items(range(1, 21))
    assert [each["source"] for each in reply] == ["store"] * 10 + ["origin"] * 10
    each_built_once(origin, range(1, 21))
    assert origin.builds("statement") == 2


def test_a_cold_mget_over_a_shared_store_is_one_statement(origin, make_fleet):
    fleet = make_fleet(origin, 1, keyspaces=keyspaces(linger="1s"))
    assert values(fleet[0].client().call("mget", keys(range(1, 65)), {})) == items(range(1, 65))
    assert origin.builds("statement") == 1


def test_a_key_without_a_row_is_absent(origin, make_segard):
    segard = make_segard(origin, keyspaces=KEYSPACES).start()
    origin.sql("DELETE FROM items WHERE id = 3; UPDATE items SET value = NULL WHERE id = 4")
    reply = segard.client().call("mget", keys(range(1, 6)), {})
    assert [(each["state"], each["value"]) for each in reply] == [
        ("fresh", b"item 1"), ("fresh", b"item 2"), ("absent", None), ("fresh", None), ("fresh", b"item 5")]
    assert origin.builds("statement") == 1


def test_one_bad_key_fails_alone(origin, make_segard):
    segard = make_segard(origin, keyspaces=KEYSPACES).start()
    client = segard.client()
    reply = client.call("mget", keys(range(1, 5), [666], range(5, 9)), {})
    assert values(reply) == items(range(1, 5)) + [None] + items(range(5, 9))
    assert reply[4]["error"].startswith("origin_error: 22012")
    assert origin.builds("statement") == 10  # all, then each
    # It is remembered, and so spoils nothing more.
    reply = client.call("mget", keys([666], range(11, 20)), {})
    assert reply[0]["error"].startswith("origin_error: 22012")
    assert values(reply[1:]) == items(range(11, 20))
    assert origin.builds("statement") == 11
    assert segard.stats()["batches_apart"] == 1


def test_a_timeout_is_every_keys(origin, make_segard):
    segard = make_segard(origin, keyspaces={"many": {**MANY, "build_timeout": "300ms"}}).start()
    with origin.gate("many"):
        reply = segard.client().call("mget", keys(range(1, 4)), {})
    assert ["57014" in each["error"] for each in reply] == [True] * 3
    assert origin.builds("statement") == 1


def test_whatever_is_in_a_key_stays_data(origin, make_segard):
    segard = make_segard(origin, keyspaces={"text": {"batch": {
        "query": "SELECT id AS key, value FROM texts WHERE id = ANY($1)", "linger": "20ms"}}}).start()
    arguments = ["", "'", '"', "\\", "{", "}", ",", "NULL", "a b", '"},{"', "%", ":", "$1", "é"]
    for argument in arguments:
        origin.sql("INSERT INTO texts VALUES (%s, %s)", argument, f"<{argument}>")
    reply = segard.client().call("mget", [["text", argument] for argument in arguments + ["none"]], {})
    assert values(reply) == [f"<{argument}>".encode() for argument in arguments] + [None]
    assert segard.stats()["batches"] == 1


def test_a_batch_query_that_does_not_prepare_is_told_and_done_without(origin, make_segard):
    broken = keyspaces(query="SELECT id AS key, value FROM nowhere WHERE id = ANY($1)")
    segard = make_segard(origin, keyspaces=broken).start()
    client = segard.client()
    assert values(client.call("mget", keys(range(1, 4)), {})) == items(range(1, 4))
    (many,) = [each for each in client.call("keyspaces") if each["name"] == "many"]
    assert many["state"] == "serving"
    assert many["batch"]["state"] == "refused" and "nowhere" in many["batch"]["error"]


def test_keyspaces_tells_of_batches(origin, make_segard):
    segard = make_segard(origin, keyspaces=KEYSPACES).start()
    told = {each["name"]: each["batch"] for each in segard.client().call("keyspaces")}
    assert told["item"] is None
    assert told["many"] == {"query": MANY["batch"]["query"], "state": "serving", "error": None,
                            "linger_ms": 20, "max": 64}


def test_who_waits_no_longer_than_linger_leaves_it_to_be_built_for_the_next(origin, make_segard):
    segard = make_segard(origin, keyspaces=keyspaces(linger="1s")).start()
    client = segard.client()
    reply = client.call("mget", keys(range(1, 11)), {"wait_ms": 10})
    assert {each["error"] for each in reply} == {"timeout: the batch was waiting for others still"}
    wait_until(lambda: origin.builds("statement") == 1, what="it to be built")
    assert values(client.call("mget", keys(range(1, 11)), {})) == items(range(1, 11))
    each_built_once(origin, range(1, 11))


def test_keys_that_may_be_spelled_otherwise_are_built_alone_and_never_absent(origin, make_segard):
    origin.sql("CREATE TABLE sizes (id numeric PRIMARY KEY, value text); INSERT INTO sizes VALUES (1.5, 'here'); "
               "GRANT SELECT ON sizes TO segard")
    segard = make_segard(origin, keyspaces={"size": {
        "query": "SELECT value FROM sizes WHERE id = $1",
        "batch": {"query": "SELECT id::text AS key, value FROM sizes WHERE id = ANY($1)", "linger": "20ms"}}}).start()
    client = segard.client()
    assert values(client.call("mget", ["size:1.5", "size:1.50"], {})) == [b"here", b"here"]
    (size,) = [each for each in client.call("keyspaces") if each["name"] == "size"]
    assert size["batch"]["state"] == "refused" and "array of numeric" in size["batch"]["error"]
