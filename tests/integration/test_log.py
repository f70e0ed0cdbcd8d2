"""The log: an event for each build, levels of keyspaces, keys that are not to be read."""
import json

import pytest

from harness.wait import wait_until
from harness.wire import Error


def events(daemon, name):
    found = []
    for line in daemon.log().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event["event"] == name:
            found.append(event)
    return found


def fails(client, key):
    with pytest.raises(Error):
        client.get(key)


def wait_events(daemon, name, count):
    wait_until(lambda: len(events(daemon, name)) >= count, what=f"{count} events {name}")
    return events(daemon, name)


def test_each_build_is_an_event(origin, make_segard):
    segard = make_segard(origin, log={"level": "info", "format": "json"}).start()
    with segard.client() as client:
        client.get("item:1")
        origin.sql("UPDATE items SET row_version = 77 WHERE id = 1")
        client.call("refresh", "item:1")
        client.get("item:99999")
        origin.behave("item", error="no luck")
        fails(client, "item:2")
    first, second, absent, failed = wait_events(segard, "cache_regeneration", 4)
    assert (first["key"], first["keyspace"], first["cause"], first["outcome"]) == ("item:1", "item", "miss", "stored")
    assert (first["version_before"], first["version"], first["rows"]) == (None, "1", 1)
    assert (second["cause"], second["version_before"], second["version"]) == ("manual", "1", "77")
    assert second["lease"] > first["lease"] > 0
    assert first["pid"] == segard.process.pid
    assert all(first[name] >= 0 for name in ("queue_ms", "lease_ms", "build_ms", "save_ms"))
    assert (absent["outcome"], absent["rows"], absent["version"]) == ("stored", 0, None)
    assert (failed["outcome"], failed["level"], failed["version"]) == ("failed", "warning", None)


def test_a_keyspace_can_have_a_level_of_its_own(origin, make_segard):
    segard = make_segard(origin, log={"level": "warning", "format": "json"},
                         keyspaces={"item": {"log": "info"}, "text": {"log": "error"}, "blob": {}}).start()
    with segard.client() as client:
        origin.behave("text", error="no luck")
        fails(client, "text:a")
        client.get("blob:a")
        client.get("item:1")
    assert [event["key"] for event in wait_events(segard, "cache_regeneration", 1)] == ["item:1"]
    assert events(segard, "build.failed") == []


def test_keys_can_be_hidden_and_compared(origin, make_segard):
    def hidden(salt):
        segard = make_segard(origin, log={"level": "debug", "format": "json", "keys": "hashed", "salt": salt}).start()
        with segard.client() as client:
            client.get("text:geheim")
            origin.behave("text", error="no luck")
            fails(client, "text:geheim2")
            origin.behave("text")
        [one, other] = wait_events(segard, "cache_regeneration", 2)
        [failed] = events(segard, "build.failed")
        assert "geheim" not in segard.log()
        assert one["key"].startswith("text:#") and failed["key"] == other["key"] != one["key"]
        return one["key"]

    assert hidden("a") == hidden("a") != hidden("b")
