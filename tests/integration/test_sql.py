"""sql/: segar.track and segar.untrack, installed and called by a role that is no superuser."""
import contextlib
import io
import itertools
import subprocess
import threading

import psycopg2
import psycopg2.errors as errors
import pytest

from conftest import INSTALL
from harness.postgres import BIN, run, value
from harness.wait import wait_until


@pytest.fixture
def dba(installed):
    with contextlib.closing(installed.connect("dba")) as connection:
        yield connection


@pytest.fixture
def items(dba):
    """A tracked table with rows 1 to 3."""
    run(dba, "CREATE TABLE items (id bigint PRIMARY KEY, name text)")
    run(dba, "INSERT INTO items SELECT i, 'item ' || i FROM generate_series(1, 3) i")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    return dba


def version(connection, row_id, table="items"):
    return value(connection, f"SELECT row_version FROM {table} WHERE id = %s", row_id)


# installing


def test_installs_as_a_role_that_is_no_superuser(installed):
    assert installed.sql("SELECT segar.schema_version()", user="app") == [(2,)]
    owners = installed.sql("""
        SELECT DISTINCT pg_get_userbyid(proowner) FROM pg_proc WHERE pronamespace = 'segar'::regnamespace""")
    assert owners == [("dba",)]


def test_installing_again_keeps_what_is_tracked(installed, items):
    before = run(items, "SELECT relation, key_template FROM segar.tracked"), version(items, 1)
    installed.psql("-f", INSTALL, user="dba")
    assert (run(items, "SELECT relation, key_template FROM segar.tracked"), version(items, 1)) == before
    run(items, "UPDATE items SET name = 'x' WHERE id = 1")
    assert version(items, 1) > before[1]


def test_installing_keeps_grants(installed, dba):
    run(dba, "GRANT EXECUTE ON FUNCTION segar.track(regclass, text) TO app")
    installed.psql("-f", INSTALL, user="dba")
    assert value(dba, "SELECT has_function_privilege('app', 'segar.track(regclass, text)', 'EXECUTE')")


def test_refuses_a_schema_of_another_owner(database):
    database.sql("CREATE SCHEMA segar")
    with pytest.raises(Exception) as failure:
        database.psql("-f", INSTALL, user="dba")
    assert "schema segar belongs to postgres" in failure.value.stderr


def test_a_failed_install_leaves_nothing(database):
    database.sql("CREATE SCHEMA segar AUTHORIZATION dba")
    database.sql("CREATE FUNCTION segar.untrack(relation regclass) RETURNS int LANGUAGE sql RETURN 1", user="dba")
    with pytest.raises(Exception):
        database.psql("-f", INSTALL, user="dba")
    assert database.sql("SELECT to_regclass('segar.tracked')") == [(None,)]


# versions


def test_rows_from_before_have_a_version_and_no_row_is_rewritten(dba):
    run(dba, "CREATE TABLE items (id bigint PRIMARY KEY)")
    run(dba, "INSERT INTO items SELECT generate_series(1, 1000)")
    file = value(dba, "SELECT pg_relation_filenode('items')")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    assert value(dba, "SELECT count(*) FROM items WHERE row_version > 0") == 1000
    assert value(dba, "SELECT pg_relation_filenode('items')") == file
    run(dba, "INSERT INTO items VALUES (1001)")
    assert version(dba, 1001) > version(dba, 1)


def test_every_update_grows_the_version(items):
    versions = []
    for text in ("a", "b", "b"):
        run(items, "UPDATE items SET name = %s WHERE id = 2", text)
        versions.append(version(items, 2))
    assert versions == sorted(set(versions))


def test_a_version_that_a_statement_sets_is_overwritten(items):
    before = version(items, 1)
    run(items, "UPDATE items SET row_version = 1 WHERE id = 1")
    assert version(items, 1) > before
    run(items, "INSERT INTO items VALUES (9, 'nine', 1)")
    assert version(items, 9) > before


def test_delete_and_insert_again_gives_a_higher_version(items):
    before = version(items, 1)
    run(items, "DELETE FROM items WHERE id = 1")
    run(items, "INSERT INTO items VALUES (1, 'again')")
    assert version(items, 1) > before


def test_truncate_and_insert_again_gives_a_higher_version(items):
    before = version(items, 1)
    run(items, "TRUNCATE items")
    run(items, "INSERT INTO items VALUES (1, 'again')")
    assert version(items, 1) > before


