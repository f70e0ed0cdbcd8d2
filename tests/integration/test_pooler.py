"""PgBouncer in transaction mode before the origin: builds lend a connection for one transaction, and leave nothing."""
import contextlib

import pytest

from conftest import INSTALL
from harness.pgbouncer import PgBouncer
from harness.postgres import run, value
from harness.segard import merged
from harness.wait import wait_until
from harness.wire import Error

POOLED = {"origin": {"pooler": True, "concurrency": 2, "build_timeout": "10s"}}
MANY = {"query": "SELECT value, version FROM many($1)", "single_row": True,
        "batch": {"query": "SELECT key, value, version FROM many_of($1)", "linger": "20ms"}}


@pytest.fixture
def make_pooler(workshop, serial):
    poolers = []

    def make(origin, **settings):
        pooler = PgBouncer(workshop / f"pb{next(serial)}", origin.server, **settings)
        poolers.append(pooler)
        return pooler.start()

    yield make
    for pooler in poolers:
        pooler.remove()


@pytest.fixture
def pooler(origin, make_pooler):
    return make_pooler(origin, size=2)


@pytest.fixture
def make_pooled(origin, pooler, make_segard):
    """Makes daemons that reach the origin through the pooler only."""

    def make(**config):
        return make_segard(pooler.dsn(origin), **merged(POOLED, config)).start()

    return make


