#!/usr/bin/python3
"""The verdict on a recorded scene, by DESIGN.md's promises; knows nothing of the daemon but its wire.

    tests/proof/check.py FOLDER…

It reads what the origin logged (each build's begin and end), which versions were committed and when, and every reply that a
client got, and counts for itself. What a scene may excuse stands in its scene.json, as scenes.py says it. Exit code 1 on a
breach. Moments are µs of the wall clock, which all of them share.
"""
import collections
import json
import pathlib
import re
import sys
import xml.etree.ElementTree as xml

import numpy as np

RECORD = np.dtype([
    ("due", "<u8"), ("sent", "<u4"), ("took", "<u4"), ("key", "<u4"), ("conn", "<u4"), ("daemon", "<u2"), ("stream", "u1"),
    ("flags", "u1"), ("state", "u1"), ("reason", "u1"), ("source", "u1"), ("error", "u1"), ("version", "<i8"),
    ("built", "<u8"), ("age", "<u4"), ("ttl", "<u4"), ("stale", "<u4"), ("turn", "<u4")])
assert RECORD.itemsize == 64
STATES = {0: None, 1: "fresh", 2: "stale", 3: "default", 4: "absent"}
REASONS = {0: None, 1: "refreshing", 2: "changed", 3: "timeout", 4: "overloaded", 5: "unavailable", 6: "origin_error"}
SOURCES = {0: None, 1: "near", 2: "store", 3: "origin"}
ERRORS = {0: None, 1: "bad_request", 2: "too_large", 3: "unknown_method", 4: "unknown_keyspace", 5: "denied", 6: "timeout",
          7: "overloaded", 8: "unavailable", 9: "origin_error", 20: "not connected", 21: "hung up", 22: "lost", 23: "broken"}
FRESH, STALE, ABSENT, UNAVAILABLE = 1, 2, 4, 5
NOT_CONNECTED, HUNG_UP, LOST, BROKEN = 20, 21, 22, 23
OTHER_VERSION, OTHER_KEY, SECOND = 1, 2, 4
NIL_VERSION = np.iinfo(np.int64).min
NEGATIVE_MS = 5000  # how long "no such row" is fresh
TIMER_US = 5000     # what the daemon's own timers, of whole ms, may add
CLOCK_US = 100000   # by how much the clocks of hosts may differ, which each tells from Redis' by its best round trip
BUILD_LINE = re.compile(
    r"^(\d+)\.(\d+) \[(\d+)\] \S* ?(LOG|ERROR|FATAL|PANIC):  (proof begin|proof end|disconnection|starting PostgreSQL|)"
    r"(?: (\w+) (\d+) (\d+))?", re.M)

Build = collections.namedtuple("Build", "keyspace key begin end whole")
PROMISES = {1: "one build", 2: "the origin's budget", 3: "bounded age", 4: "no rollback", 5: "bounded waiting",
            6: "explicit degradation", 7: "independence"}


