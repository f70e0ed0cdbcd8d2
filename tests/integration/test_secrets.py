"""Passwords and the log's salt are nowhere to be seen: logs, replies, metrics, arguments, environment, core dumps."""
import contextlib
import json
import pathlib
import subprocess

import msgpack
import pytest

from harness.segard import PROGRAM, SEGARCTL
from harness.wait import wait_until
from harness.wire import Error
from test_metrics import page

SECRETS = (b"hunter2", b"hunter3", b"hunter4")  # of PostgreSQL, of Redis, of the log


@pytest.fixture(params=["a store that is not there", "a password that is wrong", "a password file"])
def daemon(request, make_segard, own_origin, make_redis, workshop, serial):
    if request.param == "a store that is not there":
        store = {"url": "redis://segar:hunter3@127.0.0.1:1/0"}
    else:
        redis = make_redis()
        redis.call("CONFIG", "SET", "requirepass", "hunter3" if request.param == "a password file" else "another")
        redis.password = "hunter3"
        file = workshop / f"secret{next(serial)}"
        file.write_text("hunter3\n")
        store = {"url": redis.url, "password_file": str(file)}
    segard = make_segard(own_origin.dsn() + " password=hunter2", store=store,
                         log={"level": "debug", "keys": "hashed", "salt": "hunter4"},
                         keyspaces={"broken": {"query": "SELECT 1 AS value FROM nowhere"}})
    config = json.loads(segard.config_path.read_text())
    config["metrics"] = {"listen": f"unix:{segard.folder / 'metrics'}"}
    segard.config_path.write_text(json.dumps(config))
    return segard.start()


def reload_with(daemon, **origin):
    """One that is refused."""
    good = daemon.config_path.read_text()
    config = json.loads(good)
    config["origin"].update(origin)
    daemon.config_path.write_text(json.dumps(config))
    with pytest.raises(Error) as refused:
        daemon.client().call("reload")
    daemon.config_path.write_text(good)
    return refused.value


def test_no_secret_shows(daemon, own_origin):
    seen, client = [], daemon.client()
    dsn = own_origin.dsn() + " password=hunter2"

    def ask(method, *params):
        try:
            seen.append(msgpack.packb(client.call(method, *params, timeout=60), use_bin_type=True))
        except Error as error:
            seen.append(str(error).encode())

    def ask_all():
        for method in ("hello", "stats", "top", "keyspaces", "doctor"):
            ask(method)
        for key in ("item:1", "item:abc", "broken", "nowhere:1"):
            for method in ("get", "refresh", "inspect", "invalidate"):
                ask(method, key)

    ask_all()
    assert "restart" in str(reload_with(daemon, dsn=dsn + " application_name=x"))
    for wrong in (dsn + " nonsense=1", dsn + "'", "postgresql://segard:hunter2@[nowhere"):
        seen.append(str(reload_with(daemon, dsn=wrong)).encode())
    own_origin.server.kill()
    wait_until(lambda: "unavailable" in error_of(client, "item:2"), what="PostgreSQL to be missed")
    ask_all()
    process = pathlib.Path("/proc") / str(daemon.process.pid)
    seen += [(process / "cmdline").read_bytes(), (process / "environ").read_bytes(), page(daemon).encode()]
    for words in ([SEGARCTL, "-s", daemon.socket, "top", "--once"], [SEGARCTL, "-s", daemon.socket, "doctor"],
                  [PROGRAM, "-c", daemon.config_path, "--check", "--origin"], [PROGRAM, "-c", daemon.config_path, "--doctor"]):
        done = subprocess.run(words, capture_output=True)
        seen.append(done.stdout + done.stderr)
    seen.append(daemon.log().encode())
    assert "event=config.refused" in daemon.log() and len(seen) > 40
    for secret in SECRETS:
        assert secret in daemon.config_path.read_bytes() or secret == b"hunter3"
        assert [text for text in seen if secret in text] == []


def error_of(client, key):
    with contextlib.suppress(Error):
        client.get(key)
        return ""
    return str(pytest.raises(Error, client.get, key).value)


def test_a_crash_leaves_no_core(segard):
    """Values and passwords would be in it."""
    limits = pathlib.Path(f"/proc/{segard.process.pid}/limits").read_text()
    [core] = [line for line in limits.splitlines() if line.startswith("Max core file size")]
    assert core.split()[4:6] == ["0", "0"]
