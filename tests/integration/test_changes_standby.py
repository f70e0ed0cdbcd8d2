"""The change feed where builds read a standby: what has not been replayed there is never fresh."""
import pytest

from harness.postgres import Database
from harness.wait import wait_until
from test_changes import shows, track, wait_following, write

KEYSPACES = {"item": {"on_change": "refresh", "stale": "5m", "wait": "5s", "negative": "5m"},
             # the same without an order of versions
             "plain": {"on_change": "refresh", "stale": "5m", "wait": "5s",
                       "query": "SELECT value FROM items WHERE id = $1"}}


@pytest.fixture
def primary(own_origin):
    track(own_origin)
    own_origin.sql("SELECT segar.track('items', 'plain:{id}')")
    return own_origin


@pytest.fixture
def standby(primary, workshop):
    server = primary.server.make_standby(workshop / f"standby-{id(primary)}")
    server.start()
    try:
        yield Database(server, primary.name)
    finally:
        server.remove()


@pytest.fixture
def fleet(primary, standby, make_fleet):
    fleet = make_fleet(standby.dsn(), 2, keyspaces=KEYSPACES, feed={"dsn": primary.dsn()},
                       origin={"standby": True})
    wait_following(fleet)
    return fleet


def pause(standby):
    standby.sql("SELECT pg_wal_replay_pause()")
    wait_until(lambda: standby.sql("SELECT pg_get_wal_replay_pause_state()") == [("paused",)],
               what="the standby to lag")


def go_on(standby):
    standby.sql("SELECT pg_wal_replay_resume()")


def wait_applied(fleet, before):
    wait_until(lambda: fleet.sum("store_changes") > before, what="the change to be applied")


def rebuild(fleet, key):
    """Each host's own build, whatever it has; what is served then."""
    replies = []
    for daemon in fleet:
        client = daemon.client()
        client.call("refresh", key, {"wait_ms": 5000})
        replies.append(client.get(key))
    return replies


@pytest.mark.parametrize("key", ["item:1", "plain:1"])
def test_what_a_lagging_standby_has_is_not_fresh_after_the_change(primary, standby, fleet, key):
    shows(fleet, key, b"item 1")
    pause(standby)
    before = fleet.sum("store_changes")
    write(primary, 1, "new")
    wait_applied(fleet, before)
    for reply in rebuild(fleet, key):
        assert (reply["value"], reply["state"], reply["reason"]) == (b"item 1", "stale", "changed")
    go_on(standby)
    shows(fleet, key, b"new")


@pytest.mark.parametrize("key", ["item:2", "plain:2"])
def test_nor_where_nobody_had_the_key_when_it_changed(primary, standby, fleet, key):
    pause(standby)
    before = fleet.sum("store_changes")
    write(primary, 2, "new")
    wait_applied(fleet, before)
    for daemon in fleet:
        assert daemon.client().get(key)["ttl_ms"] == 0
    assert all(reply["state"] == "stale" for reply in rebuild(fleet, key))
    go_on(standby)
    shows(fleet, key, b"new")


def test_no_such_row_ends_when_the_row_is_there(primary, standby, fleet):
    primary.sql("DELETE FROM items WHERE id = 3")
    wait_until(lambda: fleet[0].client().get("item:3")["state"] == "absent", what="the deletion to show")
    pause(standby)
    before = fleet.sum("store_changes")
    primary.sql("INSERT INTO items (id, value) VALUES (3, 'back')")
    wait_applied(fleet, before)
    assert fleet[1].client().get("item:3")["ttl_ms"] == 0
    go_on(standby)
    shows(fleet, "item:3", b"back")


def test_truncate_is_not_forgotten(primary, standby, fleet):
    shows(fleet, "item:1", b"item 1")
    pause(standby)
    before = fleet.sum("store_changes")
    primary.sql("TRUNCATE items")
    wait_applied(fleet, before)
    assert all(reply["state"] == "stale" for reply in rebuild(fleet, "item:1"))
    assert fleet[0].client().get("plain:3")["ttl_ms"] == 0
    go_on(standby)
    wait_until(lambda: all(daemon.client().get("item:1")["state"] == "absent" for daemon in fleet),
               what="the row to be gone")


def test_a_flush_forgets_no_change(primary, standby, fleet):
    shows(fleet, "plain:1", b"item 1")
    pause(standby)
    before = fleet.sum("store_changes")
    write(primary, 1, "new")
    wait_applied(fleet, before)
    fleet.redis.flush()
    # who reads the log then begins anew
    wait_until(lambda: fleet.sum("feed_expired") > 1, what="the log to be read again")
    wait_until(lambda: fleet.sum("store_changes") > before + 2, what="the change to be applied again")
    assert all(reply["state"] == "stale" for reply in rebuild(fleet, "plain:1"))
    go_on(standby)
    shows(fleet, "plain:1", b"new")


def test_a_standby_that_was_not_named_is(primary, standby, make_segard):
    daemon = make_segard(standby.dsn(), keyspaces=KEYSPACES, feed={"dsn": primary.dsn()}).start()
    wait_until(lambda: "origin.standby" in daemon.log(), what="the log to say so")
