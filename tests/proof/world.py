"""One fleet on one machine: daemons, Redis, PostgreSQL, a relay before Redis for every second daemon, a writer, and what
each of them wrote down. Nothing here judges: check.py does."""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

TREE = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.setdefault("SEGAR_BUILD", str(TREE / "build")))
sys.path.insert(0, str(TREE / "tests" / "integration"))

from harness.postgres import Database, Postgres, initdb, run  # noqa: E402
from harness.proxy import Proxy  # noqa: E402
from harness.redis import Redis  # noqa: E402
from harness.segard import SANITIZED, Segard  # noqa: E402
from harness.wait import pause, wait_until  # noqa: E402

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
WRONG_CLOCK = 7  # this host's clock is not the others'
BUDGET, CONCURRENCY = 200, 40
BUILD_S, ITEM_S = 0.8, 0.002
WAIT_MS = 3000
CONTROLS_MAX = 40
STREAMS = ("hot", "soft", "hard", "item")


class Size:
    """How large the whole is. Fresh to stale as 10 minutes to 30 s; builds are not shortened."""

    def __init__(self, daemons, rate, short):
        self.daemons = daemons
        self.rate = rate  # requests a second, all in all
        self.fresh_ms = 6000 if short else 20000
        self.stale_ms = 1000
        self.items = 2000 if short else 10000
        self.item_fresh_ms, self.item_stale_ms = 180000, 60000
        self.jitter = 0.1
        self.short = short

    def keyspaces(self):
        row = "SELECT value, version FROM build_row('{0}', $1)"
        common = {"single_row": True, "jitter": "10%", "wait": f"{WAIT_MS}ms", "negative": "5s", "error": "1s"}
        hot = {**common, "fresh": f"{self.fresh_ms}ms", "stale": f"{self.stale_ms}ms"}
        return [
            {"name": "hot", "query": row.format("hot"), "on_change": "refresh", **hot},
            {"name": "soft", "query": row.format("soft"), **hot, "early": 0},
            {"name": "hard", "query": row.format("hard"), **hot, "early": 0, "stale": 0},
            {"name": "item", "query": "SELECT value, version FROM build_item($1)", "on_change": "refresh", **common,
             "fresh": f"{self.item_fresh_ms}ms", "stale": f"{self.item_stale_ms}ms"},
        ]

    def told(self):
        """For the checker."""
        stale = {"hot": self.stale_ms, "soft": self.stale_ms, "hard": 0, "item": self.item_stale_ms}
        return {"budget": BUDGET, "concurrency": CONCURRENCY, "wait_ms": WAIT_MS, "jitter": self.jitter, "trust_ms": 2000,
                "daemons": self.daemons, "rate": self.rate, "items": self.items, "build_ms": BUILD_S * 1000,
                "fresh_ms": {name: self.item_fresh_ms if name == "item" else self.fresh_ms for name in STREAMS},
                "stale_ms": stale}


class Writer:
    """Commits new versions at even distances, and writes down when: (table, id, version, before, after) in µs."""

    def __init__(self, world, rates):
        self.world, self.rates = world, rates
        self.commits, self.ended = [], threading.Event()
        self.threads = [threading.Thread(target=self.write, args=item, daemon=True) for item in rates.items()]
        for thread in self.threads:
            thread.start()

    def write(self, table, rate):
        connection, number, due = None, 0, time.monotonic()
        while not self.ended.wait(max(0, due - time.monotonic())):
            due = max(due + 1 / rate, time.monotonic() - 1)
            number += 1
            row = 1 if table == "rows" else 1 + number * 7919 % self.world.size.items
            before = now_us()
            try:
                connection = connection or self.world.database.connect()
                [(version,)] = run(connection, f"UPDATE {table} SET touched = touched + 1 WHERE id = {row}"
                                               " RETURNING row_version")
                self.commits.append((table, row, version, before, now_us()))
            except Exception:  # of a server that is down, among others; whether it was committed is not known
                self.commits.append((table, row, None, before, now_us()))
                connection = None
                self.ended.wait(0.1)
        if connection:
            connection.close()

    def end(self):
        self.ended.set()
        for thread in self.threads:
            thread.join(20)
        return self.commits


def now_us():
    return time.time_ns() // 1000


