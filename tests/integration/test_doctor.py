"""The doctor: each thing that can be wrong is caused, named, and mended as it says."""
import contextlib
import ctypes
import grp
import json
import os
import re
import resource
import socketserver
import subprocess
import threading
import time

import pytest

from harness.postgres import run
from harness.segard import BUILD
from harness.wait import wait_until
from test_changes import FOLLOW, track

SEGARCTL, SEGARD = BUILD / "client" / "segarctl", BUILD / "daemon" / "segard"


def examine(daemon):
    """{check: (grade, found, remedy)}, the worst of each."""
    found = {}
    for finding in daemon.client().call("doctor", timeout=60):
        grade = ["ok", "hint", "bad"].index(finding["grade"])
        assert (finding["remedy"] is None) == (grade == 0), finding
        if grade >= found.get(finding["check"], (-1,))[0]:
            found[finding["check"]] = grade, finding["found"], finding["remedy"]
    return {check: ("ok hint bad".split()[grade], *texts) for check, (grade, *texts) in found.items()}


def diagnose(daemon, **how):
    """The same by a doctor of its own: `segard --doctor`, which needs no daemon."""
    done = subprocess.run([SEGARD, "-c", daemon.config_path, "--doctor"], capture_output=True, text=True, **how)
    found = {}
    for grade, check, text, remedy in re.findall(r"^(ok|hint|bad) +([^:]+): (.*)\n(?: {6}(.*)\n)?", done.stdout, re.M):
        if check not in found or found[check][0] == "ok":
            found[check] = grade, text, remedy
    assert done.returncode == (1 if any(grade == "bad" for grade, *_ in found.values()) else 0), done
    return found


def rewrite(daemon, change):
    """The file alone: the daemon stays as it is."""
    config = json.loads(daemon.config_path.read_text())
    change(config)
    daemon.config_path.write_text(json.dumps(config))


def test_nothing_is_bad_where_all_is_well(origin, make_fleet):
    track(origin)
    fleet = make_fleet(origin, 1, keyspaces=FOLLOW)
    found = examine(fleet[0])
    assert [check for check, (grade, *_) in found.items() if grade == "bad"] == []
    assert {"config", "listen.mode", "state_dir", "origin.version", "origin.role", "origin.clock", "keyspaces", "feed.schema",
            "store.version", "store.role", "store.memory", "store.rights", "store.clock", "origin.fleet"} <= found.keys()
    done = subprocess.run([SEGARCTL, "-s", fleet[0].socket, "doctor"], capture_output=True, text=True)
    assert done.returncode == 0 and "ok    store.role: it takes writes" in done.stdout
    done = subprocess.run([SEGARD, "-c", fleet[0].config_path, "--doctor"], capture_output=True, text=True)
    assert done.returncode == 0 and "ok    store.role: it takes writes" in done.stdout


