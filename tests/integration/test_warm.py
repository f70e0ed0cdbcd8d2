"""Warm-ups: keys that are built before they are asked for, once over the fleet, at a rate the origin can bear."""
import json
import os
import re
import subprocess

import pytest

from harness.fleet import Fleet
from harness.segard import SEGARCTL, merged
from harness.wait import wait_until
from harness.wire import Error

# Of the test with a killed daemon: 100000 takes some two minutes.
KEYS = int(os.environ.get("SEGAR_WARM_KEYS", "2000"))
RATE, BUDGET = 16 if KEYS < 10000 else 40, 60

MANY = {"many": {"query": "SELECT value, version FROM many($1)", "single_row": True,
                 "batch": {"query": "SELECT key, value, version FROM many_of($1)", "linger": "20ms"}}}


def plan_of(count, **plan):
    """A plan of the keys many:1001 and on, in that order: 666 fails."""
    return {"warm": [
        {"name": "deploy", "query": f"SELECT 'many:' || 1000 + i FROM generate_series(1, {count}) i", **plan}]}


def plans(count, folder, **plan):
    return {"state_dir": str(folder), **plan_of(count, **plan)}


@pytest.fixture
def make_hosts(make_redis, make_segard, tmp_path):
    """Makes daemons that share a Redis, each with a state_dir of its own, as hosts have."""

    def make(origin, hosts, /, **config):
        redis = make_redis()
        daemons = []
        for host in range(hosts):
            folder = tmp_path / str(host)
            folder.mkdir()
            daemons.append(make_segard(origin, **merged(
                {"keyspaces": MANY, "store": {"url": redis.url}, "origin": {"fleet": hosts},
                 "state_dir": str(folder)}, config)))
        return Fleet(redis, daemons).start()

    return make


def built(origin):
    return sorted(int(arg) for _, keyspace, arg in origin.build_log() if keyspace == "many")


def status(client, job="deploy"):
    return client.call("warm_status", job)


def done(client, job="deploy"):
    """How the job stands, once it has ended."""
    wait_until(lambda: status(client, job)["state"] != "running", 60 + KEYS / 500, what=f"{job} to be done")
    return status(client, job)


def all_are_warm(reply, keys):
    """Where Redis was slow to answer, what was built has been looked for, and found."""
    assert (reply["state"], reply["keys"], reply["done"], reply["failed"]) == ("done", keys, keys, 0)


def warm(client, **what):
    return client.call("warm", what)["job"]


def counts(reply):
    return {name: reply[name] for name in ("state", "keys", "done", "fresh", "built", "failed")}


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "redis"])
def test_a_plan_builds_each_key_once_in_as_few_statements_as_can_be(origin, make_segard, make_redis, tmp_path, shared):
    store = {"store": {"url": make_redis().url}} if shared else {}
    segard = make_segard(origin, keyspaces=MANY, **plans(1000, tmp_path), **store).start()
    client = segard.client()
    assert client.call("warm", {"plan": "deploy"}) == {"job": "deploy", "joined": False}
    all_are_warm(done(client), 1000)
    assert built(origin) == list(range(1001, 2001))
    assert origin.builds("statement") == 16
    assert client.call("get", "many:2000", {})["source"] == "near"
    wait_until(lambda: not list(tmp_path.glob("warm-*")), what="the spool to go")
    client.close()
    segard.wait_rest()


def test_without_batches_it_takes_a_statement_a_key(origin, make_segard, tmp_path):
    keyspaces = {"many": {"query": "SELECT value, version FROM many($1)", "single_row": True}}
    segard = make_segard(origin, keyspaces=keyspaces, **plans(128, tmp_path)).start()
    client = segard.client()
    warm(client, plan="deploy")
    reply = done(client)
    assert reply["built"] == 128
    assert origin.builds("statement") == 128


def test_a_plan_of_several_keyspaces_comes_to_its_end(origin, make_segard, tmp_path):
    """None of which has keys enough for a full statement at times, all together more than that."""
    segard = make_segard(origin, keyspaces={name: MANY["many"] for name in "abc"}, state_dir=str(tmp_path), warm=[
        {"name": "deploy", "query": "SELECT chr(97 + i % 3) || ':' || 1001 + i / 3 FROM generate_series(0, 1535) i"}]).start()
    client = segard.client()
    warm(client, plan="deploy")
    reply = done(client)
    assert (reply["state"], reply["built"], reply["failed"]) == ("done", 1536, 0)
    assert len(built(origin)) == 1536
    assert origin.builds("statement") <= 1536 / 256 * 6


