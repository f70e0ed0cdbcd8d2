"""The crowd writes down what really came: held against a server that does all that one can."""
import json
import pathlib
import socket
import subprocess
import sys
import threading

import msgpack
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import check  # noqa: E402
from world import BUILD  # noqa: E402

FRESH = {"state": "fresh", "reason": None, "source": "near", "version": 7, "age_ms": 300, "ttl_ms": 70000, "stale_ms": 0}
STALE = {**FRESH, "state": "stale", "reason": "refreshing", "source": "store", "ttl_ms": 0, "stale_ms": 5}
GOOD, REFUSED, SILENT, HANGS_UP, TWICE, NO_RPC, OLD, OTHER, ABSENT = range(1, 10)


def answer(number, key):
    """The bytes that the key is answered with; None: the connection ends."""
    def reply(result=None, error=None):
        return msgpack.packb([1, number, error, result], use_bin_type=True)

    value = b"1700000000000000 7 %d 1 ........" % key
    return {GOOD: lambda: reply({**FRESH, "value": value}),
            OLD: lambda: reply({**STALE, "value": value}),
            OTHER: lambda: reply({**FRESH, "version": 8, "value": b"1700000000000000 7 99 2 ."}),
            ABSENT: lambda: reply({**FRESH, "state": "absent", "version": None, "value": None}),
            REFUSED: lambda: reply(error=[0, "overloaded: the queue is full retry_after_ms=20"]),
            SILENT: lambda: b"",
            TWICE: lambda: 2 * reply({**FRESH, "value": value}),
            NO_RPC: lambda: b"\xc1",
            HANGS_UP: lambda: None}[key]()


def serve(listener):
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=talk, args=[client], daemon=True).start()


def talk(client):
    unpacker = msgpack.Unpacker(raw=False)
    with client:
        while data := client.recv(65536):
            unpacker.feed(data)
            for _, number, method, (key,) in unpacker:
                assert method == "get"
                out = answer(number, int(key.split(":")[1]))
                if out is None:
                    return
                for i in range(len(out)):  # replies come in any pieces
                    client.sendall(out[i:i + 1])


@pytest.fixture
def crowd(tmp_path):
    """Runs the crowd with these streams for a while; its records and what it says."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen(16)
    threading.Thread(target=serve, args=[listener], daemon=True).start()
    (tmp_path / "sockets").write_text(f"{tmp_path / 's'}\n{tmp_path / 'nobody'}\n")

    def run(*streams, seconds=0.5):
        command = [BUILD / "tests" / "proof" / "crowd", "--out", tmp_path / "out", "--sockets", tmp_path / "sockets",
                   "--seconds", seconds, "--grace", 0.2]
        for i, stream in enumerate(streams):
            command += (["--"] if i else []) + [f"{name}={value}" for name, value in stream.items()]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
        return np.fromfile(tmp_path / "out", check.RECORD), json.loads(done.stdout)

    yield run
    listener.close()


def of_key(key):
    return {"keyspace": "k", "rate": 40, "from": key}


@pytest.mark.parametrize("key, fields", [
    (GOOD, {"state": 1, "reason": 0, "source": 1, "version": 7, "age": 300, "ttl": 70000, "stale": 0, "error": 0,
            "built": 1700000000000000, "flags": 1 << 4}),
    (OLD, {"state": 2, "reason": 1, "source": 2, "stale": 5, "error": 0}),
    (OTHER, {"state": 1, "version": 8, "flags": check.OTHER_VERSION | check.OTHER_KEY | 2 << 4}),
    (ABSENT, {"state": 4, "version": check.NIL_VERSION, "built": 0, "flags": 0}),
    (REFUSED, {"state": 0, "error": 7}),
    (SILENT, {"state": 0, "error": check.LOST}),
    (HANGS_UP, {"state": 0, "error": check.HUNG_UP}),
    (NO_RPC, {"state": 0, "error": check.BROKEN}),
])
def test_each_reply_is_written_down_as_it_came(crowd, key, fields):
    records, told = crowd(of_key(key))
    assert told["asked"] == len(records) and told["daemons"] == 2
    mine = records[(records["daemon"] == 0) & (records["error"] != check.NOT_CONNECTED)]
    assert len(mine) and set(mine["key"]) == {key}
    for name, value in fields.items():
        assert set(mine[name]) == {value}, name


def test_a_second_reply_is_no_requests(crowd):
    records, told = crowd(of_key(TWICE))
    second = records["flags"] & check.SECOND > 0
    assert second.sum() == ((records["error"] == 0) & ~second).sum() > 0
    assert len(records) == told["asked"] + second.sum()


def test_a_daemon_that_is_not_there_costs_its_requests(crowd):
    records, _ = crowd(of_key(GOOD))
    assert set(records["error"][records["daemon"] == 1]) == {check.NOT_CONNECTED}
    assert set(records["error"][records["daemon"] == 0]) == {0}


def test_requests_are_due_at_even_distances_whatever_comes(crowd):
    records, told = crowd({"keyspace": "k", "rate": 2000, "from": SILENT}, of_key(GOOD), seconds=1)
    due = np.sort(records["due"][records["stream"] == 0]) - told["begun_us"]
    assert (due == np.arange(len(due)) * 500).all() and len(due) > 10
