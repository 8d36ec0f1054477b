"""A small language model under DDP, without the library and with compression: does it learn the same, and what
does the host pay?

    AIRAMP_BIN=… python3 tests/gpu/training.py [--ranks 4] [--seeds 3] [--steps 300] [--output training.json]

Ranks without the library, ranks that it passes through, and ranks that it compresses for are up at once on one GPU
and take turns. Losses: mean over the last 20 steps, per seed, with fp32 and with bf16 gradients; the difference is
set against the spread over seeds without the library. Host: on a larger model with DDP's own bucket size, (a)
processor time per step, of the whole process and of the threads that call NCCL, (b) thread time inside
dist.all_reduce of the middle bucket, times the number of buckets. Writes the curves as JSON and, beside it, as SVG.
Exit status: 0 same curves and compression happened, 1 not so, 77 no GPU.
"""

import argparse
import json
import os
import statistics
import sys

import loss_chart
import ranks

SMALL = {"width": 256, "layers": 4, "heads": 4, "context": 128}
LARGE = {"width": 768, "layers": 12, "heads": 12, "context": 256}
SETTINGS = {"AIRAMP_MIN_BYTES": str(256 << 10)}
LAST = 20
HOST_STEPS, ENQUEUES = 6, 40


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def learn(jobs, arguments):
    """Every seed with both kinds of gradients, in turns: gradients -> [(how, seed, losses)], and calls."""
    curves, calls = {}, {}
    for gradients in ("fp32", "bf16"):
        for seed in range(arguments.seeds):
            for how in ("without", "compressed"):
                request = dict(do="train", shape=SMALL, batch=8, gradients=gradients, seed=seed, bucket_mb=4)
                answers = jobs[how].ask(dict(request, steps=arguments.steps))
                losses = [mean(step) for step in zip(*[answer["losses"] for answer in answers])]
                curves.setdefault(gradients, []).append((how, seed, losses))
                calls.setdefault((gradients, how), []).append([answer["compressed"] for answer in answers])
    return curves, calls


def last_loss(runs, how, seed):
    losses = next(losses for run_how, run_seed, losses in runs if (run_how, run_seed) == (how, seed))
    return mean(losses[-LAST:])


def compare(gradients, runs, seeds):
    """Prints a table; True if the difference is within what seeds alone do."""
    without = [last_loss(runs, "without", seed) for seed in range(seeds)]
    compressed = [last_loss(runs, "compressed", seed) for seed in range(seeds)]
    differences = [b - a for a, b in zip(without, compressed)]
    spread = max(without) - min(without)
    print(f"\n{gradients} gradients: loss, mean of the last {LAST} steps")
    print(f"{'seed':>6}{'without':>10}{'compressed':>12}{'difference':>12}{'spread':>9}")
    for seed, row in enumerate(zip(without, compressed, differences)):
        print(f"{seed:>6}{row[0]:10.4f}{row[1]:12.4f}{row[2]:+12.4f}{spread:9.4f}")
    same = abs(mean(differences)) <= spread and max(map(abs, differences)) <= 2 * spread
    fell = all(last_loss(runs, how, seed) < mean(losses[:3]) / 2 for how, seed, losses in runs)
    print(f"{'mean':>6}{mean(without):10.4f}{mean(compressed):12.4f}{mean(differences):+12.4f}{spread:9.4f}", end="  ")
    print("within the spread" if same else "BEYOND THE SPREAD", "" if fell else "but a loss DID NOT FALL by half")
    return same and fell


def happened(calls, steps):
    """Whether every rank compressed in every run; prints how many calls."""
    right = True
    for (gradients, how), runs in calls.items():
        if how == "compressed":
            right = right and all(count for run in runs for count in run)
            print(f"{gradients}: {runs[0][0]} AllReduces compressed in {steps} steps, per rank and seed")
    return right


def measure_host(jobs, arguments):
    """Turns of a larger model in changing order: how -> answers of all ranks and turns."""
    found = {how: [] for how in jobs}
    order = list(jobs)
    for number in range(arguments.rounds):
        for how in order[number % len(order) :] + order[: number % len(order)]:
            request = dict(do="host", shape=LARGE, batch=4, gradients="fp32", seed=0, bucket_mb=25)
            found[how] += jobs[how].ask(dict(request, steps=HOST_STEPS))
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


def write(arguments, curves, found, enqueue):
    with open(arguments.output, "w") as file:
        names = ("how", "seed", "losses")
        runs = {kind: [dict(zip(names, run)) for run in of] for kind, of in curves.items()}
        json.dump({"curves": runs, "host": found, "enqueue_seconds_per_step": enqueue}, file)
    picture = os.path.splitext(arguments.output)[0] + ".svg"
    with open(picture, "w") as file:
        file.write(loss_chart.chart({f"{kind} gradients": of for kind, of in curves.items()}))
    print(f"\ncurves: {arguments.output}, {picture}")


def started(jobs, arguments):
    """Says what the communicators became; True if exactly the right ones compress."""
    right = True
    for how, job in jobs.items():
        answers = job.ask({"do": "hello"})
        on = sum(answer["compressed"] is not None for answer in answers)
        right = right and on == (len(answers) if how == "compressed" else 0)
        version = answers[0]["torch"]
        print(f"{how}: communicator made at once by PyTorch {version}; compression on in {on} of {len(answers)} ranks")
        for line in job.complaints():
            print(f"    {line}")
    return right or arguments.device == "cpu"


def conduct(arguments):
    hows = ("without", "passthrough", "compressed")
    options = ["--device", arguments.device]
    jobs = {how: ranks.Ranks(__file__, arguments.ranks, how, SETTINGS, options) for how in hows}
    try:
        if not started(jobs, arguments):
            print("FAILED: compression is not on where it should be, or on where it should not")
            return False
        curves, calls = learn(jobs, arguments)
        right = all([compare(kind, runs, arguments.seeds) for kind, runs in curves.items()])
        compressed = happened(calls, arguments.steps)
        found, enqueue = {}, {}
        if arguments.rounds:
            found = measure_host(jobs, arguments)
            buckets = found["without"][0]["buckets"]
            enqueue = measure_enqueue(jobs, buckets)
            added = print_host(found, enqueue, buckets)["compressed"]
            print(f"host processor time added inside our calls: {added:.2f}% of one core (asked for: less than 1%)")
            right = right and added < 1
        write(arguments, curves, found, enqueue)
        words = "ok: same curves, host below 1%" if right else "FAILED: the curves differ, or the host works more"
        words = words if compressed else "FAILED: not every run was compressed"
        print(words, f"({arguments.seeds} seeds, {arguments.steps} steps)")
        return right and compressed
    except ranks.Ended as ended:
        print(f"FAILED: {ended}")
        return False
    finally:
        for job in jobs.values():
            job.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=4, help="turns for the host's time; 0: do not measure it")
    parser.add_argument("--output", default="training.json", help="file for the curves; the SVG lies beside it")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from training_rank import Rank

        ranks.serve(Rank(arguments.device))
        return
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(0 if conduct(arguments) else 1)


if __name__ == "__main__":
    main()
