"""A small transformer that learns made-up English, for training.py: the text, the model, and its steps under DDP.

The text has what a language model can learn at several depths (spelling, word order, agreement, sums) and
chance in the rest, so that the loss keeps falling for a few hundred steps. Needs PyTorch and nothing else.
"""

import functools
import itertools
import random

import torch
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 128
WARM_UP = 20
SYLLABLES = "ba ce di fo gu la me ni po ru sta tre vi zo kal men tor ship lin ver".split()


@functools.lru_cache
def text(characters, seed=1):
    """Sentences of a small grammar over invented words, and sums that are right."""
    dice = random.Random(seed)
    words = ["".join(dice.choices(SYLLABLES, k=dice.randint(1, 3))) for _ in range(600)]
    nouns, verbs, qualities = words[:300], words[300:450], words[450:]
    # A few words are frequent and most are rare.
    frequent = list(itertools.accumulate(1 / (place + 1) for place in range(len(words))))

    def pick(kind):
        return dice.choices(kind, cum_weights=frequent[: len(kind)])[0]

    def sentence():
        if dice.random() < 0.2:
            a, b = dice.randint(0, 99), dice.randint(0, 99)
            return f"{a} and {b} make {a + b}."
        many = dice.random() < 0.5
        subject = f"the {pick(qualities)} {pick(nouns)}" + ("s" if many else "")
        verb = pick(verbs) + ("" if many else "s")
        return f"{subject} {verb} the {pick(nouns)}."

    parts, length = [], 0
    while length < characters:
        parts.append(sentence())
        length += len(parts[-1]) + 1
    return " ".join(parts)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_network = nn.LayerNorm(width), nn.LayerNorm(width)
        self.question, self.answer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.network = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.question(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.answer(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.network(self.before_network(x))


class LanguageModel(nn.Module):
    def __init__(self, width, layers, heads, context):
        super().__init__()
        self.letters, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(layers)])
        self.last, self.guess = nn.LayerNorm(width), nn.Linear(width, VOCABULARY)

    def forward(self, letters):
        x = self.letters(letters) + self.places.weight[: letters.shape[1]]
        return self.guess(self.last(self.layers(x)))


class Training:
    """A model under DDP with the batches of one rank. `gradients`: fp32 or bf16, as they are exchanged."""

    def __init__(self, shape, batch, gradients, seed, rank, bucket_mb, device, steps):
        torch.manual_seed(seed)
        with torch.device(device):
            model = LanguageModel(**shape)
        self.device, self.half = device, gradients == "bf16"
        self.ddp = DistributedDataParallel(model, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=True)
        if self.half:
            self.ddp.register_comm_hook(None, default_hooks.bf16_compress_hook)
        self.optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device.type == "cuda")
        self.tokens = torch.tensor(list(text(300_000).encode("ascii")), device=device)
        chance = torch.Generator().manual_seed(1000 * seed + rank)
        places = torch.randint(len(self.tokens) - shape["context"] - 1, (steps, batch, 1), generator=chance)
        self.places = places.to(device) + torch.arange(shape["context"] + 1, device=device)
        self.done = 0

    def step(self):
        """One step; the loss stays on the device."""
        letters = self.tokens[self.places[self.done % len(self.places)]]
        self.done += 1
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            guesses = self.ddp(letters[:, :-1])
            loss = functional.cross_entropy(guesses.float().flatten(0, 1), letters[:, 1:].flatten())
        loss.backward()
        for group in self.optimiser.param_groups:
            group["lr"] = 1e-3 * min(1, self.done / WARM_UP)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return loss.detach()

    def bucket_elements(self):
        """How many elements each AllReduce of a step has, as DDP has cut the gradients."""
        sizes = self.ddp._get_ddp_logging_data().get("rebuilt_bucket_sizes") or ""
        return [int(size) // 4 for size in str(sizes).replace(",", " ").split()]
