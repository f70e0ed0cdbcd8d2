"""The checker is checked: a recorded run of 3 daemons (recorded.tar.xz) has no breach, and one that is planted is named.

    tests/proof/run.py --short --daemons 3 --rate 150 --only updates --keep FOLDER

records another.
"""
import json
import pathlib
import sys
import tarfile

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402

FRESH, STALE, ABSENT = check.FRESH, check.STALE, check.ABSENT


class Recorded:
    """A copy to be spoiled."""

    def __init__(self, folder):
        with tarfile.open(pathlib.Path(__file__).with_name("recorded.tar.xz")) as file:
            file.extractall(folder)
        self.folder = folder
        self.scene = json.loads((folder / "scene.json").read_text())
        self.replies = np.fromfile(folder / "replies", check.RECORD)
        self.log = (folder / "origin.log").read_text()

    def verdict(self):
        (self.folder / "scene.json").write_text(json.dumps(self.scene))
        self.replies.tofile(self.folder / "replies")
        (self.folder / "origin.log").write_text(self.log)
        return check.judge(self.folder)

    def stream(self, keyspace):
        return self.replies["stream"] == self.scene["streams"].index(keyspace)

    def hot(self, state=FRESH, source=None):
        """Places of the hot key's replies, in the order of their coming."""
        found = self.stream("hot") & (self.replies["state"] == state) & (self.replies["built"] > 0)
        if source is not None:
            found &= self.replies["source"] == source
        places = np.flatnonzero(found)
        assert len(places), "the recorded run has no such reply"
        return places

    def seconds(self, after):
        return self.scene["begin_us"] + int(after * 1e6)

    def build(self, keyspace, key, begin, end, pid):
        for what, at in (("begin", begin), ("end", end)):
            self.log += f"{at // 1000000}.{at // 1000 % 1000:03} [{pid}] shop LOG:  proof {what} {keyspace} {key} {at}\n"


@pytest.fixture
def recorded(tmp_path):
    return Recorded(tmp_path)


def test_the_recorded_run_keeps_all_promises(recorded):
    verdict = recorded.verdict()
    assert verdict.breaches == []
    assert verdict.numbers["builds"] > 10 and verdict.numbers["commits"] > 100
    assert verdict.numbers["states"]["fresh"] > 100 and verdict.numbers["states"]["stale"] > 100


# one breach each: what is done to the run; which promise it breaks


def second_build(run):
    at = run.seconds(5)
    for begin in (at, at + 100000):
        run.build("soft", 9, begin, begin + 50000, 1)
    run.scene["fresh_ms"]["soft"] = 60000


def build_beside_a_build(run):
    for pid in (1, 2):
        run.build("hard", 9, run.seconds(5), run.seconds(6), pid)


def rate(run):
    for number in range(210):
        at = run.seconds(5) + 4000 * number
        run.build("item", 500000 + number, at, at + 1000, 1)


def concurrency(run):
    for number in range(41):
        run.build("item", 500000 + number, run.seconds(5), run.seconds(6), number)


def too_old(run):
    at = run.hot(STALE)[-1]
    run.replies["built"][at] -= 9_000_000
    run.replies["age"][at] += 9000


def fresh_too_long(run):
    at = run.hot(FRESH)[-1]
    run.replies["built"][at] -= 6_900_000
    run.replies["age"][at] += 6900
    run.replies["ttl"][at] = 1


def stale_too_long(run):
    run.replies["stale"][run.hot(STALE)[-1]] = 1001


def younger_than_it_is(run):
    old = run.hot(STALE)
    at = old[np.argmax(run.replies["age"][old])]
    run.replies["age"][at] = 0


def version_down(run):
    at = run.hot(STALE)[-1]
    run.replies["version"][at] = 1


