"""Promise 1 and 4 over many hosts: one build, and never back to an older value, whoever dies or stops."""
import signal
import subprocess

import pytest

from harness.wait import wait_until
from harness.wire import Error, collect

# Times are long, but for the lease of who is to be taken over from.
SHORT_LEASE = {"item": {"lease": "1s"}, "text": {"lease": "1s"}}


def send_all(clients, *request):
    return [(client, client.send(*request)) for client in clients]


def values(replies):
    return {reply["value"] for reply in replies}


# one build


def test_a_thousand_cold_gets_over_four_daemons_are_one_build(origin, make_fleet):
    fleet = make_fleet(origin, 4)
    with origin.gate("item") as gate:
        requests = send_all(fleet.connections(1000), "get", "item:1", {})
        fleet.wait_sum(waiters=1000)
        gate.wait_for(1)
        gate.open()
        replies = collect(requests)
    assert {(r["state"], r["value"], r["version"]) for r in replies} == {("fresh", b"item 1", 1)}
    assert origin.builds("item") == 1
    fleet.wait_rest()


def test_inspect_tells_who_builds_a_key_and_since_when(origin, make_fleet):
    fleet = make_fleet(origin, 2)
    others = fleet[1].client()
    with origin.gate("item") as gate:
        client = fleet[0].client()
        waiting = client.send("get", "item:1", {})
        gate.wait_for(1)

        def claim():
            return others.call("inspect", "item:1")["claim"]

        assert claim()["holder"] == fleet[0].stats()["store_place"] != fleet[1].stats()["store_place"]
        before = claim()["held_since_ms"]
        wait_until(lambda: claim()["held_since_ms"] > before, what="the lease to grow older")
        assert claim()["held_ms"] > 0 and claim()["floor"] == 0
        gate.open()
        client.receive(waiting)
    fleet.wait_rest()
    over = claim()
    assert (over["held_ms"], over["holder"], over["held_since_ms"]) == (0, None, None)
    others.call("invalidate", "item:1")
    seen = others.call("inspect", "item:1")
    assert seen["claim"]["floor"] == seen["claim"]["fence"] > over["fence"] >= seen["store"]["fence"]


def test_what_one_host_built_the_others_read_from_the_store(origin, make_fleet):
    fleet = make_fleet(origin, 4)
    assert fleet[0].client().get("item:1")["source"] == "origin"
    assert [daemon.client().get("item:1")["source"] for daemon in fleet] == ["near", "store", "store", "store"]
    assert origin.builds("item") == 1


@pytest.mark.parametrize("kills", [1, 2])
def test_a_killed_builder_is_taken_over_by_one(origin, make_fleet, kills):
    fleet = make_fleet(origin, 4, keyspaces=SHORT_LEASE)
    with origin.gate("item") as gate:
        fleet[0].client().send("get", "item:1", {})
        gate.wait_for(1)
        requests = [(daemon, client, client.send("get", "item:1", {}))
                    for daemon in fleet[1:] for client in daemon.connections(34)]
        fleet.wait_sum(waiters=103)
        for kill in range(kills):
            fleet.builder().kill()
            wait_until(lambda: origin.builds("item") == kill + 2, what="the takeover")
        gate.open()
        replies = collect([(client, number) for daemon, client, number in requests if daemon.process])
    assert len(replies) == 34 * (4 - kills) and values(replies) == {b"item 1"}
    assert origin.builds("item") == 1 + kills
    fleet.wait_rest()


def test_a_build_of_many_leases_length_stays_single(origin, make_fleet):
    fleet = make_fleet(origin, 3, keyspaces={"item": {"lease": "2s"}})
    origin.behave("item", delay_s=10)
    replies = collect(send_all(fleet.connections(60), "get", "item:1", {}))
    assert values(replies) == {b"item 1"}
    assert origin.builds("item") == 1 and fleet.sum("leases_lost") == 0


