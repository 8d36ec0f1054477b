"""How fast NCCL's own operations move the bytes of a compressed AllReduce, by arrangement; and what each costs in memory.

    tests/gpu/with_mps python3 tests/gpu/exchanges.py [--ranks 2,4,8] [--size 256] [--chunks 8,16] [--rate 10gbit]

A trial, not a test: it says which arrangement is worth building before anything is built. No kernel of ours runs, so
that each figure is the most that the arrangement could give. `vendor` is NCCL's AllReduce of a 16-bit tensor, `fp8` its
AllReduce of as many bytes as ours. The others exchange 1.016 bytes for each element, in chunks: a scatter by Send and Recv
and a gather by AllGather on one communicator, as the library does; on two, so that two of NCCL's threads serve the
sockets; the scatter by AllGathers of pairs of ranks instead of messages, one pair after the other or on streams of their own. Two ranks
exchange everything once.
Memory: free device memory before and after a communicator, divided by the number of ranks; that of the first one includes 2 MiB of buffers.
What NCCL's messages take of it is the stack of their kernel (beside each line: the context's limit), so they come first in a group with a
Reduce of one byte, in whose kernel, of a smaller stack, NCCL then runs the whole group.
One that fails or hangs is said so, and left out: the others go on in a fresh job.
Runs on the emulator too (docs/gpu-tests.md, `grid.py`). Exit status: 0 measured, 1 something failed, 77 no GPU.
"""

import contextlib
import sys

import loopback
import ranks
import suite_part
from suite_part import median

MB = 1e6
TWO = ("once, one communicator", "once, two in turn")
# Those with a Reduce first: once messages have run alone, their kernel's stack is there for all.
MORE = (
    "a reduce beside", "a reduce beside, one group", "a reduce beside, two in turn",
    "one communicator", "two, chunks in turn", "two, scatter and gather",
    "pairs", "pairs at once", "pairs at once, beside", "pairs, beside", "shared pairs",
)  # fmt: skip
# Communicators without which a way is left out.
PAIRS, SHARED = "pairs of ranks", "pairs of ranks, shared"
NEEDS = {**dict.fromkeys((way for way in MORE if way.startswith("pairs")), PAIRS), "shared pairs": SHARED}
# Without these there is nothing to compare.
MUST = ("start", "first", "room", "second", "vendor")
# Seconds: what a rank may take to answer, and what a job takes at least.
LIMIT, A_JOB = 30, 15


def slowest(answers):
    return max(answer["seconds"] for answer in answers)


