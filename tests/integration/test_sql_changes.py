"""sql/: the log of changes that tracked tables write, and what the daemons do with it."""
import contextlib
import io
import threading

import psycopg2
import psycopg2.errors as errors
import pytest

from conftest import INSTALL
from harness.postgres import run, value
from harness.wait import wait_until


@pytest.fixture
def dba(installed):
    with contextlib.closing(installed.connect("dba")) as connection:
        yield connection


@pytest.fixture
def items(dba):
    """A tracked table with rows 1 to 3, and an empty log."""
    run(dba, "CREATE TABLE items (id bigint PRIMARY KEY, owner text)")
    run(dba, "INSERT INTO items SELECT i, 'o' || i FROM generate_series(1, 3) i")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    return dba


def log(connection):
    """(operation, key) of each change, in order, which leaves the log."""
    return [row[:2] for row in run(connection, """
        WITH gone AS (DELETE FROM segar.changes RETURNING operation::text, key, version)
        SELECT operation, key FROM gone ORDER BY version, key""")]


# what is logged


def test_each_change_is_logged_with_its_key_and_version(items):
    run(items, "INSERT INTO items VALUES (4, 'x')")
    run(items, "UPDATE items SET owner = 'y' WHERE id = 4")
    assert run(items, "SELECT key, version FROM segar.changes ORDER BY version DESC LIMIT 1") == \
        run(items, "SELECT 'item:' || id, row_version FROM items WHERE id = 4")
    run(items, "DELETE FROM items WHERE id = 4")
    assert log(items) == [("I", "item:4"), ("U", "item:4"), ("D", "item:4")]


def test_a_deletion_has_a_version_of_its_own(items):
    ((before,),) = run(items, "DELETE FROM items WHERE id = 1 RETURNING row_version")
    after = value(items, "SELECT version FROM segar.changes")
    assert after > before and value(items, "SELECT segar.last_version()") == after


def test_a_changed_key_column_logs_both_keys(items):
    run(items, "UPDATE items SET id = 9 WHERE id = 1")
    assert log(items) == [("U", "item:1"), ("U", "item:9")]


def test_copy_merge_and_upserts_are_logged(items):
    with items.cursor() as cursor:
        cursor.copy_expert("COPY items (id, owner) FROM STDIN", io.StringIO("20\ta\n"))
    run(items, "INSERT INTO items VALUES (20, 'b') ON CONFLICT (id) DO UPDATE SET owner = EXCLUDED.owner")
    run(items, "INSERT INTO items VALUES (20, 'b') ON CONFLICT DO NOTHING")
    run(items, """MERGE INTO items USING (VALUES (20)) s (id) ON items.id = s.id
                  WHEN MATCHED THEN DELETE""")
    assert log(items) == [("I", "item:20"), ("U", "item:20"), ("D", "item:20")]


def test_what_is_rolled_back_is_not_logged(installed, items):
    with contextlib.closing(installed.connect("dba", autocommit=False)) as writer:
        run(writer, "UPDATE items SET owner = 'x' WHERE id = 1")
        run(writer, "SAVEPOINT s")
        run(writer, "UPDATE items SET owner = 'x' WHERE id = 2")
        run(writer, "ROLLBACK TO s")
        writer.commit()
        run(writer, "UPDATE items SET owner = 'x' WHERE id = 3")
        writer.rollback()
    assert log(items) == [("U", "item:1")]


def test_truncate_names_the_keyspaces(items):
    run(items, "SELECT segar.track('items', 'owned:{owner}')")
    run(items, "TRUNCATE items")
    assert sorted(log(items)) == [("T", "item"), ("T", "owned")]


@pytest.mark.parametrize("owner, key", [
    ("a:b", "owned:a%3Ab"), ("100%", "owned:100%25"), ("", "owned:"), ("ü {x}", "owned:ü {x}"), (None, None),
])
def test_arguments_are_encoded_as_in_keys(items, owner, key):
    run(items, "SELECT segar.track('items', 'owned:{owner}')")
    run(items, "SELECT segar.untrack('items', 'item:{id}')")
    run(items, "INSERT INTO items VALUES (4, %s)", owner)
    assert log(items) == ([("I", key)] if key else [])