class Run:
    """A recorded scene."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.scene = json.loads((self.folder / "scene.json").read_text())
        self.replies = np.fromfile(self.folder / "replies", RECORD)
        self.beats = np.fromfile(self.folder / "control", "<u8").reshape(-1, 2)
        self.builds = read_builds((self.folder / "origin.log").read_text(errors="replace"), self.scene["end_us"])
        self.allow = self.scene["allow"]
        self.streams = self.scene["streams"]
        # How long a process that was due did not run: of the control's, which have next to nothing to do, and of the
        # crowd's, which is as busy as what it measures.
        self.control_us = int(self.beats[:, 1].max()) if len(self.beats) else 0
        self.noise_us = max(self.control_us, self.scene["crowd"]["turn_max_us"])

    def spans(self, what, daemon=None):
        """[(from, until)] of the events of that name, of that daemon."""
        return [(event["at_us"], event.get("until_us", event["at_us"])) for event in self.scene["events"]
                if event["what"] == what and daemon in (None, event.get("daemon"))]

    def asked(self):
        return self.scene["crowd"]["asked"]

    def of_stream(self, keyspace, replies=None):
        replies = self.replies if replies is None else replies
        return replies[np.isin(replies["stream"], [i for i, name in enumerate(self.streams) if name == keyspace])]


def read_builds(log, end_us):
    """Each build that began, as the server logged it. One that was cut short ends with its error, or with its server."""
    builds, running = [], {}

    def end(pid, at, whole):
        if pid in running:
            keyspace, key, begin = running.pop(pid)
            builds.append(Build(keyspace, key, begin, at, whole))

    for match in BUILD_LINE.finditer(log):
        seconds, fraction, pid, level, what, keyspace, key, at = match.groups()
        logged = int(seconds) * 1_000_000 + int(fraction.ljust(6, "0"))
        if what == "proof begin":
            end(pid, int(at), False)
            running[pid] = (keyspace, int(key), int(at))
        elif what == "proof end":
            end(pid, int(at), True)
        elif what == "starting PostgreSQL":
            for other in list(running):
                end(other, logged, False)
        elif what == "disconnection" or level != "LOG":
            end(pid, logged, False)
    for pid in list(running):
        end(pid, end_us, False)
    return sorted(builds, key=lambda build: build.begin)


class Verdict:
    def __init__(self, run):
        self.name, self.title = run.scene["name"], run.scene.get("title", run.scene["name"])
        self.breaches = []
        self.numbers = {}

    def breach(self, promise, what):
        self.breaches.append(f"promise {promise} ({PROMISES[promise]}): {what}")

    def promises_broken(self):
        return {int(breach.split()[1]) for breach in self.breaches}

    def line(self):
        n = self.numbers
        return (f"{self.name:20} {'BROKEN' if self.breaches else 'kept  '} {n['offered']:7.0f}/s offered, {n['builds']:5} builds,"
                f" at most {n['builds_in_a_second']:3}/s, {n['builds_at_once']:2} at once, {n['extra_builds']:3} beside the one;"
                f" age {n['age_over_ms']:+8.0f} ms of its bound; late by {n['late_ms']:+5.0f} ms (noise {n['noise_ms']:.0f});"
                f" {n['unserved']} unserved")


# ---- promise 1 ----

def count_extra_builds(run, verdict):
    """Builds that no expiry, change or failure called for. A key's build begins a generation; another one before half of
    its fresh time is one too many, unless a change of the row or an invalidation came between, or the build failed."""
    scene, worst = run.scene, 0
    called = collections.defaultdict(list)
    for table, row, _, before, after in scene["commits"]:
        called["hot" if table == "rows" else "item", row].append((before, after))
    for event in scene["events"]:
        if event["what"] == "refresh":
            called[event["keyspace"], event["key"]].append((event["at_us"], event["at_us"]))
    by_key = collections.defaultdict(list)
    for build in run.builds:
        by_key[build.keyspace, build.key].append(build)
    lone = scene["daemons"] if run.allow["alone"] else 0  # each daemon's own
    for (keyspace, key), builds in by_key.items():
        allowed = run.allow["extra"].get(keyspace, 0) + lone
        extra = extra_of_key(scene, keyspace, key, builds, sorted(called[keyspace, key]))
        worst = max(worst, extra)
        if extra > allowed:
            verdict.breach(1, f"{keyspace}:{key} was built {extra} times beside the one of its expiry; {allowed} may be")
    return worst


def extra_of_key(scene, keyspace, key, builds, called):
    """The most extra builds of one generation."""
    fresh_ms = NEGATIVE_MS if keyspace == "item" and key > scene["items"] else scene["fresh_ms"][keyspace]
    half_us = fresh_ms * (1 - scene["jitter"]) / 2 * 1000
    invalidated = [(event["at_us"], event["at_us"] + event.get("spread_ms", 0) * 1000)
                   for event in scene["events"] if event["what"] == "invalidate" and event["keyspace"] == keyspace]
    worst = extra = 0
    generation, last = None, None
    for build in builds:
        since = [change for change in called if change[0] <= build.begin]
        again = [span for span in invalidated if span[0] <= build.begin]
        if generation is None or build.begin >= generation + half_us:
            generation, extra = build.begin, 0
        elif last.end <= build.begin and not last.whole:
            pass  # it failed: this is the next try
        elif since:
            generation, extra = build.begin, 0
        elif again:
            invalidated.remove(again[0])
            generation, extra = build.begin, 0
        else:
            extra += 1
            worst = max(worst, extra)
        # what was committed before it began, it has seen
        called = [change for change in called if change[1] > build.begin]
        last = build
    return worst


# ---- promise 2 ----

def most_in_a_second(begins):
    begins = np.sort(np.asarray(begins, dtype=np.int64))
    if not len(begins):
        return 0
    return int((np.searchsorted(begins, begins + 1_000_000) - np.arange(len(begins))).max())


def most_at_once(builds):
    steps = sorted([(build.begin, 1) for build in builds] + [(build.end, -1) for build in builds])
    most = running = 0
    for _, step in steps:
        running += step
        most = max(most, running)
    return most


def check_budget(run, verdict):
    most, at_once = most_in_a_second([build.begin for build in run.builds]), most_at_once(run.builds)
    budget = run.scene["budget"] + run.allow["burst"]
    if most > budget:
        verdict.breach(2, f"{most} builds began within a second; {budget} may")
    if at_once > run.scene["concurrency"]:
        verdict.breach(2, f"{at_once} builds ran at once; {run.scene['concurrency']} may")
    return most, at_once


# ---- promise 3 ----

def stopped(run, daemon, begin, end):
    """Which of the spans [begin, end] overlap one in which their daemon was stopped, and how long it was."""
    length = np.zeros(len(begin), dtype=np.int64)
    for event in run.scene["events"]:
        if event["what"] == "daemon paused":
            overlap = np.minimum(end, event["until_us"]) - np.maximum(begin, event["at_us"])
            length += np.where((daemon == event["daemon"]) & (overlap > 0), overlap, 0)
    return length


def check_age(run, verdict):
    """How far the oldest value was from its bound, in ms; what was built after it was asked for is nobody's stale value."""
    worst = -np.inf
    for keyspace in set(run.streams):
        fresh_us = run.scene["fresh_ms"][keyspace] * 1000 * (1 + run.scene["jitter"])
        bound_us = fresh_us + run.scene["stale_ms"][keyspace] * 1000
        replies = run.of_stream(keyspace)
        replies = replies[replies["built"] > 0]
        sent, came, built = times(replies)
        old = built < sent
        replies, sent, came, built = replies[old], sent[old], came[old], built[old]
        if not len(replies):
            continue
        pause_us = stopped(run, replies["daemon"], sent, came)
        slack = run.noise_us + replies["turn"] + TIMER_US + pause_us
        over = came - built - bound_us
        worst = max(worst, over.max())
        for what, wrong in (
                (f"{keyspace} was served past its bound of {bound_us / 1000:.0f} ms",
                 (over > slack) | (sent - built > bound_us)),
                (f"{keyspace} was called fresh past {fresh_us / 1000:.0f} ms",
                 (replies["state"] == FRESH) & (replies["ttl"] > 0) & (came - built - fresh_us > slack)),
                (f"{keyspace} was called younger than it is",
                 replies["age"].astype(np.int64) * 1000 + 1000 < sent - built - max(run.noise_us, CLOCK_US)),
                # an invalidated keyspace is stale earlier, but not for a shorter time
                (f"{keyspace} was served stale for longer than {run.scene['stale_ms'][keyspace]} ms",
                 (replies["state"] == STALE) & (replies["stale"] > run.scene["stale_ms"][keyspace]) & (keyspace != "item"))):
            if wrong.any():
                verdict.breach(3, f"{what}, {wrong.sum()} times, first: {show(run, replies[wrong][0])}")
    return worst / 1000


