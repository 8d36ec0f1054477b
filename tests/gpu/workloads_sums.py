"""Cases of workloads.py that are sums and not training: process groups, coalesced, asynchronous, tensor parallel. Each answers
with its largest error against fp64 (or against the whole model), a digest and its time."""

import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional

import ranks


class SumCases:
    """For a rank that has `device`, `cuda`, `wait` and `digest`."""

    def numbers(self, count, seed, rank=ranks.RANK):
        chance = torch.Generator(self.device).manual_seed(1000 * seed + rank)
        return torch.randn(count, generator=chance, device=self.device)

    def error(self, result, count, seed, members=None):
        """Of a sum, against fp64: squared error over squared signal."""
        members = range(ranks.SIZE) if members is None else members
        exact = sum(self.numbers(count, seed, rank).double() for rank in members)
        return float((result.double() - exact).square().sum() / exact.square().sum())

    def sums(self, work, counts):
        """`work` fills tensors of so many numbers with their sums; the largest error, the time."""
        seconds, errors, results = [], [], None
        for seed in range(4):
            tensors = [self.numbers(count, 10 * seed + place) for place, count in enumerate(counts)]
            self.wait()
            began = time.perf_counter()
            work(tensors)
            self.wait()
            seconds.append(time.perf_counter() - began)
            errors += [self.error(tensor, count, 10 * seed + place) for place, (tensor, count) in enumerate(zip(tensors, counts))]
            results = tensors
        return {"vnmse": max(errors), "digest": self.digest(results), "seconds": sorted(seconds)[2]}

    def case_process_groups(self):
        """All ranks, and pairs of them, each with its own communicator, in turns."""
        everyone = dist.new_group(list(range(ranks.SIZE)))
        pairs = [dist.new_group([first, (first + 1) % ranks.SIZE]) for first in range(0, ranks.SIZE, 2) if ranks.SIZE > 1]
        mine = pairs[ranks.RANK // 2] if pairs else everyone
        members = sorted({ranks.RANK // 2 * 2, (ranks.RANK // 2 * 2 + 1) % ranks.SIZE}) if pairs else [0]
        errors, seconds, count = [], [], 1_000_003
        for seed in range(4):
            first, second, third = (self.numbers(count, seed) for _ in range(3))
            self.wait()
            began = time.perf_counter()
            dist.all_reduce(first)
            dist.all_reduce(second, group=everyone)
            dist.all_reduce(third, group=mine)
            self.wait()
            seconds.append(time.perf_counter() - began)
            errors += [self.error(first, count, seed), self.error(second, count, seed), self.error(third, count, seed, members)]
        digest = self.digest([first, second])
        for group in [everyone, *pairs]:
            if group is not dist.GroupMember.NON_GROUP_MEMBER:
                dist.destroy_process_group(group)
        return {"vnmse": max(errors), "digest": digest, "seconds": sorted(seconds)[2]}

    def case_coalesced(self):
        manager = getattr(dist, "_coalescing_manager", None) or dist.distributed_c10d._coalescing_manager

        def work(tensors):
            with manager(device=self.device) if self.cuda else contextlib.nullcontext():
                for tensor in tensors:
                    dist.all_reduce(tensor)

        return self.sums(work, (500_001, 77_777, 2_000_000))

    def case_async_overlap(self):
        """Sums under way while products are computed."""
        a = torch.randn(1024, 1024, device=self.device)

        def work(tensors):
            waiting = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
            for _ in range(20):
                a @ a
            for one in waiting:
                one.wait()

        return self.sums(work, (1_500_000, 300_001, 900_000))

    @torch.no_grad()
    def case_tensor_parallel(self):
        """Inference: columns, then rows, of each layer on one rank each; the rows' sum is an AllReduce."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

        width, half = (2048 if self.cuda else 64), torch.bfloat16 if self.cuda else torch.float32
        torch.manual_seed(0)
        layers = [
            nn.Sequential(nn.Linear(width, 2 * width, bias=False), nn.GELU(), nn.Linear(2 * width, width, bias=False))
            for _ in range(4)
        ]
        whole = nn.Sequential(*layers).to(self.device, half).eval()
        prompt = torch.randn(2048 if self.cuda else 32, width, generator=torch.Generator().manual_seed(3)).to(self.device, half)
        reference = prompt
        for layer in whole:
            reference = functional.layer_norm(reference + layer(reference), (width,))
        mesh = init_device_mesh(self.device.type, (ranks.SIZE,))
        for layer in whole:
            parallelize_module(layer, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        seconds = []
        for _ in range(8):
            self.wait()
            began = time.perf_counter()
            x = prompt
            for layer in whole:
                x = functional.layer_norm(x + layer(x), (width,))
            self.wait()
            seconds.append(time.perf_counter() - began)
        error = float((x.double() - reference.double()).square().sum() / reference.double().square().sum())
        return {"vnmse": error, "digest": self.digest([x]), "seconds": sorted(seconds)[4]}
