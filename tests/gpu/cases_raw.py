"""Cases of semantics.py: what PyTorch does not offer, by NCCL's own functions on PyTorch's communicator."""

import torch

from reference import DEVICE, RANK, SIZE, Compressed, bytes_of, comm, expected, values


def nccl():
    # Here, as it is a program for ranks and wants their environment.
    from ctypes_nccl import Nccl

    return Nccl("libnccl.so.2")


def all_reduce(functions, source, result, stream):
    from ctypes_nccl import SUM, TYPES

    pointers = source.data_ptr(), result.data_ptr()
    functions.AllReduce(*pointers, source.numel(), TYPES[source.dtype], SUM, comm(), stream.cuda_stream)


def case_out_of_place(found):
    functions, stream = nccl(), torch.cuda.current_stream()
    with Compressed(found, 6):
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            for count in (4_097, 9_000_001):
                source = values(count, dtype, 5)
                result = torch.zeros(count + 3, dtype=dtype, device=DEVICE)
                all_reduce(functions, source, result[1:-2], stream)
                found.same(f"{dtype} {count}", result[1:-2], expected(count, dtype, 5))
                untouched = bytes_of(source) == bytes_of(values(count, dtype, 5))
                found.require(untouched, f"{dtype} {count}: the input has changed")
                edges = torch.cat([result[:1], result[-2:]])
                found.require(not edges.any(), f"{dtype} {count}: written beyond the output")


def case_two_streams_raw(found):
    """As in two_streams, but surely on the application's own streams."""
    functions = nccl()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [values(300_001 + number, torch.float16, number) for number in range(12)]
    results = []
    torch.cuda.synchronize()
    with Compressed(found, 12):
        for number, source in enumerate(inputs):
            stream = streams[number % 2]
            with torch.cuda.stream(stream):
                tensor = source.clone()
                all_reduce(functions, tensor, tensor, stream)
                results.append(tensor.clone())
    torch.cuda.synchronize()
    for number, result in enumerate(results):
        found.same(f"call {number}", result, expected(300_001 + number, torch.float16, number))


def case_group_with_messages(found):
    """One group: AllReduces on two streams, one that is not compressed, and a message around the ring."""
    from ctypes_nccl import FLOAT32

    functions = nccl()
    streams = [torch.cuda.Stream(), torch.cuda.Stream()]
    following, previous = (RANK + 1) % SIZE, (RANK - 1) % SIZE
    first, second = values(80_001, seed=1), values(500_009, torch.bfloat16, 2)
    small = torch.full((64,), RANK + 1, dtype=torch.int32, device=DEVICE)
    sent, received = values(40_001, seed=3), torch.zeros(40_001, device=DEVICE)
    torch.cuda.synchronize()
    with Compressed(found, 2):
        functions.GroupStart()
        functions.Send(sent.data_ptr(), 40_001, FLOAT32, following, comm(), streams[1].cuda_stream)
        all_reduce(functions, first, first, streams[0])
        all_reduce(functions, small, small, streams[0])
        functions.Recv(received.data_ptr(), 40_001, FLOAT32, previous, comm(), streams[1].cuda_stream)
        all_reduce(functions, second, second, streams[1])
        functions.GroupEnd()
    torch.cuda.synchronize()
    found.same("first", first, expected(80_001, seed=1))
    found.same("second", second, expected(500_009, torch.bfloat16, 2))
    found.require(bool((small == SIZE * (SIZE + 1) // 2).all()), "what is not compressed is not exact")
    wanted = values(40_001, seed=3, rank=previous)
    found.require(bytes_of(received) == bytes_of(wanted), "the message is not what was sent")
