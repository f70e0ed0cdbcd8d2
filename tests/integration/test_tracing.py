"""Requests that can be followed: by their traceparent through both logs."""
import subprocess

import pytest

from harness.origin import Origin
from harness.pgbouncer import PgBouncer
from harness.segard import SEGARCTL
from harness.wire import Error
from test_log import wait_events

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
