"""What Prometheus reads, as it reads it: over HTTP, from outside."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

from harness.wait import wait_until


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def connection_to(daemon):
    return contextlib.closing(UnixConnection(daemon.folder / "metrics"))


def page(daemon):
    with connection_to(daemon) as connection:
        connection.request("GET", "/metrics")
        response = connection.getresponse()
        assert response.status == 200
        assert response.getheader("Content-Type") == "text/plain; version=0.0.4; charset=utf-8"
        return response.read().decode()


def samples(daemon):
    """{name: {labels: number}}, labels as a frozenset of pairs."""
    result = {}
    for line in page(daemon).splitlines():
        if line.startswith("#"):
            continue
        name, labels, number = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        labels = frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))
        assert labels not in result.setdefault(name, {}), f"twice: {line}"
        result[name][labels] = float(number)
    return result


def value(read, name, **labels):
    return read.get(name, {}).get(frozenset(labels.items()), 0)


@pytest.fixture
def monitored(origin, make_segard):
    def make(origin=origin, **config):
        daemon = make_segard(origin, **config)
        config = daemon.config_path.read_text()
        assert config.startswith("{")
        daemon.config_path.write_text('{"metrics": {"listen": "unix:%s"},%s' % (daemon.folder / "metrics", config[1:]))
        return daemon.start()

    return make


def test_what_clients_were_told_is_counted(monitored, origin):
    daemon = monitored()
    origin.behave("text", error="it is broken")
    with daemon.client() as client:
        for _ in range(3):
            client.get("item:1")
        client.get("item:99999")
        with pytest.raises(Exception, match="origin_error"):
            client.get("text:1")
    read = samples(daemon)
    gets = {"keyspace": "item", "reason": "none"}
    assert value(read, "segar_gets_total", state="fresh", source="origin", **gets) == 1
    assert value(read, "segar_gets_total", state="fresh", source="near", **gets) == 2
    assert value(read, "segar_gets_total", state="absent", source="origin", **gets) == 1
    assert value(read, "segar_get_errors_total", keyspace="text", code="origin_error") == 1
    assert value(read, "segar_builds_total", keyspace="item") == origin.builds("item") == 2
    assert value(read, "segar_refreshes_total", keyspace="item", cause="miss", outcome="changed") == 2
    assert value(read, "segar_refreshes_total", keyspace="text", cause="miss", outcome="failed") == 1
    assert value(read, "segar_build_duration_seconds_count", keyspace="item") == 2
    assert value(read, "segar_near_entries") == 2
    assert value(read, "segar_origin_up") == 1
    assert value(read, "segar_budget_per_second") == 1000
    assert value(read, "segar_keyspace_served", keyspace="sized") == 1
    assert "segar_store_up" not in read  # it has none
    assert value(read, "process_resident_memory_bytes") > 1 << 20


def test_histograms_hold_together(monitored, origin):
    daemon = monitored()
    origin.behave("item", delay_s=0.05)
    with daemon.client() as client:
        client.get("item:1")
    read = samples(daemon)
    buckets = sorted((float(dict(labels)["le"]), number)
                     for labels, number in read["segar_build_duration_seconds_bucket"].items()
                     if ("keyspace", "item") in labels)
    assert [number for _, number in buckets] == sorted(number for _, number in buckets)
    assert buckets[-1] == (float("inf"), 1)
    assert max(le for le, number in buckets if number == 0) >= 0.03
    assert value(read, "segar_build_duration_seconds_sum", keyspace="item") >= 0.05


def test_the_store_is_told_of(monitored, make_redis):
    redis = make_redis()
    daemon = monitored(store={"url": redis.url})
    wait_until(lambda: value(samples(daemon), "segar_store_up") == 1)
    redis.kill()
    with daemon.client() as client:
        client.get("item:1")
    wait_until(lambda: value(samples(daemon), "segar_store_up") == 0)
    assert value(samples(daemon), "segar_store_errors_total", kind="connect") > 0


def test_each_operation_on_the_store_is_counted_by_its_kind(monitored, make_redis):
    daemon = monitored(store={"url": make_redis().url})
    with daemon.client() as client:
        for _ in range(3):
            client.get("item:1")  # one build, then memory alone
        daemon.wait_stats(permits=0, store_waiting=0)
        client.call("invalidate", "item:1")
    counts = samples(daemon)["segar_store_operation_duration_seconds_count"]
    counts, stats = {dict(labels)["operation"]: number for labels, number in counts.items()}, daemon.stats()
    assert counts == {"load": 1, "lease": 1, "permit": 1 + stats["permits_denied"], "save": 1, "free": 1, "invalidate": 1,
                      "renew": stats["leases_renewed"], "release": 0, "epoch": 0}


def test_refusals_and_retries_have_their_reasons(monitored, own_origin):
    daemon = monitored(own_origin)
    own_origin.server.kill()
    with daemon.client() as client:
        def is_refused():
            with pytest.raises(Exception, match="unavailable"):
                client.get("item:1")
            return daemon.stats()["breaker_refused"] > 0

        wait_until(is_refused)
    read, stats = samples(daemon), daemon.stats()
    assert value(read, "segar_refused_total", keyspace="item", reason="breaker") == stats["breaker_refused"] > 0
    assert value(read, "segar_refused_total", keyspace="item", reason="queue") == 0
    reasons = {dict(labels)["reason"] for labels in read["segar_retries_total"]}
    assert reasons == {name[len("retries_"):] for name in stats if name.startswith("retries_")}
    assert value(read, "segar_retries_total", keyspace="item", reason="lost") == stats["retries_lost"]


def test_what_a_keyspace_keeps_in_memory_is_told(monitored):
    daemon = monitored()
    with daemon.client() as client:
        client.get("item:1")
    read = samples(daemon)
    assert value(read, "segar_keyspace_near_entries", keyspace="item") == value(read, "segar_near_entries") == 1
    assert 0 < value(read, "segar_keyspace_near_bytes", keyspace="item") < value(read, "segar_near_bytes")
    assert value(read, "segar_keyspace_near_bytes", keyspace="text") == 0
    assert value(read, "segar_hot_restored") == 1


def test_prometheus_finds_no_fault(monitored, make_redis):
    daemon = monitored(store={"url": make_redis().url})
    with daemon.client() as client:
        client.get("item:1")
    checked = subprocess.run(["promtool", "check", "metrics"], input=page(daemon), text=True, capture_output=True)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


PROMETHEUS = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "prometheus"
RULES = PROMETHEUS / "segar.rules.yaml"
METRIC = re.compile(r"\b(?:segar|process)_\w+")


def test_each_alert_is_raised_when_it_should_be(tmp_path):
    stories = pathlib.Path(__file__).with_name("segar.rules.test.yaml")
    for file in (RULES, stories):
        shutil.copy(file, tmp_path)
    tested = subprocess.run(["promtool", "test", "rules", tmp_path / stories.name], text=True, capture_output=True)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    alerts = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    assert alerts == set(re.findall(r"alertname: (\w+)\n", stories.read_text())), "an alert without a story"
    runbook = (PROMETHEUS.parent / "METRICS.md").read_text()
    assert alerts == set(re.findall(r"^### (\w+)$", runbook, re.M)), "an alert without a runbook"
    for alert in alerts:
        assert f"METRICS.md#{alert.lower()}" in RULES.read_text()


def test_rules_dashboard_and_runbook_ask_for_metrics_that_exist(monitored, make_redis):
    daemon = monitored(store={"url": make_redis().url})
    there = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", page(daemon), re.M):
        there |= {name} if kind != "histogram" else {name, f"{name}_bucket", f"{name}_sum", f"{name}_count"}
    pages = [PROMETHEUS.parent / f"{name}.md" for name in ("METRICS", "TUNING", "FAILURES", "INSTALL")]
    for file in (RULES, PROMETHEUS / "dashboard.json", *pages):
        asked = set(METRIC.findall(file.read_text()))
        assert asked and asked <= there, f"{file.name}: {sorted(asked - there)}"


def check_queries(tmp_path, rules):
    (tmp_path / "rules.json").write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
    checked = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.json"], text=True, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_queries_of_the_docs_are_prometheus_own(tmp_path):
    blocks = re.findall(r"^```promql\n(.*?)^```", (PROMETHEUS.parent / "TUNING.md").read_text(), re.M | re.S)
    queries = [line for block in blocks for line in block.splitlines()]
    assert len(queries) > 20
    check_queries(tmp_path, [{"record": f"query_{i}", "expr": query} for i, query in enumerate(queries)])


def test_the_alerts_of_the_docs_exist():
    there = set(re.findall(r"alert: (\w+)", RULES.read_text()))
    for name in ("METRICS", "TUNING", "FAILURES", "INSTALL"):
        named = set(re.findall(r"\bSegar[A-Z]\w+", (PROMETHEUS.parent / f"{name}.md").read_text()))
        assert named and named <= there, f"{name}.md: {sorted(named - there)}"


def test_the_dashboards_queries_are_prometheus_own(tmp_path):
    dashboard = json.loads((PROMETHEUS / "dashboard.json").read_text())
    rules = []
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "5m").replace("$job", "segar").replace("$keyspace", ".*")
            assert "$" not in query, query
            rules.append({"record": f"panel_{panel['id']}_{target['refId']}", "expr": query})
    assert len(rules) > 20
    check_queries(tmp_path, rules)


def test_as_many_keyspaces_as_there_can_be_come_whole(monitored):
    keyspaces = {f"k{i}": {"query": "SELECT 1 AS value"} for i in range(252)}
    daemon = monitored(keyspaces=keyspaces)
    read = samples(daemon)
    assert len(read["segar_misses_total"]) == len(read["segar_fresh_seconds"]) == 256
    assert len(read["segar_queue_duration_seconds_count"]) == 256


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/", 404), ("GET", "/metrics/", 404), ("POST", "/metrics", 405), ("DELETE", "/metrics", 405),
    ("HEAD", "/metrics", 405)])
def test_there_is_nothing_else(monitored, method, path, status):
    daemon = monitored()
    with connection_to(daemon) as connection:
        connection.request(method, path, body=b"x" * 100000 if method == "POST" else None)
        response = connection.getresponse()
        assert response.status == status
        response.read()
        connection.request("GET", "/metrics")  # the connection is still of use
        assert connection.getresponse().status == 200


@pytest.mark.parametrize("garbage", [b"\0\1\2\3" * 5000, b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 10000, b"GET /metr"])
def test_garbage_harms_nobody(monitored, garbage):
    daemon = monitored()
    before = daemon.process.open_files()
    for _ in range(40):  # more than it takes at once
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(daemon.folder / "metrics"))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(garbage)
    assert value(samples(daemon), "segar_connections") >= 0
    wait_until(lambda: daemon.process.open_files() <= before, what="the connections to be closed")


def test_a_reader_that_stops_holds_up_nothing(monitored):
    daemon = monitored(keyspaces={f"k{i}": {"query": "SELECT 1 AS value"} for i in range(252)})
    with connection_to(daemon) as stuck:
        stuck.request("GET", "/metrics")
        with daemon.client() as client:
            assert client.get("item:1")["value"] == b"item 1"
        assert len(samples(daemon)["segar_misses_total"]) == 256
    daemon.process.wait_idle()


def test_it_stops_with_readers_connected(monitored):
    daemon = monitored()
    with connection_to(daemon) as connection:
        connection.request("GET", "/metrics")
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.wait() == 0
    assert not os.path.exists(daemon.folder / "metrics")


def test_an_address_in_use_is_said_and_had_later(make_segard, origin):
    """Nobody goes without values because of it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        daemon = make_segard(origin, metrics={"listen": address}).start()
        assert daemon.client().get("item:1")["value"] == b"item 1"
        assert address in daemon.log() and "in use" in daemon.log()

    def is_served():
        try:
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as reply:
                return b"segar_build_info" in reply.read()
        except OSError:
            return False

    wait_until(is_served, what="the metrics")
    assert daemon.log().count("event=daemon.metrics") == 2
