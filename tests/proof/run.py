#!/usr/bin/python3
"""The proof: a fleet on one machine, broken in every way, judged by check.py, shown by report.py.

    tests/proof/run.py [--short] [--daemons N] [--rate N] [--only NAME,…] [--keep FOLDER] [--report FOLDER]

The full size is 100 daemons and 50,000 requests a second, some 20 minutes; --short takes the scenes of CI in less than 5,
with a shorter fresh time and a lower rate, and as many daemons. $SEGAR_BUILD is the build to prove.
"""
import argparse
import os
import pathlib
import resource
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402
import scenes  # noqa: E402
from world import Size, World  # noqa: E402

TOLD_MOST = 10  # breaches of a scene that are told one by one
NOISE_MS = 200  # from here on a scene that went wrong is played again


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the scenes of CI")
    parser.add_argument("--daemons", type=int, default=100)
    parser.add_argument("--rate", type=float, help="requests a second (50000; short: 5000)")
    parser.add_argument("--only", help="names of scenes, parted by commas; all: also with --short")
    parser.add_argument("--keep", type=pathlib.Path, help="where the records stay")
    parser.add_argument("--report", type=pathlib.Path, help="a folder for the report")
    parser.add_argument("--list", action="store_true", help="the scenes' names")
    parser.add_argument("--junit", type=pathlib.Path, help="a file for the results, a test for each scene")
    return parser.parse_args()


def chosen(options):
    if options.only == "all":
        return scenes.SCENES
    names = options.only.split(",") if options.only else None
    unknown = set(names or ()) - {one["name"] for one in scenes.SCENES}
    if unknown:
        raise SystemExit(f"proof: there is no scene {', '.join(sorted(unknown))}")
    return [one for one in scenes.SCENES if (one["name"] in names if names else one["short"] or not options.short)]


def play(world, one, folder):
    """The verdict on a scene. A breach on a machine that did not run its processes says little: it is played again, once."""
    prepare = getattr(one["act"], "prepare", None)
    if prepare:
        prepare(world)
    verdict = play_once(world, one, folder)
    if verdict.breaches and verdict.numbers["noise_ms"] > NOISE_MS and not prepare:
        print(f"{verdict.line()}\n    again: processes that were due did not run for {verdict.numbers['noise_ms']:.0f} ms")
        shutil.rmtree(folder)
        verdict = play_once(world, one, folder)
    return verdict


def play_once(world, one, folder):
    with world.recording(folder, one["seconds"](world.size), scenes.streams(one, world.size), one["writes"],
                         title=one["title"], allow=one["allow"]):
        one["act"](world)
    scenes.check_whole(world)
    return check.judge(folder)


def begin():
    """A folder for the fleet, and what a process needs that has one."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # and end the fleet on the way
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # in memory, where there is room: a disk's pauses are not what is to be shown
    shared = "/dev/shm" if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 << 30 else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="segar-proof-", dir=shared))
    folder.chmod(0o755)
    return folder


def tell(verdict):
    print(verdict.line(), flush=True)
    for breach in verdict.breaches[:TOLD_MOST]:
        print(f"    BREACH {breach}", flush=True)
    if len(verdict.breaches) > TOLD_MOST:
        print(f"    and {len(verdict.breaches) - TOLD_MOST} more", flush=True)


def main():
    options = arguments()
    if options.list:
        print("\n".join(f"{one['name']:20} {'short ' if one['short'] else '      '}{one['title']}" for one in scenes.SCENES))
        return 0
    size = Size(options.daemons, options.rate or (5000 if options.short else 50000), options.short)
    folder = begin()
    records = options.keep or folder / "records"
    begun = time.monotonic()
    verdicts, world = [], None
    try:
        world = World(folder / "w", size)
        print(f"{size.daemons} daemons up after {time.monotonic() - begun:.0f} s, on {os.cpu_count()} processors", flush=True)
        for one in chosen(options):
            if not one["needs"](world):
                print(f"{one['name']:20} left out: this machine cannot", flush=True)
                continue
            verdict = play(world, one, records / one["name"])
            verdicts.append(verdict)
            tell(verdict)
    finally:
        failures = world.close() if world else ["the fleet did not come up"]
    for failure in failures:
        print(failure)
    if options.junit:
        check.write_junit(options.junit, verdicts, failures)
    if options.report:
        import report
        report.write(options.report, records, verdicts, size, options.only)
    shutil.rmtree(folder, ignore_errors=True)
    broken = sum(bool(verdict.breaches) for verdict in verdicts) + bool(failures)
    print(f"{len(verdicts) - broken + bool(failures)} scenes kept the promises, {broken} did not;"
          f" {time.monotonic() - begun:.0f} s")
    return 1 if broken or not verdicts else 0


if __name__ == "__main__":
    sys.exit(main())
