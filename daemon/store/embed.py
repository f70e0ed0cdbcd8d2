#!/usr/bin/env python3
"""Turns the Lua scripts into C: each with the prelude before it, and its SHA-1, by which Redis knows it.

usage: embed.py PRELUDE SCRIPT… > OUTPUT.c
"""
import hashlib
import pathlib
import sys


def assemble(prelude, script):
    """The text that is sent: the script's `#!` line has to stay the first."""
    first, _, rest = script.partition("\n")
    if not first.startswith("#!lua"):
        raise SystemExit("a script begins with #!lua")
    return f"{first}\n{prelude}{rest}"


def literal(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    return "\n".join(f'\t\t"{line}\\n"' for line in escaped.splitlines())


def main(prelude, *paths):
    prelude = pathlib.Path(prelude).read_text()
    print('#include "store/scripts.h"\n')
    print("const struct script scripts[] = {")
    for path in map(pathlib.Path, paths):
        text = assemble(prelude, path.read_text())
        print(f"\t[SCRIPT_{path.stem.upper()}] = {{ .sha = \"{hashlib.sha1(text.encode()).hexdigest()}\", .text =")
        print(literal(text))
        print("\t},")
    print("};")


if __name__ == "__main__":
    main(*sys.argv[1:])
