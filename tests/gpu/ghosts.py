"""Ghost kernels under PyTorch: what the first call after a gap takes with them and without, what they cost.

    AIRAMP_BIN=… python3 tests/gpu/ghosts.py [--parts latency,decode,running,rates] [--quick] [--output ghosts.json]

One process at a time has the GPU: ghosts leave a device alone that others use. Jobs of one rank, without ghosts and
with them, in turns.

latency  the first collective after gaps of 1, 10, 100 ms and 1 s, until the host sees its end; and the power drawn
decode   a loop as of an inference server: some layers with a collective each, then a gap on the host; tokens per second
running  a job that keeps the device busy between its collectives: ghosts must cost at most 0.5%
rates    the latency after 100 ms for intervals between ghosts of 0.5, 2 and 5 ms

About 3 minutes, with --quick a little more than 2. Needs a GPU and PyTorch. Exit status: 0 measured and the running job is not slowed by
more than 0.5%, 1 not so, 77 no GPU.
"""

import argparse
import ctypes
import json
import statistics
import sys
import time

import ranks

PARTS = ("latency", "decode", "running", "rates")
# Gap in ms -> how many are measured.
GAPS = {1: 300, 10: 150, 100: 60, 1000: 12}
# The library decides after 24 gaps of one length, of which a few go by before the rhythm is known.
UNTIL_DECIDED = {1: 60, 10: 60, 100: 40, 1000: 28}
DECODE_GAPS_MS = (5, 50)
INTERVALS_US = (500, 2000, 5000)
MOST_SLOWED = 1.005
# A step has enough calls to be known after three of them.
LAYERS = 16


class Job(ranks.Ranks):
    """One rank; `ghosts` is None, or their interval in microseconds."""

    def __init__(self, ghosts):
        self.ghosts = ghosts
        super().__init__(__file__, 1, "passthrough", limit=150)

    def environment(self, count, settings):
        mine = super().environment(count, settings)
        if self.ghosts:
            mine.update(AIRAMP_ENABLE_GHOST_KERNELS="1", AIRAMP_GHOST_INTERVAL_US=str(self.ghosts))
        return mine

    def name(self):
        return f"ghosts every {self.ghosts} us" if self.ghosts else "without"

    def said(self):
        return [line for line in self.log_lines() if "ghost kernels" in line]


class Energy:
    """The device's energy counter; not a number where there is none."""

    def __init__(self):
        self.handle, self.nvml = ctypes.c_void_p(), None
        try:
            nvml = ctypes.CDLL("libnvidia-ml.so.1")
            if nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0:
                self.nvml = nvml
        except (OSError, AttributeError):
            pass

    def joules(self):
        value = ctypes.c_ulonglong()
        if self.nvml is None or self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle, ctypes.byref(value)):
            return float("nan")
        return value.value / 1000


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def latency_of(job, energy, gap_ms, scale):
    measured = max(5, round(GAPS[gap_ms] * scale))
    job.ask(dict(do="gaps", gap_ms=gap_ms, count=UNTIL_DECIDED[gap_ms] if job.ghosts else 3))
    joules, began = energy.joules(), time.monotonic()
    [answer] = job.ask(dict(do="gaps", gap_ms=gap_ms, count=measured))
    watts = (energy.joules() - joules) / (time.monotonic() - began)
    first = answer["first_us"]
    return {"median": statistics.median(first), "p99": percentile(first, 0.99), "watts": watts, "gaps": len(first)}


def part_latency(job, energy, scale):
    return {str(gap): latency_of(job, energy, gap, scale) for gap in GAPS}


def part_decode(job, energy, scale):
    found = {}
    for gap_ms in DECODE_GAPS_MS:
        if job.ghosts:
            job.ask(dict(do="decode", gap_ms=gap_ms, tokens=UNTIL_DECIDED[100]))
        [answer] = job.ask(dict(do="decode", gap_ms=gap_ms, tokens=round(max(1500, 4000 * scale) / gap_ms)))
        found[str(gap_ms)] = answer["tokens_per_second"]
    return found


def part_running(job, energy, scale):
    seconds = []
    for _ in range(3):
        [answer] = job.ask(dict(do="running", steps=round(60 * max(scale, 0.5))))
        seconds.append(answer["seconds"])
    return {"step_ms": 1000 * statistics.median(seconds)}


def measure(ghosts, parts, energy, scale):
    with Job(ghosts) as job:
        job.ask(dict(do="warm_up"))
        found = {name: globals()[f"part_{name}"](job, energy, scale) for name in parts}
        found["said"] = job.said()
        for line in job.complaints():
            print(f"    {line}")
        return found


def show_latency(results):
    print(f"\nfirst collective after a gap, us\n{'gap ms':>8}  {'':22}{'median':>9}{'p99':>9}{'watts':>8}{'gaps':>6}")
    for gap in GAPS:
        for name, found in results.items():
            if "latency" in found:
                row = found["latency"][str(gap)]
                print(f"{gap:>8}  {name:22}{row['median']:9.1f}{row['p99']:9.1f}{row['watts']:8.0f}{row['gaps']:6}")


