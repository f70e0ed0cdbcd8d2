#!/usr/bin/python3
"""The tour of scripts/quickstart: everything lives in one temporary folder, removed at the end."""
import argparse
import json
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "integration"))
from harness.postgres import BIN, Postgres, initdb  # noqa: E402
from harness.process import Process  # noqa: E402
from harness.redis import Redis  # noqa: E402
from harness.wait import pause, wait_until  # noqa: E402
from harness.wire import Client, collect  # noqa: E402

PRODUCTS = 100_000
HERD = 1_000
BUILD_MS = 800
HOSTS = ("a", "b")  # a daemon each, as if on two machines
HOT_S = 3

SHOP = f"""
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price_cents int NOT NULL);
INSERT INTO products SELECT i, 'Product ' || i, 100 + i % 9900 FROM generate_series(1, {PRODUCTS}) i;
SELECT segar.track('products', 'product:{{id}}');

-- What makes it slow to read: stands for the joins and sums of a real application.
CREATE FUNCTION product_page(product_id int) RETURNS TABLE (value jsonb, version bigint)
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM pg_sleep({BUILD_MS} / 1000.0);
	RETURN QUERY SELECT to_jsonb(p), p.row_version FROM products p WHERE p.id = product_id;
END
$$;

CREATE EXTENSION pg_stat_statements;
CREATE ROLE segard LOGIN;
GRANT SELECT ON products TO segard;
"""


class Tour:
    def __init__(self, folder):
        self.folder = folder
        self.build = folder / "build"
        self.sockets = [folder / f"segard-{name}.sock" for name in HOSTS]
        self.socket = self.sockets[0]
        self.building = None
        self.postgres = None
        self.redis = None
        self.segards = []

    def build_segar(self):
        with step("Building segar"):
            for command in (["meson", "setup", self.build, ROOT, "-Dbuildtype=release", "-Dtests=disabled"],
                            ["ninja", "-C", self.build]):
                self.building = Process(command, self.folder / "build.log")
                if self.building.wait(timeout=600):
                    sys.exit(f"\n{self.building.output()}\nThe build failed; its messages are above.")

    def start_postgres(self):
        with step(f"Starting a throw-away PostgreSQL: {PRODUCTS:,} products, {BUILD_MS} ms to read one"):
            server = self.folder / "postgres"
            initdb(server)
            self.postgres = Postgres(server)
            self.postgres.start()
            self.postgres.sql("CREATE DATABASE shop")
            self.postgres.psql("-f", ROOT / "sql" / "install.sql", dbname="shop")
            self.postgres.psql("-1", dbname="shop", stdin=SHOP)

    def start_redis(self):
        with step("Starting a throw-away Redis, which the daemons share"):
            self.redis = Redis(self.folder / "redis")
            self.redis.start()

    def start_segards(self):
        with step(f"Starting {len(HOSTS)} daemons, as if on {len(HOSTS)} hosts"):
            for name, socket in zip(HOSTS, self.sockets):
                (self.folder / f"segard-{name}.yaml").write_text(f"""\
listen: {{ socket: {socket}, mode: "0666" }}
store:  {{ url: "{self.redis.url}" }}
origin: {{ dsn: {json.dumps(self.postgres.dsn("shop", "segard"))}, concurrency: 40, budget: 200/s, fleet: {len(HOSTS)} }}
keyspaces:
  - name: product
    query: SELECT value, version FROM product_page($1)
    single_row: true
    fresh: 10m
    stale: 30s
    wait: 8s
""")
                self.segards.append(self.start_segard(name))
            wait_until(lambda: all(map(self.segard_answers, self.segards, self.sockets)), what="the daemons to answer")

    def start_segard(self, name):
        return Process([self.build / "daemon" / "segard", "--config", self.folder / f"segard-{name}.yaml"],
                       self.folder / f"segard-{name}.log")

    def segard_answers(self, segard, socket):
        if not segard.running():
            sys.exit(f"\n{segard.output()}\nsegard ended; its messages are above.")
        try:
            with Client(socket) as client:
                return client.call("ping") == "pong"
        except OSError:
            return False

    def builds(self):
        """How often the daemon's query ran, by PostgreSQL's own statistics."""
        ((calls,),) = self.postgres.sql("""
            SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements
            WHERE query LIKE '%product_page($1)%' AND userid = 'segard'::regrole""", dbname="shop")
        return calls

    def cold_herd(self):
        say(f"A cold herd: {HERD:,} clients on both hosts ask for product 42 at once, and nobody has it yet")
        clients = [TimedClient(self.sockets[i % len(HOSTS)]) for i in range(HERD)]
        before = self.builds()
        requests = [(client, client.timed_send("get", "product:42", {})) for client in clients]
        replies = collect(requests)
        wait_until(lambda: self.builds() > before, what="PostgreSQL to count")
        builds = self.builds() - before
        times = sorted(client.arrived_at - client.sent_at for client in clients)
        values = {reply["value"] for reply in replies}
        for client in clients:
            client.close()
        fact("answers", f"{len(replies):,}, {'all equal' if len(values) == 1 else 'NOT ALL EQUAL'}")
        fact("builds", f"{builds}, as PostgreSQL counted them; without segard it would have been {HERD:,}")
        fact("answered after", ", ".join(f"{name} {1000 * times[int(share * (HERD - 1))]:.0f} ms" for name, share in
                                         (("p50", 0.5), ("p99", 0.99), ("the last one", 1))))
        return len(replies) == HERD and len(values) == 1 and builds == 1

    def hot_reads(self):
        say(f"Hot reads: the same key again and again, for {HOT_S} s")
        before = self.builds()
        bench = subprocess.run([self.build / "client" / "segarctl", "-s", self.socket, "bench", "product:42",
                                "--seconds", str(HOT_S)], capture_output=True, text=True)
        for line in (bench.stdout + bench.stderr).strip().splitlines():
            print(f"     {line}")
        fact("builds", f"{self.builds() - before} more")
        return bench.returncode == 0

    def update(self):
        say("An UPDATE in PostgreSQL, then a refresh")
        with Client(self.socket) as client:

            def show(when):
                reply = client.get("product:42")
                price = json.loads(reply["value"])["price_cents"]
                fact(when, f"version {reply['version']}, price {price / 100:.2f}, from {reply['source']}")
                return reply["version"], price

            old = show("before")
            self.postgres.sql("UPDATE products SET price_cents = 4242 WHERE id = 42", dbname="shop")
            show("updated")
            client.refresh("product:42", wait_ms=5000)
            new = show("refreshed")
        return new[0] > old[0] and new[1] == 4242

    def takeover(self):
        say(f"A builder that dies: host {HOSTS[0]} is building product 7 when it is killed; host {HOSTS[1]} waits for it")
        before = self.builds()
        with Client(self.sockets[0]) as builder, TimedClient(self.sockets[1]) as waiter:
            builder.send("get", "product:7", {})
            wait_until(lambda: self.is_building(), what="the build to begin")
            request = waiter.timed_send("get", "product:7", {})
            wait_until(lambda: waiter.call("stats")["waiters"] == 1, what="the other host to wait")
            self.segards[0].kill()
            (reply,) = collect([(waiter, request)])
            fact("answered", f"product 7, {reply['state']}, after {waiter.arrived_at - waiter.sent_at:.1f} s: when the "
                 "dead one's lease had lapsed")
        wait_until(lambda: self.builds() > before, what="PostgreSQL to count")
        fact("builds", f"{self.builds() - before} came to an end, as PostgreSQL counted them; the dead one's is lost")
        self.segards[0] = self.start_segard(HOSTS[0])
        wait_until(lambda: self.segard_answers(self.segards[0], self.sockets[0]), what="the killed daemon to be back")
        return reply["state"] == "fresh"

    def is_building(self):
        """Whether PostgreSQL runs the query for anyone: nothing else is asked for here."""
        ((running,),) = self.postgres.sql("""
            SELECT count(*) FROM pg_stat_activity
            WHERE state = 'active' AND usename = 'segard' AND query LIKE 'WITH segar_g%'""", dbname="shop")
        return running == 1

    def play_on(self):
        ctl = f"{self.build}/client/segarctl -s {self.socket}"
        psql = shlex.join(map(str, [BIN / "psql", "-U", "postgres", "-h", self.postgres.folder, "shop"]))
        print(f"""
To play on, in another terminal:
  {ctl} get product:7
  {ctl} refresh product:7
  {ctl} inspect product:7
  {ctl} stats
  {ctl} bench product:7
  {psql}
  less {self.folder}/segard-{HOSTS[0]}.yaml""")

    def end(self):
        """Ends and removes all of it. False if segard did not end well."""
        ended_well = all([self.end_segard(segard) for segard in self.segards])
        if self.redis:
            self.redis.remove()
        if self.postgres:
            self.postgres.remove()
        if self.building:
            self.building.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
        return ended_well

    @staticmethod
    def end_segard(segard):
        segard.signal(signal.SIGTERM)
        try:
            code = segard.wait()
        except subprocess.TimeoutExpired:
            segard.kill()
            code = "no end at all"
        if code:
            print(f"\n{segard.output()}\nsegard ended with {code}; its messages are above.")
        return code == 0


