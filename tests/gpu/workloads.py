"""What programs do with PyTorch, without the library, passed through, and compressed: results, losses, step times.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/workloads.py [--ranks 4] [--cases NAME,…] [--seconds 120]

cases    DDP (fp32; bf16; fp16 with a GradScaler and planted infinities), FSDP2, accumulation with no_sync, several process
         groups, coalesced, asynchronous with overlap, a whole step in a CUDA graph, tensor parallel inference, torch.compile.
         Passed through: the same losses and bits as without. Compressed: losses within 1%, sums within a vNMSE of 0.002, the
         same bits on all ranks. Where nothing is AllReduce (FSDP2) nothing is compressed and losses are the same.
serving  NCCL called as vLLM and SGLang call it (serving_rank.py), preloaded and named as NCCL, with ghost kernels: live and
         in a CUDA graph, compressed.
recipes  DDP, FSDP2, DeepSpeed (ZeRO 0 and 2) and JAX, where they are installed, started by `airamp run -- torchrun …` as in
         docs/guide/frameworks.md. DDP, ZeRO 0 and JAX sum gradients by AllReduce, and must be compressed.
servers  vLLM's and SGLang's own tensor parallel groups (recipe_serving.py), where they are installed, preloaded by `airamp run`
         and with the library named as NCCL, with ghost kernels once each way: compressed by the library's own decision, live
         and in a CUDA graph.
Exit status: 0, 1, 77 no GPU.
"""

import importlib.util
import json
import os
import subprocess
import sys

import ranks
import suite_part
from suite_part import mean

CASES = (
    "ddp_fp32", "ddp_bf16", "ddp_fp16_scaler", "fsdp2", "accumulation", "process_groups", "coalesced", "async_overlap",
    "cuda_graph", "tensor_parallel", "compile",
)  # fmt: skip
NOT_COMPRESSED = ("fsdp2",)
SETTINGS = {"AIRAMP_MIN_BYTES": "65536"}
# Every rank of every job may compile; each with one thread.
COMMON = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
LOSS_BOUND, ERROR_BOUND = 0.01, 0.002
# torch.compile compiles once per job; what others need behind it must be left.
COMPILE_SECONDS, RECIPE_SECONDS, SERVING_SECONDS, SERVERS_SECONDS = 40, 45, 15, 60
# Name: the module that it needs, the script with its arguments, and whether calls are compressed (None: as it chooses).
RECIPES = {
    "ddp": ("torch", ["recipe_train.py", "ddp", "40"], True),
    "fsdp2": ("torch", ["recipe_train.py", "fsdp2", "40"], False),
    "deepspeed, ZeRO 0": ("deepspeed", ["recipe_deepspeed.py", "0", "40"], True),
    "deepspeed, ZeRO 2": ("deepspeed", ["recipe_deepspeed.py", "2", "40"], None),
    "jax": ("jax", ["recipe_jax.py", "PORT", "80"], True),
}
# Name: the server, which is also the module that it needs, the variable that names NCCL (None: preloaded), and settings.
GHOSTS = {"AIRAMP_ENABLE_GHOST_KERNELS": "1"}
SERVERS = {
    "vllm, preloaded": ("vllm", None, GHOSTS),
    "vllm, named as NCCL": ("vllm", "VLLM_NCCL_SO_PATH", {}),
    "sglang, preloaded": ("sglang", None, {}),
    "sglang, named as NCCL": ("sglang", "SGLANG_NCCL_SO_PATH", GHOSTS),
}


def differs(bare, other):
    """Whether losses, bits or errors differ at all."""
    return [key for key in ("losses", "digest", "vnmse") if bare.get(key) != other.get(key)]


def judge(part, case, found):
    """`found`: how -> answers of all ranks."""
    bare, passed, compressed = (found[how] for how in ("without", "passthrough", "compressed"))
    skipped = next((answer["skipped"] for answers in found.values() for answer in answers if "skipped" in answer), None)
    if skipped:
        part.check(case, None, skipped)
        return
    why = [
        f"passed through, rank {rank}: other {', '.join(keys)}"
        for rank in range(len(bare))
        if (keys := differs(bare[rank], passed[rank]))
    ]
    if len({answer.get("digest") for answer in compressed}) > 1 and "digest" in compressed[0]:
        why.append("compressed: the ranks have different bits")
    why += [
        f"{how}: {answer.get('note')}" for how, answers in found.items() for answer in answers if answer.get("right") is False
    ]
    numbers = ""
    if "losses" in bare[0]:
        ends = [mean(answers[0]["losses"][-4:]) for answers in (bare, compressed)]
        off = ends[1] / ends[0] - 1
        numbers = f"loss {ends[0]:.4f}, compressed {ends[1]:.4f} ({100 * off:+.3f}%)"
        # Written so that what is no number is off.
        if not abs(off) <= LOSS_BOUND:
            why.append("the compressed loss is off")
    else:
        errors = [max(answer["vnmse"] for answer in answers) for answers in (bare, compressed)]
        numbers = f"vNMSE {errors[0]:.1e}, compressed {errors[1]:.1e}"
        if not errors[1] <= ERROR_BOUND + 2 * errors[0]:
            why.append("the compressed result is off")
    calls = compressed[0]["compressed"]
    if not calls and case not in NOT_COMPRESSED:
        why.append("nothing was compressed")
    times = "/".join(
        f"{1000 * max(answer['seconds'] for answer in found[how]):.1f}" for how in ("without", "passthrough", "compressed")
    )
    text = f"{numbers}; ms without/passed/compressed {times}; {calls} compressed calls"
    part.check(case, not why, "; ".join([*why[:3], text]))


