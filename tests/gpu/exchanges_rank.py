"""One rank of exchanges.py: NCCL's own operations for the bytes that a compressed AllReduce would send, in several
arrangements. Nothing is compressed and no kernel of ours runs: what is timed is NCCL alone.

A chunk goes to all ranks in shards (the scatter) and comes back as one (the gather); two ranks exchange it once. Each of
the two lanes has buffers, a stream and events of its own, so that two chunks can be under way.
"""

import ctypes
import time

import grid_rank
import ranks
from grid_rank import INT, POINTER, SIZE_T, Library
from suite_part import median

UINT8, FLOAT8_E4M3, SUM = 1, 10, 0
LANES = 2
STACK_SIZE = 0
UNDEFINED = -(1 << 31)

CUDA = {
    "cuEventCreate": [ctypes.POINTER(POINTER), INT],
    "cuEventRecord": [POINTER, POINTER],
    "cuStreamWaitEvent": [POINTER, POINTER, INT],
    "cuMemGetInfo_v2": [ctypes.POINTER(SIZE_T), ctypes.POINTER(SIZE_T)],
}
NO_TIMING = 2


class Config(ctypes.Structure):
    """The part of ncclConfig_t that is as old as ncclCommSplit."""

    _fields_ = [("size", SIZE_T), ("magic", ctypes.c_uint), ("version", ctypes.c_uint)] + [
        (name, INT) for name in ("blocking", "cga", "min_ctas", "max_ctas")
    ]
    _fields_ += [("net", POINTER), ("share", INT)]


