"""Conductors whose ranks live on a GPU, with ranks, a torch and a compute-sanitizer that are made up: whether a part asks, judges and
writes without an error is seen without a GPU; what it writes means nothing.

    python3 tests/gpu/stand-ins/conduct.py PROGRAM ARGUMENT…      as the program itself, its exit status too
"""

import importlib
import os
import sys
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.modules.update({name: unittest.mock.MagicMock() for name in ("torch", "torch.distributed")})

import ranks  # noqa: E402

PLAN = {"compressed": 1}
ANSWERS = {
    # memory.py
    "context": {}, "create": {}, "all_reduce": {}, "messages": {}, "compressed": {"calls": 2},
    "free": {"free": 1 << 30, "stack": 1024},
    # training.py
    "hello": {"compressed": 0, "torch": "2", "device": "made up"},
    "train": {"losses": [8.0, 8.0, 8.0, *[1.0] * 30], "compressed": 4},
    "host": {"wall": 1.0, "process": 1.0, "threads": {"application": 0.5, "nccl": 0.5}, "buckets": [10, 20, 30]},
    "enqueue": {"seconds": 1e-6},
    # tuning.py
    "steps": {"seconds": 1.0, "plan": PLAN}, "small": {"seconds": 1.0}, "live": {"plan": PLAN}, "capture": {},
    "exact": {"exact": True, "compressed": 0}, "replay": {"digest": "a", "kind": "exact"},
}  # fmt: skip
CASE = {"why": [], "digest": "a", "calls": 3, "note": "made up"}


class Ranks:
    """As ranks.Ranks, with nobody behind it. ENDS: at the first request of that name they end."""

    forced = False

    def __init__(self, script, count, how, *_, **__):
        self.count, self.how = count, how

    def ask(self, request, only=None):
        if request.get("do") == os.environ.get("ENDS", "never"):
            del os.environ["ENDS"]
            raise ranks.Ended("made up")
        answer = dict(CASE if "case" in request else ANSWERS[request["do"]])
        if self.how != "compressed" and request.get("do") in ("hello", "train"):
            answer["compressed"] = None
        # So that what tunes itself gains.
        if self.how == "without" and request.get("do") == "steps":
            answer["seconds"] = 4.0
        return [answer] * (1 if only is not None else self.count)

    def lose(self, victim, *_):
        return [{"rank": 1 - victim, "status": 1, "seconds": 1.0}]

    def switched_on(self):
        return self.count

    def log_lines(self):
        return ["compression off"] * self.count

    def last_error(self, rank):
        return "nothing known"

    def last_words(self, rank):
        return []

    def complaints(self):
        return []

    def close(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def measured(kernels, kind, form, size, count, wanted):
    """As kernels.measured; e4m3 is slow."""
    for name in ("quantise", f"dequantise_sum, {count} ranks", f"reduce, {count} ranks"):
        if name.startswith(wanted):
            yield name, size, 50.0 if form == "e4m3" else 90.0


def main():
    name = sys.argv[1]
    module = importlib.import_module(name)
    sys.argv = sys.argv[1:]
    ranks.Ranks, ranks.require_gpu = Ranks, lambda: None
    if name == "semantics":
        module.all_cases = lambda prefix=(): {"one": None, "two": None}
    if name == "kernels":
        checks = module.Checks()
        checks.done = 7
        module.measured, module.copy_rate, module.check = measured, lambda *_: 100.0, lambda *_: checks
        module.Driver = module.Kernels = unittest.mock.MagicMock()
        module.torch.__version__, module.torch.cuda.get_device_name = "2", lambda: "made up"
    sys.exit(module.main())


if __name__ == "__main__":
    main()