class TimedClient(Client):
    """Notes when it asked and when something last came back."""

    def timed_send(self, method, *params):
        self.sent_at = time.monotonic()
        return self.send(method, *params)

    def read(self, timeout):
        super().read(timeout)
        self.arrived_at = time.monotonic()


def say(text):
    print(f"\n== {text}", flush=True)


def fact(name, text):
    print(f"     {name + ':':<15} {text}", flush=True)


class step:
    """Says what begins, and how long it took."""

    def __init__(self, text):
        self.text = text

    def __enter__(self):
        print(f"== {self.text} …", end="", flush=True)
        self.begin = time.monotonic()

    def __exit__(self, kind, *_):
        if kind is None:
            print(f" {time.monotonic() - self.begin:.1f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/quickstart", description="Shows segar at work.")
    parser.add_argument("--stay", action="store_true", help="keep it running to play on, until Ctrl-C")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    folder = pathlib.Path(tempfile.mkdtemp(prefix="segar-quickstart-"))
    folder.chmod(0o755)
    print(f"All of this lives in {folder}, which is removed at the end.\n")
    tour = Tour(folder)
    code = None
    try:
        tour.build_segar()
        tour.start_postgres()
        tour.start_redis()
        tour.start_segards()
        code = 0 if all([tour.cold_herd(), tour.hot_reads(), tour.update(), tour.takeover()]) else 1
        if arguments.stay:
            tour.play_on()
            print("\nRunning until Ctrl-C.", flush=True)
            while all(segard.running() for segard in tour.segards):
                pause(1)
        else:
            print("\nscripts/quickstart --stay keeps it running, and says with which commands to play on.")
    except KeyboardInterrupt:
        print("\nEnding.", flush=True)
        code = 130 if code is None else code
    finally:
        # a second Ctrl-C must not leave half of it behind
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        ended_well = tour.end()
    return code if ended_well else 1


if __name__ == "__main__":
    sys.exit(main())
