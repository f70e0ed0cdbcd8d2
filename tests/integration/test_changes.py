"""The change feed: a committed row shows everywhere, and no late build brings the old one back."""
import contextlib
import signal
import threading

import pytest

from conftest import INSTALL
from harness.origin import Origin
from harness.postgres import run, value
from harness.wait import wait_until
from harness.wire import Error, collect

FOLLOW = {"item": {"on_change": "refresh"}}


def track(origin):
    """`items` feeds keyspace item; the daemons may follow."""
    origin.psql("-f", INSTALL)
    origin.sql("SELECT segar.track('items', 'item:{id}')")
    origin.sql("SELECT segar.allow_feed('segard')")
    return origin


@pytest.fixture
def tracked(origin):
    return track(origin)


@pytest.fixture
def own_tracked(own_origin):
    return track(own_origin)


def write(origin, row, text):
    ((version,),) = origin.sql("UPDATE items SET value = %s WHERE id = %s RETURNING row_version", text, row)
    return version


def wait_following(daemons, count=1):
    """Waits until one of the daemons reads the log."""
    def follows():
        stats = [daemon.stats() for daemon in daemons]
        return sum(s["feed_following"] and s["feed_reads"] > 0 for s in stats) == count
    wait_until(follows, what="a daemon to follow the log")


def reader_of(fleet):
    return next(daemon for daemon in fleet.running() if daemon.stats()["feed_following"])


def shows(daemons, key, text):
    """Waits until all daemons serve this value, plainly fresh."""
    def all_show():
        replies = [daemon.client().get(key) for daemon in daemons]
        return all(reply["value"] == text and reply["state"] == "fresh" for reply in replies)
    wait_until(all_show, what=f"{key} to be {text}")


def test_a_change_shows_on_the_only_host(tracked, make_segard):
    segard = make_segard(tracked, keyspaces=FOLLOW).start()
    wait_following([segard])
    shows([segard], "item:1", b"item 1")
    write(tracked, 1, "newer")
    shows([segard], "item:1", b"newer")
    assert tracked.builds("item", 1) == 2


