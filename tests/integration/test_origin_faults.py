"""PostgreSQL killed, stopped, restarted, cut off, slow: clear errors, no mix-ups, and back by itself."""
import threading

import pytest

from harness.origin import Origin
from harness.proxy import CUT, PASS, Proxy
from harness.wait import PATIENCE_S, wait_until
from harness.wire import Error

# what a request may be told while the origin is away
AWAY = ("unavailable", "timeout", "overloaded")


@pytest.fixture
def segard(own_origin, make_segard):
    # failures are forgotten soon, so that the tests see the service come back
    return make_segard(own_origin, keyspaces={"item": {"error": "50ms", "fresh": "1ms", "stale": "0s"},
                                              "sized": {"error": "50ms"}}).start()


def attempt(client, key, **options):
    try:
        return client.get(key, **options)
    except Error as error:
        return error


def wait_service(client, key="item:1", value=b"item 1"):
    """Waits until the key is answered again."""

    def answered():
        reply = attempt(client, key, wait_ms=2000)
        return not isinstance(reply, Error) and reply["value"] == value

    wait_until(answered, timeout=2 * PATIENCE_S, what="service to return")


def test_killed_in_a_build(segard, own_origin):
    client = segard.client()
    with own_origin.gate("item") as gate:
        waiting = client.send("get", "item:1", {"wait_ms": 60000})
        gate.wait_for(1)
        own_origin.server.kill()
        with pytest.raises(Error) as away:
            client.receive(waiting)
        assert away.value.code == "unavailable"
        gate.closed = False
    assert attempt(client, "item:2", wait_ms=1000).code in AWAY
    own_origin.server.start()
    own_origin.behave("item")
    wait_service(client)
    client.close()
    segard.wait_rest()
    segard.process.wait_idle()


def test_stopped_and_continued(segard, own_origin):
    client = segard.client()
    client.get("item:1")
    own_origin.server.pause()
    try:
        replies = [attempt(client, f"item:{i}", wait_ms=300) for i in range(1, 4)]
        assert {r.code for r in replies} <= set(AWAY)
        # other keys, and what is in memory, are served as before
        assert client.call("ping") == "pong"
    finally:
        own_origin.server.resume()
    wait_service(client)
    client.close()
    segard.wait_rest()
    segard.process.wait_idle()


def test_idle_while_the_origin_is_stopped_or_gone(segard, own_origin):
    client = segard.client()
    client.get("item:1")
    own_origin.server.pause()
    try:
        attempt(client, "item:2", wait_ms=100)
        segard.process.wait_idle()
    finally:
        own_origin.server.resume()
    own_origin.server.kill()
    attempt(client, "item:3", wait_ms=1000)
    segard.process.wait_idle()


def test_restarted_under_load(segard, own_origin):
    """Every answer is of the key that was asked, whatever connection it came over and went down with."""
    stop = threading.Event()
    answers, failures = [0] * 4, []

    def load(number):
        try:
            with segard.client() as client:
                key = number
                while not stop.is_set():
                    key = key % 9000 + 4
                    reply = attempt(client, f"item:{key}", wait_ms=2000)
                    if isinstance(reply, Error):
                        assert reply.code in AWAY, reply
                    else:
                        assert reply["value"] == f"item {key}".encode(), (key, reply)
                        answers[number] += 1
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for stop_server in (own_origin.server.kill, own_origin.server.stop, own_origin.server.kill):
            before = list(answers)
            wait_until(lambda: failures or all(now > then + 20 for now, then in zip(answers, before)),
                       timeout=2 * PATIENCE_S, what="load")
            stop_server()
            own_origin.server.start()
        before = list(answers)
        wait_until(lambda: failures or all(now > then + 20 for now, then in zip(answers, before)),
                   timeout=2 * PATIENCE_S, what="load after the last restart")
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures
    segard.wait_rest()
    segard.process.wait_idle()


