"""The change feed beside other databases: what is open there, and what arrives from there."""
import contextlib

from harness.origin import Origin
from harness.postgres import run
from harness.wait import wait_until
from test_changes import FOLLOW, reader_of, shows, track, wait_following, write


def test_a_transaction_open_in_another_database_delays_and_loses_nothing(origin, shared_postgres, make_fleet):
    tracked = track(origin)
    fleet = make_fleet(tracked, 2, keyspaces=FOLLOW)
    wait_following(fleet)
    shows(fleet, "item:1", b"item 1")
    with contextlib.closing(shared_postgres.connect(autocommit=False)) as elsewhere:
        run(elsewhere, "SELECT pg_current_xact_id()")
        write(tracked, 1, "two")
        shows(fleet, "item:1", b"two")
        wait_until(lambda: reader_of(fleet).stats()["feed_open_ms"] > 0, what="the open transaction to show as lag")
        # nor where another reads on from what is remembered of it
        reader_of(fleet).kill()
        write(tracked, 1, "three")
        shows(fleet.running(), "item:1", b"three")
        assert fleet.sum("feed_expired") == 0
    wait_until(lambda: reader_of(fleet).stats()["feed_open_ms"] == 0)
    write(tracked, 1, "four")
    shows(fleet.running(), "item:1", b"four")


def test_what_a_subscription_brings_shows_at_once(make_postgres, make_segard):
    """Applied by a worker of the server, which fires triggers that are enabled ALWAYS, and rings."""
    publisher = Origin(make_postgres(wal_level="logical"))
    subscriber = track(Origin(make_postgres()))
    publisher.sql("CREATE PUBLICATION items FOR TABLE items")
    source = publisher.dsn("postgres").replace("'", "''")
    subscriber.sql(f"CREATE SUBSCRIPTION items CONNECTION '{source}' PUBLICATION items WITH (copy_data = false)")
    segard = make_segard(subscriber, keyspaces=FOLLOW, feed={"poll": "1m"}).start()
    wait_following([segard])
    shows([segard], "item:1", b"item 1")
    shows([segard], "item:2", b"item 2")
    publisher.sql("UPDATE items SET value = 'newer' WHERE id = 1")
    shows([segard], "item:1", b"newer")
    publisher.sql("DELETE FROM items WHERE id = 1")
    wait_until(lambda: segard.client().get("item:1")["state"] == "absent", what="the deletion to show")
    publisher.sql("TRUNCATE items")
    wait_until(lambda: segard.client().get("item:2")["state"] == "absent", what="TRUNCATE to show")