def test_the_configuration(origin, make_segard):
    segard = make_segard(origin).start()
    rewrite(segard, lambda config: config["near"].update(memory="1") if "near" in config else config.update(near={"memory": "1"}))
    grade, found, _ = examine(segard)["config"]
    assert grade == "bad" and "near.memory" in found and str(segard.config_path) in found
    done = subprocess.run([SEGARCTL, "-s", segard.socket, "doctor"], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout.startswith("bad   config: ")


def test_the_socket(origin, make_segard):
    segard = make_segard(origin, listen={"mode": "0660"}).start()
    assert examine(segard)["listen.socket"][0] == "ok"
    segard.socket.chmod(0o777)
    assert examine(segard)["listen.socket"][0] == "bad"
    segard.socket.chmod(0o666)
    rewrite(segard, lambda config: config["listen"].update(mode="0666"))
    grade, found, remedy = examine(segard)["listen.mode"]
    assert grade == "hint" and "every user" in found and "0660" in remedy
    client = segard.client()
    segard.socket.rename(segard.socket.with_suffix(".gone"))
    [finding] = [each for each in client.call("doctor", timeout=60) if each["check"] == "listen.socket"]
    assert finding["grade"] == "bad" and "no socket" in finding["found"]
    segard.socket.with_suffix(".gone").rename(segard.socket)


def test_the_group_of_the_socket(origin, make_segard):
    segard = make_segard(origin, listen={"mode": "0660"}).start()
    other = next(group.gr_name for group in grp.getgrall() if group.gr_gid not in (os.getgid(), 0))
    rewrite(segard, lambda config: config["listen"].update(group=other))
    assert examine(segard)["listen.socket"][0] == "bad"


def test_the_folder_for_state(origin, make_segard, workshop):
    segard = make_segard(origin).start()
    assert examine(segard)["state_dir"][0] == "hint"
    folder = workshop / f"state-{id(segard)}"
    rewrite(segard, lambda config: config.update(state_dir=str(folder)))
    grade, found, _ = examine(segard)["config"]
    assert grade == "bad" and str(folder) in found
    folder.mkdir()
    assert examine(segard)["state_dir"][0] == "ok"


def test_what_this_user_and_this_host_allow(origin, make_segard, workshop):
    segard = make_segard(origin).start()
    folder = workshop / f"state-{id(segard)}"
    folder.mkdir(mode=0o500)
    rewrite(segard, lambda config: config.update(state_dir=str(folder)))
    other = {"user": 65534} if os.geteuid() == 0 else {}
    grade, found, remedy = diagnose(segard, **other)["state_dir"]
    assert grade == "bad" and "Permission denied" in found and f"install -d -o segar -g segar -m 0700 {folder}" == remedy.split(": ")[1]
    few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))}
    grade, found, remedy = diagnose(segard, **few)["host.descriptors"]
    assert grade == "hint" and found.startswith("256 may be open") and re.match(r"LimitNOFILE=\d{5}", remedy)
    rewrite(segard, lambda config: config.update(limits={"connections": 100}))
    found = diagnose(segard, **few)
    assert found["host.descriptors"][0] == "ok"
    unsynchronized = 5  # adjtimex(2): TIME_ERROR; a test can't set this host's clock wrong
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))
    assert found["host.clock"][0] == ("hint" if state == unsynchronized else "ok")


def test_the_origin_and_its_role(origin, make_segard):
    segard = make_segard(origin, origin={"concurrency": 4}).start()
    assert examine(segard)["origin.role"][:2] == ("hint", "segard has no limit of connections")
    try:
        origin.sql("ALTER ROLE segard CONNECTION LIMIT 3")
        grade, found, remedy = examine(segard)["origin.role"]
        assert grade == "bad" and "3 connections, for 4" in found
        origin.sql(remedy.split(",")[0])
        assert examine(segard)["origin.role"][0] == "ok"
        origin.sql("ALTER ROLE segard SUPERUSER")
        assert examine(segard)["origin.role"][:2] == ("hint", "segard is a superuser")
    finally:
        origin.sql("ALTER ROLE segard NOSUPERUSER CONNECTION LIMIT -1")
    rewrite(segard, lambda config: config["origin"].update(concurrency=500))
    assert examine(segard)["origin.connections"][0] == "bad"
    rewrite(segard, lambda config: config["origin"].update(dsn="host=/nowhere"))
    grade, found, _ = examine(segard)["origin.dsn"]
    assert grade == "bad" and "/nowhere" in found


def test_what_the_origin_says_of_itself(origin, make_segard):
    """An old server, a standby, a wrong clock: functions of the same names say so, before PostgreSQL's own."""
    segard = make_segard(origin, keyspaces=FOLLOW).start()
    track(origin)
    origin.sql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
    grade, _, remedy = examine(segard)["origin.history"]
    assert grade == "hint"
    origin.sql(remedy.split(":")[0])
    assert examine(segard)["origin.history"][0] == "ok"
    origin.sql("""CREATE SCHEMA fake; GRANT USAGE ON SCHEMA fake TO PUBLIC;
        CREATE FUNCTION fake.current_setting(name text) RETURNS text LANGUAGE sql RETURN
            CASE name WHEN 'server_version_num' THEN '130009' ELSE pg_catalog.current_setting(name) END;
        CREATE FUNCTION fake.clock_timestamp() RETURNS timestamptz LANGUAGE sql RETURN pg_catalog.clock_timestamp() - interval '5 s';
        CREATE FUNCTION fake.pg_is_in_recovery() RETURNS bool LANGUAGE sql RETURN true""")
    before = diagnose(segard)
    assert [before[check][0] for check in ("origin.version", "origin.clock", "feed.schema")] == ["ok"] * 3
    rewrite(segard, lambda config: config["origin"].update(
        dsn=config["origin"]["dsn"] + " options='-c search_path=fake,pg_catalog,public'"))
    found = diagnose(segard)
    assert found["origin.version"] == ("bad", "PostgreSQL 13.9", "segar needs PostgreSQL 14 or later")
    assert found["origin.standby"][0] == "bad" and "origin.standby to true" in found["origin.standby"][2]
    assert found["feed.dsn"][:2] == ("bad", "it leads to a standby")
    assert found["origin.clock"][0] == "hint" and found["origin.clock"][1].startswith("-5.0")