def test_on_conflict_do_update_grows_the_version(items):
    before = version(items, 1)
    upsert = """INSERT INTO items (id, name, row_version) VALUES (1, 'new', 5)
                ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name, row_version = EXCLUDED.row_version"""
    run(items, upsert)
    after = version(items, 1)
    assert after > before
    run(items, upsert.replace("(1,", "(10,"))
    assert version(items, 10) > after


def test_on_conflict_do_nothing_leaves_the_version(items):
    before = version(items, 1)
    run(items, "INSERT INTO items VALUES (1, 'new') ON CONFLICT DO NOTHING")
    assert version(items, 1) == before


def test_merge_grows_the_version(items):
    before = version(items, 1)
    run(items, """MERGE INTO items USING (VALUES (1, 'merged'), (11, 'eleven')) s (id, name) ON items.id = s.id
                  WHEN MATCHED THEN UPDATE SET name = s.name
                  WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)""")
    assert version(items, 11) > before and version(items, 1) > before


def test_copy_gives_each_row_a_version(items):
    with items.cursor() as cursor:
        cursor.copy_expert("COPY items (id, name) FROM STDIN", io.StringIO("20\ta\n21\tb\n"))
        cursor.copy_expert("COPY items FROM STDIN", io.StringIO("22\tc\t1\n"))
    versions = [version(items, i) for i in (1, 20, 21, 22)]
    assert versions == sorted(set(versions))