def backends(origin):
    return {pid for (pid,) in origin.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'segard'")}


def wait_given_back(pooler, origin):
    wait_until(lambda: pooler.busy(origin) == 0, what="the pooler to have all its connections back")


def test_many_builds_share_few_connections_and_leave_nothing_in_them(origin, pooler, make_pooled):
    segard = make_pooled(keyspaces={"sized": {}})
    client = segard.client()
    requests = [client.send("get", f"item:{i}", {}) for i in range(1, 41)]
    assert [client.receive(request)["value"] for request in requests] == [b"item %d" % i for i in range(1, 41)]
    assert origin.builds("item") == 40
    assert 1 <= len(backends(origin)) <= 2
    wait_given_back(pooler, origin)
    # another application's transactions, in both at once
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            other = stack.enter_context(contextlib.closing(pooler.connect(origin.name, user="segard")))
            run(other, "BEGIN")
            assert value(other, "SELECT pg_backend_pid()") in backends(origin)
            assert value(other, "SELECT count(*) FROM pg_prepared_statements") == 0
            assert value(other, "SELECT current_setting('statement_timeout')") == "0"


def test_every_kind_of_answer_comes_through(origin, make_pooled):
    client = make_pooled().client()
    origin.sql("INSERT INTO blobs VALUES ('b', '\\x00ff27'), ('none', NULL)")
    assert client.get("blob:b")["value"] == b"\x00\xff'"
    assert client.get("blob:none")["value"] is None
    assert client.get("blob:nosuch")["state"] == "absent"
    assert client.get("item:7")["version"] == 7
    assert client.get("sized:2000000")["value"] == b"x" * 2000000
    with pytest.raises(Error) as refused:
        client.get("item:x")
    assert refused.value.code == "bad_request"


def test_a_failed_build_leaves_the_connection_clean(origin, pooler, make_pooled):
    client = make_pooled(keyspaces={"item": {"error": "1ms"}}).client()
    client.get("item:1")
    before = backends(origin)
    origin.behave("item", error="no good")
    for i in range(2, 6):
        with pytest.raises(Error) as failed:
            client.get(f"item:{i}")
        assert failed.value.code == "origin_error" and "no good" in str(failed.value)
    wait_given_back(pooler, origin)
    origin.behave("item")
    assert client.get("item:6")["value"] == b"item 6"
    assert before & backends(origin), "it cost the connection"


def test_the_time_limit_is_postgresqls_and_ends_with_the_build(origin, pooler, make_pooled):
    client = make_pooled(keyspaces={"item": {"build_timeout": "300ms"}}).client()
    client.get("item:1")
    before = backends(origin)
    with origin.gate("item"):
        with pytest.raises(Error) as late:
            client.get("item:2")
        assert late.value.code == "origin_error" and "57014" in str(late.value)
    wait_given_back(pooler, origin)
    assert client.get("item:3")["value"] == b"item 3"
    assert before & backends(origin), "it cost the connection"


def test_the_guards_locks_hold(origin, pooler, make_pooled):
    """Two daemons without a shared store: PostgreSQL alone keeps one from building what the other builds."""
    first, second = make_pooled(), make_pooled()
    with origin.gate("item") as gate:
        client = first.client()
        request = client.send("get", "item:1", {})
        gate.wait_for(1)
        other = second.client()
        waits = other.send("get", "item:1", {})
        wait_until(lambda: second.stats()["locks_held"] > 0, what="the lock to be found held")
        assert origin.builds("item") == 1
        gate.open()
        assert client.receive(request)["value"] == other.receive(waits)["value"] == b"item 1"


def test_a_batch_is_one_statement(origin, pooler, make_pooled):
    segard = make_pooled(keyspaces={"many": MANY})
    reply = segard.client().call("mget", [f"many:{i}" for i in range(1, 41)], {})
    assert [each["value"] for each in reply] == [b"item %d" % i for i in range(1, 41)]
    assert origin.builds("statement") == 1
    reply = segard.client().call("mget", ["many:666", "many:41"], {})
    assert reply[0]["error"].startswith("origin_error: 22012") and reply[1]["value"] == b"item 41"
    wait_given_back(pooler, origin)


def test_a_stopped_daemon_cancels_what_it_builds(origin, pooler, make_pooled):
    segard = make_pooled()
    with origin.gate("item") as gate:
        client = segard.client()
        client.send("get", "item:1", {})
        gate.wait_for(1)
        segard.stop()
        wait_until(lambda: gate.waiting() == 0, what="the statement to be cancelled")
        wait_given_back(pooler, origin)


def test_a_killed_daemons_builds_end(origin, pooler, make_pooled):
    segard = make_pooled()
    with origin.gate("item") as gate:
        client = segard.client()
        client.send("get", "item:1", {})
        gate.wait_for(1)
        segard.kill()
        wait_until(lambda: gate.waiting() == 0, what="PostgreSQL to notice")


def test_a_pool_without_a_free_connection_is_no_failure_of_the_query(origin, make_pooler, make_segard):
    pooler = make_pooler(origin, size=1)
    segard = make_segard(pooler.dsn(origin), **merged(POOLED, {"keyspaces": {"item": {"build_timeout": "100ms"}}})).start()
    client = segard.client()
    with contextlib.closing(pooler.connect(origin.name, user="segard")) as other:
        run(other, "BEGIN")
        run(other, "SELECT 1")
        with pytest.raises(Error) as waited:
            client.get("item:1")
        assert waited.value.code == "unavailable" and "has it a connection free" in str(waited.value)
        run(other, "COMMIT")

    def answers():
        with contextlib.suppress(Error):
            return client.get("item:1")["value"] == b"item 1"

    wait_until(answers, what="service to return")


def test_a_changed_table_is_learned_anew(origin, make_pooled):
    origin.sql("CREATE TABLE shapes (id int, v text); INSERT INTO shapes VALUES (1, 'text'), (2, '5')")
    origin.sql("GRANT SELECT ON shapes TO segard")
    client = make_pooled(keyspaces={"shape": {"query": "SELECT v AS value FROM shapes WHERE id = $1"}}).client()
    assert client.get("shape:1")["value"] == b"text"
    origin.sql("DELETE FROM shapes WHERE id = 1; ALTER TABLE shapes ALTER v TYPE int USING v::int")
    assert client.get("shape:2")["value"] == b"5"


def test_what_does_not_prepare_is_refused_and_heals(origin, make_pooled):
    late = {"query": "SELECT v AS value FROM late WHERE id = $1", "error": "1ms"}
    client = make_pooled(keyspaces={"late": late}).client()
    with pytest.raises(Error) as refused:
        client.get("late:1")
    assert "42P01" in str(refused.value)
    origin.sql("CREATE TABLE late (id int, v text); INSERT INTO late VALUES (1, 'here'); "
               "GRANT SELECT ON late TO segard")
    wait_until(lambda: client.get("late:1")["value"] == b"here", what="the table to be found")


def test_a_restarted_pooler_is_come_back_to(origin, pooler, make_pooled):
    client = make_pooled(keyspaces={"item": {"error": "50ms"}}).client()
    client.get("item:1")
    pooler.kill()
    pooler.start()

    def answers():
        with contextlib.suppress(Error):
            return client.get("item:2", wait_ms=2000)["value"] == b"item 2"

    wait_until(answers, what="service to return")


def test_a_pooler_that_is_not_named_as_one_is_refused(origin, pooler, make_segard):
    segard = make_segard(pooler.dsn(origin)).start()
    with pytest.raises(Error) as refused:
        segard.client().get("item:1")
    assert refused.value.code == "unavailable" and "origin.pooler: true" in str(refused.value)
    assert origin.builds() == 0
    with contextlib.closing(pooler.connect(origin.name, user="segard")) as other:
        assert value(other, "SELECT current_setting('statement_timeout')") == "0", "it left a setting behind"


@pytest.fixture
def tracked(origin):
    origin.psql("-f", INSTALL)
    origin.sql("SELECT segar.track('items', 'item:{id}')")
    origin.sql("SELECT segar.allow_feed('segard')")
    return origin


FOLLOWS = {"item": {"on_change": "refresh"}}


def test_the_feed_goes_past_the_pooler(tracked, make_pooled):
    segard = make_pooled(keyspaces=FOLLOWS, feed={"dsn": tracked.dsn()})
    wait_until(lambda: segard.stats()["feed_reads"] > 0, what="the log to be read")
    client = segard.client()
    assert client.get("item:1")["value"] == b"item 1"
    tracked.sql("UPDATE items SET value = 'newer' WHERE id = 1")
    wait_until(lambda: client.get("item:1")["value"] == b"newer", what="the change to show")


def test_a_feed_through_the_pooler_is_told_of(tracked, pooler, make_pooled):
    segard = make_pooled(keyspaces=FOLLOWS, feed={"dsn": pooler.dsn(tracked)})
    wait_until(lambda: "it takes a feed.dsn that leads to PostgreSQL itself" in segard.process.output(),
               what="the log to say so")
    assert segard.client().get("item:1")["value"] == b"item 1"
    assert segard.stats()["feed_reads"] == 0