def test_alone_it_leaves_out_what_has_been_asked_for_since(origin, make_segard, tmp_path):
    segard = make_segard(origin, keyspaces=MANY, **plans(512, tmp_path, rate="2/s")).start()
    client = segard.client()
    warm(client, plan="deploy")
    segard.wait_stats(warm_looks=512)
    for key in range(1512, 1450, -1):
        client.call("get", f"many:{key}", {})
    all_are_warm(done(client), 512)
    assert built(origin) == list(range(1001, 1513))


def test_what_is_fresh_is_left_in_the_store(origin, make_hosts):
    fleet = make_hosts(origin, 2, **plan_of(500))
    client = fleet[0].client()
    warm(client, plan="deploy")
    done(client)
    fleet[0].stop()
    client = fleet[1].client()
    assert not client.call("warm", {"plan": "deploy"})["joined"]
    assert counts(done(client)) == {"state": "done", "keys": 500, "done": 500, "fresh": 500, "built": 0, "failed": 0}
    assert built(origin) == list(range(1001, 1501))


def test_who_asks_for_the_same_joins(origin, make_hosts):
    fleet = make_hosts(origin, 2, **plan_of(2000, rate="10/s"))
    clients = [daemon.client() for daemon in fleet]
    replies = [client.call("warm", {"plan": "deploy"}) for client in clients]
    assert [reply["joined"] for reply in replies] == [False, True]
    wait_until(lambda: all(status(client)["keys"] == 2000 for client in clients), what="all to be spooled")
    assert [job["job"] for job in clients[1].call("warm_status")] == ["deploy"]
    clients[1].call("warm_cancel", "deploy")
    assert status(clients[0])["state"] == "cancelled"
    wait_until(lambda: fleet.stats("warm_jobs") == [0, 0], what="both to leave it")
    fleet.wait_rest()
    with pytest.raises(Error, match="no such job runs"):
        clients[0].call("warm_cancel", "deploy")


def test_two_daemons_keep_the_rate_together(origin, make_hosts):
    fleet = make_hosts(origin, 2, **plan_of(2000, rate="8/s"))
    client = fleet[0].client()
    warm(client, plan="deploy")
    all_are_warm(done(client), 2000)
    assert built(origin) == list(range(1001, 3001))
    begins = [at for at, keyspace, _ in origin.build_log() if keyspace == "statement"]
    assert len(begins) <= 40  # 32, and what two daemons' last ones are not full
    # What came late is made up for, by two at most; and a ninth of a second of the machine's own.
    assert max(sum(begin <= other < begin + 1 for other in begins) for begin in begins) <= 8 + 3
    assert all(count > 0 for count in fleet.stats("warm_statements"))


@pytest.mark.parametrize("which", ["worker", "spooler"])
def test_a_killed_daemons_part_is_taken_over(origin, make_hosts, which):
    fleet = make_hosts(origin, 2, origin={"budget": f"{BUDGET}/s"}, near={"memory": "8MiB"},
                       **plan_of(KEYS, rate=f"{RATE}/s"))
    spooler, worker = fleet
    client = (spooler if which == "worker" else worker).client()
    warm(spooler.client(), plan="deploy")
    wait_until(lambda: all(count > 0 for count in fleet.stats("warm_statements")), what="both to work")
    wait_until(lambda: origin.builds("statement") > KEYS / 64 / 3, 600, what="a part to be done")
    (worker if which == "worker" else spooler).kill()
    all_are_warm(done(client), KEYS)
    # A statement under way is built again, and nothing else.
    assert sorted(set(built(origin))) == list(range(1001, 1001 + KEYS))
    assert len(built(origin)) <= KEYS + 2 * 64
    begins = [at for at, keyspace, _ in origin.build_log() if keyspace == "statement"]
    assert len(begins) <= KEYS / 64 + 10
    assert max(sum(begin <= other < begin + 1 for other in begins) for begin in begins) <= BUDGET
    # Memory does not grow with the keys: the near cache is bounded, and so is all else.
    if KEYS > 10000:
        assert memory_kib(worker if which == "spooler" else spooler) < 100 * 1024


