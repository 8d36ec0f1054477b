"""One rank of workloads.py that reaches NCCL as inference servers do: a handle from ctypes, functions from the handle, the
id sent over a gloo group, a first AllReduce of one number, then sums out of place on PyTorch's current stream, also captured.

SERVING_NCCL names what is opened: NCCL itself (the preloaded library stands before it) or libairamp_accel.so in its place.
"""

import ctypes
import datetime
import hashlib
import os
import time

import torch
import torch.distributed as dist

import ranks
from ctypes_nccl import TYPES, Nccl, UniqueId
from grid_rank import nccl_file

SUM = 0


class Rank:
    def __init__(self):
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(0)
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
        self.file = os.environ.get("SERVING_NCCL") or nccl_file()
        self.nccl, self.comm = Nccl(self.file), ctypes.c_void_p()
        unique = UniqueId()
        if ranks.RANK == 0:
            self.nccl.GetUniqueId(ctypes.byref(unique))
        sent = torch.tensor(list(bytes(unique)), dtype=torch.uint8)
        dist.broadcast(sent, src=0)
        unique = UniqueId.from_buffer_copy(bytes(sent.tolist()))
        self.nccl.CommInitRank(ctypes.byref(self.comm), ranks.SIZE, unique, ranks.RANK)
        first = torch.zeros(1, device=self.device)
        self.sum(first, first)
        torch.cuda.synchronize()

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        torch.cuda.synchronize()
        self.nccl.CommDestroy(self.comm)
        dist.barrier()
        dist.destroy_process_group()

    def sum(self, source, result):
        stream = torch.cuda.current_stream().cuda_stream
        self.nccl.AllReduce(source.data_ptr(), result.data_ptr(), source.numel(), TYPES[source.dtype], SUM, self.comm, stream)

    def compressed(self):
        """Asked of the library itself, which need not be preloaded."""
        for name in (None, self.file):
            try:
                ask = ctypes.CDLL(name).airampCompressedCalls
            except AttributeError:
                continue
            ask.restype, ask.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
            calls = ctypes.c_uint64()
            return calls.value if ask(self.comm, ctypes.byref(calls)) == 0 else None
        return None

    def numbers(self, tokens, seed, rank):
        chance = torch.Generator(self.device).manual_seed(1000 * seed + rank)
        return torch.randn(tokens, 4096, generator=chance, device=self.device).to(torch.bfloat16)

    def found(self, results, tokens, before, seconds):
        """The largest error against fp64, and a digest of the results' bits."""
        errors, hash = [], hashlib.sha256()
        for seed, result in enumerate(results):
            exact = sum(self.numbers(tokens, seed, rank).double() for rank in range(ranks.SIZE))
            errors.append(float((result.double() - exact).square().sum() / exact.square().sum()))
            host = result.cpu()
            hash.update(ctypes.string_at(host.data_ptr(), host.numel() * host.element_size()))
        after = self.compressed()
        calls = None if before is None or after is None else after - before
        return {"vnmse": max(errors), "digest": hash.hexdigest()[:16], "compressed": calls, "seconds": seconds}

    def live(self, tokens, calls):
        before, results, seconds = self.compressed(), [], []
        for seed in range(calls):
            source = self.numbers(tokens, seed, ranks.RANK)
            result = torch.empty_like(source)
            torch.cuda.synchronize()
            began = time.perf_counter()
            self.sum(source, result)
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
            results.append(result)
            # Between tokens the host thinks: what ghost kernels are for.
            time.sleep(0.01)
        return self.found(results, tokens, before, sorted(seconds)[len(seconds) // 2])

    def graph(self, tokens, calls):
        before, source = self.compressed(), self.numbers(tokens, 0, ranks.RANK)
        result = torch.empty_like(source)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self.sum(source, result)
        results, seconds = [], []
        for seed in range(calls):
            source.copy_(self.numbers(tokens, seed, ranks.RANK))
            torch.cuda.synchronize()
            began = time.perf_counter()
            graph.replay()
            torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
            results.append(result.clone())
        found = self.found(results, tokens, before, sorted(seconds)[len(seconds) // 2])
        torch.cuda.synchronize()
        graph.reset()
        return found
