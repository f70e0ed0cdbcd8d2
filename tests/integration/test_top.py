"""What is asked for most: `top`, and segarctl's screen of it."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import pytest

from harness.segard import SEGARCTL
from harness.wait import wait_until
from harness.wire import Error

HOT, WARM, COLD = "item:1", "item:2", "text:x"


def ask(client, **times):
    for key, count in times.items():
        for number in [client.send("get", key, {}) for _ in range(count)]:
            client.receive(number)


def ask_all(client):
    """Until all gets are counted: at first, few are."""
    ask(client, **{HOT: 600, WARM: 300, COLD: 10})
    names = {key["key"] for key in client.call("top")["hot"]}
    return {HOT, WARM} <= names


def segarctl(segard, *arguments, **options):
    return subprocess.run([SEGARCTL, "-s", segard.socket, "top", *arguments], capture_output=True, text=True,
                          check=False, **options)


def test_top_tells_the_hottest_and_the_costliest(segard, origin):
    client = segard.client()
    origin.behave("text", delay_s=0.3)
    for key in HOT, WARM, COLD:
        client.get(key)
    wait_until(lambda: ask_all(client), what="the hot keys to be known")
    top = client.call("top")
    assert [key["key"] for key in top["hot"]][:2] == [HOT, WARM]
    hottest = top["hot"][0]
    assert hottest["rate"] > top["hot"][1]["rate"] > 0
    assert hottest["near"] == "fresh" and hottest["age_ms"] >= 0 and hottest["build_us"] > 0
    assert hottest["load"] == pytest.approx(hottest["rate"] * hottest["build_us"] / 1e6)
    assert [key["load"] for key in top["costly"]] == sorted((key["load"] for key in top["costly"]), reverse=True)
    assert len(client.call("top", 1)["hot"]) == 1 == len(client.call("top", 1)["costly"])
    keyspaces = {keyspace["name"]: keyspace for keyspace in top["keyspaces"]}
    assert keyspaces["item"]["origin"] == 2 == keyspaces["item"]["builds"]
    assert keyspaces["item"]["near"] == keyspaces["item"]["gets"] - 2 > 0
    assert keyspaces["text"]["build_us"] > 300_000
    for params in ([0], [1001], ["x"], [5, 5]):
        with pytest.raises(Error, match="^bad_request: "):
            client.call("top", *params)


def test_top_tells_nothing_of_keyspaces_that_one_may_not_ask_about(origin, make_segard):
    segard = make_segard(origin, access=[{"uid": "root", "keyspaces": ["item", "sized"]},
                                         {"uid": "root", "methods": ["get", "ping", "stats"]}]).start()
    client = segard.client()
    wait_until(lambda: ask_all(client), what="the hot keys to be known")
    ask(client, **{COLD: 1000})
    top = client.call("top", 1000)
    assert {keyspace["name"] for keyspace in top["keyspaces"]} == {"item", "sized"}
    assert {key["key"] for key in top["hot"]} == {HOT, WARM} == {key["key"] for key in top["costly"]}


def test_without_a_hot_list_there_is_still_a_top(origin, make_segard):
    segard = make_segard(origin, near={"hot": 0}).start()
    client = segard.client()
    ask(client, **{HOT: 2000})
    top = client.call("top")
    assert top["hot"] == [] == top["costly"] and len(top["keyspaces"]) == 4


def test_segarctl_shows_it_once(segard):
    client = segard.client()
    wait_until(lambda: ask_all(client), what="the hot keys to be known")
    shown = segarctl(segard, "--once")
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "\x1b" not in shown.stdout
    assert any(line.startswith("builds [") and "of 1000.0/s for the fleet of 1" in line for line in lines)
    assert any(line.startswith("item ") for line in lines)
    hot = lines.index("asked for most")
    assert lines[hot + 2].endswith(HOT) and lines[hot + 3].endswith(WARM)
    assert json.loads(segarctl(segard, "-j", "1").stdout)["hot"][0]["key"] == HOT
    assert segarctl(segard, "0").returncode == 2 == segarctl(segard, "many").returncode
    assert segarctl(segard, "2000").returncode == 1, "the daemon says how many it tells"


class Terminal:
    def __init__(self, segard, rows, columns, kind="xterm"):
        self.outer, inner = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.outer)
        self.process = subprocess.Popen([SEGARCTL, "-s", segard.socket, "top"], stdin=inner, stdout=inner,
                                        stderr=inner, start_new_session=True, env={**os.environ, "TERM": kind})
        os.close(inner)
        os.set_blocking(self.outer, False)
        self.seen = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def shows(self, text):
        try:
            self.seen += os.read(self.outer, 1 << 16).decode()
        except (BlockingIOError, OSError):
            pass
        return text in self.seen

    def last_picture(self):
        """The lines of the last picture that is whole."""
        pictures = self.seen.split("\x1b[H")[1:]
        whole = [picture for picture in pictures if "\x1b[J" in picture]
        return whole[-1].split("\x1b[J")[0].replace("\x1b[K", "").replace("\r", "").split("\n") if whole else []


@pytest.mark.parametrize("way_out", ["q", signal.SIGTERM, signal.SIGQUIT])
def test_segarctl_shows_a_screen_that_fits_and_leaves_the_terminal_as_it_was(segard, way_out):
    client = segard.client()
    wait_until(lambda: ask_all(client), what="the hot keys to be known")
    terminal = Terminal(segard, 16, 60)
    wait_until(lambda: terminal.shows("asked for most"), what="a picture")
    wait_until(lambda: terminal.shows("\x1b[J"), what="its end")
    picture = terminal.last_picture()
    assert len(picture) <= 16 and max(map(len, picture)) <= 60
    terminal.resize(5, 200)
    terminal.process.send_signal(signal.SIGWINCH)
    wait_until(lambda: terminal.shows("\x1b[H") and 0 < len(terminal.last_picture()) <= 5, what="a smaller one")
    if way_out == "q":
        os.write(terminal.outer, b"q")
    else:
        terminal.process.send_signal(way_out)
    assert terminal.process.wait(10) == 0
    wait_until(lambda: terminal.shows("\x1b[?1049l"), what="the first screen")
    assert termios.tcgetattr(terminal.outer) == terminal.before
    os.close(terminal.outer)


def test_a_stopped_top_leaves_the_terminal_to_the_shell(segard):
    terminal = Terminal(segard, 16, 60)
    wait_until(lambda: terminal.shows("\x1b[J"), what="a picture")
    terminal.process.send_signal(signal.SIGTSTP)
    _, how = os.waitpid(terminal.process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(how) and termios.tcgetattr(terminal.outer) == terminal.before
    wait_until(lambda: terminal.shows("\x1b[?1049l"), what="the first screen")
    terminal.seen = ""
    terminal.process.send_signal(signal.SIGCONT)
    wait_until(lambda: terminal.shows("\x1b[?1049h"), what="its screen again")
    os.write(terminal.outer, b"q")
    assert terminal.process.wait(10) == 0
    os.close(terminal.outer)


def test_a_terminal_that_knows_no_commands_gets_none(segard):
    terminal = Terminal(segard, 16, 60, "dumb")
    wait_until(lambda: terminal.shows("would cost most"), what="a picture")
    assert terminal.process.wait(10) == 0 and "\x1b" not in terminal.seen
    os.close(terminal.outer)


def test_each_list_has_its_part_of_a_screen(make_segard, origin):
    segard = make_segard(origin, keyspaces={f"k{i}": {"query": "SELECT 1 AS value"} for i in range(40)}).start()
    client = segard.client()
    wait_until(lambda: ask_all(client), what="the hot keys to be known")
    terminal = Terminal(segard, 24, 120)

    def picture():
        client.get("k39")
        terminal.shows("")
        return "\n".join(terminal.last_picture())

    wait_until(lambda: re.search(r"^keyspace .*\nk39 (.*\n)*and \d\d that are asked for less\n(.*\n)*asked for most\n"
                                 r".*\n.*item:(.*\n)*would cost most.*\n.*\n.*item:", picture(), re.M), what="all of it")
    os.write(terminal.outer, b"q")
    assert terminal.process.wait(10) == 0
    os.close(terminal.outer)
