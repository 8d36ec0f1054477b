"""What the cases of semantics.py share: inputs, what must come out, and what was found.

Inputs come from seeds, so that every rank knows what every other has put in and what must come out.
"""

import ctypes
import datetime
import hashlib
import os

import torch
import torch.distributed as dist

import ranks
import wire_format as wire

RANK, SIZE = ranks.RANK, ranks.SIZE
DEVICE = torch.device("cuda", 0)
FORM = "auto"


def start():
    """Makes the process group; says how, and whether it compresses."""
    torch.cuda.set_device(DEVICE)
    eager = {"device_id": DEVICE} if SIZE > 2 else {}
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=40), **eager)
    if not eager:
        dist.all_reduce(torch.zeros(1, device=DEVICE))
    torch.cuda.synchronize()
    on = ranks.compressed_calls(comm()) is not None
    how = "at once (device_id)" if eager else "at the first call"
    return f"communicator made {how} by PyTorch {torch.__version__}", on


def end():
    torch.cuda.synchronize()
    dist.destroy_process_group()


def comm(group=None):
    return ranks.communicator_of(group or dist.group.WORLD, DEVICE)


def values(count, dtype=torch.float32, seed=0, rank=RANK):
    """Gradients of all sizes, spikes, blocks of zeros, and now and then something that is not finite."""
    chance = torch.Generator(device=DEVICE).manual_seed(1000 * seed + rank)
    x = torch.randn(count, generator=chance, device=DEVICE)
    pick = torch.rand(count, generator=chance, device=DEVICE)
    size = torch.randint(-12, 6, (wire.blocks_of(count),), generator=chance, device=DEVICE)
    x = x * torch.exp2(size.float()).repeat_interleave(wire.BLOCK)[:count]
    zero = (size == 0).repeat_interleave(wire.BLOCK)[:count]
    x = torch.where(zero, torch.zeros_like(x), torch.where(pick < 0.002, x * 100, x))
    x = torch.where(pick > 1 - 1e-5, torch.full_like(x, float("inf")), x)
    return torch.where(pick == pick.amax(), torch.full_like(x, float("nan")), x).to(dtype)


def expected(count, dtype=torch.float32, seed=0, average=False, members=range(SIZE)):
    """What docs/wire-format.md says: one-shot for two ranks, two-shot for more, three-shot for nodes of several."""
    packets = [wire.quantise(values(count, dtype, seed, rank), FORM)[0] for rank in members]
    per_node = ranks_per_node(len(packets))
    if per_node > 1:
        nodes = [packets[first : first + per_node] for first in range(0, len(packets), per_node)]
        packets = [wire.quantise(summed(node, count, dtype, average), FORM)[0] for node in nodes]
    result = summed(packets, count, dtype, average)
    if len(members) > 2:
        result = wire.decoded(wire.quantise(result, FORM)[0], count, FORM, dtype).to(dtype)
    return result


def summed(packets, count, dtype, average):
    """Sum or mean of packets, rounded to the type."""
    factor = torch.ones(1, device=DEVICE) / torch.full((1,), len(packets) if average else 1.0, device=DEVICE)
    result = None
    for packet in packets:
        value = wire.decoded(packet, count, FORM, dtype) * factor
        result = value if result is None else result + value
    return result.to(dtype)


def ranks_per_node(size):
    """As semantics.py asks for it, where that makes two full nodes or more of so many ranks."""
    asked = int(os.environ.get("AIRAMP_RANKS_PER_NODE", "1"))
    return asked if size % asked == 0 and size > asked else 1


class Findings:
    """What is wrong with a case, the digest of its results, and how many calls were compressed."""

    def __init__(self):
        self.wrong, self.hash, self.calls = [], hashlib.sha256(), 0
        self.alike = True

    def digest(self):
        """Equal on all ranks if their results are; None where ranks are meant to differ."""
        return self.hash.hexdigest() if self.alike else None

    def same(self, what, result, reference):
        """`reference` has the wire format's NaN; the result must have it too."""
        raw, wanted = result.view(wire.NOT_A_NUMBER[result.dtype][0]), wire.bits(reference)
        self.hash.update(what.encode() + bytes_of(raw))
        if not torch.equal(raw, wanted):
            places = (raw != wanted).nonzero().flatten()
            at = int(places[0])
            first = f"first at {at}: {float(result[at])!r}, not {float(reference[at])!r}"
            self.wrong.append(f"{what}: {len(places)} of {raw.numel()} differ, {first}")

    def require(self, holds, what):
        if not holds:
            self.wrong.append(what)


class Compressed:
    """Around calls on a group: at least so many of them must have been compressed."""

    def __init__(self, found, least, group=None):
        self.found, self.least, self.group = found, least, group

    def count(self):
        calls = ranks.compressed_calls(comm(self.group))
        return -1 if calls is None else calls

    def __enter__(self):
        self.before = self.count()

    def __exit__(self, kind, error, trace):
        if kind is None:
            calls = self.count() - self.before
            self.found.calls += calls
            self.found.require(self.before >= 0, "compression is off")
            self.found.require(calls >= self.least, f"{calls} calls compressed, not {self.least}")


def bytes_of(tensor):
    host = tensor.cpu().contiguous()
    return ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
