"""The units, as meson installs them, under a systemd of the test's own."""
import json
import os
import pathlib
import re
import signal

import pytest

from harness.machine import OUTSIDE, Machine, why_not
from harness.segard import make_config
from harness.wait import wait_until
from harness.wire import Client

SOCKET = "/run/segar/segard.sock"
UNIT = "segard.service"
WARM_UNIT = "segar-warm@deploy.service"
TIMER = "segar-warm@deploy.timer"
DOCS = pathlib.Path(__file__).parents[2] / "docs"
WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))


class Service:
    """segard as the machine's service, with a configuration of the test's."""

    def __init__(self, machine, workshop, origin):
        self.machine = machine
        self.workshop = workshop
        self.socket = machine.path(SOCKET)
        self.configure(origin)

    def inside(self, path):
        return OUTSIDE / path.relative_to(self.workshop)

    def configure(self, origin, **config):
        dsn = origin if isinstance(origin, str) else origin.dsn().replace(str(self.workshop), str(OUTSIDE))
        config = make_config(SOCKET, dsn, state_dir="/var/lib/segar", **config)
        config["listen"]["mode"] = "0660"
        self.machine.path("/etc/segar/segard.yaml").write_text(json.dumps(config, indent=1))

    def drop_in(self, *lines):
        folder = self.machine.path(f"/run/systemd/system/{UNIT}.d")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "test.conf").write_text("\n".join(["[Service]", *lines, ""]))
        self.machine.run("systemctl", "daemon-reload")

    def systemctl(self, verb, check=True):
        done = self.machine.run("systemctl", verb, UNIT, check=False)
        assert not check or done.returncode == 0, self.machine.log(UNIT)
        return done

    def state(self):
        return self.machine.show(UNIT, "ActiveState")

    def status(self):
        return self.machine.show(UNIT, "StatusText")

    def restarts(self):
        return int(self.machine.show(UNIT, "NRestarts"))

    def client(self):
        return Client(self.socket)

    def close(self):
        self.machine.run("systemctl", "stop", "segard.socket", UNIT)
        self.machine.run("systemctl", "reset-failed", "segard.socket", UNIT, check=False)
        self.machine.path(f"/run/systemd/system/{UNIT}.d/test.conf").unlink(missing_ok=True)
        self.machine.run("systemctl", "daemon-reload")


@pytest.fixture(scope="module")
def machine(workshop):
    machine = Machine(workshop / "machine", workshop)
    yield machine
    machine.close()


@pytest.fixture
def service(machine, workshop, origin):
    service = Service(machine, workshop, origin)
    machine.run("systemctl", "start", "segard.socket")
    yield service
    service.close()


def test_the_units_are_sound(machine):
    verified = machine.run("systemd-analyze", "verify", UNIT, "segard.socket", "segar-warm@deploy.service", check=False)
    assert (verified.stdout, verified.stderr) == ("", "")
    security = machine.run("systemd-analyze", "security", "--no-pager", UNIT).stdout
    exposure = re.search(r"Overall exposure level for segard.service: ([\d.]+)", security)
    assert float(exposure.group(1)) <= 1.5, security


def test_it_starts_and_says_what_it_does(service):
    service.systemctl("start")
    assert service.state() == "active"
    assert re.fullmatch(r"4 keyspaces, no requests yet, store none, origin .*", service.status())
    with service.client() as client:
        for _ in range(4):
            assert client.get("item:1")["value"] == b"item 1"
    wait_until(lambda: service.status() == "4 keyspaces, 75.0 % hits, store none, origin up", what="the status line")


def test_the_first_client_starts_it(service):
    assert service.state() == "inactive"
    with service.client() as client:
        assert client.get("item:1")["value"] == b"item 1"
    assert service.state() == "active"


def test_a_restart_loses_no_connection(service):
    service.systemctl("start")
    first = service.machine.main_pid(UNIT)
    with service.client() as before:
        before.get("item:1")
    os.kill(first, signal.SIGSTOP)
    # they come while it is not there to take them, and ask at once
    clients = [service.client() for _ in range(50)]
    waiting = [(client, client.send("get", "item:1", {})) for client in clients]
    os.kill(first, signal.SIGKILL)
    for client, number in waiting:
        assert client.receive(number)["value"] == b"item 1"
        client.close()
    assert service.machine.main_pid(UNIT) != first
    assert service.restarts() == 1


def test_a_loop_that_hangs_is_ended_and_started_anew(service):
    service.drop_in("WatchdogSec=1")
    service.systemctl("start")
    stopped = service.machine.main_pid(UNIT)
    os.kill(stopped, signal.SIGSTOP)
    with service.client() as client:
        assert client.get("item:1")["value"] == b"item 1"
    assert service.machine.main_pid(UNIT) != stopped
    assert "Watchdog timeout" in service.machine.log(UNIT)


def test_it_stops_in_time_whatever_hangs(service, origin):
    service.systemctl("start")
    with origin.gate("item") as gate, service.client() as client:
        client.send("get", "item:1", {"wait_ms": 300000})
        gate.wait_for(1)
        service.systemctl("stop")
        assert service.machine.show(UNIT, "Result") == "success"
        wait_until(lambda: origin.statements() == 0)


def test_it_starts_without_redis_and_postgres(service, origin, make_redis):
    redis = make_redis("--unixsocketperm", "777")
    redis.kill()
    service.configure(f"host={OUTSIDE}/nowhere dbname=x user=segard",
                      store={"url": f"unix://{service.inside(redis.socket)}"})
    service.systemctl("start")
    assert service.state() == "active"
    with service.client() as client, pytest.raises(Exception, match="unavailable"):
        client.get("item:1", wait_ms=100)
    wait_until(lambda: "origin up" not in service.status() and "store up" not in service.status(),
               what="a status line that says so")
    redis.start()
    wait_until(lambda: "store up" in service.status(), what="a status line that says so")


