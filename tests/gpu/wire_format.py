"""docs/wire-format.md in PyTorch, on whatever device the tensors are: a second implementation that
shares nothing with the kernels or the codec. It uses PyTorch's own conversions to float8.

Used by kernels.py. Every function works on whole tensors; nothing here is fast.
"""

import torch

BLOCK = 128
FORMATS = {"e4m3": 0, "e5m2": 1, "int8": 2, "auto": 3}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "int8": 127.0}
LARGEST_SCALE = {"e4m3": 0x7B12, "e5m2": 0x7792, "int8": 0x7C01}
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
NOT_A_NUMBER = {
    torch.float16: (torch.int16, 0x7E00),
    torch.bfloat16: (torch.int16, 0x7FC0),
    torch.float32: (torch.int32, 0x7FC00000),
}


def blocks_of(count):
    return -(-count // BLOCK)


def packet_bytes(count):
    return -(-130 * blocks_of(count) // 16) * 16


def scales(largest, codes):
    """The scale word's lower 15 bits for each block, and the scale."""
    # By a tensor: a quotient by a number may be computed as a product with its reciprocal.
    quotient = largest / torch.full_like(largest, LARGEST[codes])
    word = (quotient.view(torch.int32) + 0xFFFF) >> 16
    word = word.clamp((127 - 110) << 7, LARGEST_SCALE[codes])
    word = torch.where(largest == 0, torch.zeros_like(word), word)
    return word, (word << 16).view(torch.float32)


def values_of(codes, how):
    """What codes stand for under the scale 1; NaN for those of non-finite elements."""
    if how == "int8":
        value = codes.view(torch.int8).to(torch.float32)
        return torch.where(codes == 0x80, torch.full_like(value, float("nan")), value)
    return codes.view(FLOAT8[how]).to(torch.float32)


def attempt(x, finite, largest, how):
    """Codes, scale words, scales and errors of all blocks, written in one way."""
    word, scale = scales(largest, how)
    reciprocal = torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
    y = torch.where(finite, x, torch.zeros_like(x)) * reciprocal[:, None]
    within = y.clamp(-LARGEST[how], LARGEST[how])
    if how == "int8":
        codes = within.round().to(torch.int8).view(torch.uint8)
    else:
        codes = within.to(FLOAT8[how]).view(torch.uint8)
    codes = torch.where((largest == 0)[:, None], torch.zeros_like(codes), codes)
    saturated = (y.abs() > LARGEST[how]).sum()
    error = error_of(values_of(codes, how) - y)
    codes = torch.where(finite, codes, torch.full_like(codes, 0x80 if how == "int8" else 0x7F))
    return codes, word | (0x8000 if how == "int8" else 0), scale, error, saturated


def error_of(w):
    square = (w * w).view(-1, 32, 4)
    t = (square[:, :, 0] + square[:, :, 1]) + (square[:, :, 2] + square[:, :, 3])
    lanes = torch.arange(32, device=w.device)
    for offset in (16, 8, 4, 2, 1):
        t = t + t[:, lanes ^ offset]
    return t[:, 0]


def quantise(elements, form):
    """The packet of a tensor, and how many blocks of it are not finite throughout."""
    count = elements.numel()
    x = torch.zeros(blocks_of(count) * BLOCK, dtype=torch.float32, device=elements.device)
    x[:count] = elements.to(torch.float32)
    x = x.view(-1, BLOCK)
    finite = torch.isfinite(x)
    largest = torch.where(finite, x, torch.zeros_like(x)).abs().amax(1)
    if form == "auto":
        codes, words = better(x, finite, largest)
    else:
        codes, words = attempt(x, finite, largest, form)[:2]
    packet = torch.zeros(packet_bytes(count), dtype=torch.uint8, device=elements.device)
    packet[: x.numel()] = codes.view(-1)
    packet[x.numel() : x.numel() + 2 * len(words)] = words.to(torch.int16).view(torch.uint8)
    return packet, int((~finite).any(1).sum())


def better(x, finite, largest):
    e4m3 = attempt(x, finite, largest, "e4m3")
    int8 = attempt(x, finite, largest, "int8")
    k = e4m3[2] / int8[2]
    take = (int8[3] < e4m3[3] * (k * k)) & (largest != 0)
    return torch.where(take[:, None], int8[0], e4m3[0]), torch.where(take, int8[1], e4m3[1])


def decoded(packet, count, form, dtype):
    """The decoded values of a packet, in binary32."""
    blocks = blocks_of(count)
    codes = packet[: blocks * BLOCK].view(-1, BLOCK)
    words = packet[blocks * BLOCK : blocks * (BLOCK + 2)].view(torch.int16).to(torch.int32) & 0xFFFF
    scale = ((words & 0x7FFF) << 16).view(torch.float32)
    if form == "auto":
        value = torch.where((words >= 0x8000)[:, None], values_of(codes, "int8"), values_of(codes, "e4m3"))
    else:
        value = values_of(codes, form)
    limit = torch.finfo(dtype).max
    return (value * scale[:, None]).clamp(-limit, limit).view(-1)[:count]


def total(packets, count, form, dtype, average):
    """The sum or mean of the ranks' packets, rounded to `dtype`."""
    ranks = torch.full((1,), len(packets) if average else 1, dtype=torch.float32, device=packets[0].device)
    factor = torch.ones_like(ranks) / ranks
    result = None
    for packet in packets:
        value = decoded(packet, count, form, dtype) * factor
        result = value if result is None else result + value
    return result.to(dtype)


def bits(elements):
    """The bits of a tensor, every NaN with those that the wire format prescribes."""
    as_integer, not_a_number = NOT_A_NUMBER[elements.dtype]
    raw = elements.view(as_integer)
    return torch.where(torch.isnan(elements), torch.full_like(raw, not_a_number), raw)
