"""The wire format, written a second time from docs/wire-format.md alone, with nothing but Python's
standard library: what the document leaves open shows here. It owns no tests and refuses to be fast;
vectors.py holds it against the document's own vectors, answers.py lets tests/tests/wire_spec.rs hold it
against the codec. Elements come and go as lists of their bit patterns.

Numbers in binary32 are Python floats that binary32 has. Sums, products and quotients of two of them are
computed in binary64 and rounded once more by `f32`: that gives what one rounding would, because binary64
has more than twice binary32's digits (Figueroa, 1995), as long as a quotient is not subnormal, which
here only d can be, and that is then less than the least scale. Products are exact before `f32`.
"""

import math
import struct

BLOCK = 128
HEADER = 16
LEAST_SCALE = 2.0**-110
FLT_MAX = (2 - 2.0**-23) * 2.0**127


def bits32(number):
    return struct.unpack("<I", struct.pack("<f", number))[0]


def of_bits32(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def f32(number):
    """Rounded to binary32, to nearest even."""
    try:
        return struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)


class Element:
    """fp16, bf16 or fp32: bit patterns to binary32 and back."""

    def __init__(self, name, size, exponent_bits, largest):
        self.name, self.size, self.largest = name, size, largest
        self.digits = 8 * size - 1 - exponent_bits
        self.exponent_mask = (2**exponent_bits - 1) << self.digits

    def is_finite(self, bits):
        return bits & self.exponent_mask != self.exponent_mask

    def widened(self, bits):
        """A finite element as binary32; exact."""
        if self.name == "f16":
            return struct.unpack("<e", struct.pack("<H", bits))[0]
        return of_bits32(bits << (32 - 8 * self.size))

    def narrowed(self, number):
        """A number in binary32 as bits of the type, to nearest even; any NaN is the canonical one."""
        if math.isnan(number):
            return 2 ** (8 * self.size - 1) - 1
        if self.name == "f32":
            return bits32(number)
        if self.name == "bf16":
            bits = bits32(number)
            return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        try:
            return struct.unpack("<H", struct.pack("<e", number))[0]
        except OverflowError:
            return 0xFC00 if number < 0 else 0x7C00


ELEMENTS = {
    element.name: element
    for element in (
        Element("f16", 2, 5, 65504.0),
        Element("bf16", 2, 8, (2 - 2.0**-7) * 2.0**127),
        Element("f32", 4, 8, FLT_MAX),
    )
}


def largest_scale(largest):
    """The largest bf16 number that is at most FLT_MAX / largest, which needs no more than binary64 has."""
    bits = bits32(FLT_MAX / largest) >> 16
    # The conversion to binary32 may have rounded up, past the quotient.
    while int(of_bits32(bits << 16)) * int(largest) > int(FLT_MAX):
        bits -= 1
    return of_bits32(bits << 16)


class Float8:
    """E4M3 or E5M2."""

    non_finite = 0x7F

    def __init__(self, digits, bias, largest, code_of_largest):
        self.digits, self.bias, self.largest, self.code_of_largest = digits, bias, largest, code_of_largest
        self.largest_scale = largest_scale(largest)
        self.values = [self.value(code) for code in range(256)]

    def code(self, x, r):
        y = f32(x * r)
        # Steps are those of the binade, but never smaller than those of subnormal numbers.
        exponent = max(math.frexp(y)[1] - 1, 1 - self.bias) if y else 1 - self.bias
        steps = round(math.ldexp(abs(y), self.digits - exponent))
        # Codes are in the order of magnitudes: one more step is one more code, across binades too.
        code = ((exponent + self.bias - 1) << self.digits) + steps
        return (0x80 if math.copysign(1, y) < 0 else 0) | min(code, self.code_of_largest)

    def value(self, code):
        exponent, fraction = (code & 0x7F) >> self.digits, code & (1 << self.digits) - 1
        if exponent:
            fraction += 1 << self.digits
        magnitude = math.ldexp(fraction, max(exponent, 1) - self.bias - self.digits)
        return -magnitude if code & 0x80 else magnitude


class Int8:
    non_finite = None
    largest = 127.0
    largest_scale = largest_scale(127.0)
    values = [float(code - 256 if code & 0x80 else code) for code in range(256)]

    @staticmethod
    def code(x, r):
        # The product has 48 digits at most, so it is exact in binary64; `round` takes ties to even.
        return max(-127, min(127, round(x * r))) & 0xFF


