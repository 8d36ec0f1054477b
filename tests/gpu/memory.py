"""Device memory that compression adds per rank, by free memory before and after, and which part of it is NCCL's own.

    AIRAMP_BIN=… python3 tests/gpu/memory.py [--ranks 2,4,8] [--output FOLDER]

Two jobs for each number of ranks, of more than two ranks three, on NCCL by ctypes, one after the other on an otherwise idle GPU:
  without      a communicator, NCCL's AllReduce, then one Send/Recv of the application's own
  compressed   a communicator (the library connects inside), NCCL's AllReduce, then the first compressed calls
  lean         the same with AIRAMP_LEAN_MESSAGES, to see what it saves; judged by nobody
Free memory is read while all ranks are idle and divided by their number; what a rank's context and tensors take is
there before. Beside it the context's limit for a thread's stack: the driver keeps local memory for every thread that
can be resident, so a kernel with a larger stack than any before takes memory once for all of them.
Exit status: 0 measured, and compression happened; 1 not so; 77 no GPU.
"""

import ctypes
import sys

import ranks
import suite_part

BYTES = 64 << 20
# What a rank may take of the device beside NCCL's own messages.
OURS_MB = 20
MB = 1e6
STACK_SIZE = 0
SETTINGS = {"AIRAMP_MIN_BYTES": str(1 << 20)}
# Stage -> what it is called in the table.
WITHOUT = {"create": "communicator", "all_reduce": "NCCL's AllReduce", "messages": "own Send/Recv"}
LEAN = {"AIRAMP_LEAN_MESSAGES": "1"}
COMPRESSED = {"create": "communicator", "all_reduce": "NCCL's AllReduce", "compressed": "compressed calls"}


