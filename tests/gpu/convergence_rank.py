"""One rank of convergence.py and end_to_end.py: trains as it is told, and says what the library did meanwhile."""

import datetime
import json
import time

import torch
import torch.distributed as dist

import ranks
from learning import Learning, deterministic
from training_rank import sleep_while_waiting


class Rank:
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        self.kept = {}
        if self.cuda:
            sleep_while_waiting()
            torch.cuda.set_device(0)
        else:
            torch.set_num_threads(1)
        deterministic()
        eager = {"device_id": self.device} if self.cuda else {}
        limit = datetime.timedelta(seconds=90)
        dist.init_process_group("nccl" if self.cuda else "gloo", timeout=limit, **eager)

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.kept.clear()
        self.wait()
        dist.destroy_process_group()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def communicator(self):
        return ranks.communicator_of(dist.group.WORLD, self.device) if self.cuda else None

    def compressed(self):
        return ranks.compressed_calls(self.communicator()) if self.cuda else None

    def hello(self):
        dist.all_reduce(torch.ones(1, device=self.device))
        self.wait()
        card = torch.cuda.get_device_name(0) if self.cuda else "CPU"
        nccl = ".".join(map(str, torch.cuda.nccl.version())) if self.cuda else "none"
        return {"compressed": self.compressed(), "torch": torch.__version__, "device": card, "nccl": nccl}

    def numbers(self, elements, data, rank):
        """As gradients are: normal, or normal with sizes that differ by orders of magnitude."""
        chance = torch.Generator(self.device).manual_seed(77 + rank)
        x = torch.randn(elements, generator=chance, device=self.device)
        if data == "lognormal":
            size = torch.randn(elements, generator=chance, device=self.device)
            x = x.sign() * 1e-4 * size.exp()
        return x

    def errors(self, elements):
        """Of one sum over all ranks, against fp64: squared error over squared signal, by what the numbers are like."""
        found = {}
        for data in ("normal", "lognormal"):
            x = self.numbers(elements, data, ranks.RANK)
            dist.all_reduce(x)
            exact = sum(self.numbers(elements, data, rank).double() for rank in range(ranks.SIZE))
            found[data] = float((x.double() - exact).square().sum() / exact.square().sum())
        return found

    def new(self, steps, **how):
        return Learning(rank=ranks.RANK, size=ranks.SIZE, device=self.device, steps=steps, **how)

    def train(self, steps, **how):
        """A model from beginning to end."""
        learning = self.new(steps, **how)
        before = self.compressed()
        self.wait()
        began = time.perf_counter()
        losses = torch.stack([learning.step() for _ in range(steps)])
        self.wait()
        seconds = time.perf_counter() - began
        calls = None if before is None else self.compressed() - before
        total, batches = learning.held_out()
        answer = {"losses": losses.tolist(), "compressed": calls, "held_out": [total, batches], "seconds": seconds}
        return dict(answer, buckets=learning.buckets(), parameters=learning.parameters())

    def steps(self, count, steps, **how):
        """Some steps of a model that is kept until its last one; seconds of each on average."""
        name = json.dumps(how, sort_keys=True)
        if name not in self.kept:
            self.kept[name] = self.new(steps, **how)
        learning, before = self.kept[name], self.compressed()
        self.wait()
        began = time.perf_counter()
        losses = torch.stack([learning.step() for _ in range(count)])
        self.wait()
        seconds = (time.perf_counter() - began) / count
        calls = None if before is None else self.compressed() - before
        answer = {"losses": losses.tolist(), "compressed": calls, "seconds": seconds, "plan": self.plan()}
        if learning.done >= steps:
            answer.update(held_out=learning.held_out(), buckets=learning.buckets(), parameters=learning.parameters())
            del self.kept[name]
        return answer

    def plan(self):
        """How many classes the library compresses, and how many it is trying; None where nothing is agreed on."""
        plan = ranks.plan_of(self.communicator()) if self.cuda else None
        if plan is None:
            return None
        compressed = sum(0x40 <= entry < 0x50 for entry in plan)
        return {"compressed": compressed, "tried": sum(entry >= 0x80 for entry in plan)}
