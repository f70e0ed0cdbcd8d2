"""A machine with a real systemd as its process 1, in namespaces: for the units, as they are installed.

Its files are this system's, its changes go with it. It needs root, and a kernel that lets it mount.
"""
import os
import pathlib
import re
import signal
import subprocess

from .process import Process
from .segard import BUILD, SANITIZED
from .wait import wait_until

BOOT = pathlib.Path(__file__).with_name("boot.sh")
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
OUTSIDE = pathlib.PurePosixPath("/srv/outside")  # the shared folder, inside


def why_not():
    """Why there can be no machine here; None if there can."""
    if os.geteuid() != 0:
        return "needs root"
    if SANITIZED:
        return "the sandbox of the units leaves a sanitizer no room"
    tried = subprocess.run(["unshare", "--fork", *NAMESPACES, "mount", "-t", "tmpfs", "none", "/mnt"],
                           capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces: {tried.stderr.strip()}"


class Cgroup:
    """A branch of every hierarchy of cgroups, for the machine to have as its root."""

    def __init__(self, name):
        self.folders = []
        with open("/proc/mounts") as mounts:
            for line in mounts:
                _, point, kind, *_ = line.split()
                if kind in ("cgroup", "cgroup2"):
                    self.folders.append(pathlib.Path(point) / name)
        for folder in self.folders:
            folder.mkdir()
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (folder.parent / setting).exists():
                    (folder / setting).write_text((folder.parent / setting).read_text())

    def enter(self):
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for folder in self.folders:
            for child, _, _ in sorted(os.walk(folder, topdown=False), reverse=True, key=lambda walk: len(walk[0])):
                os.rmdir(child)


class Machine:
    """segar is installed in it, by meson, and nothing of it is started."""

    def __init__(self, folder, shared):
        self.folder = folder
        folder.mkdir()
        installed = folder / "installed"
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", installed],
                       check=True, capture_output=True)
        self.cgroup = Cgroup(f"segar-{os.getpid()}-{folder.name}")
        self.process = Process(["unshare", "--fork", "--kill-child=KILL", *NAMESPACES, "--propagation", "private",
                                BOOT, folder, shared], folder / "boot.log", limits=self.cgroup.enter)
        self.pid = wait_until(self.find_init, what="the first process of the machine")
        wait_until(self.is_up, what="systemd to be up")
        self.run("cp", "-a", *(OUTSIDE / installed.relative_to(shared) / top.name for top in installed.iterdir()), "/")
        self.run("systemd-sysusers")
        self.run("systemd-tmpfiles", "--create", check=False)  # some of this system's own may fail
        self.run("systemctl", "daemon-reload")

    def find_init(self):
        assert self.process.running(), self.process.output()
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0]) if children else None

    def is_up(self):
        assert self.process.running(), self.process.output()
        return self.run("systemctl", "is-active", "basic.target", check=False).stdout == "active\n"

    def run(self, *command, check=True, **options):
        """Runs a command in it to its end."""
        done = subprocess.run(["nsenter", "-t", str(self.pid), "-a", *command], capture_output=True, text=True,
                              env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, **options)
        assert not check or done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done

    def path(self, inside):
        """A file of the machine, from outside."""
        return pathlib.Path(f"/proc/{self.pid}/root") / str(inside).lstrip("/")

    def show(self, unit, name):
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def main_pid(self, unit):
        """Of the unit's main process, as it is called outside."""
        inside = self.show(unit, "MainPID")
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                names = re.search(r"^NSpid:\t(.*)$", status.read_text(), re.M).group(1).split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if len(names) == 2 and names[1] == inside and self.is_ours(status.parent):
                return int(status.parent.name)
        raise AssertionError(f"{unit} has no process {inside}")

    def is_ours(self, process):
        return os.readlink(process / "ns" / "pid") == os.readlink(f"/proc/{self.pid}/ns/pid")

    def log(self, unit):
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout

    def close(self):
        self.process.signal(signal.SIGKILL)
        self.process.wait()
        wait_until(self.removed, what="the machine's processes to end")

    def removed(self):
        try:
            self.cgroup.remove()
        except OSError:
            return False
        return True
