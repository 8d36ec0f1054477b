"""Two models that learn, for convergence.py and end_to_end.py: a transformer on the text of installed documentation, a
convolutional net on made-up pictures. Both under DDP, the same data in the same order for a seed, whatever exchanges the
gradients. Needs PyTorch and nothing else.
"""

import functools
import glob
import math

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import language_model

LEAST_CHARACTERS = 300_000
KINDS, SIDE, SHIFT = 10, 32, 9
# Of the pictures: how much of a pixel is noise, and how many are given to a wrong kind.
NOISE, MISTAKEN = 1.0, 0.1


@functools.lru_cache
def documentation():
    """Text that comes with every Python and Debian: the language reference, and licences. Invented text where both are
    missing. Only what ASCII holds; the same on all ranks of a machine."""
    parts = []
    try:
        from pydoc_data.topics import topics

        parts += [topics[name] for name in sorted(topics)]
    except ImportError:
        pass
    for name in sorted(glob.glob("/usr/share/common-licenses/*")):
        try:
            with open(name, encoding="ascii", errors="ignore") as file:
                parts.append(file.read())
        except OSError:
            pass
    text = "\n\n".join(parts).encode("ascii", "ignore")
    if len(text) < LEAST_CHARACTERS:
        text += language_model.text(LEAST_CHARACTERS).encode("ascii")
    return text


