"""A key's arguments: bound, never spliced; the right value or a clear error, never another key's value."""
import pytest

from harness.wire import Error

ODD = {
    "quote": "it's",
    "double quote": 'say "so"',
    "semicolon": "1; DROP TABLE texts",
    "comment": "x' -- ",
    "colon": "a:b",
    "percent": "100%",
    "percent that looks encoded": "%3A",
    "format": "%s %n $1 {0}",
    "backslash": "\\x41\\",
    "newline": "a\nb\r\n",
    "blank": " ",
    "blanks around": " a ",
    "brace": "{}",
    "star": "*",
    "unicode": "héllo ✓ 🦊",
    "combining": "e\u0301",
    "right to left": "\u202eabc",
    "long": "long" * 2560,
    "one": "1",
    "zero one": "01",
    "null word": "NULL",
    "empty": "",
}


@pytest.fixture
def client(segard, origin):
    for name, arg in ODD.items():
        origin.sql("INSERT INTO texts VALUES (%s, %s)", arg, f"value of {name}")
    return segard.client()


def encoded(arg):
    return arg.replace("%", "%25").replace(":", "%3A")


@pytest.mark.parametrize("name", ODD)
def test_odd_arguments_get_their_own_value(client, name):
    for key in (["text", ODD[name]], f"text:{encoded(ODD[name])}"):
        assert client.get(key)["value"] == f"value of {name}".encode()
    assert client.call("mget", [["text", ODD[name]]], {})[0]["source"] == "near"


def test_both_ways_to_write_a_key_are_one_key(client, origin):
    client.get(["text", "a:b"])
    assert client.get("text:a%3Ab")["source"] == "near"
    assert client.get("text:a%3ab")["source"] == "near"
    assert client.get("text:%61%3A%62")["value"] == b"value of colon"
    assert origin.builds("text") == 1


def test_an_integer_in_an_array_is_its_decimal(client, origin):
    assert client.get(["item", 42])["value"] == b"item 42"
    assert client.get("item:42")["source"] == "near"
    assert client.get(["item", "42"])["source"] == "near"
    assert client.get(["item", -42])["state"] == "absent"
    assert origin.builds("item") == 2


@pytest.mark.parametrize("arg", [
    "042", " 42", "42 ", "+42", "4_2", "0x2a", "4e1", "42.0", "-0", "", "x", "٤٢", "42\n", "--42", "-",
])
def test_an_integer_has_one_way_to_be_written(client, origin, arg):
    with pytest.raises(Error, match="^bad_request: "):
        client.get(["item", arg])
    assert origin.builds("item") == 0


def test_an_integer_out_of_range_is_an_error(client):
    for arg in ("9223372036854775808", "-9223372036854775809", "9" * 50):
        with pytest.raises(Error, match="^(bad_request|origin_error): "):
            client.get(["item", arg])
    assert client.get(["item", "9223372036854775807"])["state"] == "absent"
    assert client.get(["item", "-9223372036854775808"])["state"] == "absent"


@pytest.mark.parametrize("kind, good, bad", [
    ("uuid", "6ecd8c99-4036-403d-bf84-cf8400f67836", [
        "6ECD8C99-4036-403D-BF84-CF8400F67836", "{6ecd8c99-4036-403d-bf84-cf8400f67836}",
        "6ecd8c994036403dbf84cf8400f67836", "6ecd8c99-4036-403d-bf84-cf8400f6783", "x"]),
    ("boolean", "true", ["t", "TRUE", "yes", "1", "tru", ""]),
    ("date", "2024-02-29", ["2024-2-29", "20240229", "29.02.2024", "2023-02-29", "tomorrow", "2024-02-29 ", "today"]),
    ("smallint", "7", ["07", "40000", "7.0"]),
    ("int", "-7", ["-07", "3000000000", "−7"]),
])
def test_types_with_one_canonical_form(origin, make_segard, kind, good, bad):
    keyspaces = {"typed": {"query": f"SELECT $1::{kind} AS value"}}
    client = make_segard(origin, keyspaces=keyspaces).start().client()
    assert client.get(["typed", good])["value"].decode() in (good, good[:1])
    for arg in bad:
        with pytest.raises(Error, match="^(bad_request|origin_error): "):
            client.get(["typed", arg])


def test_nul_bytes_are_refused(client, origin):
    for key in (["text", "a\0b"], "text:a\0b", "text:a%00b", ["item", "1\0"]):
        with pytest.raises(Error, match="^bad_request: "):
            client.get(key)
    assert origin.builds() == 0


@pytest.mark.parametrize("bad", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"a\x80"])
def test_invalid_utf8_is_refused(client, origin, bad):
    for key in (["text", bad], b"text:" + bad, "text:" + "".join(f"%{byte:02X}" for byte in bad)):
        with pytest.raises(Error, match="^bad_request: "):
            client.get(key)
    assert origin.builds() == 0


def test_arguments_are_limited_in_size(client):
    at_limit = "a" * (16 * 1024)
    assert client.get(["text", at_limit])["state"] == "absent"
    with pytest.raises(Error, match="^(too_large|bad_request): "):
        client.get(["text", at_limit + "a"])


@pytest.mark.parametrize("key", [
    "item", "item:1:2", ["item"], ["item", "1", "2"], "item:", ["item", ""],
])
def test_too_few_or_too_many_arguments(client, key):
    with pytest.raises(Error, match="^bad_request: "):
        client.get(key)


@pytest.mark.parametrize("key", [
    "", ":", ":1", [], [""], ["", "1"], None, 1, 1.5, True, {}, {"keyspace": "item"}, ["item", None], ["item", ["1"]],
    ["item", 1.5], ["item", True], [1, 1], [["item"], 1], "text:%", "text:%4", "text:%zz", "item:1%",
])
def test_what_is_no_key(client, key):
    with pytest.raises(Error, match="^(bad_request|unknown_keyspace): "):
        client.get(key)


@pytest.mark.parametrize("key", ["Item:1", "item :1", " item:1", "items:1", "it%65m:1", "item/1", "i" * 5000])
def test_a_keyspace_is_named_exactly(client, key):
    with pytest.raises(Error, match="^(bad_request|unknown_keyspace): "):
        client.get(key)


def test_a_query_without_parameters_is_the_bare_keyspace(origin, make_segard):
    client = make_segard(origin, keyspaces={"now": {"query": "SELECT 'x'::text AS value"}}).start().client()
    assert client.get("now")["value"] == b"x"
    assert client.get(["now"])["source"] == "near"
    for key in ("now:", "now:1", ["now", ""]):
        with pytest.raises(Error, match="^bad_request: "):
            client.get(key)


def test_arguments_do_not_run_into_each_other(origin, make_segard):
    client = make_segard(origin, keyspaces={
        "pair": {"query": "SELECT $1::text || '|' || $2::text AS value"}}).start().client()
    pairs = [("a", "b:c"), ("a:b", "c"), ("", "abc"), ("abc", ""), ("a", "b%3Ac"), ("a%3Ab", "c")]
    for pair in pairs:
        assert client.get(["pair", *pair])["value"] == "|".join(pair).encode()
