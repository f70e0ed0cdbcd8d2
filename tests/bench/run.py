#!/usr/bin/python3
"""Measures segard beside memcached, Redis and a bare echo, and what it costs as work grows.

usage: scripts/bench [--quick] [--rounds N] [--seconds S] [--markdown] [PART …]

  hits       replies a second, processor time and percentiles, against peers and the limit
  keys       the same with 100,000 keys, each as likely as the others
  memory     bytes of an entry beyond key and value, with 1,000,000 of them
  entries    a hit's time with 1,000 to 10,000,000 entries
  idle       1 to 10,000 connections that do nothing
  keyspaces  1 to 1,000 of them
  waiters    1 to 10,000 requests that wait for one key
  life       start-up, and stop with a full near cache
  misses     loads from Redis and builds, against redis-benchmark and pgbench
  changes    from a row's commit until it is served on another host
  restart    hits and builds in the first minute after a restart, with the list of hot keys and without
  trouble    percentiles of hits at a fixed rate while other things go wrong

Without a part: all. --quick: everything small and once, to see that it works; its numbers say nothing.
--markdown writes what was measured into docs/BENCHMARKS.md. The machine should have nothing else to do.
"""
import argparse
import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

import servers
from part_changes import run_changes
from part_growth import run_entries, run_idle, run_keyspaces, run_life, run_memory, run_misses, run_waiters
from part_hits import run_hits, run_keys
from part_restart import run_restart
from part_trouble import run_trouble

PARTS = {"hits": run_hits, "keys": run_keys, "memory": run_memory, "entries": run_entries, "idle": run_idle,
         "keyspaces": run_keyspaces, "waiters": run_waiters, "life": run_life, "misses": run_misses,
         "changes": run_changes, "restart": run_restart, "trouble": run_trouble}
PAGE = servers.TREE / "docs" / "BENCHMARKS.md"


def parse():
    parser = argparse.ArgumentParser(prog="scripts/bench", usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", default=[])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}; there are {', '.join(PARTS)}")
    options.parts = options.parts or list(PARTS)
    options.rounds = options.rounds or (1 if options.quick else 7)
    options.seconds = options.seconds or (0.2 if options.quick else 1.0)
    return options


def version(*command):
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", told.stdout + told.stderr)
    return found[0] if found else "?"


def machine():
    """What it was measured on."""
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text())
    described = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=servers.TREE, capture_output=True, text=True,
                               check=False).stdout.strip()
    return (f"{datetime.date.today()}, segar {described or 'without git'}, {cpu[1] if cpu else platform.machine()}, "
            f"{os.cpu_count()} cores, {int(memory[1]) >> 20} GiB, Linux {platform.release()}, "
            f"gcc {version('gcc', '-dumpfullversion')}, memcached {version('memcached', '-V')} (-t 1), "
            f"Redis {version('redis-server', '--version')}, PostgreSQL {version('psql', '--version')}; "
            f"server on core {servers.SERVER_CORE}, load on core {servers.CLIENT_CORE}")


def write_page(part, text, options):
    """Puts the part's text between its marks in the page."""
    begin, end = f"<!-- {part}: begin -->\n", f"<!-- {part}: end -->"
    page = PAGE.read_text()
    at, to = page.index(begin) + len(begin), page.index(end)
    made = f"\n`scripts/bench {part}`, {options.rounds} rounds of {options.seconds:g} s; {machine()}.\n\n{text}\n\n"
    PAGE.write_text(page[:at] + made + page[to:])


def main():
    options = parse()
    options.say = lambda text: print(f"# {text}", file=sys.stderr, flush=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="segar-bench-"))
    folder.chmod(0o755)
    print(machine())
    origin = servers.Origin(folder)
    try:
        for part in options.parts:
            options.say(part)
            text = PARTS[part](folder / part, origin, options)
            print(f"\n## {part}\n\n{text}", flush=True)
            if options.markdown:
                write_page(part, text, options)
    finally:
        origin.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
