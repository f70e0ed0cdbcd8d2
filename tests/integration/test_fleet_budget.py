"""Promise 2 over many hosts: the origin's limits hold, by the origin's own log, whatever becomes of Redis."""
import re

import pytest

from harness.origin import Origin
from harness.wait import wait_until
from harness.wire import Error, collect

HOSTS, BUDGET, CONCURRENCY, KEYS = 10, 50, 20, 2000


@pytest.fixture
def logged_origin(make_postgres):
    """An origin whose log has the end of each statement too."""
    return Origin(make_postgres(log_min_duration_statement="0"))


def build_spans(origin):
    """[(begin, end)] of each build in seconds: from its first line in the log to its statement's end."""
    spans, begun = [], {}
    for at, pid, text in re.findall(r"^(\d+\.\d+) \[(\d+)\] origin LOG:  (build |duration: )",
                                    origin.server.log()[origin.log_begin:], re.MULTILINE):
        if text == "build ":
            begun[pid] = float(at)
        elif pid in begun:
            spans.append((begun.pop(pid), float(at)))
    return sorted(spans + [(begin, float("inf")) for begin in begun.values()])


def check_limits(origin):
    check_concurrency(build_spans(origin), CONCURRENCY)
    origin.check_rate(BUDGET)


def check_concurrency(spans, concurrency):
    at_once = running = 0
    for _, step in sorted([(begin, 1) for begin, _ in spans] + [(end, -1) for _, end in spans]):
        running += step
        at_once = max(at_once, running)
    assert at_once <= concurrency, f"{at_once} builds at once"


class Load:
    """Asks for cold keys, never for the same twice, over all hosts at once."""

    def __init__(self, fleet):
        self.clients = [daemon.client() for daemon in fleet]
        self.next = 1

    def send(self, keys=KEYS, wait_ms=4000):
        begin, self.next = self.next, self.next + keys
        return [(client, client.send("get", f"item:{key}", {"wait_ms": wait_ms}))
                for key in range(begin, begin + keys)
                for client in [self.clients[key % len(self.clients)]]]

    @staticmethod
    def check(requests):
        """Everything is answered, or refused with a time to come again. How many were answered."""
        replies = collect(requests, timeout=60)
        for reply in replies:
            if isinstance(reply, Error):
                assert reply.code in ("overloaded", "timeout", "unavailable"), reply
                assert reply.code == "timeout" or reply.retry_after_ms is not None, reply
        return sum(not isinstance(reply, Error) for reply in replies)


@pytest.fixture
def make_ten(logged_origin, make_fleet, make_redis):
    """Half of the hosts reach Redis by a way of their own, which can be closed."""
    redis = make_redis()
    way = redis.folder / "way"
    way.symlink_to(redis.socket)

    def make(delay_s, concurrency, budget):
        logged_origin.behave("item", delay_s=delay_s)
        fleet = make_fleet(logged_origin, HOSTS, redis=redis, urls=[redis.url, f"unix://{way}"] * (HOSTS // 2),
                           origin={"concurrency": concurrency, "budget": f"{budget}/s"})
        fleet.way = way
        return fleet

    return make


def nothing(fleet):
    pass


def kill(fleet):
    fleet.redis.kill()


def pause(fleet):
    fleet.redis.pause()


def flush(fleet):
    fleet.redis.flush()


def cut_half(fleet):
    fleet.way.unlink()
    for kind in "normal", "pubsub":
        fleet.redis.call("CLIENT", "KILL", "TYPE", kind)


def heal(fleet):
    if not fleet.redis.process.running():
        fleet.redis.start()
    fleet.redis.go_on()
    if not fleet.way.is_symlink():
        fleet.way.symlink_to(fleet.redis.socket)


@pytest.mark.parametrize("fault", [nothing, kill, pause, flush, cut_half])
def test_builds_keep_to_the_fleets_budget(logged_origin, make_ten, fault):
    fleet = make_ten(delay_s=0.1, concurrency=CONCURRENCY, budget=BUDGET)
    load = Load(fleet)
    requests = load.send()
    wait_until(lambda: logged_origin.builds("item") > BUDGET, what="the budget to be used")
    fault(fleet)
    answered = load.check(requests)
    assert answered > 0
    # and on, with whatever is left of the store
    assert load.check(load.send()) > 0
    heal(fleet)
    requests = load.send()
    fleet.wait_in_touch()
    load.check(requests)
    assert load.check(load.send(keys=20, wait_ms=20000)) == 20
    fleet.wait_rest()
    check_limits(logged_origin)


@pytest.mark.parametrize("fault", [nothing, kill, flush, cut_half])
def test_builds_keep_to_the_fleets_concurrency(logged_origin, make_ten, fault):
    """Fewer slots than hosts, each of which would have one of its own where Redis is away."""
    concurrency = 6
    fleet = make_ten(delay_s=0.3, concurrency=concurrency, budget=1000)
    load = Load(fleet)
    requests = load.send(keys=200)
    wait_until(lambda: logged_origin.builds("item") > 3 * concurrency, what="the slots to be used again")
    fault(fleet)
    assert load.check(requests) > 0
    heal(fleet)
    fleet.wait_in_touch()
    assert load.check(load.send(keys=20, wait_ms=20000)) == 20
    fleet.wait_rest()
    check_concurrency(build_spans(logged_origin), concurrency)


def test_builds_that_waited_for_connections_do_not_pile_up(origin, make_fleet):
    """A connection takes a second to be made: those that have their permits by then would start at once."""
    origin.behave("item", delay_s=0.1)
    dsn = origin.dsn() + " options='-c post_auth_delay=1'"
    fleet = make_fleet(dsn, 2, origin={"concurrency": CONCURRENCY, "budget": f"{BUDGET}/s"})
    load = Load(fleet)
    assert load.check(load.send(keys=200, wait_ms=30000)) == 200
    assert origin.builds("item") == 200
    assert fleet.sum("retries_late") > 0
    origin.check_rate(BUDGET)
    fleet.wait_rest()
