"""Ways to average gradients over ranks that a user might pick instead, for rivals.py: PyTorch's own hooks for DDP, and two
that are written down here as a user would write them: NCCL's AllReduce on fp8 numbers, and fp8 by all-to-all.

Each of our two takes a flat fp32 tensor and leaves the average in it. `LINES` says how much a training script grows.
"""

import ctypes
import inspect

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional

import ranks

BLOCK, LARGEST = 128, 448.0
NCCL_FLOAT8_E4M3, NCCL_SUM = 10, 0


def plain(x):
    dist.all_reduce(x, op=dist.ReduceOp.AVG)


def cast(dtype):
    def way(x):
        small = x.to(dtype).div_(dist.get_world_size())
        dist.all_reduce(small)
        x.copy_(small)

    return way


def mapped_nccl():
    """The NCCL that PyTorch has loaded, or the library that stands before it."""
    with open("/proc/self/maps") as file:
        found = next(line.split(maxsplit=5)[5].strip() for line in file if "/libnccl.so" in line)
    nccl = ctypes.CDLL(found)
    pointer, size, number = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    nccl.ncclAllReduce.argtypes = [pointer, pointer, size, number, number, pointer, pointer]
    return nccl


def native_fp8(x):
    """PyTorch refuses to reduce fp8 ("Unsupported Float8 type for NCCL reduction"), so NCCL is called by ctypes. One scale
    for the whole tensor, small enough for the sum to fit."""
    ranks_, device = dist.get_world_size(), x.device
    amax = x.abs().amax()
    dist.all_reduce(amax, op=dist.ReduceOp.MAX)
    scale = LARGEST / (ranks_ * amax.clamp(min=1e-30))
    small = (x * scale).to(torch.float8_e4m3fn)
    stream = torch.cuda.current_stream().cuda_stream
    comm = ranks.communicator_of(dist.group.WORLD, device)
    nccl = mapped_nccl()
    code = nccl.ncclAllReduce(small.data_ptr(), small.data_ptr(), small.numel(), NCCL_FLOAT8_E4M3, NCCL_SUM, comm, stream)
    if code != 0:
        raise RuntimeError(f"ncclAllReduce on fp8 returned {code}")
    x.copy_(small.float() / (scale * ranks_))


def quantised(x):
    """Blocks of 128 numbers, each with a scale."""
    scale = (x.abs().amax(-1, keepdim=True) / LARGEST).clamp(min=1e-30)
    return (x / scale).to(torch.float8_e4m3fn), scale


def all_to_all_fp8(x):
    ranks_, count = dist.get_world_size(), x.numel()
    shards = functional.pad(x, (0, -count % (ranks_ * BLOCK))).view(ranks_, -1, BLOCK)
    small, scale = quantised(shards)
    others, others_scale = torch.empty_like(small), torch.empty_like(scale)
    dist.all_to_all_single(others.view(torch.uint8), small.view(torch.uint8))
    dist.all_to_all_single(others_scale, scale)
    small, scale = quantised((others.float() * others_scale).mean(0))
    whole = torch.empty(ranks_ * small.shape[0], BLOCK, dtype=torch.uint8, device=x.device)
    whole_scale = torch.empty(ranks_ * scale.shape[0], 1, device=x.device)
    dist.all_gather_into_tensor(whole, small.view(torch.uint8))
    dist.all_gather_into_tensor(whole_scale, scale)
    x.copy_((whole.view(torch.float8_e4m3fn).float() * whole_scale).flatten()[:count])


WAYS = {
    "plain": plain,
    "fp16": cast(torch.float16),
    "bf16": cast(torch.bfloat16),
    "native_fp8": native_fp8,
    "all_to_all_fp8": all_to_all_fp8,
}


def hook_of(way):
    def hook(state, bucket):
        WAYS[way](bucket.buffer())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    return hook


def lines_of(*functions):
    return sum(len(inspect.getsource(function).splitlines()) for function in functions)


def hook(name):
    """(state, hook) for DDP's register_comm_hook, or None for DDP as it is."""
    if name == "plain":
        return None
    if name in ("fp16", "bf16"):
        return None, getattr(default_hooks, f"{name}_compress_hook")
    if name == "powersgd":
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

        # After two steps, not a thousand, since a thousand would be the whole run.
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        return state, powerSGD_hook.powerSGD_hook
    return None, hook_of(name)


# Lines in a training script: an import and a call for PyTorch's hooks, a state for PowerSGD; our two whole.
LINES = {
    "plain": 0,
    "fp16": 2,
    "bf16": 2,
    "powersgd": 3,
    "native_fp8": 2 + lines_of(native_fp8, mapped_nccl, hook_of),
    "all_to_all_fp8": 2 + lines_of(all_to_all_fp8, quantised, hook_of),
}
