#!/usr/bin/python3
"""Checks that each test which docs/PROMISES.md names exists.

usage: promises.py TREE

A name is `file::test` below tests/ (a Criterion test, a C function or a Python test), or
`sim:kind`, a kind of trouble of the simulator, or `judge:check`, a function of its judge.
"""
import pathlib
import re
import sys

NAME = re.compile(r"`((?:[\w/.]+::\w+)|(?:(?:sim|judge):\w+))`")


def missing(tests, name):
    if name.startswith("sim:"):
        kinds = re.findall(r"^\tX\(\w+, (\w+),", (tests / "sim/scene.h").read_text(), re.M)
        return name[4:] not in kinds
    if name.startswith("judge:"):
        text = "".join(path.read_text() for path in tests.glob("sim/judge*.c"))
        return not re.search(rf"\b{name[6:]}\([^;]*\)\s*\{{", text)
    file, test = name.split("::")
    path = tests / file
    if not path.is_file():
        return True
    text = path.read_text()
    if path.suffix == ".py":
        return not re.search(rf"^def {test}\(", text, re.M)
    return not re.search(rf"^Test\(\w+,\s*{test}\b|^static void {test}\(", text, re.M)


def main():
    tree = pathlib.Path(sys.argv[1])
    text = (tree / "docs/PROMISES.md").read_text()
    names = NAME.findall(text)
    wrong = sorted({name for name in names if missing(tree / "tests", name)})
    for name in wrong:
        print(f"docs/PROMISES.md: there is no test {name}")
    # A table that lost its tests would pass as well.
    cells = [line for line in text.splitlines() if line.startswith("|") and "`" in line]
    if len(cells) < 15:
        wrong.append("cells")
        print(f"docs/PROMISES.md: only {len(cells)} rows name tests")
    print(f"{len(names)} names, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
