"""One rank that calls NCCL through ctypes on a handle, as inference servers do.

    ctypes_nccl.py LIBRARY      a path, a name, or libairamp_accel.so itself

Functions come from dlsym on the handle, never from the linker. Prints a JSON line
per case with a digest of the result's bits. Started by tests/gpu/run with two ranks
that share device 0. Needs PyTorch (for device memory and the store) and nothing else.
"""

import ctypes
import datetime
import hashlib
import json
import os
import sys

import torch

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", 0)
FLOAT32, FLOAT16, BFLOAT16, INT32 = 7, 6, 9, 2
SUM, MAX = 0, 2
TYPES = {torch.float32: FLOAT32, torch.float16: FLOAT16, torch.bfloat16: BFLOAT16, torch.int32: INT32}
INVALID_ARGUMENT = 4


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


POINTER, SIZE_T, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
SIGNATURES = {
    "ncclGetVersion": [ctypes.POINTER(INT)],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(POINTER), INT, UniqueId, INT],
    "ncclCommCount": [POINTER, ctypes.POINTER(INT)],
    "ncclCommUserRank": [POINTER, ctypes.POINTER(INT)],
    "ncclCommGetAsyncError": [POINTER, ctypes.POINTER(INT)],
    "ncclAllReduce": [POINTER, POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclReduce": [POINTER, POINTER, SIZE_T, INT, INT, INT, POINTER, POINTER],
    "ncclReduceScatter": [POINTER, POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclAllGather": [POINTER, POINTER, SIZE_T, INT, POINTER, POINTER],
    "ncclBroadcast": [POINTER, POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclSend": [POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclRecv": [POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
    "ncclCommDestroy": [POINTER],
}


class Nccl:
    """The functions of one library, each looked up on its handle."""

    def __init__(self, library):
        self.library = ctypes.CDLL(library)
        self.functions = {}
        for name, arguments in SIGNATURES.items():
            function = getattr(self.library, name)
            function.restype, function.argtypes = INT, arguments
            self.functions[name] = function
        self.error_string = self.library.ncclGetErrorString
        self.error_string.restype, self.error_string.argtypes = ctypes.c_char_p, [INT]

    def __getattr__(self, name):
        function = self.functions["nccl" + name]

        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise RuntimeError(f"nccl{name} returned {code}: {self.error_string(code).decode()}")

        return call


def report(case, data, right):
    digest = hashlib.sha256(data).hexdigest()[:16]
    line = {"case": case, "rank": RANK, "digest": digest, "expected": "ok" if right else "mismatch"}
    print(json.dumps(line), flush=True)


def report_tensor(case, result, expected):
    torch.cuda.synchronize()
    host = result.cpu().contiguous()
    data = ctypes.string_at(host.data_ptr(), host.numel() * host.element_size())
    report(case, data, torch.equal(result, expected.to(result.dtype)))


def values(count, dtype=torch.float32, rank=RANK, start=0):
    index = torch.arange(start, start + count, device=DEVICE)
    return ((index * (rank + 1) + rank) % 7).to(dtype)


def total(count, dtype, start=0):
    return torch.stack([values(count, torch.float64, rank, start) for rank in range(SIZE)]).sum(0).to(dtype)


def communicator(nccl):
    """The id travels through PyTorch's key-value store, which does not use NCCL."""
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = torch.distributed.TCPStore(address, port, SIZE, RANK == 0, timeout=datetime.timedelta(seconds=90))
    unique = UniqueId()
    if RANK == 0:
        nccl.GetUniqueId(ctypes.byref(unique))
        store.set("id", bytes(unique).hex())
    ctypes.memmove(ctypes.byref(unique), bytes.fromhex(store.get("id").decode()), 128)
    comm = POINTER()
    nccl.CommInitRank(ctypes.byref(comm), SIZE, unique, RANK)
    return comm, store


def questions(nccl, comm):
    version, count, rank, error = INT(), INT(), INT(), INT()
    nccl.GetVersion(ctypes.byref(version))
    nccl.CommCount(comm, ctypes.byref(count))
    nccl.CommUserRank(comm, ctypes.byref(rank))
    nccl.CommGetAsyncError(comm, ctypes.byref(error))
    report("version", str(version.value).encode(), version.value > 0)
    place = (count.value, rank.value, error.value)
    report("queries", str(place).encode(), place == (SIZE, RANK, 0))
    texts = [nccl.error_string(code) for code in range(-1, 10)]
    report("error_strings", b"\n".join(texts), all(texts))
    refused = nccl.functions["ncclAllReduce"](None, None, 1, FLOAT32, SUM, None, None)
    report("null_communicator", str(refused).encode(), refused == INVALID_ARGUMENT)


def collectives(nccl, comm, stream):
    for dtype, number in TYPES.items():
        for count in (1, 1023, 300007):
            result = values(count, dtype)
            nccl.AllReduce(result.data_ptr(), result.data_ptr(), count, number, SUM, comm, stream)
            report_tensor(f"all_reduce/{dtype}/{count}", result, total(count, dtype))
    count = 5003
    source, result = values(count * SIZE), torch.empty(count, device=DEVICE)
    nccl.ReduceScatter(source.data_ptr(), result.data_ptr(), count, FLOAT32, SUM, comm, stream)
    report_tensor("reduce_scatter", result, total(count, torch.float32, RANK * count))
    source, result = values(count), torch.empty(count * SIZE, device=DEVICE)
    nccl.AllGather(source.data_ptr(), result.data_ptr(), count, FLOAT32, comm, stream)
    report_tensor("all_gather", result, torch.cat([values(count, rank=rank) for rank in range(SIZE)]))
    result = torch.empty(count, device=DEVICE)
    nccl.Broadcast(source.data_ptr(), result.data_ptr(), count, FLOAT32, SIZE - 1, comm, stream)
    report_tensor("broadcast", result, values(count, rank=SIZE - 1))
    result = source.clone()
    nccl.Reduce(source.data_ptr(), result.data_ptr(), count, FLOAT32, MAX, 0, comm, stream)
    largest = torch.stack([values(count, rank=rank) for rank in range(SIZE)]).max(0).values
    report_tensor("reduce/max", result, largest if RANK == 0 else source)


def point_to_point(nccl, comm, stream):
    count = 9001
    source, result = values(count), torch.empty(count, device=DEVICE)
    nccl.GroupStart()
    nccl.Send(source.data_ptr(), count, FLOAT32, (RANK + 1) % SIZE, comm, stream)
    nccl.Recv(result.data_ptr(), count, FLOAT32, (RANK - 1) % SIZE, comm, stream)
    nccl.GroupEnd()
    report_tensor("send_recv", result, values(count, rank=(RANK - 1) % SIZE))


def main():
    torch.cuda.set_device(DEVICE)
    nccl = Nccl(sys.argv[1])
    comm, store = communicator(nccl)
    stream = torch.cuda.Stream()
    questions(nccl, comm)
    with torch.cuda.stream(stream):
        collectives(nccl, comm, stream.cuda_stream)
        point_to_point(nccl, comm, stream.cuda_stream)
    torch.cuda.synchronize()
    nccl.CommDestroy(comm)
    # The store lives in rank 0 and must outlast every other rank's use of it.
    if RANK != 0:
        store.set(f"done-{RANK}", "1")
    elif SIZE > 1:
        store.wait([f"done-{rank}" for rank in range(1, SIZE)])


if __name__ == "__main__":
    main()
