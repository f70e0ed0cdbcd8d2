"""What `segard --check` says that memory can come to, against what a flooded daemon takes."""
import contextlib
import json
import re
import subprocess

import pytest

from harness.segard import PROGRAM, SANITIZED, make_config
from harness.wait import wait_until
from harness.wire import request

MIB = 1 << 20


def printed(path):
    """The lines of the sum, in MiB, by name; the sum itself, and the one for smaller values."""
    said = subprocess.run([PROGRAM, "--config", path, "--check"], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^  (\S.{0,11}?)? +([\d.]+) MiB  (.*)$", said, re.MULTILINE)
    parts = {name: float(number) for name, number, _ in lines if name not in ("", "in all")}
    whole, smaller = [float(number) for name, number, _ in lines if name in ("", "in all")]
    return parts, whole, smaller


def test_check_adds_up_what_the_configuration_allows(origin, workshop, serial):
    path = workshop / f"memory{next(serial)}.yaml"

    def check(**sections):
        path.write_text(json.dumps(make_config("/tmp/segar-not-there.sock", origin.dsn(), **sections)))
        return printed(path)

    parts, whole, smaller = check()
    assert abs(sum(parts.values()) - whole) < 1 and smaller < whole
    assert parts["near cache"] == 256
    more, more_whole, _ = check(near={"memory": "1GiB"}, origin={"concurrency": 16}, limits={"requests": 200000})
    assert more["near cache"] == 1024
    assert abs(more["builds"] - 2 * parts["builds"]) < 0.3
    assert 1.9 * parts["requests"] < more["requests"] < 2.1 * parts["requests"]
    grown = {name for name in parts if more[name] != parts[name]}
    assert grown == {"near cache", "builds", "requests", "flights"}
    assert abs(sum(more.values()) - more_whole) < 1


@pytest.mark.skipif(SANITIZED, reason="a sanitizer's memory is in no sum")
def test_a_flood_stays_within_the_printed_sum(origin, make_segard):
    """The near cache full, thousands of requests waiting with the longest keys, and clients that do not read."""
    segard = make_segard(origin, near={"memory": "32MiB"}, origin={"budget": "100000/s"},
                         limits={"requests": 4000, "requests_per_connection": 4000, "queue": 8000}).start()
    parts, _, bound = printed(segard.config_path)
    idle = segard.process.rss_bytes()
    assert idle < (parts["program"] + parts["keyspaces"]) * MIB

    client = segard.client()
    for start in range(0, 600, 100):
        replies = client.call("mget", [f"sized:{100000 + start + i}" for i in range(100)], {})
        assert all(reply["state"] == "fresh" for reply in replies)
    near = segard.stats()["near_bytes"]
    assert 24 * MIB < near <= 32 * MIB
    filled = segard.process.rss_bytes()
    # beside the values there are only the buffers that brought them, and what the allocator keeps
    assert filled - idle < near + 24 * MIB

    with contextlib.ExitStack() as stack:
        gate = stack.enter_context(origin.gate("text"))
        waiting, deaf = segard.connections(4), segard.connections(30)
        for c, connection in enumerate(waiting):
            connection.send_raw(b"".join(request(n, "get", ["text", f"{c}-{n}-" + "k" * 12000], {})
                                         for n in range(800)))
        gate.wait_for(8)
        for connection in deaf:
            connection.send_raw(b"".join(request(n, "get", "sized:100599", {"max_stale_ms": 0}) for n in range(1, 21)))
        wait_until(lambda: segard.stats()["waiters"] >= 3000)
        wait_until(lambda: segard.stats()["output_bytes"] > MIB)
        flooded = segard.process.rss_bytes()
        assert flooded < bound * MIB
        # of 38 MB of keys each is kept by its request and by its flight; the bound holds part by part
        kept = (parts["keys"] + parts["requests"] + parts["flights"] + parts["connections"] + parts["replies"]) * MIB
        assert flooded - filled < kept
        stats = segard.stats()
        assert 3000 * 12000 < stats["key_bytes"] <= parts["keys"] * MIB / 2
        for connection in [client, *waiting, *deaf]:
            connection.close()
        gate.open()
    segard.wait_rest()