def test_the_queries(origin, make_segard):
    segard = make_segard(origin, keyspaces={
        "wrong": {"query": "SELECT 1 AS value FROM nothing"},
        "other": {"query": "SELECT 1 AS another"},
        "batch": {"query": "SELECT $1::int AS value", "batch": {"query": "SELECT key, value FROM nothing"}}}).start()
    found = examine(segard)
    assert found["keyspace wrong"][0] == "bad" and "nothing" in found["keyspace wrong"][1]
    assert found["keyspace other"] == ("bad", "the query has no column value", "name it: SELECT … AS value")
    assert found["keyspace batch"][0] == "bad" and found["keyspace batch"][1].startswith("batch.query: ")
    assert "keyspaces" not in found


def test_the_log_of_changes(origin, make_segard):
    segard = make_segard(origin, keyspaces=FOLLOW).start()
    assert examine(segard)["feed.schema"][:2] == ("bad", "the schema segar is not installed here")
    track(origin)
    origin.sql("SELECT segar.untrack('items')")
    assert examine(segard)["feed.schema"][0] == "ok"
    grade, _, remedy = examine(segard)["keyspace item"]
    assert grade == "bad" and "segar.track('TABLE', 'item:{COLUMN}')" in remedy
    origin.sql("REVOKE ALL ON segar.changes FROM segard")
    origin.sql("SELECT segar.track('items', 'item:{id}')")
    found = examine(segard)
    assert "keyspace item" not in found and found["feed.rights"][0] == "bad"
    origin.sql(found["feed.rights"][2].split(",")[0])
    assert "feed.rights" not in examine(segard)
    origin.sql("CREATE OR REPLACE FUNCTION segar.schema_version() RETURNS int LANGUAGE sql RETURN 1")
    grade, found, remedy = examine(segard)["feed.schema"]
    assert grade == "bad" and "release 1" in found and "install.sql" in remedy


def test_the_shared_store(origin, make_fleet):
    fleet = make_fleet(origin, 1, origin={"fleet": 3})
    daemon, redis = fleet[0], fleet.redis

    def config(name, value):
        assert redis.call("CONFIG", "SET", name, value) == "OK"

    found = examine(daemon)
    assert found["store.memory"][:2] == ("hint", "it has no limit")
    assert found["origin.fleet"][:2] == ("hint", "1 daemons are live, of 3")
    config("maxmemory", "100mb")
    config("maxmemory-policy", "allkeys-lru")
    assert examine(daemon)["store.memory"][0] == "hint"
    config("maxmemory-policy", "volatile-lru")
    assert examine(daemon)["store.memory"][0] == "ok"
    config("maxmemory-policy", "noeviction")
    config("maxmemory", "1mb")
    assert examine(daemon)["store.memory"][0] == "bad"
    config("maxmemory", "0")
    redis.call("ACL", "SETUSER", "default", "-evalsha")
    grade, found, _ = examine(daemon)["store.rights"]
    assert grade == "bad" and "NOPERM" in found
    redis.call("ACL", "SETUSER", "default", "+evalsha", "-info")
    grade, found, remedy = examine(daemon)["store.rights"]
    assert grade == "bad" and found.startswith("INFO: NOPERM") and "ACL" in remedy
    redis.call("ACL", "SETUSER", "default", "+info")
    redis.call("REPLICAOF", "127.0.0.1", "1")
    wait_until(lambda: examine(daemon)["store.role"][0] == "bad", what="the replica to be named")
    redis.call("REPLICAOF", "NO", "ONE")
    redis.kill()
    assert examine(daemon)["store.url"][0] == "bad"
    redis.start()