def timeline_down(run):
    places = run.hot(STALE)
    at = places[len(places) // 2]
    run.replies["flags"][at] += 1 << 4


def older_called_fresh(run):
    """On a connection that saw nothing else, long after a newer one was in the store."""
    first, last = run.hot(FRESH)[0], run.hot(STALE)[-1]
    run.replies["version"][last] = run.replies["version"][first]
    run.replies["state"][last], run.replies["reason"][last] = FRESH, 0
    run.replies["stale"][last], run.replies["ttl"][last] = 0, 100
    run.replies["conn"][last] = 60000


def late(run):
    places = run.hot(STALE)
    at = places[np.argmin(run.replies["age"][places])]
    run.replies["took"][at] += 3_200_000


def lost(run):
    run.replies["error"][run.hot()[3]] = check.LOST


def unrecorded(run):
    run.replies = np.delete(run.replies, run.hot()[3])


def twice(run):
    run.replies = np.append(run.replies, run.replies[run.hot()[3]])
    run.replies["flags"][-1] |= check.SECOND
    run.replies["built"][-1] = 0


def hung_up(run):
    run.replies["error"][run.hot()[3]] = check.HUNG_UP


def hung_up_elsewhere(run):
    """Another daemon was down."""
    run.scene["events"].append({"what": "daemon down", "daemon": 77, "at_us": run.seconds(0), "until_us": run.seconds(15)})
    hung_up(run)


def no_reason(run):
    run.replies["reason"][run.hot(STALE)[3]] = 0


def needless_reason(run):
    run.replies["reason"][run.hot()[3]] = 1


def stateless(run):
    run.replies["state"][run.hot()[3]] = 0


def unknown_state(run):
    run.replies["state"][run.hot()[3]] = 255


def absent(run):
    run.replies["state"][run.hot()[3]] = ABSENT


def other_version(run):
    run.replies["flags"][run.hot()[3]] |= check.OTHER_VERSION


def other_key(run):
    run.replies["flags"][run.hot()[3]] |= check.OTHER_KEY


def refused(run):
    at = run.hot()[3]
    run.replies["state"][at], run.replies["error"][at] = 0, 9


def refused_at_the_end(run):
    run.scene["allow"]["errors"]["hot"] = ["origin_error"]
    at = np.flatnonzero(run.stream("hot"))
    at = at[np.argmax(run.replies["due"][at])]
    run.replies["state"][at], run.replies["error"][at] = 0, 9


PLANTED = {
    1: [second_build, build_beside_a_build],
    2: [rate, concurrency],
    3: [too_old, fresh_too_long, stale_too_long, younger_than_it_is],
    4: [version_down, timeline_down, older_called_fresh],
    5: [late, lost, unrecorded, twice, hung_up, hung_up_elsewhere],
    6: [no_reason, needless_reason, stateless, unknown_state, absent, other_version, other_key],
    7: [refused, refused_at_the_end],
}


@pytest.mark.parametrize("promise, plant", [(promise, plant) for promise, plants in PLANTED.items() for plant in plants],
                         ids=lambda value: getattr(value, "__name__", str(value)))
def test_a_planted_breach_is_named(recorded, promise, plant):
    plant(recorded)
    assert recorded.verdict().promises_broken() == {promise}


@pytest.mark.parametrize("excuse, plant", [
    ({"extra": {"soft": 1, "hard": 1}}, second_build),
    ({"extra": {"soft": 1, "hard": 1}}, build_beside_a_build),
    ({"burst": 40}, rate),
], ids=lambda value: getattr(value, "__name__", None))
def test_what_a_scene_excuses_is_none(recorded, excuse, plant):
    recorded.scene["allow"].update(excuse)
    plant(recorded)
    assert recorded.verdict().breaches == []


def test_what_a_killed_daemon_cut_off_is_excused(recorded):
    at = recorded.hot()[3]
    recorded.scene["events"].append({"what": "daemon down", "daemon": int(recorded.replies["daemon"][at]),
                                     "at_us": recorded.seconds(0), "until_us": recorded.seconds(15)})
    hung_up(recorded)
    assert recorded.verdict().breaches == []
