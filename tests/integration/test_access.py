"""Who may do what, by the kernel's word on who a client is."""
import contextlib
import os
import re
import socket

import pytest

from harness.wait import wait_until
from harness.wire import Client, Error

WEB, REPORTS, OPERATOR = 4001, 4002, 4003  # users
STAFF = 4100  # a group


@contextlib.contextmanager
def client_of(daemon, uid, groups=()):
    """A client whose process is another user's: who connects is what counts, so a child does that, and hands the
    connection over."""
    ours, childs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    child = os.fork()
    if child == 0:
        try:
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(daemon.socket))
                socket.send_fds(childs, [b"x"], [sock.fileno()])
        finally:
            os._exit(0)
    childs.close()
    _, (fd,), _, _ = socket.recv_fds(ours, 1, 1)
    ours.close()
    os.waitpid(child, 0)
    with Client(None, connected=socket.socket(fileno=fd)) as client:
        yield client


ACCESS = [
    {"uid": WEB, "methods": ["get", "mget", "ping"], "keyspaces": ["item", "sized"]},
    {"gid": STAFF, "methods": ["get", "refresh"]},
    {"uid": OPERATOR},
    {"uid": "root"},
]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")


@pytest.fixture
def guarded(origin, make_segard):
    daemon = make_segard(origin, access=ACCESS).start()
    daemon.folder.chmod(0o755)
    return daemon


def denied(call, *args, **options):
    with pytest.raises(Error) as caught:
        call(*args, **options)
    assert caught.value.code == "denied", caught.value
    return caught.value.text


@needs_root
def test_a_user_may_do_what_its_rule_says(guarded):
    with client_of(guarded, WEB) as client:
        assert client.get("item:1")["value"] == b"item 1"
        assert client.get("item:1")["source"] == "near"
        assert client.call("ping") == "pong"
        assert denied(client.get, "text:1") == f"user {WEB} may not call get on text"
        assert denied(client.call, "refresh", "item:1") == f"user {WEB} may not call refresh"
        denied(client.call, "invalidate", {"keyspace": "item"})
        denied(client.call, "stats")
        denied(client.call, "stats", "item")
        both = client.call("mget", ["item:1", "text:1", "item:2"])
        assert [one.get("value") for one in both] == [b"item 1", None, b"item 2"]
        assert both[1]["error"] == f"denied: user {WEB} may not call mget on text"


@needs_root
def test_a_key_that_is_cached_is_denied_all_the_same(guarded):
    with guarded.client() as root:
        root.get("text:1")
        assert root.get("text:1")["source"] == "near"
    with client_of(guarded, WEB) as client:
        denied(client.get, "text:1")


@needs_root
def test_rules_add_up_over_groups(guarded):
    with client_of(guarded, WEB, groups=[STAFF]) as client:
        assert client.get("text:1")["state"] == "absent" or client.get("text:1")["value"]
        assert client.call("refresh", "item:1")["built"] in (True, False)
        assert client.call("ping") == "pong"
        denied(client.call, "keyspaces")


@needs_root
def test_who_has_no_rule_may_do_nothing(guarded):
    with client_of(guarded, REPORTS) as client:
        for method, params in (("ping", []), ("hello", []), ("get", ["item:1", {}]), ("keyspaces", [])):
            denied(client.call, method, *params)
        with pytest.raises(Error, match="unknown_method"):
            client.call("nonsense")


@needs_root
def test_a_rule_without_limits_allows_all(guarded):
    with client_of(guarded, OPERATOR) as client:
        client.call("invalidate", "item:1", {})
        assert client.call("stats")["denied"] == 0


@needs_root
def test_each_denial_is_counted_and_logged(guarded):
    with client_of(guarded, REPORTS) as client:
        for _ in range(3):
            denied(client.call, "inspect", "item:1")
    assert guarded.stats()["denied"] == 3
    assert re.search(rf"event=access.denied method=inspect .*peer_uid={REPORTS}", guarded.log())


@needs_root
def test_one_user_cannot_take_all_connections(origin, make_segard):
    daemon = make_segard(origin, limits={"connections": 20, "connections_per_user": 5}).start()
    daemon.folder.chmod(0o755)
    with contextlib.ExitStack() as stack:
        for _ in range(5):
            client = stack.enter_context(client_of(daemon, WEB))
            assert client.call("ping") == "pong"
        sixth = stack.enter_context(client_of(daemon, WEB))
        with pytest.raises(Error, match="overloaded"):
            sixth.call("ping")
        other = stack.enter_context(client_of(daemon, REPORTS))
        assert other.call("ping") == "pong"
        client.close()

        def has_room():
            with client_of(daemon, WEB) as again, contextlib.suppress(Error):
                return again.call("ping") == "pong"

        wait_until(has_room)


@needs_root
def test_one_user_cannot_take_all_requests(origin, make_segard):
    daemon = make_segard(origin, limits={"requests": 20, "requests_per_connection": 10, "requests_per_user": 8}).start()
    daemon.folder.chmod(0o755)
    with origin.gate("item") as gate, client_of(daemon, WEB) as client, client_of(daemon, WEB) as second, \
            client_of(daemon, REPORTS) as other:
        waiting = [client.send("get", "item:1", {}) for _ in range(6)]
        gate.wait_for(1)
        waiting_too = [second.send("get", "item:1", {}) for _ in range(2)]
        daemon.wait_stats(requests=8)
        with pytest.raises(Error, match="overloaded: too many requests of this user wait"):
            second.get("item:1")
        fine = other.send("get", "item:1", {})
        daemon.wait_stats(requests=9)
        gate.open()
        for number in waiting:
            assert client.receive(number)["value"] == b"item 1"
        for number in waiting_too:
            assert second.receive(number)["value"] == b"item 1"
        assert other.receive(fine)["value"] == b"item 1"


@pytest.mark.parametrize("rule, said", [
    ({}, "access[0].uid: a rule is for a uid or for a gid"),
    ({"uid": 1, "gid": 1}, "access[0].uid: a rule is for a uid or for a gid"),
    ({"uid": "nobody-of-that-name"}, 'access[0].uid: there is no user "nobody-of-that-name"'),
    ({"gid": "none-of-that-name"}, 'access[0].gid: there is no group "none-of-that-name"'),
    ({"uid": 1, "methods": ["get", "fetch"]}, 'access[0].methods: there is no method "fetch"'),
    ({"uid": 1, "methods": []}, "access[0].methods: has 0 items"),
    ({"uid": 1, "methods": "get"}, "access[0].methods: is a plain value; expected a list of methods"),
    ({"uid": 1, "methods": [["get"]]}, "access[0].methods[0]: is a list; expected a name"),
    ({"uid": 1, "keyspaces": ["itme"]}, 'access[0].keyspaces: there is no keyspace "itme"'),
])
def test_a_rule_that_makes_no_sense_is_refused_with_its_place(origin, make_segard, rule, said):
    daemon = make_segard(origin, access=[rule]).spawn()
    assert daemon.process.wait() == 1
    assert said in daemon.log(), daemon.log()
    daemon.process = None
