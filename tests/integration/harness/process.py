"""A program under test: a direct child whose output goes to a file."""
import os
import signal
import subprocess
import time

from .wait import PATIENCE_S, pause, wait_until


class Process:
    """Starts `command` in a session of its own. `output` (stdout and stderr) is appended to."""

    def __init__(self, command, output, env=None, limits=None):
        self.output_path = output
        with open(output, "ab") as file:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env,
                start_new_session=True, preexec_fn=limits)
        self.pid = self.child.pid

    def output(self):
        with open(self.output_path, errors="replace") as file:
            return file.read()

    def running(self):
        return self.child.poll() is None

    def signal(self, number, group=False):
        if group:
            os.killpg(self.pid, number)
        elif self.running():
            self.child.send_signal(number)

    def wait(self, timeout=None):
        """The exit code: negative for a signal."""
        return self.child.wait(timeout or PATIENCE_S)

    def kill(self):
        """Ends it and all its children the hard way."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()

    def cpu_s(self):
        """Processor time used so far, in seconds."""
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def wait_idle(self):
        """Waits until it uses next to no processor time: a spinning loop never gets there."""

        def idle():
            before, begin = self.cpu_s(), time.monotonic()
            pause(0.25)
            return self.cpu_s() - before <= 0.1 * (time.monotonic() - begin)

        wait_until(idle, what="an idle CPU")
