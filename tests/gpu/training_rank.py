"""One rank of training.py: trains, and measures its own processor time."""

import ctypes
import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist

import ranks
from language_model import Training

HOST_WARM_UP = 3


class Rank:
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        self.kept = {}
        if self.cuda:
            sleep_while_waiting()
            torch.cuda.set_device(0)
            torch.set_float32_matmul_precision("high")
        eager = {"device_id": self.device} if self.cuda else {}
        limit = datetime.timedelta(seconds=60)
        dist.init_process_group("nccl" if self.cuda else "gloo", timeout=limit, **eager)

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.kept.clear()
        self.wait()
        dist.destroy_process_group()

    def hello(self):
        return {"compressed": self.compressed(), "torch": torch.__version__}

    def compressed(self):
        if not self.cuda:
            return None
        return ranks.compressed_calls(ranks.communicator_of(dist.group.WORLD, self.device))

    def new_training(self, shape, batch, gradients, seed, bucket_mb, steps):
        return Training(shape, batch, gradients, seed, ranks.RANK, bucket_mb, self.device, steps)

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def train(self, steps, **how):
        """A model from the beginning; its losses."""
        training = self.new_training(steps=steps, **how)
        before = self.compressed()
        losses = [training.step().item() for _ in range(steps)]
        calls = None if before is None else self.compressed() - before
        return {"losses": losses, "compressed": calls, "buckets": training.bucket_elements()}

    def host(self, steps, **how):
        """Steps of a model that is kept; wall and processor time of each on average."""
        name = json.dumps(how)
        if name not in self.kept:
            self.kept[name] = self.new_training(steps=64, **how)
            for _ in range(HOST_WARM_UP):
                self.kept[name].step()
        training = self.kept[name]
        training.step().item()
        self.wait()
        before = self.compressed()
        wall, total, threads = time.perf_counter(), time.process_time(), thread_seconds()
        for _ in range(steps):
            training.step().item()
        self.wait()
        wall, total = time.perf_counter() - wall, time.process_time() - total
        spent = {kind: value - threads.get(kind, 0) for kind, value in thread_seconds().items()}
        calls = None if before is None else (self.compressed() - before) / steps
        answer = {"wall": wall / steps, "process": total / steps, "compressed": calls}
        answer["threads"] = {kind: value / steps for kind, value in spent.items()}
        return dict(answer, buckets=training.bucket_elements())

    def enqueue(self, elements, calls):
        """Thread time inside dist.all_reduce, with an idle device each time."""
        tensor = torch.zeros(elements, device=self.device)
        times = []
        for _ in range(calls + 3):
            begin = time.thread_time_ns()
            work = dist.all_reduce(tensor, async_op=True)
            times.append(time.thread_time_ns() - begin)
            work.wait()
            self.wait()
        return {"seconds": statistics.median(times[3:]) / 1e9}


def sleep_while_waiting():
    """Waits for the device sleep instead of spinning, so that processor time is work."""
    cuda = ctypes.CDLL("libcuda.so.1")
    blocking_sync = 4
    if cuda.cuInit(0) != 0 or cuda.cuDevicePrimaryCtxSetFlags_v2(0, blocking_sync) != 0:
        print("waits for the device spin: the processor times say little", file=sys.stderr)


def thread_seconds():
    """Processor time of this process's threads by what they do."""
    spent = {"application": 0.0, "nccl": 0.0, "other": 0.0}
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as file:
                name = file.read().strip().lower()
            with open(f"/proc/self/task/{thread}/schedstat") as file:
                seconds = int(file.read().split()[0]) / 1e9
        except OSError:
            continue
        if int(thread) == os.getpid() or name.startswith("pt_autograd"):
            spent["application"] += seconds
        else:
            spent["nccl" if "nccl" in name else "other"] += seconds
    return spent
