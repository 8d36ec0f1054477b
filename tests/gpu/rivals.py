"""AIRamp beside what a user would pick instead: same model, same wire of 10 Gbit/s, four ranks, in one run.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/rivals.py [--ranks 4] [--rate 10gbit] [--seconds 110]

NCCL as it comes and with the best of a few settings, DDP's fp16 and bf16 hooks, the PowerSGD hook, NCCL's own AllReduce on
fp8, fp8 by all-to-all in PyTorch (both in rival_ways.py), and the library with AIRAMP_ENABLE_FP8_ALLREDUCE=1 and nothing
else. For each: time of one AllReduce of 64 MiB of fp32 and its error against fp64, time and bytes of a step of DDP, the error of
the gradients, the loss after so many steps, and how many lines a training script grows. All jobs are up at once and take
turns. The only thing judged is that the library is faster than NCCL. Exit status: 0, 1, 77 no GPU.
"""

import contextlib
import sys

import loopback
import ranks
import suite_part
from convergence import DETERMINISTIC
from end_to_end import SHAPE, TINY

TUNINGS = {
    "ring, Simple": {"NCCL_ALGO": "allreduce:ring", "NCCL_PROTO": "allreduce:simple"},
    "tree": {"NCCL_ALGO": "allreduce:tree"},
    "4 threads with 4 sockets each": {"NCCL_SOCKET_NTHREADS": "4", "NCCL_NSOCKS_PERTHREAD": "4"},
    "buffers of 16 MiB, 8 channels": {"NCCL_BUFFSIZE": str(16 << 20), "NCCL_MIN_NCHANNELS": "8"},
}
# Shown as, the job that it runs in, the way.
RIVALS = (
    ("NCCL", "default", "plain"),
    ("NCCL, best settings", "best", "plain"),
    ("DDP fp16_compress_hook", "default", "fp16"),
    ("DDP bf16_compress_hook", "default", "bf16"),
    ("DDP PowerSGD hook, rank 2", "default", "powersgd"),
    ("NCCL's own fp8, by ctypes", "default", "native_fp8"),
    ("fp8 by all-to-all in PyTorch", "default", "all_to_all_fp8"),
    ("AIRamp", "airamp", "plain"),
)
ELEMENTS, CALLS, WARM_UP, STEPS = 16 << 20, 3, 6, 12
MOST_TURNS = 8


def start(arguments):
    options = ["--device", arguments.device]

    def job(how, common):
        return ranks.Ranks(__file__, arguments.ranks, how, None, options, limit=90, common={**DETERMINISTIC, **ranks.WIRE, **common})

    jobs = {"default": job("without", {}), "airamp": job("tuned", {})}
    if arguments.device == "cuda":
        jobs.update({name: job("without", settings) for name, settings in TUNINGS.items()})
    return jobs


def seconds_of(answers):
    """The last rank to arrive waits for nobody."""
    return min(answer["seconds"] for answer in answers)


def takes_gpu(way):
    """NCCL itself, by ctypes: gloo has nothing like it."""
    return way == "native_fp8"


def raw(part, jobs, size, device):
    """One AllReduce by each way; and which settings of NCCL are the best."""
    request = dict(do="raw", elements=size, calls=CALLS, data="normal")
    tuned = {}
    for name, job in jobs.items():
        if name != "airamp":
            tuned[name] = seconds_of(job.ask(dict(request, way="plain")))
    best = min(tuned, key=tuned.get)
    part.put(settings={name: round(1000 * seconds, 2) for name, seconds in tuned.items()}, best_settings=best)
    part.say("64 MiB, ms, by settings of NCCL: " + ", ".join(f"{name} {1000 * value:.1f}" for name, value in tuned.items()))
    jobs["best"] = jobs[best]
    settle(part, jobs["airamp"], dict(request, way="plain", calls=4))
    found = {}
    for shown, job, way in RIVALS:
        if way == "powersgd" or takes_gpu(way) and device == "cpu":
            continue
        try:
            before = suite_part.bytes_on_the_wire()
            normal = jobs[job].ask(dict(request, way=way))
            sent = (suite_part.bytes_on_the_wire() - before) / (CALLS + 1)
            skewed = jobs[job].ask(dict(request, way=way, calls=0, data="lognormal"))
        except ranks.Ended as ended:
            found[shown] = {"failed": str(ended)}
            part.say(f"{shown}: {ended}")
            continue
        found[shown] = {"ms": 1000 * seconds_of(normal), "bytes": sent, "vnmse": normal[0]["vnmse"]}
        found[shown].update(vnmse_lognormal=skewed[0]["vnmse"], compressed=normal[0]["compressed"])
        part.put(raw=found)
        part.say(f"64 MiB, {shown}: {found[shown]['ms']:.1f} ms, {sent / 2**20:.0f} MiB, vNMSE {normal[0]['vnmse']:.1e}")
    return found


