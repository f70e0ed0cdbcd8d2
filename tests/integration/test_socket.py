"""The socket's file: taken over when stale, refused when alive, never a successor's; and clean ends."""
import grp
import os
import pathlib
import signal
import socket
import stat

import pytest

from harness.wait import wait_until
from harness.wire import Client, Closed, Error, collect


def alive(path):
    try:
        with Client(path) as client:
            return client.call("ping") == "pong"
    except (OSError, Closed):
        return False


@pytest.fixture
def path(workshop, serial):
    path = workshop / f"k{next(serial)}"
    yield path
    path.unlink(missing_ok=True)


def test_a_second_daemon_refuses_to_start(origin, make_segard, path):
    first = make_segard(origin, socket=path).start()
    second = make_segard(origin, socket=path).spawn()
    assert second.process.wait() == 3
    assert str(path) in second.log()
    second.process = None
    assert first.client().get("item:1")["value"] == b"item 1"


def test_a_second_daemon_refuses_even_if_the_first_is_stopped(origin, make_segard, path):
    first = make_segard(origin, socket=path).start()
    first.process.signal(signal.SIGSTOP)
    second = make_segard(origin, socket=path).spawn()
    try:
        assert second.process.wait() == 3
    finally:
        first.process.signal(signal.SIGCONT)
    second.process = None
    assert alive(path)


def test_the_file_of_a_crashed_daemon_is_taken_over(origin, make_segard, path):
    first = make_segard(origin, socket=path).start()
    first.kill()
    assert path.exists()
    assert make_segard(origin, socket=path).start().client().get("item:1")["value"] == b"item 1"


def test_daemons_that_start_together_leave_one(origin, make_segard, path):
    daemons = [make_segard(origin, socket=path).spawn() for _ in range(6)]
    wait_until(lambda: sum(d.process.running() for d in daemons) == 1 and alive(path))
    for daemon in daemons:
        if not daemon.process.running():
            assert daemon.process.wait() == 3
            daemon.process = None
    assert alive(path)


def test_an_old_daemon_leaves_its_successors_socket_alone(origin, make_segard, path):
    """Its files were taken from it, by hand, so that another could start."""
    old = make_segard(origin, socket=path).start()
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    new = make_segard(origin, socket=path).start()
    old.stop()
    assert path.exists() and alive(path)
    assert new.client().get("item:1")["value"] == b"item 1"


def test_the_file_is_gone_after_a_clean_end(origin, make_segard, path):
    daemon = make_segard(origin, socket=path).start()
    daemon.stop()
    assert not path.exists()


def test_a_file_that_is_no_socket_is_left_alone(origin, make_segard, path):
    path.write_text("precious")
    daemon = make_segard(origin, socket=path).spawn()
    assert daemon.process.wait() in (1, 3)
    daemon.process = None
    assert path.read_text() == "precious"


def test_a_folder_that_is_not_there_is_a_clear_error(origin, make_segard, workshop):
    daemon = make_segard(origin, socket=workshop / "nowhere" / "s").spawn()
    assert daemon.process.wait() == 1
    assert "nowhere" in daemon.log()
    daemon.process = None


@pytest.mark.parametrize("mode", ["0600", "0660", "0666"])
def test_the_socket_has_the_permissions_of_the_configuration(origin, make_segard, mode):
    daemon = make_segard(origin, listen={"mode": mode}).start()
    assert stat.S_IMODE(os.stat(daemon.socket).st_mode) == int(mode, 8)


def test_the_socket_has_the_group_of_the_configuration(origin, make_segard):
    group = grp.getgrgid(max(os.getgroups(), default=os.getgid())).gr_name
    daemon = make_segard(origin, listen={"group": group}).start()
    assert grp.getgrgid(os.stat(daemon.socket).st_gid).gr_name == group


# clean ends


def test_sigterm_lets_waiting_requests_finish(origin, make_segard):
    daemon = make_segard(origin).start()
    client = daemon.client()
    with origin.gate("item") as gate:
        waiting = client.send("get", "item:1", {})
        gate.wait_for(1)
        daemon.process.signal(signal.SIGTERM)
        wait_until(lambda: not alive(daemon.socket))
        gate.open()
        try:
            assert client.receive(waiting)["value"] == b"item 1"
        except Error as error:
            assert error.code == "unavailable"
    assert daemon.process.wait() == 0


def test_sigterm_ends_within_a_bound_whatever_hangs(origin, make_segard):
    daemon = make_segard(origin, origin={"build_timeout": "5m"}).start()
    clients = daemon.connections(20)
    with origin.gate("item") as gate:
        for client in clients:
            client.send("get", "item:1", {"wait_ms": 300000})
        gate.wait_for(1)
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.wait() == 0
        wait_until(lambda: origin.statements() == 0)


