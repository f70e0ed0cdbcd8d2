"""The log: an event for each build, levels of keyspaces, keys that are not to be read."""
import json
import subprocess

import pytest

from harness.segard import SEGARCTL
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
            origin.behave("text", error="no luck with geheim2")
            fails(client, "text:geheim2")
            origin.behave("text")
        [one, other] = wait_events(segard, "cache_regeneration", 2)
        [failed] = events(segard, "build.failed")
        assert "geheim" not in segard.log()
        assert one["key"].startswith("text:#") and failed["key"] == other["key"] != one["key"]
        return one["key"]

    assert hidden("a") == hidden("a") != hidden("b")


def test_levels_change_while_it_runs(origin, make_segard):
    segard = make_segard(origin, log={"level": "warning", "format": "json"}, keyspaces={"item": {"log": "error"}}).start()

    def built(client, key):
        """Whether the build is logged: before a line that always is."""
        client.get(key)
        before = len(events(segard, "log.set"))
        client.call("log", {"rate": 1000})
        wait_events(segard, "log.set", before + 1)
        return key in [event["key"] for event in events(segard, "cache_regeneration")]

    with segard.client() as client:
        assert client.call("log") == {"level": "warning", "rate": 20, "keyspaces": {"item": "error"}}
        assert not built(client, "item:1") and not built(client, "sized:1")
        assert client.call("log", {"level": "info", "keyspace": "item"})["keyspaces"] == {"item": "info"}
        assert built(client, "item:2") and not built(client, "sized:2")
        client.call("log", {"level": "inherit", "keyspace": "item"})
        assert client.call("log", {"level": "info"}) == {"level": "info", "rate": 1000, "keyspaces": {}}
        assert built(client, "item:3") and built(client, "sized:3")
        for wrong, why in (({"level": "loud"}, "level is"), ({"keyspace": "item"}, "level is missing"), ({"rate": 0}, "rate"),
                           ({"level": "inherit"}, "of a keyspace"), ({"lvl": "info"}, "lvl"), (5, "takes a map")):
            with pytest.raises(Error) as refused:
                client.call("log", wrong)
            assert refused.value.code == "bad_request" and why in refused.value.text
        client.call("reload")
        assert client.call("log") == {"level": "warning", "rate": 20, "keyspaces": {"item": "error"}}


def test_more_lines_are_let_through_where_that_is_asked_for(origin, make_segard):
    segard = make_segard(origin, log={"level": "info", "format": "json"}).start()
    with segard.client() as client:
        shown = subprocess.run([SEGARCTL, "-s", segard.socket, "log", "--rate", "1000/s", "-j"], check=True,
                               capture_output=True, text=True)
        assert json.loads(shown.stdout) == {"level": "info", "rate": 1000, "keyspaces": {}}
        client.call("mget", [f"item:{i}" for i in range(1, 61)])
        built = wait_events(segard, "cache_regeneration", 60)
    assert len(built) == 60 and not any("suppressed" in event for event in built)
