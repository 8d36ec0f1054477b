"""The kernels of a CUBIN on a real GPU: right bits, no stray access, and how fast.

    python3 tests/gpu/kernels.py                                                check, then measure
    python3 tests/gpu/kernels.py --check | --measure                            one of them
    python3 tests/gpu/kernels.py --under memcheck | racecheck                   each kernel once, ragged sizes, under
                                                                                compute-sanitizer; memcheck must find a stray
                                                                                access that is made for it

AIRAMP_BLOBS names a folder with other code objects. Needs PyTorch with CUDA and nothing else; what is expected comes from
wire_format.py beside this file.
A kernel's rate is compared with that of a copy that moves as many bytes, read and written, in the same run. One below the
floor is measured twice more, copy and all, and the median counts. `reduce` of 2 ranks is judged apart: only nodes of two ranks, or
two nodes, use it.
Exit status: 0 all right, 1 wrong bits or slower than asked for (--floor, percent of a copy's rate), 77 no GPU.
"""

import ctypes
import os
import statistics
import sys

import torch

import sanitizer
import suite_part
import wire_format as wire

BLOBS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "crates", "kernels", "blobs")
DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}
THREADS = 256
TILE = 1024
MIB = 1 << 20
# The tag of the first packet that is read, and of every one that is written.
TAG = (0x0123456789ABCDEF, 0xFFFFFFFE)
OUT_TAG = (5, 1 << 33)
# saturated, non-finite blocks, squared error, signal, foreign packets
COUNTERS = 5


class Driver:
    """The CUDA driver in PyTorch's own context."""

    def __init__(self):
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.multiprocessors = torch.cuda.get_device_properties(0).multi_processor_count

    def call(self, name, *arguments):
        result = getattr(self.cuda, name)(*arguments)
        if result != 0:
            text = ctypes.c_char_p()
            self.cuda.cuGetErrorString(result, ctypes.byref(text))
            raise SystemExit(f"{name} failed: {text.value.decode() if text.value else result}")

    def module(self, image):
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), image)
        return module

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function


