"""One rank of grid.py: makes communicators and calls AllReduce on them, by ctypes, so that it is up at once.

Device memory comes from the CUDA driver, numbers are normal, results go to a second buffer: the input stays as it is.
"""

import ctypes
import os
import random
import struct
import time

import ranks
from suite_part import median

POINTER, SIZE_T, INT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
# Of a datatype: NCCL's number, bytes, place among the library's classes.
DATATYPES = {"float16": (6, 2, 0), "bfloat16": (9, 2, 1), "float32": (7, 4, 2)}
PATTERN = 1 << 18


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


def nccl_file():
    """AIRAMP_RANK_NCCL, else PyTorch's NCCL, else the system's; found without loading PyTorch."""
    named = os.environ.get("AIRAMP_RANK_NCCL")
    if named:
        return named
    try:
        import nvidia.nccl

        found = os.path.join(list(nvidia.nccl.__path__)[0], "lib", "libnccl.so.2")
        return found if os.path.exists(found) else "libnccl.so.2"
    except ImportError:
        return "libnccl.so.2"


class Library:
    """Functions of a handle, each of which must return 0."""

    def __init__(self, name, signatures):
        handle = ctypes.CDLL(name)
        for function, arguments in signatures.items():
            found = getattr(handle, function)
            found.restype, found.argtypes = INT, arguments
            setattr(self, function, self.checked(function, found))

    @staticmethod
    def checked(name, function):
        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise RuntimeError(f"{name} returned {code}")

        return call


CUDA = {
    "cuInit": [INT],
    "cuDeviceGet": [ctypes.POINTER(INT), INT],
    "cuDeviceGetName": [ctypes.c_char_p, INT, INT],
    "cuDevicePrimaryCtxSetFlags_v2": [INT, INT],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(POINTER), INT],
    "cuCtxSetCurrent": [POINTER],
    "cuMemAlloc_v2": [ctypes.POINTER(POINTER), SIZE_T],
    "cuMemFree_v2": [POINTER],
    "cuMemcpyHtoD_v2": [POINTER, ctypes.c_char_p, SIZE_T],
    "cuMemcpyDtoDAsync_v2": [POINTER, POINTER, SIZE_T, POINTER],
    "cuStreamCreate": [ctypes.POINTER(POINTER), INT],
    "cuStreamSynchronize": [POINTER],
}
NCCL = {
    "ncclGetVersion": [ctypes.POINTER(INT)],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(POINTER), INT, UniqueId, INT],
    "ncclAllReduce": [POINTER, POINTER, SIZE_T, INT, INT, POINTER, POINTER],
    "ncclCommDestroy": [POINTER],
}


def normal_numbers(datatype):
    """A pattern of N(0,1) as bytes; each rank has another."""
    dice = random.Random(7 + ranks.RANK)
    numbers = [dice.gauss(0, 1) for _ in range(PATTERN // 4)]
    if datatype == "float16":
        data = struct.pack(f"<{len(numbers)}e", *numbers)
    else:
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        if datatype == "bfloat16":
            # The upper halves.
            data = b"".join(data[place + 2 : place + 4] for place in range(0, len(data), 4))
    return data


class Rank:
    def __init__(self):
        self.cuda, self.nccl = Library("libcuda.so.1", CUDA), Library(nccl_file(), NCCL)
        device, context, self.stream = INT(), POINTER(), POINTER()
        self.cuda.cuInit(0)
        self.cuda.cuDeviceGet(ctypes.byref(device), 0)
        # Waits sleep: the cores are NCCL's.
        self.cuda.cuDevicePrimaryCtxSetFlags_v2(device, 4)
        self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.cuda.cuCtxSetCurrent(context)
        self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1)
        name = ctypes.create_string_buffer(100)
        self.cuda.cuDeviceGetName(name, 100, device)
        self.device = name.value.decode()
        self.comms, self.source, self.result, self.holds = {}, None, None, None

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        for name in list(self.comms):
            self.drop(name)

    def hello(self):
        version = INT()
        self.nccl.ncclGetVersion(ctypes.byref(version))
        return {"device": self.device, "nccl": version.value}

    def id(self):
        unique = UniqueId()
        self.nccl.ncclGetUniqueId(ctypes.byref(unique))
        return {"id": bytes(unique).hex()}

    def make(self, name, id):
        unique, comm = UniqueId.from_buffer_copy(bytes.fromhex(id)), POINTER()
        self.nccl.ncclCommInitRank(ctypes.byref(comm), ranks.SIZE, unique, ranks.RANK)
        self.comms[name] = comm
        return {"compresses": ranks.compressed_calls(comm) is not None}

    def drop(self, name):
        self.wait()
        self.nccl.ncclCommDestroy(self.comms.pop(name))
        return {}

    def wait(self):
        self.cuda.cuStreamSynchronize(self.stream)

    def numbers(self, size, datatype):
        """Buffers of so many bytes, the first full of numbers."""
        if self.holds == (size, datatype):
            return
        self.wait()
        for buffer in (self.source, self.result):
            if buffer is not None:
                self.cuda.cuMemFree_v2(buffer)
        self.source, self.result = POINTER(), POINTER()
        self.cuda.cuMemAlloc_v2(ctypes.byref(self.source), size)
        self.cuda.cuMemAlloc_v2(ctypes.byref(self.result), size)
        data = normal_numbers(datatype)
        done = min(size, len(data))
        self.cuda.cuMemcpyHtoD_v2(self.source, data, done)
        while done < size:
            part = min(done, size - done)
            self.cuda.cuMemcpyDtoDAsync_v2(POINTER(self.source.value + done), self.source, part, self.stream)
            done += part
        self.wait()
        self.holds = (size, datatype)

    def call(self, name, size, datatype):
        number, width, _ = DATATYPES[datatype]
        self.nccl.ncclAllReduce(self.source, self.result, size // width, number, 0, self.comms[name], self.stream)

    def time(self, name, size, datatype, calls, turns=1):
        """Seconds of a call on average, behind a tiny one that makes all ranks begin together; the median of the turns."""
        self.numbers(max(size, 16), datatype)
        found = []
        for _ in range(turns):
            self.call(name, 4, "float32")
            self.wait()
            began = time.perf_counter()
            for _ in range(calls):
                self.call(name, size, datatype)
            self.wait()
            found.append((time.perf_counter() - began) / calls)
        return {
            "seconds": median(found),
            "entry": self.entry(name, size, datatype),
            "compressed": ranks.compressed_calls(self.comms[name]),
        }

    def entry(self, name, size, datatype):
        """The byte of the library's plan for such calls: 0 open, 1 NCCL's, from 0x40 compressed, from 0x80 being tried."""
        plan = ranks.plan_of(self.comms[name])
        if plan is None:
            return None
        units = max(1, size // 1024)
        return plan[DATATYPES[datatype][2] * 16 + min(15, (units.bit_length() - 1) // 2)]
