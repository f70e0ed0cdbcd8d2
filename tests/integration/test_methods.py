"""The methods besides get and refresh: what people and programs ask about the daemon itself."""
import json
import subprocess
import threading

import pytest

from harness.segard import SEGARCTL
from harness.wait import wait_until
from harness.wire import Error


@pytest.fixture
def client(segard):
    return segard.client()


def test_ping(client):
    assert client.call("ping") == "pong"


def test_hello_says_who_it_is(client):
    hello = client.call("hello")
    assert (hello["name"], hello["protocol"]) == ("segard", 1)
    assert hello["version"]
    assert {"get", "mget", "refresh", "invalidate", "inspect", "hello", "ping", "stats", "keyspaces"} <= set(
        hello["methods"])


def test_stats_count_and_come_to_rest(segard, client):
    before = client.stats()
    assert {"flights", "waiters", "leases", "permits", "queued", "connections", "requests", "near_bytes",
            "near_entries"} <= set(before)
    assert all(isinstance(value, int) and value >= 0 for name, value in before.items()
               if name in segard.at_rest and isinstance(value, int))
    client.get("item:1")
    after = client.stats()
    assert after["near_entries"] == before["near_entries"] + 1
    assert after["near_bytes"] > before["near_bytes"]
    client.close()
    segard.wait_rest()


def test_stats_of_a_keyspace_is_its_account(segard, client):
    for _ in range(3):
        client.get("item:1")
    client.call("refresh", "item:1")
    client.call("refresh", "item:2", {"wait_ms": 0})
    wait_until(lambda: sum(client.call("stats", "item")["refreshes"].values()) == 3)
    account = client.call("stats", "item")
    assert account["gets"] == {"fresh.origin": 1, "fresh.near": 2}
    assert account["refreshes"] == {"miss.changed": 1, "manual.unchanged": 1, "manual.changed": 1}
    assert account["build_us"]["count"] == 3 and account["gets_total"] == 3
    client.call("refresh", "item:1")
    assert client.call("stats", "item")["refreshes"]["manual.wasted"] == 1, "nobody has read what the first refresh brought"
    assert client.call("stats", "text")["gets"] == {} == client.call("stats", "text")["refreshes"]
    with pytest.raises(Error, match='^unknown_keyspace: there is no keyspace "nope"'):
        client.call("stats", "nope")
    with pytest.raises(Error, match="^bad_request: "):
        client.call("stats", "item", 5)
    shown = subprocess.run([SEGARCTL, "-s", segard.socket, "stats", "item"], capture_output=True, text=True, check=True)
    assert "manual.wasted: 1" in shown.stdout


def estimate(segard, *arguments):
    return subprocess.run([SEGARCTL, "-s", segard.socket, "estimate", *arguments], capture_output=True, text=True,
                          check=False)


def test_estimate_of_a_live_keyspace(origin, make_segard):
    """By the daemon's own measurements: what it is asked, what a build took, what its budget is."""
    segard = make_segard(origin, origin={"budget": "90/m", "concurrency": 7}).start()
    client = segard.client()
    refused = estimate(segard, "item", "--watch", "10ms")
    assert refused.returncode == 2 and "nobody asks for that keyspace now" in refused.stderr
    assert estimate(segard, "nope").returncode == 1
    client.get("item:1")
    asking = threading.Event()

    def ask():
        while not asking.is_set():
            client.get("item:1")

    asker = threading.Thread(target=ask)
    asker.start()
    try:
        told = json.loads(estimate(segard, "item", "--watch", "200ms", "-j").stdout)
        shown = estimate(segard, "item", "--watch", "50ms", "--build", "400ms").stdout
        forced = json.loads(estimate(segard, "item", "--watch", "10ms", "--rate", "1500/s", "--build", "400ms", "-j").stdout)
    finally:
        asking.set()
        asker.join()
    account = client.call("stats", "item")
    assert told["build_ms"] == pytest.approx(account["refresh_us"] / 1000, rel=1e-4)
    assert (told["hosts"], told["pool"], told["keys"], told["limit_per_s"]) == (1, 7, 1, pytest.approx(0.9 * 1.5))
    assert 0 < told["rate_per_s"] <= account["gets_total"] / 0.2
    assert "builds of 400 ms, 1 host of" in shown
    assert forced["at_once"]["unprotected"] == 600 and forced["at_once"]["segar"] == 1


def test_keyspaces_lists_them_with_what_is_wrong(origin, make_segard):
    segard = make_segard(origin, keyspaces={"broken": {"query": "SELECT nope AS value"}}).start()
    client = segard.client()
    with pytest.raises(Error):
        client.get("broken")
    client.get("item:1")
    listed = {keyspace["name"]: keyspace for keyspace in client.call("keyspaces")}
    assert set(listed) == {"item", "text", "blob", "sized", "broken"}
    assert listed["broken"]["state"] == "refused" and "nope" in listed["broken"]["error"]
    assert listed["item"]["state"] == "serving"


def test_inspect_shows_a_key_that_is_unknown(client):
    seen = client.call("inspect", "item:1")
    assert seen["key"] == "item:1" and seen["near"] is None and seen["flight"] is None


def test_inspect_shows_an_entry(client):
    client.get(["text", "a:b"])
    client.get("item:1")
    seen = client.call("inspect", "item:1")
    assert seen["near"]["version"] == 1
    assert seen["flight"] is None
    assert client.call("inspect", ["text", "a:b"])["key"] == "text:a%3Ab"


def test_inspect_shows_a_flight(segard, origin, client):
    with origin.gate("item") as gate:
        waiting = client.send("get", "item:1", {})
        gate.wait_for(1)
        assert client.call("inspect", "item:1")["flight"] is not None
    client.receive(waiting)


def test_inspect_tells_when_a_value_is_refreshed(make_segard, origin):
    segard = make_segard(origin, keyspaces={"text": {"early": 0}}).start()
    client = segard.client()
    client.get("text:x")
    client.get("item:1")
    near = client.call("inspect", "item:1")["near"]
    assert 0 < near["refresh_in_ms"] <= near["fresh_for_ms"]  # early, perhaps
    near = client.call("inspect", "text:x")["near"]
    assert near["fresh_for_ms"] <= near["refresh_in_ms"] <= near["fresh_for_ms"] + 1  # not before it expires
    with origin.gate("text"):
        client.call("invalidate", "text:x")
        assert client.call("inspect", "text:x")["near"]["refresh_in_ms"] == 0  # with the next get
        assert client.get("text:x")["reason"] == "changed"


@pytest.mark.parametrize("method", ["logs", "nonsense", "", "GET"])
def test_methods_that_are_not_served(client, method):
    with pytest.raises(Error, match="^unknown_method: "):
        client.call(method)


def test_options_of_another_method_are_refused_by_name(client):
    for method, option in (("get", "hard"), ("get", "if_older_ms"), ("refresh", "max_stale_ms"), ("get", "nonsense")):
        with pytest.raises(Error, match=f"^bad_request: .*{option}"):
            client.call(method, "item:1", {option: 1})
