"""Limits of files, connections, requests and buffers: each has its own answer, and hurts no one else."""
import resource
import socket

import pytest

from harness.wait import wait_until
from harness.wire import Client, Closed, Error, collect, request


def works(segard, item=1):
    with Client(segard.socket) as client:
        return client.get(f"item:{item}")["value"] == f"item {item}".encode()


def test_five_thousand_idle_connections(segard):
    before = segard.client()
    idle = [Client(segard.socket) for _ in range(5000)]
    try:
        wait_until(lambda: before.stats()["connections"] >= 5000)
        assert before.get("item:1")["value"] == b"item 1"
        assert works(segard)
        segard.process.wait_idle()
    finally:
        for client in idle:
            client.close()
    before.close()
    segard.wait_rest()


def test_the_limit_of_open_files(origin, make_segard):
    """Connections beyond it wait or are refused; those that are in are served, and no loop spins."""

    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))

    segard = make_segard(origin, process_limits=few_files).start()
    inside = segard.client()
    inside.get("item:1")
    crowd = []
    try:
        for _ in range(200):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            try:
                client.connect(str(segard.socket))
            except (BlockingIOError, ConnectionRefusedError):
                pass
            crowd.append(client)
        assert inside.get("item:1")["value"] == b"item 1"
        assert inside.get("item:2")["value"] == b"item 2"
        segard.process.wait_idle()
    finally:
        for client in crowd:
            client.close()
    wait_until(lambda: works(segard, 3))


def test_clients_leave_the_origin_its_descriptors(origin, make_segard):
    """However many connect, all builds that may run at once find a connection."""

    def few_files():
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))

    segard = make_segard(origin, process_limits=few_files, limits={"connections": 10000}).start()
    inside = segard.client()
    crowd = []
    try:
        for _ in range(400):
            client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            client.setblocking(False)
            try:
                client.connect(str(segard.socket))
            except (BlockingIOError, ConnectionRefusedError):
                pass
            crowd.append(client)
        wait_until(lambda: inside.stats()["connections_refused"] > 100, what="clients to be refused")
        with origin.gate("item") as gate:
            waiting = [(inside, inside.send("get", f"item:{i}", {})) for i in range(1, 9)]
            gate.wait_for(8)
            gate.open()
            assert [reply["state"] for reply in collect(waiting)] == ["fresh"] * 8
        assert inside.stats()["origin_connect_failures"] == 0
    finally:
        for client in crowd:
            client.close()


def test_the_limit_of_connections(origin, make_segard):
    segard = make_segard(origin, limits={"connections": 10}).start()
    inside = segard.connections(10)
    for client in inside:
        assert client.call("ping") == "pong"
    with pytest.raises((Closed, Error, BrokenPipeError, ConnectionResetError)) as refused:
        with Client(segard.socket) as client:
            client.call("ping")
    if isinstance(refused.value, Error):
        assert refused.value.code == "overloaded"
    for client in inside:
        assert client.call("ping") == "pong"
    inside[0].close()
    wait_until(lambda: connects(segard))


def connects(segard):
    try:
        with Client(segard.socket) as client:
            return client.call("ping") == "pong"
    except (Closed, Error, BrokenPipeError, ConnectionResetError):
        return False


def test_the_limit_of_requests_of_a_connection(origin, make_segard):
    segard = make_segard(origin, limits={"requests_per_connection": 10}).start()
    greedy, modest = segard.connections(2)
    with origin.gate("item") as gate:
        requests = [(greedy, greedy.send("get", "item:1", {})) for _ in range(30)]
        gate.wait_for(1)
        others = [(modest, modest.send("get", "item:1", {})) for _ in range(10)]
        segard.wait_stats(waiters=20)
        gate.open()
        replies = collect(requests)
        assert {r["value"] for r in collect(others)} == {b"item 1"}
    refused = [r for r in replies if isinstance(r, Error)]
    # beyond the limit requests are refused, or read only when there is room again
    assert {r.code for r in refused} <= {"overloaded"}
    assert len(replies) - len(refused) >= 10


def test_the_limit_of_requests_in_all(origin, make_segard):
    segard = make_segard(origin, limits={"requests": 50}).start()
    clients = segard.connections(10)
    with origin.gate("item") as gate:
        requests = [(c, c.send("get", "item:1", {})) for c in clients for _ in range(10)]
        gate.wait_for(1)
        segard.wait_stats(waiters=50)
        gate.open()
        replies = collect(requests)
    refused = [r for r in replies if isinstance(r, Error)]
    assert {r.code for r in refused} <= {"overloaded"}
    assert len(replies) - len(refused) >= 50


