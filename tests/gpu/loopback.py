"""Loopback at a rate, for as long as a block runs. It is the whole machine's: a loopback that is shaped already is left
alone, and so is one that we may not shape."""

import signal
import subprocess
import sys


class NotShaped(Exception):
    """Why loopback has no rate."""


class Shaped:
    def __init__(self, rate):
        self.rate = rate

    def __enter__(self):
        try:
            shown = subprocess.run(["tc", "qdisc", "show", "dev", "lo"], capture_output=True, text=True)
        except FileNotFoundError:
            raise NotShaped("tc is missing") from None
        if "noqueue" not in shown.stdout:
            raise NotShaped(f"loopback is shaped already: {shown.stdout.strip()}")
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
