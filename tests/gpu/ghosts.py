"""Ghost kernels through the library: what an application's first work after a gap takes with them and without, and
what they cost it.

    AIRAMP_BIN=… python3 tests/gpu/ghosts.py [--seconds 240] [--pairs 6] [--program light|pytorch] [--output ghosts.json]
    … python3 tests/gpu/ghosts.py --decode 30 --seconds 400        the decode loop with its shortest gaps alone, in many pairs

Jobs of one rank, without ghosts and with them, in turns, in pairs whose order is turned round; one process at a time
has the GPU, since ghosts leave a device alone that others use (so: no MPS). Two processes of the same kind differ by more
than ghosts may bring, so many short jobs say more than few long ones; the ranges of the jobs' own medians are shown. What a pair
measures:

latency  the first kernel of the application's own and the first collective behind it after gaps of 1, 10, 100 ms, and
         in one pair 1 s, until the host sees their end; and the power drawn meanwhile
decode   a loop as of an inference server: 16 layers with a collective each, then a gap on the host; tokens per second, those
         among which the library finds out whether ghosts help too
running  a job that keeps the device busy between its collectives: ghosts must cost at most 0.5%

The program is ghost_rank.py (ctypes, no PyTorch), or with --program pytorch ghost_pytorch.py. No pair begins that would not end
within --seconds. Needs a GPU and NCCL. Exit status: 0 measured and the running job (with --decode: the loop) is not slowed by more
than 0.5%, in the middle of the pairs, 1 not so, 77 no GPU.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
import time

import ranks

# Gap in ms -> how many are measured in a job.
GAPS = {1: 200, 10: 100, 100: 24}
LONG_GAP_MS, LONG_GAPS = 1000, 20
# The library decides after 24 to 128 gaps of one length, the more the more the job varies; a few go by before the rhythm is known.
UNTIL_DECIDED = {1: 60, 10: 145, 100: 48, 1000: 30}
AFTER_A_PAUSE = 3
# Gap in ms -> tokens, from the first one on.
DECODE = {5: 400, 50: 60}
# Of each end, what the host held up or found done by chance.
TRIMMED = 0.05
RUNNING_STEPS = 60
MOST_SLOWED = 1.005
PROGRAMS = {"light": "ghost_rank.py", "pytorch": "ghost_pytorch.py"}
NAMES = {False: "without", True: "with"}


class Job(ranks.Ranks):
    """One rank, with ghosts at an interval in microseconds or without."""

    def __init__(self, program, ghosts, interval):
        self.ghosts, self.interval = ghosts, interval
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), PROGRAMS[program])
        super().__init__(script, 1, "passthrough", limit=90, shares_gpu=False)

    def environment(self, count, settings):
        mine = super().environment(count, settings)
        os.mkdir(self.telemetry())
        mine.update(AIRAMP_TELEMETRY_DIR=self.telemetry())
        if self.ghosts:
            mine.update(AIRAMP_ENABLE_GHOST_KERNELS="1", AIRAMP_GHOST_INTERVAL_US=str(self.interval))
        return mine

    def launched(self):
        """Ghosts so far, by the job's telemetry."""
        tool = os.path.join(os.path.dirname(ranks.library_file()), "airamp")
        shown = subprocess.run([tool, "status", "--json", "--telemetry-dir", self.telemetry()], capture_output=True)
        if shown.returncode != 0:
            raise ranks.Ended(f"airamp status, which counts ghosts: {shown.stderr.decode(errors='replace').strip() or 'no job'}")
        return sum(job["totals"]["ghosts"] for job in json.loads(shown.stdout)["jobs"])

    def telemetry(self):
        return os.path.join(self.folder, "telemetry")

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


def middle_mean(values):
    ordered, cut = sorted(values), int(TRIMMED * len(values))
    return statistics.mean(ordered[cut : len(ordered) - cut])


