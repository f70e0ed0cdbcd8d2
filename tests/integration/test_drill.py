"""segarctl drill: it keeps its limits, counts what PostgreSQL counts, and names each promise that is broken."""
import json
import os
import pty
import signal
import socket
import subprocess
import threading

import msgpack
import pytest

from harness.segard import SEGARCTL
from harness.wait import wait_until

PROMISES = {"one_build", "budget", "age", "rollback", "waiting", "explicit", "served"}


def command(daemons, *arguments):
    sockets = [word for daemon in daemons for word in ("--socket", str(getattr(daemon, "socket", daemon)))]
    return [str(SEGARCTL), *sockets, "drill", *arguments]


def drill(daemons, *arguments, code=0):
    done = subprocess.run([*command(daemons, *arguments), "--json", "--yes"], capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)


def refused(daemons, *arguments, code=2):
    done = subprocess.run(command(daemons, *arguments), capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == code and not done.stdout, done.stdout + done.stderr
    return done.stderr


def broken(report):
    assert report["promises"].keys() == PROMISES
    return {name for name, promise in report["promises"].items() if promise["broken"]}


def scenes(report):
    return {scene["scene"]: scene for scene in report["scenes"]}


# a fleet that keeps them


@pytest.fixture
def fleet(origin, make_fleet):
    return make_fleet(origin, 2)


def test_a_healthy_fleet_keeps_its_promises(fleet, origin):
    report = drill(fleet, "item", "item:1", "item:2", "--for", "8s", "--rate", "200/s")
    assert report["kept"] and report["end"] == "whole" and not broken(report)
    assert report["builds"] == origin.builds("item"), "what daemons counted is what PostgreSQL counted"
    seen = scenes(report)
    assert list(seen) == ["soft", "hard", "burst", "absent"]
    for name, builds in {"soft": 2, "hard": 2, "burst": 2}.items():
        assert seen[name]["builds"] == builds == seen[name]["builds_allowed"] and seen[name]["exact"], seen[name]
        assert sum(seen[name]["states"].values()) == seen[name]["asked"] > 0
    assert report["begin_builds"] == 2
    assert seen["absent"]["builds"] == seen["absent"]["builds_allowed"] == report["builds"] - 8 > 0
    assert seen["absent"]["states"]["absent"] == seen["absent"]["asked"] // 2
    fleet.wait_rest()


def test_a_slow_build_is_waited_for_or_bridged(fleet, origin):
    origin.behave("item", delay_s=0.3)
    report = drill(fleet, "item", "item:1", "--for", "3s", "--scenes", "soft,hard")
    seen = scenes(report)
    assert seen["soft"]["reasons"]["changed"] == seen["soft"]["states"]["stale"] > 0
    assert "stale" not in seen["hard"]["states"] and seen["hard"]["max_ms"] > 100
    assert report["builds"] == origin.builds("item") == 3


def test_the_whole_keyspace_is_invalidated_only_when_that_is_said(fleet, origin):
    assert "say --whole-keyspace" in refused(fleet, "item", "item:1", "--scenes", "spread")
    assert origin.builds() == 0
    report = drill(fleet, "item", "item:1", "--for", "2s", "--scenes", "spread", "--whole-keyspace")
    assert report["builds"] == origin.builds("item") == 2


def test_without_a_key_it_takes_the_hottest(segard):
    assert "knows no hot key of item: name one" in refused([segard], "item", "--yes")
    client = segard.client()

    def is_known():
        for number in [client.send("get", "item:7", {}) for _ in range(500)]:
            client.receive(number)
        return client.call("top")["hot"]

    wait_until(is_known, what="the hot key to be known")
    assert drill([segard], "item", "--for", "1s", "--scenes", "calm")["keys"] == ["item:7"]


def test_while_others_ask_builds_are_what_clients_saw(fleet, origin):
    client, ends = fleet[0].client(), threading.Event()

    def ask():
        while not ends.is_set():
            client.get("text:x")
            client.get("item:9")

    other = threading.Thread(target=ask)
    other.start()
    try:
        report = drill(fleet, "item", "item:1", "--for", "2s", "--scenes", "hard")
    finally:
        ends.set()
        other.join()
    assert not scenes(report)["hard"]["exact"] and report["kept"]
    assert scenes(report)["hard"]["builds_seen"] <= origin.builds("item", 1)


# limits


def test_nobody_is_asked_but_people(fleet, origin):
    assert "say --yes" in refused(fleet, "item", "item:1")
    outer, inner = pty.openpty()
    for answer, code in (b"n\n", 1), (b"\n", 1), (b"y\n", 0):
        process = subprocess.Popen(command(fleet, "item", "item:1", "--for", "1s", "--scenes", "calm"), stdin=inner,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.write(outer, answer)
        shown, asked = process.communicate()
        assert process.returncode == code and b"go on? [y/N]" in asked
        assert bool(shown) == (code == 0) == (origin.builds("item") == 1)
    assert b"kept" in shown and b"BROKEN" not in shown
    os.close(outer)
    os.close(inner)


def test_it_stops_when_the_keyspace_has_had_its_builds(fleet, origin):
    done = refused(fleet, "item", "item:1", "--yes", "--builds", "3")
    assert "--builds allows 3" in done
    client, ends = fleet[0].client(), threading.Event()

    def build():
        for number in range(100, 10000):
            if ends.is_set():
                return
            client.get(f"item:{number}")

    report = subprocess.Popen([*command(fleet, "item", "item:1", "--for", "60s", "--scenes", "calm", "--builds", "20"),
                               "--json", "--yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(lambda: origin.builds("item", 1) == 1, what="the drill to begin")
    other = threading.Thread(target=build)
    other.start()
    try:
        report, _ = report.communicate()
    finally:
        ends.set()
        other.join()
    report = json.loads(report)
    assert report["end"] == "stopped" and report["builds"] > 20 and "may be" in report["why"]


def test_it_ends_at_once_when_it_is_interrupted(fleet):
    process = subprocess.Popen([*command(fleet, "item", "item:1", "--for", "600s"), "--json", "--yes"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(lambda: fleet.sum("connections") > 2 * 8, what="the drill to begin")
    process.send_signal(signal.SIGINT)
    report, _ = process.communicate()
    report = json.loads(report)
    assert process.returncode == 1 and report["end"] == "interrupted" and report["kept"]
    fleet.wait_rest()
    for daemon in fleet:
        daemon.wait_stats(connections=1)  # the one that asks


BAD = [
    ([], "usage: segarctl drill KEYSPACE"),
    (["nosuch", "nosuch:1"], 'there is no keyspace "nosuch"'),
    (["item:1"], "drill item item:1"),
    (["item", "text:1"], "text:1 is no key of item"),
    (["item", "item:1", "--scenes", "soft,quake"], 'no scene "quake": calm, soft, hard'),
    (["item", "item:1", "--scenes", ""], 'no scene ""'),
    (["item", "item:1", "--rate", "20000/s"], "--rate is 1/s to 10000/s"),
    (["item", "item:1", "--rate", "fast"], "--rate must be a rate"),
    (["item", "item:1", "--for", "1h"], "--for must be a duration from 1s to 10m, not 1h"),
    (["item", "item:1", "--for", "2s"], "4 scenes of 1 keys take 4 s at least"),
    (["item", "item:1", "--builds", "0"], "--builds must be a whole number from 1 to 10000"),
    (["item", "item:1", "--absent", "text:"], "--absent text: is no beginning of a key of item"),
    (["item", "item:1", "--connections", "65"], "--connections is 64 at most"),
    (["item", "item:1", "-n", "5"], "drill has --rate and --for"),
]


def test_bad_arguments_are_named(segard, origin):
    for arguments, says in BAD:
        assert says in refused([segard], *arguments, code=1 if arguments[:1] == ["nosuch"] else 2)
    assert not origin.builds()
    assert "are for drill" in subprocess.run([SEGARCTL, "-s", segard.socket, "ping", "--for", "3s"], capture_output=True,
                                             text=True, check=False).stderr


def test_daemons_that_are_none_of_a_fleet_are_named(origin, make_segard, fleet):
    alone = make_segard(origin).start()
    assert "stands alone" in refused([fleet[0], alone], "item", "item:1")
    assert "are the same daemon" in refused([fleet[0], fleet[0]], "item", "item:1")
    assert "cannot connect" in refused([fleet[0], "/nowhere"], "item", "item:1", code=3)
    assert "there is no row of item:99999" in refused(fleet, "item", "item:99999", "--yes", "--for", "4s", code=4)
    assert "serves" not in refused([alone], "nosuch", code=1)


# promises that are broken


def test_what_is_refused_in_a_scene_is_named(origin, make_fleet):
    fleet = make_fleet(origin, 2, keyspaces={"item": {"wait": "500ms"}})
    process = subprocess.Popen([*command(fleet, "item", "item:1", "--for", "3s", "--scenes", "hard"), "--json", "--yes"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(lambda: origin.builds("item") == 1, what="the first value")
    origin.behave("item", delay_s=1)
    report, _ = process.communicate()
    report = json.loads(report)
    assert process.returncode == 5 and broken(report) == {"served"}
    assert "hard at " in report["promises"]["served"]["first"] and "timeout" in report["promises"]["served"]["first"]
    assert scenes(report)["hard"]["errors"]["timeout"] == report["promises"]["served"]["broken"]
    assert origin.builds("item") == report["builds"] == 2


def test_a_daemon_that_stands_still_is_named(fleet):
    process = subprocess.Popen([*command(fleet, "item", "item:1", "--for", "4s", "--scenes", "soft", "--wait-ms", "200"),
                                "--json", "--yes"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    wait_until(lambda: fleet[1].stats()["connections"] > 8, what="the drill to begin")
    fleet[1].process.signal(signal.SIGSTOP)
    report, _ = process.communicate()
    fleet[1].process.signal(signal.SIGCONT)
    report = json.loads(report)
    assert process.returncode == 5 and "waiting" in broken(report) and report["end"] == "stopped"
    assert "never answered" in report["promises"]["waiting"]["first"]


class Liar:
    """Stands between clients and a daemon, and changes results: `lie(method, result)`, of None an error."""

    def __init__(self, path, daemon, lie):
        self.daemon, self.lie = daemon, lie
        self.socket = path
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(str(path))
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(str(self.daemon.socket))
            methods = {}
            threading.Thread(target=self.relay, args=(client, server, methods, self.request), daemon=True).start()
            threading.Thread(target=self.relay, args=(server, client, methods, self.response), daemon=True).start()

    def relay(self, source, target, methods, change):
        unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 26)
        try:
            while data := source.recv(1 << 16):
                unpacker.feed(data)
                for message in unpacker:
                    message = change(methods, message)
                    if message:
                        target.sendall(msgpack.packb(message, use_bin_type=True))
        except OSError:
            pass
        target.close()

    @staticmethod
    def request(methods, message):
        methods[message[1]] = message[2] + "".join(key for key in message[3][:1] if message[2] == "stats")
        return message

    def response(self, methods, message):
        method = methods.pop(message[1])
        result = self.lie(method, message[3]) if message[2] is None else message[3]
        if result == "drop":
            return None
        return [1, message[1], [0, "timeout: no value"], None] if result is None else [1, message[1], message[2], result]


def lie_after(count, method, change):
    """From the so many'th result of the method on."""
    seen = iter(range(1 << 30))

    def lie(asked, result):
        if asked == method and next(seen) >= count:
            return change(result)
        return result

    return lie


def add(**more):
    return lambda result: {**result, **{name: result[name] + number for name, number in more.items()}}


@pytest.mark.parametrize("promise, says, lie", [
    ("rollback", "had seen version 1", lie_after(20, "get", add(version=-1))),
    ("rollback", "served, from before it was invalidated (hard)", lie_after(20, "get", add(age_ms=60_000))),
    ("age", "older than 630000 ms", lie_after(20, "get", lambda result: {**result, "age_ms": 700_000})),
    ("age", "stale for longer than 30000 ms",
     lie_after(20, "get", lambda result: {**result, "state": "stale", "reason": "changed", "stale_ms": 31_000})),
    ("explicit", "does not say why", lie_after(20, "get", lambda result: {**result, "state": "stale", "stale_ms": 1})),
    ("explicit", "fresh and stale at once", lie_after(20, "get", add(stale_ms=1))),
    ("served", "timeout: no value", lie_after(20, "get", lambda result: None)),
    ("waiting", "never answered", lie_after(20, "get", lambda result: "drop")),
    ("one_build", "hard: 3 builds of 1 key, and 1 may be", lie_after(9, "statsitem", add(builds=2))),
    ("budget", "builds began within a second; 1000 may", lie_after(9, "stats", add(builds=1001))),
])
def test_a_planted_breach_is_named(segard, workshop, serial, promise, says, lie):
    liar = Liar(workshop / f"liar{next(serial)}", segard, lie)
    report = drill([liar], "item", "item:1", "--for", "1s", "--scenes", "hard", "--wait-ms", "1000", code=5)
    assert says in report["promises"][promise]["first"], report
    also = {"rollback"} if says.startswith(("older", "stale for")) else set()
    assert broken(report) - also == {promise} and not report["kept"]
    assert (report["end"] == "stopped") == (promise in ("budget", "waiting")), report["why"]
    liar.listener.close()
