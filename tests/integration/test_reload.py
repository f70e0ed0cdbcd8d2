"""Reload: SIGHUP and the method `reload` take a new configuration whole, or refuse it whole."""
import collections
import json
import os
import signal
import subprocess

import pytest

from harness.segard import KEYSPACES, SANITIZED, SEGARCTL
from harness.wait import wait_until
from harness.wire import Client, Error

NEW_ITEM = "SELECT 'new ' || value AS value, version FROM item($1)"


def rewrite(daemon, change):
    """Applies `change` to the configuration, in which keyspaces go by name."""
    config = json.loads(daemon.config_path.read_text())
    keyspaces = {keyspace["name"]: keyspace for keyspace in config["keyspaces"]}
    change(config, keyspaces)
    config["keyspaces"] = [{**policy, "name": name} for name, policy in keyspaces.items()]
    daemon.config_path.write_text(json.dumps(config, indent=1))


def reload(daemon, change):
    rewrite(daemon, change)
    with daemon_client(daemon) as client:
        return client.call("reload")


def daemon_client(daemon):
    return Client(daemon.socket)


def wait_rest(daemon):
    """Nothing goes on, but that clients stay connected."""
    daemon.wait_stats(flights=0, waiters=0, leases=0, permits=0, queued=0, requests=0)


def set_item_query(query, **policy):
    def change(_, keyspaces):
        keyspaces["item"].update(query=query, **policy)
    return change


def refused(daemon):
    """The error of a reload that must be refused."""
    with daemon_client(daemon) as client, pytest.raises(Error) as error:
        client.call("reload")
    return error.value


# what stays


def test_connections_flights_and_near_values_survive(segard, origin):
    clients = segard.connections(20)
    assert clients[0].get("item:1")["source"] == "origin"
    with origin.gate("item") as gate:
        waiting = [client.send("get", "item:2", {}) for client in clients]
        gate.wait_for(1)
        assert reload(segard, lambda config, keyspaces: keyspaces["item"].update(fresh="9m")) == {
            "keyspaces": 4, "added": 0, "changed": 1, "removed": 0}
        assert clients[0].get("item:1")["source"] == "near"
        gate.open()
        assert {client.receive(number)["value"] for client, number in zip(clients, waiting)} == {b"item 2"}
    assert clients[1].get("item:2")["source"] == "near"
    assert origin.builds("item") == 2
    wait_rest(segard)


