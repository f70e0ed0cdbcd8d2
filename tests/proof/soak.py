#!/usr/bin/python3
"""A long run: random scenes one after the other, each judged, and at the end the daemons hold no more memory and files than
after the first third.

    tests/proof/soak.py [--minutes N] [--seed N] [--daemons N] [--rate N] [--junit FILE]

Meant for a build with ASan ($SEGAR_BUILD), as `scripts/test nightly` runs it: a report of a sanitizer fails it, too. The seed
draws the order of the scenes, not what the machine makes of them.
"""
import argparse
import pathlib
import random
import shutil
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402
import run  # noqa: E402
import scenes  # noqa: E402
from world import Size, World  # noqa: E402

# These end what is to be watched, or are no use twice.
LEFT_OUT = ("cold_start", "rolling_restart", "restart_at_once", "wrong_clock", "origin_failed_over")
RSS_GROWTH, RSS_ROOM = 1.2, 8 << 20
FILES_ROOM = 8


def sample(world):
    """{process: (bytes, files)} of the daemons, at rest."""
    return {daemon.process.pid: (daemon.process.rss_bytes(), daemon.process.open_files()) for daemon in world.daemons}


def growth(before, after):
    """What grew, as sentences; daemons that were replaced meanwhile say nothing."""
    same = before.keys() & after.keys()
    if not same:
        return ["no daemon lived from the first third to the end"]
    rss = [statistics.median(sample[pid][0] for pid in same) for sample in (before, after)]
    print(f"median memory of {len(same)} daemons: {rss[0] / 1e6:.0f} MB after a third, {rss[1] / 1e6:.0f} MB at the end")
    grown = [f"memory grew from {rss[0] / 1e6:.0f} to {rss[1] / 1e6:.0f} MB"] * (rss[1] > rss[0] * RSS_GROWTH + RSS_ROOM)
    return grown + [f"process {pid} had {before[pid][1]} files open, and has {after[pid][1]}" for pid in same
                    if after[pid][1] > before[pid][1] + FILES_ROOM]


def soak(world, folder, options):
    """(verdicts, what grew)."""
    chance = random.Random(options.seed)
    usable = [one for one in scenes.SCENES if one["name"] not in LEFT_OUT and one["needs"](world)]
    verdicts, samples = [], []
    begun, end = time.monotonic(), time.monotonic() + options.minutes * 60
    while time.monotonic() < end:
        one = chance.choice(usable)
        verdict = run.play(world, one, folder / f"{len(verdicts):03}-{one['name']}")
        shutil.rmtree(folder / verdict.name)
        verdicts.append(verdict)
        samples.append((time.monotonic(), sample(world)))
        run.tell(verdict)
    third = [taken for at, taken in samples if at >= begun + (end - begun) / 3]
    return verdicts, growth(third[0], samples[-1][1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=time.time_ns() // 1000 % 1000000)
    parser.add_argument("--daemons", type=int, default=10)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--junit", type=pathlib.Path)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    folder = run.begin()
    verdicts, failures, world = [], [], None
    try:
        world = World(folder / "w", Size(options.daemons, options.rate, True))
        verdicts, failures = soak(world, folder, options)
    finally:
        failures = failures + (world.close() if world else ["the fleet did not come up"])
        shutil.rmtree(folder, ignore_errors=True)
    for failure in failures:
        print(f"    GREW {failure}" if "grew" in failure or "files" in failure else failure)
    if options.junit:
        check.write_junit(options.junit, verdicts, failures)
    broken = [verdict.name for verdict in verdicts if verdict.breaches]
    print(f"{len(verdicts)} scenes, {len(broken)} broken; seed {options.seed}")
    return 1 if broken or failures or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
