"""A small client for segard's wire, from its description alone: MessagePack-RPC over a Unix socket."""
import itertools
import select
import socket
import time

import msgpack

from .wait import PATIENCE_S

REQUEST, REPLY, NOTIFICATION = 0, 1, 2


class Error(Exception):
    """An error reply: "code: text", and perhaps " retry_after_ms=N"."""

    def __init__(self, payload):
        assert isinstance(payload, list) and len(payload) == 2 and payload[0] == 0, payload
        self.message = payload[1]
        self.code, separator, self.text = self.message.partition(": ")
        assert separator, f"an error without a code: {self.message!r}"
        self.text, separator, milliseconds = self.text.partition(" retry_after_ms=")
        self.retry_after_ms = int(milliseconds) if separator else None
        super().__init__(self.message)


class Closed(Exception):
    """The daemon closed the connection."""


class Client:
    """One connection. Requests may overlap: `send` gives an id, `receive` waits for its reply."""

    def __init__(self, path, timeout=None, connected=None):
        """`connected`: a socket that is, in place of a path."""
        self.timeout = timeout or PATIENCE_S
        self.socket = connected or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(self.timeout)
        try:
            if not connected:
                self.socket.connect(str(path))
        except BaseException:
            self.socket.close()
            raise
        self.unpacker = msgpack.Unpacker(raw=False, max_buffer_size=256 << 20)
        self.ids = itertools.count(1)
        self.replies = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    # requests

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, method, *params):
        number = next(self.ids)
        self.send_raw(request(number, method, *params))
        return number

    def receive(self, number, timeout=None):
        """The result of the request `number`; raises Error if it is one."""
        deadline = time.monotonic() + (timeout or self.timeout)
        while number not in self.replies:
            self.read(deadline - time.monotonic())
        error, result = self.replies.pop(number)
        if error is not None:
            raise Error(error)
        return result

    def call(self, method, *params, timeout=None):
        return self.receive(self.send(method, *params), timeout)

    def get(self, key, timeout=None, **options):
        return self.call("get", key, options, timeout=timeout)

    def refresh(self, key, timeout=None, **options):
        return self.call("refresh", key, options, timeout=timeout)

    def stats(self):
        return self.call("stats")

    # replies

    def read(self, timeout):
        """Takes in what has arrived, waiting for it at most `timeout` seconds."""
        self.socket.settimeout(max(timeout, 0.001))
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            raise Closed from None
        if not data:
            raise Closed
        self.unpacker.feed(data)
        for message in self.unpacker:
            kind, number, error, result = message
            assert kind == REPLY, message
            assert number not in self.replies, f"two replies to {number}"
            self.replies[number] = (error, result)

    def wait_closed(self, timeout=None):
        """Waits until the daemon closes; what arrives before is dropped unread."""
        self.socket.settimeout(timeout or self.timeout)
        try:
            while self.socket.recv(1 << 20):
                pass
        except ConnectionResetError:
            pass


def request(number, method, *params):
    return msgpack.packb([REQUEST, number, method, list(params)], use_bin_type=True)


def collect(requests, timeout=None):
    """Replies to many requests on many connections: [(client, id)] -> list of results or Errors."""
    deadline = time.monotonic() + (timeout or PATIENCE_S)
    waiting = {}
    for client, number in requests:
        waiting.setdefault(client, set()).add(number)
    poll = select.poll()
    clients = {client.socket.fileno(): client for client in waiting}
    for file in clients:
        poll.register(file, select.POLLIN)

    def finish(client):
        waiting[client] -= client.replies.keys()
        if not waiting[client]:
            del waiting[client]
            poll.unregister(client.socket)

    for client in list(waiting):
        finish(client)
    while waiting:
        left = deadline - time.monotonic()
        assert left > 0, f"{len(waiting)} connections still wait for replies"
        for file, _ in poll.poll(left * 1000):
            clients[file].read(1)
            finish(clients[file])

    def outcome(client, number):
        try:
            return client.receive(number)
        except Error as error:
            return error

    return [outcome(client, number) for client, number in requests]