def test_sighup_and_segarctl_reload_alike(segard):
    rewrite(segard, lambda config, keyspaces: keyspaces.update(more={"query": "SELECT 'x' AS value", "fresh": "1m"}))
    segard.process.signal(signal.SIGHUP)
    segard.wait_stats(reloads=1)
    client = segard.client()
    assert client.get("more")["value"] == b"x"
    rewrite(segard, lambda config, keyspaces: keyspaces.pop("more"))
    done = subprocess.run([SEGARCTL, "-s", segard.socket, "reload"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "removed" in done.stdout
    with pytest.raises(Error) as error:
        client.get("more")
    assert error.value.code == "unknown_keyspace"


def test_hello_says_which_configuration_is_in_force(segard):
    client = segard.client()
    first = client.call("hello")["config"]
    assert first["path"] == str(segard.config_path) and first["refused"] is None
    reload(segard, lambda config, keyspaces: keyspaces["item"].update(fresh="9m"))
    second = client.call("hello")["config"]
    assert second["digest"] != first["digest"] and second["loaded_at_ms"] >= first["loaded_at_ms"]


# what is refused


@pytest.mark.parametrize("text, expected", [
    ("keyspaces: [\n", ":2:1: "),
    ("origin: {dsn: x, concurrency: 1, budget: 1/s}\nkeyspaces: []\nnonsense: 1\n", ":3:1: "),
    ("origin: {dsn: x, concurrency: 1, budget: fast}\nkeyspaces: []\n", ":1:42: "),
])
def test_a_bad_file_leaves_the_old_in_force_and_says_where(segard, origin, text, expected):
    client = segard.client()
    client.get("item:1")
    good = segard.config_path.read_text()
    segard.config_path.write_text(text)
    error = refused(segard)
    assert error.code == "bad_request" and f"{segard.config_path}{expected}" in error.text
    assert f"{segard.config_path}{expected}" in client.call("hello")["config"]["refused"]
    assert "event=config.refused" in segard.log()
    assert client.get("item:1")["source"] == "near"
    segard.process.signal(signal.SIGHUP)
    segard.wait_stats(reloads_refused=2)
    segard.config_path.write_text(good)
    assert client.call("reload")["changed"] == 0
    assert client.call("hello")["config"]["refused"] is None


def test_a_file_that_cannot_be_read_leaves_the_old_in_force(segard):
    segard.config_path.unlink()
    assert "No such file" in refused(segard).text
    segard.config_path.mkdir()
    assert "directory" in refused(segard).text
    assert segard.client().get("item:1")["state"] == "fresh"


def test_what_takes_a_restart_is_named_and_nothing_is_half_applied(segard):
    def change(config, keyspaces):
        config["origin"]["dsn"] += " application_name=geheim"
        config["origin"]["concurrency"] = 9
        config["listen"]["mode"] = "0600"
        keyspaces.pop("text")

    rewrite(segard, change)
    error = refused(segard)
    for name in ("listen.mode", "origin.dsn", "origin.concurrency"):
        assert name in error.text
    assert "takes a restart" in error.text and "geheim" not in error.text
    assert segard.client().get("text:1")["state"] == "absent"


def test_a_near_cache_shrinks_to_an_eighth_of_its_greatest_size_at_most(segard):
    def memory(size):
        return lambda config, keyspaces: config.update(near={"memory": size})

    reload(segard, memory("64MiB"))
    rewrite(segard, memory("1MiB"))
    assert "near.memory" in refused(segard).text


# keyspaces that change


def test_a_changed_query_comes_over_its_keys_within_its_time_and_budget(make_segard, origin):
    budget = 100
    segard = make_segard(origin, origin={"budget": f"{budget}/s"},
                         keyspaces={"item": {"stale": "10m", "changeover": "2s"}}).start()
    client = segard.client()
    keys = [f"item:{i}" for i in range(1, 201)]
    for key in keys:
        client.get(key)
    before = len(origin.build_log())
    assert reload(segard, set_item_query(NEW_ITEM))["changed"] == 1
    seen = collections.Counter()

    def all_new():
        values = [client.get(key, wait_ms=0) for key in keys]
        seen.update(value["state"] for value in values)
        return all(value["value"].startswith(b"new item ") for value in values)

    wait_until(all_new, what="values of the new query")
    assert set(seen) <= {"fresh", "stale"}
    builds = origin.build_log()[before:]
    assert len(builds) == len(keys), "each key once"
    moments = [at for at, _, _ in builds]
    for begin in moments:
        assert sum(begin <= at < begin + 1 for at in moments) <= budget


def test_a_build_of_the_old_query_is_not_fresh_under_the_new(make_segard, origin):
    segard = make_segard(origin, keyspaces={"item": {"stale": "0", "changeover": "1ms"}}).start()
    clients = segard.connections(3)
    with origin.gate("item") as gate:
        before = clients[0].send("get", "item:1", {})
        gate.wait_for(1)
        reload(segard, set_item_query(NEW_ITEM))
        after = clients[1].send("get", "item:1", {})
        segard.wait_stats(waiters=2)
        gate.open()
        assert clients[0].receive(before)["value"] == b"item 1"
        assert clients[1].receive(after)["value"] == b"new item 1"
    assert clients[2].get("item:1")["value"] == b"new item 1"
    assert origin.builds("item") == 2


def test_shorter_times_bound_the_values_that_are_there(segard, origin):
    client = segard.client()
    assert client.get("item:1")["ttl_ms"] > 500_000
    reload(segard, lambda config, keyspaces: keyspaces["item"].update(fresh="20s", changeover="1ms"))
    assert client.get("item:1")["ttl_ms"] <= 20_000
    assert origin.builds("item") == 1
    reload(segard, lambda config, keyspaces: keyspaces["item"].update(fresh="10m"))
    assert client.get("item:1")["ttl_ms"] <= 20_000, "a value keeps its time"


def test_a_removed_keyspace_answers_who_waits_and_then_nobody(segard, origin):
    waiter, other = segard.connections(2)
    for i in range(1, 500):
        other.get(f"item:{i}")
    assert segard.stats()["near_entries"] == 499
    with origin.gate("item") as gate:
        number = waiter.send("get", "item:1000", {})
        gate.wait_for(1)
        reload(segard, lambda config, keyspaces: keyspaces.pop("item"))
        for key in ("item:1", "item:1000"):
            with pytest.raises(Error) as error:
                other.get(key)
            assert error.value.code == "unknown_keyspace"
        assert [keyspace["name"] for keyspace in other.call("keyspaces")] == ["text", "blob", "sized"]
        gate.open()
        assert waiter.receive(number)["value"] == b"item 1000"
    segard.wait_stats(near_entries=0)
    wait_rest(segard)
    reload(segard, lambda config, keyspaces: keyspaces.update(
        item={"query": NEW_ITEM, "fresh": "10m", "single_row": True}))
    assert other.get("item:1")["value"] == b"new item 1"


def test_statements_of_changed_queries_are_dropped(make_segard, origin):
    segard = make_segard(origin, origin={"concurrency": 1}).start()
    client = segard.client()
    origin.sql("""CREATE FUNCTION prepared() RETURNS SETOF text LANGUAGE sql AS
                  $$SELECT statement FROM pg_prepared_statements$$""")
    lists = {"query": "SELECT string_agg(p, '|') AS value FROM prepared() p", "fresh": "1m", "error": "1ms"}
    reload(segard, lambda config, keyspaces: keyspaces.update(lists=lists))
    client.get("item:1")
    client.get("text:1")

    def prepared():
        client.refresh("lists")
        return client.get("lists")["value"].decode()

    assert KEYSPACES["item"]["query"] in prepared() and "text_of" in prepared()

    def change(_, keyspaces):
        keyspaces["item"]["query"] = NEW_ITEM
        keyspaces.pop("text")

    reload(segard, change)
    wait_until(lambda: KEYSPACES["item"]["query"] not in prepared() and "text_of" not in prepared(),
               what="the old statements to be dropped")
    client.refresh("item:1")
    assert NEW_ITEM in prepared()


def test_who_may_do_what_changes_for_those_that_are_connected(segard):
    client = segard.client()
    client.get("item:1")
    rewrite(segard, lambda config, keyspaces: config.update(
        access=[{"uid": str(os.getuid()), "methods": ["get", "reload"], "keyspaces": ["text"]}]))
    client.call("reload")
    with pytest.raises(Error) as error:
        client.get("item:1")
    assert error.value.code == "denied"
    assert client.get("text:1")["state"] == "absent"


# many of them, and bad moments


def test_a_hundred_reloads_leave_nothing_behind(segard, origin):
    client = segard.client()

    def change(i):
        def apply(config, keyspaces):
            keyspaces["item"]["query"] = f"SELECT 'v{i} ' || value AS value, version FROM item($1)"
            keyspaces.pop(f"extra{i - 1}", None)
            keyspaces[f"extra{i}"] = {"query": f"SELECT 'x{i}' AS value", "fresh": "1m"}
            config["near"] = {"memory": "32MiB" if i % 2 else "64MiB"}
        return apply

    def turn(i):
        reload(segard, change(i))
        assert client.get(f"extra{i}")["value"] == f"x{i}".encode()
        client.refresh("item:1")
        assert client.get("item:1")["value"] == f"v{i} item 1".encode()

    for i in range(10):
        turn(i)
    segard.wait_stats(near_entries=2)
    files, memory = segard.process.open_files(), segard.process.rss_bytes()
    for i in range(10, 110):
        turn(i)
    segard.wait_stats(near_entries=2, reloads=110, reloads_refused=0)
    wait_until(lambda: segard.process.open_files() <= files, what="no more files open than before")
    assert SANITIZED or segard.process.rss_bytes() < memory + (16 << 20)
    wait_rest(segard)


def test_reloads_that_come_together_end_with_the_last_file(segard):
    client = segard.client()
    for i in range(50):
        rewrite(segard, lambda config, keyspaces, i=i: keyspaces.update(
            last={"query": f"SELECT '{i}' AS value", "fresh": "1m", "stale": "0", "changeover": "1ms"}))
        segard.process.signal(signal.SIGHUP)
    numbers = [client.send("reload") for _ in range(50)]
    assert all(client.receive(number)["keyspaces"] == 5 for number in numbers)
    wait_until(lambda: client.get("last")["value"] == b"49", what="the last file's value")


def test_a_reload_while_postgresql_hangs(make_segard, own_origin):
    segard = make_segard(own_origin, keyspaces={"item": {"wait": "200ms"}}).start()
    client = segard.client()
    client.get("item:1")
    own_origin.server.pause()
    try:
        waiting = client.send("get", "item:2", {"wait_ms": 20000})
        segard.wait_stats(waiters=1)
        assert reload(segard, set_item_query(NEW_ITEM, changeover="1h", wait="200ms"))["changed"] == 1
        assert client.get("item:1")["source"] == "near"
        reload(segard, lambda config, keyspaces: keyspaces.pop("text"))
    finally:
        own_origin.server.resume()
    assert client.receive(waiting)["value"] in (b"item 2", b"new item 2")
    assert client.get("item:3", wait_ms=20000)["value"] == b"new item 3"


def test_hits_go_on_while_a_large_keyspace_goes(make_segard, origin):
    segard = make_segard(origin, near={"memory": "64MiB"}, log={"level": "info"}).start()
    client, other = segard.connections(2)
    for begin in range(1, 10001, 1000):
        client.call("mget", [f"item:{i}" for i in range(begin, begin + 1000)], {"wait_ms": 60000})
    client.get("text:1")
    assert segard.stats()["near_entries"] == 10001
    rewrite(segard, lambda config, keyspaces: keyspaces.pop("item"))
    number = other.send("reload")
    while True:
        assert client.get("text:1")["source"] == "near"
        if segard.stats()["near_entries"] == 1:
            break
    assert other.receive(number)["removed"] == 1
    wait_rest(segard)


# a fleet


@pytest.fixture
def fleet(make_fleet, origin):
    fleet = make_fleet(origin, 2, keyspaces={"item": {"changeover": "1ms", "stale": "0"}})
    fleet.wait_in_touch()
    return fleet


def restart(daemon, change=None):
    daemon.process.signal(signal.SIGTERM)
    assert daemon.process.wait() == 0
    daemon.process = None
    if change:
        rewrite(daemon, change)
    daemon.start()


def superseded(daemon):
    with daemon_client(daemon) as client:
        return {k["name"] for k in client.call("keyspaces") if k["superseded"]}


def test_a_deploy_by_restarts_changes_over_once(fleet, origin):
    a, b = fleet.daemons
    keys = [f"item:{i}" for i in range(1, 21)]
    for key in keys:
        a.client().get(key)
    assert origin.builds("item") == 20
    restart(a, set_item_query(NEW_ITEM))
    new = a.client()
    assert all(new.get(key)["value"].startswith(b"new") for key in keys)
    assert origin.builds("item") == 40
    # the old one takes what the new one has built, and does not turn it back, however often it restarts
    for _ in range(2):
        restart(b)
        wait_until(lambda: superseded(b) == {"item"}, what="the old daemon to be superseded")
        old = b.client()
        assert all(old.get(key)["value"].startswith(b"new") for key in keys)
    assert superseded(a) == set()
    assert origin.builds("item") == 40
    # what it builds itself is not fresh for the new one
    assert b.client().get("item:100")["value"] == b"item 100"
    assert new.get("item:100")["value"] == b"new item 100"
    restart(b, set_item_query(NEW_ITEM))
    assert b.client().get("item:1")["source"] == "store"
    assert superseded(b) == set()


def test_a_reload_changes_over_the_fleet_and_back(fleet, origin):
    a, b = fleet.daemons
    a.client().get("item:1")
    for daemon in (a, b):
        reload(daemon, set_item_query(NEW_ITEM))
    # the moment of the change is the first one's: to the other, a moment ahead
    for daemon in (b, a):
        wait_until(lambda: daemon.client().get("item:1")["value"] == b"new item 1", what="the new query's value")
    assert origin.builds("item") == 2
    for daemon in (a, b):
        reload(daemon, set_item_query(KEYSPACES["item"]["query"]))
    for daemon in (a, b):
        wait_until(lambda: daemon.client().get("item:1")["value"] == b"item 1", what="the old query's value")
    wait_until(lambda: superseded(a) == superseded(b) == set(), what="one query for all")
