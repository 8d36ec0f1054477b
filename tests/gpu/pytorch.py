"""One rank of the PyTorch test: collectives through torch.distributed on NCCL.

Prints a JSON line per case with a digest of the result's bits and whether the
result is right, so that runs without and with the library can be compared.
Started by tests/gpu/run; all ranks share device 0. Needs PyTorch and nothing else.
"""

import ctypes
import datetime
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
DEVICE = torch.device("cuda", 0)
COUNTS = (1, 1023, 1 << 20)
# Small whole numbers, so that sums are exact in every type.
PERIOD = 7


def values(count, dtype=torch.float32, rank=RANK, start=0):
    index = torch.arange(start, start + count, device=DEVICE)
    return ((index * (rank + 1) + rank) % PERIOD).to(dtype)


def bits(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())


def report(case, result, expected):
    """Prints the case's line; `result` and `expected` are tensors or lists of them."""
    results = result if isinstance(result, (list, tuple)) else [result]
    wanted = expected if isinstance(expected, (list, tuple)) else [expected]
    torch.cuda.synchronize()
    digest = hashlib.sha256()
    right = len(results) == len(wanted)
    for got, want in zip(results, wanted):
        digest.update(bits(got))
        right = right and torch.equal(got, want.to(got.dtype))
    line = {"case": case, "rank": RANK, "digest": digest.hexdigest()[:16], "expected": "ok" if right else "mismatch"}
    print(json.dumps(line), flush=True)


def total(count, dtype=torch.float32, start=0, ranks=None):
    ranks = range(SIZE) if ranks is None else ranks
    return torch.stack([values(count, torch.float64, rank, start) for rank in ranks]).sum(0).to(dtype)


def all_reduce():
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8):
        for count in COUNTS:
            tensor = values(count, dtype)
            dist.all_reduce(tensor)
            report(f"all_reduce/{dtype}/sum/{count}", tensor, total(count, dtype))
    each = torch.stack([values(1023, torch.float32, rank) for rank in range(SIZE)])
    for name, op, expected in (
        ("max", dist.ReduceOp.MAX, each.max(0).values),
        ("min", dist.ReduceOp.MIN, each.min(0).values),
        ("avg", dist.ReduceOp.AVG, each.sum(0) / SIZE),
    ):
        tensor = values(1023)
        dist.all_reduce(tensor, op=op)
        report(f"all_reduce/{name}", tensor, expected)


def reduce_scatter():
    for count in COUNTS:
        source = values(count * SIZE)
        result = torch.empty(count, device=DEVICE)
        dist.reduce_scatter_tensor(result, source)
        report(f"reduce_scatter/{count}", result, total(count, start=RANK * count))


def all_gather():
    for count in COUNTS:
        result = torch.empty(count * SIZE, device=DEVICE)
        dist.all_gather_into_tensor(result, values(count))
        report(f"all_gather/{count}", result, torch.cat([values(count, rank=rank) for rank in range(SIZE)]))
    parts = [torch.empty(1023, device=DEVICE) for _ in range(SIZE)]
    dist.all_gather(parts, values(1023))
    report("all_gather/list", parts, [values(1023, rank=rank) for rank in range(SIZE)])


def all_to_all():
    for count in COUNTS:
        result = torch.empty(count * SIZE, device=DEVICE)
        dist.all_to_all_single(result, values(count * SIZE))
        expected = torch.cat([values(count, rank=rank, start=RANK * count) for rank in range(SIZE)])
        report(f"all_to_all/{count}", result, expected)
    # Uneven: rank r sends r + p + 1 elements to rank p.
    send = [RANK + peer + 1 for peer in range(SIZE)]
    result = torch.empty(sum(send), device=DEVICE)
    dist.all_to_all_single(result, values(sum(send)), output_split_sizes=send, input_split_sizes=send)
    starts = [sum(rank + peer + 1 for peer in range(RANK)) for rank in range(SIZE)]
    expected = torch.cat([values(rank + RANK + 1, rank=rank, start=starts[rank]) for rank in range(SIZE)])
    report("all_to_all/uneven", result, expected)