class Rank:
    """One rank on NCCL by ctypes; a stage per request. Nothing touches the GPU before the first one."""

    comm = None

    def __init__(self):
        # While the ranks wait for their turn.
        import torch

        self.torch = torch

    def answer(self, request):
        return getattr(self, request["do"])()

    def context(self):
        self.torch.cuda.set_device(0)
        self.tensor = self.torch.zeros(BYTES // 2, dtype=self.torch.float16, device="cuda")
        self.stream = self.torch.cuda.Stream()
        self.torch.cuda.synchronize()
        return {}

    def create(self):
        import ctypes_nccl

        self.types = ctypes_nccl
        self.nccl = ctypes_nccl.Nccl("libnccl.so.2")
        self.comm, self.store = ctypes_nccl.communicator(self.nccl)
        return {}

    def reduce(self, tensor, kind, op):
        place = tensor.data_ptr()
        self.nccl.AllReduce(place, place, tensor.numel(), kind, op, self.comm, self.stream.cuda_stream)
        self.torch.cuda.synchronize()

    def all_reduce(self):
        """As large as the compressed calls will be, but never compressed: small pieces, and another reduction."""
        self.reduce(self.tensor, self.types.FLOAT16, self.types.MAX)
        self.reduce(self.tensor[:1000], self.types.FLOAT16, self.types.SUM)
        if ranks.compressed_calls(self.comm) is None:
            for kind, dtype in ((self.types.FLOAT16, "float16"), (self.types.FLOAT32, "float32")):
                self.reduce(self.tensor.view(getattr(self.torch, dtype)), kind, self.types.SUM)
        return {}

    def messages(self):
        following, previous = (ranks.RANK + 1) % ranks.SIZE, (ranks.RANK - 1) % ranks.SIZE
        half = self.tensor.numel() // 2
        stream = self.stream.cuda_stream
        self.nccl.GroupStart()
        self.nccl.Send(self.tensor.data_ptr(), half, self.types.FLOAT16, following, self.comm, stream)
        self.nccl.Recv(self.tensor[half:].data_ptr(), half, self.types.FLOAT16, previous, self.comm, stream)
        self.nccl.GroupEnd()
        self.torch.cuda.synchronize()
        return {}

    def compressed(self):
        for kind, dtype in ((self.types.FLOAT16, "float16"), (self.types.FLOAT32, "float32")):
            self.reduce(self.tensor.view(getattr(self.torch, dtype)), kind, self.types.SUM)
        return {"calls": ranks.compressed_calls(self.comm)}

    def free(self):
        size = ctypes.c_size_t()
        self.torch.cuda.synchronize()
        failed = ctypes.CDLL("libcuda.so.1").cuCtxGetLimit(ctypes.byref(size), STACK_SIZE)
        return {"free": self.torch.cuda.mem_get_info()[0], "stack": None if failed else size.value}

    def end(self):
        if self.comm is not None:
            self.nccl.CommDestroy(self.comm)


def measure(job, stages, count):
    """Stage -> bytes per rank since the contexts were there, and the stack limit."""
    job.ask({"do": "context"})
    before = job.ask({"do": "free"}, only=0)[0]
    found = {"context": {"bytes": 0, "stack": before["stack"]}}
    for stage in stages:
        answers = job.ask({"do": stage})
        now = job.ask({"do": "free"}, only=0)[0]
        found[stage] = {"bytes": (before["free"] - now["free"]) / ranks.on_the_first_card(count), "stack": now["stack"]}
        if "calls" in answers[0]:
            found[stage]["calls"] = [answer["calls"] for answer in answers]
    return found


def print_stages(count, how, names, found):
    previous = 0
    for stage, name in names.items():
        taken, stack = found[stage]["bytes"], str(found[stage]["stack"])
        print(f"{count:>5}  {how:12}{name:20}{taken / MB:10.1f}{(taken - previous) / MB:+10.1f}{stack:>9}")
        previous = taken


def summary(part, count, without, compressed):
    """What is ours must not take more than users were told."""
    total = compressed["compressed"]["bytes"] - without["all_reduce"]["bytes"]
    messages = without["messages"]["bytes"] - without["all_reduce"]["bytes"]
    beside = compressed["compressed"]["bytes"] - without["messages"]["bytes"]
    # With two ranks the library sends no messages: none of it is theirs.
    messages = messages if count > 2 else 0
    line = dict(ranks=count, added=total, messages=messages, rest=total - messages, beside_messages=beside)
    part.put(added=[*part.data["added"], line])
    found = f"{(total - messages) / MB:.1f} MB; all added {total / MB:.1f}, of it NCCL's Send and Recv {messages / MB:.1f}; beside an application's own {beside / MB:.1f}"
    part.check(f"{count} ranks: below {OURS_MB} MB that are not NCCL's Send and Recv", (total - messages) / MB < OURS_MB, found)


def measure_lean(part, jobs, count, without):
    """What all of it takes where a Reduce goes beside the messages, and whether it ran so."""
    job = jobs[count, "lean"]
    found = measure(job, COMPRESSED, count)
    print_stages(count, "lean", COMPRESSED, found)
    total = found["compressed"]["bytes"] - without["all_reduce"]["bytes"]
    part.put(lean=[*part.data["lean"], dict(ranks=count, added=total, stack=found["compressed"]["stack"])])
    on, calls = job.switched_on(), found["compressed"]["calls"]
    words = f"{total / MB:.1f} MB in all; on in {on} of {count} ranks, calls {calls}"
    part.check(f"{count} ranks: all compress with a Reduce beside the messages", on == count and all(calls), words)
    jobs.pop((count, "lean")).close()


def measure_pair(part, jobs, count):
    """A job without and one with compression, the one gone before the other begins, whose memory would count."""
    pair = []
    for how, stages in (("without", WITHOUT), ("compressed", COMPRESSED)):
        job = jobs[count, how]
        found = measure(job, stages, count)
        print_stages(count, how, stages, found)
        pair.append(found)
        if how == "compressed":
            on, calls = job.switched_on(), found["compressed"]["calls"]
            right = on == count and all(calls)
            part.check(f"{count} ranks: all compress", right, f"on in {on} of {count} ranks, calls {calls}")
            if not right:
                print("\n".join(job.complaints()), flush=True)
        jobs.pop((count, how)).close()
        if job.forced:
            ranks.fresh_mps()
    part.put(stages={**part.data["stages"], str(count): pair})
    summary(part, count, *pair)
    if (count, "lean") in jobs and part.left() > 10:
        measure_lean(part, jobs, count, pair[0])


def conduct(arguments):
    """All ranks are started first and wait without touching the GPU: starting Python takes most of the time."""
    part = suite_part.Part("memory", arguments)
    part.put(stages={}, added=[], lean=[])
    counts = [int(count) for count in arguments.ranks.split(",")]
    plan = [(count, how) for count in counts for how in ("without", "compressed")]
    jobs = {key: ranks.Ranks(__file__, key[0], key[1], SETTINGS, limit=60) for key in plan}
    for count in counts:
        if count > 2:
            jobs[count, "lean"] = ranks.Ranks(__file__, count, "compressed", SETTINGS | LEAN, limit=60)
    print(f"{'ranks':>5}  {'job':12}{'after':20}{'MB/rank':>10}{'step':>10}{'stack':>9}", flush=True)
    try:
        for count in counts:
            if part.left() < 10:
                part.check(f"{count} ranks: measured", None, "no time")
                continue
            try:
                measure_pair(part, jobs, count)
            except ranks.Ended as ended:
                part.check(f"{count} ranks: measured", False, str(ended))
                for key in [key for key in jobs if key[0] == count]:
                    jobs.pop(key).close()
                # The others have not touched the GPU yet.
                ranks.fresh_mps()
    finally:
        for job in jobs.values():
            job.close()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 300)
    parser.add_argument("--ranks", default="2,4,8", help="numbers of ranks")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        ranks.serve(Rank())
        return
    ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
