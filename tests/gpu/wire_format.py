"""docs/wire-format.md in PyTorch, on whatever device the tensors are: a second implementation that
shares nothing with the kernels or the codec. It uses PyTorch's own conversions to float8.

Used by kernels.py. Every function works on whole tensors; nothing here is fast.
"""

import torch

BLOCK = 128
# Bytes of the tag at the beginning of a packet.
TAG = 16
FORMATS = ("e4m3", "e5m2", "int8", "auto")
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "int8": 127.0}
LARGEST_SCALE = {"e4m3": 0x7B12, "e5m2": 0x7792, "int8": 0x7C01}
FLOAT8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
NOT_A_NUMBER = {
    torch.float16: (torch.int16, 0x7FFF),
    torch.bfloat16: (torch.int16, 0x7FFF),
    torch.float32: (torch.int32, 0x7FFFFFFF),
}


def blocks_of(count):
    return -(-count // BLOCK)


def packet_bytes(count):
    return TAG + -(-130 * blocks_of(count) // 16) * 16 if count else 0


def tag_of(call, part, device):
    """The tag's bytes."""
    raw = (call % 2**64).to_bytes(8, "little") + (part % 2**64).to_bytes(8, "little")
    return torch.tensor(list(raw), dtype=torch.uint8, device=device)


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
        return codes.view(torch.int8).to(torch.float32)
    return codes.view(FLOAT8[how]).to(torch.float32)


def attempt(x, finite, largest, how):
    """Codes and scale words of all blocks, written in one way."""
    word, scale = scales(largest, how)
    reciprocal = torch.where(scale == 0, torch.zeros_like(scale), 1 / scale)
    x = torch.where(finite, x, torch.zeros_like(x))
    if how == "int8":
        # The product is exact in binary64, so it is rounded once.
        y = x.to(torch.float64) * reciprocal[:, None].to(torch.float64)
        codes = y.round().clamp(-127, 127).to(torch.int8).view(torch.uint8)
    else:
        y = (x * reciprocal[:, None]).clamp(-LARGEST[how], LARGEST[how])
        codes = y.to(FLOAT8[how]).view(torch.uint8)
        codes = torch.where(finite, codes, torch.full_like(codes, 0x7F))
    codes = torch.where((largest == 0)[:, None] & finite, torch.zeros_like(codes), codes)
    return codes, word | (0x8000 if how == "int8" else 0)


def quantise(elements, form, tag=(0, 0)):
    """The packet of a tensor with the tag (call, part), and how many blocks of it are not finite throughout."""
    count = elements.numel()
    x = torch.zeros(blocks_of(count) * BLOCK, dtype=torch.float32, device=elements.device)
    x[:count] = elements.to(torch.float32)
    x = x.view(-1, BLOCK)
    finite = torch.isfinite(x)
    largest = torch.where(finite, x, torch.zeros_like(x)).abs().amax(1)
    if form in ("auto", "int8"):
        codes, words = marked(x, finite, largest, form)
    else:
        codes, words = attempt(x, finite, largest, form)
    packet = torch.zeros(packet_bytes(count), dtype=torch.uint8, device=elements.device)
    packet[:TAG] = tag_of(*tag, elements.device)
    packet[TAG : TAG + x.numel()] = codes.view(-1)
    packet[TAG + x.numel() : TAG + x.numel() + 2 * len(words)] = words.to(torch.int16).view(torch.uint8)
    return packet, int((~finite).any(1).sum())


def marked(x, finite, largest, form):
    """Each block in INT8 or in E4M3."""
    e4m3 = attempt(x, finite, largest, "e4m3")
    int8 = attempt(x, finite, largest, "int8")
    take = finite.all(1)
    if form == "auto":
        code = int8[0].view(torch.int8).to(torch.int64)
        take = take & ((code * code).sum(1) >= 17000 + 128 * (code != 0).sum(1))
    return torch.where(take[:, None], int8[0], e4m3[0]), torch.where(take, int8[1], e4m3[1])


def decoded(packet, count, form, dtype, tag=(0, 0)):
    """The decoded values of a packet that should have this tag, in binary32."""
    blocks = blocks_of(count)
    if not torch.equal(packet[:TAG], tag_of(*tag, packet.device)):
        return torch.full((count,), float("nan"), device=packet.device)
    packet = packet[TAG:]
    codes = packet[: blocks * BLOCK].view(-1, BLOCK)
    words = packet[blocks * BLOCK : blocks * (BLOCK + 2)].view(torch.int16).to(torch.int32) & 0xFFFF
    scale = ((words & 0x7FFF) << 16).view(torch.float32)
    if form in ("auto", "int8"):
        value = torch.where((words >= 0x8000)[:, None], values_of(codes, "int8"), values_of(codes, "e4m3"))
    else:
        value = values_of(codes, form)
    limit = torch.finfo(dtype).max
    return (value * scale[:, None]).clamp(-limit, limit).view(-1)[:count]


def total(packets, count, form, dtype, average, tag=(0, 0)):
    """The sum or mean of the ranks' packets, rounded to `dtype`; `tag` is rank 0's."""
    ranks = torch.full((1,), len(packets) if average else 1, dtype=torch.float32, device=packets[0].device)
    factor = torch.ones_like(ranks) / ranks
    result = None
    for rank, packet in enumerate(packets):
        value = decoded(packet, count, form, dtype, (tag[0], tag[1] + rank)) * factor
        result = value if result is None else result + value
    return result.to(dtype)


def bits(elements):
    """The bits of a tensor, every NaN with those that the wire format prescribes."""
    as_integer, not_a_number = NOT_A_NUMBER[elements.dtype]
    raw = elements.view(as_integer)
    return torch.where(torch.isnan(elements), torch.full_like(raw, not_a_number), raw)
