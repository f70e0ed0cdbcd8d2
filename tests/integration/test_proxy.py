"""The relay that other tests break connections with does to them what it says, on both kinds of socket."""
import socket
import threading
import time

import pytest

from harness.proxy import BLACK_HOLE, CUT, DUPLICATE, HALF_CLOSE, PASS, RESET, Delay, Dribble, Proxy
from harness.wait import wait_until


class Echo:
    """Says back what it hears, and "end" when it hears no more."""

    def __init__(self, family, place):
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.bind(place)
        self.listener.listen(8)
        self.heard = b""
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=[client], daemon=True).start()

    def serve(self, client):
        with client:
            try:
                while data := client.recv(65536):
                    self.heard += data
                    client.sendall(data)
                client.sendall(b"end")
            except OSError:
                pass


@pytest.fixture(params=["unix", "tcp"])
def relay(request, workshop, serial):
    unix = request.param == "unix"
    family = socket.AF_UNIX if unix else socket.AF_INET
    echo = Echo(family, str(workshop / f"e{next(serial)}") if unix else ("127.0.0.1", 0))
    proxy = Proxy(workshop / f"x{next(serial)}" if unix else ("127.0.0.1", 0), echo.listener.getsockname())
    proxy.echo = echo
    sockets = []

    def connect():
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(30)
        sock.connect(proxy.address)
        sockets.append(sock)
        return sock

    proxy.connect_to = connect
    yield proxy
    for sock in sockets:
        sock.close()
    proxy.close()
    echo.listener.close()


def read(sock, count):
    data = b""
    while len(data) < count and (piece := sock.recv(count - len(data))):
        data += piece
    return data


def is_over(sock):
    try:
        return sock.recv(100) == b""
    except ConnectionResetError:
        return True


def test_passes_everything_on_and_the_end_too(relay):
    sock = relay.connect_to()
    data = bytes(range(256)) * 4000
    threading.Thread(target=sock.sendall, args=[data], daemon=True).start()
    assert read(sock, len(data)) == data
    sock.shutdown(socket.SHUT_WR)
    assert read(sock, 100) == b"end"
    wait_until(lambda: relay.connections() == 0, what="the pair to be gone")


def test_a_delay_holds_back_and_loses_nothing(relay):
    sock = relay.connect_to()
    relay.down.fault = Delay(0.2)
    begin = time.monotonic()
    sock.sendall(b"one")
    assert read(sock, 3) == b"one" and time.monotonic() - begin >= 0.2


def test_dribbles(relay):
    sock = relay.connect_to()
    relay.up.fault = Dribble(2, 0.02)
    begin = time.monotonic()
    sock.sendall(b"abcdefghij")
    assert read(sock, 10) == b"abcdefghij" and time.monotonic() - begin >= 4 * 0.02


@pytest.mark.parametrize("passing", [0, 1, 5])
@pytest.mark.parametrize("fault", [CUT, RESET])
def test_cuts_between_two_bytes_all_connections_at_once(relay, fault, passing):
    first, second = relay.connect_to(), relay.connect_to()
    second.sendall(b"x")
    assert read(second, 1) == b"x"
    relay.down.script = [(passing, fault)]
    first.sendall(b"abcdefgh")
    assert read_all(first) == b"abcdefgh"[:passing]
    assert is_over(second)
    relay.down.fault = PASS
    third = relay.connect_to()
    third.sendall(b"again")
    assert read(third, 5) == b"again"


def read_all(sock):
    data = b""
    try:
        while piece := sock.recv(100):
            data += piece
    except ConnectionResetError:
        pass
    return data


def test_a_black_hole_takes_what_is_sent_and_keeps_the_connection(relay):
    sock = relay.connect_to()
    relay.up.script = [(2, BLACK_HOLE), (3, PASS)]
    sock.sendall(b"abcdefgh")
    assert read(sock, 5) == b"abfgh"


def test_doubles(relay):
    sock = relay.connect_to()
    relay.down.fault = DUPLICATE
    sock.sendall(b"abc")
    assert read(sock, 6) == b"abcabc"


def test_half_closes_one_way_only(relay):
    sock = relay.connect_to()
    relay.up.script = [(3, HALF_CLOSE)]
    sock.sendall(b"abcdef")
    assert read_all(sock) == b"abcend" and relay.echo.heard == b"abc"


def test_refuses_and_cuts_what_there_is(relay):
    sock = relay.connect_to()
    sock.sendall(b"x")
    assert read(sock, 1) == b"x"
    relay.refusing = True
    assert is_over(relay.connect_to())
    relay.cut_all()
    assert is_over(sock)
    relay.refusing = False
    sock = relay.connect_to()
    sock.sendall(b"y")
    assert read(sock, 1) == b"y"