def test_versions_grow_in_the_order_of_commits(installed, items):
    """The second writer draws its number only when the first has let go of the row."""
    with contextlib.closing(installed.connect("dba", autocommit=False)) as first:
        run(first, "UPDATE items SET name = 'first' WHERE id = 1")
        drawn_first = version(first, 1)
        second = threading.Thread(target=installed.sql, args=("UPDATE items SET name = 'second' WHERE id = 1",),
                                  kwargs={"user": "dba"})
        second.start()
        wait_until(lambda: value(items, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
        # numbers drawn meanwhile: the second one's must be above them
        run(items, "UPDATE items SET name = 'other' WHERE id = 2")
        drawn_between = version(items, 2)
        first.commit()
        second.join()
    assert value(items, "SELECT name FROM items WHERE id = 1") == "second"
    assert drawn_first < drawn_between < version(items, 1)


def test_concurrent_writers_never_lower_a_version(installed, items):
    """Eight writers on three rows; each row keeps a history of its own, written under its lock."""
    run(items, "CREATE TABLE history (position bigint GENERATED ALWAYS AS IDENTITY, id bigint, v bigint)")
    run(items, """CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
                  BEGIN INSERT INTO history (id, v) VALUES (NEW.id, NEW.row_version); RETURN NULL; END $$""")
    run(items, "CREATE TRIGGER note AFTER INSERT OR UPDATE ON items FOR EACH ROW EXECUTE FUNCTION note()")
    failures = []

    def write(writer):
        try:
            with contextlib.closing(installed.connect("dba")) as connection:
                for turn in range(100):
                    run(connection, """INSERT INTO items VALUES (%s, %s)
                                       ON CONFLICT (id) DO UPDATE SET name = EXCLUDED.name""",
                        1 + (writer + turn) % 3, f"{writer} {turn}")
        except psycopg2.Error as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(8)]
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert not failures
    rows = run(items, "SELECT id, v FROM history ORDER BY position")
    assert len(rows) == 800
    for row_id in (1, 2, 3):
        versions = [v for i, v in rows if i == row_id]
        assert all(a < b for a, b in itertools.pairwise(versions))
        assert version(items, row_id) == versions[-1]


def test_versions_do_not_restart_after_a_crash(make_postgres):
    server = make_postgres()
    server.sql("CREATE DATABASE d")
    server.psql("-f", INSTALL, dbname="d")
    subject = {"dbname": "d"}
    server.sql("CREATE TABLE items (id int, row_note text)", **subject)
    server.sql("SELECT segar.track('items', 'item:{id}')", **subject)
    server.sql("INSERT INTO items SELECT generate_series(1, 50)", **subject)
    ((before,),) = server.sql("SELECT max(row_version) FROM items", **subject)
    server.kill()
    server.start()
    server.sql("INSERT INTO items VALUES (51)", **subject)
    ((after,),) = server.sql("SELECT row_version FROM items WHERE id = 51", **subject)
    assert after > before


def test_changes_that_arrive_by_replication_get_versions_too(installed, items):
    before = version(items, 1)
    with contextlib.closing(installed.connect()) as replica:
        run(replica, "SET session_replication_role = replica")
        run(replica, "UPDATE items SET name = 'replicated' WHERE id = 1")
    assert version(items, 1) > before


def test_writers_need_no_rights_in_the_schema(installed, items):
    run(items, "GRANT SELECT, INSERT, UPDATE ON items TO app")
    before = version(items, 1)
    installed.sql("UPDATE items SET name = 'by app' WHERE id = 1", user="app")
    assert version(items, 1) > before


def test_a_search_path_cannot_divert_the_trigger(installed, items):
    """A writer who shadows nextval would have it run with the installing role's rights."""
    run(items, "GRANT ALL ON items TO app")
    installed.sql("CREATE SCHEMA evil AUTHORIZATION app")
    before = version(items, 1)
    with contextlib.closing(installed.connect("app")) as attacker:
        run(attacker, "CREATE FUNCTION evil.nextval(text) RETURNS bigint LANGUAGE sql RETURN 1")
        run(attacker, "GRANT USAGE ON SCHEMA evil TO PUBLIC")
        run(attacker, "SET search_path = evil, public, pg_catalog")
        run(attacker, "UPDATE items SET name = 'x' WHERE id = 1")
    assert version(items, 1) > before


def test_no_trigger_of_the_table_can_set_the_version_afterwards(items):
    run(items, """CREATE FUNCTION back() RETURNS trigger LANGUAGE plpgsql
                  AS $$ BEGIN NEW.row_version := 0; RETURN NEW; END $$""")
    run(items, "CREATE TRIGGER later BEFORE UPDATE ON items FOR EACH ROW EXECUTE FUNCTION back()")
    before = version(items, 1)
    run(items, "UPDATE items SET name = 'x' WHERE id = 1")
    assert version(items, 1) > before


# partitioned tables


@pytest.fixture
def parts(dba):
    """A tracked table of three partitions by id, one of them partitioned again; a row in each."""
    run(dba, "CREATE TABLE items (id bigint PRIMARY KEY, name text) PARTITION BY RANGE (id)")
    run(dba, "CREATE TABLE items_a PARTITION OF items FOR VALUES FROM (0) TO (100)")
    run(dba, "CREATE TABLE items_b PARTITION OF items FOR VALUES FROM (100) TO (200)")
    run(dba, """CREATE TABLE items_c PARTITION OF items FOR VALUES FROM (200) TO (400)
                PARTITION BY RANGE (id)""")
    run(dba, "CREATE TABLE items_c1 PARTITION OF items_c FOR VALUES FROM (200) TO (300)")
    run(dba, "INSERT INTO items VALUES (1), (101), (201)")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    return dba


def test_partitions_are_tracked_with_their_table(parts):
    before = version(parts, 201)
    run(parts, "UPDATE items SET name = 'x' WHERE id = 201")
    direct = version(parts, 201)
    run(parts, "UPDATE items_c1 SET name = 'y' WHERE id = 201")
    assert before < direct < version(parts, 201)


def test_a_row_that_moves_to_another_partition_gets_a_higher_version(parts):
    before = version(parts, 1)
    run(parts, "UPDATE items SET id = 150 WHERE id = 1")
    assert value(parts, "SELECT tableoid::regclass::text FROM items WHERE id = 150") == "items_b"
    assert version(parts, 150) > before


def test_a_new_partition_is_tracked(installed, parts):
    run(parts, "CREATE TABLE items_d PARTITION OF items FOR VALUES FROM (400) TO (500)")
    run(parts, "INSERT INTO items VALUES (401)")
    before = version(parts, 401)
    with contextlib.closing(installed.connect()) as replica:
        run(replica, "SET session_replication_role = replica")
        run(replica, "UPDATE items SET name = 'x' WHERE id = 401")
    assert version(parts, 401) > before


def test_an_attached_partition_is_tracked(parts):
    run(parts, "CREATE TABLE items_d (LIKE items INCLUDING ALL)")
    run(parts, "INSERT INTO items_d VALUES (401, 'loaded', 0)")
    run(parts, "ALTER TABLE items ATTACH PARTITION items_d FOR VALUES FROM (400) TO (500)")
    run(parts, "UPDATE items SET name = 'touched' WHERE id = 401")
    assert version(parts, 401) > version(parts, 1)


def test_a_partition_alone_cannot_be_tracked(parts):
    with pytest.raises(errors.WrongObjectType) as failure:
        run(parts, "SELECT segar.track('items_c1', 'item:{id}')")
    assert failure.value.diag.message_hint == "Track public.items."


# names


def test_odd_names_are_quoted(dba):
    relation = '''"We ""ird"."tab 'le$; --"'''
    run(dba, 'CREATE SCHEMA "We ""ird"')
    run(dba, f'CREATE TABLE {relation} ("i d:%" int PRIMARY KEY, "{{" int)')
    run(dba, "SELECT segar.track(%s, %s)", relation, "odd:{i d:%}")
    run(dba, f'INSERT INTO {relation} VALUES (1, 2)')
    assert value(dba, f"SELECT row_version FROM {relation}") > 0
    assert value(dba, "SELECT key_template FROM segar.tracked WHERE relation = %s::regclass", relation) == "odd:{i d:%}"
    run(dba, "SELECT segar.track(%s, %s)", relation, "odd:{i d:%}")
    run(dba, "SELECT segar.untrack(%s)", relation)
    assert value(dba, "SELECT count(*) FROM segar.tracked") == 0


def test_a_table_of_the_same_name_elsewhere_is_left_alone(dba):
    run(dba, "CREATE SCHEMA other")
    for schema in ("public", "other"):
        run(dba, f"CREATE TABLE {schema}.items (id int)")
    run(dba, "SET search_path = other, public")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    assert run(dba, "SELECT attrelid::regclass::text FROM pg_attribute WHERE attname = 'row_version'"
                    " AND attrelid IN ('public.items'::regclass, 'other.items'::regclass)") == [("items",)]


# calling again, and ending it


def test_tracking_again_changes_nothing_and_takes_no_lock(installed, items):
    before = version(items, 1)
    with contextlib.closing(installed.connect("dba", autocommit=False)) as reader:
        run(reader, "SELECT FROM items")
        run(items, "SET lock_timeout = '1s'")
        run(items, "SELECT segar.track('items', 'item:{id}')")
    assert version(items, 1) == before


def test_a_table_may_feed_several_keys(items):
    run(items, "SELECT segar.track('items', 'named:{name}')")
    run(items, "SELECT segar.untrack('items', 'item:{id}')")
    assert run(items, "SELECT relation::text, key_template FROM segar.tracked") == [("items", "named:{name}")]


@pytest.mark.parametrize("damage", [
    "DROP TRIGGER zz_segar_row_version ON items",
    "ALTER TABLE items DISABLE TRIGGER zz_segar_row_version",
    "ALTER TABLE items ENABLE TRIGGER zz_segar_row_version",
    "ALTER TABLE items ALTER COLUMN row_version DROP NOT NULL",
])
def test_tracking_again_mends_what_was_taken_away(installed, items, damage):
    run(items, damage)
    run(items, "SELECT segar.track('items', 'item:{id}')")
    before = version(items, 1)
    with contextlib.closing(installed.connect()) as replica:
        run(replica, "SET session_replication_role = replica")
        run(replica, "UPDATE items SET name = 'x' WHERE id = 1")
    assert version(items, 1) > before
    with pytest.raises(errors.NotNullViolation):
        run(items, "ALTER TABLE items DISABLE TRIGGER zz_segar_row_version")
        run(items, "INSERT INTO items VALUES (50, 'x', NULL)")


def test_two_sessions_may_track_one_table_at_once(installed, dba):
    run(dba, "CREATE TABLE items (id int)")
    failures = []

    def track():
        try:
            installed.sql("SELECT segar.track('items', 'item:{id}')", user="dba")
        except psycopg2.Error as error:
            failures.append(error)

    sessions = [threading.Thread(target=track) for _ in range(8)]
    for thread in sessions:
        thread.start()
    for thread in sessions:
        thread.join()
    assert not failures
    assert value(dba, "SELECT count(*) FROM pg_trigger WHERE tgname = 'zz_segar_row_version'") == 1


def test_untrack_keeps_the_column_and_lets_rows_in_without_a_version(items):
    before = version(items, 1)
    run(items, "SELECT segar.untrack('items')")
    run(items, "UPDATE items SET name = 'x' WHERE id = 1")
    run(items, "INSERT INTO items VALUES (30, 'x')")
    assert (version(items, 1), version(items, 30)) == (before, None)
    assert value(items, "SELECT count(*) FROM segar.tracked") == 0


def test_untrack_twice_or_without_track_does_nothing(items):
    run(items, "CREATE TABLE plain (id int)")
    for _ in range(2):
        run(items, "SELECT segar.untrack('items'), segar.untrack('plain')")


def test_tracking_after_untrack_versions_every_row_anew_where_needed(items):
    highest = value(items, "SELECT max(row_version) FROM items")
    run(items, "SELECT segar.untrack('items')")
    run(items, "INSERT INTO items VALUES (30, 'without', NULL), (31, 'from elsewhere', 9000000)")
    run(items, "SELECT segar.track('items', 'item:{id}')")
    assert highest < version(items, 30) < 9000000
    before = version(items, 31)
    assert highest < before < 9000000
    run(items, "UPDATE items SET name = 'x' WHERE id = 31")
    assert version(items, 31) > before


def test_a_dropped_table_can_be_untracked(items):
    oid = value(items, "SELECT 'items'::regclass::oid::text")
    run(items, "DROP TABLE items")
    run(items, "SELECT segar.untrack(%s)", oid)
    assert value(items, "SELECT count(*) FROM segar.tracked") == 0


# what cannot be tracked


@pytest.mark.parametrize("make, error", [
    ("CREATE TABLE t (id int, row_version int)", errors.DatatypeMismatch),
    ("CREATE TABLE t (id int, row_version text)", errors.DatatypeMismatch),
    ("CREATE TABLE t (id int, row_version bigint GENERATED ALWAYS AS IDENTITY)", errors.DatatypeMismatch),
    ("CREATE TABLE t (id int, row_version bigint GENERATED ALWAYS AS (1) STORED)", errors.DatatypeMismatch),
    ("CREATE VIEW t AS SELECT 1 AS id", errors.WrongObjectType),
    ("CREATE MATERIALIZED VIEW t AS SELECT 1 AS id", errors.WrongObjectType),
    ("CREATE TEMP TABLE t (id int)", errors.WrongObjectType),
    ("CREATE SEQUENCE t", errors.WrongObjectType),
    ("CREATE TABLE t (id int); CREATE TABLE child () INHERITS (t)", errors.WrongObjectType),
])
def test_refuses_what_cannot_be_versioned(dba, make, error):
    run(dba, make)
    with pytest.raises(error) as failure:
        run(dba, "SELECT segar.track('t', 't:{id}')")
    assert failure.value.diag.message_hint
    assert value(dba, "SELECT count(*) FROM segar.tracked") == 0


def test_refuses_a_foreign_table(installed, dba):
    installed.sql("CREATE EXTENSION postgres_fdw")
    installed.sql("CREATE SERVER elsewhere FOREIGN DATA WRAPPER postgres_fdw")
    installed.sql("CREATE FOREIGN TABLE t (id int) SERVER elsewhere")
    with pytest.raises(errors.WrongObjectType):
        installed.sql("SELECT segar.track('t', 't:{id}')")


@pytest.mark.parametrize("relation", ["pg_catalog.pg_class", "segar.tracked", "information_schema.sql_parts"])
def test_refuses_system_tables(installed, relation):
    with pytest.raises(errors.WrongObjectType):
        installed.sql("SELECT segar.track(%s, 't')", relation)


def test_a_plain_bigint_column_is_taken_over(dba):
    run(dba, "CREATE TABLE t (id int, row_version bigint)")
    run(dba, "INSERT INTO t VALUES (1, 77777777), (2, NULL)")
    run(dba, "SELECT segar.track('t', 't:{id}')")
    assert value(dba, "SELECT count(DISTINCT row_version) FROM t WHERE row_version < 1000") == 2


# key templates


@pytest.mark.parametrize("template, columns", [
    ("settings", []),
    ("order:{customer_id}", ["customer_id"]),
    ("Order.v2-x_y:{a}:{b}", ["a", "b"]),
    ("order:eu:{a}", ["a"]),
    ("order:a%3Ab:{a:b}", ["a:b"]),
    ("k:" + ":".join(["{a}"] * 16), ["a"] * 16),
])
def test_templates_that_are_understood(dba, template, columns):
    assert value(dba, "SELECT segar.template_columns(%s)", template) == columns


@pytest.mark.parametrize("template", [
    "", ":", ":{a}", "ördér:{a}", "or der:{a}", "order:", "order:{a}:", "order::{a}", "order:{}", "order:{a",
    "order:a}", "order:{{a}}", "order:{a}b", "order:b{a}", "order{a}", "order:%", "order:%zz", "order:%4",
    "x" * 65, "k:" + ":".join(["{a}"] * 17), "order\n:{a}",
])
def test_templates_that_are_not(dba, template):
    with pytest.raises(errors.InvalidParameterValue) as failure:
        run(dba, "SELECT segar.template_columns(%s)", template)
    assert failure.value.diag.message_primary.startswith(f'key template "{template}": ')


@pytest.mark.parametrize("column", ["nope", "ctid", "ID", "dropped"])
def test_a_template_must_name_columns_of_the_table(dba, column):
    run(dba, "CREATE TABLE items (id int, dropped int)")
    run(dba, "ALTER TABLE items DROP COLUMN dropped")
    with pytest.raises(errors.UndefinedColumn, match=column):
        run(dba, "SELECT segar.track('items', %s)", f"item:{{{column}}}")
    assert value(dba, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'items'::regclass"
                      " AND attname = 'row_version'") == 0


def test_nothing_is_null(dba):
    run(dba, "CREATE TABLE items (id int)")
    with pytest.raises(errors.NullValueNotAllowed):
        run(dba, "SELECT segar.track('items', NULL)")
    with pytest.raises(errors.UndefinedTable):
        run(dba, "SELECT segar.track(NULL, 'item:{id}')")
    with pytest.raises(errors.UndefinedTable):
        run(dba, "SELECT segar.track('nowhere', 'item:{id}')")


# who may


def test_only_those_who_were_granted_it_may_track(installed, dba):
    installed.sql("CREATE SCHEMA hers AUTHORIZATION app")
    installed.sql("CREATE TABLE hers.items (id int)", user="app")
    for call in ("segar.track('hers.items', 'item:{id}')", "segar.untrack('hers.items')"):
        with pytest.raises(errors.InsufficientPrivilege, match="permission denied for function"):
            installed.sql(f"SELECT {call}", user="app")
    # as in sql/README.md
    run(dba, """GRANT EXECUTE ON FUNCTION segar.track(regclass, text), segar.untrack(regclass) TO app;
                GRANT INSERT, UPDATE, DELETE ON segar.tracked TO app;
                GRANT USAGE ON SEQUENCE segar.row_version TO app""")
    installed.sql("SELECT segar.track('hers.items', 'item:{id}')", user="app")
    installed.sql("INSERT INTO hers.items VALUES (1)", user="app")
    assert installed.sql("SELECT row_version > 0 FROM hers.items") == [(True,)]
    installed.sql("SELECT segar.untrack('hers.items')", user="app")


def test_only_the_owner_of_a_table_may_track_it(installed, dba):
    installed.sql("CREATE SCHEMA hers AUTHORIZATION app")
    installed.sql("CREATE TABLE hers.items (id int)", user="app")
    run(dba, "CREATE TABLE mine (id int)")
    installed.sql("GRANT USAGE ON SCHEMA hers TO dba")
    with pytest.raises(errors.InsufficientPrivilege, match="must be owner of table hers.items"):
        run(dba, "SELECT segar.track('hers.items', 'item:{id}')")


def test_a_dump_restores_versions_and_goes_on_above_them(installed, items, shared_postgres):
    highest = value(items, "SELECT max(row_version) FROM items")
    shared_postgres.sql("CREATE DATABASE restored")
    try:
        dump = subprocess.run([BIN / "pg_dump", "-d", shared_postgres.dsn(installed.name)],
                              check=True, capture_output=True, text=True).stdout
        shared_postgres.psql(dbname="restored", stdin=dump)
        shared_postgres.sql("INSERT INTO items VALUES (60, 'x')", dbname="restored")
        ((after,),) = shared_postgres.sql("SELECT row_version FROM items WHERE id = 60", dbname="restored")
        assert after > highest
        assert shared_postgres.sql("SELECT relation::text FROM segar.tracked", dbname="restored") == [("items",)]
    finally:
        shared_postgres.sql("DROP DATABASE restored WITH (FORCE)")


def test_a_dropped_tables_entry_goes_with_the_next_call(dba, items):
    run(dba, "CREATE TABLE gone (id int)")
    run(dba, "SELECT segar.track('gone', 'gone:{id}')")
    run(dba, "DROP TABLE gone")
    run(dba, "SELECT segar.track('items', 'item:{id}')")
    assert value(dba, "SELECT array_agg(relation::text) FROM segar.tracked") == ["items"]


def test_an_overlong_template_is_refused(dba, items):
    with pytest.raises(errors.InvalidParameterValue, match="longer than 1,000 bytes"):
        run(dba, "SELECT segar.track('items', 'item:' || repeat('x', 2000))")
