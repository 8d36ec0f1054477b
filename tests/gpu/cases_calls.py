"""Cases of semantics.py: calls by torch.distributed. Each takes a `Findings` and may return a note."""

import torch
import torch.distributed as dist

from reference import DEVICE, RANK, SIZE, Compressed, bytes_of, expected, values

DTYPES = (torch.float16, torch.bfloat16, torch.float32)
SUM, AVG = dist.ReduceOp.SUM, dist.ReduceOp.AVG
MIB = 1 << 20
# Smallest that is compressed, ragged, a shard or two that are empty, several steps.
COUNTS = (513, 1025, 4097, 131_071, 1_000_003, 20_000_003)


def case_types_and_counts(found):
    with Compressed(found, 2 * len(DTYPES) * len(COUNTS)):
        for dtype in DTYPES:
            for op, average in ((SUM, False), (AVG, True)):
                for count in COUNTS:
                    tensor = values(count, dtype, seed=count)
                    dist.all_reduce(tensor, op=op)
                    what = f"{dtype} {'avg' if average else 'sum'} {count}"
                    found.same(what, tensor, expected(count, dtype, count, average))


def case_alignment(found):
    """Tensors that begin anywhere."""
    with Compressed(found, 9):
        for dtype in DTYPES:
            for offset in (1, 3, 7):
                tensor = torch.zeros(50_001 + offset, dtype=dtype, device=DEVICE)[offset:]
                tensor.copy_(values(50_001, dtype, offset))
                dist.all_reduce(tensor)
                found.same(f"{dtype}, {offset} off", tensor, expected(50_001, dtype, offset))


def case_repeated(found):
    """The same input gives the same bits every time."""
    reference = expected(3_000_001, torch.bfloat16, 7)
    with Compressed(found, 5):
        for number in range(5):
            tensor = values(3_000_001, torch.bfloat16, 7)
            dist.all_reduce(tensor)
            found.same(f"run {number}", tensor, reference)


def case_small_passed_on(found):
    """Calls below the limit between compressed ones are NCCL's and exact."""
    with Compressed(found, 4):
        for number in range(4):
            small, large = torch.full((100,), RANK + 1.0, device=DEVICE), values(70_001, seed=number)
            dist.all_reduce(small)
            dist.all_reduce(large)
            found.require(bool((small == SIZE * (SIZE + 1) / 2).all()), f"small {number} is not exact")
            found.same(f"large {number}", large, expected(70_001, seed=number))


def case_async(found):
    tensors = [values(200_003 + number, torch.float16, number) for number in range(8)]
    with Compressed(found, 8):
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            work.wait()
    for number, tensor in enumerate(tensors):
        found.same(f"call {number}", tensor, expected(tensor.numel(), torch.float16, number))


def case_two_streams(found):
    """Calls alternately on two streams, each with work before and after."""
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [values(400_001 + number, seed=number) for number in range(10)]
    results = []
    torch.cuda.synchronize()
    with Compressed(found, 10):
        for number, source in enumerate(inputs):
            with torch.cuda.stream(streams[number % 2]):
                tensor = source.clone()
                dist.all_reduce(tensor)
                results.append(tensor.clone())
    torch.cuda.synchronize()
    for number, result in enumerate(results):
        found.same(f"call {number}", result, expected(400_001 + number, seed=number))


def case_coalesced(found):
    counts = (70_001, 513, 300_007)
    tensors = [values(count, torch.bfloat16, count) for count in counts]
    with Compressed(found, len(counts)):
        # The public way to coalesce is private by name in every release so far.
        with dist.distributed_c10d._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
    for count, tensor in zip(counts, tensors):
        found.same(f"{count}", tensor, expected(count, torch.bfloat16, count))


def case_beside_messages(found):
    """The application's own messages on the same communicator between compressed calls."""
    count, following, previous = 60_001, (RANK + 1) % SIZE, (RANK - 1) % SIZE
    with Compressed(found, 5):
        for number in range(5):
            tensor = values(90_001, seed=number)
            work = dist.all_reduce(tensor, async_op=True)
            sent = values(count, torch.float16, number)
            received = torch.zeros_like(sent)
            operations = [dist.P2POp(dist.isend, sent, following), dist.P2POp(dist.irecv, received, previous)]
            for message in dist.batch_isend_irecv(operations):
                message.wait()
            work.wait()
            wanted = values(count, torch.float16, number, previous)
            found.require(bytes_of(received) == bytes_of(wanted), f"message {number} is not what was sent")
            found.same(f"call {number}", tensor, expected(90_001, seed=number))


def case_group_of_two(found):
    """A group of two of the ranks: one-shot, whatever the world does."""
    members = (0, SIZE - 1)
    group = dist.new_group(members)
    found.alike = SIZE == 2
    if RANK in members:
        dist.all_reduce(torch.zeros(1, device=DEVICE), group=group)
        with Compressed(found, 2, group):
            for dtype in (torch.float16, torch.float32):
                tensor = values(123_457, dtype, 3)
                dist.all_reduce(tensor, group=group)
                found.same(f"{dtype}", tensor, expected(123_457, dtype, 3, members=members))
        torch.cuda.synchronize()
        dist.destroy_process_group(group)
    dist.barrier(device_ids=[0])


def case_groups_come_and_go(found):
    """Groups made, used and ended: the arenas come back."""
    free = []
    for number in range(6):
        group = dist.new_group(list(range(SIZE)))
        dist.all_reduce(torch.zeros(1, device=DEVICE), group=group)
        with Compressed(found, 1, group):
            tensor = values(100_003, seed=number)
            dist.all_reduce(tensor, group=group)
        found.same(f"group {number}", tensor, expected(100_003, seed=number))
        torch.cuda.synchronize()
        dist.destroy_process_group(group)
        dist.barrier(device_ids=[0])
        torch.cuda.synchronize()
        free.append(torch.cuda.mem_get_info()[0])
        dist.barrier(device_ids=[0])
    lost = (free[1] - free[-1]) / SIZE
    found.require(lost < 8 * MIB, f"four groups left {lost / MIB:.1f} MiB per rank behind")
    return f"free after each, MiB: {', '.join(str(it // MIB) for it in free)}"
