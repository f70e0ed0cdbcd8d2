"""How soon a committed row is served elsewhere."""
import contextlib
import time

import servers
from harness.postgres import run
from harness.wait import wait_until
from part_growth import table

ROWS = 1000
INSTALL = servers.TREE / "sql" / "install.sql"


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))]


def follows(fleet):
    return any(daemon.stats()["feed_following"] for daemon in fleet)


def time_one(connection, readers, row, text):
    """From the commit until each reader had it fresh, in seconds."""
    run(connection, "UPDATE bench_rows SET value = %s WHERE id = %s", text, row)
    committed = time.monotonic()
    waiting, times = set(readers), []
    while waiting:
        for reader in list(waiting):
            reply = reader.get(f"row:{row}")
            if (reply["value"], reply["state"]) == (text.encode(), "fresh"):
                waiting.discard(reader)
                times.append(time.monotonic() - committed)
        if time.monotonic() > committed + 30:
            raise SystemExit(f"bench: the change of row {row} does not show")
    return times


def insert_many(server, fleet, store, count):
    """Rows whose keys nobody has: until they are applied, in seconds; messages; bytes of Redis."""
    def applied():
        return sum(daemon.stats()["store_changes"] for daemon in fleet)

    before, heard, used = applied(), fleet[0].stats()["store_messages"], store.call("INFO", "memory")
    begun = time.monotonic()
    server.sql("INSERT INTO bench_rows SELECT i, 'new' FROM generate_series(%s, %s) i", ROWS + 1, ROWS + count)
    committed = time.monotonic()
    wait_until(lambda: applied() >= before + count, timeout=300, what="the inserts to be applied")
    took = time.monotonic() - committed
    grown = bytes_used(store.call("INFO", "memory")) - bytes_used(used)
    return committed - begun, took, fleet[0].stats()["store_messages"] - heard, grown


def bytes_used(info):
    return int(info.decode().split("used_memory:")[1].split()[0])


def run_changes(folder, origin, options):
    """One writer; two daemons, of which one reads the log. What is timed holds a reader's turn, and the build."""
    count = 20 if options.quick else 1000
    server = origin.server
    server.psql("-f", INSTALL)
    server.sql("CREATE TABLE bench_rows (id bigint PRIMARY KEY, value text, row_version bigint)")
    server.sql("SELECT segar.track('bench_rows', 'row:{id}')")
    server.sql("INSERT INTO bench_rows SELECT i, 'old' FROM generate_series(1, %s) i", ROWS)
    store = servers.Store(folder / "store")
    store.start()
    spaces = {"row": {"query": "SELECT value, row_version AS version FROM bench_rows WHERE id = $1", "single_row": True,
                      "on_change": "refresh"}}
    fleet = [servers.Daemon(folder / str(host), origin.dsn(), spaces, store={"url": store.url}, state_dir=str(folder / str(host)),
                            origin={"concurrency": 8, "budget": "100000/s", "fleet": 2}) for host in range(2)]
    try:
        for daemon in fleet:
            daemon.start()
        wait_until(lambda: follows(fleet), what="the log to be followed")
        readers = [daemon.client() for daemon in fleet]
        times = []
        with contextlib.closing(server.connect()) as connection:
            for n in range(count):
                row = n % ROWS + 1
                for reader in readers:
                    reader.get(f"row:{row}")
                times += time_one(connection, readers, row, f"new {n}")
        inserts = 20000 if options.quick else 1000000
        wrote_s, took_s, messages, grown = insert_many(server, fleet, store, inserts)
    finally:
        for daemon in fleet:
            daemon.stop()
        store.stop()
        server.sql("DROP TABLE bench_rows")
    rows = [(f"{percentile(times, 0.5) * 1000:.1f}", f"{percentile(times, 0.99) * 1000:.1f}", f"{max(times) * 1000:.1f}")]
    return (f"{count:,} changes of one row each, from the commit until either of two hosts served it, fresh:\n\n" +
            table(("p50 ms", "p99 ms", "longest"), rows) +
            f"\n\n{inserts:,} rows inserted by one statement, whose keys nobody has:\n\n" +
            table(("s to insert", "s more until all were applied", "messages", "more bytes in Redis"),
                  [(f"{wrote_s:.1f}", f"{took_s:.1f}", f"{messages:,}", f"{grown:,}")]))
