"""Loopback at a rate, for as long as a block runs. It is the whole machine's: a loopback that is shaped already is left
alone, and so is one that we may not shape."""

import signal
import subprocess
import sys


class NotShaped(Exception):
    """Why loopback has no rate."""


def held():
    """What tc shows of it; empty where there is no tc."""
    try:
        return subprocess.run(["tc", "qdisc", "show", "dev", "lo"], capture_output=True, text=True).stdout
    except FileNotFoundError:
        return ""


def leave_as(before):
    """Takes away a rate that somebody who was killed has left, if there was none `before`; True if there was something to take."""
    if "tbf" in before or "tbf" not in held():
        return False
    subprocess.run("tc qdisc del dev lo root".split(), capture_output=True)
    return True


class Shaped:
    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        shown = held()
        if not shown:
            raise NotShaped("tc is missing, or shows nothing of loopback")
        if "noqueue" not in shown:
            raise NotShaped(f"loopback is shaped already: {shown.strip()}")
        # Who is ended by a limit takes the rate away first.
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        command = "tc qdisc add dev lo root tbf burst 2mb limit 64mb rate".split() + [self.rate]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode != 0:
            raise NotShaped(made.stderr.strip() or "tc failed")
        return self

    def __exit__(self, kind, error, trace):
        subprocess.run("tc qdisc del dev lo root".split(), capture_output=True)
