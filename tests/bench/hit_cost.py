#!/usr/bin/python3
"""Counts the instructions that the daemon executes for one near hit, and compares with what it should be.

usage: hit_cost.py PROGRAM [--update]

PROGRAM is hit_cost of a release build (scripts/test callgrind makes one). The expected numbers
are in hit_cost.txt beside this script, with the compiler that they hold for: under another one the counts
are shown and nothing fails, until `--update` writes them anew. More than 5 % above is a failure; 5 % below
is news that belongs into the file, so that it is kept.

Speaks TAP. Exit code 1 if a scenario costs more than it may.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
KEPT = HERE / "hit_cost.txt"
BATCHES = 60
TOLERANCE = 0.05
# Meson has malloc fill what it gives, to find who reads it unwritten: a cost of the test's own.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "MALLOC_PERTURB_"}


def count(program, scenario):
    """Instructions for each hit, and the program's compiler."""
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={folder}/out",
             program, scenario, str(BATCHES)], env=ENVIRONMENT, capture_output=True, text=True, check=False)
    collected = re.search(r"Collected : (\d+)", ran.stderr)
    if ran.returncode != 0 or not collected:
        sys.exit(f"{program} {scenario} failed:\n{ran.stderr[-2000:]}")
    hits, compiler = ran.stdout.strip().split(" ", 1)
    return int(collected[1]) / int(hits), compiler


def read_kept():
    """The scenarios' numbers, and the compiler in the first line."""
    text = KEPT.read_text()
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {name: float(number) for name, number in lines}, re.search(r": (.+), -O3", text)[1]


def write_kept(counts, compiler):
    """Keeps the file's comments, with the compiler's name in them."""
    comments = [line for line in KEPT.read_text().splitlines() if line.startswith("#")]
    comments[0] = re.sub(r": .+, -O3", f": {compiler}, -O3", comments[0])
    KEPT.write_text("\n".join(comments + [f"{name} {number:.0f}" for name, number in counts.items()]) + "\n")


def judge(name, number, wanted, same_compiler):
    """Prints one TAP line. Returns whether the number is fine."""
    change = number / wanted - 1
    fine = change <= TOLERANCE or not same_compiler
    print(f"{'ok' if fine else 'not ok'} - {name}: {number:.0f} instructions, {wanted:.0f} expected ({change:+.1%})")
    if fine and change < -TOLERANCE:
        print(f"# {name} has become cheaper: keep that by hit_cost.py --update")
    return fine


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write the counts to hit_cost.txt")
    options = parser.parse_args()
    kept, kept_compiler = read_kept()
    counts = {}
    for name in kept:
        counts[name], compiler = count(options.program, name)
    if options.update:
        write_kept(counts, compiler)
        return 0
    print(f"1..{len(counts)}")
    if compiler != kept_compiler:
        print(f"# {KEPT.name} is {kept_compiler}'s, this is {compiler}: nothing is compared; "
              "look at the changes, then hit_cost.py --update")
    results = [judge(name, number, kept[name], compiler == kept_compiler) for name, number in counts.items()]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
