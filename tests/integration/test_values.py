"""Values of every kind and size arrive as they are documented to."""
import hashlib

import pytest

from harness.wire import Error

MIB16 = 16 << 20


@pytest.fixture
def client(segard):
    return segard.client()


@pytest.mark.parametrize("size", [0, 1, 2, 4095, 4096, 4097, 65535, 65536, 200 * 1024, 1 << 20, MIB16])
def test_text_of_every_size(client, size):
    for source in ("origin", "near"):
        reply = client.get(f"sized:{size}")
        assert (reply["state"], len(reply["value"])) == ("fresh", size)
        assert reply["value"] == b"x" * size
        # the largest values may be more than the near cache keeps
        assert reply["source"] == source or size == MIB16


@pytest.mark.parametrize("size", [0, 1, 4096, 200 * 1024, MIB16])
def test_bytes_of_every_size(client, origin, size):
    chunks = (hashlib.sha256(str(i).encode()).digest() for i in range(size // 32 + 1))
    data = b"".join(chunks)[:size]
    with origin.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO blobs VALUES ('b', %s)", (memoryview(data),))
    for _ in range(2):
        assert client.get("blob:b")["value"] == data


def test_one_byte_more_is_too_large(segard, client, origin):
    with pytest.raises(Error, match="^too_large: "):
        client.get(f"sized:{MIB16 + 1}")
    origin.sql("INSERT INTO blobs SELECT 'b', decode(repeat('00', %s), 'hex')", MIB16 + 1)
    with pytest.raises(Error, match="^too_large: "):
        client.get("blob:b")
    assert client.get("sized:5")["value"] == b"xxxxx"
    segard.wait_stats(flights=0, waiters=0)


def test_every_byte_is_passed_on(client, origin):
    data = bytes(range(256)) * 3
    with origin.connect() as connection, connection.cursor() as cursor:
        cursor.execute("INSERT INTO blobs VALUES ('b', %s)", (memoryview(data),))
    assert client.get("blob:b")["value"] == data


def test_null_is_told_from_no_row(client, origin):
    origin.sql("INSERT INTO texts VALUES ('null', NULL), ('empty', '')")
    reply = client.get("text:null")
    assert (reply["state"], reply["value"]) == ("fresh", None)
    reply = client.get("text:empty")
    assert (reply["state"], reply["value"]) == ("fresh", b"")
    reply = client.get("text:none")
    assert (reply["state"], reply["value"]) == ("absent", None)


@pytest.mark.parametrize("sql, value", [
    ("'text'::text", b"text"),
    ("'héllo'::varchar", "héllo".encode()),
    ("42::smallint", b"42"),
    ("-42::int", b"-42"),
    ("9223372036854775807::bigint", b"9223372036854775807"),
    ("1.50::numeric", b"1.50"),
    ("1e300::float8", b"1e+300"),
    ("0.1::float8", b"0.1"),
    ("true", b"t"),
    ("'{\"b\": 1,  \"a\": [1, 2]}'::json", b'{"b": 1,  "a": [1, 2]}'),
    ("'{\"b\": 1,  \"a\": [1, 2]}'::jsonb", b'{"a": [1, 2], "b": 1}'),
    ("'2024-02-29'::date", b"2024-02-29"),
    ("'6ecd8c99-4036-403d-bf84-cf8400f67836'::uuid", b"6ecd8c99-4036-403d-bf84-cf8400f67836"),
    ("ARRAY[1, 2]", b"{1,2}"),
    ("'\\x00ff41'::bytea", b"\x00\xffA"),
    ("''::bytea", b""),
    ("NULL::int", None),
])
def test_types_arrive_as_text_and_bytea_as_bytes(origin, make_segard, sql, value):
    client = make_segard(origin, keyspaces={"v": {"query": f"SELECT {sql} AS value"}}).start().client()
    assert client.get("v")["value"] == value


@pytest.mark.parametrize("sql, version", [
    ("7::bigint", 7), ("7::int", 7), ("9223372036854775807::bigint", 9223372036854775807), ("0::bigint", 0),
    ("NULL::bigint", None),
])
def test_versions(origin, make_segard, sql, version):
    client = make_segard(origin, keyspaces={
        "v": {"query": f"SELECT 'x' AS value, {sql} AS version"}}).start().client()
    assert client.get("v")["version"] == version


def test_a_row_may_say_how_long_it_is_fresh_and_stale(origin, make_segard):
    client = make_segard(origin, keyspaces={
        "own": {"query": "SELECT 'x' AS value, 5000 AS fresh_ms, 7000 AS stale_ms", "jitter": "0%"},
        "policys": {"query": "SELECT 'x' AS value, NULL::int AS fresh_ms", "jitter": "0%"}}).start().client()
    assert 0 < client.get("own")["ttl_ms"] <= 5000
    near = client.call("inspect", "own")["near"]
    assert near["stale_for_ms"] - near["fresh_for_ms"] == 7000
    assert client.get("policys")["ttl_ms"] > 5000


def test_the_order_of_columns_does_not_matter(origin, make_segard):
    client = make_segard(origin, keyspaces={
        "v": {"query": "SELECT 3::bigint AS version, 'x' AS value"}}).start().client()
    reply = client.get("v")
    assert (reply["value"], reply["version"]) == (b"x", 3)


def test_a_reply_says_all_that_is_promised(client):
    client.get("item:1")
    reply = client.get("item:1")
    assert set(reply) >= {"state", "value", "version", "age_ms", "ttl_ms", "stale_ms", "reason", "source"}
    assert (reply["state"], reply["version"], reply["stale_ms"], reply["reason"], reply["source"]) == (
        "fresh", 1, 0, None, "near")
    assert 0 <= reply["age_ms"] < 600000 and 0 < reply["ttl_ms"] <= 600000
