#!/usr/bin/python3
"""Includes point one way: every part knows only the parts below it, and only the libraries it may.

usage: includes.py [ROOT]

The table below is the parts list of the design. A part that is missing in it may not exist.
"""
import pathlib
import re
import sys

# part: the parts it may include besides itself
PARTS = {
    "proto": [],
    "client": ["proto"],
    "daemon/base": ["proto"],
    "daemon/core": ["daemon/base", "proto"],
    "daemon/origin": ["daemon/core", "daemon/base", "proto"],
    "daemon/store": ["daemon/core", "daemon/base", "proto"],
    "daemon/doctor": ["daemon/store", "daemon/origin", "daemon/base", "proto"],
    "daemon/rpc": ["daemon/doctor", "daemon/core", "daemon/base", "proto"],
    "daemon/ops": ["daemon/rpc", "daemon/doctor", "daemon/store", "daemon/origin", "daemon/core", "daemon/base", "proto"],
    "daemon": ["daemon/ops", "daemon/rpc", "daemon/doctor", "daemon/store", "daemon/origin", "daemon/core", "daemon/base",
               "proto"],
}

# library header: the parts that may include it
LIBRARIES = {
    r"uv\.h": ["daemon/origin", "daemon/store", "daemon/rpc", "daemon/ops", "daemon"],
    r"(libpq-fe|postgres_ext|pg_config.*)\.h": ["daemon/origin", "daemon/doctor"],
    r"hiredis/.*": ["daemon/store", "daemon/doctor"],
    r"msgpack.*": ["proto"],
    r"yaml\.h": ["daemon/base"],
    r"systemd/.*": ["daemon/ops"],
    r"sys/sdt\.h": ["daemon/base"],
    r"microhttpd\.h": ["daemon/ops"],
}

# All that the core may take from outside: no clock, no files, no threads, nothing that waits.
CORE_SYSTEM = {
    "assert.h", "float.h", "inttypes.h", "limits.h", "malloc.h", "math.h", "stdalign.h", "stdarg.h",
    "stdbool.h", "stddef.h", "stdint.h", "stdlib.h", "string.h", "xxhash.h",
}
# Of base, what logs or reads files is not for the core.
CORE_NOT = {"daemon/base/log.h", "daemon/base/config.h"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def part_of(path):
    """The part that a path from the root belongs to: its longest known folder."""
    for folder in path.parents:
        if str(folder) in PARTS:
            return str(folder)
    return None


def resolve(root, source, name):
    """The project's file that `#include "name"` in `source` finds, from the root, or None."""
    for folder in (root / source.parent, root, root / "daemon", root / "client"):
        if (folder / name).is_file():
            return (folder / name).resolve().relative_to(root)
    return None


def complaints(root, source):
    part = part_of(source)
    if part is None:
        yield 0, "is in no part that the table knows"
        return
    for number, line in enumerate((root / source).read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        quote, name = match.groups()
        if quote == '"':
            found = resolve(root, source, name)
            target = found and part_of(found)
            if found is None:
                yield number, f'"{name}" is not found'
            elif target != part and target not in PARTS[part]:
                yield number, f"{part} may not know {target} ({name})"
            elif part == "daemon/core" and str(found) in CORE_NOT:
                yield number, f"the core may not know {found}"
            continue
        for pattern, allowed in LIBRARIES.items():
            if re.fullmatch(pattern, name) and part not in allowed:
                yield number, f"{part} may not use <{name}>"
        if part == "daemon/core" and name not in CORE_SYSTEM:
            yield number, f"the core may not use <{name}>"


def main(root):
    bad = 0
    sources = sorted(p for top in ("proto", "client", "daemon") for p in (root / top).rglob("*.[ch]"))
    for source in sources:
        source = source.relative_to(root)
        for number, text in complaints(root, source):
            print(f"{source}:{number}: {text}")
            bad += 1
    print(f"{len(sources)} files, {bad} wrong")
    return 1 if bad or not sources else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
