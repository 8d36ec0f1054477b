"""A training script as users have it, for the recipes of docs/guide/frameworks.md: started by torchrun, DDP or FSDP2.

    airamp run -- torchrun --nproc-per-node 2 tests/gpu/recipe_train.py ddp|fsdp2 [STEPS]

Nothing in it knows of the library, but for the last line, which asks it how many calls it compressed. Rank 0 prints one JSON line.
All ranks use device 0: give each its own card by replacing `DEVICE` and dropping NCCL_HOSTID.
"""

import json
import os
import sys
import time

# Ranks with one host id are neighbours to NCCL, which refuses two of them on one card.
os.environ["NCCL_HOSTID"] = "airamp-rank-" + os.environ["RANK"]

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import ranks
from language_model import LanguageModel, text

DEVICE = torch.device("cuda", 0)
CONTEXT = 64


def main():
    kind, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
    torch.cuda.set_device(DEVICE)
    dist.init_process_group("nccl", device_id=DEVICE)
    torch.manual_seed(0)
    model = LanguageModel(width=512, layers=6, heads=8, context=CONTEXT).to(DEVICE)
    if kind == "ddp":
        net = DistributedDataParallel(model)
    else:
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cuda", (dist.get_world_size(),))
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
        net = fully_shard(model, mesh=mesh) or model
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.tensor(list(text(100_000).encode("ascii")), device=DEVICE)
    chance = torch.Generator().manual_seed(dist.get_rank())
    began, losses, seconds = time.perf_counter(), [], []
    for _ in range(steps):
        starts = torch.randint(len(tokens) - CONTEXT - 1, (4, 1), generator=chance).to(DEVICE)
        letters = tokens[starts + torch.arange(CONTEXT + 1, device=DEVICE)]
        loss = functional.cross_entropy(net(letters[:, :-1]).flatten(0, 1), letters[:, 1:].flatten())
        loss.backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    calls = ranks.compressed_calls(ranks.communicator_of(dist.group.WORLD, DEVICE))
    if dist.get_rank() == 0:
        last = sorted(seconds[-10:])[5]
        print(
            json.dumps(
                {"recipe": kind, "first": losses[0], "last": sum(losses[-5:]) / 5, "step_ms": 1000 * last, "compressed": calls}
            ),
            flush=True,
        )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