def run_cases(part, arguments, cases, reserve):
    hows = ("without", "passthrough", "compressed")

    def start():
        options = ["--device", arguments.device]
        return {
            how: ranks.Ranks(__file__, arguments.ranks, how, SETTINGS, options, limit=max(20, part.left()), common=COMMON)
            for how in hows
        }

    jobs, found = start(), {}
    try:
        for how in hows:
            hello = jobs[how].ask({"do": "hello"})
            part.put(machine=hello[0])
        part.say(f"up: {hello[0]}")
        for case in cases:
            needed = COMPILE_SECONDS if case == "compile" and len(cases) > 1 else 6
            if part.left() - reserve < needed:
                part.check(case, None, "no time")
                continue
            try:
                found[case] = {how: jobs[how].ask({"do": case}) for how in hows}
            except ranks.Ended as ended:
                part.check(case, False, str(ended)[:1500])
                for job in jobs.values():
                    job.kill()
                    job.close()
                ranks.fresh_mps()
                jobs = start()
                continue
            judge(part, case, found[case])
            part.put(cases=found)
    finally:
        for job in jobs.values():
            job.close()


def run_serving(part, arguments):
    """Both ways to stand between a server and NCCL, with ghost kernels."""
    library = ranks.library_file()
    forced = {"AIRAMP_TEST_PLAN": "forced", "AIRAMP_CONSENSUS_TIMEOUT_MS": "30000", "AIRAMP_MIN_BYTES": "65536"}
    forced["AIRAMP_ENABLE_GHOST_KERNELS"] = "1"
    ways = {
        "without": ("without", {}),
        "preloaded": ("compressed", forced),
        "named as NCCL": ("without", dict(forced, SERVING_NCCL=library)),
    }
    found = {}
    jobs = {
        way: ranks.Ranks(__file__, 2, how, forced, ["--serving"], limit=60, common=common) for way, (how, common) in ways.items()
    }
    try:
        for way, job in jobs.items():
            found[way] = {kind: job.ask(dict(do=kind, tokens=512, calls=6)) for kind in ("live", "graph")}
        part.put(serving=found)
    except ranks.Ended as ended:
        part.check(f"serving, {way}", False, str(ended)[:1500])
    finally:
        for job in jobs.values():
            job.close()
    for way in ways:
        for kind, answers in found.get(way, {}).items():
            alike = len({answer["digest"] for answer in answers}) == 1
            error, calls = max(answer["vnmse"] for answer in answers), answers[0]["compressed"]
            right = alike and error <= ERROR_BOUND and (way == "without" or bool(calls))
            text = f"vNMSE {error:.1e}, {calls} compressed calls, {1000 * answers[0]['seconds']:.2f} ms, {'the same' if alike else 'DIFFERENT'} bits on all ranks"
            part.check(f"serving, {way}, {kind}", right, text)


def installed(module):
    return importlib.util.find_spec(module) is not None


def recipe_environment():
    mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRAMP_") and name != "LD_PRELOAD"}
    mine.update(AIRAMP_MODE="on", AIRAMP_LOG="info", OMP_NUM_THREADS="1", NCCL_SOCKET_IFNAME="lo", NCCL_NET="Socket")
    mine.update(NCCL_IB_DISABLE="1", GLOO_SOCKET_IFNAME="lo", PYTHONUNBUFFERED="1")
    mine.setdefault("CUDA_VISIBLE_DEVICES", "0")
    return mine


def start_recipe(words, settings, run=True):
    """Two ranks under torchrun, by `airamp run` or without it. The word PORT stands for a free one."""
    here, folder = os.path.dirname(os.path.abspath(__file__)), os.path.dirname(ranks.library_file())
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(ranks.free_port())]
    words = [str(ranks.free_port()) if word == "PORT" else word for word in words]
    command = [*torchrun, os.path.join(here, words[0]), *words[1:]]
    if run:
        command = [os.path.join(folder, "airamp"), "run", "--", *command]
    environment = dict(recipe_environment(), **settings)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def cause_of(errors):
    """What a rank said last, without what torchrun says of it behind that."""
    return errors.split(" torch/distributed/elastic/multiprocessing/")[0][-1200:]


