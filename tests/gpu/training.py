"""A small language model under DDP, without the library and with compression: does it learn the same, and what
does the host pay?

    AIRAMP_BIN=… python3 tests/gpu/training.py [--ranks 4] [--seeds 3] [--steps 300] [--output FOLDER]

Ranks without the library, ranks that it passes through, and ranks that it compresses for are up at once on one GPU
and take turns. The host's time comes first, in as many turns as there is time for beside one seed. Losses: mean over the last 20 steps, per seed, with fp32 and with bf16 gradients; the difference is
set against the spread over seeds without the library. Host: on a larger model with DDP's own bucket size, (a)
processor time per step, of the whole process and of the threads that call NCCL, (b) thread time inside
dist.all_reduce of the middle bucket, times the number of buckets. Each run's loss is printed as it comes; the curves are written as
JSON after each run and, at the end, as SVG.
Exit status: 0 same curves and compression happened, 1 not so, 77 no GPU.
"""

import os
import statistics
import sys

import loss_chart
import ranks
import suite_part
from suite_part import mean

SMALL = {"width": 256, "layers": 4, "heads": 4, "context": 128}
LARGE = {"width": 768, "layers": 12, "heads": 12, "context": 256}
SETTINGS = {"AIRAMP_MIN_BYTES": str(256 << 10)}
LAST = 20
HOST_STEPS, ENQUEUES = 6, 40


# Of the time: what the host's measurement leaves for the losses, and what that and a pair of runs take at least.
KEPT, A_MEASUREMENT, A_PAIR = 60, 30, 10


def learn(part, jobs, arguments):
    """Every seed with both kinds of gradients, in turns, while there is time: gradients -> [(how, seed, losses)], and calls."""
    curves, calls = {}, {}
    longest = A_PAIR
    for seed in range(arguments.seeds):
        for gradients in ("fp32", "bf16"):
            if part.left() < longest:
                part.say(f"no time for seed {seed}, {gradients} gradients")
                continue
            before = part.left()
            for how in ("without", "compressed"):
                request = dict(do="train", shape=SMALL, batch=8, gradients=gradients, seed=seed, bucket_mb=4)
                answers = jobs[how].ask(dict(request, steps=arguments.steps))
                losses = [mean(step) for step in zip(*[answer["losses"] for answer in answers])]
                curves.setdefault(gradients, []).append((how, seed, losses))
                calls.setdefault((gradients, how), []).append([answer["compressed"] for answer in answers])
                part.say(f"seed {seed}, {gradients} gradients, {how:10}: loss {mean(losses[-LAST:]):.4f}")
                part.put(curves={kind: [dict(zip(("how", "seed", "losses"), run)) for run in of] for kind, of in curves.items()})
            longest = max(longest, 1.2 * (before - part.left()))
    return curves, calls


def last_loss(runs, how, seed):
    losses = next(losses for run_how, run_seed, losses in runs if (run_how, run_seed) == (how, seed))
    return mean(losses[-LAST:])


def compare(part, gradients, runs):
    """Prints a table; the difference must be within what seeds alone do."""
    seeds = sorted({seed for _, seed, _ in runs})
    without = [last_loss(runs, "without", seed) for seed in seeds]
    compressed = [last_loss(runs, "compressed", seed) for seed in seeds]
    differences = [b - a for a, b in zip(without, compressed)]
    spread = max(without) - min(without)
    print(f"\n{gradients} gradients: loss, mean of the last {LAST} steps")
    print(f"{'seed':>6}{'without':>10}{'compressed':>12}{'difference':>12}{'spread':>9}")
    for seed, row in zip(seeds, zip(without, compressed, differences)):
        print(f"{seed:>6}{row[0]:10.4f}{row[1]:12.4f}{row[2]:+12.4f}{spread:9.4f}")
    same = abs(mean(differences)) <= spread and max(map(abs, differences)) <= 2 * spread
    fell = all(last_loss(runs, how, seed) < mean(losses[:3]) / 2 for how, seed, losses in runs)
    line = dict(gradients=gradients, without=without, compressed=compressed, spread=spread)
    part.put(losses=[*part.data.get("losses", []), line])
    found = f"{mean(without):.4f} without, {mean(compressed):.4f} compressed, {mean(differences):+.4f} apart, spread {spread:.4f}, {len(seeds)} seeds"
    # One seed has no spread.
    part.check(f"{gradients} gradients: the losses differ less than seeds do", same if len(seeds) > 1 else None, found)
    part.check(f"{gradients} gradients: every loss falls by half", fell, f"to {max(without + compressed):.4f} at most")


def happened(part, calls, steps):
    """Every rank must have compressed in every run."""
    runs = {gradients: of for (gradients, how), of in calls.items() if how == "compressed"}
    right = all(count for of in runs.values() for run in of for count in run) if runs else None
    shown = ", ".join(f"{gradients}: {of[0][0]} AllReduces compressed in {steps} steps" for gradients, of in runs.items())
    part.check("every run was compressed, on every rank", right, shown or "no time")


