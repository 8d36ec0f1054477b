"""What the parts of tests/gpu/suite share: where results go, how long a part may take, what it found.

A part writes its JSON file after every step, so that one that is killed leaves what it had. Every claim becomes a check: ok,
FAILED or skipped, with the numbers. Needs nothing but Python; report.py reads the files.
"""

import argparse
import datetime
import json
import os
import signal
import sys
import time

# Also where none of a part's checks could be tried.
NO_GPU = 77
BYTES_SENT = "/sys/class/net/lo/statistics/tx_bytes"


def parser_of(text, seconds):
    """Arguments that every part takes; `seconds` is what it takes by default."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=seconds, help=f"what it may take (default {seconds:.0f})")
    folder = os.environ.get("OUT") or "gpu-suite"
    parser.add_argument("--output", default=folder, help="folder for the JSON (default $OUT, else gpu-suite)")
    parser.add_argument("--name", help="of the part and its JSON, where one program is several parts")
    return parser


def bytes_on_the_wire():
    """What loopback has carried since the machine started."""
    with open(BYTES_SENT) as file:
        return int(file.read())


def median(values):
    values = sorted(values)
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def mean(values):
    values = list(values)
    return sum(values) / len(values)


class Part:
    """One part's file, clock and checks."""

    def __init__(self, name, arguments):
        name = arguments.name or name
        self.name, self.began, self.limit = name, time.monotonic(), arguments.seconds
        os.makedirs(arguments.output, exist_ok=True)
        self.file = os.path.join(arguments.output, f"{name}.json")
        now = datetime.datetime.now(datetime.timezone.utc)
        command = [os.path.basename(sys.argv[0]), *sys.argv[1:]]
        self.data = {"part": name, "date": now.strftime("%Y-%m-%d %H:%MZ"), "command": " ".join(command)}
        self.data.update(limit_s=self.limit, checks=[], finished=False)
        self.data["cards"] = len(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(","))
        # `timeout` ends a part by SIGTERM: its ranks must be ended too.
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
        self.put()

    def put(self, **values):
        """Adds to what is written, and writes it."""
        self.data.update(values, seconds=round(time.monotonic() - self.began, 1))
        with open(self.file + ".new", "w") as file:
            json.dump(self.data, file, indent=1)
        os.replace(self.file + ".new", self.file)

    def left(self):
        return self.limit - (time.monotonic() - self.began)

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    def check(self, claim, holds, found):
        """`holds`: True, False, or None where it could not be tried. `found`: the numbers, or why not."""
        verdict = "skipped" if holds is None else "ok" if holds else "FAILED"
        self.data["checks"].append({"claim": claim, "verdict": verdict, "found": found})
        self.say(f"{verdict}: {claim}: {found}")
        self.put()

    def end(self):
        """Prints the checks once more, in one place; the exit status."""
        self.put(finished=True)
        checks = self.data["checks"]
        print(f"\n{self.name}: {self.data['seconds']} s, {self.file}")
        for check in checks:
            print(f"  {check['verdict']:8} {check['claim']}: {check['found']}")
        sys.stdout.flush()
        verdicts = {check["verdict"] for check in checks}
        if "FAILED" in verdicts or not checks:
            return 1
        return 0 if "ok" in verdicts else NO_GPU