def test_a_writers_settings_do_not_change_its_keys(installed, dba):
    run(dba, "CREATE TABLE days (day date, at timestamptz, sure boolean)")
    run(dba, "SELECT segar.track('days', 'day:{day}:{at}:{sure}')")
    for setting in ("datestyle = 'German'", "timezone = 'Asia/Jakarta'", "datestyle = 'SQL, MDY'"):
        with contextlib.closing(installed.connect("dba")) as writer:
            run(writer, f"SET {setting}")
            run(writer, "INSERT INTO days VALUES (date '2024-05-01', timestamptz '2024-05-01 12:00:00+00', true)")
    assert log(dba) == [("I", "day:2024-05-01:2024-05-01 12%3A00%3A00+00:true")] * 3


def test_several_tables_feed_one_keyspace(items):
    run(items, "CREATE TABLE parts (item bigint, name text)")
    run(items, "SELECT segar.track('parts', 'item:{item}')")
    run(items, "INSERT INTO parts VALUES (2, 'wheel')")
    assert log(items) == [("I", "item:2")]


def test_a_function_gives_the_keys(items):
    run(items, """CREATE FUNCTION item_keys(items) RETURNS SETOF text LANGUAGE sql STABLE AS
                  $$ SELECT segar.key('item', $1.id::text) UNION SELECT segar.key('all') $$""")
    run(items, "SELECT segar.untrack('items')")
    run(items, "SELECT segar.track('items', 'item_keys(items)'::regprocedure, 'item', 'all')")
    run(items, "UPDATE items SET id = 7 WHERE id = 1")
    assert sorted(log(items)) == [("U", "all"), ("U", "item:1"), ("U", "item:7")]
    run(items, "TRUNCATE items")
    assert sorted(log(items)) == [("T", "all"), ("T", "item")]
    run(items, "SELECT segar.untrack('items', 'public.item_keys(public.items)')")
    run(items, "INSERT INTO items VALUES (5, 'x', 0)")
    assert log(items) == []


@pytest.mark.parametrize("make, call, error", [
    ("CREATE FUNCTION f(text) RETURNS text LANGUAGE sql RETURN $1", "f(text)", errors.InvalidFunctionDefinition),
    ("CREATE FUNCTION f(items) RETURNS int LANGUAGE sql RETURN 1", "f(items)", errors.InvalidFunctionDefinition),
    ("CREATE PROCEDURE f(items) LANGUAGE sql AS ''", "f(items)", errors.InvalidFunctionDefinition),
])
def test_refuses_functions_that_are_none_for_keys(items, make, call, error):
    run(items, make)
    with pytest.raises(error):
        run(items, f"SELECT segar.track('items', '{call}'::regprocedure, 'item')")
    assert run(items, "SELECT key_template FROM segar.tracked") == [("item:{id}",)]


def test_a_key_function_must_belong_to_who_installed(installed, items):
    """It runs with that role's rights, in the trigger of a writer who has none."""
    installed.sql("CREATE SCHEMA hers AUTHORIZATION app")
    installed.sql("GRANT USAGE ON SCHEMA hers TO dba")
    installed.sql("CREATE FUNCTION hers.f(public.items) RETURNS text LANGUAGE sql RETURN 'item:1'", user="app")
    with pytest.raises(errors.InvalidFunctionDefinition, match="does not belong to dba"):
        run(items, "SELECT segar.track('items', 'hers.f(items)'::regprocedure, 'item')")


def test_names_cannot_smuggle_sql_into_the_trigger(dba):
    column = """x'), (v); DROP TABLE segar.changes; -- $f$ "quoted\""""
    quoted = '"' + column.replace('"', '""') + '"'
    run(dba, f"CREATE TABLE odd ({quoted} text)".replace("%", "%%"))
    run(dba, "SELECT segar.track('odd', %s)", "odd:it's\n:{" + column + "}")
    run(dba, f"INSERT INTO odd VALUES ('v')")
    assert log(dba) == [("I", "odd:it's\n:v")]


