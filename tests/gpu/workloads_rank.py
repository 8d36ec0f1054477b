"""One rank of workloads.py: what programs do with PyTorch, a case per request. A case answers with its losses or the error
of its sums, a digest of what all ranks must hold alike, and the seconds of a step."""

import contextlib
import datetime
import hashlib
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import ranks
from language_model import VOCABULARY, LanguageModel
from workloads_sums import SumCases

SHAPE = {"width": 256, "layers": 4, "heads": 4, "context": 64}
BATCH, STEPS, STRUCK = 8, 12, 5
RATE = 1e-3


class Rank(SumCases):
    def __init__(self, device):
        self.cuda = device == "cuda"
        self.device = torch.device("cuda", 0) if self.cuda else torch.device("cpu")
        if self.cuda:
            torch.cuda.set_device(0)
            torch.backends.cuda.matmul.allow_tf32 = True
        torch.use_deterministic_algorithms(True, warn_only=True)
        eager = {"device_id": self.device} if self.cuda else {}
        limit = datetime.timedelta(seconds=80)
        dist.init_process_group("nccl" if self.cuda else "gloo", timeout=limit, **eager)

    def end(self):
        self.wait()
        dist.destroy_process_group()

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()

    def compressed(self):
        """Calls of the first communicator; those of groups and shards are not in it."""
        return ranks.compressed_calls(ranks.communicator_of(dist.group.WORLD, self.device)) if self.cuda else None

    def answer(self, request):
        if request["do"] == "hello":
            dist.all_reduce(torch.ones(1, device=self.device))
            card = torch.cuda.get_device_name(0) if self.cuda else "CPU"
            nccl = ".".join(map(str, torch.cuda.nccl.version())) if self.cuda else "none"
            return {"torch": torch.__version__, "device": card, "nccl": nccl, "compressed": self.compressed()}
        torch.manual_seed(0)
        before = self.compressed()
        try:
            found = getattr(self, "case_" + request["do"])()
        # A case that PyTorch cannot do on all ranks alike must not end the others.
        except (ImportError, NotImplementedError) as why:
            return {"skipped": str(why)[:300]}
        self.wait()
        after = self.compressed()
        return dict(found, compressed=None if before is None or after is None else after - before)

    def model(self):
        torch.manual_seed(0)
        with torch.device(self.device):
            return LanguageModel(**SHAPE)

    def letters(self, step):
        chance = torch.Generator().manual_seed(100 * step + ranks.RANK)
        # Letters that follow from the ones before, so that there is something to learn.
        first = torch.randint(VOCABULARY, (BATCH, 1), generator=chance)
        return ((first + 3 * torch.arange(SHAPE["context"] + 1)) % VOCABULARY).to(self.device)

    def loss(self, model, step):
        letters = self.letters(step)
        guesses = model(letters[:, :-1])
        return functional.cross_entropy(guesses.float().flatten(0, 1), letters[:, 1:].flatten())

    def steps(self, step, count=STEPS):
        """Runs `step`; the losses averaged over ranks, and the median time of one behind the first three."""
        losses, seconds = [], []
        for number in range(count):
            self.wait()
            began = time.perf_counter()
            losses.append(step(number).detach().clone())
            self.wait()
            seconds.append(time.perf_counter() - began)
        total = torch.stack(losses).double()
        dist.all_reduce(total)
        return {"losses": (total / ranks.SIZE).tolist(), "seconds": sorted(seconds[3:])[len(seconds[3:]) // 2]}

    def digest(self, tensors):
        self.wait()
        hash = hashlib.sha256()
        for tensor in tensors:
            hash.update(
                bytes(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).tolist())
                if tensor.numel() < 4096
                else self.summed(tensor)
            )
        return hash.hexdigest()[:16]

    def summed(self, tensor):
        """All bits of a large tensor in few numbers, without a transfer of the whole."""
        words = tensor.detach().contiguous().flatten().view(torch.uint8).to(torch.int64)
        weights = torch.arange(1, words.numel() + 1, device=words.device) % 1_000_003
        return str((int(words.sum()), int((words * weights).sum()))).encode()

    def train(self, hook=None, autocast=None, **ddp):
        model = self.model()
        net = DistributedDataParallel(model, bucket_cap_mb=4, gradient_as_bucket_view=True, **ddp)
        if hook is not None and self.cuda:
            net.register_comm_hook(None, hook)
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

        def step(number):
            half = torch.autocast("cuda", autocast) if autocast is not None and self.cuda else contextlib.nullcontext()
            with half:
                loss = self.loss(net, number)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            return loss

        return dict(self.steps(step), digest=self.digest(model.parameters()))

    def case_ddp_fp32(self):
        return self.train()

    def case_ddp_bf16(self):
        return self.train(hook=default_hooks.bf16_compress_hook, autocast=torch.bfloat16)

    def case_ddp_fp16_scaler(self):
        """One rank's gradients become infinite in one step: all ranks must leave it out and halve their scale."""
        model = self.model()
        net = DistributedDataParallel(model, bucket_cap_mb=4, gradient_as_bucket_view=True)
        if self.cuda:
            net.register_comm_hook(None, default_hooks.fp16_compress_hook)
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
        scaler = torch.amp.GradScaler(self.device.type, init_scale=256.0, growth_interval=1000, enabled=self.cuda)
        scales = []

        def step(number):
            with torch.autocast("cuda", torch.float16) if self.cuda else contextlib.nullcontext():
                loss = self.loss(net, number)
            planted = None
            if number == STRUCK and ranks.RANK == ranks.SIZE - 1:
                weights = model.layers[1].network[0].weight
                planted = weights.register_hook(
                    lambda gradient: gradient.index_fill(0, torch.tensor([3], device=self.device), float("inf"))
                )
            scaler.scale(loss).backward()
            if planted is not None:
                planted.remove()
            scaler.step(optimiser)
            scaler.update()
            scales.append(scaler.get_scale())
            optimiser.zero_grad(set_to_none=True)
            return loss

        found = self.steps(step)
        halved = not self.cuda or (scales[STRUCK - 1] == 256.0 and scales[-1] == 128.0 and scales[STRUCK] == 128.0)
        finite = all(bool(weights.isfinite().all()) for weights in model.parameters())
        return dict(
            found,
            digest=self.digest(model.parameters()),
            right=halved and finite,
            note=f"scales {scales[STRUCK - 1]}, {scales[STRUCK]}",
        )

    def case_fsdp2(self):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        model, mesh = self.model(), init_device_mesh(self.device.type, (ranks.SIZE,))
        half = torch.bfloat16 if self.cuda else torch.float32
        policy = MixedPrecisionPolicy(param_dtype=half, reduce_dtype=half)
        for layer in model.layers:
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(model, mesh=mesh, mp_policy=policy)
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

        def step(number):
            loss = self.loss(model, number)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            return loss

        return self.steps(step)

    def case_accumulation(self):
        """no_sync for three of four passes."""
        model = self.model()
        net = DistributedDataParallel(model, bucket_cap_mb=4)
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

        def step(number):
            last = number % 4 == 3
            with contextlib.nullcontext() if last else net.no_sync():
                loss = self.loss(net, number)
                (loss / 4).backward()
            if last:
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
            return loss

        return dict(self.steps(step, 2 * STEPS), digest=self.digest(model.parameters()))

    def case_cuda_graph(self):
        """A whole step in a graph: forward, backward, AllReduce, update."""
        if not self.cuda:
            return {"skipped": "no GPU"}
        model = self.model()
        weights, loss, letters = list(model.parameters()), torch.zeros((), device=self.device), self.letters(0)

        def step():
            found = functional.cross_entropy(model(letters[:, :-1]).float().flatten(0, 1), letters[:, 1:].flatten())
            gradients = torch.autograd.grad(found, weights)
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(flat, op=dist.ReduceOp.AVG)
            place = 0
            with torch.no_grad():
                for one in weights:
                    one.sub_(flat[place : place + one.numel()].view_as(one), alpha=0.05)
                    place += one.numel()
            loss.copy_(found.detach())

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

        def replay(number):
            letters.copy_(self.letters(number))
            graph.replay()
            return loss

        found = dict(self.steps(replay), digest=self.digest(weights))
        self.wait()
        graph.reset()
        return found

    def case_compile(self):
        model = self.model()
        net = DistributedDataParallel(model, bucket_cap_mb=4)
        net = torch.compile(net) if self.cuda else net
        optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)

        def step(number):
            loss = self.loss(net, number)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
            return loss

        return dict(self.steps(step), digest=self.digest(model.parameters()))
