"""One rank of record.py: the jobs whose calls are recorded."""

import datetime
import random
import time

import torch
import torch.distributed as dist
from torch.nn import functional

import ranks
from language_model import VOCABULARY, LanguageModel, Training

# About 25 million parameters: four buckets of 25 MB in fp32.
SHAPE = {"width": 512, "layers": 8, "heads": 8, "context": 128}
SMALL_SHAPE = {"width": 64, "layers": 2, "heads": 2, "context": 32}
BATCH, ACCUMULATED, BUCKET_MB = 8, 4, 25
# Of the serving loop: layers, elements per request, requests at first, and seconds that the host thinks per token.
LAYERS, WIDTH, REQUESTS, THINKING = 8, 4096, 24, 0.006


class Rank:
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        self.shape = SHAPE if self.cuda else SMALL_SHAPE
        self.half = torch.bfloat16 if self.cuda else torch.float32
        if self.cuda:
            torch.cuda.set_device(0)
            torch.set_float32_matmul_precision("high")
        eager = {"device_id": self.device} if self.cuda else {}
        limit = datetime.timedelta(seconds=60)
        dist.init_process_group("nccl" if self.cuda else "gloo", timeout=limit, **eager)

    def answer(self, request):
        name, began = request.pop("do"), time.perf_counter()
        answer = getattr(self, name)(**request)
        self.wait()
        return dict(answer or {}, seconds=time.perf_counter() - began)

    def end(self):
        self.wait()
        dist.destroy_process_group()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def hello(self):
        # The communicator, and with it the telemetry file, is there behind this.
        dist.all_reduce(torch.ones(1, device=self.device))
        self.wait()
        device = torch.cuda.get_device_name(0) if self.cuda else "CPU"
        return {"torch": torch.__version__.split("+")[0], "device": device}

    def ddp(self, steps):
        training = self.training(steps)
        for _ in range(steps):
            # As a program does that prints its loss.
            training.step().item()

    def accumulation(self, steps):
        training = self.training(steps)
        for number in range(steps):
            is_last = (number + 1) % ACCUMULATED == 0
            loss = self.accumulated(training, number, is_last)
            dist.all_reduce(loss)
            loss.item()

    def training(self, steps):
        batch = BATCH if self.cuda else 2
        return Training(self.shape, batch, "fp32", 0, ranks.RANK, BUCKET_MB, self.device, steps)

    def accumulated(self, training, number, is_last):
        """One pass, whose gradients are kept or exchanged; its loss."""
        letters = training.tokens[training.places[number]]

        def backward():
            guesses = training.ddp(letters[:, :-1])
            loss = functional.cross_entropy(guesses.flatten(0, 1), letters[:, 1:].flatten())
            (loss / ACCUMULATED).backward()
            return loss.detach()

        if not is_last:
            with training.ddp.no_sync():
                return backward()
        loss = backward()
        training.optimiser.step()
        training.optimiser.zero_grad(set_to_none=True)
        return loss

    def fsdp(self, steps):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        torch.manual_seed(0)
        with torch.device(self.device):
            model = LanguageModel(**self.shape)
        mesh = init_device_mesh(self.device.type, (ranks.SIZE,))
        # Not every processor has bf16.
        half = MixedPrecisionPolicy(param_dtype=self.half, reduce_dtype=self.half)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=half)
        fully_shard(model, mesh=mesh, mp_policy=half)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
        chance = torch.Generator().manual_seed(ranks.RANK)
        for _ in range(steps):
            letters = torch.randint(VOCABULARY, (BATCH, self.shape["context"] + 1), generator=chance).to(self.device)
            guesses = model(letters[:, :-1])
            loss = functional.cross_entropy(guesses.float().flatten(0, 1), letters[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            loss.item()

    def decode(self, steps):
        """Tokens: two AllReduces per layer, then the guesses are gathered and the host thinks."""
        width = WIDTH if self.cuda else 256
        guesses, how = width // 2, dict(device=self.device, dtype=self.half)
        weights = [torch.randn(width, width, **how) / width**0.5 for _ in range(2)]
        # The same requests come and go on all ranks.
        dice, requests = random.Random(7), REQUESTS
        for _ in range(steps):
            if dice.random() < 0.2:
                requests = min(64, max(1, requests + dice.randint(-8, 8)))
            x = torch.ones(requests, width, **how)
            for _ in range(LAYERS):
                for weight in weights:
                    x = functional.rms_norm(x @ weight, (width,))
                    dist.all_reduce(x)
            parts = torch.empty(ranks.SIZE * requests, guesses, **how)
            dist.all_gather_into_tensor(parts, x[:, :guesses].contiguous())
            parts.float().sum().item()
            time.sleep(THINKING * dice.uniform(0.8, 1.2))

    def graphs(self, steps):
        """A step in a graph, replayed; behind each replay a live AllReduce of the loss."""
        torch.manual_seed(0)
        with torch.device(self.device):
            model = LanguageModel(**self.shape)
            loss = torch.zeros(1)
        parameters = [parameter for parameter in model.parameters()]
        chance = torch.Generator().manual_seed(ranks.RANK)
        size = (BATCH, self.shape["context"] + 1)
        letters = torch.randint(VOCABULARY, size, generator=chance).to(self.device)

        def step():
            guesses = model(letters[:, :-1])
            found = functional.cross_entropy(guesses.flatten(0, 1), letters[:, 1:].flatten())
            gradients = torch.autograd.grad(found, parameters)
            for part in chunks(gradients, 4):
                flat = torch.cat([gradient.flatten() for gradient in part])
                dist.all_reduce(flat)
            for parameter, gradient in zip(parameters, gradients):
                parameter.data.sub_(gradient, alpha=1e-3)
            loss.copy_(found.detach())

        replay = self.captured(step) if self.cuda else step
        for _ in range(steps):
            letters.copy_(torch.randint(VOCABULARY, size, generator=chance))
            replay()
            total = loss.clone()
            dist.all_reduce(total)
            total.item()

    def captured(self, step):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        self.wait()
        graph = torch.cuda.CUDAGraph()
        # The watchdog thread of PyTorch queries events, which a global capture forbids.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            step()
        return graph.replay


def chunks(items, count):
    size = -(-len(items) // count)
    return [items[first : first + size] for first in range(0, len(items), size)]
