"""Compression that switches itself on, under PyTorch and real NCCL: AIRAMP_ENABLE_FP8_ALLREDUCE=1 and nothing else.

    AIRAMP_BIN=… python3 tests/gpu/tuning.py [--ranks 4] [--rate 10gbit] [--parts ramp,unshaped,small,missing,graphs,killed]

ramp      DDP with fp32 gradients on a loopback of 10 Gbit/s: the job that tunes itself beside one without the library, in
          turns; at least 3 times as fast once it has decided
unshaped  the same as fast as loopback is: at least 0.98 times as fast
small     many small AllReduces: at least 0.98 times as fast
missing   one rank without LD_PRELOAD: every sum exact, nobody compresses, nobody hangs
graphs    CUDA graphs captured before, during and after tuning replay what they hold, the same bits on all ranks
killed    a rank is killed at random: the others end as without the library, with an error, no later than by the time-out;
          without MPS, which ends all of its clients when one of them is killed

Needs a GPU, PyTorch, and for ramp root and tc. Exit status: 0 all parts are right, 1 not so, 77 no GPU.
"""

import collections
import concurrent.futures
import os
import random
import statistics
import sys
import time

import loopback
import ranks
import suite_part

# Bound by communication: many parameters, few tokens.
SHAPE = {"width": 768, "layers": 12, "heads": 12, "context": 32}
STEPS, TURNS, MOST_TURNS = 6, 4, 40
PARTS = ("ramp", "unshaped", "small", "missing", "graphs", "killed")
LEAST_GAIN, LEAST_KEPT = 3.0, 0.98
# Of a rank's time-out, in seconds; a job that was struck must have ended soon after.
TIME_OUT = 30
STRUCK_TIME_OUT, PATIENCE = 10, 60
# Which jobs lose a rank: without the library first, to compare with; and how many of each at the same time.
STRUCK, AT_A_TIME = ("without", "tuned", "compressed"), 4
# PyTorch's own waits before it ends a process whose calls have timed out.
AT_ONCE = {"TORCH_NCCL_DUMP_ON_TIMEOUT": "0", "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "10", "GPU_TEST_TIME_OUT": str(STRUCK_TIME_OUT)}


def jobs_of(arguments, hows=("without", "tuned"), **more):
    return {how: ranks.Ranks(__file__, arguments.ranks, how, limit=240, common=ranks.WIRE, **more) for how in hows}


def close(jobs):
    for job in jobs.values():
        job.close()


def settle(job, request):
    """Steps until the library compresses and its plan has stayed the same for a turn, bounded; the seconds until then and
    whether it compresses. A class that is being tried and never comes again (DDP's first bucket) decides nothing."""
    began, before = time.monotonic(), None
    for _ in range(MOST_TURNS):
        plans = [answer["plan"] for answer in job.ask(dict(request))]
        if any(plan is None for plan in plans):
            return time.monotonic() - began, False
        if plans == before and all(plan["compressed"] for plan in plans):
            return since, True
        if plans != before:
            since = time.monotonic() - began
        before = plans
    return time.monotonic() - began, all(plan["compressed"] for plan in before)


def in_turns(jobs, request):
    """The median time of a step of each job, measured in turns."""
    found = {how: [] for how in jobs}
    for _ in range(TURNS):
        for how, job in jobs.items():
            found[how].append(max(answer["seconds"] for answer in job.ask(dict(request))))
    return {how: statistics.median(seconds) for how, seconds in found.items()}


def train(arguments, least, must_compress):
    jobs = jobs_of(arguments)
    try:
        request = dict(do="steps", shape=SHAPE, batch=1, steps=STEPS)
        jobs["without"].ask(dict(request))
        took, compresses = settle(jobs["tuned"], request)
        times = in_turns(jobs, request)
        gain = times["without"] / times["tuned"]
        print(f"    decided after {took:.1f} s, {'compresses' if compresses else 'does not compress'}")
        for how, seconds in times.items():
            print(f"    {how:10}{1000 * seconds:10.1f} ms a step")
        for line in jobs["tuned"].complaints():
            print(f"    {line}")
        steps = {how: f"{1000 * seconds:.1f} ms" for how, seconds in times.items()}
        found = f"{gain:.2f} times (asked for: {least:.2f}); a step {steps['without']} without, {steps['tuned']} with; decided after {took:.1f} s"
        return gain >= least and (compresses or not must_compress), found, dict(gain=gain, seconds=times, decided_s=took)
    finally:
        close(jobs)


def part_ramp(arguments):
    with loopback.Shaped(arguments.rate):
        return train(arguments, LEAST_GAIN, True)


def part_unshaped(arguments):
    return train(arguments, LEAST_KEPT, False)


def part_small(arguments):
    jobs = jobs_of(arguments)
    try:
        request = dict(do="small", calls=400)
        for job in jobs.values():
            for _ in range(4):
                job.ask(dict(request))
        times = in_turns(jobs, request)
        kept = times["without"] / times["tuned"]
        return kept >= LEAST_KEPT, f"{kept:.3f} times as fast (asked for: {LEAST_KEPT:.2f})", dict(kept=kept)
    finally:
        close(jobs)


def part_missing(arguments):
    right, shown = True, []
    for bare in sorted({0, arguments.ranks - 1}):
        job = ranks.Ranks(__file__, arguments.ranks, "tuned", limit=120, bare=(bare,))
        try:
            answers = job.ask(dict(do="exact", calls=60))
            exact = all(answer["exact"] and not answer["compressed"] for answer in answers)
            said = sum("compression off" in line for line in job.log_lines())
            shown.append(f"without it on rank {bare}: {'exact' if exact else 'NOT EXACT'}, {said} ranks say why")
            right = right and exact and said >= arguments.ranks - 1
        finally:
            job.close()
    return right, "; ".join(shown), {}


def part_graphs(arguments):
    job = ranks.Ranks(__file__, arguments.ranks, "tuned", limit=120)
    try:
        kinds = {}
        for moment in ("before", "during", "after"):
            if moment == "after":
                settle(job, dict(do="live", calls=20))
            elif moment == "during":
                job.ask(dict(do="live", calls=2))
            job.ask(dict(do="capture", name=moment))
        for _ in range(5):
            job.ask(dict(do="live", calls=4))
            for moment in ("before", "during", "after"):
                answers = job.ask(dict(do="replay", name=moment))
                if len({answer["digest"] for answer in answers}) > 1:
                    return False, f"captured {moment} tuning: the ranks have different bits", {}
                kinds.setdefault(moment, set()).update(answer["kind"] for answer in answers)
        shown = "; ".join(f"captured {moment} tuning: {', '.join(sorted(seen))}" for moment, seen in kinds.items())
        right = all(len(seen) == 1 and "wrong" not in seen for seen in kinds.values()) and kinds["before"] == {"exact"}
        return right, shown, {}
    finally:
        job.close()


def struck(how, victim, after):
    job = ranks.Ranks(__file__, 2, how, limit=120, common=AT_ONCE, shares_gpu=False)
    try:
        job.ask(dict(do="live", calls=20))
        ends = job.lose(victim, dict(do="endless", seconds=2 * PATIENCE), after, PATIENCE)
        return [dict(end, said=job.last_error(end["rank"]), words=job.last_words(end["rank"])) for end in ends]
    finally:
        job.close()


def same_blow(victim, after):
    """The same blow to a job without the library and to jobs with it, at the same time."""
    with concurrent.futures.ThreadPoolExecutor(len(STRUCK)) as together:
        ends = {how: together.submit(struck, how, victim, after) for how in STRUCK}
        ends = {how: found.result() for how, found in ends.items()}
    for how, found in ends.items():
        shown = ", ".join(f"{end['status']} after {end['seconds']:.1f} s ({end['said']})" for end in found)
        print(f"    rank {victim} killed after {after:.1f} s, {how}: {shown}", flush=True)
    return ends


def part_killed(arguments):
    """NCCL's survivors end at once or only by a time-out, by chance, so it is all jobs of a kind that are compared:
    the same errors, and none later than the latest without the library."""
    dice = random.Random(arguments.seed)
    blows = [(dice.randrange(2), dice.uniform(0.2, 3)) for _ in range(arguments.kills)]
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as some:
        found = list(some.map(lambda blow: same_blow(*blow), blows))
    ends = {how: [end for ends in found for end in ends[how]] for how in STRUCK}
    longest = {how: max(end["seconds"] for end in found) for how, found in ends.items()}
    known = {end["said"] for end in ends["without"]}
    ours = [end for how in STRUCK[1:] for end in ends[how]]
    for end in ours:
        if end["said"] not in known:
            print("\n".join(f"        {line[:160]}" for line in end["words"]), flush=True)
    shown = []
    for how, found in ends.items():
        kinds = collections.Counter((end["status"], end["said"]) for end in found)
        told = ", ".join(f"{count} x {status} ({said})" for (status, said), count in kinds.most_common())
        shown.append(f"{how}: {told}, the last after {longest[how]:.1f} s")
    failed = all(end["status"] not in (0, "still there") and end["said"] in known for end in ours)
    in_time = max(end["seconds"] for end in ours) <= longest["without"] + 5
    return failed and in_time, "; ".join(shown), dict(longest_s=longest)


CLAIMS = {
    "ramp": "DDP on a slow loopback ramps up by itself",
    "unshaped": "DDP on a fast loopback is not slowed",
    "small": "small messages are not slowed",
    "missing": "a rank without the library: exact, and told",
    "graphs": "graphs captured before, during and after tuning replay what they hold",
    "killed": "a rank that is killed ends the others as without the library",
}


def conduct(arguments):
    part = suite_part.Part("tuning", arguments)
    part.put(ranks=arguments.ranks, rate=arguments.rate, parts={})
    for name in arguments.parts.split(","):
        print(f"== {name}", flush=True)
        claim = f"{name}: {CLAIMS[name]}"
        if part.left() < 15:
            part.check(claim, None, "no time")
            continue
        try:
            good, found, numbers = globals()[f"part_{name}"](arguments)
        except ranks.Ended as why:
            good, found, numbers = False, str(why), {}
            ranks.fresh_mps()
        except loopback.NotShaped as why:
            good, found, numbers = None, str(why), {}
        part.put(parts={**part.data["parts"], name: numbers})
        part.check(claim, good, found)
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 600)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--rate", default="10gbit", help="loopback's in ramp, as tc takes it")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--kills", type=int, default=8, help="jobs of each kind that lose a rank")
    parser.add_argument("--seed", type=int, default=1, help="of who is killed and when")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from tuning_rank import Rank

        ranks.serve(Rank(int(os.environ.get("GPU_TEST_TIME_OUT", TIME_OUT))))
        return
    unknown = set(arguments.parts.split(",")) - set(PARTS)
    if unknown:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
