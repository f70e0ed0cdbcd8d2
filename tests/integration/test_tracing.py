"""Requests that can be followed: by their traceparent through both logs."""
import os
import pathlib
import re
import subprocess

import pytest

from harness.origin import Origin
from harness.pgbouncer import PgBouncer
from harness.segard import PROGRAM, SEGARCTL
from harness.wait import wait_until
from harness.wire import Error
from test_log import wait_events

TRACING = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "TRACING.md"
MANY = {"query": "SELECT value, version FROM many($1)", "single_row": True,
        "batch": {"query": "SELECT key, value, version FROM many_of($1)", "linger": "20ms"}}


def traceparent(number, flags="01"):
    return f"00-{number:032x}-{number:016x}-{flags}"


@pytest.fixture(params=["direct", "pooled"])
def named(request, make_postgres, make_segard, workshop, serial):
    """An origin whose log has the names of sessions, and a daemon on it."""
    origin = Origin(make_postgres(log_line_prefix="%n [%p] %d <%a> "))
    config = {"log": {"level": "info", "format": "json"}, "keyspaces": {"many": MANY, "item": {"error": "1ms"}}}
    if request.param == "direct":
        yield origin, make_segard(origin, **config).start()
        return
    pooler = PgBouncer(workshop / f"pb{next(serial)}", origin.server, size=2).start()
    yield origin, make_segard(pooler.dsn(origin), origin={"pooler": True}, **config).start()
    pooler.remove()


def session_of(origin, build):
    """The name of the session that ran the build, as PostgreSQL logged it."""
    [line] = [line for line in origin.server.log().splitlines() if line.endswith(f"LOG:  build {build}")]
    return line.partition("<")[2].partition(">")[0]


def test_a_traced_build_is_found_in_both_logs(named):
    origin, segard = named
    client = segard.client()
    client.get("item:1", trace=traceparent(1))
    client.get("item:2")
    client.refresh("item:3", trace=traceparent(3, "00"))
    origin.behave("item", error="no luck")
    with pytest.raises(Error):
        client.get("item:4", trace=traceparent(4))
    origin.behave("item")
    client.get("item:5")
    # one statement tells one trace; the daemon's log each key's own
    first = client.send("get", "many:1", {})
    second = client.send("mget", ["many:2", "many:3"], {"trace": traceparent(5)})
    client.receive(first), client.receive(second)

    traces = {event["key"]: event["trace"] for event in wait_events(segard, "cache_regeneration", 8)}
    assert traces == {"item:1": traceparent(1), "item:2": None, "item:3": traceparent(3, "00"),
                      "item:4": traceparent(4), "item:5": None, "many:1": None, "many:2": traceparent(5),
                      "many:3": traceparent(5)}
    sessions = [session_of(origin, f"item {i}") for i in range(1, 6)]
    assert sessions == [f"segard {traceparent(1)}", "segard", f"segard {traceparent(3, '00')}",
                        f"segard {traceparent(4)}", "segard"]
    assert session_of(origin, "many 1") == session_of(origin, "many 3") == f"segard {traceparent(5)}"


def test_only_who_causes_a_build_names_it(origin, make_segard):
    segard = make_segard(origin, log={"level": "info", "format": "json"}).start()
    client, other = segard.client(), segard.client()
    with origin.gate("item") as gate:
        asks = client.send("get", "item:1", {"trace": traceparent(1)})
        gate.wait_for(1)
        joins = other.send("get", "item:1", {"trace": traceparent(2)})
        segard.wait_stats(waiters=2)
        gate.open()
        client.receive(asks), other.receive(joins)
    [built] = wait_events(segard, "cache_regeneration", 1)
    assert built["trace"] == traceparent(1)
    # a stale value, and a refresh behind it
    client.call("invalidate", "item:1")
    assert client.get("item:1", trace=traceparent(3))["state"] == "stale"
    assert wait_events(segard, "cache_regeneration", 2)[1]["trace"] == traceparent(3)


def test_what_is_no_traceparent_is_refused(segard):
    client = segard.client()
    for wrong, why in (("", "is too short"), (traceparent(0), "trace id of zeros"), (traceparent(11).upper(), "hex"),
                       (traceparent(1) + "-", "is too long"), (7, "must be a string")):
        for method, keys in (("get", "item:1"), ("mget", ["item:1"]), ("refresh", "item:1")):
            with pytest.raises(Error) as refused:
                client.call(method, keys, {"trace": wrong})
            assert refused.value.code == "bad_request" and why in refused.value.text
    assert client.get("item:1", trace=None)["value"] == b"item 1"


def test_segarctl_passes_a_trace_on(origin, make_segard):
    segard = make_segard(origin, log={"level": "info", "format": "json"}).start()
    subprocess.run([SEGARCTL, "-s", segard.socket, "get", "item:1", "--trace", traceparent(9)], check=True,
                   stdout=subprocess.DEVNULL)
    [event] = wait_events(segard, "cache_regeneration", 1)
    assert event["trace"] == traceparent(9)