def broadcast_and_reduce():
    for root in (0, SIZE - 1):
        tensor = values(5001)
        dist.broadcast(tensor, src=root)
        report(f"broadcast/{root}", tensor, values(5001, rank=root))
        tensor = values(5001)
        dist.reduce(tensor, dst=root)
        if RANK == root:
            report(f"reduce/{root}", tensor, total(5001))


def send_recv():
    following, previous = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    result = torch.zeros(70001, device=DEVICE)
    operations = [
        dist.P2POp(dist.isend, values(70001), following),
        dist.P2POp(dist.irecv, result, previous),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    report("send_recv/batch", result, values(70001, rank=previous))
    result = values(4001)
    if RANK > 0:
        dist.recv(result, src=RANK - 1)
    if RANK + 1 < SIZE:
        dist.send(result, dst=RANK + 1)
    report("send_recv/chain", result, values(4001, rank=0))


def coalesced():
    tensors = [values(count) for count in (5, 4097, 65537)]
    # The public way to coalesce is private by name in every release so far.
    manager = getattr(dist, "_coalescing_manager", None) or dist.distributed_c10d._coalescing_manager
    with manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    report("coalesced/all_reduce", tensors, [total(count) for count in (5, 4097, 65537)])
    results = [torch.empty(count * SIZE, device=DEVICE) for count in (3, 1001)]
    with manager():
        for result, count in zip(results, (3, 1001)):
            dist.all_gather_into_tensor(result, values(count))
    expected = [torch.cat([values(count, rank=rank) for rank in range(SIZE)]) for count in (3, 1001)]
    report("coalesced/all_gather", results, expected)


def barrier():
    dist.barrier(device_ids=[0])
    report("barrier", torch.tensor([1.0]), torch.tensor([1.0]))


def new_group():
    everyone = dist.new_group(list(range(SIZE)))
    tensor = values(3001)
    dist.all_reduce(tensor, group=everyone)
    report("new_group/all", tensor, total(3001))
    # Every rank must take part in making every group.
    members = [rank for rank in range(SIZE) if rank % 2 == 0]
    even = dist.new_group(members)
    if RANK in members:
        tensor = values(3001)
        dist.all_reduce(tensor, group=even)
        report("new_group/even", tensor, total(3001, ranks=members))


def streams():
    side = torch.cuda.Stream()
    source = values(100003)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        tensor = source * 2
        work = dist.all_reduce(tensor, async_op=True)
    work.wait()
    torch.cuda.current_stream().wait_stream(side)
    report("streams/async", tensor, total(100003) * 2)


def captured_graph():
    static = values(20011)
    result = torch.empty_like(static)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            result.copy_(static)
            dist.all_reduce(result)
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # The watchdog thread of PyTorch queries events, which a global capture forbids.
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        result.copy_(static)
        dist.all_reduce(result)
        result.mul_(2)
    for replay in range(4):
        static.copy_(values(20011, start=replay))
        graph.replay()
        report(f"graph/replay_{replay}", result, total(20011, start=replay) * 2)
    live = values(777)
    dist.all_reduce(live)
    report("graph/live_after", live, total(777))
    torch.cuda.synchronize()
    graph.reset()


CASES = (
    all_reduce,
    reduce_scatter,
    all_gather,
    all_to_all,
    broadcast_and_reduce,
    send_recv,
    coalesced,
    barrier,
    new_group,
    streams,
    captured_graph,
)


def main():
    torch.cuda.set_device(DEVICE)
    # Eager: the communicator is made at once, and groups are split off it.
    eager = {"device_id": DEVICE} if "--eager" in sys.argv[1:] else {}
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=90), **eager)
    version = torch.tensor(torch.cuda.nccl.version())
    report("version", version, version)
    for case in CASES:
        case()
    torch.cuda.synchronize()
    dist.barrier(device_ids=[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
