"""One rank of tuning.py: trains, reduces, captures, and says what the library does."""

import datetime
import hashlib
import time

import torch
import torch.distributed as dist

import ranks
from language_model import Training

# Whole numbers whose sums over ranks are exact in fp32 and which eight bits cannot hold.
ELEMENTS, LARGEST = 1 << 20, 4095
SMALL_SIZES = (256, 1024, 4096, 16384)


class Rank:
    def __init__(self, time_out):
        self.device = torch.device("cuda", 0)
        torch.cuda.set_device(0)
        torch.set_float32_matmul_precision("high")
        limit = datetime.timedelta(seconds=time_out)
        dist.init_process_group("nccl", timeout=limit, device_id=self.device)
        self.kept, self.graphs, self.calls = {}, {}, 0

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.graphs.clear()
        self.kept.clear()
        torch.cuda.synchronize()
        dist.destroy_process_group()

    def communicator(self):
        return ranks.communicator_of(dist.group.WORLD, self.device)

    def plan(self):
        plan = ranks.plan_of(self.communicator())
        if plan is None:
            return None
        compressed = sum(0x40 <= entry < 0x50 for entry in plan)
        return {"compressed": compressed, "tried": sum(entry >= 0x80 for entry in plan)}

    def compressed(self):
        return ranks.compressed_calls(self.communicator())

    def steps(self, shape, batch, steps):
        """Steps of a model that is kept: seconds of each on average."""
        if "model" not in self.kept:
            self.kept["model"] = Training(shape, batch, "fp32", 0, ranks.RANK, 25, self.device, 64)
            self.kept["model"].step()
        training = self.kept["model"]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            training.step()
        torch.cuda.synchronize()
        return {"seconds": (time.perf_counter() - began) / steps, "plan": self.plan(), "compressed": self.compressed()}

    def small(self, calls):
        """Seconds of a small AllReduce on average."""
        tensors = [torch.ones(size, device=self.device) for size in SMALL_SIZES]
        torch.cuda.synchronize()
        began = time.perf_counter()
        for call in range(calls):
            dist.all_reduce(tensors[call % len(tensors)])
        torch.cuda.synchronize()
        return {"seconds": (time.perf_counter() - began) / calls}

    def numbers(self, seed):
        """A rank's numbers and their exact sum."""
        def of(rank):
            chance = torch.Generator(self.device).manual_seed(1000 * seed + rank)
            numbers = torch.randint(-LARGEST, LARGEST + 1, (ELEMENTS,), generator=chance, device=self.device)
            return numbers.float()

        return of(ranks.RANK), sum(of(rank) for rank in range(ranks.SIZE))

    def exact(self, calls):
        """Whether every sum is exact."""
        right = True
        for call in range(calls):
            tensor, exact = self.numbers(call)
            dist.all_reduce(tensor)
            right = right and bool((tensor == exact).all())
        return {"exact": right, "compressed": self.compressed()}

    def live(self, calls):
        """Calls outside of graphs; each exact or near it."""
        for _ in range(calls):
            tensor, exact = self.numbers(self.calls)
            self.calls += 1
            dist.all_reduce(tensor)
            if self.kind(tensor, exact) == "wrong":
                raise RuntimeError("a live AllReduce is wrong")
        return {"plan": self.plan(), "compressed": self.compressed()}

    def endless(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.live(1)
        return {}

    def capture(self, name):
        torch.cuda.synchronize()
        tensor = torch.zeros(ELEMENTS, device=self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            dist.all_reduce(tensor)
        self.graphs[name] = (graph, tensor)
        return {"plan": self.plan()}

    def replay(self, name):
        """New numbers through a graph: what came, and a digest of its bits."""
        graph, tensor = self.graphs[name]
        own, exact = self.numbers(self.calls)
        self.calls += 1
        tensor.copy_(own)
        graph.replay()
        torch.cuda.synchronize()
        digest = hashlib.sha256(tensor.cpu().numpy().tobytes()).hexdigest()
        return {"kind": self.kind(tensor, exact), "digest": digest}

    def kind(self, result, exact):
        """exact, compressed (near it by what the wire format promises) or wrong."""
        if bool((result == exact).all()):
            return "exact"
        error = (result - exact).double().square().sum() / exact.double().square().sum()
        return "compressed" if float(error) < 2e-3 else "wrong"
