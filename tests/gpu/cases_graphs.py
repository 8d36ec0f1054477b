"""Cases of semantics.py: calls captured into CUDA graphs."""

import torch
import torch.distributed as dist

from reference import DEVICE, Compressed, expected, values

REPLAYS = 5


class Captured:
    """A graph that reduces `source` into `result`."""

    def __init__(self, count, dtype):
        self.source = torch.zeros(count, dtype=dtype, device=DEVICE)
        self.result = torch.zeros_like(self.source)
        self.graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        # The watchdog thread of PyTorch queries events, which a global capture forbids.
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            inside = self.source.clone()
            dist.all_reduce(inside)
            self.result.copy_(inside)
        self.inside = inside

    def launch(self, source):
        """On the current stream; the result is a copy."""
        self.source.copy_(source)
        self.graph.replay()
        return self.result.clone()

    def end(self):
        torch.cuda.synchronize()
        self.graph.reset()


def case_graph(found):
    for dtype, count in ((torch.float16, 20_011), (torch.float32, 9_000_001)):
        with Compressed(found, 1):
            captured = Captured(count, dtype)
        for number in range(REPLAYS):
            result = captured.launch(values(count, dtype, number))
            found.same(f"{dtype} replay {number}", result, expected(count, dtype, number))
        captured.end()
    with Compressed(found, 1):
        live = values(70_001, seed=9)
        dist.all_reduce(live)
    found.same("live afterwards", live, expected(70_001, seed=9))


def case_two_graphs_in_flight(found):
    """Launched on two streams, none waiting for the other."""
    counts, streams = (700_001, 300_007), [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [[values(count, seed=number) for number in range(REPLAYS)] for count in counts]
    results = {}
    with Compressed(found, 2):
        graphs = [Captured(count, torch.float32) for count in counts]
    torch.cuda.synchronize()
    for number in range(REPLAYS):
        for place, graph in enumerate(graphs):
            with torch.cuda.stream(streams[place]):
                results[place, number] = graph.launch(inputs[place][number])
    torch.cuda.synchronize()
    for (place, number), result in results.items():
        found.same(f"graph {place} replay {number}", result, expected(counts[place], seed=number))
    for graph in graphs:
        graph.end()


def case_graph_beside_live_calls(found):
    count, streams = 600_001, [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = [values(count, torch.bfloat16, number) for number in range(2 * REPLAYS)]
    results = []
    with Compressed(found, 1 + REPLAYS):
        captured = Captured(count, torch.bfloat16)
        torch.cuda.synchronize()
        for number in range(REPLAYS):
            with torch.cuda.stream(streams[0]):
                results.append(captured.launch(inputs[2 * number]))
            with torch.cuda.stream(streams[1]):
                live = inputs[2 * number + 1].clone()
                dist.all_reduce(live)
                results.append(live)
    torch.cuda.synchronize()
    for number, result in enumerate(results):
        what = "live call" if number % 2 else "replay"
        found.same(f"{what} {number // 2}", result, expected(count, torch.bfloat16, number))
    captured.end()
