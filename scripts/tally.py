#!/usr/bin/python3
"""Adds up test results and prints them as one plain line: "N passed, N failed[, N skipped]".

usage: tally.py [LOG.json | LOG.xml | broken:STEP] ...

LOG.json is meson's log with LOG.junit.xml beside it, LOG.xml is JUnit's format from pytest or a fuzz
run, and broken:STEP a step that failed before it had results. Names what failed. Exits 1 if anything
failed, or if nothing passed.
"""
import json
import pathlib
import sys
import xml.etree.ElementTree as xml


class Tally:
    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []

    def add_junit(self, path):
        for case in xml.parse(path).getroot().iter("testcase"):
            name = f"{case.get('classname', '')}: {case.get('name', '')}".removeprefix(": ")
            if case.find("failure") is not None or case.find("error") is not None:
                self.failures.append(name)
            elif case.find("skipped") is not None:
                self.skipped += 1
            else:
                self.passed += 1

    def add_meson(self, path):
        self.add_junit(path.with_suffix(".junit.xml"))
        # A program that exits badly after its last test, as with a leak, shows only here.
        for line in path.read_text().splitlines():
            test = json.loads(line)
            name = test["name"].rpartition(" / ")[2]
            if test["result"] not in ("OK", "SKIP") and not any(name in f for f in self.failures):
                self.failures.append(f"{name}: {test['result']} (exit status {test['returncode']})")


def main(arguments):
    tally = Tally()
    for argument in arguments:
        if argument.startswith("broken:"):
            tally.failures.append(argument.removeprefix("broken:"))
        elif argument.endswith(".json"):
            tally.add_meson(pathlib.Path(argument))
        else:
            tally.add_junit(argument)
    for failure in tally.failures:
        print(f"failed: {failure}")
    line = f"{tally.passed} passed, {len(tally.failures)} failed"
    print(line + (f", {tally.skipped} skipped" if tally.skipped else ""))
    return 1 if tally.failures or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