class LanguageTask:
    """Guess the next letter of documentation; the last twentieth of it is held out."""

    def __init__(self, seed, rank, steps, device, batch=8, **shape):
        self.device, self.batch = device, batch
        self.shape = dict({"width": 256, "layers": 4, "heads": 4, "context": 128}, **shape)
        tokens = torch.tensor(list(documentation()), dtype=torch.long, device=device)
        border = len(tokens) * 19 // 20
        self.tokens, self.held_out = tokens[:border], tokens[border:]
        chance = torch.Generator().manual_seed(1000 * seed + rank)
        length = self.shape["context"] + 1
        starts = torch.randint(border - length, (steps, batch, 1), generator=chance)
        self.places = starts.to(device) + torch.arange(length, device=device)

    def model(self):
        return language_model.LanguageModel(**self.shape)

    def optimiser(self, model):
        return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=self.device.type == "cuda")

    def batch_of(self, step):
        letters = self.tokens[self.places[step % len(self.places)]]
        return letters[:, :-1], letters[:, 1:]

    def loss(self, guesses, wanted):
        return functional.cross_entropy(guesses.float().flatten(0, 1), wanted.flatten())

    def held_out_batches(self, rank, size):
        """A rank's share of the text that nobody trains on."""
        length = self.shape["context"] + 1
        pieces = self.held_out[: len(self.held_out) // length * length].view(-1, length)
        for start in range(rank * 32, len(pieces), size * 32):
            letters = pieces[start : start + 32]
            yield letters[:, :-1], letters[:, 1:]


class ConvolutionalNet(nn.Module):
    """Keeps where it saw what, in a grid of 2 by 2, so that there is something to learn from the first step on."""

    def __init__(self, widths=(3, 64, 128, 256, 256)):
        super().__init__()
        parts = []
        for before, after in zip(widths, widths[1:]):
            parts += [nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.GroupNorm(8, after), nn.GELU()]
        self.seen, side = nn.Sequential(*parts), SIDE >> (len(widths) - 1)
        self.guess = nn.Sequential(nn.Flatten(), nn.Linear(widths[-1] * side * side, 256), nn.GELU(), nn.Linear(256, KINDS))

    def forward(self, pictures):
        return self.guess(self.seen(pictures))


class PictureTask:
    """Tell ten smooth, coloured patterns apart that come at any of many places, paler or stronger, under noise; every picture
    is new. One in ten is given to a wrong kind, as by people who sort pictures, so that the loss cannot fall to nothing."""

    def __init__(self, seed, rank, steps, device, batch=64):
        self.device, self.batch, self.seed, self.rank = device, batch, seed, rank
        patterns = torch.randn(KINDS, 3, 6, 6, generator=torch.Generator().manual_seed(5))
        self.patterns = functional.interpolate(patterns, (SIDE, SIDE), mode="bilinear").to(device)
        self.axis, self.colours = torch.arange(SIDE, device=device), torch.arange(3, device=device)

    def model(self):
        return ConvolutionalNet()

    def optimiser(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)

    def pictures(self, number, count):
        """Made from a number, on the processor, so that they are the same everywhere."""
        chance = torch.Generator().manual_seed(number)
        kinds = torch.randint(KINDS, (count,), generator=chance)
        places = torch.randint(SHIFT, (2, count, 1), generator=chance).to(self.device)
        strength = (0.5 + torch.rand(count, 1, 1, 1, generator=chance)).to(self.device)
        noise = torch.randn(count, 3, SIDE, SIDE, generator=chance).to(self.device)
        others = torch.randint(KINDS, (count,), generator=chance)
        called = torch.where(torch.rand(count, generator=chance) < MISTAKEN, others, kinds).to(self.device)
        down, across = ((self.axis + place) % SIDE for place in places)
        seen = self.patterns[
            kinds.to(self.device).view(-1, 1, 1, 1),
            self.colours.view(1, 3, 1, 1),
            down[:, None, :, None],
            across[:, None, None, :],
        ]
        return strength * seen + NOISE * noise, called

    def batch_of(self, step):
        return self.pictures(1_000_000 * (self.seed + 1) + 1000 * step + self.rank, self.batch)

    def loss(self, guesses, wanted):
        return functional.cross_entropy(guesses.float(), wanted)

    def held_out_batches(self, rank, size):
        for number in range(rank, 16, size):
            yield self.pictures(900_000_000 + number, 256)


TASKS = {"transformer": LanguageTask, "convolutional": PictureTask}


def deterministic():
    """The same bits from the same numbers, as far as PyTorch can; CUBLAS_WORKSPACE_CONFIG must be set before."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = True


class Learning:
    """A task under DDP. `gradients`: fp32 or bf16, as they are exchanged. `nudge`: the size of a change of the first
    weights, which shows what chance alone does to the end."""

    def __init__(self, task, seed, rank, size, device, steps, gradients="fp32", nudge=0.0, bucket_mb=4, hook=None, **how):
        self.rank, self.size, self.device, self.steps = rank, size, device, steps
        self.task = TASKS[task](seed, rank, steps, device, **how)
        torch.manual_seed(seed)
        model = self.task.model()
        if nudge:
            with torch.no_grad():
                for weights in model.parameters():
                    weights.mul_(1 + nudge * torch.randn_like(weights))
        model = model.to(device)
        # Not every processor has bf16.
        self.half = gradients == "bf16" and device.type == "cuda"
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
        if hook is not None:
            self.ddp.register_comm_hook(*hook)
        elif self.half:
            self.ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        self.optimiser = self.task.optimiser(model)
        self.rate, self.done = self.optimiser.param_groups[0]["lr"], 0

    def parameters(self):
        return sum(weights.numel() for weights in self.ddp.parameters())

    def slow_down(self):
        """Up in a twentieth of the steps, then down to nothing along a cosine."""
        up = max(1, self.steps // 20)
        part = (
            min(1, self.done / up)
            if self.done < up
            else 0.5 * (1 + math.cos(math.pi * (self.done - up) / max(1, self.steps - up)))
        )
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate * max(part, 0.01)

    def step(self):
        """One step; the loss stays on the device."""
        given, wanted = self.task.batch_of(self.done)
        self.slow_down()
        self.done += 1
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            guesses = self.ddp(given)
        loss = self.task.loss(guesses, wanted)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    @torch.no_grad()
    def held_out(self):
        """This rank's share: the sum of its losses, and of how many batches."""
        model, losses = self.ddp.module.eval(), []
        for given, wanted in self.task.held_out_batches(self.rank, self.size):
            losses.append(self.task.loss(model(given), wanted))
        model.train()
        return (torch.stack(losses).sum().item() if losses else 0.0), len(losses)

    def buckets(self):
        """How many elements each AllReduce of a step has, as DDP has cut the gradients."""
        sizes = self.ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes") or ""
        return [int(size) // 4 for size in str(sizes).replace(",", " ").split()]
