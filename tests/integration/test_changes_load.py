"""The change feed under load: TPC-B writes, readers on two hosts, and everything that can fail does."""
import subprocess
import threading

import pytest

from conftest import INSTALL
from harness.postgres import BIN
from harness.wait import wait_until
from harness.wire import Closed, Error

HOT = 40
ACCOUNT = {"account": {
    "query": "SELECT abalance::text AS value, row_version AS version FROM pgbench_accounts WHERE aid = $1::int",
    "single_row": True, "on_change": "refresh", "fresh": "10m", "stale": "5s", "wait": "10s", "error": "100ms"}}
HOT_SCRIPT = f"""\\set aid random(1, {HOT})
\\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
\\sleep 2 ms
"""


@pytest.fixture
def bank(own_origin):
    subprocess.run([BIN / "pgbench", "-i", "-q", "-h", own_origin.server.folder, "-U", "postgres", "origin"],
                   check=True, capture_output=True)
    own_origin.psql("-f", INSTALL)
    own_origin.sql("SELECT segar.track('pgbench_accounts', 'account:{aid}')")
    own_origin.sql("SELECT segar.allow_feed('segard')")
    own_origin.sql("GRANT SELECT ON pgbench_accounts TO segard")
    return own_origin


class Reader(threading.Thread):
    """One connection that reads hot accounts, and what it must never see."""

    def __init__(self, client, done):
        super().__init__()
        self.client, self.done = client, done
        self.broken, self.reads, self.refused = [], 0, 0
        self.versions = {}

    def run(self):
        try:
            while not self.done.is_set():
                for aid in range(1, HOT + 1):
                    self.read(aid)
        except (Closed, BrokenPipeError):
            pass  # the daemon was killed

    def read(self, aid):
        try:
            reply = self.client.get(f"account:{aid}")
        except Error:
            self.refused += 1
            return
        self.reads += 1
        if reply["stale_ms"] > 5000 or reply["age_ms"] > 605000:
            self.broken.append(("old", aid, reply))
        if reply["version"] < self.versions.get(aid, 0):
            self.broken.append(("back", aid, reply, self.versions[aid]))
        self.versions[aid] = reply["version"]


def run_pgbench(bank, folder, seconds):
    script = folder / "hot.sql"
    script.write_text(HOT_SCRIPT)
    return subprocess.Popen([BIN / "pgbench", "-n", "-h", bank.server.folder, "-U", "postgres", "-c", "4", "-T", str(seconds),
                             "-b", "tpcb-like@1", "-f", f"{script}@3", "origin"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def agrees(bank, daemons):
    table = {aid: str(balance).encode() for aid, balance in
             bank.sql("SELECT aid, abalance FROM pgbench_accounts WHERE aid <= %s", HOT)}
    cached = [{aid: daemon.client().get(f"account:{aid}")["value"] for aid in table} for daemon in daemons]
    return all(seen == table for seen in cached)


def reader_of(fleet):
    return next((daemon for daemon in fleet.running() if daemon.stats()["feed_following"]), None)


@pytest.mark.parametrize("trouble", [False, True])
def test_what_is_cached_equals_the_table_once_the_load_stops(bank, make_fleet, workshop, trouble):
    fleet = make_fleet(bank, 2, keyspaces=ACCOUNT, feed={"poll": "100ms"})
    wait_until(lambda: reader_of(fleet))
    done = threading.Event()
    readers = [Reader(daemon.client(), done) for daemon in fleet]
    load = run_pgbench(bank, fleet[0].folder, 12)
    for reader in readers:
        reader.start()
    try:
        wait_until(lambda: all(reader.reads > 2 * HOT for reader in readers))
        if trouble:
            reader_of(fleet).kill()
            wait_until(lambda: reader_of(fleet), what="a takeover")
            fleet.redis.flush()
            for daemon in fleet:
                if not daemon.process:
                    daemon.start()
                    readers.append(Reader(daemon.client(), done))
                    readers[-1].start()
            load.wait()
            bank.server.kill()
            bank.server.start()
            load = run_pgbench(bank, fleet[0].folder, 5)
        load.wait()
        wait_until(lambda: agrees(bank, fleet), what="the caches to equal the table")
    finally:
        done.set()
        load.kill()
        load.communicate()
        for reader in readers:
            reader.join()
    assert not [breach for reader in readers for breach in reader.broken][:5]
    assert agrees(bank, fleet)