def test_a_failure_is_told_to_all_hosts_and_tried_again_after_its_time(origin, make_fleet):
    fleet = make_fleet(origin, 10, keyspaces={"item": {"error": "2s"}})
    origin.behave("item", error="broken on purpose")

    def ask():
        replies = collect(send_all(fleet.connections(30), "get", "item:1", {}))
        assert {(r.code, "broken on purpose" in r.text) for r in replies} == {("origin_error", True)}
        return origin.builds("item")

    assert ask() == 1
    wait_until(lambda: ask() >= 2, what="the next try")
    times = [at for at, _, _ in origin.build_log()]
    assert all(later - earlier >= 2 for earlier, later in zip(times, times[1:]))
    fleet.wait_rest()


# no rollback


@pytest.mark.parametrize("flushed", [None, "before the successor", "after the successor"])
def test_a_builder_paused_past_its_lease_does_not_bring_back_the_old_row(origin, make_fleet, flushed):
    fleet = make_fleet(origin, 3, keyspaces=SHORT_LEASE)
    with origin.gate("item") as gate:
        old = [(client, client.send("get", "item:1", {})) for client in [fleet[0].client()]]
        gate.wait_for(1)
        fleet[0].process.signal(signal.SIGSTOP)
        origin.set_item(1, "newer", 2)
        gate.open()
    # its answer lies in the socket, and its locks are free
    if flushed == "before the successor":
        fleet.redis.flush()
    reply = fleet[1].client().get("item:1")
    assert (reply["value"], reply["version"]) == (b"newer", 2)
    if flushed == "after the successor":
        fleet.redis.flush()
    fleet[0].process.signal(signal.SIGCONT)
    (reply,) = collect(old)
    assert isinstance(reply, Error) or reply["version"] == 2 or reply["ttl_ms"] == 0
    fleet.wait_rest()
    for daemon in fleet:
        assert daemon.client().get("item:1")["version"] == 2
    assert origin.builds("item") <= (3 if flushed else 2) and fleet[0].stats()["saves_refused"] == 1


def test_a_builder_that_lost_its_lease_leaves_the_successors_alone(origin, make_fleet):
    fleet = make_fleet(origin, 3, keyspaces=SHORT_LEASE)
    with origin.gate("item") as gate:
        old = [(client, client.send("get", "item:1", {})) for client in [fleet[0].client()]]
        gate.wait_for(1)
        fleet[0].process.signal(signal.SIGSTOP)
        gate.open()
    with origin.gate("item") as gate:
        origin.set_item(1, "newer", 2)
        first = send_all([fleet[1].client()], "get", "item:1", {})
        gate.wait_for(1)
        fleet[0].process.signal(signal.SIGCONT)
        collect(old)
        fleet[0].wait_stats(saves_refused=1, leases=0)
        second = send_all(fleet[2].connections(20), "get", "item:1", {})
        fleet[2].wait_stats(waiters=20)
        gate.open()
        assert values(collect(first + second)) == {b"newer"}
    assert origin.builds("item") == 2


@pytest.mark.parametrize("flushed", [False, True])
def test_a_backend_stuck_sending_to_a_paused_builder_is_ended(origin, make_fleet, flushed):
    """A value that fills the socket: the backend never ends its statement, nor lets go of its locks."""
    fleet = make_fleet(origin, 3, keyspaces=SHORT_LEASE)
    origin.sql("INSERT INTO texts SELECT 'big', 'older ' || string_agg(md5(i::text), '')"
               " FROM generate_series(1, 30000) i")
    with origin.gate("text") as gate:
        old = [(client, client.send("get", "text:big", {})) for client in [fleet[0].client()]]
        gate.wait_for(1)
        fleet[0].process.signal(signal.SIGSTOP)
        origin.sql("UPDATE texts SET value = replace(value, 'older', 'newer')")
        gate.open()
    wait_until(lambda: origin.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'ClientWrite'"
                                  " AND datname = current_database()") == [(1,)], what="a stuck backend")
    assert fleet[1].client().get("text:big")["value"].startswith(b"newer")
    # a backend takes its time to end, in which a second try may find it still there
    assert fleet[1].stats()["origin_evictions"] >= 1
    if flushed:
        fleet.redis.flush()
    fleet[0].process.signal(signal.SIGCONT)
    collect(old)
    fleet.wait_rest()
    for daemon in fleet:
        assert daemon.client().get("text:big")["value"].startswith(b"newer")
    assert origin.builds("text") <= (3 if flushed else 2)