def test_a_daemon_that_is_started_again_goes_on_with_its_spool(origin, make_redis, make_segard, tmp_path):
    redis = make_redis()
    segard = make_segard(origin, keyspaces=MANY, store={"url": redis.url}, **plans(2000, tmp_path, rate="8/s")).start()
    warm(segard.client(), plan="deploy")
    segard.wait_stats(warm_jobs=1)
    wait_until(lambda: segard.stats()["warm_statements"] > 2, what="a part to be done")
    segard.kill()
    segard.spawn()
    wait_until(segard.answers, what="segard to answer")
    client = segard.client()
    assert done(client)["done"] == 2000
    assert "warm.spool " not in segard.log().split("daemon.start")[-1]
    assert sorted(set(built(origin))) == list(range(1001, 3001))


def waits(segard, job):
    return subprocess.Popen([SEGARCTL, "-s", segard.socket, "warm", job, "--wait"], text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def ends_well(process, keys):
    said, complaints = process.communicate(timeout=120)
    assert (process.returncode, complaints) == (0, "")
    assert said.splitlines()[-1].startswith(f"{keys} of {keys} done"), said


@pytest.mark.parametrize("keys, rate", [(5000, "20/s"), (1000, "8/s")], ids=["a part fed", "all fed"])
def test_a_redis_that_is_emptied_begins_a_warm_up_anew(origin, make_hosts, tmp_path, keys, rate):
    """From the keys that are there; who waits for it hears of nothing but its end."""
    fleet = make_hosts(origin, 2, origin={"budget": f"{BUDGET}/s"}, **plan_of(keys, rate=rate))
    waiting = [waits(daemon, "deploy") for daemon in fleet]
    wait_until(lambda: origin.builds("statement") >= 3, what="a part to be done")
    fleet.redis.flush()
    for process in waiting:
        ends_well(process, keys)
    assert sorted(set(built(origin))) == list(range(1001, 1001 + keys))
    logs = [daemon.log() for daemon in fleet]
    assert sum(log.count("warm.anew ") for log in logs) == 1
    assert sum(log.count("warm.spool ") for log in logs) == 1, "the plan's query runs once"
    wait_until(lambda: not list(tmp_path.glob("*/warm-*")), what="the spool to go")


def test_it_goes_on_when_the_origin_is_back_though_nobody_else_asks(own_origin, make_hosts):
    fleet = make_hosts(own_origin, 2, origin={"budget": "60/s"}, keyspaces={"many": {**MANY["many"], "error": "1s"}},
                       **plan_of(1500, rate="8/s"))
    waiting = waits(fleet[1], "deploy")
    wait_until(lambda: own_origin.builds("statement") > 3, what="a part to be done")
    own_origin.server.stop()
    wait_until(lambda: all(fleet.stats("breaker")), what="the origin to be missed")
    own_origin.server.start()
    said = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, said


def test_a_redis_that_is_emptied_while_the_spooler_dies(origin, make_hosts):
    spooler, other = fleet = make_hosts(origin, 2, origin={"budget": f"{BUDGET}/s"}, **plan_of(2000, rate=f"{RATE}/s"))
    warm(spooler.client(), plan="deploy")
    wait_until(lambda: all(count > 0 for count in fleet.stats("warm_statements")), what="both to work")
    waiting = waits(other, "deploy")
    spooler.kill()
    fleet.redis.flush()
    ends_well(waiting, 2000)


def test_keys_that_nobody_knows_any_more_are_an_answer(origin, make_hosts):
    """The daemon that was given them is gone, and so is what Redis knew of them."""
    asked, other = fleet = make_hosts(origin, 2)
    with origin.gate("many") as gate:
        job = warm(asked.client(), keys=["many:1", "many:2"])
        gate.wait_for(1)
        wait_until(lambda: fleet.stats("warm_jobs") == [1, 1], what="both to know of it")
        asked.kill()
        fleet.redis.flush()
        client = other.client()

        def is_forgotten():
            with pytest.raises(Error) as error:
                status(client, job)
            assert "no such job" in str(error.value) or error.value.code == "unavailable"
            return "no such job" in str(error.value)

        wait_until(is_forgotten, what="it to be given up")


def test_a_cancelled_plans_query_ends(origin, make_segard, tmp_path):
    """Though it has no row yet; so that cancelled ones don't keep the next from being run."""
    segard = make_segard(origin, keyspaces=MANY, state_dir=str(tmp_path), warm=[
        {"name": "deploy", "query": "SELECT 'many:1' FROM pg_sleep(600)"}]).start()
    client = segard.client()

    def queries():
        ((count,),) = origin.sql("SELECT count(*) FROM pg_stat_activity WHERE query ~ '^SELECT .many:1. FROM pg_sleep' "
                                 "AND state = 'active'")
        return count

    for _ in range(5):
        warm(client, plan="deploy")
        wait_until(lambda: queries() == 1, what="the query")
        client.call("warm_cancel", "deploy")
        wait_until(lambda: queries() == 0, what="the query to end")
    wait_until(lambda: not list(tmp_path.glob("warm-*")), what="the spool to go")


def test_keys_by_name(origin, make_segard):
    segard = make_segard(origin, keyspaces=MANY).start()
    client = segard.client()
    job = warm(client, keys=["many:1", ["many", 2], "many:%33"])
    assert counts(done(client, job)) == {"state": "done", "keys": 3, "done": 3, "fresh": 0, "built": 3, "failed": 0}
    assert built(origin) == [1, 2, 3]
    for what, text in [({}, "plan, keys or keyspace is missing"), ({"keys": []}, "keys are none"), ({"plan": "x"}, "no such plan"),
                       ({"keys": ["nobody:1"]}, "nobody"), ({"plan": "x", "keys": ["many:1"]}, "once each"),
                       ({"plan": "x", "rate": 0}, "rate"), ({"keyspace": "x"}, "no keyspace")]:
        with pytest.raises(Error, match=text):
            client.call("warm", what)
    with pytest.raises(Error, match="no such job"):
        client.call("warm_status", "other")


def test_keys_from_a_file(origin, make_segard, tmp_path):
    path = tmp_path / "keys"
    path.write_text("# the first\nmany:1\r\n\nmany:%32\nmany:x\nnobody:1\n")
    segard = make_segard(origin, keyspaces=MANY, state_dir=str(tmp_path),
                         warm=[{"name": "deploy", "file": str(path), "retries": 0}]).start()
    client = segard.client()
    warm(client, plan="deploy")
    reply = done(client)
    assert counts(reply) == {"state": "done", "keys": 4, "done": 4, "fresh": 0, "built": 2, "failed": 2}
    assert {each["key"] for each in reply["failures"]} == {"many:x", "nobody:1"}


def test_a_key_that_fails_is_tried_again_and_listed(origin, make_segard, tmp_path):
    keyspaces = {"many": {**MANY["many"], "error": "100ms"}}
    segard = make_segard(origin, keyspaces=keyspaces, state_dir=str(tmp_path), warm=[
        {"name": "deploy", "query": "SELECT 'many:' || i FROM generate_series(664, 668) i", "retries": 2}]).start()
    client = segard.client()
    warm(client, plan="deploy")
    reply = done(client)
    assert (reply["built"], reply["failed"]) == (4, 1)
    assert reply["failures"][0]["key"] == "many:666"
    assert "22012" in reply["failures"][0]["error"]
    assert origin.builds("many", 666) == 4  # with the others, alone, and twice more


@pytest.mark.parametrize("query, text", [
    ("SELECT 'many:' || no_such_column", "42703"),
    ("SELECT 1, 2", "one column"),
    ("SELECT 'many:1' FROM pg_sleep(10)", "57014"),
])
def test_a_plan_whose_query_fails_says_so(origin, make_segard, tmp_path, query, text):
    segard = make_segard(origin, keyspaces=MANY, state_dir=str(tmp_path),
                         warm=[{"name": "deploy", "query": query, "timeout": "1s"}]).start()
    client = segard.client()
    warm(client, plan="deploy")
    reply = done(client)
    assert reply["state"] == "failed"
    assert text in reply["error"]


def test_waiting_requests_come_first(origin, make_segard, tmp_path):
    """With the whole budget asked for by requests, the warm-up takes nothing of it."""
    segard = make_segard(origin, keyspaces=MANY, origin={"budget": "20/s", "concurrency": 2}, **plans(2000, tmp_path)).start()
    client = segard.client()
    with origin.gate("item") as gate:
        waiting = [(asker, asker.send("get", f"item:{i}", {})) for i, asker in enumerate(segard.connections(4))]
        gate.wait_for(2)
        warm(client, plan="deploy")
        wait_until(lambda: status(client)["keys"] == 2000, what="the keys")
        segard.wait_stats(queued=2)
        wait_until(lambda: segard.stats()["warm_looks"] >= 64, what="the looks")
        wait_until(lambda: segard.stats()["warm_later"] > 5, what="it to be put off")
        assert origin.builds("statement") == 0
        gate.open()
        for asker, request in waiting:
            asker.receive(request)
    wait_until(lambda: origin.builds("statement") > 0, what="the warm-up to go on")
    client.call("warm_cancel", "deploy")


def test_a_reload_brings_plans(origin, make_segard, tmp_path):
    segard = make_segard(origin, keyspaces=MANY, state_dir=str(tmp_path)).start()
    client = segard.client()
    with pytest.raises(Error, match="no such plan"):
        client.call("warm", {"plan": "deploy"})
    config = json.loads(segard.config_path.read_text())
    segard.config_path.write_text(json.dumps({**config, **plans(10, tmp_path)}))
    client.call("reload")
    warm(client, plan="deploy")
    assert done(client)["built"] == 10


def test_a_daemon_is_ready_once_its_plan_is_done(origin, make_segard, tmp_path):
    with origin.gate("many") as gate:
        segard = make_segard(origin, keyspaces=MANY, ready_after_warm={"plan": "deploy", "timeout": "1m"},
                             **plans(10, tmp_path)).start()
        client = segard.client()
        gate.wait_for(1)
        assert not client.call("hello")["ready"]
        gate.open()
        wait_until(lambda: client.call("hello")["ready"], what="it to be ready")
    assert built(origin) == list(range(1001, 1011))


def test_it_is_ready_when_its_time_is_up(origin, make_segard, tmp_path):
    with origin.gate("many") as gate:
        segard = make_segard(origin, keyspaces=MANY, ready_after_warm={"plan": "deploy", "timeout": "1s"},
                             **plans(10, tmp_path)).start()
        client = segard.client()
        wait_until(lambda: client.call("hello")["ready"], what="it to be ready")
        assert gate.waiting() == 1


def memory_kib(segard):
    return int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{segard.process.pid}/status").read()).group(1))


def segarctl(segard, *arguments):
    run = subprocess.run([SEGARCTL, "-s", segard.socket, *arguments], capture_output=True, text=True, timeout=60)
    return run.returncode, run.stdout, run.stderr


def test_segarctl_waits_and_tells(origin, make_segard, tmp_path):
    keyspaces = {"many": {**MANY["many"], "error": "100ms"}}
    segard = make_segard(origin, keyspaces=keyspaces, state_dir=str(tmp_path), warm=[
        {"name": "deploy", "query": "SELECT 'many:' || i FROM generate_series(660, 669) i", "retries": 0}]).start()
    code, said, complaints = segarctl(segard, "warm", "deploy", "--wait", "--fail-under", "90%")
    assert code == 0
    assert "10 of 10 done: fresh 0, built 9, failed 1" in said
    assert "many:666: 22012" in complaints
    assert segarctl(segard, "warm", "deploy", "--wait", "--fail-under", "99%")[0] == 5
    assert segarctl(segard, "warm", "nothing", "--wait")[0] == 1
    assert segarctl(segard, "warm", "many:1", "many:2", "--wait")[0] == 0
    assert segarctl(segard, "warm", "deploy", "--fail-under", "99%")[0] == 2
    assert segarctl(segard, "warm", "deploy", "many:1")[0] == 2
    assert json.loads(segarctl(segard, "--json", "warm", "status", "deploy")[1])["failed"] == 1
    assert segarctl(segard, "warm", "status")[:2] == (0, "(none)\n")
    assert segarctl(segard, "warm", "cancel", "deploy")[0] == 1
    segard.stop()
    segard.process = None
    assert segarctl(segard, "warm", "deploy")[0] == 3


def test_the_hottest_keys_of_a_keyspace(origin, make_hosts):
    fleet = make_hosts(origin, 2, warm=[{"name": "hot", "keyspace": "many"}])
    client = fleet[0].client()
    keys = [f"many:{i}" for i in range(1, 21)]

    def hot():
        for key in keys:
            client.call("get", key, {})
        return {each["key"] for each in client.call("top", 100)["hot"]} >= set(keys)

    wait_until(hot, what="the keys to be hot")
    fleet.redis.flush()
    job = warm(client, keyspace="many")
    all_are_warm(done(client, job), 20)
    assert warm(client, plan="hot") == "hot"
    assert counts(done(client, "hot"))["fresh"] == 20