def latency(job, energy, gap_ms, count):
    if job.ghosts:
        job.ask(dict(do="gaps", gap_ms=gap_ms, count=UNTIL_DECIDED[gap_ms]))
    before, joules, began = job.launched(), energy.joules(), time.monotonic()
    # To ask for the ghosts is a pause of its own, behind which the rhythm has to be found again.
    [answer] = job.ask(dict(do="gaps", gap_ms=gap_ms, count=AFTER_A_PAUSE + count))
    answer = {what: values[AFTER_A_PAUSE:] for what, values in answer.items()}
    watts = (energy.joules() - joules) / (time.monotonic() - began)
    return dict(answer, watts=watts, ghosts=job.launched() - before)


def decode(job, gap_ms, tokens):
    before = job.launched()
    [answer] = job.ask(dict(do="decode", gap_ms=gap_ms, tokens=tokens))
    return dict(answer, ghosts=job.launched() - before)


def measure(arguments, ghosts, energy, rounds):
    """All that one job of a pair measures."""
    with Job(arguments.program, ghosts, arguments.interval) as job:
        [ready] = job.ask(dict(do="warm_up", rounds=rounds))
        found = {"rounds": ready["rounds"]}
        found["latency"] = {str(gap): latency(job, energy, gap, count) for gap, count in GAPS.items()}
        found["decode"] = {str(gap): decode(job, gap, tokens) for gap, tokens in DECODE.items()}
        # Last: what it shows of gaps of its length would hold for the others, too.
        before = job.launched()
        [found["running"]] = job.ask(dict(do="running", steps=RUNNING_STEPS))
        found["running"]["ghosts"] = job.launched() - before
        found["said"] = job.said() + job.complaints()
        return found


def measure_decode(arguments, ghosts, energy, rounds):
    with Job(arguments.program, ghosts, arguments.interval) as job:
        [ready] = job.ask(dict(do="warm_up", rounds=rounds))
        gap = min(DECODE)
        found = {"rounds": ready["rounds"], "decode": {str(gap): decode(job, gap, DECODE[gap])}}
        found["said"] = job.said() + job.complaints()
        return found


def measure_long_gaps(arguments, ghosts, energy, rounds):
    with Job(arguments.program, ghosts, arguments.interval) as job:
        job.ask(dict(do="warm_up", rounds=rounds))
        found = {"latency": {str(LONG_GAP_MS): latency(job, energy, LONG_GAP_MS, LONG_GAPS)}}
        found["said"] = job.said() + job.complaints()
        return found


def show_latency(pairs, what, title):
    heads = f"{'gap ms':>8}  {'':10}{'median':>9}{'p99':>9}{'watts':>8}{'gaps':>6}{'ghosts':>8}  jobs' own medians"
    print(f"\n{title}, us until its end is seen\n{heads}")
    for gap in [*map(str, GAPS), str(LONG_GAP_MS)]:
        medians = []
        for ghosts in (False, True):
            rows = [pair[ghosts]["latency"][gap] for pair in pairs if gap in pair[ghosts].get("latency", {})]
            values = [value for row in rows for value in row[what]]
            if values:
                medians.append(statistics.median(values))
                watts = statistics.mean(row["watts"] for row in rows)
                line = f"{gap:>8}  {NAMES[ghosts]:10}{medians[-1]:9.1f}{percentile(values, 0.99):9.1f}{watts:8.0f}"
                own = sorted(statistics.median(row[what]) for row in rows)
                launched = sum(row["ghosts"] for row in rows)
                print(f"{line}{len(values):6}{launched:8}  {' '.join(f'{median:.1f}' for median in own)}")
        if len(medians) == 2:
            print(f"{'':8}  {'ratio':10}{medians[1] / medians[0]:9.3f}")


def show_decode(pairs):
    """Whether the loop with the shortest gaps is not slowed, as far as the pairs tell."""
    print(f"\ndecode loop, tokens per second, of each pair\n{'gap ms':>8}  {'without':>9}{'with':>9}{'ratio':>8}{'ghosts':>8}")
    middles = {}
    for gap in map(str, DECODE):
        ratios = []
        for pair in pairs:
            if all(gap in pair[ghosts].get("decode", {}) for ghosts in pair):
                rate = [1 / middle_mean(pair[ghosts]["decode"][gap]["seconds"]) for ghosts in (False, True)]
                launched = pair[True]["decode"][gap]["ghosts"]
                ratios.append(rate[1] / rate[0])
                print(f"{gap:>8}  {rate[0]:9.2f}{rate[1]:9.2f}{ratios[-1]:8.4f}{launched:8}")
        if len(ratios) > 1:
            low, middles[gap], high = statistics.quantiles(ratios, n=4)
            # Of a median, as of a normal distribution.
            known = 1.25 * (high - low) / 1.35 / len(ratios) ** 0.5
            print(f"{gap:>8}  {'in the middle':>18}{middles[gap]:8.4f}, known to {known:.4f}")
    return middles.get(str(min(DECODE)), 0) >= 1 / MOST_SLOWED


