"""The origin fails over: versions continue lower than some that were seen, and still the new history counts."""
import pytest

from harness.origin import Origin
from harness.wait import wait_until


@pytest.fixture
def primary(make_postgres):
    return Origin(make_postgres())


@pytest.fixture
def standby(primary, workshop, serial):
    server = primary.server.make_standby(workshop / f"pg{next(serial)}").start()
    yield Origin(server)
    server.remove()


def promote(standby):
    assert standby.sql("SELECT pg_promote()") == [(True,)]


def versions(clients):
    return [client.get("item:1")["version"] for client in clients]


@pytest.fixture
def hosts(primary, standby, make_fleet):
    """A host that still reaches the old primary, and two of the standby."""
    fleet = make_fleet(primary, 3, origins=[primary, standby, standby])
    return [daemon.client() for daemon in fleet]


def test_a_lower_version_of_a_later_history_replaces_a_higher_one(primary, standby, hosts):
    left_behind, first, second = hosts
    assert versions([first, left_behind, second]) == [1, 1, 1]
    promote(standby)
    # what the standby never heard of
    primary.set_item(1, "lost", 100)
    assert left_behind.refresh("item:1")["version"] == 100
    wait_until(lambda: versions([first, second]) == [100, 100], what="the lost version to get about")
    standby.set_item(1, "found", 2)
    first.refresh("item:1")
    wait_until(lambda: versions(hosts) == [2, 2, 2], what="the later history")
    # the old primary's builds answer who asks for one, and are kept by nobody
    left_behind.refresh("item:1")
    assert versions(hosts) == [2, 2, 2]
    assert left_behind.stats()["older_histories"] >= 1