def measure_host(part, jobs, arguments):
    """Turns of a larger model in changing order, while there is time for one like the longest: how -> answers of all ranks and turns."""
    found = {how: [] for how in jobs}
    order, longest = list(jobs), 0
    for number in range(arguments.rounds):
        if number and part.left() < KEPT + longest:
            part.say(f"{number} of {arguments.rounds} rounds of the host's time, for want of time")
            break
        before = part.left()
        for how in order[number % len(order) :] + order[: number % len(order)]:
            request = dict(do="host", shape=LARGE, batch=4, gradients="fp32", seed=0, bucket_mb=25)
            found[how] += jobs[how].ask(dict(request, steps=HOST_STEPS))
        longest = max(longest, before - part.left())
        part.put(host=found)
    return found


def measure_enqueue(jobs, buckets):
    """Seconds inside dist.all_reduce per step: how -> the median over ranks and turns."""
    middle, found = sorted(buckets)[len(buckets) // 2], {how: [] for how in jobs}
    for _ in range(2):
        for how, job in jobs.items():
            answers = job.ask(dict(do="enqueue", elements=middle, calls=ENQUEUES))
            found[how] += [answer["seconds"] for answer in answers]
    return {how: len(buckets) * statistics.median(seconds) for how, seconds in found.items()}


def print_host(found, enqueue, buckets):
    def middle(how, field):
        return statistics.median(field(answer) for answer in found[how])

    fields = {
        "wall": lambda answer: answer["wall"],
        "process": lambda answer: answer["process"],
        "calling threads": lambda answer: answer["threads"]["application"],
        "NCCL's threads": lambda answer: answer["threads"]["nccl"],
    }
    sizes = ", ".join(f"{4 * size / 2**20:.1f}" for size in buckets)
    print(f"\nhost, per step of a larger model, ms, median over ranks and turns; AllReduces of MiB: {sizes}")
    print(f"{'':14}" + "".join(f"{name:>17}" for name in fields) + f"{'in all_reduce':>17}")
    values = {how: [middle(how, field) for field in fields.values()] + [enqueue[how]] for how in found}
    for how, row in values.items():
        print(f"{how:14}" + "".join(f"{1000 * value:17.3f}" for value in row))
    wall = values["without"][0]
    added = {}
    print(f"added, percent of the {1000 * wall:.1f} ms that a step takes without the library:")
    for how in values:
        if how != "without":
            parts = [100 * (value - bare) / wall for value, bare in zip(values[how], values["without"])]
            print(f"{how:14}{'':17}" + "".join(f"{part:+16.2f}%" for part in parts[1:]))
            added[how] = parts[-1]
    return added


def draw(part, curves):
    picture = os.path.splitext(part.file)[0] + ".svg"
    with open(picture, "w") as file:
        file.write(loss_chart.chart({f"{kind} gradients": of for kind, of in curves.items()}))
    print(f"\ncurves: {part.file}, {picture}")


def started(part, jobs, arguments):
    """Says what the communicators became; exactly the right ones must compress."""
    right = True
    for how, job in jobs.items():
        answers = job.ask({"do": "hello"})
        on = sum(answer["compressed"] is not None for answer in answers)
        right = right and on == (len(answers) if how == "compressed" else 0)
        part.put(machine={"torch": answers[0]["torch"]})
        part.say(f"{how}: communicator made at once by PyTorch {answers[0]['torch']}; compression on in {on} of {len(answers)} ranks")
        for line in job.complaints():
            print(f"    {line}")
    right = right or arguments.device == "cpu"
    part.check("compression is on where it should be, and nowhere else", right, f"{arguments.ranks} ranks")
    return right


def measure(part, jobs, arguments):
    """The host's part: what a step costs it."""
    if part.left() < A_MEASUREMENT:
        return part.check("the host's time inside our calls below 1% of a core", None, "no time")
    found = measure_host(part, jobs, arguments)
    buckets = found["without"][0]["buckets"]
    enqueue = measure_enqueue(jobs, buckets)
    added = print_host(found, enqueue, buckets)
    part.put(enqueue_seconds_per_step=enqueue, added_percent=added)
    part.check("the host's time inside our calls below 1% of a core", added["compressed"] < 1, f"{added['compressed']:.2f}% added")


def conduct(arguments):
    part = suite_part.Part("training", arguments)
    part.put(ranks=arguments.ranks, steps=arguments.steps)
    hows = ("without", "passthrough", "compressed")
    options = ["--device", arguments.device]
    jobs = {how: ranks.Ranks(__file__, arguments.ranks, how, SETTINGS, options) for how in hows}
    try:
        if started(part, jobs, arguments):
            if arguments.rounds:
                measure(part, jobs, arguments)
            curves, calls = learn(part, jobs, arguments)
            for kind, runs in curves.items():
                compare(part, kind, runs)
            happened(part, calls, arguments.steps)
            draw(part, curves)
    except ranks.Ended as ended:
        part.check("the ranks live", False, str(ended))
    finally:
        for job in jobs.values():
            job.close()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 600)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=4, help="turns for the host's time, at most; 0: do not measure it")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from training_rank import Rank

        ranks.serve(Rank(arguments.device))
        return
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