def show_running(pairs):
    ratios = []
    print("\na job that keeps the device busy, ms a step, of each pair")
    for pair in pairs:
        if "running" in pair[False] and "running" in pair[True]:
            step = [1000 * statistics.median(pair[ghosts]["running"]["seconds"]) for ghosts in (False, True)]
            ratios.append(step[1] / step[0])
            launched = f"{pair[True]['running']['ghosts']} ghosts"
            print(f"{'':10}without {step[0]:9.3f}  with {step[1]:9.3f}  {100 * (ratios[-1] - 1):+.3f}%  {launched}")
    if not ratios:
        return False
    slowed = statistics.median(ratios)
    print(f"{'':10}in the middle {100 * (slowed - 1):+.3f}% (allowed: {100 * (MOST_SLOWED - 1):.1f}%)")
    return slowed <= MOST_SLOWED


def turns(arguments, energy):
    """The pairs, as long as there is time for another one; of long gaps one, behind the first. Or pairs that only decode."""
    began, pairs, rounds, longest = time.monotonic(), [], 0, 0.0
    plan = [measure, measure_long_gaps] + [measure] * (arguments.pairs - 1)
    if arguments.decode:
        plan = [measure_decode] * arguments.decode
    for number, part in enumerate(plan):
        started = time.monotonic()
        # Long gaps: both jobs' gaps and those in which the library decides.
        needed = LONG_GAPS * 2 + UNTIL_DECIDED[LONG_GAP_MS] + 10 if part is measure_long_gaps else longest
        if started - began + needed > arguments.seconds:
            print(f"left out for want of time: {part.__name__}")
            continue
        pair = {}
        for ghosts in (False, True) if number % 2 == 0 else (True, False):
            pair[ghosts] = part(arguments, ghosts, energy, rounds)
            rounds = rounds or pair[ghosts].get("rounds", 0)
        pairs.append(pair)
        if part is not measure_long_gaps:
            longest = max(longest, 1.1 * (time.monotonic() - started))
    return pairs


def conduct(arguments):
    pairs = turns(arguments, Energy())
    for pair in pairs:
        for line in pair[True]["said"] + pair[False]["said"]:
            print(f"    {line}")
    if arguments.decode:
        right = show_decode(pairs)
    else:
        show_latency(pairs, "kernel_us", "the application's own first kernel")
        show_latency(pairs, "first_us", "the first collective, behind that kernel")
        show_decode(pairs)
        right = show_running(pairs)
    if not any(row["ghosts"] for pair in pairs for what in ("latency", "decode") for row in pair[True].get(what, {}).values()):
        print("FAILED: no ghost was launched")
        right = False
    if arguments.output:
        with open(arguments.output, "w") as file:
            named = [{NAMES[ghosts]: found for ghosts, found in pair.items()} for pair in pairs]
            json.dump({"interval_us": arguments.interval, "program": arguments.program, "pairs": named}, file)
    print("ok" if right else "FAILED: see above, or a running job is slowed")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--pairs", type=int, default=6)
    parser.add_argument("--decode", type=int, default=0, metavar="PAIRS", help="nothing but so many pairs of the decode loop")
    parser.add_argument("--program", choices=PROGRAMS, default="light")
    parser.add_argument("--interval", type=int, default=2000, help="between two ghosts, in microseconds")
    parser.add_argument("--output", help="a file for all numbers, as JSON")
    arguments = parser.parse_args()
    ranks.require_gpu()
    try:
        right = conduct(arguments)
    except ranks.Ended as why:
        print(why)
        right = False
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
