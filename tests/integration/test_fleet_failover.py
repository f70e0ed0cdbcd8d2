"""The origin fails over: versions continue lower than some that were seen, and still the new history counts."""
import pytest

from harness.origin import Origin
from harness.postgres import Postgres, make_template
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


@pytest.fixture
def other(workshop, serial):
    """Another system: not a copy of the template that the others are."""
    server = Postgres(workshop / f"pg{next(serial)}", make_template(workshop / f"cluster{next(serial)}")).start()
    yield Origin(server)
    server.remove()


def test_another_database_comes_in_only_when_the_fleet_builds_from_the_first_no_more(primary, other, make_fleet):
    fleet = make_fleet(primary, 2, origins=[primary, other])
    right, wrong = (daemon.client() for daemon in fleet)

    def stored_version():
        return wrong.call("inspect", "item:1")["store"]["version"]

    other.set_item(1, "elsewhere", 9)
    assert versions([right, wrong]) == [1, 1]
    assert wrong.refresh("item:1")["version"] == 9
    assert fleet[1].stats()["store_saves_foreign"] == 1
    assert stored_version() == 1 and versions([right]) == [1]
    # as if 10 s had passed
    fleet.redis.call("EVAL", "redis.call('SETRANGE', KEYS[1], 16, struct.pack('>d', 0))", "1",
                     "segar:{fleet}:history")
    assert wrong.refresh("item:1")["version"] == 9
    assert stored_version() == 9
    # now it is the first that stays out, and whoever builds from it serves nothing of the other
    primary.set_item(1, "here", 2)
    assert right.refresh("item:1")["version"] == 2
    assert fleet[0].stats()["store_saves_foreign"] == 1
    assert stored_version() == 9