def test_partitions_are_logged_whichever_way_they_are_written(dba):
    run(dba, "CREATE TABLE items (id bigint PRIMARY KEY, owner text) PARTITION BY RANGE (id)")
    run(dba, "CREATE TABLE items_a PARTITION OF items FOR VALUES FROM (0) TO (100)")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    run(dba, "CREATE TABLE items_b PARTITION OF items FOR VALUES FROM (100) TO (200)")
    run(dba, "INSERT INTO items VALUES (1), (101)")
    run(dba, "INSERT INTO items_b VALUES (102)")
    assert log(dba) == [("I", "item:1"), ("I", "item:101"), ("I", "item:102")]
    run(dba, "UPDATE items SET id = 150 WHERE id = 1")
    assert sorted(log(dba)) == [("D", "item:1"), ("I", "item:150")]
    run(dba, "TRUNCATE items_a")
    assert log(dba) == [("T", "item")]
    run(dba, "SELECT segar.untrack('items')")
    run(dba, "TRUNCATE items")
    assert log(dba) == []


def test_rows_that_arrive_by_replication_are_logged(installed, items):
    with contextlib.closing(installed.connect()) as replica:
        run(replica, "SET session_replication_role = replica")
        run(replica, "UPDATE items SET owner = 'replicated' WHERE id = 1")
    assert log(items) == [("U", "item:1")]


def test_writers_need_no_rights_in_the_schema(installed, items):
    run(items, "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON items TO app")
    installed.sql("UPDATE items SET owner = 'by app' WHERE id = 1", user="app")
    installed.sql("TRUNCATE items", user="app")
    with pytest.raises(errors.InsufficientPrivilege):
        installed.sql("SELECT FROM segar.changes", user="app")
    assert log(items) == [("U", "item:1"), ("T", "item")]


# changing what is tracked


def test_tracking_again_takes_no_lock(installed, items):
    run(items, "SELECT segar.track('items', 'owned:{owner}')")
    with contextlib.closing(installed.connect("dba", autocommit=False)) as reader:
        run(reader, "SELECT FROM items")
        run(items, "SET lock_timeout = '1s'")
        run(items, "SELECT segar.track('items', 'owned:{owner}')")
        run(items, "SELECT segar.use_notify('items', false)")


@pytest.mark.parametrize("damage", [
    "DROP TRIGGER zz_segar_changes ON items",
    "ALTER TABLE items DISABLE TRIGGER zz_segar_changes",
    "DROP TRIGGER zz_segar_truncate ON items",
])
def test_tracking_again_mends_what_was_taken_away(items, damage):
    run(items, damage)
    run(items, "SELECT segar.track('items', 'item:{id}')")
    run(items, "UPDATE items SET owner = 'x' WHERE id = 1")
    run(items, "TRUNCATE items")
    assert log(items) == [("U", "item:1"), ("T", "item")]


@pytest.mark.parametrize("table", ["items", "others"])
def test_what_two_sessions_track_at_once_is_logged(installed, items, table):
    """The one is tracked already, the other is not."""
    run(items, "CREATE TABLE others (id bigint, owner text)")
    failures = []

    def track():
        try:
            installed.sql(f"SELECT segar.track('{table}', 'second:{{id}}')", user="dba")
        except psycopg2.Error as error:
            failures.append(error)

    with contextlib.closing(installed.connect("dba", autocommit=False)) as first:
        run(first, f"SELECT segar.track('{table}', 'first:{{id}}')")
        second = threading.Thread(target=track)
        second.start()
        wait_until(lambda: installed.sql("SELECT count(*) FROM pg_locks WHERE NOT granted")[0][0] > 0)
        first.commit()
        second.join()
    assert not failures
    run(items, f"INSERT INTO {table} (id) VALUES (7)")
    assert {("I", "first:7"), ("I", "second:7")} <= set(log(items))


@pytest.mark.parametrize("call", ["track('items', 'second:{id}')", "untrack('items', 'item:{id}')", "untrack('items')",
                                  "use_notify('items', false)"])