def test_a_client_that_does_not_read_stalls_only_itself(segard):
    """It asks for gigabytes; the daemon keeps a few values for it at most, and others notice nothing."""
    size = 16 << 20
    other = segard.client()
    other.get(f"sized:{size}")
    before = segard.process.rss_bytes()
    deaf = segard.client()
    deaf.socket.setblocking(False)
    sent = []
    try:
        for number in range(100):
            deaf.send_raw(request(number, "get", f"sized:{size}", {}))
            sent.append(number)
    except BlockingIOError:
        # the daemon takes no more, and so does the kernel in the end
        pass
    for number in range(1, 101):
        assert other.get(f"item:{number}")["value"] == f"item {number}".encode()
    segard.process.wait_idle()
    assert segard.process.rss_bytes() - before < 8 * size
    # when it reads at last, it has all its answers, whole
    for number in sent:
        assert len(deaf.receive(number)["value"]) == size


def test_many_clients_that_do_not_read_share_the_values(segard):
    size = 1 << 20
    other = segard.client()
    other.get(f"sized:{size}")
    before = segard.process.rss_bytes()
    deaf = segard.connections(100)
    for client in deaf:
        for number in range(1, 11):
            client.send_raw(request(number, "get", f"sized:{size}", {}))
    assert other.get("item:1")["value"] == b"item 1"
    segard.process.wait_idle()
    assert segard.process.rss_bytes() - before < 64 << 20


def test_a_client_that_sends_one_byte_at_a_time(segard):
    slow, other = segard.connections(2)
    for number, byte in enumerate(request(1, "get", "item:1", {})):
        slow.send_raw(bytes([byte]))
        assert other.get(f"item:{number + 2}")["value"] == f"item {number + 2}".encode()
    assert slow.receive(1)["value"] == b"item 1"
    segard.process.wait_idle()


def test_a_client_in_the_middle_of_a_message_costs_nothing(segard):
    half = segard.client()
    half.send_raw(request(1, "get", "item:1", {})[:7])
    assert works(segard)
    segard.process.wait_idle()
    half.close()
    segard.wait_rest()


def test_requests_in_one_write_are_all_answered(segard):
    client = segard.client()
    client.send_raw(b"".join(request(n, "get", f"item:{n}", {}) for n in range(1, 2001)))
    for n in range(1, 2001):
        assert client.receive(n)["value"] == f"item {n}".encode()


def test_an_mget_of_a_thousand_keys_and_no_more(segard):
    client = segard.client()
    keys = [f"item:{i}" for i in range(1, 1001)]
    replies = client.call("mget", keys, {})
    assert [r["value"] for r in replies] == [f"item {i}".encode() for i in range(1, 1001)]
    assert client.call("mget", [], {}) == []
    with pytest.raises(Error, match="^(too_large|bad_request): "):
        client.call("mget", keys + ["item:1001"], {})


def test_a_frame_of_a_mebibyte_and_no_more(segard):
    client = segard.client()
    for size in ((1 << 20) + 1, 3 << 20):
        with segard.client() as large:
            with pytest.raises((Error, Closed, BrokenPipeError, ConnectionResetError)) as refused:
                large.call("get", "text:" + "a" * size, {})
            if isinstance(refused.value, Error):
                assert refused.value.code == "too_large"
    with pytest.raises(Error):
        client.call("get", "text:" + "a" * 1000000, {})
    assert client.call("ping") == "pong"


def test_a_thousand_short_connections_leave_nothing(segard):
    files = segard.process.open_files()
    for number in range(1000):
        client = Client(segard.socket)
        if number % 3:
            client.send("get", f"item:{number % 7 + 1}", {})
        if number % 3 == 2:
            client.receive(1)
        client.close()
    segard.wait_rest()
    # the pool to the origin may have grown
    assert segard.process.open_files() <= files + 8


def test_replies_to_many_connections_at_once(segard):
    clients = segard.connections(500)
    requests = [(c, c.send("get", f"item:{i % 50 + 1}", {})) for i, c in enumerate(clients)]
    for i, reply in enumerate(collect(requests)):
        assert reply["value"] == f"item {i % 50 + 1}".encode()
