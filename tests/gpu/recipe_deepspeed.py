"""A DeepSpeed program as users have it, for the recipe of docs/guide/frameworks.md: ZeRO stage 0, 1 or 2.

    airamp run -- torchrun --nproc-per-node 2 tests/gpu/recipe_deepspeed.py STAGE [STEPS]

Nothing in it knows of the library, but for the last lines, which ask how many calls it compressed. Rank 0 prints one JSON line. All
ranks use device 0: drop NCCL_HOSTID and LOCAL_RANK where each has a card of its own, and then `deepspeed` starts it as well.
"""

import json
import os
import sys
import time

# Ranks with one host id are neighbours to NCCL, which refuses two of them on one card.
os.environ.update(NCCL_HOSTID="airamp-rank-" + os.environ["RANK"], LOCAL_RANK="0")

import deepspeed
import torch
from torch.nn import functional

import ranks
from language_model import LanguageModel, text

DEVICE = torch.device("cuda", 0)
CONTEXT, BATCH = 64, 4


def main():
    stage, steps = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 40
    torch.cuda.set_device(DEVICE)
    torch.manual_seed(0)
    model = LanguageModel(width=512, layers=6, heads=8, context=CONTEXT)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    settings = {"train_micro_batch_size_per_gpu": BATCH, "zero_optimization": {"stage": stage}, "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimiser, config=settings)
    tokens = torch.tensor(list(text(100_000).encode("ascii")), device=DEVICE)
    chance = torch.Generator().manual_seed(torch.distributed.get_rank())
    began, losses, seconds = time.perf_counter(), [], []
    for _ in range(steps):
        starts = torch.randint(len(tokens) - CONTEXT - 1, (BATCH, 1), generator=chance).to(DEVICE)
        letters = tokens[starts + torch.arange(CONTEXT + 1, device=DEVICE)]
        loss = functional.cross_entropy(engine(letters[:, :-1]).flatten(0, 1), letters[:, 1:].flatten())
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    if torch.distributed.get_rank() == 0:
        told = {"recipe": f"deepspeed{stage}", "first": losses[0], "last": sum(losses[-5:]) / 5}
        told.update(step_ms=1000 * sorted(seconds[-10:])[5], compressed=ranks.compressed_by_telemetry())
        print(json.dumps(told), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