NCCL = {
    "ncclCommSplit": [POINTER, INT, INT, ctypes.POINTER(POINTER), ctypes.POINTER(Config)],
    "ncclAllGather": [POINTER, POINTER, SIZE_T, INT, POINTER, POINTER],
    "ncclReduce": [POINTER, POINTER, SIZE_T, INT, INT, INT, POINTER, POINTER],
    "ncclSend": [POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclRecv": [POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


def stack_limit():
    """Bytes of the context for a thread's stack, which a kernel that wants more raises for good; None on the emulator."""
    size, ask = SIZE_T(), getattr(ctypes.CDLL("libcuda.so.1"), "cuCtxGetLimit", None)
    return size.value if ask and ask(ctypes.byref(size), STACK_SIZE) == 0 else None


def partner(rank, turn, size):
    """Whom a rank meets in a turn, so that in size - 1 turns everybody meets everybody (the circle of a tournament; `size`
    is even)."""
    last = size - 1
    if rank == last:
        # The one at whom the circle folds: twice its number is the turn.
        return next(other for other in range(last) if (2 * other - turn) % last == 0)
    other = (turn - rank) % last
    return last if other == rank else other


class Lane:
    """What one chunk needs: buffers, a stream, and an event for each half of the exchange."""

    def __init__(self, rank, chunk):
        self.stream, self.scattered, self.gathered = rank.stream_of_its_own(), rank.event(), rank.event()
        self.out, self.arrived, self.shard, self.whole = (rank.buffer(chunk) for _ in range(4))
        self.little = rank.buffer(16)
        # What a pair gathers: a shard of each, or, of two ranks, the whole of each.
        size = 2 * chunk // (1 if ranks.SIZE == 2 else ranks.SIZE)
        self.landings = [rank.buffer(size) for _ in range(ranks.SIZE - 1)]


class Rank(grid_rank.Rank):
    def __init__(self):
        super().__init__()
        self.more = Library("libcuda.so.1", CUDA)
        self.ops = Library(grid_rank.nccl_file(), NCCL)
        self.lanes, self.turns, self.chunk, self.chunks, self.made = [], [], None, None, {}

    def stream_of_its_own(self):
        stream = POINTER()
        self.cuda.cuStreamCreate(ctypes.byref(stream), 1)
        return stream

    def event(self):
        event = POINTER()
        self.more.cuEventCreate(ctypes.byref(event), NO_TIMING)
        return event

    def buffer(self, size):
        place = POINTER()
        self.cuda.cuMemAlloc_v2(ctypes.byref(place), size)
        return place

    def free(self):
        self.wait()
        free, total = SIZE_T(), SIZE_T()
        self.more.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        return {"free": free.value, "stack": stack_limit()}

    def room(self, chunk, size):
        """The lanes, for chunks of at most about so many bytes, and the tensor that the vendor sums."""
        packets = size // 2 * 130 // 128
        self.chunks = -(-packets // chunk)
        # All of one size, so that no more is sent than a compressed call would send.
        self.chunk = -(-packets // self.chunks // (ranks.SIZE * 256)) * ranks.SIZE * 256
        self.lanes = [Lane(self, self.chunk) for _ in range(LANES)]
        # Of each turn of pairs, and when it is done; when all may begin.
        self.turns = [(self.stream_of_its_own(), self.event()) for _ in range(ranks.SIZE - 1)]
        self.begun = self.event()
        self.numbers(size, "float16")
        return {}

    def first(self, id):
        """The communicator that an application would have, used once for what an application uses."""
        began = time.perf_counter()
        self.make("first", id)
        self.numbers(1 << 20, "float16")
        self.call("first", 1 << 20, "float16")
        self.wait()
        self.made["first"] = self.comms["first"]
        return {"seconds": time.perf_counter() - began}

    def split(self, parent, colour, share):
        """`share`: its own children take its channels and threads; it has those of its parent if that one shares."""
        config = Config(ctypes.sizeof(Config), 0xCAFEBEEF, 21801, *[UNDEFINED] * 4, None, 1 if share else UNDEFINED)
        child = POINTER()
        self.ops.ncclCommSplit(self.made[parent], colour, ranks.RANK, ctypes.byref(child), ctypes.byref(config))
        return child

    def second(self):
        """Another communicator of all ranks, with channels and threads of its own."""
        began = time.perf_counter()
        self.made["second"] = self.split("first", 0, True)
        return {"seconds": time.perf_counter() - began}

    def pairs(self, share):
        """One communicator with each other rank."""
        began, found = time.perf_counter(), {}
        for turn in range(ranks.SIZE - 1):
            other = partner(ranks.RANK, turn, ranks.SIZE)
            found[other] = self.split("second" if share else "first", min(ranks.RANK, other), share)
        self.made["shared pairs" if share else "pairs"] = found
        return {"seconds": time.perf_counter() - began}

    # The parts of an exchange. `lane` has the buffers, `stream` the order.

    def gather(self, comm, lane, stream):
        self.ops.ncclAllGather(lane.shard, lane.whole, self.chunk // ranks.SIZE, UINT8, self.made[comm], stream)

    def whole(self, comm, lane, stream):
        """Two ranks: everything once."""
        self.ops.ncclAllGather(lane.out, lane.landings[0], self.chunk, UINT8, self.made[comm], stream)

    def messages(self, comm, lane, stream):
        shard = self.chunk // ranks.SIZE
        self.ops.ncclGroupStart()
        for step in range(1, ranks.SIZE):
            to, source = (ranks.RANK + step) % ranks.SIZE, (ranks.RANK - step) % ranks.SIZE
            at = POINTER(lane.out.value + to * shard), POINTER(lane.arrived.value + source * shard)
            self.ops.ncclSend(at[0], shard, UINT8, to, self.made[comm], stream)
            self.ops.ncclRecv(at[1], shard, UINT8, source, self.made[comm], stream)
        self.ops.ncclGroupEnd()

    def messages_beside_a_reduce(self, comm, lane, stream):
        """NCCL runs all of a group in the kernel of its first collective that has one of its own (the protocol LL, which few bytes take),
        and only messages alone in theirs, whose larger stack takes device memory for every thread that can be resident."""
        self.ops.ncclGroupStart()
        self.ops.ncclReduce(lane.little, lane.little, 1, UINT8, SUM, 0, self.made[comm], stream)
        self.messages(comm, lane, stream)
        self.ops.ncclGroupEnd()

    def by_pairs_at_once(self, comm, lane, stream):
        """As by_pairs, with a stream for each turn: its order is the same on all ranks, whichever share a queue of the device."""
        shard, pairs = self.chunk // ranks.SIZE, self.made[comm]
        self.more.cuEventRecord(self.begun, stream)
        self.ops.ncclGroupStart()
        for other, landing, (own, _) in zip(pairs, lane.landings, self.turns):
            self.more.cuStreamWaitEvent(own, self.begun, 0)
            self.ops.ncclAllGather(POINTER(lane.out.value + other * shard), landing, shard, UINT8, pairs[other], own)
        self.ops.ncclGroupEnd()
        for own, done in self.turns:
            self.more.cuEventRecord(done, own)
            self.more.cuStreamWaitEvent(stream, done, 0)

    def by_pairs(self, comm, lane, stream):
        """What goes to a rank, gathered with what comes from it: both send a shard, and nothing else."""
        shard, pairs = self.chunk // ranks.SIZE, self.made[comm]
        self.ops.ncclGroupStart()
        # In the order of the turns, in which partners meet: NCCL may run them one after the other.
        for other, landing in zip(pairs, lane.landings):
            self.ops.ncclAllGather(POINTER(lane.out.value + other * shard), landing, shard, UINT8, pairs[other], stream)
        self.ops.ncclGroupEnd()

    # Arrangements of the chunks of a call: each leaves everything behind the calls of `self.stream`.

    def in_turn(self, chunks, scatter, gather):
        """One stream, a chunk's gather behind the next one's scatter."""
        for place in range(chunks + 1):
            if place < chunks:
                scatter(self.lanes[place % LANES], self.stream)
            if place > 0:
                gather(self.lanes[(place - 1) % LANES], self.stream)

    def together(self, chunks, scatter, gather):
        """One stream, a chunk's gather in one group with the next one's scatter."""
        for place in range(chunks + 1):
            self.ops.ncclGroupStart()
            if place < chunks:
                scatter(self.lanes[place % LANES], self.stream)
            if place > 0:
                gather(self.lanes[(place - 1) % LANES], self.stream)
            self.ops.ncclGroupEnd()

    def side_by_side(self, chunks, scatter, gather):
        """All scatters on one stream, all gathers on another."""
        scatters, gathers = (lane.stream for lane in self.lanes)
        self.fork()
        for place in range(chunks):
            lane = self.lanes[place % LANES]
            if place >= LANES:
                self.more.cuStreamWaitEvent(scatters, lane.gathered, 0)
            scatter(lane, scatters)
            self.more.cuEventRecord(lane.scattered, scatters)
            self.more.cuStreamWaitEvent(gathers, lane.scattered, 0)
            gather(lane, gathers)
            self.more.cuEventRecord(lane.gathered, gathers)
        self.join()

    def alternating(self, chunks, operations):
        """Every other chunk on a stream and with operations of its own."""
        self.fork()
        for place in range(chunks):
            lane = self.lanes[place % LANES]
            for operation in operations[place % LANES]:
                operation(lane, lane.stream)
        self.join()

    def fork(self):
        self.more.cuEventRecord(self.lanes[0].scattered, self.stream)
        for lane in self.lanes:
            self.more.cuStreamWaitEvent(lane.stream, self.lanes[0].scattered, 0)

    def join(self):
        for lane in self.lanes:
            self.more.cuEventRecord(lane.scattered, lane.stream)
            self.more.cuStreamWaitEvent(self.stream, lane.scattered, 0)

    def way(self, name, chunks):
        """Enqueues a call's bytes in that arrangement."""

        def on(operation, comm):
            return lambda lane, stream: operation(comm, lane, stream)

        both = [[on(self.messages, comm), on(self.gather, comm)] for comm in ("first", "second")]
        once = [[on(self.whole, comm)] for comm in ("first", "second")]
        gather, beside = on(self.gather, "first"), [on(self.messages_beside_a_reduce, comm) for comm in ("first", "second")]
        ways = {
            "a reduce beside": lambda: self.in_turn(chunks, beside[0], gather),
            "a reduce beside, one group": lambda: self.together(chunks, beside[0], gather),
            "a reduce beside, two in turn": lambda: self.alternating(chunks, [[scatter, way[1]] for scatter, way in zip(beside, both)]),
            "one communicator": lambda: self.in_turn(chunks, *both[0]),
            "two, chunks in turn": lambda: self.alternating(chunks, both),
            "two, scatter and gather": lambda: self.side_by_side(chunks, both[1][0], gather),
            "pairs": lambda: self.in_turn(chunks, on(self.by_pairs, "pairs"), gather),
            "pairs, beside": lambda: self.side_by_side(chunks, on(self.by_pairs, "pairs"), gather),
            "pairs at once": lambda: self.in_turn(chunks, on(self.by_pairs_at_once, "pairs"), gather),
            "pairs at once, beside": lambda: self.side_by_side(chunks, on(self.by_pairs_at_once, "pairs"), gather),
            "shared pairs": lambda: self.in_turn(chunks, on(self.by_pairs, "shared pairs"), gather),
            "once, one communicator": lambda: self.alternating(chunks, [once[0], once[0]]),
            "once, two in turn": lambda: self.alternating(chunks, once),
        }
        ways[name]()

    def timed(self, name, size, turns):
        """Seconds in the middle of the turns; `size` is that of a tensor of 16-bit numbers."""
        elements, chunks = size // 2, self.chunks
        found = []
        for _ in range(turns):
            self.call("first", 4, "float32")
            self.wait()
            began = time.perf_counter()
            if name == "vendor":
                self.call("first", size, "float16")
            elif name == "fp8":
                comm = self.made["first"]
                self.nccl.ncclAllReduce(self.source, self.result, elements, FLOAT8_E4M3, 0, comm, self.stream)
            else:
                self.way(name, chunks)
            self.wait()
            found.append(time.perf_counter() - began)
        return {"seconds": median(found)}

    def end(self):
        for made in self.made.values():
            for comm in made.values() if isinstance(made, dict) else [made]:
                self.nccl.ncclCommDestroy(comm)
