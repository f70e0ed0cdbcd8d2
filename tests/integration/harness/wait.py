"""Waiting for conditions. Tests never wait for a time to pass."""
import os
import select
import time

# How long anything may take before a test calls it stuck: generous, since machines are busy.
PATIENCE_S = float(os.environ.get("SEGAR_TEST_PATIENCE", "30"))


def pause(seconds):
    """Lets a polling loop breathe; no test may depend on how long."""
    select.select([], [], [], seconds)


def wait_until(condition, timeout=None, what=None):
    """Polls until `condition()` is true, and returns its value; fails after `timeout` seconds."""
    timeout = timeout or PATIENCE_S
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            what = what or getattr(condition, "__name__", "the condition")
            raise AssertionError(f"still not after {timeout:g} s: {what}")
        pause(0.005)
