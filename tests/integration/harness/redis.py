"""A throw-away Redis: a direct child on a Unix socket in a folder of its own, ended by pid."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess

from .process import Process
from .wait import wait_until


class Redis:
    def __init__(self, folder, *settings, environment=None):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "redis.sock"
        self.settings = settings  # more of its configuration, as on its command line: "--maxmemory", "1mb", …
        self.environment = {**os.environ, **(environment or {})}
        self.password = None
        self.process = None

    @property
    def url(self):
        return f"unix://{self.socket}"

    def start(self):
        self.process = Process(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
             "--dir", self.folder, "--daemonize", "no", "--enable-debug-command", "local", *self.settings],
            self.folder / "redis.log", env=self.environment)
        wait_until(self.answers, what="Redis to answer")

    def answers(self):
        try:
            return self.call("PING") == "PONG"
        except (OSError, EOFError):
            return False

    def call(self, *words, timeout=10):
        """One command on a connection of its own, as redis-cli prints its reply; no client library, so that the
        harness shares nothing with what it tests."""
        with self.sending(*words, timeout=timeout) as sock, sock.makefile("rb") as replies:
            return self._reply(replies)

    @contextlib.contextmanager
    def sending(self, *words, timeout=10):
        """The connection, on which the command is sent and its reply not read yet."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(timeout)
            sock.connect(str(self.socket))
            if self.password:
                sock.sendall(self._request("AUTH", self.password))
                with sock.makefile("rb", buffering=0) as replies:
                    assert self._reply(replies) == "OK"
            sock.sendall(self._request(*words))
            yield sock

    @staticmethod
    def _request(*words):
        words = [str(word).encode() for word in words]
        return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

    def _reply(self, replies):
        line = replies.readline()
        if not line.endswith(b"\r\n"):
            raise EOFError("Redis hung up")
        kind, rest = line[:1], line[1:-2].decode(errors="replace")
        if kind in b"+-":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else replies.read(int(rest) + 2)[:-2]
        return [self._reply(replies) for _ in range(int(rest))]

    def flush(self):
        assert self.call("FLUSHALL") == "OK"

    def pause(self):
        self.process.signal(signal.SIGSTOP)

    def go_on(self):
        self.process.signal(signal.SIGCONT)

    def kill(self):
        """As a crash would: what it held is gone."""
        self.process.kill()

    def stop(self):
        if self.process and self.process.running():
            self.process.signal(signal.SIGCONT)
            self.process.signal(signal.SIGTERM)
            try:
                self.process.wait()
            except subprocess.TimeoutExpired:
                self.process.kill()

    def remove(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