class Trial:
    """One number of ranks and size of chunks, over as many jobs as it takes."""

    def __init__(self, part, count, chunk, arguments):
        self.part, self.count, self.chunk, self.arguments = part, count, chunk, arguments
        self.size = arguments.size << 20
        self.costs, self.failed, self.doing = {}, {}, "start"
        self.times = {name: [] for name in ("vendor", "fp8", *(TWO if count == 2 else MORE))}

    def __str__(self):
        return f"{self.count} ranks, chunks of {self.chunk >> 20} MiB"

    def left(self):
        """The names of what is measured, without those that have failed."""
        return [name for name in self.times if not {name, NEEDS.get(name)} & set(self.failed)]

    def run(self):
        """Until all that does not fail is measured."""
        while self.part.left() > A_JOB and not set(MUST) & set(self.failed):
            self.doing = "start"
            try:
                with ranks.Ranks(__file__, self.count, "without", limit=min(LIMIT, self.part.left()), common=ranks.WIRE) as job:
                    self.communicators(job)
                    rate = self.arguments.rate
                    with loopback.Shaped(rate) if rate else contextlib.nullcontext():
                        self.measure(job)
                if job.forced:
                    ranks.fresh_mps()
                return
            except ranks.Ended as ended:
                self.failed[self.doing] = str(ended)
                self.part.say(f"{self}: {self.doing} FAILED: {ended}")
                ranks.fresh_mps()

    def communicators(self, job):
        """Makes them all, and uses them: the first use connects."""
        # All are up, so that nobody's context counts for a communicator.
        job.ask({"do": "free"})
        unique = job.ask({"do": "id"}, only=0)[0]["id"]
        self.step(job, "first", {"do": "first", "id": unique})
        self.doing = "room"
        job.ask({"do": "room", "chunk": self.chunk, "size": self.size})
        self.step(job, "second", {"do": "second"})
        for name in (PAIRS, SHARED):
            if any(NEEDS.get(way) == name for way in self.left()):
                self.step(job, name, {"do": "pairs", "share": name == SHARED})
        for way in self.left():
            self.step(job, way, self.request(way), f"use of: {way}")

    def request(self, way):
        return {"do": "timed", "name": way, "size": self.size, "turns": 1}

    def step(self, job, name, request, shown=None):
        """What it took: seconds, and bytes per rank."""
        self.doing = name
        before = job.ask({"do": "free"}, only=0)[0]
        answers = job.ask(request)
        after = job.ask({"do": "free"}, only=0)[0]
        taken = (before["free"] - after["free"]) / ranks.on_the_first_card(self.count)
        cost = {"seconds": max(a.get("seconds", 0) for a in answers), "bytes": taken, "stack": after["stack"]}
        if self.costs.setdefault(shown or name, cost) is cost:
            told = f"{cost['bytes'] / MB:8.1f} MB a rank  {cost['seconds'] * 1e3:9.1f} ms  stack {cost['stack']}"
            print(f"       {shown or name:42} {told}", flush=True)
        self.keep()

    def measure(self, job):
        """Rounds in which all take their turn."""
        while self.left() and min(len(self.times[name]) for name in self.left()) < self.arguments.rounds and self.part.left() > 1:
            for name in self.left():
                self.doing = name
                self.times[name].append(slowest(job.ask(self.request(name))))
                if len(self.times[name]) == 1:
                    self.show(name)
            self.keep()

    def keep(self):
        """Writes what there is."""
        seconds = {name: median(found) for name, found in self.times.items() if found}
        found = {"ranks": self.count, "chunk": self.chunk, "rounds": len(self.times["vendor"]), "seconds": seconds}
        found.update(costs=self.costs, failed=self.failed)
        self.part.data["trials"] = [
            one for one in self.part.data["trials"] if (one["ranks"], one["chunk"]) != (self.count, self.chunk)
        ] + [found]
        self.part.put()

    def show(self, name):
        vendor, seconds = median(self.times["vendor"] or [0]), median(self.times[name])
        rounds = len(self.times[name])
        gain = f"{vendor / seconds:5.2f}x"
        print(f"{self.count:5}  {self.chunk >> 20:5}  {name:28} {seconds * 1e3:9.2f} ms  {gain}  of {rounds}", flush=True)

    def judge(self):
        self.keep()
        measured = [name for name, found in self.times.items() if found]
        for name in measured:
            self.show(name)
        vendor = median(self.times["vendor"]) if self.times["vendor"] else None
        gains = {name: vendor / median(self.times[name]) for name in measured if name not in ("vendor", "fp8") and vendor}
        if gains:
            best = max(gains, key=gains.get)
            found = f"the best: {best}, {gains[best]:.2f}x of the vendor's {vendor * 1e3:.0f} ms"
        else:
            found = "nothing was measured"
        said = {name: [line.strip() for line in why.splitlines()] for name, why in self.failed.items()}
        failed = "".join(f"; {name} failed: {lines[0]} {lines[-1]}" for name, lines in said.items())
        # What only lacked time is no failure.
        self.part.check(f"{self}: measured", False if failed else True if gains else None, found + failed)


def conduct(arguments):
    part = suite_part.Part("exchanges", arguments)
    part.put(trials=[], size=arguments.size << 20, rate=arguments.rate)
    print(f"ranks  chunk  {'arrangement':28} {'time':>12}  of the vendor's")
    for mib in map(int, arguments.chunks.split(",")):
        for count in map(int, arguments.ranks.split(",")):
            trial = Trial(part, count, mib << 20, arguments)
            try:
                trial.run()
            except loopback.NotShaped as why:
                part.check(f"{trial}: measured", None, str(why))
            else:
                trial.judge()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 600)
    parser.add_argument("--ranks", default="2,4,8", help="even numbers")
    parser.add_argument("--size", type=int, default=256, help="MiB of the 16-bit tensor (default 256)")
    parser.add_argument("--chunks", default="8,16", help="MiB of packets in a chunk (default 8,16)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rate", help="shape loopback, as tc takes it; needs root")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from exchanges_rank import Rank

        ranks.serve(Rank())
        return 0
    ranks.require_gpu()
    return conduct(arguments)


if __name__ == "__main__":
    sys.exit(main())
