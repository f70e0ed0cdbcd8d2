"""A Redis that comes back empty: values return from the near caches, as far as they can be trusted."""
import os
import re
import threading
import time

import pytest

from harness.wait import wait_until
from harness.wire import Error, collect

KEYS = int(os.environ.get("SEGAR_GIVE_BACK_KEYS", "300"))  # of the first test; 10000 take a minute
BUDGET = 400
ALL = [f"item:{i}" for i in range(1, KEYS + 1)]
FEW = ALL[:300]
# What holds up a value's way back on a machine that is busy enough; then it is built.
MISHAPS = re.compile(r"trust_lost|store_trust_breaks|leases_lost|saves_refused|store_error_\w+")


@pytest.fixture
def fleet(origin, make_fleet):
    return make_fleet(origin, 2, origin={"concurrency": 8, "budget": f"{BUDGET}/s"}, near={"trust": "5s"},
                      keyspaces={"item": {"wait": "60s"}})


def get_all(client, keys=ALL, timeout=120):
    return collect([(client, client.send("get", key, {})) for key in keys], timeout=timeout)


def stored(redis):
    """Keys that Redis has an entry of."""
    return len(redis.call("KEYS", "segar:e:*"))


def mishaps(fleet):
    return [{name: count for name, count in daemon.stats().items() if MISHAPS.fullmatch(name)} for daemon in fleet]


class Load:
    """Gets of all keys on every host, again and again; what they were told."""

    def __init__(self, fleet):
        self.over = threading.Event()
        self.told = {}
        self.threads = [threading.Thread(target=self.ask, args=(daemon.client(),)) for daemon in fleet]

    def ask(self, client):
        while not self.over.is_set():
            for reply in get_all(client):
                what = str(reply) if isinstance(reply, Error) else (reply["state"], reply["source"])
                self.told[what] = self.told.get(what, 0) + 1

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()


def test_a_flushed_store_gets_its_values_back_before_the_origin_is_asked(origin, fleet):
    def have_all_near():
        for daemon in fleet:
            get_all(daemon.client())
        return min(fleet.stats("near_entries")) >= KEYS

    wait_until(have_all_near, 120, "all values to be near on every host")
    built = origin.builds("item")
    assert KEYS <= built <= KEYS * 1.01 and stored(fleet.redis) == KEYS
    flushes, before = fleet.sum("store_emptied"), mishaps(fleet)
    with Load(fleet) as load:
        begun = time.monotonic()
        fleet.redis.flush()
        wait_until(lambda: stored(fleet.redis) == KEYS, 240, "the values to be back in the store")
        took = time.monotonic() - begun
    fleet.wait_rest()
    assert fleet.sum("store_emptied") == flushes + len(fleet)
    rebuilt, given = origin.builds("item") - built, fleet.sum("given_back")
    print(f"\n{KEYS} values are back {took:.1f} s after a flush: {given / KEYS:.1%} given back, {rebuilt} built; "
          f"meanwhile gets were told {load.told}")
    assert given > KEYS / 2, "most values return from near caches"
    assert given <= KEYS * 1.01, "each once over the fleet"
    assert {state for state, _ in load.told} <= {"fresh", "stale"}
    assert rebuilt <= KEYS * 1.01 - given, "each that does not, once"
    if mishaps(fleet) == before:
        assert rebuilt <= KEYS * 0.01 and {state for state, _ in load.told} == {"fresh"}
    origin.check_rate(BUDGET)
    # and a host that has nothing of its own finds them
    fleet[1].stop()
    fleet[1].start()
    fleet.wait_in_touch()
    built = origin.builds("item")
    assert {reply["state"] for reply in get_all(fleet[1].client())} == {"fresh"}
    assert origin.builds("item") == built


def test_what_is_given_back_is_what_the_origin_last_said(origin, fleet):
    """Each host has seen another value of some keys; the later one is the one that comes back."""
    first, second = fleet[0].client(), fleet[1].client()
    get_all(first, FEW)
    for number in range(1, 11):
        origin.set_item(number, f"later {number}", 1000000 + number)
    for key in ALL[:10]:
        second.call("refresh", key, {"wait_ms": 60000})
    wait_until(lambda: all(first.get(key)["version"] > 1000000 for key in ALL[:10]), what="the first host to hear of it")
    built = origin.builds("item")
    fleet.redis.flush()
    wait_until(lambda: stored(fleet.redis) >= len(FEW) * 0.99, 60, "the values to be back in the store")
    for client in first, second:
        assert [client.get(key)["value"] for key in ALL[:10]] == [b"later %d" % n for n in range(1, 11)]
    assert origin.builds("item") - built <= len(FEW) * 0.01


def test_nothing_is_given_back_as_fresh_where_trust_was_broken(origin, fleet):
    for daemon in fleet:
        get_all(daemon.client(), FEW)
    built = origin.builds("item")
    fleet.redis.kill()
    wait_until(lambda: not any(fleet.stats("store_up")), what="the store to be missed")
    for number in range(1, len(FEW) + 1):
        if number % 10 == 1:
            origin.set_item(number, f"newer {number}", 1000000)
    fleet.redis.start()
    fleet.wait_in_touch()
    client = fleet[0].client()

    def is_new():
        replies = get_all(client, FEW)
        assert not any(isinstance(reply, Error) for reply in replies)
        # with the store in touch nothing old is called fresh
        return all(reply["state"] == "fresh" for reply in replies) and replies

    replies = wait_until(is_new, 60, "all values to be fresh")
    assert [reply["value"] for reply in replies[::10]] == [b"newer %d" % n for n in range(1, len(FEW) + 1, 10)]
    assert fleet.sum("given_back") == 0
    assert origin.builds("item") - built == len(FEW), "each once over the fleet"
    origin.check_rate(BUDGET)