def times(replies):
    due = replies["due"].astype(np.int64)
    return due + replies["sent"], due + replies["took"], replies["built"].astype(np.int64)


def show(run, reply):
    due = int(reply["due"]) - run.scene["begin_us"]
    return (f"{run.streams[reply['stream']]}:{reply['key']} of daemon {reply['daemon']}, due at {due / 1e6:.3f} s, answered after"
            f" {reply['took'] / 1000:.1f} ms: {ERRORS.get(int(reply['error'])) or STATES.get(int(reply['state']))}, reason"
            f" {REASONS.get(int(reply['reason']))}, version {reply['version']}, age {reply['age']} ms, stale {reply['stale']} ms,"
            f" ttl {reply['ttl']} ms, built {(int(reply['due']) - int(reply['built'])) / 1000:.0f} ms before it was due")


# ---- promise 4 ----

def check_rollback(run, verdict):
    """How often a version went down on a connection, or was called fresh after a newer one was in the store."""
    replies = run.replies[(run.replies["built"] > 0) & (run.replies["version"] != NIL_VERSION)]
    timeline = replies["flags"] >> 4
    order = np.lexsort((np.arange(len(replies)), replies["key"], replies["stream"], replies["conn"]))
    one, line = replies[order], timeline[order]
    same = np.ones(max(len(one) - 1, 0), dtype=bool)
    for field in ("conn", "stream", "key"):
        same &= one[field][1:] == one[field][:-1]
    down = same & ((line[1:] < line[:-1]) | (line[1:] == line[:-1]) & (one["version"][1:] < one["version"][:-1]))
    if down.any():
        at = int(np.argmax(down))
        verdict.breach(4, f"a connection saw a version go down, {down.sum()} times, first: {show(run, one[at])}; then"
                          f" {show(run, one[at + 1])}")
    return int(down.sum()) + check_older_fresh(run, verdict, replies, timeline)


