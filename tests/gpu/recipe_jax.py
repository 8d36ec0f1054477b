"""A JAX program as users have it, for the recipe of docs/guide/frameworks.md: data parallel, one process per rank.

    airamp run -- torchrun --nproc-per-node 2 tests/gpu/recipe_jax.py PORT [STEPS]

Any launcher does that gives RANK and WORLD_SIZE. XLA sums the gradients by NCCL's AllReduce, live: commands that are captured
are switched off. Nothing in it knows of the library, but for the last lines, which ask how many calls it compressed. Rank 0 prints
one JSON line. All ranks use device 0: drop NCCL_HOSTID and `local_device_ids` where each has a card of its own.
"""

import json
import os
import sys
import time
import zlib

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
# Ranks with one host id are neighbours to NCCL, which refuses two of them on one card.
os.environ["NCCL_HOSTID"] = f"airamp-rank-{RANK}"
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
os.environ.setdefault("XLA_FLAGS", "--xla_gpu_enable_command_buffer=")

import jax
import numpy
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import ranks

WIDTH, BATCH, RATE = 2048, 64, 100.0


def loss_of(weights, inputs, wanted):
    hidden = jnp.tanh(inputs @ weights["first"])
    return jnp.mean((hidden @ weights["second"] - wanted) ** 2)


@jax.jit
def step(weights, inputs, wanted):
    loss, slopes = jax.value_and_grad(loss_of)(weights, inputs, wanted)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, slopes), loss


def main():
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 40
    jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", SIZE, RANK, local_device_ids=[0])
    mesh = Mesh(numpy.array(jax.devices()), ("data",))
    everywhere, by_rank = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("data"))
    same, own = numpy.random.default_rng(0), numpy.random.default_rng(1 + RANK)
    draw = {name: same.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype("float32") for name in ("first", "second", "true")}
    true = draw.pop("true")
    weights = {name: jax.make_array_from_process_local_data(everywhere, value) for name, value in draw.items()}
    began, losses, seconds = time.perf_counter(), [], []
    for _ in range(steps):
        inputs = own.normal(0, 1, (BATCH, WIDTH)).astype("float32")
        share = [jax.make_array_from_process_local_data(by_rank, value) for value in (inputs, inputs @ true)]
        weights, loss = step(weights, *share)
        losses.append(float(loss))
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    # Of the bits that each rank holds; a sum of them would depend on how XLA adds up.
    sums = [zlib.crc32(numpy.asarray(weight.addressable_data(0)).tobytes()) for weight in weights.values()]
    all_sums = jax.make_array_from_process_local_data(by_rank, numpy.array([sums], "uint32"))
    apart = int(jax.jit(lambda of: jnp.sum(of != of[0]), out_shardings=everywhere)(all_sums))
    if RANK == 0:
        told = {"recipe": "jax", "first": losses[0], "last": sum(losses[-5:]) / 5, "step_ms": 1000 * sorted(seconds[-10:])[5]}
        print(json.dumps({**told, "apart": apart, "compressed": ranks.compressed_by_telemetry()}), flush=True)
    jax.distributed.shutdown()


if __name__ == "__main__":
    main()