def end_recipe(part, claim, process):
    """What rank 0 printed and in how many processes the library found NCCL; None where the check is made already."""
    try:
        out, errors = process.communicate(timeout=max(5, part.left()))
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        part.check(claim, None if part.left() < 1 else False, "not done in time")
        return None
    line = next((line for line in out.splitlines() if line.startswith("{")), None)
    if process.returncode != 0 or line is None:
        part.check(claim, False, f"ended with {process.returncode}: {cause_of(errors)}")
        return None
    return json.loads(line), sum("vendor library found by" in line for line in errors.splitlines())


def run_recipes(part, arguments):
    """As in the guide; all at once, to save the start."""
    started = {}
    for kind, (module, words, _) in RECIPES.items():
        if not installed(module):
            part.check(f"airamp run -- torchrun … {kind}", None, f"{module} is not installed")
            continue
        started[kind] = start_recipe(words, {})
    for kind, process in started.items():
        claim = f"airamp run -- torchrun … {kind}"
        ended = end_recipe(part, claim, process)
        if ended is None:
            continue
        result, seen = ended
        part.data.setdefault("recipes", {})[kind] = result
        fell = result["last"] < 0.9 * result["first"]
        known = result["compressed"] is not None and not result.get("apart")
        compressed = known and RECIPES[kind][2] in (None, bool(result["compressed"]))
        text = f"loss {result['first']:.3f} to {result['last']:.3f}, {result['step_ms']:.1f} ms a step, {result['compressed']} compressed calls, library found NCCL in {seen} processes, {result.get('apart', 0)} tensors apart"
        part.check(claim, fell and compressed and seen >= 2, text)


def run_servers(part, wanted):
    """As in the guide, both ways to stand between one server and NCCL; both at once, to save the start."""
    started = {}
    for kind, (server, variable, settings) in SERVERS.items():
        if server != wanted:
            continue
        if not installed(server):
            part.check(f"servers, {kind}", None, f"{server} is not installed")
            continue
        named = {variable: ranks.library_file()} if variable else {}
        started[kind] = start_recipe(["recipe_serving.py", server, "300"], {**settings, **named}, run=not named)
    for kind, process in started.items():
        ended = end_recipe(part, f"servers, {kind}", process)
        if ended is None:
            continue
        result, seen = ended
        part.data.setdefault("servers", {})[kind] = result
        errors = [result[key] for key in ("first", "last", "replayed", "eager") if key in result]
        right = max(errors) <= ERROR_BOUND and result["apart"] == 0 and seen >= 2
        text = f"{result['recipe']}: vNMSE {result['first']:.1e} at first, {result['last']:.1e} at last, {result['replayed']:.1e} replayed; {result['compressed']} compressed calls and {result['captured']} captured; ms {result['step_ms']:.2f} live, {result['replay_ms']:.2f} replayed; library found NCCL in {seen} processes, {result['apart']} results apart"
        if "eager" in result:
            text += f"; by PyTorch's communicator {result['eager_compressed']} compressed, vNMSE {result['eager']:.1e}"
            # Only the preloaded library sees those.
            right = right and bool(result["eager_compressed"]) == (SERVERS[kind][1] is None)
        part.check(f"servers, {kind}", right and bool(result["compressed"]) and bool(result["captured"]), text)


def conduct(arguments):
    wanted = arguments.parts.split(",")
    # A run of some parts adds to that of all, and replaces what it says anew.
    part = suite_part.Part("pytorch" if "cases" in wanted else "pytorch-more", arguments)
    again = {"serving": "serving,", "recipes": "airamp run", "servers": "servers,"}
    if "cases" not in wanted:
        part.put(supersedes=[again[name] for name in wanted if name in again])
    kept = {"serving": SERVING_SECONDS, "recipes": RECIPE_SECONDS, "servers": SERVERS_SECONDS * any(map(installed, ("vllm", "sglang")))}
    reserve = sum(seconds for name, seconds in kept.items() if name in wanted)
    runs = {
        "cases": lambda: run_cases(part, arguments, arguments.cases.split(","), reserve),
        "serving": lambda: run_serving(part, arguments),
        "recipes": lambda: run_recipes(part, arguments),
        "servers": lambda: [run_servers(part, server) for server in ("vllm", "sglang")],
        "compile": lambda: run_cases(part, arguments, ["compile"], 0),
    }
    for name in wanted:
        part.say(name)
        try:
            runs[name]()
        except ranks.Ended as ended:
            part.check(name, False, str(ended)[:1500])
            ranks.fresh_mps()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 120)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--parts", default="cases,serving,recipes,servers", help="also: compile, that case alone")
    parser.add_argument("--serving", action="store_true", help="of a rank: it is one of serving")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the cases, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        if arguments.serving:
            from serving_rank import Rank

            ranks.serve(Rank())
        else:
            from workloads_rank import Rank

            ranks.serve(Rank(arguments.device))
        return
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