E4M3 = Float8(3, 7, 448.0, 0x7E)
E5M2 = Float8(2, 15, 57344.0, 0x7B)


def written(element, block, kind):
    """Codes of one kind for 128 elements, the scale, and how many are saturated (steps 1, 3, 4 and 5)."""
    numbers = [element.widened(bits) if element.is_finite(bits) else None for bits in block]
    a = max((abs(x) for x in numbers if x is not None), default=0.0)
    if a == 0:
        return [0 if x == 0 else kind.non_finite for x in numbers], 0.0, 0
    d = f32(a / kind.largest)
    s = of_bits32((bits32(d) + 0xFFFF) & 0xFFFF0000)
    s = min(max(s, LEAST_SCALE), kind.largest_scale)
    r = f32(1 / s)
    saturated = sum(x is not None and abs(f32(x * r)) > kind.largest for x in numbers)
    return [kind.non_finite if x is None else kind.code(x, r) for x in numbers], s, saturated


def takes_int8(codes):
    """Step 6."""
    return sum(Int8.values[code] ** 2 for code in codes) >= 17000 + 128 * sum(code != 0 for code in codes)


def write_block(element, block, form):
    """Codes, scale word, and how many elements are saturated (step 2 says in which kind of codes)."""
    if form in ("int8", "auto") and all(map(element.is_finite, block)):
        codes, s, saturated = written(element, block, Int8)
        if form == "int8" or takes_int8(codes):
            return bytes(codes), bits32(s) >> 16 | 0x8000, saturated
    codes, s, saturated = written(element, block, E5M2 if form == "e5m2" else E4M3)
    return bytes(codes), bits32(s) >> 16, saturated


def packet_bytes(count):
    """The size of a packet of so many elements."""
    blocks = -(-count // BLOCK)
    return HEADER + -(-130 * blocks // 16) * 16 if count else 0


def write_packet(element, elements, form, tag):
    """The packet, and how many elements are saturated. `tag` is (call, part)."""
    if not elements:
        return b"", 0
    padded = elements + [0] * (-len(elements) % BLOCK)
    blocks = [write_block(element, padded[at : at + BLOCK], form) for at in range(0, len(padded), BLOCK)]
    packet = struct.pack("<QQ", *tag) + b"".join(codes for codes, _, _ in blocks)
    packet += b"".join(struct.pack("<H", word) for _, word, _ in blocks)
    return packet.ljust(packet_bytes(len(elements)), b"\0"), sum(saturated for _, _, saturated in blocks)


def decoded(element, packet, count, form, tag):
    """The elements of a packet in binary32, and whether it is foreign."""
    if not count:
        return [], False
    if struct.unpack_from("<QQ", packet) != tuple(tag):
        return [math.nan] * count, True
    blocks = -(-count // BLOCK)
    words = struct.unpack_from(f"<{blocks}H", packet, HEADER + BLOCK * blocks)
    return [decoded_one(element, packet[HEADER + i], words[i // BLOCK], form) for i in range(count)], False


def decoded_one(element, code, word, form):
    kind = E5M2 if form == "e5m2" else Int8 if word & 0x8000 else E4M3
    if code == kind.non_finite:
        return math.nan
    v = kind.values[code] * of_bits32((word & 0x7FFF) << 16)
    return max(-element.largest, min(element.largest, v))


def read_packet(element, packet, count, form, tag):
    """The elements, and the number of foreign packets."""
    numbers, foreign = decoded(element, packet, count, form, tag)
    return [element.narrowed(v) for v in numbers], int(foreign)


def summed(element, packets, count, form, average, tag):
    """The sums of the packets of ranks 0, 1 and so on, rounded to elements, and the number of foreign ones."""
    call, part = tag
    ranks = [
        decoded(element, packet, count, form, (call, (part + r) % 2**64)) for r, packet in enumerate(packets)
    ]
    factor = f32(1 / len(packets)) if average else None
    sums = None
    for numbers, _ in ranks:
        if average:
            numbers = [f32(v * factor) for v in numbers]
        sums = numbers if sums is None else [f32(sum_ + v) for sum_, v in zip(sums, numbers)]
    return [element.narrowed(v) for v in sums], sum(foreign for _, foreign in ranks)


def reduced(element, packets, count, form, average, tag, out_tag):
    """The two-shot's packet of the sums, and the number of foreign ones."""
    elements, foreign = summed(element, packets, count, form, average, tag)
    return write_packet(element, elements, form, out_tag)[0], foreign
