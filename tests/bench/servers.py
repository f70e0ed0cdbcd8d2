"""The servers that are compared: throw-away, on Unix sockets in one folder, pinned to one core."""
import os
import pathlib
import sys

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.setdefault("SEGAR_BUILD", str(TREE / "build-release")))
sys.path.insert(0, str(TREE / "tests" / "integration"))

from harness.postgres import Postgres, initdb  # noqa: E402
from harness.process import Process  # noqa: E402
from harness.redis import Redis  # noqa: E402
from harness.segard import Segard  # noqa: E402
from harness.wait import wait_until  # noqa: E402

SERVER_CORE, CLIENT_CORE = 0, 1
VALUE_LENS = (100, 1024, 16384, 204800)
KEY_DIGITS = 10
# What a near hit's reply has besides the value's bytes, for the echo that stands for the limit.
REPLY_HEAD = {100: 88, 1024: 89, 16384: 89, 204800: 91}


def pin(core):
    """What a child does first: runs on that core only."""
    return lambda: os.sched_setaffinity(0, {core % os.cpu_count()})


def prefix_of(value_len):
    """Keys of values so long; the same for all servers."""
    return f"v{value_len}:"


def request_len(value_len, depth):
    """Bytes of segar's request for such a key, as codec.c writes it."""
    key = len(prefix_of(value_len)) + KEY_DIGITS
    return 2 + (3 if depth > 128 else 1) + 5 + (1 if key < 32 else 2) + key


def keyspaces(lens=VALUE_LENS):
    """Values without a table: the key's digits, then x's. Fresh for longer than any run."""
    return {f"v{n}": {"query": f"SELECT rpad($1::text, {n}, 'x') AS value"} for n in lens}


POLICY = {"fresh": "1d", "stale": "1h", "jitter": "0%", "wait": "5m"}


class Origin:
    """A PostgreSQL with nothing in it."""

    def __init__(self, folder):
        initdb(folder / "postgres")
        self.server = Postgres(folder / "postgres")
        self.server.start()
        os.sched_setaffinity(self.server.process.pid, {CLIENT_CORE})

    def dsn(self):
        return self.server.dsn("postgres")

    def stop(self):
        self.server.remove()


class Daemon(Segard):
    """segard itself: no KEYSPACES of the tests', long times, room for everything."""

    def __init__(self, folder, dsn, spaces=None, **sections):
        spaces = spaces or keyspaces()
        super().__init__(folder, dsn, process_limits=pin(SERVER_CORE), **{
            "near": {"memory": "2GiB"},
            "origin": {"concurrency": 4, "budget": "100000/s"},
            "log": {"level": "warning"},
            **sections,
        })
        import json
        config = json.loads(self.config_path.read_text())
        config["keyspaces"] = [{"name": name, **POLICY, **policy} for name, policy in spaces.items()]
        self.config_path.write_text(json.dumps(config, indent=1))

    @property
    def pid(self):
        return self.process.pid


class Plain:
    """A server that is one command and one socket."""

    def __init__(self, folder, name, command):
        folder.mkdir(parents=True, exist_ok=True)
        self.socket = folder / f"{name}.sock"
        self.process = Process([str(word).replace("SOCKET", str(self.socket)) for word in command],
                               folder / f"{name}.log", limits=pin(SERVER_CORE))
        wait_until(self.socket.exists, what=f"{name} to listen")

    @property
    def pid(self):
        return self.process.pid

    def rss_bytes(self):
        return self.process.rss_bytes()

    def stop(self):
        if self.process.running():
            self.process.kill()


def memcached(folder, megabytes=2048):
    """-t 1: one thread that serves, as the others have."""
    user = ["-u", "root"] if os.geteuid() == 0 else []
    return Plain(folder, "memcached",
                 ["memcached", *user, "-t", "1", "-s", "SOCKET", "-a", "600", "-m", megabytes, "-I", "2m", "-c", "20000"])


def redis(folder):
    return Plain(folder, "redis", ["redis-server", "--port", "0", "--unixsocket", "SOCKET", "--save", "",
                                   "--appendonly", "no", "--daemonize", "no", "--maxclients", "15000"])


def echo(folder, value_len, depth):
    reply = value_len + REPLY_HEAD[value_len]
    return Plain(folder, f"echo-{value_len}-{depth}",
                 [BUILD / "tests" / "bench" / "echo", "SOCKET", request_len(value_len, depth), reply])


def stand_in(folder, megabytes, keyspaces_count=1):
    """The daemon's server, engine and near cache over an origin in its own process (stand_in.c): a million
    values are built in seconds."""
    return Plain(folder, "stand-in",
                 [BUILD / "tests" / "bench" / "stand_in", "SOCKET", megabytes, keyspaces_count])


class Store(Redis):
    """Redis as segard's store."""
