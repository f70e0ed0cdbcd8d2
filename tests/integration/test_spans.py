"""Spans of traced requests: OTLP/JSON in a file, a fifo that nobody reads, a disk that is full."""
import contextlib
import json
import os
import time

import pytest

from harness.wait import wait_until
from harness.wire import Error
from test_tracing import traceparent


def spans_in(text):
    """All spans, each with its attributes as a plain dict."""
    spans = []
    for line in text.splitlines():
        [resource] = json.loads(line)["resourceSpans"]
        assert {"key": "service.name", "value": {"stringValue": "segard"}} in resource["resource"]["attributes"]
        [scope] = resource["scopeSpans"]
        for span in scope["spans"]:
            span["attributes"] = {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}
            spans.append(span)
    return spans


@pytest.fixture
def make_spanned(origin, make_segard):
    def make(path=None, **config):
        segard = make_segard(origin, **config)
        path = path or segard.folder / "spans"
        config = json.loads(segard.config_path.read_text())
        segard.config_path.write_text(json.dumps({**config, "trace": {"file": str(path)}}))
        segard.spans = path
        return segard.start()

    return make


def read(segard, count):
    def found():
        return spans_in(segard.spans.read_text()) if segard.spans.exists() else []

    wait_until(lambda: len(found()) >= count, what=f"{count} spans")
    return found()


def test_a_sampled_request_and_its_build_are_spans(origin, make_spanned):
    segard = make_spanned(keyspaces={"item": {"error": "1ms"}})
    client = segard.client()
    before = time.time_ns()
    client.get("item:1", trace=traceparent(5))
    client.get("item:1", trace=traceparent(6))
    client.get("item:1", trace=traceparent(7, "00"))
    client.get("item:1")
    spans = read(segard, 9)
    after = time.time_ns()
    named = {span["name"]: span for span in spans if span["traceId"] == f"{5:032x}"}
    assert set(named) == {"get", "build", "lookup", "queue", "lease", "permit", "query", "save"}
    get, build = named["get"], named["build"]
    assert get["parentSpanId"] == f"{5:016x}" and build["parentSpanId"] == get["spanId"]
    assert all(named[name]["parentSpanId"] == build["spanId"] for name in ("lookup", "queue", "lease", "permit", "query", "save"))
    assert len({span["spanId"] for span in spans}) == 9
    assert get["attributes"]["segar.state"] == "fresh" and get["attributes"]["segar.source"] == "origin"
    assert get["attributes"]["segar.key"] == "item:1" and get["kind"] == 2 and "status" not in get
    assert named["query"]["attributes"]["db.system"] == "postgresql" and named["query"]["kind"] == 3
    assert named["query"]["attributes"]["db.response.returned_rows"] == "1"
    assert build["attributes"]["segar.cause"] == "miss"

    def times(name):
        return int(named[name]["startTimeUnixNano"]), int(named[name]["endTimeUnixNano"])

    # one after the other, to the microsecond that they are measured in, and inside of the build
    ends = [times(name) for name in ("lookup", "queue", "lease", "permit", "query", "save")]
    assert all(begin <= end for begin, end in ends) and ends == sorted(ends)
    assert before - 10**9 < times("build")[0] <= ends[0][0] and ends[-1][1] <= times("build")[1] < after + 10**9
    assert times("get")[0] <= times("build")[0] + 1000
    [hit] = [span for span in spans if span["traceId"] != f"{5:032x}"]
    assert hit["traceId"] == f"{6:032x}" and hit["attributes"]["segar.source"] == "near"

    origin.behave("item", error="no luck")
    with pytest.raises(Error):
        client.refresh("item:2", trace=traceparent(8))
    failed = {span["name"]: span for span in read(segard, 17)[9:]}
    assert failed["refresh"]["status"]["code"] == 2 and failed["refresh"]["attributes"]["error.type"] == "origin_error"
    assert "no luck" in failed["query"]["status"]["message"] and failed["query"]["attributes"]["error.type"] == "failed"
    origin.behave("item")
    client.call("mget", ["item:1", "item:1"], {"trace": traceparent(9)})
    mget = read(segard, 18)[17]
    assert mget["name"] == "mget" and mget["attributes"]["segar.keys"] == "2"
    segard.wait_stats(spans_written=18, spans_dropped=0)


def test_hidden_keys_are_hidden_in_spans(origin, make_spanned):
    segard = make_spanned(log={"keys": "hashed"})
    client = segard.client()
    origin.behave("text", error="no luck")
    with pytest.raises(Error):
        client.get("text:geheim", trace=traceparent(5))
    read(segard, 8)
    assert "geheim" not in segard.spans.read_text() and "no luck" not in segard.spans.read_text()


def flood(segard):
    """More spans than are kept."""
    client = segard.client()
    client.get("item:1")
    while segard.stats()["spans_dropped"] == 0:
        requests = [client.send("get", "item:1", {"trace": traceparent(5)}) for _ in range(500)]
        assert all(client.receive(request)["value"] == b"item 1" for request in requests)


def test_a_full_disk_costs_spans_and_nothing_else(make_spanned):
    segard = make_spanned("/dev/full", log={"level": "info", "format": "json"})
    flood(segard)
    assert segard.stats()["spans_written"] == 0
    assert "trace.file" in segard.log()


def test_a_fifo_that_nobody_reads_costs_spans_and_nothing_else(make_spanned, workshop, serial):
    fifo = workshop / f"fifo{next(serial)}"
    os.mkfifo(fifo)
    segard = make_spanned(fifo)
    flood(segard)
    # a reader that comes gets what was kept
    reader, parts = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK), []

    def is_written():
        with contextlib.suppress(BlockingIOError):
            parts.append(os.read(reader, 1 << 20))
        return segard.stats()["spans_written"] > 0

    wait_until(is_written, what="spans to be written")
    written = segard.stats()["spans_written"]
    with contextlib.suppress(BlockingIOError):
        while part := os.read(reader, 1 << 20):
            parts.append(part)
    os.close(reader)
    lines, _, _ = b"".join(parts).decode().rpartition("\n")
    assert len(spans_in(lines)) >= written > 0
