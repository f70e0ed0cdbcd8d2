"""The hot keys over a restart: they come back from the shared store, and cost the origin nothing."""
import stat

import pytest

from harness.wait import wait_until
from harness.wire import collect

KEYS = 300
BUDGET = 400
HOT = [f"item:{i}" for i in range(1, KEYS + 1)]


@pytest.fixture
def state(workshop, serial):
    folder = workshop / f"state{next(serial)}"
    folder.mkdir()
    return folder


@pytest.fixture
def make(origin, make_redis, make_segard, state):
    redis = make_redis()

    def make(**changes):
        # of the budget's nine tenths, what is asked for may take half at most
        return make_segard(origin, **{"store": {"url": redis.url}, "state_dir": str(state),
                                      "origin": {"budget": f"{BUDGET}/s", "concurrency": 8},
                                      "near": {"hot_refresh": "1000/s"}, **changes})

    make.redis = redis
    return make


def round_of_gets(segard):
    """Where the answers came from."""
    client = segard.client()
    replies = collect([(client, client.send("get", key, {"wait_ms": 60000})) for key in HOT], timeout=90)
    sources = [reply["source"] for reply in replies]
    return {source: sources.count(source) for source in ("near", "store", "origin")}


def grow_hot(segard):
    """Until nearly all are known to be hot."""
    client = segard.client()

    def known():
        for _ in range(10):
            round_of_gets(segard)
        return len(client.call("top", 1000)["hot"]) > 0.95 * KEYS

    wait_until(known, what="the hot keys to be known")


def restart(segard):
    segard.stop()
    segard.start()
    wait_until(lambda: segard.stats()["hot_done"], what="the hot keys to be back")
    return segard.stats()


def test_hot_keys_come_back_from_the_store(origin, make, state, record_property):
    segard = make().start()
    assert segard.stats()["hot_done"] == 1 and segard.stats()["hot_listed"] == 0
    grow_hot(segard)
    built = origin.builds("item")
    assert built == KEYS

    stats = restart(segard)
    assert stat.S_IMODE((state / "hot").stat().st_mode) == 0o600
    assert stats["hot_listed"] > 0.95 * KEYS
    assert stats["hot_found"] == stats["hot_listed"] and stats["hot_built"] == 0
    assert origin.builds("item") == built, "bringing them back is no load for the origin"
    with_list = round_of_gets(segard)
    assert with_list["near"] == stats["hot_listed"] and with_list["origin"] == 0

    segard.stop()
    (state / "hot").unlink()
    segard.start()
    without = round_of_gets(segard)
    assert without["near"] == 0
    print(f"\nfirst gets of {KEYS} keys after a restart, with the list: {with_list}; without: {without}; "
          f"builds: {origin.builds('item') - built}")


def test_what_the_store_has_lost_is_built_after_all_else(origin, make):
    segard = make().start()
    grow_hot(segard)
    segard.stop()
    make.redis.flush()
    built = origin.builds("item")
    segard.start()
    wait_until(lambda: segard.stats()["hot_built"] > 0, what="a hot key to be built")
    # who asks meanwhile is served first
    assert segard.client().get("text:new")["source"] == "origin"
    wait_until(lambda: segard.stats()["hot_done"], what="all of them to be built")
    stats = segard.stats()
    assert stats["hot_built"] == stats["hot_listed"] == origin.builds("item") - built
    account = segard.client().call("stats", "item")
    assert account["refreshes"]["warm.changed"] == stats["hot_built"]
    assert round_of_gets(segard)["near"] == stats["hot_listed"]
    origin.check_rate(BUDGET)


def test_keys_that_do_not_exist_are_not_built_again(origin, make):
    """A flood of made-up keys fills the list; after a restart each would cost the origin a build."""
    segard = make().start()
    client = segard.client()
    absent = [f"item:{900000 + i}" for i in range(20)]

    def known():
        for _ in range(30):
            assert {reply["state"] for reply in collect([(client, client.send("get", key, {})) for key in absent])} == {"absent"}
        client.get("item:1")
        return len(client.call("top", 1000)["hot"]) == len(absent) + 1

    wait_until(known, what="the keys to be known")
    segard.stop()
    make.redis.flush()
    built = origin.builds("item")
    segard.start()
    wait_until(lambda: segard.stats()["hot_done"], what="the hot keys to be back")
    assert segard.stats()["hot_listed"] == 1 and origin.builds("item") == built + 1


def test_it_is_written_while_the_daemon_runs_and_kept_by_one_that_dies_young(make, state):
    segard = make().start()
    grow_hot(segard)
    writes = segard.stats()["hot_writes"]
    wait_until(lambda: segard.stats()["hot_writes"] > writes, what="the list to be written")
    segard.kill()
    segard.start()
    listed = segard.stats()["hot_listed"]
    assert listed > 0.9 * KEYS
    for _ in range(2):
        assert restart(segard)["hot_listed"] == listed, "nothing was asked for, and nothing is forgotten"
    assert {path.name for path in state.iterdir()} == {"hot", "place"}


@pytest.mark.parametrize("content", [b"", b"hello", b"segarhot\0\0\0\1\0\0\0\0" + bytes(8)])
def test_a_file_that_is_none_is_named_and_ignored(make, state, content):
    (state / "hot").write_bytes(content)
    segard = make().start()
    assert segard.stats()["hot_listed"] == 0
    assert f"path={state}/hot" in segard.log() and "hot.file" in segard.log()
    assert segard.client().get("item:1")["state"] == "fresh"


def test_without_a_store_in_touch_it_waits(origin, make):
    segard = make().start()
    grow_hot(segard)
    segard.stop()
    built = origin.builds("item")
    make.redis.pause()
    try:
        segard.start()
        assert segard.stats()["hot_done"] == 0
    finally:
        make.redis.go_on()
    wait_until(lambda: segard.stats()["hot_done"], what="the hot keys to be back")
    assert segard.stats()["hot_found"] > 0.95 * KEYS
    assert origin.builds("item") == built
