"""The program of ghosts.py under PyTorch: one rank, its kernels and collectives those of the framework.

Requests and answers are those of ghost_rank.py.
"""

import time

import ranks

LAYERS = 16


class Rank:
    def __init__(self):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        torch.cuda.set_device(0)
        dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
        self.part = torch.randn(1 << 16, device="cuda")
        self.whole = torch.empty_like(self.part)
        self.weights = torch.randn(1024, 1024, device="cuda", dtype=torch.bfloat16)
        self.tokens = torch.randn(8, 1024, device="cuda", dtype=torch.bfloat16)
        self.left = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
        self.product = torch.empty_like(self.left)

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.torch.cuda.synchronize()
        self.dist.destroy_process_group()

    def begin_step(self):
        """A size of its own: equal calls could be a step of one call with an uneven pace as well."""
        half = self.part.numel() // 2
        self.dist.all_gather_into_tensor(self.whole[:half], self.part[:half])

    def collective(self):
        # Of one rank AllGather is a copy on the device, and AllReduce in place would be nothing.
        self.dist.all_gather_into_tensor(self.whole, self.part)

    def layers(self):
        hidden = self.tokens
        self.begin_step()
        for _ in range(LAYERS):
            hidden = self.torch.nn.functional.layer_norm(hidden @ self.weights, (1024,))
            self.collective()

    def warm_up(self, rounds=0):
        for _ in range(20):
            self.layers()
            self.torch.mm(self.left, self.left, out=self.product)
        self.gaps(1, 3)
        return {"rounds": 1}

    def gaps(self, gap_ms, count):
        kernel, first = [], []
        for _ in range(count):
            time.sleep(1e-3 * gap_ms)
            began = time.perf_counter()
            self.tokens.add_(0)
            self.torch.cuda.synchronize()
            done = time.perf_counter()
            self.begin_step()
            self.torch.cuda.synchronize()
            kernel.append(1e6 * (done - began))
            first.append(1e6 * (time.perf_counter() - done))
            for _ in range(LAYERS - 1):
                self.collective()
            self.torch.cuda.synchronize()
        return {"kernel_us": kernel, "first_us": first}

    def decode(self, gap_ms, tokens):
        took = []
        for _ in range(tokens):
            began = time.perf_counter()
            self.layers()
            self.torch.cuda.synchronize()
            time.sleep(1e-3 * gap_ms)
            took.append(time.perf_counter() - began)
        return {"seconds": took}

    def running(self, steps):
        """The device is never idle: products on the default stream, and a burst of collectives every 30 ms or so."""
        took = []
        for _ in range(steps):
            began = time.perf_counter()
            self.begin_step()
            for _ in range(LAYERS):
                self.collective()
            for _ in range(150):
                self.torch.mm(self.left, self.left, out=self.product)
            self.torch.cuda.current_stream().synchronize()
            took.append(time.perf_counter() - began)
        return {"seconds": took}


if __name__ == "__main__":
    ranks.serve(Rank())
