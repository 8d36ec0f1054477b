"""How fast NCCL's own operations move the bytes of a compressed AllReduce, by arrangement; and what each costs in memory.

    tests/gpu/with_mps python3 tests/gpu/exchanges.py [--ranks 2,4,8] [--size 256] [--chunks 8,16] [--rate 10gbit]

A trial, not a test: it says which arrangement is worth building before anything is built. No kernel of ours runs, so
that each figure is the most that the arrangement could give. `vendor` is NCCL's AllReduce of a 16-bit tensor, `fp8` its
AllReduce of as many bytes as ours. The others exchange 1.016 bytes for each element, in chunks: a scatter by Send and Recv
and a gather by AllGather on one communicator, as the library does; on two, so that two of NCCL's threads serve the
sockets; the scatter by AllGathers of pairs of ranks instead of messages. Two ranks exchange everything once.
Memory: free device memory before and after a communicator, divided by the number of ranks; that of the first one includes 2 MiB of buffers.
Runs on the emulator too (docs/gpu-tests.md, `grid.py`). Exit status: 0 measured, 1 something failed, 77 no GPU.
"""

import argparse
import contextlib
import sys

import loopback
import ranks
from suite_part import median

MB = 1e6
TWO = ("once, one communicator", "once, two in turn")
MORE = ("one communicator", "two, chunks in turn", "two, scatter and gather", "pairs", "pairs, beside", "shared pairs")


def slowest(answers):
    return max(answer["seconds"] for answer in answers)


def communicators(job, count, size, chunk):
    """Makes them all; what each kind took, by name: seconds and bytes per rank."""
    found = {}

    def step(name, request):
        before = job.ask({"do": "free"}, only=0)[0]["free"]
        answers = job.ask(request)
        after = job.ask({"do": "free"}, only=0)[0]["free"]
        found[name] = {"seconds": max(a.get("seconds", 0) for a in answers), "bytes": (before - after) / count}

    # All are up, so that nobody's context counts for a communicator.
    job.ask({"do": "free"})
    unique = job.ask({"do": "id"}, only=0)[0]["id"]
    step("first", {"do": "first", "id": unique})
    job.ask({"do": "room", "chunk": chunk, "size": size})
    step("second", {"do": "second"})
    ways = TWO if count == 2 else MORE
    if count > 2:
        step("pairs", {"do": "pairs", "share": False})
        step("shared pairs", {"do": "pairs", "share": True})
    for way in ways:
        # The first use connects.
        step(f"use of: {way}", {"do": "timed", "name": way, "size": size, "turns": 1})
    return ways, found


def measure(job, ways, size, rounds):
    """Seconds of each way, the median of rounds in which all take their turn."""
    times = {name: [] for name in ("vendor", "fp8", *ways)}
    for _ in range(rounds):
        for name, found in times.items():
            found.append(slowest(job.ask({"do": "timed", "name": name, "size": size, "turns": 1})))
    return {name: median(found) for name, found in times.items()}


def show(count, chunk, times, costs):
    vendor = times["vendor"]
    for name, seconds in times.items():
        print(f"{count:5}  {chunk >> 20:5}  {name:26} {seconds * 1e3:9.2f} ms  {vendor / seconds:5.2f}x", flush=True)
    for name, cost in costs.items():
        print(f"       {name:42} {cost['bytes'] / MB:8.1f} MB a rank  {cost['seconds'] * 1e3:9.1f} ms", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
    size, failed = arguments.size << 20, False
    print(f"ranks  chunk  {'arrangement':26} {'time':>12}  of the vendor's")
    for count in map(int, arguments.ranks.split(",")):
        for chunk in (int(mib) << 20 for mib in arguments.chunks.split(",")):
            try:
                with ranks.Ranks(__file__, count, "without") as job:
                    ways, costs = communicators(job, count, size, chunk)
                    with loopback.Shaped(arguments.rate) if arguments.rate else contextlib.nullcontext():
                        times = measure(job, ways, size, arguments.rounds)
                    show(count, chunk, times, costs)
            except (ranks.Ended, loopback.NotShaped) as trouble:
                print(f"{count} ranks, chunks of {chunk >> 20} MiB: {trouble}", flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