@pytest.mark.parametrize("password, grade", [("right", "ok"), ("wrong", "bad")])
def test_the_stores_password(origin, make_segard, make_redis, workshop, password, grade):
    redis = make_redis()
    redis.call("CONFIG", "SET", "requirepass", "right")
    file = workshop / f"password-{id(redis)}"
    file.write_text(password)
    segard = make_segard(origin, store={"url": redis.url, "password_file": str(file)}).start()
    found = examine(segard)
    assert found["store.url" if grade == "bad" else "store.role"][0] == grade
    file.unlink()
    grade, found, remedy = examine(segard)["store.password_file"]
    assert grade == "bad" and found == f"{file}: No such file or directory" and "read it" in remedy


class OldRedis(socketserver.StreamRequestHandler):
    """What a Redis 6 says whose clock is 5 s behind."""

    def handle(self):
        with contextlib.suppress(ConnectionError):
            while line := self.rfile.readline():
                words = []
                for _ in range(int(line[1:])):
                    words.append(self.rfile.read(int(self.rfile.readline()[1:]) + 2)[:-2].decode().upper())
                self.wfile.write(self.answer(*words).encode())

    def answer(self, command, *words):
        if command == "INFO":
            text = "redis_version:6.2.7\r\nrole:master\r\nmaxmemory:0\r\nused_memory:1\r\nmaxmemory_policy:noeviction\r\n"
            return f"${len(text)}\r\n{text}\r\n"
        if command == "TIME":
            second = str(int(time.time()) - 5)
            return f"*2\r\n${len(second)}\r\n{second}\r\n$1\r\n0\r\n"
        return {"EVALSHA": "-NOSCRIPT none\r\n", "ZCOUNT": ":1\r\n"}.get(command, "+OK\r\n")


def test_what_the_store_says_of_itself(origin, make_segard, workshop):
    segard = make_segard(origin).start()
    path = workshop / f"old-{id(segard)}"
    with socketserver.ThreadingUnixStreamServer(str(path), OldRedis) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rewrite(segard, lambda config: config.update(store={"url": f"unix://{path}"}))
        found = diagnose(segard)
        server.shutdown()
    assert found["store.version"] == ("bad", "Redis 6.2.7", "segar's scripts need Redis 7.0 or later")
    assert found["store.clock"][0] == "hint" and re.match(r"-[56]\.", found["store.clock"][1])
    rewrite(segard, lambda config: config.update(store={"url": "http://cache"}))
    grade, found, remedy = diagnose(segard)["config"]
    assert grade == "bad" and "store.url" in found


def test_many_ask_and_one_leaves(origin, make_segard):
    segard = make_segard(origin).start()
    clients = [segard.client() for _ in range(20)]
    numbers = [client.send("doctor") for client in clients]
    clients.pop().close()
    numbers.pop()
    for client, number in zip(clients, numbers):
        assert client.receive(number, timeout=60)
    wait_until(lambda: segard.stats()["requests"] == 0, what="the last one to be done")


def test_it_ends_with_the_daemon(origin, make_segard):
    """Also while the doctor waits for a server that does not answer."""
    segard = make_segard(origin).start()
    rewrite(segard, lambda config: config["origin"].update(dsn="host=192.0.2.1 connect_timeout=60"))
    segard.client().send("doctor")
    segard.stop()


def test_an_origin_that_hangs_holds_up_nobody(own_origin, make_segard):
    segard = make_segard(own_origin, keyspaces={"held": {"query": "SELECT value FROM held WHERE id = $1"}})
    own_origin.sql("CREATE TABLE held (id int, value text)")
    own_origin.sql("GRANT SELECT ON held TO segard")
    segard.start()
    with contextlib.closing(own_origin.connect(autocommit=False)) as other:
        run(other, "LOCK TABLE held")
        client = segard.client()
        asked = client.send("doctor")
        wait_until(lambda: own_origin.sql("SELECT 1 FROM pg_stat_activity WHERE application_name = 'segard doctor'"
                                          " AND wait_event_type = 'Lock'"), what="doctor to prepare the query")
        own_origin.server.pause()
        try:
            found = {each["check"]: each["grade"] for each in client.receive(asked, 20)}
        finally:
            own_origin.server.resume()
    assert found["keyspace held"] == "bad" and "store.url" in found