def settle(part, job, request):
    """Until the library has decided, bounded."""
    for turn in range(MOST_TURNS):
        answers = job.ask(dict(request))
        plan = answers[0]["plan"]
        if plan is None or (plan["compressed"] and not plan["tried"]):
            break
    part.say(f"the library's plan: {plan}")


def train(part, jobs, shape, device):
    found = {}
    how = dict(task="transformer", bucket_mb=25, **shape)
    warm = dict(how, do="train_as", way="plain", seed=9, steps=100, warm_up=20)
    jobs["airamp"].ask(warm)
    for shown, job, way in RIVALS:
        if takes_gpu(way) and device == "cpu":
            part.say(f"{shown}: takes a GPU")
            continue
        if part.left() < 8:
            part.say(f"{shown}: no time to train")
            continue
        try:
            total = WARM_UP + STEPS
            first = jobs[job].ask(dict(how, do="train_as", way=way, seed=0, steps=total, warm_up=WARM_UP))
            before = suite_part.bytes_on_the_wire()
            answers = jobs[job].ask(dict(do="train_on", steps=STEPS))
            sent = (suite_part.bytes_on_the_wire() - before) / STEPS
            error = jobs[job].ask(dict(do="gradient_error"))[0]["vnmse"]
        except ranks.Ended as ended:
            found[shown] = {"failed": str(ended)}
            part.say(f"{shown}: {ended}")
            continue
        losses = [suite_part.mean(step) for step in zip(*[a["losses"] + b["losses"] for a, b in zip(first, answers)])]
        row = {"step_ms": 1000 * max(answer["seconds"] for answer in answers), "bytes": sent, "vnmse": error}
        row.update(losses=losses, loss=suite_part.mean(losses[-6:]), compressed=answers[0]["compressed"])
        found[shown] = row
        part.put(trained=found)
        part.say(
            f"DDP, {shown}: {row['step_ms']:.1f} ms, {sent / 2**20:.0f} MiB a step, error {error:.1e}, loss {row['loss']:.4f}"
        )
    return found


def lines():
    """Asked of a Python with PyTorch, which the conductor may not be."""
    try:
        import rival_ways

        return rival_ways.LINES
    except ImportError:
        return {}


def table(found, trained):
    print(f"\n{'':32}{'64 MiB, ms':>12}{'vNMSE':>10}{'step, ms':>10}{'MiB/step':>10}{'error':>10}{'loss':>9}{'lines':>7}")
    grown = lines()
    for shown, _, way in RIVALS:
        one, many = found.get(shown, {}), trained.get(shown, {})
        cells = [one.get("ms"), one.get("vnmse"), many.get("step_ms")]
        cells += [many["bytes"] / 2**20 if "bytes" in many else None, many.get("vnmse"), many.get("loss")]
        forms = ("12.1f", "10.1e", "10.1f", "10.0f", "10.1e", "9.4f")
        text = "".join(
            "-".rjust(int(form.split(".")[0])) if cell is None else format(cell, form) for cell, form in zip(cells, forms)
        )
        print(f"{shown:32}{text}{grown.get(way, '-'):>7}")


def judge(part, what, found, field):
    """Against the faster of NCCL as it comes and with settings; what failed was said above."""
    bare = [found[name][field] for name in ("NCCL", "NCCL, best settings") if field in found.get(name, {})]
    ours = found.get("AIRamp", {}).get(field)
    if not bare or ours is None:
        part.check(f"{what} is faster than with NCCL at its best", False, "not measured")
        return
    part.check(f"{what} is faster than with NCCL at its best", min(bare) > ours, f"{min(bare) / ours:.2f}x")


def conduct(arguments):
    part = suite_part.Part("rivals", arguments)
    part.put(ranks=arguments.ranks, rate=arguments.rate, lines=lines(), ways={shown: way for shown, _, way in RIVALS})
    on_gpu = arguments.device == "cuda"
    jobs, found, trained = start(arguments), {}, {}
    try:
        for job in jobs.values():
            hello = job.ask({"do": "hello"})
        part.put(machine=hello[0])
        part.say(f"{len(jobs)} jobs are up")
        with loopback.Shaped(arguments.rate) if on_gpu else contextlib.nullcontext():
            found = raw(part, jobs, ELEMENTS if on_gpu else 4096, arguments.device)
            trained = train(part, jobs, SHAPE if on_gpu else TINY, arguments.device)
        judge(part, "DDP", trained, "step_ms")
        judge(part, "AllReduce of 64 MiB", found, "ms")
    except loopback.NotShaped as why:
        part.check("on a shaped wire", None, str(why))
    except ranks.Ended as ended:
        part.check("every job ran to its end", False, str(ended))
    finally:
        for job in jobs.values():
            job.close()
    table(found, trained)
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 110)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", default="10gbit", help="of loopback, as tc takes it")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from rivals_rank import Rank

        ranks.serve(Rank(arguments.device))
        return
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