PAIRS = [(2**53, 2**53 + 1), (2**53 - 1, 2**53), (2**63 - 2, 2**63 - 1), (-2, -1), (-1, 0), (-2**53 - 1, -2**53),
         (-2**63, 2**63 - 1), (255, 256), (2**31 - 1, 2**31), (2**32 - 1, 2**32)]


@pytest.fixture(scope="session")
def english(workshop):
    """The environment of a program that collates as people in the US do; Debian has that locale as source only."""
    subprocess.run(["localedef", "-i", "en_US", "-f", "UTF-8", workshop / "en_US.UTF-8"], check=True)
    return {"LOCPATH": str(workshop), "LC_ALL": "en_US.UTF-8"}


def test_versions_order_values_over_all_their_range(origin, make_fleet, make_redis, english):
    redis = make_redis(environment=english)
    assert redis.call("EVAL", "return 'a' < 'B'", "0") == 1, "the locale is not in effect"
    fleet = make_fleet(origin, 2, redis=redis)
    first, second = (daemon.client() for daemon in fleet)
    for key, (lower, higher) in enumerate(PAIRS, 20001):
        origin.set_item(key, "higher", higher)
        assert first.get(f"item:{key}")["version"] == higher
        # as from a replica that lags
        origin.set_item(key, "lower", lower)
        second.refresh(f"item:{key}")
        for client in first, second:
            assert client.get(f"item:{key}")["version"] == higher, (lower, higher)
    for key, (lower, higher) in enumerate(PAIRS, 30001):
        origin.set_item(key, "lower", lower)
        assert first.get(f"item:{key}")["version"] == lower
        origin.set_item(key, "higher", higher)
        assert second.refresh(f"item:{key}")["version"] == higher
        wait_until(lambda: first.get(f"item:{key}")["version"] == higher, what=f"{higher} to replace {lower}")


@pytest.mark.parametrize("loss", ["flush", "restart"])
def test_fences_go_on_after_the_store_lost_them(origin, make_fleet, loss):
    """A keyspace that only fences order: the later build wins, on all hosts."""
    fleet = make_fleet(origin, 2)
    first, second = (daemon.client() for daemon in fleet)
    origin.sql("INSERT INTO texts VALUES ('a', 'one')")
    assert {first.get("text:a")["value"], second.get("text:a")["value"]} == {b"one"}
    fences = [first.call("inspect", "text:a")["near"]["fence"]]
    for number in range(3):
        origin.sql("UPDATE texts SET value = %s", f"round {number}")
        if loss == "flush":
            fleet.redis.flush()
        else:
            fleet.redis.kill()
            fleet.redis.start()
        fleet.wait_in_touch()
        second.refresh("text:a")
        wait_until(lambda: first.get("text:a")["value"] == second.get("text:a")["value"] ==
                   f"round {number}".encode(), what="the later build")
        fences.append(first.call("inspect", "text:a")["near"]["fence"])
    assert fences == sorted(set(fences))


def test_hosts_that_wait_for_a_version_do_not_have_each_other_build(origin, make_fleet):
    """Each looks at what the other has built, and builds after 20, 80 and 320 ms itself."""
    fleet = make_fleet(origin, 2)
    clients = fleet.connections(2)
    said = collect([(client, client.send("get", "item:1", {"min_version": 1000000, "wait_ms": 1000})) for client in clients])
    assert all("no such version" in str(reply) for reply in said), said
    assert origin.builds("item", 1) <= 2 * 4