class World:
    def __init__(self, folder, size):
        self.folder, self.size = folder, size
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        self.events, self.gone = [], []  # what happened; servers that were failed over from
        self.start_postgres()
        self.start_redis()
        self.start_daemons()

    # the parts

    def start_postgres(self):
        initdb(self.folder / "pg")
        settings = {"max_connections": "700", "log_disconnections": "on", "wal_level": "replica", "max_wal_senders": "4"}
        self.postgres = Postgres(self.folder / "pg", **settings).start()
        self.standby = None
        self.postgres.sql("CREATE DATABASE shop")
        self.database = Database(self.postgres, "shop")
        self.database.psql("-1", "-f", TREE / "tests" / "proof" / "proof.sql")
        self.database.psql("-f", TREE / "sql" / "install.sql")
        for statement in (
                "INSERT INTO rows SELECT generate_series(1, 10)",
                f"INSERT INTO items SELECT generate_series(1, {self.size.items})",
                "SELECT segar.track('rows', 'hot:{id}')",
                "SELECT segar.track('items', 'item:{id}')",
                "SELECT segar.allow_feed('segard')",
                "GRANT SELECT ON ALL TABLES IN SCHEMA public TO segard"):
            self.database.sql(statement)
        self.set_pace()

    def set_pace(self, factor=1):
        for keyspace, seconds in (("hot", BUILD_S), ("soft", BUILD_S), ("hard", BUILD_S), ("item", ITEM_S)):
            self.database.sql("INSERT INTO pace VALUES (%s, %s) ON CONFLICT (keyspace) DO UPDATE SET"
                              " seconds = EXCLUDED.seconds", keyspace, seconds * factor)

    def start_redis(self):
        self.skew = self.folder / "skew"
        self.set_skew(0)
        library = BUILD / "tests" / "store" / "skew.so"
        self.redis = Redis(self.folder / "redis", environment={"LD_PRELOAD": str(library), "SEGAR_SKEW_FILE": str(self.skew)})
        self.redis.start()
        self.relay = Proxy(self.folder / "relay", self.redis.socket)

    def set_skew(self, us):
        """What Redis' clock says beside the host's."""
        with open(self.skew, "r+b" if self.skew.exists() else "w+b") as file:
            file.write(us.to_bytes(8, "little", signed=True) + bytes(8))

    def start_daemons(self):
        self.wrong_time = self.folder / "wrong-time"
        self.wrong_time.write_text("+0")
        self.daemons = [self.make_daemon(host) for host in range(self.size.daemons)]
        for daemon in self.daemons:
            daemon.spawn()
        for daemon in self.daemons:
            wait_until(daemon.answers, what="segard to answer")
        self.wait_in_touch()
        (self.folder / "sockets").write_text("".join(f"{daemon.socket}\n" for daemon in self.daemons))

    def make_daemon(self, host):
        standby = self.folder / "pg2"  # where the standby will be, once there is one
        dsn = f"host='{self.postgres.folder},{standby}' dbname=shop user=segard target_session_attrs=read-write"
        state = self.folder / f"d{host}" / "state"
        state.mkdir(parents=True)
        url = f"unix://{self.relay.address}" if host % 2 else self.redis.url
        daemon = Segard(self.folder / f"d{host}", dsn, environment=self.environment(host),
                        store={"url": url}, log={"level": "info"}, state_dir=str(state), origin={
                            "concurrency": CONCURRENCY, "budget": f"{BUDGET}/s", "fleet": self.size.daemons,
                            "build_timeout": "15s"})
        config = json.loads(daemon.config_path.read_text())
        config["keyspaces"] = self.size.keyspaces()
        daemon.config_path.write_text(json.dumps(config, indent=1))
        return daemon

    def environment(self, host):
        if SANITIZED:  # what is freed is kept a little while only, so that memory that grows shows
            return {"ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:quarantine_size_mb=4:thread_local_quarantine_size_kb=64:"
                                    f"log_path={self.folder / f'd{host}'}/sanitizer"}
        return self.wrong_clock() if host == WRONG_CLOCK else None

    def wrong_clock(self):
        if SANITIZED or not os.path.exists(FAKETIME):
            return None
        return {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(self.wrong_time),
                "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_NO_CACHE": "1"}

    def wait_in_touch(self):
        def are_in_touch():
            stats = [daemon.stats() for daemon in self.daemons]
            return (len({s["store_place"] for s in stats}) == len(stats) and
                    all(s["store_up"] and s["store_trusted"] and not s["store_alone"] for s in stats))

        wait_until(are_in_touch, 60, what="the daemons to be in touch with Redis")

    # what happens

    def event(self, what, **more):
        self.events.append({"at_us": now_us(), "what": what, **more})

    @contextlib.contextmanager
    def span(self, what, **more):
        """Something that lasts as long as the block."""
        begin = now_us()
        try:
            yield
        finally:
            self.events.append({"at_us": begin, "until_us": now_us(), "what": what, **more})

    def client(self, host):
        return self.daemons[host].client()

    # a scene

    @contextlib.contextmanager
    def recording(self, folder, seconds, streams, writes, **told):
        """Load, control and writer run from the block's begin on, for `seconds` at least; then all that they wrote
        down lies in `folder`."""
        folder.mkdir(parents=True)
        self.events = []
        log_begin = {server: len(server.log()) for server in self.servers()}
        control = subprocess.Popen([BUILD / "tests" / "proof" / "control", folder / "control",
                                    str(min(self.size.daemons, CONTROLS_MAX))], stdin=subprocess.PIPE)
        command = [BUILD / "tests" / "proof" / "crowd", "--out", folder / "replies", "--sockets", self.folder / "sockets",
                   "--seconds", str(seconds), "--grace", str(WAIT_MS / 1000 + 3)]
        for i, stream in enumerate(streams):
            command += (["--"] if i else []) + [f"{name}={value}" for name, value in stream.items()]
        begin = now_us()
        crowd = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True)
        writer = Writer(self, writes)
        try:
            yield
        finally:
            out, _ = crowd.communicate(timeout=seconds + 60)
            commits = writer.end()
            control.stdin.close()
            control.wait(10)
        with open(folder / "origin.log", "w") as file:
            for server in self.servers():
                file.write(server.log()[log_begin.get(server, 0):])
        with open(folder / "scene.json", "w") as file:
            json.dump({**self.size.told(), **told, "name": folder.name, "begin_us": begin, "end_us": now_us(),
                       "crowd": json.loads(out), "events": self.events, "commits": commits,
                       "streams": [stream["keyspace"] for stream in streams]}, file)

    def servers(self):
        return [server for server in (*self.gone, self.postgres, self.standby) if server]

    def failed_over(self):
        """From now on the standby is the database."""
        self.postgres, self.standby, old = self.standby, None, self.postgres
        self.database = Database(self.postgres, "shop")
        self.gone.append(old)

    def close(self):
        failures = []
        for daemon in self.daemons:
            try:
                daemon.stop()
            except AssertionError as failure:
                failures.append(str(failure)[-2000:])
        self.relay.close()
        self.redis.stop()
        for server in self.servers():
            server.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
        return failures


def let_pass(seconds):
    """For that long a scene goes on."""
    pause(seconds)
