"""Promise 1, one build: however many ask at once, and whatever becomes of them."""
import random
import threading

import pytest

from harness.wire import Error, collect

HERD = 1000


def send_all(clients, *request):
    return [(client, client.send(*request)) for client in clients]


def test_a_thousand_cold_gets_are_one_build(segard, origin):
    clients = segard.connections(HERD)
    with origin.gate("item") as gate:
        requests = send_all(clients, "get", "item:1", {})
        segard.wait_stats(waiters=HERD, flights=1)
        gate.open()
        replies = collect(requests)
    assert {(r["state"], r["value"], r["version"], r["source"]) for r in replies} == {
        ("fresh", b"item 1", 1, "origin")}
    assert origin.builds("item") == 1


def test_a_thousand_cold_gets_on_ten_connections_are_one_build(segard, origin):
    clients = segard.connections(10)
    with origin.gate("item") as gate:
        requests = send_all(clients * 100, "get", "item:1", {})
        segard.wait_stats(waiters=HERD)
        gate.open()
        replies = collect(requests)
    assert [r["value"] for r in replies] == [b"item 1"] * HERD
    assert origin.builds("item") == 1


def test_a_large_value_reaches_the_whole_herd(segard, origin):
    clients = segard.connections(HERD)
    origin.sql("INSERT INTO texts SELECT 'big', string_agg(md5(i::text), '') FROM generate_series(1, 9600) i")
    ((expected,),) = origin.sql("SELECT value FROM texts WHERE id = 'big'")
    assert len(expected) == 307200
    with origin.gate("text") as gate:
        requests = send_all(clients, "get", "text:big", {})
        segard.wait_stats(waiters=HERD)
        gate.open()
        replies = collect(requests)
    assert {r["value"] for r in replies} == {expected.encode()}
    assert origin.builds("text") == 1


def test_a_herd_by_mget_is_one_build_a_key(segard, origin):
    keys = [f"item:{i}" for i in range(1, 51)]
    clients = segard.connections(20)
    with origin.gate("item") as gate:
        requests = send_all(clients, "mget", keys, {})
        segard.wait_stats(waiters=20 * 50)
        gate.open()
        replies = collect(requests)
    for reply in replies:
        assert [r["value"] for r in reply] == [f"item {i}".encode() for i in range(1, 51)]
    assert origin.builds("item") == 50


def test_the_first_client_disconnects_at_once(segard, origin):
    first = segard.client()
    with origin.gate("item") as gate:
        first.send("get", "item:1", {})
        gate.wait_for(1)
        first.close()
        requests = send_all(segard.connections(50), "get", "item:1", {})
        segard.wait_stats(waiters=50)
        gate.open()
        assert {r["value"] for r in collect(requests)} == {b"item 1"}
    assert origin.builds("item") == 1


def test_everyone_disconnects_and_the_value_is_kept(segard, origin):
    clients = segard.connections(10)
    with origin.gate("item") as gate:
        send_all(clients, "get", "item:1", {})
        segard.wait_stats(waiters=10)
        for client in clients:
            client.close()
        segard.wait_stats(waiters=0)
        gate.open()
        assert segard.client().get("item:1")["value"] == b"item 1"
    assert origin.builds("item") == 1


def test_the_first_client_has_the_shortest_deadline(segard, origin):
    first = segard.client()
    with origin.gate("item") as gate:
        short = first.send("get", "item:1", {"wait_ms": 100})
        gate.wait_for(1)
        requests = send_all(segard.connections(50), "get", "item:1", {"wait_ms": 60000})
        with pytest.raises(Error) as timeout:
            first.receive(short)
        assert timeout.value.code == "timeout"
        segard.wait_stats(waiters=50, flights=1)
        gate.open()
        assert {r["value"] for r in collect(requests)} == {b"item 1"}
    assert origin.builds("item") == 1


def test_wait_zero_answers_now_and_still_builds(segard, origin):
    client = segard.client()
    with origin.gate("item") as gate:
        with pytest.raises(Error) as timeout:
            client.get("item:1", wait_ms=0)
        assert timeout.value.code == "timeout"
        gate.wait_for(1)
    assert client.get("item:1")["value"] == b"item 1"
    assert origin.builds("item") == 1


def test_one_slow_key_holds_up_no_other_on_its_connection(segard, origin):
    client = segard.client()
    with origin.gate("item"):
        slow = client.send("get", "item:1", {})
        assert client.get("sized:3")["value"] == b"xxx"
        assert slow not in client.replies
        assert client.call("ping") == "pong"
        assert slow not in client.replies
    assert client.receive(slow)["value"] == b"item 1"


@pytest.mark.parametrize("fresh", ["10m", "1ms"])
def test_no_waiter_is_left_without_a_flight(origin, make_segard, fresh):
    """Ends of flights and new requests meet, thousands of times; each request has its answer."""
    rounds = 1500
    segard = make_segard(origin, keyspaces={"item": {"fresh": fresh, "stale": "0s"}}).start()
    failures = []

    def ask(seed):
        generator = random.Random(seed)
        try:
            with segard.client() as client:
                for number in range(rounds):
                    # the same key for all, sometimes twice in a row, sometimes behind another request
                    key = 1 + number // 2
                    waiting = [client.send("get", f"item:{key}", {"wait_ms": 30000})]
                    if generator.random() < 0.3:
                        waiting.append(client.send("refresh", f"item:{key}", {"wait_ms": 30000})
                                       if fresh == "1ms" else client.send("get", f"item:{key}", {}))
                    for request in waiting:
                        reply = client.receive(request)
                        if "value" in reply:
                            assert reply["value"] == f"item {key}".encode(), reply
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    segard.wait_rest()
    if fresh == "10m":
        assert origin.builds("item") == rounds // 2