def test_a_transaction_that_does_not_see_what_others_track_is_refused(installed, items, call):
    with contextlib.closing(installed.connect("dba", autocommit=False)) as old:
        run(old, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        run(old, "SELECT FROM segar.tracked")
        run(items, "SELECT segar.track('items', 'first:{id}')")
        with pytest.raises(errors.InvalidTransactionState, match="repeatable read"):
            run(old, f"SELECT segar.{call}")


def test_a_truncated_log_changes_all_that_is_tracked(items, listener):
    run(items, "UPDATE items SET id = 7 WHERE id = 1")
    run(items, "SELECT segar.track('items', 'owned:{owner}')")
    run(items, "TRUNCATE segar.changes")
    assert sorted(log(items)) == [("T", "item"), ("T", "owned")]
    assert bells(listener, items) > 0


def test_untrack_leaves_no_trigger_and_no_function(items):
    run(items, "SELECT segar.untrack('items')")
    run(items, "UPDATE items SET owner = 'x' WHERE id = 1")
    run(items, "TRUNCATE items")
    assert log(items) == []
    assert run(items, "SELECT proname FROM pg_proc WHERE proname LIKE 'log\\_%%' AND proname ~ '[0-9]'") == []


def test_tables_of_release_1_are_logged_after_one_more_call(database):
    """The list had one key a table; the columns and the log were not there."""
    database.psql("-f", INSTALL, user="dba")
    database.sql("GRANT ALL ON SCHEMA public TO dba")
    with contextlib.closing(database.connect("dba")) as dba:
        run(dba, "CREATE TABLE items (id int)")
        run(dba, "SELECT segar.track('items', 'item:{id}')")
        run(dba, "DROP TRIGGER zz_segar_changes ON items; DROP TRIGGER zz_segar_truncate ON items")
        run(dba, """DROP TABLE segar.changes, segar.fleets, segar.trimmed;
                    ALTER TABLE segar.tracked DROP CONSTRAINT tracked_pkey;
                    DROP FUNCTION segar.log_statements;
                    ALTER TABLE segar.tracked DROP COLUMN keyspaces, DROP COLUMN notify, ADD PRIMARY KEY (relation)""")
        said = database.psql("-f", INSTALL, user="dba").stderr
        assert "not logged yet of: items" in said
        run(dba, "SELECT segar.track(relation, key_template) FROM segar.tracked")
        run(dba, "INSERT INTO items VALUES (1)")
        assert log(dba) == [("I", "item:1")]


# the bell


@pytest.fixture
def listener(installed):
    with contextlib.closing(installed.connect()) as connection:
        run(connection, "LISTEN segar_changes")
        yield connection


def bells(listener, sender):
    """How often it rang until now."""
    run(sender, "NOTIFY segar_changes, 'end'")
    count = 0
    while True:
        listener.poll()
        while listener.notifies:
            if listener.notifies.pop(0).payload == "end":
                return count
            count += 1


def test_a_transaction_rings_once(items, listener):
    run(items, "UPDATE items SET owner = 'x'")
    assert bells(listener, items) == 1


def test_a_table_can_change_silently(installed, items, listener):
    run(items, "SELECT segar.use_notify('items', false)")
    run(items, "SELECT segar.track('items', 'owned:{owner}')")
    with contextlib.closing(installed.connect("dba", autocommit=False)) as writer:
        run(writer, "UPDATE items SET owner = 'x' WHERE id = 1")
        run(writer, "TRUNCATE items")
        writer.commit()
    assert bells(listener, items) == 0
    assert len(log(items)) == 5
    run(items, "SELECT segar.use_notify('items', true)")
    run(items, "TRUNCATE items")
    assert bells(listener, items) == 1


def test_changes_of_a_silent_table_can_be_prepared(make_postgres):
    server = make_postgres(max_prepared_transactions="2")
    server.psql("-f", INSTALL)
    server.sql("CREATE TABLE items (id int)")
    server.sql("SELECT segar.track('items', 'item:{id}')")
    with contextlib.closing(server.connect(autocommit=False)) as writer:
        run(writer, "INSERT INTO items VALUES (1)")
        with pytest.raises(errors.FeatureNotSupported):
            run(writer, "PREPARE TRANSACTION 'a'")
        writer.rollback()
        run(writer, "SELECT segar.use_notify('items', false)")
        writer.commit()
        run(writer, "INSERT INTO items VALUES (1)")
        run(writer, "PREPARE TRANSACTION 'a'")
    server.sql("COMMIT PREPARED 'a'")
    assert server.sql("SELECT key FROM segar.changes") == [("item:1",)]


def test_a_change_by_hand(installed, items, listener):
    run(items, "SELECT segar.log_change('item:5'), segar.log_change('item')")
    assert bells(listener, items) >= 1
    assert log(items) == [("U", "item:5"), ("T", "item")]
    with pytest.raises(errors.InsufficientPrivilege):
        installed.sql("SELECT segar.log_change('item:5')", user="app")


# reading and trimming


@pytest.fixture
def reader(installed, dba):
    run(dba, "SELECT segar.allow_feed('app')")
    with contextlib.closing(installed.connect("app")) as connection:
        yield connection


UNREAD = """SELECT key FROM segar.changes WHERE xid >= pg_snapshot_xmax(%(p)s::pg_snapshot)
            UNION ALL SELECT key FROM segar.changes WHERE xid IN (SELECT pg_snapshot_xip(%(p)s::pg_snapshot))"""


def test_what_commits_late_is_read_late(installed, items, reader):
    with contextlib.closing(installed.connect("dba", autocommit=False)) as late:
        run(late, "UPDATE items SET owner = 'late' WHERE id = 1")
        run(items, "UPDATE items SET owner = 'early' WHERE id = 2")
        position = value(reader, "SELECT pg_current_snapshot()::text")
        assert run(reader, UNREAD, {"p": position}) == []
        run(items, "UPDATE items SET owner = 'next' WHERE id = 3")
        assert run(reader, UNREAD, {"p": position}) == [("item:3",)]
        position = value(reader, "SELECT pg_current_snapshot()::text")
        late.commit()
        assert run(reader, UNREAD, {"p": position}) == [("item:1",)]


def move(reader, fleet, was):
    now = value(reader, "SELECT pg_current_snapshot()::text")
    return value(reader, "SELECT segar.move_fleet(%s, 'h', %s, %s)", fleet, was, now), now


def test_a_position_is_compared_and_set(items, reader):
    moved, first = move(reader, "a:", None)
    assert moved and not move(reader, "a:", None)[0]
    run(items, "UPDATE items SET owner = 'x'")
    moved, second = move(reader, "a:", first)
    assert moved and not move(reader, "a:", first)[0]
    assert value(reader, "SELECT position::text FROM segar.fleets") == second


def test_the_log_keeps_what_is_young_or_unread(installed, items, reader):
    trim = "SELECT segar.trim_changes(%s::interval, 1000)"
    _, a = move(reader, "a:", None)
    _, b = move(reader, "b:", None)
    run(items, "UPDATE items SET owner = 'x'")
    _, a = move(reader, "a:", a)
    assert value(reader, trim, "0") == 0, "b has not read it"
    _, b = move(reader, "b:", b)
    assert value(reader, trim, "1 hour") == 0, "it is young"
    with contextlib.closing(installed.connect("dba", autocommit=False)) as late:
        run(late, "UPDATE items SET owner = 'late' WHERE id = 1")
        run(items, "UPDATE items SET owner = 'early' WHERE id = 2")
        assert value(reader, "SELECT before_xid::text FROM segar.trimmed") == "0"
        assert value(reader, trim, "0") == 3
        late.commit()
    assert value(reader, trim, "0") == 0
    assert {key for _, key in log(items)} == {"item:1", "item:2"}
    assert value(reader, "SELECT before_xid > '0' AND before_xid <= pg_snapshot_xmin(%s::pg_snapshot) FROM segar.trimmed",
                 move(reader, "a:", a)[1])


def test_trimming_is_bounded(items, reader):
    run(items, "INSERT INTO items SELECT generate_series(100, 1099)")
    assert value(reader, "SELECT segar.trim_changes('0', 300)") == 300
    assert value(items, "SELECT count(*) FROM segar.changes") == 700


def test_a_reader_may_do_nothing_else(installed, reader, items):
    for statement in ("DELETE FROM segar.changes", "UPDATE segar.fleets SET name = 'x'",
                      "INSERT INTO segar.changes (key, version, operation) VALUES ('item:1', 1, 'U')",
                      "SELECT segar.log_change('item:1')", "SELECT segar.track('items', 'item:{id}')"):
        with pytest.raises(errors.InsufficientPrivilege):
            run(reader, statement)


def test_parallel_writers_of_one_table_do_not_wait_for_each_other(installed, items):
    """But for the row they share."""
    with contextlib.closing(installed.connect("dba", autocommit=False)) as open_writer:
        run(open_writer, "UPDATE items SET owner = 'x' WHERE id = 1")
        writer = threading.Thread(target=installed.sql, args=("UPDATE items SET owner = 'y' WHERE id = 2",))
        writer.start()
        wait_until(lambda: not writer.is_alive())
        writer.join()
    assert ("U", "item:2") in log(items)