def told(client, key="item:1"):
    """What has happened to the key since the last call: (event, what) each."""
    return [(event["event"], event["what"]) for event in client.call("trace", key)["events"]]


def test_a_key_is_followed_through_its_life(origin, make_segard):
    segard = make_segard(origin, keyspaces={"item": {"error": "1ms"}}).start()
    follower, client, other = segard.connections(3)
    client.get("item:1")
    assert follower.call("trace", "item:1") == {"events": [], "lost": 0}
    client.get("item:1")
    assert told(follower) == [], "a hit costs nothing, and is not told"
    client.call("invalidate", "item:1", {"hard": True})
    assert told(follower) == [("changed", "invalidated_hard")]
    with origin.gate("item") as gate:
        asks = client.send("get", "item:1", {})
        gate.wait_for(1)
        joins = other.send("get", "item:1", {})
        segard.wait_stats(waiters=2)
        gate.open()
        client.receive(asks), other.receive(joins)
    events = follower.call("trace", "item:1")["events"]
    assert [(event["event"], event["what"]) for event in events] == [
        ("asked", "get"), ("loaded", "missing"), ("leased", "done"), ("permitted", "done"), ("builds", "alone"),
        ("joined", "get"), ("built", "row"), ("saved", "done"), ("answered", "fresh"), ("answered", "fresh")]
    at = [event["at_us"] for event in events]
    assert at == sorted(at) and events[6]["took_us"] >= at[6] - at[5]
    assert events[2]["fence"] == events[6]["fence"] == events[7]["fence"] > 0
    origin.behave("item", error="no luck")
    with pytest.raises(Error):
        client.refresh("item:1")
    client.get("sized:2")  # another's build
    assert told(follower)[-3:] == [("built", "failed"), ("released", "done"), ("answered", "origin_error")]


def test_hosts_see_each_others_leases(origin, make_fleet):
    fleet = make_fleet(origin, 2)
    follower, first, second = fleet[1].client(), fleet[0].client(), fleet[1].client()
    follower.call("trace", "item:1")
    with origin.gate("item") as gate:
        builds = first.send("get", "item:1", {})
        gate.wait_for(1)
        waits = second.send("get", "item:1", {})
        wait_until(lambda: ("leased", "held") in told(follower), what="the lease to be found held")
        gate.open()
        first.receive(builds), second.receive(waits)
    assert told(follower)[-2:] == [("loaded", "fresh"), ("answered", "fresh")]


def test_what_is_followed_has_bounds_and_ends_with_its_connection(origin, make_segard):
    segard = make_segard(origin).start()
    client = segard.client()
    followers = segard.connections(5)
    for follower in followers[:4]:
        for i in range(4):
            follower.call("trace", f"item:{i}")
        with pytest.raises(Error, match="overloaded: a connection can follow 4 keys"):
            follower.call("trace", "item:5")
    with pytest.raises(Error, match="overloaded: 16 keys"):
        followers[4].call("trace", "item:0")
    for _ in range(100):
        client.call("invalidate", "item:1")
        client.call("invalidate", "item:1", {"hard": True})
        client.call("invalidate", "item:1")
    assert followers[1].call("trace", "item:1")["lost"] == 300 - 256
    assert followers[1].call("trace", "item:1") == {"events": [], "lost": 0}
    assert len(followers[0].call("trace", "item:1")["events"]) == 256
    followers[0].close()
    wait_until(lambda: not refused(followers[4]), what="the connection's follows to end")


def refused(client):
    try:
        client.call("trace", "item:0")
    except Error as error:
        assert error.code == "overloaded"
        return True


def test_segarctl_shows_a_key_live(segard):
    client = segard.client()
    follows = subprocess.Popen([SEGARCTL, "-s", segard.socket, "trace", "item", "1"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        assert "following item:1" in follows.stderr.readline()
        wait_until(lambda: segard.stats()["connections"] > segard.at_rest["connections"] + 1, what="it to connect")
        lines = []
        while not any("built      row, took" in line for line in lines):
            client.refresh("item:1")
            lines.append(follows.stdout.readline())
    finally:
        follows.terminate()
        follows.communicate()


def has_header():
    return subprocess.run(["cc", "-fsyntax-only", "-include", "sys/sdt.h", "-xc", os.devnull], capture_output=True).returncode == 0


@pytest.mark.skipif(not has_header(), reason="built without sys/sdt.h")
def test_the_program_has_the_probes_that_are_documented():
    notes = subprocess.run(["readelf", "-n", PROGRAM], check=True, capture_output=True, text=True).stdout
    probes = re.findall(r"Provider: segar\n\s+Name: (\w+)\n.*\n\s+Arguments: (.*)", notes)
    table = TRACING.read_text().partition("| probe | when | its arguments |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", table, re.MULTILINE)
    assert len(documented) == 8 and {name for name, _ in documented} == {name for name, _ in probes}
    assert all(arguments.split() for _, arguments in probes)
