#!/usr/bin/python3
"""The core performs no I/O, and reads no clock: what its library leaves undefined proves it.

usage: pure.py libcore.a libbase.a

The core may need the base's pure library, the names of statuses, and the functions of C below; the
base's library only those functions. check.c.o is the one exception: it prints its last words.
"""
import re
import subprocess
import sys

ALLOWED = re.compile(
    r"mem(chr|cmp|cpy|move|set|mem)|str(len|nlen|cmp|ncmp|chr|rchr|str|spn|cspn)"
    r"|malloc|calloc|realloc|free|malloc_usable_size|aligned_alloc|abort"
    r"|log|log1p|log2|exp|expm1|pow|sqrt|floor|ceil|round|llround|fmin|fmax|nextafter"
    r"|status_\w+"
    # the compiler's own: position independence, stack protector, fortify, sanitizers, coverage
    r"|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__(mem|str)\w+_chk"
    r"|__(asan|ubsan|tsan|lsan|sanitizer|gcov)_\w+|__llvm_profile_\w+"
)


def symbols(library):
    """(object, defined names, undefined names) of each object of a static library."""
    listing = subprocess.run(["nm", "-g", library], check=True, capture_output=True, text=True).stdout
    objects = []
    for line in listing.splitlines():
        fields = line.split()
        if line.endswith(":"):
            objects.append((line.rstrip(":").rpartition("/")[2], set(), set()))
        elif len(fields) == 2 and fields[0] in "Uwv":
            objects[-1][2].add(fields[1])
        elif len(fields) == 3:
            objects[-1][1].add(fields[2])
    return objects


def main(core, base):
    known = set()
    objects = 0
    bad = 0
    for library in (base, core):
        parts = symbols(library)
        known.update(*(defined for _, defined, _ in parts))
        for name, _, undefined in parts:
            objects += 1
            if name == "check.c.o":
                continue
            for symbol in sorted(undefined - known):
                if not ALLOWED.fullmatch(symbol):
                    print(f"{name} needs {symbol}")
                    bad += 1
    print(f"{objects} objects, {bad} wrong")
    return 1 if bad or not objects else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
