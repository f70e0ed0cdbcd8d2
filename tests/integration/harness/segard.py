"""The daemon under test, its configuration, and what it must leave behind: nothing."""
import json
import os
import pathlib
import signal

from .process import Process
from .wait import PATIENCE_S, wait_until
from .wire import Client, Closed

BUILD = pathlib.Path(os.environ.get(
    "SEGAR_BUILD", pathlib.Path(__file__).resolve().parent.parent.parent.parent / "build"))
PROGRAM = BUILD / "daemon" / "segard"
SEGARCTL = BUILD / "client" / "segarctl"
# Such a build takes memory of its own, and keeps what is freed.
SANITIZED = PROGRAM.exists() and b"__asan_init" in PROGRAM.read_bytes()

# The keyspaces of origin.sql. Long times: a test that wants them to pass says shorter ones.
KEYSPACES = {
    "item": {"query": "SELECT value, version FROM item($1)", "single_row": True},
    "text": {"query": "SELECT value FROM text_of($1)"},
    "blob": {"query": "SELECT value FROM blob($1)"},
    "sized": {"query": "SELECT value FROM sized($1)"},
}
POLICY = {"fresh": "10m", "stale": "30s", "jitter": "0%", "negative": "10m", "error": "10m", "wait": "30s"}


def merged(base, changes):
    """`base` with the tables in `changes` merged into it, all the way down."""
    result = dict(base)
    for name, value in changes.items():
        both = isinstance(value, dict) and isinstance(result.get(name), dict)
        result[name] = merged(result[name], value) if both else value
    return result


def make_config(socket, dsn, keyspaces=None, **sections):
    """A configuration: the keyspaces {name: policy} of a test over the defaults above."""
    keyspaces = merged(KEYSPACES, keyspaces or {})
    config = {
        "listen": {"socket": str(socket), "mode": "0666"},
        "store": {"url": "none"},
        "origin": {"dsn": dsn, "concurrency": 8, "budget": "1000/s", "fleet": 1, "build_timeout": "20s"},
        "log": {"level": "debug"},
        "keyspaces": [{"name": name, **POLICY, **policy} for name, policy in keyspaces.items()],
    }
    return merged(config, sections)


def sanitizer_environment(folder):
    """Reports go to files, so that a test finds them whatever became of the daemon's output."""
    environment = dict(os.environ)
    environment["ASAN_OPTIONS"] = f"abort_on_error=1:detect_leaks=1:log_path={folder}/sanitizer"
    environment["UBSAN_OPTIONS"] = f"abort_on_error=1:print_stacktrace=1:log_path={folder}/sanitizer"
    environment["LSAN_OPTIONS"] = f"log_path={folder}/sanitizer"
    return environment


class Segard:
    """One daemon, in a folder of its own: socket, configuration, log."""

    def __init__(self, folder, dsn, process_limits=None, socket=None, environment=None, **config):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = socket or folder / "s"
        self.config_path = folder / "segard.yaml"
        self.process_limits = process_limits
        self.environment = environment or {}
        self.process = None
        self.clients = []
        # JSON is YAML
        self.config_path.write_text(json.dumps(make_config(self.socket, dsn, **config), indent=1))

    # life

    def spawn(self):
        """Starts the program without waiting for it to serve."""
        self.process = Process([PROGRAM, "--config", self.config_path], self.folder / "log",
                               env={**sanitizer_environment(self.folder), **self.environment},
                               limits=self.process_limits)
        return self

    def start(self):
        self.spawn()
        wait_until(self.answers, what="segard to answer")
        self.at_rest = self.stats()
        return self

    def answers(self):
        assert self.process.running(), f"segard ended with {self.process.wait()}:\n{self.log()}"
        try:
            with Client(self.socket) as client:
                return client.call("ping") == "pong"
        except (FileNotFoundError, ConnectionRefusedError, Closed):
            return False

    def stop(self):
        """Ends it as its service manager would; whatever it does wrong on the way out fails the test."""
        for client in self.clients:
            client.close()
        if not self.process:
            return
        if self.process.running():
            self.process.signal(signal.SIGCONT)
            self.process.signal(signal.SIGTERM)
            try:
                code = self.process.wait(PATIENCE_S)
            except Exception:
                self.process.signal(signal.SIGABRT)
                self.process.kill()
                raise AssertionError(f"segard does not end on SIGTERM:\n{self.log()[-4000:]}") from None
        else:
            code = self.process.wait()
        self.check_reports()
        assert code == 0, f"segard ended with {code}:\n{self.log()[-4000:]}"

    def kill(self):
        """As a crash would."""
        self.process.kill()
        self.check_reports()
        self.process = None

    def check_reports(self):
        reports = [path.read_text(errors="replace") for path in self.folder.glob("sanitizer*")]
        assert not reports, "\n".join(reports)
        log = self.log()
        for word in ("Sanitizer", "runtime error:", "check failed"):
            assert word not in log, log[-8000:]

    # talk

    def client(self):
        """A connection that ends with the test."""
        client = Client(self.socket)
        self.clients.append(client)
        return client

    def connections(self, count):
        return [self.client() for _ in range(count)]

    def stats(self):
        with Client(self.socket) as client:
            return client.stats()

    def log(self):
        return self.process.output() if self.process else ""

    def wait_stats(self, timeout=None, **wanted):
        """Waits until these counters of `stats` have these values."""

        def arrived():
            stats = self.stats()
            return all(stats[name] == value for name, value in wanted.items())

        try:
            wait_until(arrived, timeout)
        except AssertionError:
            raise AssertionError(f"stats are {self.stats()}, not {wanted}") from None

    def wait_rest(self):
        """Waits until nothing goes on: all counters of work in progress are what they were at the start."""
        names = ("flights", "waiters", "leases", "permits", "queued", "connections", "requests")
        self.wait_stats(**{name: self.at_rest[name] for name in names})
