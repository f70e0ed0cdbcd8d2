"""Bytes that no client should send: an error or a closed connection, a reason in the log, no memory."""
import random
import socket
import struct

import pytest

from harness.wait import wait_until
from harness.wire import Client, Error, collect, request

# what a hostile peer may send, and which must end its connection
ENDING = {
    "array of 4 billion": b"\xdd\xff\xff\xff\xff",
    "map of 4 billion": b"\xdf\xff\xff\xff\xff",
    "string of 4 GB": b"\xdb\xff\xff\xff\xff",
    "bytes of 4 GB": b"\xc6\xff\xff\xff\xff",
    "request with params of 4 billion": b"\x94\x00\x01\xa3get\xdd\xff\xff\xff\xff",
    "request with a key of 4 GB": b"\x94\x00\x01\xa3get\x91\xdb\xff\xff\xff\xff",
    "request with a map of 4 billion": b"\x94\x00\x01\xa3get\x92\xa6item:1\xdf\xff\xff\xff\xff",
    "extension of 4 GB": b"\xc9\xff\xff\xff\xff\x01",
    "depth of 10,000": b"\x91" * 10000 + b"\xc0",
    "depth of 10,000 by maps": b"\x81\xa1a" * 10000 + b"\xc0",
    "depth in the params": b"\x94\x00\x01\xa3get" + b"\x91" * 10000,
    "never used byte": b"\xc1",
    "a number": b"\x05",
    "a string": b"\xa4ping",
    "nil": b"\xc0",
    "empty array": b"\x90",
    "array of one": b"\x91\x00",
    "unknown kind": b"\x94\x07\x01\xa4ping\x90",
    "negative kind": b"\x94\xff\x01\xa4ping\x90",
    "kind that is a string": b"\x94\xa10\x01\xa4ping\x90",
    "id that is a string": b"\x94\x00\xa11\xa4ping\x90",
    "negative id": b"\x94\x00\xff\xa4ping\x90",
    "id of 64 bits": b"\x94\x00\xcf\x00\x00\x00\x01\x00\x00\x00\x00\xa4ping\x90",
    "a reply": b"\x94\x01\x01\xc0\xc0",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "tls": bytes.fromhex("16030100a5010000a10303"),
}

# what is answered with an error, whoever sends it
ANSWERED = {
    "request of three": (b"\x93\x00\x01\xa4ping", ("bad_request",)),
    "request of five": (b"\x95\x00\x01\xa4ping\x90\x90", ("bad_request",)),
    "method that is a number": (b"\x94\x00\x01\x05\x90", ("bad_request", "unknown_method")),
    "params that are a map": (b"\x94\x00\x01\xa3get\x80", ("bad_request",)),
    "params that are nil": (b"\x94\x00\x01\xa3get\xc0", ("bad_request",)),
    "no params": (b"\x94\x00\x01\xa3get\x90", ("bad_request",)),
    "unknown method": (b"\x94\x00\x01\xa5fetch\x90", ("unknown_method",)),
    "method of bad utf-8": (b"\x94\x00\x01\xa2\xff\xfe\x90", ("unknown_method", "bad_request")),
    "option twice": (b"\x94\x00\x01\xa3get\x92\xa6item:1\x82\xa7wait_ms\x01\xa7wait_ms\x02", ("bad_request",)),
    "option of a wrong type": (request(1, "get", "item:1", {"wait_ms": "soon"}), ("bad_request",)),
    "option below its range": (request(1, "get", "item:1", {"wait_ms": -1}), ("bad_request",)),
    "option above its range": (request(1, "get", "item:1", {"wait_ms": 300001}), ("bad_request",)),
    "option of 2^64-1": (request(1, "get", "item:1", {"min_version": 2**64 - 1}), ("bad_request",)),
    "unknown option": (request(1, "get", "item:1", {"wait": 1}), ("bad_request",)),
    "option name that is no string": (request(1, "get", "item:1", {1: 1}), ("bad_request",)),
    "options that are a list": (request(1, "get", "item:1", [1]), ("bad_request",)),
    "too many params": (request(1, "get", "item:1", {}, {}), ("bad_request",)),
    "mget of a string": (request(1, "mget", "item:1"), ("bad_request",)),
}


def say_and_wait(segard, data, is_all=False):
    """Sends, and waits until the daemon has closed, whatever it answers; `is_all`: the client half-closes."""
    with Client(segard.socket) as client:
        try:
            client.send_raw(data)
            if is_all:
                client.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        client.wait_closed()


@pytest.mark.parametrize("name", ENDING)
def test_ends_the_connection_and_nothing_else(segard, name):
    other = segard.client()
    before = segard.process.rss_bytes()
    say_and_wait(segard, ENDING[name])
    assert segard.process.rss_bytes() - before < 4 << 20
    assert other.get("item:1")["value"] == b"item 1"


@pytest.mark.parametrize("name", ANSWERED)
def test_is_answered_with_an_error(segard, name):
    data, codes = ANSWERED[name]
    client = segard.client()
    client.send_raw(data)
    with pytest.raises(Error) as refused:
        client.receive(1)
    assert refused.value.code in codes
    client.ids = iter(range(2, 9))
    assert client.call("ping") == "pong"