def test_a_password_reaches_it_as_a_credential_only(service, origin, make_redis):
    redis = make_redis("--unixsocketperm", "777")
    redis.call("CONFIG", "SET", "requirepass", "sesame-7")
    redis.password = "sesame-7"
    secret = service.machine.path("/etc/segar/credentials/redis")
    secret.write_text("sesame-7\n")
    secret.chmod(0o600)
    service.configure(origin, store={"url": f"unix://{service.inside(redis.socket)}", "password_file": "segar_redis"})
    service.systemctl("start")
    with service.client() as client:
        assert client.get("item:1")["value"] == b"item 1"
    wait_until(lambda: "store up" in service.status(), what="Redis to be reached")
    pid = service.machine.main_pid(UNIT)
    for name in ("cmdline", "environ"):
        with open(f"/proc/{pid}/{name}", "rb") as file:
            assert b"sesame" not in file.read()
    assert "sesame" not in service.machine.log(UNIT)
    secret.unlink()


def warms(service, origin, first, last, **config):
    """A plan, deploy, of these keys; 666 fails."""
    service.configure(origin, keyspaces={"many": {
        "query": "SELECT value, version FROM many($1)", "single_row": True,
        "batch": {"query": "SELECT key, value, version FROM many_of($1)", "linger": "20ms"}}},
        warm=[{"name": "deploy", "query": f"SELECT 'many:' || i FROM generate_series({first}, {last}) i", "retries": 0}], **config)


def test_a_deploy_warms_and_waits(service, origin):
    """`systemctl start segar-warm@deploy`, also where nothing runs yet."""
    warms(service, origin, 1001, 1200)
    started = service.machine.run("systemctl", "start", WARM_UNIT, check=False)
    assert started.returncode == 0, service.machine.log(WARM_UNIT)
    assert origin.builds("many") == 200
    assert "200 of 200 done: fresh 0, built 200, failed 0" in service.machine.log(WARM_UNIT)
    assert service.state() == "active"
    service.machine.run("systemctl", "start", WARM_UNIT)
    assert origin.builds("many") == 200, "what is there is built once"


def test_a_deploy_whose_keys_fail_fails(service, origin):
    warms(service, origin, 660, 669)
    assert service.machine.run("systemctl", "start", WARM_UNIT, check=False).returncode != 0
    assert service.machine.show(WARM_UNIT, "ExecMainStatus") == "5"
    log = service.machine.log(WARM_UNIT)
    assert "90 % of the keys are warm, not 99 %" in log and "many:666: 22012" in log
    service.machine.run("systemctl", "reset-failed", WARM_UNIT)


def test_it_is_started_once_its_plan_is_done(service, origin):
    warms(service, origin, 1001, 1010, ready_after_warm={"plan": "deploy", "timeout": "1m"})
    with origin.gate("many") as gate:
        service.machine.run("systemctl", "start", "--no-block", UNIT)
        gate.wait_for(1)
        assert service.state() == "activating"
        wait_until(lambda: "warming up" in service.status(), what="the status line")
        with service.client() as client:
            assert client.get("item:1")["value"] == b"item 1", "it serves meanwhile"
            assert not client.call("hello")["ready"]
        gate.open()
        wait_until(lambda: service.state() == "active", what="it to be started")


def test_a_plan_by_a_timer(service, origin):
    """The timer that docs/WARMUP.md has, but for the time of day."""
    machine = service.machine
    text = re.search(r"^```ini\n(\[Timer\]\n.*?)^```", (DOCS / "WARMUP.md").read_text(), re.M | re.S).group(1)
    calendar = re.search(r"^OnCalendar=(.*)$", text, re.M).group(1)
    assert "Next elapse:" in machine.run("systemd-analyze", "calendar", calendar).stdout
    unit = machine.path(f"/etc/systemd/system/{TIMER}")
    unit.write_text(text)
    verified = machine.run("systemd-analyze", "verify", TIMER, check=False)
    assert (verified.stdout, verified.stderr) == ("", "")
    unit.write_text(re.sub(r"^RandomizedDelaySec=.*\n", "AccuracySec=10ms\n", text, flags=re.M).replace(calendar, "*:*:0/1"))
    warms(service, origin, 1001, 1010)
    try:
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "start", TIMER)
        wait_until(lambda: origin.builds("many") == 10, what="the plan to be run")
        wait_until(lambda: machine.show(WARM_UNIT, "ActiveState") == "inactive", what="it to end")
        assert machine.show(WARM_UNIT, "Result") == "success"
    finally:
        machine.run("systemctl", "stop", TIMER, WARM_UNIT)
        unit.unlink()


def test_a_wrong_configuration_is_said_once(service):
    service.machine.path("/etc/segar/segard.yaml").write_text("nonsense: 1\n")
    assert service.systemctl("start", check=False).returncode != 0
    assert service.state() == "failed"
    assert service.restarts() == 0
    said = service.machine.run("journalctl", "--no-pager", "-o", "cat", "-u", UNIT, "-p", "3..3").stdout
    assert re.search(r"^/etc/segar/segard.yaml:1:1: ", said, re.M), said


def test_another_socket_than_systemds_is_refused(service, origin):
    service.configure(origin, listen={"socket": "/run/segar/other.sock"})
    assert service.systemctl("start", check=False).returncode != 0
    assert "listen.socket is /run/segar/other.sock, but the service manager's socket lies elsewhere" \
        in service.machine.log(UNIT)
