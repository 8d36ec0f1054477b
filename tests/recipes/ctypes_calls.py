"""One rank that reaches NCCL as inference servers do: a handle from ctypes, functions from the handle.

    ctypes_calls.py LIBRARY [CALLS]      libnccl.so.2, or libairamp_accel.so named in its place

Sums CALLS (40) tensors of 2 MiB in float16 over all ranks and prints one JSON line: which results were exact, the largest
error of the last one, and its digest. Needs RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and nothing but Python: device
memory comes from the CUDA runtime, on a GPU (CUDA_VISIBLE_DEVICES says which) or on the emulator. As a recipe it stands by
itself: it can be copied, and shares no code with tests/gpu. Run by tests/tests/recipes.rs.
"""

import ctypes
import hashlib
import json
import os
import socket
import struct
import sys
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COUNT, PATTERN, FLOAT16, SUM = 1 << 20, 4096, 6, 0
TO_DEVICE, TO_HOST = 1, 2
POINTER, NUMBER, SIZE_T = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


NCCL = {
    "ncclGetVersion": [ctypes.POINTER(NUMBER)],
    "ncclGetUniqueId": [ctypes.POINTER(UniqueId)],
    "ncclCommInitRank": [ctypes.POINTER(POINTER), NUMBER, UniqueId, NUMBER],
    "ncclAllReduce": [POINTER, POINTER, SIZE_T, NUMBER, NUMBER, POINTER, POINTER],
    "ncclCommDestroy": [POINTER],
}
CUDA = {
    "cudaSetDevice": [NUMBER],
    "cudaMalloc": [ctypes.POINTER(POINTER), SIZE_T],
    "cudaMemcpy": [POINTER, ctypes.c_char_p, SIZE_T, NUMBER],
    "cudaStreamCreate": [ctypes.POINTER(POINTER)],
    "cudaStreamSynchronize": [POINTER],
}


class Library:
    """A handle and the functions asked of it, each of which must return 0."""

    def __init__(self, name, signatures):
        handle = ctypes.CDLL(name)
        for function, arguments in signatures.items():
            found = getattr(handle, function)
            found.restype, found.argtypes = NUMBER, arguments
            setattr(self, function, self.checked(function, found))

    @staticmethod
    def checked(name, function):
        def call(*arguments):
            code = function(*arguments)
            if code != 0:
                raise SystemExit(f"{name} returned {code}")

        return call


def shared(identifier):
    """The id of rank 0, handed round over a socket, as a server's own store would."""
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if RANK == 0:
        with socket.create_server(address) as listener:
            listener.settimeout(30)
            for _ in range(SIZE - 1):
                with listener.accept()[0] as peer:
                    peer.sendall(bytes(identifier))
        return identifier
    deadline = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(address, timeout=30) as link:
                return UniqueId.from_buffer_copy(link.recv(128, socket.MSG_WAITALL))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def main(library, calls):
    nccl, cuda = Library(library, NCCL), Library("libcudart.so.12", CUDA)
    cuda.cudaSetDevice(0)
    identifier = UniqueId()
    if RANK == 0:
        nccl.ncclGetUniqueId(ctypes.byref(identifier))
    communicator, stream, buffers = POINTER(), POINTER(), [POINTER(), POINTER()]
    nccl.ncclCommInitRank(ctypes.byref(communicator), SIZE, shared(identifier), RANK)
    cuda.cudaStreamCreate(ctypes.byref(stream))
    for buffer in buffers:
        cuda.cudaMalloc(ctypes.byref(buffer), 2 * COUNT)
    values = [((37 * i) % 101 - 50) / 8 for i in range(PATTERN)]
    mine = struct.pack(f"{PATTERN}e", *(value * (RANK + 1) for value in values)) * (COUNT // PATTERN)
    ranks = SIZE * (SIZE + 1) // 2
    exact = struct.pack(f"{PATTERN}e", *(value * ranks for value in values)) * (COUNT // PATTERN)
    kinds, result = "", ctypes.create_string_buffer(2 * COUNT)
    for _ in range(calls):
        cuda.cudaMemcpy(buffers[0], mine, 2 * COUNT, TO_DEVICE)
        nccl.ncclAllReduce(buffers[0], buffers[1], COUNT, FLOAT16, SUM, communicator, stream)
        cuda.cudaStreamSynchronize(stream)
        cuda.cudaMemcpy(ctypes.cast(result, POINTER), ctypes.cast(buffers[1], ctypes.c_char_p), 2 * COUNT, TO_HOST)
        kinds += "e" if result.raw == exact else "c"
    nccl.ncclCommDestroy(communicator)
    last = struct.unpack(f"{PATTERN}e", result.raw[: 2 * PATTERN])
    error = max(abs(got - value * ranks) for got, value in zip(last, values)) / (50 / 8 * ranks)
    digest = hashlib.sha256(result.raw).hexdigest()[:16]
    print(json.dumps({"rank": RANK, "results": kinds, "error": error, "digest": digest}))


main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
