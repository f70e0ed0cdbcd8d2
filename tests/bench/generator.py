"""Runs the load generator (load.c) on its core, and reads what it measured."""
import json
import os
import subprocess

from servers import BUILD, CLIENT_CORE, pin

PROGRAM = BUILD / "tests" / "bench" / "load"


def stream(protocol, socket, **settings):
    """The arguments of one stream."""
    return [protocol, str(socket), *(f"{name}={value}" for name, value in settings.items() if value is not None)]


def start(*streams, seconds=1.0, warm=0.2, pid=None):
    """Begins to run the streams together."""
    command = [PROGRAM, "--seconds", str(seconds), "--warm", str(warm)]
    command += ["--pid", str(pid)] if pid else []
    for i, one in enumerate(streams):
        command += (["--"] if i else []) + one
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            preexec_fn=pin(CLIENT_CORE))


def finish(process):
    """Its measurements, one for each stream. A wrong reply ends the benchmark: no number would count."""
    out, err = process.communicate()
    if process.returncode != 0:
        raise SystemExit(f"bench: {' '.join(map(str, process.args))}\nended with {process.returncode}: {err}{out}")
    return [json.loads(line) for line in out.splitlines()]


def run(*streams, **options):
    """Both."""
    return finish(start(*streams, **options))


def fill(protocol, socket, prefix, value_len, keys, connections=4, depth=None):
    """Puts all keys in (segar: has them built). Returns how many a second."""
    depth = depth or max(1, min(256, 400000 // value_len))
    [done] = run(stream(protocol, socket, prefix=prefix, len=value_len, keys=keys, connections=connections, depth=depth,
                        fill=1), seconds=3600, warm=0)
    if done["replies"] != keys or done["errors"] or done["misses"]:
        raise SystemExit(f"bench: {protocol} did not take {keys} keys: {done}")
    return done["per_s"]
