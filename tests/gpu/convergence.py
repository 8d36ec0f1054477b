"""Do models learn the same when gradients travel in 8 bits? A transformer and a convolutional net, by format.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/convergence.py [--ranks 4] [--seeds 3] [--steps 300] [--seconds 200]

Formats: none (the library is not there), e4m3, int8, auto, each in a job of its own; all jobs are up at once and train at
the same time on one GPU. Every AllReduce from 256 KiB on is compressed from the first step (AIRAMP_TEST_PLAN). Same seed,
same data in the same order, PyTorch's deterministic kernels. Final loss: the mean of the last 50 steps over all ranks,
and the loss on data that nobody trains on. Judged is the mean over seeds against none: at most 0.5% for E4M3, 0.1% for auto.

Beside it, without the library: `repeat`, the same once more, and `nudged`, with first weights that differ by a
millionth: what chance alone does. Exit status: 0 within the bounds, 1 not so, 77 no GPU.
"""

import sys
import threading

import ranks
import suite_part
from suite_part import mean

FORMATS = ("none", "e4m3", "int8", "auto")
MODELS = ("transformer", "convolutional")
BOUNDS = {"e4m3": 0.005, "auto": 0.001}
LAST, LEAST_SEEDS = 50, 3
# Of a seed's round, how much longer the next may take than the last.
CAUTION = 1.15
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


def jobs_of(arguments):
    """A job per format, and one more without the library for what chance does."""

    def job(form):
        how = "without" if form in ("none", "chance") else "compressed"
        settings = {"AIRAMP_MIN_BYTES": str(256 << 10), "AIRAMP_WIRE_FORMAT": form}
        options = ["--device", arguments.device]
        return ranks.Ranks(__file__, arguments.ranks, how, settings, options, limit=arguments.seconds, common=DETERMINISTIC)

    return {form: job(form) for form in (*FORMATS, "chance")}


def together(jobs, requests):
    """Each job's request at the same time; form -> answers. What one job failed with is raised."""
    found, failures = {}, []

    def ask(form, request):
        try:
            found[form] = jobs[form].ask(request)
        except ranks.Ended as ended:
            failures.append(ended)

    threads = [threading.Thread(target=ask, args=item) for item in requests.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return found


def run_of(model, seed, form, answers):
    """What the report needs of one run."""
    losses = [mean(step) for step in zip(*[answer["losses"] for answer in answers])]
    total = sum(answer["held_out"][0] for answer in answers)
    batches = sum(answer["held_out"][1] for answer in answers)
    run = {"model": model, "seed": seed, "format": form, "losses": [round(loss, 6) for loss in losses]}
    run.update(final=mean(losses[-LAST:]), held_out=total / max(1, batches), compressed=answers[0]["compressed"])
    run.update(calls=len(losses) * len(answers[0]["buckets"]), seconds=max(answer["seconds"] for answer in answers))
    return dict(run, parameters=answers[0]["parameters"], buckets=answers[0]["buckets"])


def train(part, jobs, arguments):
    """Seed by seed, so that what is cut off for lack of time is whole seeds."""
    runs, longest, skipped = [], 0.0, []
    for seed in range(arguments.seeds):
        for model in arguments.models.split(","):
            if part.left() < CAUTION * longest:
                skipped.append(f"{model} seed {seed}")
                continue
            before = part.left()
            request = dict(do="train", task=model, seed=seed, steps=arguments.steps)
            requests = {form: dict(request) for form in FORMATS}
            # The same again for the first seed, and a nudge for the others.
            chance = "repeat" if seed == 0 else "nudged"
            requests["chance"] = dict(request, nudge=0.0 if seed == 0 else 1e-6)
            for form, answers in together(jobs, requests).items():
                runs.append(run_of(model, seed, chance if form == "chance" else form, answers))
            longest = max(longest, before - part.left())
            part.put(runs=runs)
            shown = ", ".join(f"{run['format']} {run['final']:.4f}" for run in runs[-len(requests) :])
            part.say(f"{model}, seed {seed}: {shown} ({before - part.left():.0f} s)")
    return runs, skipped


def differences(runs, model, form, field):
    """Per seed, relative to none; empty where one of them is missing."""
    of = {run["seed"]: run[field] for run in runs if (run["model"], run["format"]) == (model, form)}
    bare = {run["seed"]: run[field] for run in runs if (run["model"], run["format"]) == (model, "none")}
    return [of[seed] / bare[seed] - 1 for seed in sorted(of) if seed in bare]


def judge(part, runs, arguments):
    summary = []
    for model in arguments.models.split(","):
        for form in (*FORMATS[1:], "repeat", "nudged"):
            final, held_out = (differences(runs, model, form, field) for field in ("final", "held_out"))
            if not final:
                continue
            line = {"model": model, "format": form, "seeds": len(final), "final": final, "held_out": held_out}
            summary.append(line)
            found = f"last {LAST} steps {100 * mean(final):+.3f}%, held out {100 * mean(held_out):+.3f}% ({len(final)} seeds)"
            if form in BOUNDS:
                holds = abs(mean(final)) <= BOUNDS[form]
                part.check(f"{model}: loss with {form} within {100 * BOUNDS[form]:.1f}% of none", holds, found)
            else:
                part.say(f"{model}, {form}: {found}")
    part.put(summary=summary)
    seeds = [len(line["final"]) for line in summary if line["format"] in FORMATS]
    part.check(
        f"at least {LEAST_SEEDS} seeds of every model",
        min(seeds, default=0) >= LEAST_SEEDS,
        f"{min(seeds, default=0)} to {max(seeds, default=0)}",
    )
    mine = [run for run in runs if run["format"] in FORMATS[1:]]
    share = min((run["compressed"] or 0) / max(1, run["calls"]) for run in mine) if mine else 0
    # DDP's first bucket, before it has cut the gradients anew, may be of another size.
    part.check("gradients were compressed", share > 0.7, f"at least {100 * share:.0f}% of the AllReduces of every run")
    fell = all(run["final"] < 0.8 * run["losses"][0] for run in runs)
    part.check("every model learnt", fell, "last loss against the first")


def conduct(arguments):
    part = suite_part.Part("convergence", arguments)
    jobs = jobs_of(arguments)
    try:
        hello = together(jobs, {form: {"do": "hello"} for form in jobs})
        on = {form: sum(answer["compressed"] is not None for answer in answers) for form, answers in hello.items()}
        part.put(machine=hello["none"][0], ranks=arguments.ranks, steps=arguments.steps, compressing_ranks=on)
        part.say(f"up: {on} ranks compress; {hello['none'][0]}")
        for form, job in jobs.items():
            for line in job.complaints()[:3]:
                part.say(f"{form}: {line}")
        elements = 16 << 20 if arguments.device == "cuda" else 4096
        errors = {form: jobs[form].ask({"do": "errors", "elements": elements})[0] for form in FORMATS}
        part.put(errors=errors)
        part.say("error of a sum: " + ", ".join(f"{form} {of['normal']:.1e}" for form, of in errors.items()))
        runs, skipped = train(part, jobs, arguments)
        if skipped:
            part.check("all seeds were trained", None, f"no time for {', '.join(skipped)}")
        judge(part, runs, arguments)
    except ranks.Ended as ended:
        part.check("every job ran to its end", False, str(ended))
    finally:
        for job in jobs.values():
            job.close()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from convergence_rank import Rank

        ranks.serve(Rank(arguments.device))
        return
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