def test_a_change_shows_on_all_hosts(tracked, make_fleet):
    fleet = make_fleet(tracked, 3, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    write(tracked, 1, "newer")
    shows(fleet, "item:1", b"newer")
    assert tracked.builds("item", 1) == 2


# what changes


def test_an_insert_ends_no_such_row_at_once(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    assert [daemon.client().get("item:20001")["state"] for daemon in fleet] == ["absent", "absent"]
    tracked.sql("INSERT INTO items VALUES (20001, 'there', 0)")
    shows(fleet, "item:20001", b"there")


def test_a_deleted_row_goes_and_comes_back(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    tracked.sql("DELETE FROM items WHERE id = 1")
    wait_until(lambda: all(daemon.client().get("item:1")["state"] == "absent" for daemon in fleet))
    tracked.sql("INSERT INTO items VALUES (1, 'again', 0)")
    shows(fleet, "item:1", b"again")


def test_a_row_that_changes_its_key_changes_both(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    assert fleet[0].client().get("item:20001")["state"] == "absent"
    tracked.sql("UPDATE items SET id = 20001 WHERE id = 1")
    shows(fleet, "item:20001", b"item 1")
    wait_until(lambda: all(daemon.client().get("item:1")["state"] == "absent" for daemon in fleet))


@pytest.mark.parametrize("hosts", [1, 2])
def test_truncate_expires_all_keys(tracked, make_fleet, make_segard, hosts):
    """One host: without a store."""
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW) if hosts > 1 else [make_segard(tracked, keyspaces=FOLLOW).start()]
    wait_following(fleet)
    for key in range(1, 6):
        shows(fleet, f"item:{key}", f"item {key}".encode())
    tracked.sql("TRUNCATE items")
    wait_until(lambda: all(daemon.client().get(f"item:{key}")["state"] == "absent"
                           for daemon in fleet for key in range(1, 6)))


def test_two_rows_of_one_key_committed_against_the_order_of_their_versions(tracked, make_fleet):
    """The later commit has the lower version; the cached value still ends right."""
    tracked.sql("CREATE TABLE parts (id int PRIMARY KEY, item int, n int)")
    tracked.sql("INSERT INTO parts VALUES (1, 1, 1), (2, 1, 1)")
    tracked.sql("SELECT segar.track('parts', 'sum:{item}')")
    tracked.sql("GRANT SELECT ON parts TO segard")
    fleet = make_fleet(tracked, 2, keyspaces={"sum": {
        "query": "SELECT sum(n)::text AS value, max(row_version) AS version FROM parts WHERE item = $1::int",
        "on_change": "refresh"}})
    wait_following(fleet)
    shows(fleet, "sum:1", b"2")
    with contextlib.closing(tracked.connect(autocommit=False)) as early:
        run(early, "UPDATE parts SET n = 10 WHERE id = 1")
        tracked.sql("UPDATE parts SET n = 20 WHERE id = 2")
        shows(fleet, "sum:1", b"21")
        early.commit()
    shows(fleet, "sum:1", b"30")


def test_expire_waits_for_a_reader_and_ignore_for_its_time(tracked, make_segard):
    segard = make_segard(tracked, keyspaces={
        "item": {"on_change": "expire"},
        "still": {"query": "SELECT value FROM items WHERE id = $1::bigint", "single_row": False}}).start()
    tracked.sql("SELECT segar.track('items', 'still:{id}')")
    wait_following([segard])
    client = segard.client()
    for key in ("item:1", "still:1"):
        assert client.get(key)["value"] == b"item 1"
    changes = segard.stats()["changes"]
    write(tracked, 1, "newer")
    segard.wait_stats(changes=changes + 1)
    assert tracked.builds("item", 1) == 1
    reply = client.get("item:1")
    assert (reply["state"], reply["reason"], reply["value"]) == ("stale", "changed", b"item 1")
    shows([segard], "item:1", b"newer")
    assert client.get("still:1")["value"] == b"item 1"


def test_a_host_that_never_had_it_finds_the_old_value_stale_in_the_store(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces={"item": {"on_change": "expire"}})
    wait_following(fleet)
    assert fleet[0].client().get("item:1")["value"] == b"item 1"
    write(tracked, 1, "newer")
    wait_until(lambda: min(fleet.stats("changes")) >= 1)
    reply = fleet[1].client().get("item:1")
    assert (reply["state"], reply["reason"]) == ("stale", "changed") or reply["value"] == b"newer"
    shows(fleet, "item:1", b"newer")


def test_invalidate_leaves_nothing_to_serve(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces={"item": {"on_change": "invalidate"}})
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    changes = fleet.stats("changes")
    write(tracked, 1, "newer")
    wait_until(lambda: all(now > before for now, before in zip(fleet.stats("changes"), changes)))
    for daemon in fleet:
        reply = daemon.client().get("item:1")
        assert (reply["state"], reply["value"]) == ("fresh", b"newer")


def test_truncate_under_invalidate_leaves_nothing_to_serve(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces={"item": {"on_change": "invalidate"}})
    wait_following(fleet)
    for number in range(1, 6):
        shows(fleet, f"item:{number}", b"item %d" % number)
    with tracked.gate("item") as gate:
        tracked.sql("TRUNCATE items")
        clients = [daemon.client() for daemon in fleet]

        def is_asked():
            """Told within a moment; then who asks waits for the build, which stands at the gate."""
            replies = [client.send("get", "item:1", {"wait_ms": 100}) for client in clients]
            said = collect(list(zip(clients, replies)))
            assert not any(not isinstance(reply, Error) and reply["state"] == "stale" for reply in said)
            return all(isinstance(reply, Error) for reply in said)

        wait_until(is_asked, what="both hosts to have nothing to serve")
        gate.open()
    for daemon in fleet:
        for number in range(1, 6):
            assert daemon.client().get(f"item:{number}")["state"] == "absent"


# builds that a change overtakes


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_slow_build_of_the_old_row_is_not_fresh_after_the_change(tracked, make_fleet, make_segard, hosts):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW) if hosts > 1 else [make_segard(tracked, keyspaces=FOLLOW).start()]
    wait_following(fleet)
    with tracked.gate("item") as gate:
        first = fleet[0].client()
        early = first.send("get", "item:1", {})
        gate.wait_for(1)
        changes = [daemon.stats()["changes"] for daemon in fleet]
        write(tracked, 1, "newer")
        wait_until(lambda: all(daemon.stats()["changes"] > before for daemon, before in zip(fleet, changes)))
        late = [(client, client.send("get", "item:1", {"max_stale_ms": 0}))
                for client in [daemon.client() for daemon in fleet]]
        gate.open()
        reply = first.receive(early)
        assert (reply["value"], reply["ttl_ms"]) == (b"item 1", 0)
        assert {reply["value"] for reply in collect(late)} == {b"newer"}
    shows(fleet, "item:1", b"newer")
    assert tracked.builds("item", 1) == 2


def test_a_build_that_saw_the_change_is_kept(tracked, make_fleet):
    """Its lease began before the change was applied: its version tells that it contains it."""
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    with tracked.gate("item") as gate, contextlib.closing(tracked.connect(autocommit=False)) as writer, \
            contextlib.closing(tracked.connect(autocommit=False)) as blocker:
        run(writer, "UPDATE items SET value = 'newer' WHERE id = 1")
        # stands in line behind the writer, and before whoever wants to read what that has logged
        lock = threading.Thread(target=run, args=(blocker, "LOCK TABLE segar.changes IN ACCESS EXCLUSIVE MODE"))
        lock.start()
        wait_until(lambda: tracked.sql("""SELECT count(*) FROM pg_locks WHERE NOT granted
                                          AND relation = 'segar.changes'::regclass""")[0][0] > 0)
        writer.commit()
        lock.join()
        client = fleet[0].client()
        number = client.send("get", "item:1", {})
        gate.wait_for(1)
        assert fleet.stats("changes") == [0, 0]
        blocker.commit()
        wait_until(lambda: min(fleet.stats("changes")) >= 1)
        gate.open()
        assert client.receive(number)["value"] == b"newer"
    shows(fleet, "item:1", b"newer")
    assert tracked.builds("item", 1) == 1


def test_a_row_that_changes_all_the_time_stays_served_within_its_bound(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces={"item": {"on_change": "refresh", "stale": "5s"}})
    wait_following(fleet)
    tracked.behave("item", delay_s=0.8)
    done = threading.Event()
    written = []

    def change_it():
        with contextlib.closing(tracked.connect()) as writer:
            while not done.is_set():
                written.append(value(writer, "UPDATE items SET value = value || '.' WHERE id = 1 RETURNING row_version"))
                done.wait(0.01)

    writer = threading.Thread(target=change_it)
    clients = [daemon.client() for daemon in fleet]
    writer.start()
    try:
        versions = {client: [] for client in clients}
        wait_until(lambda: len(written) > 20)
        while tracked.builds("item", 1) < 6:
            for client in clients:
                reply = client.get("item:1")
                assert reply["state"] in ("fresh", "stale") and reply["stale_ms"] <= 5000
                versions[client].append(reply["version"])
    finally:
        done.set()
        writer.join()
    for seen in versions.values():
        assert seen == sorted(seen)
    begun = [at for at, _, arg in tracked.build_log() if arg == "1"]
    # a second from one to the next; a busy machine may log some of them late
    assert begun[-1] - begun[1] >= 0.95 * (len(begun) - 2), begun
    wait_until(lambda: all(client.get("item:1")["version"] == written[-1] for client in clients))


# trouble


def test_a_killed_reader_is_taken_over(tracked, make_fleet):
    fleet = make_fleet(tracked, 3, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    for text in ("two", "three"):
        reader_of(fleet).kill()
        write(tracked, 1, text)
        shows(fleet.running(), "item:1", text.encode())
    assert tracked.builds("item", 1) == 3


def test_a_paused_reader_is_taken_over_and_does_no_harm_when_it_goes_on(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    paused = reader_of(fleet)
    (other,) = [daemon for daemon in fleet if daemon is not paused]
    paused.process.signal(signal.SIGSTOP)
    write(tracked, 1, "newer")
    shows([other], "item:1", b"newer")
    paused.process.signal(signal.SIGCONT)
    shows(fleet, "item:1", b"newer")
    write(tracked, 1, "newest")
    shows(fleet, "item:1", b"newest")
    wait_following(fleet)


def test_a_flushed_store_skips_nothing(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    for text in ("two", "three", "four"):
        write(tracked, 1, text)
        fleet.redis.flush()
        shows(fleet, "item:1", text.encode())


def test_a_killed_store_skips_nothing(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    fleet.redis.kill()
    write(tracked, 1, "newer")
    fleet.redis.start()
    fleet.wait_in_touch()
    shows(fleet, "item:1", b"newer")


def test_a_silent_table_is_polled(tracked, make_fleet):
    tracked.sql("SELECT segar.use_notify('items', false)")
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW, feed={"poll": "50ms"})
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    write(tracked, 1, "newer")
    shows(fleet, "item:1", b"newer")


def test_the_bell_is_heard(tracked, make_segard):
    segard = make_segard(tracked, keyspaces=FOLLOW, feed={"poll": "1m"}).start()
    wait_following([segard])
    for text in ("two", "three"):
        write(tracked, 1, text)
        shows([segard], "item:1", text.encode())


def test_a_restarted_database_skips_nothing(own_tracked, make_fleet):
    fleet = make_fleet(own_tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    own_tracked.server.kill()
    own_tracked.server.start()
    write(own_tracked, 1, "newer")
    shows(fleet, "item:1", b"newer")
    wait_following(fleet)
    write(own_tracked, 1, "newest")
    shows(fleet, "item:1", b"newest")


def test_what_commits_late_is_neither_skipped_nor_in_the_way(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    for key in (1, 2):
        shows(fleet, f"item:{key}", f"item {key}".encode())
    with contextlib.closing(tracked.connect(autocommit=False)) as late:
        run(late, "UPDATE items SET value = 'late' WHERE id = 1")
        for text in ("early", "earlier"):
            write(tracked, 2, text)
            shows(fleet, "item:2", text.encode())
        wait_until(lambda: reader_of(fleet).stats()["feed_open_ms"] > 0, what="the open transaction to show as lag")
        assert fleet[0].client().get("item:1")["value"] == b"item 1"
        late.commit()
    shows(fleet, "item:1", b"late")
    wait_until(lambda: reader_of(fleet).stats()["feed_open_ms"] == 0)


def test_a_failed_over_database_is_followed_in_its_new_history(own_tracked, make_postgres, make_fleet, workshop):
    """The standby has not heard of the last change; what was cached of it goes."""
    primary = own_tracked.server
    standby = primary.make_standby(workshop / f"standby-{id(primary)}")
    standby.start()
    try:
        folders = f"host='{primary.folder},{standby.folder}' dbname='origin' user='segard' target_session_attrs='read-write'"
        fleet = make_fleet(folders, 2, keyspaces=FOLLOW)
        wait_following(fleet)
        wait_until(lambda: standby.sql("SELECT count(*) FROM segar.fleets", dbname="origin") == [(1,)])
        standby.pause()
        write(own_tracked, 1, "lost")
        shows(fleet, "item:1", b"lost")
        primary.kill()
        standby.kill()
        standby.start()
        standby.sql("SELECT pg_promote()")
        shows(fleet, "item:1", b"item 1")
        wait_following(fleet)
        standby.sql("UPDATE items SET value = 'newer' WHERE id = 1", dbname="origin")
        shows(fleet, "item:1", b"newer")
    finally:
        standby.remove()


# read your writes


def test_a_refresh_for_one_version_is_one_build(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces={"item": {"on_change": "expire"}})
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    older = write(tracked, 1, "two")
    newer = write(tracked, 1, "three")
    for daemon in (*fleet, *fleet):
        for version in (newer, older):
            assert daemon.client().refresh("item:1", min_version=version)["version"] == newer
    assert tracked.builds("item", 1) == 2


def test_a_writer_reads_its_write_before_the_feed_has_told(tracked, make_fleet):
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    for text in ("two", "three", "four"):
        version = write(tracked, 1, text)
        for daemon in fleet:
            reply = daemon.client().get("item:1", min_version=version)
            assert (reply["value"], reply["version"]) == (text.encode(), version)


# many


def test_a_backlog_is_coalesced(tracked, make_fleet):
    """20,000 changes of 4,000 keys while nobody reads."""
    fleet = make_fleet(tracked, 1, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    fleet[0].process.signal(signal.SIGSTOP)
    for turn in range(5):
        tracked.sql("UPDATE items SET value = 'turn ' || %s WHERE id <= 4000", turn)
    before = tracked.builds("item")
    fleet[0].process.signal(signal.SIGCONT)
    shows(fleet, "item:1", b"turn 4")
    wait_until(lambda: fleet[0].stats()["feed_keys"] >= 4000)
    assert fleet[0].stats()["feed_keys"] <= 8000
    assert tracked.builds("item") - before <= 2


def test_keys_that_nobody_has_leave_nothing_in_the_store(tracked, make_fleet):
    fleet = make_fleet(tracked, 1, keyspaces=FOLLOW)
    wait_following(fleet)
    tracked.sql("INSERT INTO items SELECT i, 'new', 0 FROM generate_series(100001, 120000) i")
    wait_until(lambda: fleet[0].stats()["feed_keys"] >= 20000)
    assert fleet[0].stats()["store_changes_touched"] <= 1  # the expiry at the start
    assert not [key for key in fleet.redis.call("KEYS", "*") if b"item" in key]


def test_the_log_is_trimmed(tracked, make_fleet):
    fleet = make_fleet(tracked, 1, keyspaces=FOLLOW, feed={"retention": "1s"})
    wait_following(fleet)
    write(tracked, 1, "newer")
    wait_until(lambda: tracked.sql("SELECT count(*) FROM segar.changes") == [(0,)])
    assert tracked.sql("SELECT name FROM segar.fleets") == [("segar:",)]


# who may not


def test_without_the_log_values_are_served_and_the_log_says_why(origin, make_segard):
    segard = make_segard(origin, keyspaces=FOLLOW).start()
    assert segard.client().get("item:1")["value"] == b"item 1"
    wait_until(lambda: "feed.lost" in segard.log() and "segar." in segard.log())
    segard.wait_stats(feed_following=0)
    track(origin)
    wait_following([segard])
    shows([segard], "item:1", b"item 1")
