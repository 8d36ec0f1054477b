"""What a tensor parallel layer of vLLM or SGLang does with NCCL, by the server's own code: for docs/guide/frameworks.md.

    airamp run -- torchrun --nproc-per-node 2 tests/gpu/recipe_serving.py vllm|sglang [CALLS]
    VLLM_NCCL_SO_PATH=…/libairamp_accel.so torchrun --nproc-per-node 2 tests/gpu/recipe_serving.py vllm [CALLS]

There is no model: the server makes its tensor parallel group, and that group's AllReduce is called as layers call it, live and
then captured in a CUDA graph. Of the installed package only Python is needed, none of its compiled kernels. Nothing here knows of
the library, but for the questions how many calls it compressed. Rank 0 prints one JSON line. All ranks use device 0: give each its
own card by replacing `DEVICE` and dropping NCCL_HOSTID.
"""

import contextlib
import json
import os
import sys
import time
import zlib

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Ranks with one host id are neighbours to NCCL, which refuses two of them on one card.
os.environ["NCCL_HOSTID"] = f"airamp-rank-{RANK}"
# What goes past NCCL is switched off, as docs/guide/frameworks.md says.
os.environ["VLLM_ALLREDUCE_USE_SYMM_MEM"] = "0"

import torch
import torch.distributed as dist

import ranks

DEVICE = torch.device("cuda", 0)
TOKENS, WIDTH, REPLAYS = 512, 4096, 20


class Vllm:
    """Every sum is out of place and goes by vLLM's own communicator."""

    def __init__(self):
        import vllm
        from vllm.config import VllmConfig, set_current_vllm_config
        from vllm.distributed import parallel_state

        self.name, self.state = f"vllm {vllm.__version__}", parallel_state
        parallel_state.set_custom_all_reduce(False)
        with set_current_vllm_config(VllmConfig()):
            parallel_state.init_distributed_environment(local_rank=DEVICE.index)
            parallel_state.initialize_model_parallel(SIZE)
        self.group = parallel_state.get_tp_group()
        self.own = self.group.device_communicator.pynccl_comm

    def capturing(self):
        return self.state.graph_capture(DEVICE)

    def warming_up(self):
        return contextlib.nullcontext()


class Sglang:
    """Sums in place: by PyTorch's communicator, but where graphs are captured, and in the runs before that, by SGLang's own."""

    def __init__(self):
        import sglang
        from sglang.srt.distributed import parallel_state

        self.name, self.state = f"sglang {sglang.__version__}", parallel_state
        parallel_state.set_custom_all_reduce(False)
        parallel_state.init_distributed_environment(SIZE, RANK, local_rank=DEVICE.index)
        # As initialize_model_parallel makes it, which makes more groups and loads all kinds of layers for them.
        self.group = parallel_state.init_model_parallel_group([list(range(SIZE))], DEVICE.index, "nccl", group_name="tp")
        self.own = self.group.pynccl_comm

    def capturing(self):
        return self.group.graph_capture()

    warming_up = capturing


SERVERS = {"vllm": Vllm, "sglang": Sglang}


def numbers(rank, seed):
    chance = torch.Generator(DEVICE).manual_seed(1000 * seed + rank)
    return torch.randn(TOKENS, WIDTH, generator=chance, device=DEVICE).to(torch.bfloat16)


class Checked:
    """Results and how far they are from the sum in fp64; the bits of each are compared between the ranks at the end."""

    def __init__(self):
        self.sums = []

    def error(self, result, seed):
        exact = sum(numbers(rank, seed).double() for rank in range(SIZE))
        self.sums.append(zlib.crc32(result.cpu().view(torch.int16).numpy().tobytes()))
        return float((result.double() - exact).square().sum() / exact.square().sum())

    def apart(self, group):
        """How many of the results are not the same bits on all ranks."""
        everyone = [None] * SIZE
        dist.all_gather_object(everyone, self.sums, group=group)
        return sum(len(set(found)) > 1 for found in zip(*everyone))


def timed(work):
    torch.cuda.synchronize()
    began = time.perf_counter()
    result = work()
    torch.cuda.synchronize()
    return result, time.perf_counter() - began


def middle(seconds):
    return 1000 * sorted(seconds)[len(seconds) // 2]


def live(server, checked, calls):
    """The errors of the first and the last call, and the time of the last ones."""
    errors, seconds = [], []
    for seed in range(calls):
        source = numbers(RANK, seed)
        result, took = timed(lambda: server.group.all_reduce(source))
        seconds.append(took)
        if seed in (0, calls - 1):
            errors.append(checked.error(result, seed))
        # Between tokens the host thinks: what ghost kernels are for.
        time.sleep(0.005)
    return errors, middle(seconds[-10:])


def captured(server, checked):
    """The largest error of the replays, and their time."""
    source, graph, errors, seconds = numbers(RANK, 0), torch.cuda.CUDAGraph(), [], []
    work = source.clone()
    with server.capturing() as context:
        torch.cuda.synchronize()
        # The error mode is that of the servers, PyTorch's default, which is the strictest.
        with torch.cuda.graph(graph, stream=context.stream):
            result = server.group.all_reduce(work)
    for seed in range(REPLAYS):
        work.copy_(numbers(RANK, seed))
        _, took = timed(graph.replay)
        seconds.append(took)
        errors.append(checked.error(result, seed))
    graph.reset()
    return max(errors), middle(seconds)


def compressed_by(communicator):
    """Asked of the preloaded library, or of what the server took for NCCL."""
    calls = ranks.compressed_calls(communicator.comm)
    return ranks.compressed_calls(communicator.comm, communicator.nccl.lib) if calls is None else calls


def main():
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    torch.cuda.set_device(DEVICE)
    server, checked = SERVERS[sys.argv[1]](), Checked()
    if server.own is None or not server.own.available:
        raise SystemExit(f"{server.name} has no communicator of its own: it could not load NCCL")
    told = {"recipe": server.name}
    if isinstance(server, Sglang):
        (_, eager), _ = live(server, checked, calls)
        torch_calls = ranks.compressed_calls(ranks.communicator_of(server.group.device_group, DEVICE))
        told.update(eager=eager, eager_compressed=torch_calls)
    with server.warming_up():
        (first, last), step_ms = live(server, checked, calls)
    compressed = compressed_by(server.own)
    replayed, replay_ms = captured(server, checked)
    told.update(first=first, last=last, step_ms=step_ms, compressed=compressed, replayed=replayed, replay_ms=replay_ms)
    told.update(captured=None if compressed is None else compressed_by(server.own) - compressed)
    told.update(apart=checked.apart(server.group.cpu_group))
    if RANK == 0:
        print(json.dumps(told), flush=True)
    server.state.destroy_model_parallel()
    server.state.destroy_distributed_environment()


if __name__ == "__main__":
    main()
