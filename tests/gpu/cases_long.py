"""Cases of semantics.py that take gigabytes of device memory for each rank, and run if they are named."""

import torch
import torch.distributed as dist

from reference import DEVICE, Compressed, expected, values

# Whole blocks, and not a power of two: an index that wraps round meets other numbers.
PERIOD = 128 * 131_071
TAIL = 1001


def long_beyond_two_to_the_31(found):
    """The same numbers over and over, as the format rounds each block by itself, and a ragged end."""
    turns, dtype = (1 << 31) // PERIOD + 1, torch.float16
    tensor = torch.empty(turns * PERIOD + TAIL, dtype=dtype, device=DEVICE)
    whole = tensor[:-TAIL].view(turns, PERIOD)
    whole.copy_(values(PERIOD, dtype, 1))
    tensor[-TAIL:].copy_(values(TAIL, dtype, 2))
    with Compressed(found, 1):
        dist.all_reduce(tensor)
    wanted = expected(PERIOD, dtype, 1)
    for turn, part in enumerate(whole):
        found.same(f"{turn * PERIOD} on", part, wanted)
    found.same("the end", tensor[-TAIL:], expected(TAIL, dtype, 2))
    return f"{tensor.numel()} elements"