def test_the_reason_of_a_closed_connection_is_logged(segard):
    with Client(segard.socket) as client:
        client.send_raw(b"GET / HTTP/1.1\r\n\r\n")
        client.wait_closed()
    wait_until(lambda: "conn" in segard.log().lower().replace("connections", ""))


def test_a_good_request_before_garbage_is_answered(segard):
    client = segard.client()
    client.send_raw(request(1, "get", "item:1", {}) + b"\xc1\xc1\xc1")
    assert client.receive(1)["value"] == b"item 1"
    client.wait_closed()


def test_truncated_messages_of_every_length(segard):
    whole = request(1, "get", ["item", 1], {"wait_ms": 1000, "max_stale_ms": 5})
    for length in range(len(whole)):
        with Client(segard.socket) as client:
            client.send_raw(whole[:length])
    with Client(segard.socket) as client:
        client.send_raw(whole)
        assert client.receive(1)["value"] == b"item 1"
    segard.wait_rest()


def test_a_message_split_at_every_byte_is_whole(segard):
    whole = request(1, "get", ["item", 1], {"wait_ms": 1000})
    for length in range(1, len(whole)):
        with Client(segard.socket) as client:
            client.send_raw(whole[:length])
            assert client.socket.fileno() >= 0
            client.send_raw(whole[length:])
            assert client.receive(1)["value"] == b"item 1"


@pytest.mark.parametrize("encode", [
    lambda n: struct.pack(">BB", 0xcc, n),
    lambda n: struct.pack(">BH", 0xcd, n),
    lambda n: struct.pack(">BI", 0xce, n),
    lambda n: struct.pack(">BQ", 0xcf, n),
    lambda n: struct.pack(">Bb", 0xd0, n),
    lambda n: struct.pack(">Bh", 0xd1, n),
    lambda n: struct.pack(">Bi", 0xd2, n),
    lambda n: struct.pack(">Bq", 0xd3, n),
])
def test_every_encoding_of_a_number_is_understood(segard, encode):
    """Kind, id, option and argument, each as wide as its sender likes."""
    client = segard.client()
    client.send_raw(b"\x94" + encode(0) + encode(1) + b"\xa3get\x92" + b"\x92\xa4item" + encode(42)
                    + b"\x81\xa7wait_ms" + encode(100))
    assert client.receive(1)["value"] == b"item 42"


@pytest.mark.parametrize("method", [b"\xa3get", b"\xd9\x03get", b"\xda\x00\x03get", b"\xdb\x00\x00\x00\x03get",
                                    b"\xc4\x03get", b"\xc5\x00\x03get", b"\xc6\x00\x00\x00\x03get"])
def test_every_encoding_of_a_string_is_understood(segard, method):
    client = segard.client()
    client.send_raw(b"\xdc\x00\x04\x00\x01" + method + b"\xdd\x00\x00\x00\x01" + b"\xd9\x06item:1")
    assert client.receive(1)["value"] == b"item 1"


@pytest.mark.parametrize("number", [0, 1, 127, 128, 255, 65535, 65536, 2**31, 2**32 - 1])
def test_ids_are_echoed(segard, number):
    client = segard.client()
    client.send_raw(request(number, "ping"))
    assert client.receive(number) == "pong"


def test_ids_may_repeat_and_come_in_any_order(segard):
    client = segard.client()
    for number in (9, 3, 7):
        client.send_raw(request(number, "ping"))
    assert [client.receive(number) for number in (3, 7, 9)] == ["pong"] * 3
    client.send_raw(request(3, "ping"))
    assert client.receive(3) == "pong"


def test_notifications_are_ignored(segard):
    client = segard.client()
    client.send_raw(b"\x93\x02\xb4nvim_set_client_info\x91\xa7pynvim." + request(1, "ping"))
    client.send_raw(b"\x93\x02\xa3get\x91\xa6item:1" + request(2, "ping"))
    assert client.receive(1) == "pong" and client.receive(2) == "pong"
    assert client.replies == {}


def test_random_bytes(segard):
    generator = random.Random(1)
    for _ in range(300):
        say_and_wait(segard, generator.randbytes(generator.randrange(1, 2000)), is_all=True)
    assert segard.client().get("item:1")["value"] == b"item 1"
    segard.wait_stats(flights=0, waiters=0)


def test_mutated_requests(segard):
    """Good requests with some bytes changed: whatever they mean, the daemon answers or closes."""
    generator = random.Random(2)
    models = [request(1, "get", "item:1", {"wait_ms": 10}), request(1, "mget", ["item:1", ["text", "a"]], {}),
              request(1, "refresh", "item:2", {"min_version": 1, "wait_ms": 10}), request(1, "stats"),
              request(1, "invalidate", "item:3", {"hard": True}), request(1, "inspect", "item:1")]
    for _ in range(1000):
        data = bytearray(generator.choice(models))
        for _ in range(generator.randrange(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        say_and_wait(segard, data, is_all=True)
    assert segard.client().get("item:1")["value"] == b"item 1"
    segard.wait_stats(flights=0, waiters=0)


def test_others_do_not_notice(segard):
    """While some send nonsense, those with sense have all their answers."""
    clients = segard.connections(20)
    requests = []
    for number, name in enumerate(sorted(ENDING), 1):
        requests += [(c, c.send("get", f"item:{number}", {})) for c in clients]
        say_and_wait(segard, ENDING[name])
    assert all(not isinstance(reply, Error) for reply in collect(requests))