def check_older_fresh(run, verdict, replies, timeline):
    sent, came, built = times(replies)
    trust_us = run.scene["trust_ms"] * 1000 + run.noise_us + TIMER_US
    count = 0
    # keys of few replies cannot show it, and there are many of them
    for stream, key in {(int(r["stream"]), int(r["key"])) for r in replies[replies["source"] == 2]}:
        mine = (replies["stream"] == stream) & (replies["key"] == key) if len(run.streams) else None
        if mine.sum() < 10:
            continue
        for line in np.unique(timeline[mine]):
            of_line = np.flatnonzero(mine & (timeline == line))
            stored = of_line[replies["source"][of_line] == 2]
            stored = stored[np.argsort(came[stored], kind="stable")]
            if not len(stored):
                continue
            newest = np.maximum.accumulate(replies["version"][stored])
            # while the store is away a value is fresh by its own times, and the reply says so
            told = (replies["reason"][of_line] == UNAVAILABLE) & run.allow["alone"]
            fresh = of_line[(replies["state"][of_line] == FRESH) & (built[of_line] < sent[of_line]) & ~told]
            known = np.searchsorted(came[stored], sent[fresh] - trust_us) - 1
            older = (known >= 0) & (replies["version"][fresh] < newest[np.maximum(known, 0)])
            if older.any():
                count += int(older.sum())
                verdict.breach(4, f"an older version was called fresh after a newer one was in the store, {older.sum()} times,"
                                  f" first: {show(run, replies[fresh[older]][0])}")
    return count


# ---- promise 5 ----

def check_waiting(run, verdict):
    """The greatest lateness past a deadline, in ms."""
    replies, scene = run.replies, run.scene
    if len(replies) != run.asked() + (replies["flags"] & SECOND > 0).sum():
        verdict.breach(5, f"{run.asked()} requests, and records of {len(replies)}")
    second = replies["flags"] & SECOND > 0
    if second.any():
        verdict.breach(5, f"{second.sum()} replies came to no request that was under way")
    for code in (LOST, BROKEN):
        wrong = replies["error"] == code
        if wrong.any():
            verdict.breach(5, f"{wrong.sum()} requests were {ERRORS[code]}, first: {show(run, replies[wrong][0])}")
    cut = np.isin(replies["error"], (NOT_CONNECTED, HUNG_UP))
    for event in scene["events"]:
        if event["what"] == "daemon down":
            sent = replies["due"].astype(np.int64) + replies["sent"]
            came = replies["due"].astype(np.int64) + replies["took"]
            cut &= ~((replies["daemon"] == event["daemon"]) & (came >= event["at_us"] - run.noise_us) &
                     (sent <= event["until_us"] + run.noise_us + 50000))
    if cut.any():
        verdict.breach(5, f"{cut.sum()} requests were cut off by a daemon that ran, first: {show(run, replies[cut][0])}")
    answered = replies[(replies["error"] < NOT_CONNECTED) & ~(replies["flags"] & SECOND > 0)]
    sent, came, _ = times(answered)
    late = came - sent - scene["wait_ms"] * 1000
    slack = run.noise_us + TIMER_US + answered["turn"] + stopped(run, answered["daemon"], sent, came)
    wrong = late > slack
    if wrong.any():
        verdict.breach(5, f"{wrong.sum()} replies came later than their deadline and the noise of {run.noise_us / 1000:.1f} ms,"
                          f" first: {show(run, answered[wrong][0])}")
    return late.max() / 1000 if len(late) else 0


# ---- promise 6 ----

