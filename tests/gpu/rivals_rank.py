"""One rank of rivals.py: averages a tensor or trains, in the way that it is told."""

import time

import torch
import torch.distributed as dist

import ranks
import rival_ways
from convergence_rank import Rank as TrainingRank
from suite_part import median


class Rank(TrainingRank):
    def raw(self, way, elements, calls, data):
        """Averages one tensor again and again: seconds of a call, and the error of the first against fp64."""
        average = rival_ways.WAYS[way]
        source = self.numbers(elements, data, ranks.RANK)
        x = source.clone()
        average(x)
        exact = sum(self.numbers(elements, data, rank).double() for rank in range(ranks.SIZE)) / ranks.SIZE
        error = float((x.double() - exact).square().sum() / exact.square().sum())
        del exact
        seconds, before = [], self.compressed()
        for _ in range(calls):
            x.copy_(source)
            dist.barrier()
            self.wait()
            began = time.perf_counter()
            average(x)
            self.wait()
            seconds.append(time.perf_counter() - began)
        used = None if before is None else self.compressed() - before
        return {"seconds": median(seconds) if seconds else None, "vnmse": error, "compressed": used, "plan": self.plan()}

    def train_as(self, way, steps, warm_up, **how):
        """A model from the beginning: seconds of a step behind the warm-up, losses, and the error of the last gradients."""
        self.learning = self.new(steps, hook=rival_ways.hook(way), **how)
        losses = [self.learning.step() for _ in range(warm_up)]
        self.wait()
        return {"losses": torch.stack(losses).tolist()}

    def train_on(self, steps):
        """The timed steps of the model of `train_as`."""
        before = self.compressed()
        self.wait()
        began = time.perf_counter()
        losses = [self.learning.step() for _ in range(steps)]
        self.wait()
        seconds = (time.perf_counter() - began) / steps
        used = None if before is None else (self.compressed() - before) / steps
        return {"seconds": seconds, "losses": torch.stack(losses).tolist(), "compressed": used}

    def gradient_error(self):
        """One more backward pass without exchange, averaged in fp64, and the same with it."""
        learning = self.learning
        given, wanted = learning.task.batch_of(learning.done)
        with learning.ddp.no_sync():
            learning.task.loss(learning.ddp(given), wanted).backward()
        exact = self.gradients()
        exact = exact.double()
        dist.all_reduce(exact)
        exact /= ranks.SIZE
        learning.optimiser.zero_grad(set_to_none=True)
        learning.task.loss(learning.ddp(given), wanted).backward()
        found = self.gradients().double()
        self.learning = None
        return {"vnmse": float((found - exact).square().sum() / exact.square().sum())}

    def gradients(self):
        return torch.cat([weights.grad.flatten() for weights in self.learning.ddp.parameters()])