class Kernels:
    """Launches of the four kernels. Pointers may be tensors, addresses, or None."""

    def __init__(self, driver, folder, per_multiprocessor):
        major, minor = torch.cuda.get_device_capability()
        self.file = os.path.join(folder, f"sm_{major}0.cubin")
        with open(self.file, "rb") as blob:
            self.module = driver.module(blob.read())
        self.driver = driver
        self.per_multiprocessor = per_multiprocessor
        self.functions = {}

    def launcher(self, name, count, *arguments, most=None):
        """A function that launches a kernel on the current stream, ready but for the call; `most`: groups, if not as many as usual."""
        if name not in self.functions:
            self.functions[name] = self.driver.function(self.module, name)
        values = [self.argument(argument) for argument in arguments]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        groups = max(1, min(-(-count // (TILE * THREADS // 32)), most or self.most_groups(name)))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        function, launch = self.functions[name], self.driver.call

        def run(_alive=(values, arguments)):
            launch("cuLaunchKernel", function, groups, 1, 1, THREADS, 1, 1, 0, stream, pointers, None)

        return run

    def most_groups(self, name):
        """As the library launches them."""
        usual = 6 if name.startswith("airamp_reduce") else 64
        return self.driver.multiprocessors * (self.per_multiprocessor or usual)

    @staticmethod
    def argument(value):
        if value is None:
            return ctypes.c_uint64(0)
        if isinstance(value, torch.Tensor):
            return ctypes.c_uint64(value.data_ptr())
        kind, number = value
        return ctypes.c_uint32(number) if kind == "u32" else ctypes.c_uint64(number)

    def quantise(self, kind, elements, packets, stride, blocks, form, stats=None, tag=TAG):
        count = elements.numel()
        arguments = (elements, u64(count), packets, u64(stride), u64(blocks), *words(tag), stats)
        return self.launcher(f"airamp_quantise_{kind}_{form}", count, *arguments)

    def dequantise(self, kind, packets, stride, blocks, form, output, stats=None):
        count = output.numel()
        arguments = (packets, u64(stride), u64(blocks), u64(count), *words(TAG), output, stats)
        return self.launcher(f"airamp_dequantise_{kind}_{form}", count, *arguments)

    def dequantise_sum(self, kind, packets, stride, ranks, form, average, output, stats=None):
        count = output.numel()
        arguments = (packets, u64(stride), u32(ranks), u64(count), u32(average), *words(TAG), output, stats)
        return self.launcher(f"airamp_dequantise_sum_{kind}_{form}", count, *arguments)

    def reduce(self, kind, packets, stride, ranks, count, form, average, out_packet, stats=None, most=None):
        tags = (*words(TAG), *words(OUT_TAG))
        arguments = (packets, u64(stride), u32(ranks), u64(count), u32(average), *tags, out_packet, stats)
        return self.launcher(f"airamp_reduce_{kind}_{form}", count, *arguments, most=most)


def u32(number):
    return ("u32", int(number))


def u64(number):
    return ("u64", int(number))


def words(tag):
    return u64(tag[0]), u64(tag[1])


def of_rank(rank):
    return TAG[0], TAG[1] + rank


def elements(count, dtype, seed):
    """A mixture that is hard on the formats: normal, spiked, tiny, huge, zero and non-finite blocks."""
    generator = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(count, generator=generator, device="cuda")
    kind = torch.randint(0, 8, (wire.blocks_of(count),), generator=generator, device="cuda")
    kind = kind.repeat_interleave(wire.BLOCK)[:count]
    pick = torch.rand(count, generator=generator, device="cuda")
    x = torch.where((kind == 1) & (pick < 0.01), x * 100, x)
    x = torch.where(kind == 2, x * torch.finfo(dtype).tiny, x)
    x = torch.where(kind == 3, x * (torch.finfo(dtype).max / 2), x)
    x = torch.where(kind == 4, x * 0, x)
    x = torch.where((kind == 5) & (pick < 0.05), torch.full_like(x, float("inf")), x)
    x = torch.where((kind == 5) & (pick > 0.98), torch.full_like(x, float("nan")), x)
    return x.clamp(-torch.finfo(dtype).max, torch.finfo(dtype).max).where(torch.isfinite(x), x).to(dtype)


def misaligned(count, dtype, offset):
    """An empty tensor that begins `offset` elements behind a multiple of 16 bytes."""
    return torch.full((count + offset,), 3, dtype=dtype, device="cuda")[offset:]


class Checks:
    def __init__(self):
        self.done = 0
        self.failed = []

    def same(self, found, expected, what):
        self.done += 1
        if not torch.equal(found, expected):
            at = int((found != expected).nonzero()[0])
            values = f"{int(found[at])}, not {int(expected[at])}"
            self.failed.append(f"{what}: differs first at {at} of {found.numel()}: {values}")


def ranks_packets(count, dtype, form, ranks):
    stride = wire.packet_bytes(count) + 16
    packets = torch.full((ranks * stride,), 0xA5, dtype=torch.uint8, device="cuda")
    single = []
    for rank in range(ranks):
        packet, _ = wire.quantise(elements(count, dtype, 100 * rank + count), form, of_rank(rank))
        packets[rank * stride : rank * stride + len(packet)] = packet
        single.append(packet)
    return packets, stride, single


def check_one(kernels, checks, kind, form, count, offset, ranks, average):
    dtype = DTYPES[kind]
    what = f"{kind} {form} {count} elements, {offset} off"
    source = misaligned(count, dtype, offset)
    source.copy_(elements(count, dtype, count))
    expected, non_finite = wire.quantise(source, form, TAG)
    blocks = wire.blocks_of(count)
    packet = torch.full_like(expected, 0xA5)
    stats = torch.zeros(COUNTERS, dtype=torch.int64, device="cuda")
    kernels.quantise(kind, source, packet, 0, blocks, form, stats)()
    checks.same(packet, expected, f"quantise {what}")
    checks.same(stats[1:2], torch.tensor([non_finite], device="cuda"), f"non-finite blocks {what}")

    output = misaligned(count, dtype, offset)
    kernels.dequantise(kind, expected, 0, blocks, form, output)()
    wanted = wire.bits(wire.decoded(expected, count, form, dtype, TAG).to(dtype))
    checks.same(wire_bits(output), wanted, f"dequantise {what}")

    packets, stride, single = ranks_packets(count, dtype, form, ranks)
    what = f"{what}, {ranks} ranks, average {average}"
    total = wire.total(single, count, form, dtype, average, TAG)
    output = misaligned(count, dtype, offset)
    kernels.dequantise_sum(kind, packets, stride, ranks, form, average, output)()
    checks.same(wire_bits(output), wire.bits(total), f"dequantise_sum {what}")
    packet = torch.full_like(expected, 0xA5)
    kernels.reduce(kind, packets, stride, ranks, count, form, average, packet, stats)()
    checks.same(packet, wire.quantise(total, form, OUT_TAG)[0], f"reduce {what}")
    checks.same(stats[4:], torch.zeros_like(stats[4:]), f"foreign packets {what}")


def wire_bits(tensor):
    """The bits as they are: a NaN that is not the prescribed one shows."""
    return tensor.view(wire.NOT_A_NUMBER[tensor.dtype][0])


def check_cut(kernels, checks, kind, form, count, blocks):
    """A buffer cut into several packets, and back."""
    dtype = DTYPES[kind]
    source = elements(count, dtype, blocks)
    pieces = source.split(blocks * wire.BLOCK)
    stride = wire.packet_bytes(blocks * wire.BLOCK)
    expected = torch.full((len(pieces) * stride,), 0xA5, dtype=torch.uint8, device="cuda")
    for number, piece in enumerate(pieces):
        packet, _ = wire.quantise(piece, form, TAG)
        expected[number * stride : number * stride + len(packet)] = packet
    packets = torch.full_like(expected, 0xA5)
    kernels.quantise(kind, source, packets, stride, blocks, form)()
    checks.same(packets, expected, f"quantise {kind} {form} {count} in packets of {blocks} blocks")
    # All but the first and the last are foreign.
    last = (len(pieces) - 1) * stride
    for tensor in (expected, packets):
        tensor[last : last + wire.TAG] = wire.tag_of(*of_rank(len(pieces) - 1), "cuda")
    output = torch.empty_like(source)
    stats = torch.zeros(COUNTERS, dtype=torch.int64, device="cuda")
    kernels.dequantise(kind, packets, stride, blocks, form, output, stats)()
    wanted = [
        wire.decoded(expected[number * stride :], len(piece), form, dtype, of_rank(number)).to(dtype)
        for number, piece in enumerate(pieces)
    ]
    checks.same(stats[4:], torch.full_like(stats[4:], len(pieces) - 2), f"foreign packets {kind} {form}")
    what = f"dequantise {kind} {form} {count} in packets of {blocks} blocks"
    checks.same(wire_bits(output), wire.bits(torch.cat(wanted)), what)


def check_many_tiles(kernels, checks, kind, form):
    """One group, so that a warp has several tiles, whose ranks take turns in shared memory."""
    count, ranks = 30 * TILE + 77, 5
    packets, stride, single = ranks_packets(count, DTYPES[kind], form, ranks)
    total = wire.total(single, count, form, DTYPES[kind], 0, TAG)
    expected = wire.quantise(total, form, OUT_TAG)[0]
    packet = torch.full_like(expected, 0xA5)
    kernels.reduce(kind, packets, stride, ranks, count, form, 0, packet, most=1)()
    checks.same(packet, expected, f"reduce {kind} {form}, {ranks} ranks, several tiles to a warp")


def check(kernels, counts):
    checks = Checks()
    for kind in DTYPES:
        for form in wire.FORMATS:
            for number, count in enumerate(counts):
                offset = number % (16 // DTYPES[kind].itemsize)
                check_one(kernels, checks, kind, form, count, offset, 2 + number % 8, number % 3 == 0)
            check_cut(kernels, checks, kind, form, 4000, 9)
            check_many_tiles(kernels, checks, kind, form)
    torch.cuda.synchronize()
    for line in checks.failed[:20]:
        print(line)
    print(f"bits: {checks.done} comparisons, {len(checks.failed)} differ", flush=True)
    return checks


def stray(kernels):
    """The packet ends 16 bytes before what is written there. Nobody's memory, as nothing is allocated behind it."""
    count = 4 * TILE
    source, packet = elements(count, torch.float16, 1), torch.empty(wire.packet_bytes(count) - 16, dtype=torch.uint8, device="cuda")
    kernels.quantise("f16", source, packet, 0, wire.blocks_of(count), "auto")()
    torch.cuda.synchronize()


def milliseconds(launches, repeats=15):
    """The median time of one launch. `launches` work on different buffers, so that no cache helps."""
    for launch in launches:
        launch()
    times = []
    for _ in range(repeats):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for launch in launches:
            launch()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / len(launches))
    return statistics.median(times)


def copy_rate(driver, size, sets):
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    buffers = [torch.randint(0, 256, (2, size), dtype=torch.uint8, device="cuda") for _ in range(sets)]

    def copy(source, target):
        places = (ctypes.c_uint64(target.data_ptr()), ctypes.c_uint64(source.data_ptr()))
        return lambda: driver.call("cuMemcpyDtoDAsync_v2", *places, ctypes.c_size_t(size), stream)

    return 2 * size / milliseconds([copy(*pair) for pair in buffers]) / 1e6


def sets_of(size):
    """So many buffers of `size` bytes that no cache helps."""
    return max(3, 512 * MIB // size)


class Copies:
    """The rates of copies by the bytes that they move, in steps of 4 MiB; each is measured once."""

    STEP = 4 * MIB

    def __init__(self, driver):
        self.driver = driver
        self.rates = {}

    def rate(self, moved):
        size = max(1, round(moved / 2 / self.STEP)) * self.STEP
        if size not in self.rates:
            self.rates[size] = copy_rate(self.driver, size, sets_of(size))
        return self.rates[size]


def measured(kernels, kind, form, size, ranks, wanted):
    """Of each kernel whose name begins with `wanted`, on buffers of `size` bytes of elements, with `ranks` packets
    where it sums: its name, the bytes that it moves, and its GB/s."""
    dtype = DTYPES[kind]
    count = size // dtype.itemsize
    blocks, packet = wire.blocks_of(count), wire.packet_bytes(count)
    stats = torch.zeros(COUNTERS, dtype=torch.int64, device="cuda")
    buffers = []
    for number in range(sets_of(size)):
        generator = torch.Generator(device="cuda").manual_seed(number)
        source = torch.randn(count, device="cuda", generator=generator).to(dtype)
        packets = torch.empty(ranks * packet, dtype=torch.uint8, device="cuda")
        for rank in range(ranks):
            place = packets[rank * packet :]
            kernels.quantise(kind, source, place, packet, blocks, form, tag=of_rank(rank))()
        buffers.append((source, packets, torch.empty(packet, dtype=torch.uint8, device="cuda")))
    jobs = {
        "quantise": (
            size + packet,
            lambda s, p, o: kernels.quantise(kind, s, o, packet, blocks, form, stats),
        ),
        "dequantise": (
            size + packet,
            lambda s, p, o: kernels.dequantise(kind, p, packet, blocks, form, s),
        ),
        f"dequantise_sum, {ranks} ranks": (
            size + ranks * packet,
            lambda s, p, o: kernels.dequantise_sum(kind, p, packet, ranks, form, 0, s),
        ),
    }
    jobs[f"reduce, {ranks} ranks"] = (
        (ranks + 1) * packet,
        lambda s, p, o: kernels.reduce(kind, p, packet, ranks, count, form, 0, o, stats),
    )
    for name, (moved, job) in jobs.items():
        if not name.startswith(wanted):
            continue
        yield name, moved, moved / milliseconds([job(*set_) for set_ in buffers]) / 1e6


class Rates:
    """Each kernel's rate beside that of a copy."""

    def __init__(self, kernels, driver, arguments, part):
        self.kernels, self.driver, self.arguments, self.part = kernels, driver, arguments, part
        self.copies = Copies(driver)

    def percent(self, rate, moved):
        return 100 * rate / self.copies.rate(moved)

    def again(self, key, percent):
        """The median of that and two more, each with a copy of its own."""
        kind, form, size, ranks, name = key
        found = [percent]
        for _ in range(2):
            self.copies = Copies(self.driver)
            _, moved, rate = next(measured(self.kernels, kind, form, size, ranks, name))
            found.append(self.percent(rate, moved))
        shown = ", ".join(f"{one:.1f}%" for one in found)
        print(f"    {name} {kind} {form}, {size // MIB} MiB: measured again: {shown}", flush=True)
        return statistics.median(found), found

    def row(self, kind, size, ranks, name, cells):
        """Of all formats: printed, kept, and what is below the floor measured again."""
        columns = "".join(f"{rate:8.0f} {self.percent(rate, moved):4.0f}%" for _, moved, rate in cells)
        moved = cells[0][1]
        print(f"{name:28}{kind:6}{columns}{moved / MIB:11.0f}{self.copies.rate(moved):7.0f}", flush=True)
        for form, (_, moved, rate) in zip(self.arguments.formats.split(","), cells):
            percent = self.percent(rate, moved)
            one = dict(kernel=name, type=kind, format=form, bytes=size, gb_s=rate, percent=percent)
            if not percent >= self.arguments.floor and self.part.left() > 5:
                one["percent"], one["all"] = self.again((kind, form, size, ranks, name), percent)
            self.part.data["rates"].append(one)
        self.part.put()

    def table(self, size):
        forms, counts = self.arguments.formats.split(","), [int(ranks) for ranks in self.arguments.ranks.split(",")]
        print(f"\n{size // MIB} MiB of elements; a copy of as many bytes moves {self.copies.rate(2 * size):.0f} GB/s.")
        print("GB/s, and percent of a copy that moves as many bytes as the kernel:")
        print(f"{'kernel':28}{'':6}" + "".join(f"{form:>14}" for form in forms) + f"{'MiB moved':>11}{'copy':>7}")
        for kind in self.arguments.types.split(","):
            for ranks in counts:
                rows = [list(measured(self.kernels, kind, form, size, ranks, self.arguments.kernel)) for form in forms]
                for cells in zip(*rows):
                    if "ranks" in cells[0][0] or ranks == counts[0]:
                        self.row(kind, size, ranks, cells[0][0], cells)

    def judge(self):
        floor, rates = self.arguments.floor, self.part.data["rates"]
        groups = {"all but reduce of 2 ranks": [], RARE: []}
        for one in rates:
            groups[RARE if one["kernel"] == RARE else "all but reduce of 2 ranks"].append(one)
        for name, of in groups.items():
            if not of:
                continue
            slow = [one for one in of if not one["percent"] >= floor]
            told = "; ".join(f"{one['kernel']} {one['type']} {one['format']}, {one['bytes'] // MIB} MiB: {one['percent']:.0f}%" for one in slow)
            least = min(one["percent"] for one in of)
            claim = f"{floor:.0f}% of a copy's rate: {name}" if floor else f"measured: {name}"
            self.part.check(claim, not slow, f"{len(of)} rates, the least {least:.0f}%; below: {told or 'none'}")


# Of two summands in nodes of two ranks, or among two nodes; two ranks alone use dequantise_sum.
RARE = "reduce, 2 ranks"


def measure(kernels, driver, arguments, part):
    rates = Rates(kernels, driver, arguments, part)
    part.put(rates=[])
    for size in arguments.sizes.split(","):
        rates.table(int(size) * MIB)
    rates.judge()


def main():
    parser = suite_part.parser_of(__doc__, 300)
    parser.add_argument("--check", action="store_true", help="only compare bits")
    parser.add_argument("--measure", action="store_true", help="only measure")
    parser.add_argument("--under", choices=("memcheck", "racecheck"), help="each kernel, under compute-sanitizer's tool")
    parser.add_argument("--sanitize", action="store_true", help="what that runs: each kernel on small ragged sizes")
    parser.add_argument("--stray", action="store_true", help="what memcheck must find: a write beyond a packet")
    parser.add_argument("--sizes", default="64,256", help="MiB of elements to measure with")
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks to measure sums with")
    parser.add_argument("--formats", default="e4m3,e5m2,int8,auto", help="formats to measure")
    parser.add_argument("--types", default=",".join(DTYPES), help="types of elements to measure")
    parser.add_argument("--kernel", default="", help="measure those whose names begin so (default: all)")
    parser.add_argument("--floor", type=float, default=0, help="percent of the copy's rate to reach")
    parser.add_argument("--groups", type=int, help="thread groups per multiprocessor, at most (default: the library's)")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no GPU", file=sys.stderr)
        return 77
    if arguments.under:
        return sanitizer.under(arguments.under, suite_part.Part(arguments.under, arguments), __file__)
    driver = Driver()
    kernels = Kernels(driver, os.environ.get("AIRAMP_BLOBS") or BLOBS, arguments.groups)
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, {kernels.file}")
    if arguments.stray:
        return stray(kernels)
    if arguments.sanitize:
        # A whole tile, a ragged one, of the latter one by way of shared memory; and `check_many_tiles`.
        return 1 if check(kernels, (1153,)).failed else 0
    part = suite_part.Part("kernels", arguments)
    part.put(machine={"device": torch.cuda.get_device_name(), "torch": torch.__version__})
    if not arguments.measure:
        checks = check(kernels, (1, 7, 127, 128, 129, 1023, 1024, 1025, 4097, 65536, 100003, 1 << 20))
        told = "; ".join(checks.failed[:3])
        part.check("the bits of wire_format.py", not checks.failed, f"{checks.done} comparisons, {len(checks.failed)} differ; {told}".rstrip("; "))
    if not arguments.check:
        measure(kernels, driver, arguments, part)
    return part.end()


if __name__ == "__main__":
    sys.exit(main())