def check_states(run, verdict):
    replies = run.replies[run.replies["error"] < NOT_CONNECTED]
    error, state, reason = replies["error"] > 0, replies["state"], replies["reason"]
    existing = (np.asarray([name != "item" for name in run.streams])[replies["stream"]] |
                (replies["key"] <= run.scene["items"]))
    for what, wrong in (
            ("a reply has a name that is none of the wire's", (replies["error"] == 255) | (state == 255) | (reason == 255)),
            ("a reply has neither a state nor an error", ~error & (state == 0)),
            ("a reply is not fresh and does not say why", ~error & np.isin(state, (STALE, 3)) & (reason == 0)),
            # while the store is away a value is fresh by its own times, and the reply says so
            ("a fresh reply has a reason not to be",
             ~error & (state == FRESH) & (reason != 0) & ~((reason == UNAVAILABLE) & run.allow["alone"])),
            ("a reply says fresh and stale at once", (state == FRESH) & (replies["stale"] > 0)),
            ("a row was called absent that was there all the time", (state == ABSENT) & existing),
            ("a value of a row that never was", ~error & (state != ABSENT) & ~existing),
            ("a value is not of the version that its reply says", replies["flags"] & OTHER_VERSION > 0),
            ("a value is of another key", replies["flags"] & OTHER_KEY > 0)):
        wrong = wrong & ~(replies["flags"] & SECOND > 0)
        if wrong.any():
            verdict.breach(6, f"{what}, {wrong.sum()} times, first: {show(run, replies[wrong][0])}")


# ---- promise 7, and that the scene had its way ----

def check_served(run, verdict):
    """Nobody is refused but by what the scene is about; in the end all is well again. How many were refused."""
    refused = 0
    end_us = run.scene["crowd"]["begun_us"] + run.scene["crowd"]["seconds"] * 1e6
    for keyspace in set(run.streams):
        replies = run.of_stream(keyspace)
        replies = replies[replies["error"] < NOT_CONNECTED]
        refused += int((replies["error"] > 0).sum())
        allowed = run.allow["errors"].get(keyspace, [])
        wrong = (replies["error"] > 0) & ~np.isin(replies["error"], [code for code, name in ERRORS.items() if name in allowed])
        if wrong.any():
            verdict.breach(7, f"{wrong.sum()} requests of {keyspace} were refused, first: {show(run, replies[wrong][0])}")
        if keyspace != "item":
            last = replies[replies["due"] > end_us - 1e6]
            if not len(last) or (last["error"] > 0).any():
                verdict.breach(7, f"{keyspace} was not served again in the last second:"
                                  f" {(last['error'] > 0).sum()} of {len(last)} refused")
    return refused


def judge(folder):
    run = Run(folder)
    verdict = Verdict(run)
    if not len(run.replies) or not run.builds and run.scene["name"] == "cold_start":
        verdict.breach(5, "nothing was recorded")
    extra = count_extra_builds(run, verdict)
    most, at_once = check_budget(run, verdict)
    age_over_ms = check_age(run, verdict)
    down = check_rollback(run, verdict)
    late_ms = check_waiting(run, verdict)
    check_states(run, verdict)
    refused = check_served(run, verdict)
    served = run.replies[run.replies["error"] < NOT_CONNECTED]
    verdict.numbers = {
        "offered": run.asked() / run.scene["crowd"]["seconds"], "asked": run.asked(), "builds": len(run.builds),
        "builds_in_a_second": most, "builds_at_once": at_once, "extra_builds": extra,
        "extra_allowed": max(run.allow["extra"].values(), default=0) + run.scene["daemons"] * run.allow["alone"], "age_over_ms": float(age_over_ms),
        "versions_down": down, "late_ms": float(late_ms), "noise_ms": run.noise_us / 1000,
        "control_ms": run.control_us / 1000, "refused": refused,
        "unserved": int((run.replies["error"] > 0).sum()),
        "states": {name or "error": int((served["state"] == code).sum()) for code, name in STATES.items()},
        "reasons": {name: int((served["reason"] == code).sum()) for code, name in REASONS.items() if name},
        "errors": {name: int((run.replies["error"] == code).sum()) for code, name in ERRORS.items()
                   if name and (run.replies["error"] == code).any()},
        "latency_ms": {f"p{p}": float(np.percentile(served["took"], p)) / 1000 for p in (50, 99, 99.9, 100)},
        "daemons": run.scene["daemons"], "commits": len(run.scene["commits"]),
    }
    return verdict


def write_junit(path, verdicts, failures):
    suite = xml.Element("testsuite", name="proof", tests=str(len(verdicts) + bool(failures)))
    for name, broken in [(verdict.name, verdict.breaches) for verdict in verdicts] + [("fleet", failures)] * bool(failures):
        case = xml.SubElement(suite, "testcase", classname="proof", name=name)
        if broken:
            xml.SubElement(case, "failure", message="\n".join(broken))
    xml.ElementTree(suite).write(path)


def main(folders):
    broken = False
    for folder in folders:
        verdict = judge(folder)
        broken |= bool(verdict.breaches)
        print(verdict.line())
        for breach in verdict.breaches:
            print(f"    BREACH {breach}")
    return broken or not folders


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