def test_absent_at_the_start(make_segard, make_postgres):
    server = make_postgres()
    origin = Origin(server)
    server.stop()
    segard = make_segard(origin, keyspaces={"item": {"error": "50ms"}}).start()
    client = segard.client()
    assert attempt(client, "item:1", wait_ms=1000).code in AWAY
    segard.process.wait_idle()
    server.start()
    wait_service(client)


@pytest.mark.parametrize("passing", [0, 1, 100, 70000, 3000000])
def test_cut_in_the_middle_of_a_result(own_origin, make_segard, workshop, serial, passing):
    proxy = Proxy.for_postgres(workshop / f"x{next(serial)}", own_origin.server)
    try:
        segard = make_segard(proxy.dsn(), keyspaces={"sized": {"error": "10ms"}, "item": {"error": "10ms"}}).start()
        client = segard.client()
        assert client.get("sized:10")["value"] == b"x" * 10
        client.get("item:1")
        proxy.down.script = [(passing, CUT)]
        reply = attempt(client, "sized:5000000", wait_ms=5000)
        assert reply.code in AWAY, reply
        proxy.down.script, proxy.down.fault = [], PASS
        wait_service(client, "sized:5000000", b"x" * 5000000)
        wait_service(client, "item:2", b"item 2")
        client.close()
        segard.wait_rest()
        segard.process.wait_idle()
    finally:
        proxy.close()


def test_a_terminated_backend_is_an_error_of_its_build_only(segard, own_origin):
    client = segard.client()
    with own_origin.gate("item") as gate:
        waiting = client.send("get", "item:1", {})
        gate.wait_for(1)
        own_origin.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'segard' AND"
                       " state = 'active'")
        with pytest.raises(Error) as lost:
            client.receive(waiting)
        assert lost.value.code in ("unavailable", "origin_error")
    wait_service(client)


def test_a_build_past_its_timeout_is_ended_at_the_origin(origin, make_segard):
    segard = make_segard(origin, origin={"build_timeout": "300ms"}, keyspaces={
        "item": {"wait": "250ms", "error": "50ms"}, "text": {"wait": "250ms"}, "blob": {"wait": "250ms"},
        "sized": {"wait": "250ms"}}).start()
    client = segard.client()
    with origin.gate("item") as gate:
        reply = attempt(client, "item:1", wait_ms=30000)
        assert reply.code in ("timeout", "origin_error")
        gate.wait_for(0)
        wait_until(lambda: origin.statements() == 0)
    wait_service(client)


def test_a_slow_keyspace_does_not_hold_up_another(origin, make_segard):
    segard = make_segard(origin).start()
    client = segard.client()
    with origin.gate("item") as gate:
        slow = [client.send("get", f"item:{i}", {}) for i in range(1, 5)]
        gate.wait_for(4)
        assert client.get("sized:1")["value"] == b"x"
    for number in slow:
        client.receive(number)


def test_a_role_with_too_few_connections(own_origin, make_segard):
    """The origin grants two connections where the configuration would use eight: slower, never wrong."""
    own_origin.sql("ALTER ROLE segard CONNECTION LIMIT 2")
    segard = make_segard(own_origin, keyspaces={"item": {"error": "10ms"}}).start()
    client = segard.client()

    def all_answered():
        replies = client.call("mget", [f"item:{i}" for i in range(1, 41)], {"wait_ms": 5000})
        for number, reply in enumerate(replies, 1):
            if "error" in reply:
                assert reply["error"].partition(": ")[0] in AWAY, reply
            else:
                assert reply["value"] == f"item {number}".encode()
        return not any("error" in reply for reply in replies)

    wait_until(all_answered, timeout=2 * PATIENCE_S)


def test_a_wrong_database_is_a_clear_error(own_origin, make_segard):
    dsn = own_origin.server.dsn("nowhere", "segard")
    segard = make_segard(dsn).start()
    with pytest.raises(Error) as refused:
        segard.client().get("item:1", wait_ms=5000)
    assert refused.value.code == "unavailable" and "nowhere" in refused.value.text