def test_sigterm_ends_it_with_the_origin_stopped(own_origin, make_segard):
    daemon = make_segard(own_origin).start()
    client = daemon.client()
    client.get("item:1")
    own_origin.server.pause()
    try:
        client.send("get", "item:2", {"wait_ms": 300000})
        daemon.wait_stats(waiters=1)
        daemon.process.signal(signal.SIGTERM)
        assert daemon.process.wait() == 0
    finally:
        own_origin.server.resume()


def test_sigterm_ends_it_under_load(origin, make_segard):
    daemon = make_segard(origin).start()
    clients = daemon.connections(50)
    for client in clients:
        for number in range(1, 101):
            client.send("get", f"item:{number}", {})
    daemon.process.signal(signal.SIGTERM)
    assert daemon.process.wait() == 0


def test_sigint_ends_it_too(origin, make_segard):
    daemon = make_segard(origin).start()
    daemon.process.signal(signal.SIGINT)
    assert daemon.process.wait() == 0


def test_a_deleted_socket_is_made_anew(origin, make_segard, path):
    daemon = make_segard(origin, socket=path, listen={"mode": "0622"}).start()
    client = daemon.client()
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    wait_until(path.exists, what="the socket's file")
    wait_until(lambda: alive(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o622
    assert client.get("item:1") and daemon.client().get("item:1")["source"] == "near"
    assert "event=listen.rebound" in daemon.log()
    other = make_segard(origin, socket=path).spawn()
    assert other.process.wait() == 3, "the path is locked again"
    other.process = None


def test_another_file_at_the_path_is_told_and_left_alone(origin, make_segard, path):
    daemon = make_segard(origin, socket=path).start()
    path.unlink()
    path.write_text("mine")
    wait_until(lambda: "event=listen.lost" in daemon.log())
    daemon.stop()
    assert path.read_text() == "mine"


def test_requests_are_answered_at_sigterm_while_the_origin_hangs(own_origin, make_segard):
    daemon = make_segard(own_origin).start()
    clients = daemon.connections(20)
    clients[0].get("item:1")
    own_origin.server.pause()
    try:
        waiting = [(client, client.send("get", f"item:{i}", {"wait_ms": 300000}))
                   for i, client in enumerate(clients, 2)]
        daemon.wait_stats(waiters=len(clients))
        daemon.process.signal(signal.SIGTERM)
        for outcome in collect(waiting):
            assert isinstance(outcome, Error) and outcome.code == "unavailable"
            assert "stopping" in outcome.text
        assert daemon.process.wait() == 0
    finally:
        own_origin.server.resume()


def test_it_starts_with_its_standard_files_closed(origin, make_segard):
    """What it opens first must not be written to as if it were its terminal."""

    def close_them():
        for file in (0, 1, 2):
            os.close(file)

    daemon = make_segard(origin, process_limits=close_them).start()
    for file in (0, 1, 2):
        assert os.readlink(f"/proc/{daemon.process.pid}/fd/{file}") == "/dev/null"
    client = daemon.client()
    assert client.get("item:1")["value"] == b"item 1"
    with pytest.raises(Error):
        client.get("nosuch:1")
    assert client.get("item:2")["value"] == b"item 2"


def test_a_reader_that_vanished_ends_nothing(segard):
    """Writing to a closed connection must not be the end by SIGPIPE."""
    for _ in range(20):
        client = Client(segard.socket)
        for _ in range(20):
            client.send("get", "sized:1000000", {})
        client.close()
    assert segard.client().get("item:1")["value"] == b"item 1"
    segard.wait_stats(flights=0, waiters=0)


def test_nothing_is_left_open_for_children_or_logs(segard):
    """What the daemon has open is its own: its log, its sockets, its pool."""
    targets = [os.readlink(f"/proc/{segard.process.pid}/fd/{name}")
               for name in os.listdir(f"/proc/{segard.process.pid}/fd")]
    files = [t for t in targets if t.startswith("/") and not t.startswith("/dev/")]
    assert {pathlib.Path(f).name for f in files} <= {"log", "lock", "s", "s.lock", "segard.yaml"}, files


def test_the_socket_is_a_stream_that_half_closes(segard):
    """A client that has said all it will still gets its answers."""
    client = segard.client()
    number = client.send("get", "item:1", {})
    client.socket.shutdown(socket.SHUT_WR)
    assert client.receive(number)["value"] == b"item 1"
    client.wait_closed()