def show_decode(results):
    print(f"\ndecode loop, tokens per second\n{'gap ms':>8}  " + "".join(f"{name:>24}" for name in results))
    for gap in DECODE_GAPS_MS:
        print(f"{gap:>8}  " + "".join(f"{found['decode'][str(gap)]:24.2f}" for found in results.values()))


def show_running(results):
    steps = {name: found["running"]["step_ms"] for name, found in results.items()}
    least = min(step for name, step in steps.items() if name.startswith("without"))
    slowed = max(step / least for name, step in steps.items() if not name.startswith("without"))
    shown = ", ".join(f"{name} {step:.3f} ms" for name, step in steps.items())
    print(f"\nrunning job: {shown}; slowed by {100 * (slowed - 1):+.2f}% (allowed: {100 * (MOST_SLOWED - 1):.1f}%)")
    return slowed <= MOST_SLOWED


def conduct(arguments):
    parts, scale, energy = arguments.parts.split(","), 0.4 if arguments.quick else 1.0, Energy()
    turns = [part for part in PARTS[:3] if part in parts]
    results, right = {}, True
    if turns:
        for name, ghosts in (("without", None), ("with", arguments.interval), ("without again", None)):
            # Once more at the end, for what must not be slower: what changed by itself is seen then.
            mine = turns if name != "without again" else [part for part in turns if part == "running"]
            if mine:
                results[name] = measure(ghosts, mine, energy, scale)
    rates = {}
    if "rates" in parts:
        for interval in INTERVALS_US:
            with Job(interval) as job:
                job.ask(dict(do="warm_up"))
                rates[interval] = dict(latency_of(job, energy, 100, 0.5 * scale), said=job.said())
    for lines in [found["said"] for found in results.values()] + [found["said"] for found in rates.values()]:
        for line in lines:
            print(f"    {line}")
    if "latency" in turns:
        show_latency(results)
    if "decode" in turns:
        show_decode({name: found for name, found in results.items() if "decode" in found})
    if rates:
        print(f"\nafter 100 ms, by interval\n{'us':>8}{'median':>9}{'p99':>9}{'watts':>8}")
        for interval, row in rates.items():
            print(f"{interval:>8}{row['median']:9.1f}{row['p99']:9.1f}{row['watts']:8.0f}")
    if "running" in turns:
        right = show_running(results)
    if arguments.output:
        with open(arguments.output, "w") as file:
            json.dump({"results": results, "rates": rates}, file, indent=1)
    print("ok" if right else "FAILED: a running job is slowed")
    return right


class Rank:
    """The one rank: collectives, layers and gaps."""

    def __init__(self):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        self.part = torch.randn(1 << 16, device="cuda")
        self.whole = torch.empty_like(self.part)
        self.weights = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
        self.tokens = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
        self.left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.torch.cuda.synchronize()
        self.dist.destroy_process_group()

    def begin_step(self):
        """A size of its own: equal calls could be a step of one call with an uneven pace as well."""
        half = self.part.numel() // 2
        self.dist.all_gather_into_tensor(self.whole[:half], self.part[:half])

    def collective(self):
        # Of one rank AllGather is a copy on the device, and AllReduce in place would be nothing.
        self.dist.all_gather_into_tensor(self.whole, self.part)

    def layers(self):
        hidden = self.tokens
        self.begin_step()
        for _ in range(LAYERS):
            hidden = self.torch.nn.functional.layer_norm(hidden @ self.weights, (1024,))
            self.collective()
        return hidden

    def warm_up(self):
        for _ in range(20):
            self.layers()
            self.torch.mm(self.left, self.left)
        self.torch.cuda.synchronize()
        return {}

    def gaps(self, gap_ms, count):
        first = []
        for _ in range(count):
            time.sleep(1e-3 * gap_ms)
            began = time.perf_counter()
            self.begin_step()
            self.torch.cuda.synchronize()
            first.append(1e6 * (time.perf_counter() - began))
            for _ in range(LAYERS - 1):
                self.collective()
            self.torch.cuda.synchronize()
        return {"first_us": first}

    def decode(self, gap_ms, tokens):
        began = time.perf_counter()
        for _ in range(tokens):
            self.layers()
            self.torch.cuda.synchronize()
            time.sleep(1e-3 * gap_ms)
        return {"tokens_per_second": tokens / (time.perf_counter() - began)}

    def running(self, steps):
        """The device is never idle: products on the default stream, and a burst of collectives every 30 ms or so."""
        product = self.torch.empty_like(self.left)
        self.torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            self.begin_step()
            for _ in range(LAYERS):
                self.collective()
            for _ in range(150):
                self.torch.mm(self.left, self.left, out=product)
            self.torch.cuda.current_stream().synchronize()
        return {"seconds": (time.perf_counter() - began) / steps}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--interval", type=int, default=2000, help="between two ghosts, in microseconds")
    parser.add_argument("--quick", action="store_true", help="fewer gaps")
    parser.add_argument("--output", help="a file for all numbers, as JSON")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        ranks.serve(Rank())
        return
    unknown = set(arguments.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    ranks.require_gpu()
    try:
        right = conduct(arguments)
    except ranks.Ended as why:
        print(why)
        right = False
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
