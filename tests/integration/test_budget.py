"""Promise 2: what runs and what starts at the origin stays within its limits, by the origin's own count."""
import itertools

import pytest

from harness.wire import Error, collect


def test_no_more_builds_run_at_once_than_allowed(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 3}).start()
    client = segard.client()
    with origin.gate("item") as gate:
        requests = [client.send("get", f"item:{i}", {}) for i in range(1, 31)]
        gate.wait_for(3)
        segard.wait_stats(waiters=30, queued=27)
        assert gate.waiting() == 3 and origin.builds("item") == 3
        gate.open()
        for number, request in enumerate(requests, 1):
            assert client.receive(request)["value"] == f"item {number}".encode()
    assert origin.builds("item") == 30


def test_no_more_builds_start_in_a_second_than_allowed(origin, make_segard):
    budget = 20
    segard = make_segard(origin, origin={"budget": f"{budget}/s", "concurrency": 20}).start()
    client = segard.client()
    replies = client.call("mget", [f"item:{i}" for i in range(1, 61)], {"wait_ms": 60000})
    assert [r["value"] for r in replies] == [f"item {i}".encode() for i in range(1, 61)]
    times = [at for at, _, _ in origin.build_log()]
    assert len(times) == 60
    # any `budget` + 1 builds in a row take longer than a second
    assert all(last - first > 1 for first, last in zip(times, itertools.islice(times, budget, None)))


def test_a_full_queue_refuses_with_a_reason(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1}, limits={"queue": 5}).start()
    with origin.gate("item") as gate:
        requests = [(c, c.send("get", f"item:{i}", {})) for i, c in enumerate(segard.connections(20), 1)]
        gate.wait_for(1)
        segard.wait_stats(waiters=6, queued=5)
        gate.open()
        replies = collect(requests)
    refused = [reply for reply in replies if isinstance(reply, Error)]
    assert len(refused) == 14 and {reply.code for reply in refused} == {"overloaded"}


def test_one_client_cannot_fill_the_queue_alone(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1}, limits={"queue": 8}).start()
    greedy, modest = segard.connections(2)
    with origin.gate("item") as gate:
        requests = [(greedy, greedy.send("get", f"item:{i}", {})) for i in range(1, 101)]
        gate.wait_for(1)
        requests.append((modest, modest.send("get", "item:1000", {})))
        gate.open()
        replies = collect(requests)
    assert replies[-1]["value"] == b"item 1000"
    assert {reply.code for reply in replies if isinstance(reply, Error)} == {"overloaded"}


def test_a_refresh_waits_behind_a_miss(origin, make_segard):
    """What someone waits for comes first, whatever was queued before it."""
    segard = make_segard(origin, origin={"concurrency": 1}, keyspaces={"item": {"stale": "10m"}}).start()
    client = segard.client()
    client.call("mget", [f"item:{i}" for i in range(1, 6)], {})
    with origin.gate("item") as gate:
        busy = client.send("get", "item:100", {})
        gate.wait_for(1)
        for i in range(1, 6):
            client.refresh(f"item:{i}", wait_ms=0)
        segard.wait_stats(queued=5)
        miss = client.send("get", "item:200", {})
        segard.wait_stats(queued=6)
        gate.open()
        client.receive(busy)
        assert client.receive(miss)["value"] == b"item 200"
    segard.wait_stats(queued=0, flights=0)
    order = [arg for _, _, arg in origin.build_log()]
    assert order.index("200") == order.index("100") + 1


def test_a_deadline_in_the_queue_is_kept(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 1}).start()
    client = segard.client()
    with origin.gate("item") as gate:
        busy = client.send("get", "item:1", {})
        gate.wait_for(1)
        with pytest.raises(Error) as late:
            client.get("item:2", wait_ms=50)
        assert late.value.code in ("timeout", "overloaded")
        gate.open()
        assert client.receive(busy)["value"] == b"item 1"


def test_the_near_cache_stays_within_its_memory(origin, make_segard):
    limit = 4 << 20
    segard = make_segard(origin, near={"memory": "4MiB"}).start()
    client = segard.client()
    for size in range(100000, 100200):
        client.get(f"sized:{size}")
        assert client.stats()["near_bytes"] <= limit
    stats = client.stats()
    assert stats["near_bytes"] > limit / 2 and 0 < stats["near_entries"] <= limit / 100000


def test_random_absent_keys_do_not_evict_real_ones(origin, make_segard):
    segard = make_segard(origin, near={"memory": "1MiB"}, origin={"budget": "20000/s"}).start()
    client = segard.client()
    for _ in range(5):
        client.get("item:1")
    entries = 0
    # more of them than there is room for
    for begin in range(100000, 120000, 1000):
        client.call("mget", [f"item:{i}" for i in range(begin, begin + 1000)], {"wait_ms": 60000})
        before, entries = entries, client.stats()["near_entries"]
    assert entries <= before + 1
    assert client.get("item:1")["source"] == "near"
