"""The light program of ghosts.py: one rank of the CUDA driver and NCCL through ctypes, no PyTorch, ready in seconds.

Its own kernels go on the default stream and its collectives on a non-blocking one, in order by events, as PyTorch does
it. Requests and answers are those of ranks.py. AIRAMP_RANK_NCCL names the NCCL; else PyTorch's, else libnccl.so.2.
"""

import ctypes
import importlib.util
import os
import time

# Collectives of a burst; the first has a size of its own, so that the step is known after three bursts.
LAYERS = 16
COUNT = 1 << 16
FLOAT32 = 7
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry work(.param .u32 rounds, .param .u64 never) {
  .reg .pred %p; .reg .u32 %n; .reg .f32 %x; .reg .f32 %y; .reg .u64 %a;
  ld.param.u32 %n, [rounds];
  ld.param.u64 %a, [never];
  mov.f32 %x, 0f3F800000;
  mov.f32 %y, 0f3F7FFFF0;
again:
  fma.rn.f32 %x, %x, %y, %y;
  fma.rn.f32 %x, %x, %y, %y;
  fma.rn.f32 %x, %x, %y, %y;
  fma.rn.f32 %x, %x, %y, %y;
  sub.u32 %n, %n, 1;
  setp.ne.u32 %p, %n, 0;
  @%p bra again;
  setp.lt.f32 %p, %x, 0f00000000;
  @%p st.global.f32 [%a], %x;
  ret;
}
"""


def nccl_file():
    named = os.environ.get("AIRAMP_RANK_NCCL")
    if named:
        return named
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        found = None
    for folder in found.submodule_search_locations if found else ():
        file = os.path.join(folder, "lib", "libnccl.so.2")
        if os.path.exists(file):
            return file
    return "libnccl.so.2"


def pause(seconds):
    """As a host that works: it sleeps through what is long and looks at the clock for the rest."""
    until = time.perf_counter() + seconds
    if seconds > 0.02:
        time.sleep(seconds - 0.01)
    while time.perf_counter() < until:
        pass


class Rank:
    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.check(self.cuda.cuInit(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.cuda.cuDeviceGet(ctypes.byref(device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self.check(self.cuda.cuCtxSetCurrent(context))
        processors = ctypes.c_int()
        self.check(self.cuda.cuDeviceGetAttribute(ctypes.byref(processors), 16, device))
        self.processors = processors.value
        self.stream, self.before, self.behind = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        for event in (self.before, self.behind):
            self.check(self.cuda.cuEventCreate(ctypes.byref(event), 2))
        module = ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        self.nothing, self.work = (self.function(module, name) for name in (b"nothing", b"work"))
        self.part, self.whole = self.memory(4 * COUNT), self.memory(4 * COUNT)
        self.rounds = ctypes.c_uint32(1000)
        self.parameters = (ctypes.c_void_p * 2)(ctypes.addressof(self.rounds), ctypes.addressof(self.part))
        self.open_communicator()
        # The calling thread alone, as a scheduler would: the library's threads are there already and stay free.
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {allowed[len(allowed) // 2]})

    def open_communicator(self):
        nccl = ctypes.CDLL(nccl_file())
        self.comm = ctypes.c_void_p()
        devices = (ctypes.c_int * 1)(0)
        self.check(nccl.ncclCommInitAll(ctypes.byref(self.comm), 1, devices))
        self.gather, self.destroy = nccl.ncclAllGather, nccl.ncclCommDestroy
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self.gather.argtypes = [pointer, pointer, size, ctypes.c_int, pointer, pointer]

    def check(self, result):
        if result != 0:
            raise SystemExit(f"the driver or NCCL answered {result}")

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
        return function

    def memory(self, size):
        address = ctypes.c_uint64()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)))
        return address

    def answer(self, request):
        return getattr(self, request.pop("do"))(**request)

    def end(self):
        self.check(self.cuda.cuCtxSynchronize())
        self.destroy(self.comm)

    def launch(self, function, blocks, threads, parameters=None):
        """On the default stream."""
        self.check(self.cuda.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, None, parameters, None))

    def collective(self, count=COUNT):
        """Behind what is on the default stream, and that stream goes on behind it."""
        self.check(self.cuda.cuEventRecord(self.before, None))
        self.check(self.cuda.cuStreamWaitEvent(self.stream, self.before, 0))
        # Of one rank AllGather is a copy on the device.
        self.check(self.gather(self.part.value, self.whole.value, count, FLOAT32, self.comm, self.stream))
        self.check(self.cuda.cuEventRecord(self.behind, self.stream))
        self.check(self.cuda.cuStreamWaitEvent(None, self.behind, 0))

    def wait(self):
        self.check(self.cuda.cuStreamSynchronize(None))

    def warm_up(self, rounds=0):
        """And how many rounds of `work` on the whole device take half a millisecond, unless that is told."""
        self.gaps(1, 3)
        self.wait()
        if not rounds:
            for rounds in (1000, 20000):
                self.rounds.value = rounds
                self.launch(self.work, self.processors, 1024, self.parameters)
                self.wait()
                began = time.perf_counter()
                for _ in range(20):
                    self.launch(self.work, self.processors, 1024, self.parameters)
                self.wait()
                took = (time.perf_counter() - began) / 20
            rounds = max(1, round(rounds * 0.0005 / took))
        self.rounds.value = rounds
        return {"rounds": rounds}

    def gaps(self, gap_ms, count):
        """The application's own kernel first, then the collectives of the burst."""
        kernel, first = [], []
        for _ in range(count):
            pause(1e-3 * gap_ms)
            began = time.perf_counter()
            self.launch(self.nothing, 1, 32)
            self.wait()
            done = time.perf_counter()
            self.collective(COUNT // 2)
            self.wait()
            kernel.append(1e6 * (done - began))
            first.append(1e6 * (time.perf_counter() - done))
            for _ in range(LAYERS - 1):
                self.collective()
            self.wait()
        return {"kernel_us": kernel, "first_us": first}

    def decode(self, gap_ms, tokens):
        took = []
        for _ in range(tokens):
            began = time.perf_counter()
            self.launch(self.nothing, 1, 32)
            self.collective(COUNT // 2)
            for _ in range(LAYERS):
                self.launch(self.nothing, self.processors, 256)
                self.launch(self.nothing, self.processors, 256)
                self.collective()
            self.wait()
            pause(1e-3 * gap_ms)
            took.append(time.perf_counter() - began)
        return {"seconds": took}

    def running(self, steps):
        """The device is never idle but for the host's own time: 50 kernels of half a millisecond in a step."""
        took = []
        for _ in range(steps):
            began = time.perf_counter()
            self.collective(COUNT // 2)
            for _ in range(LAYERS - 1):
                self.collective()
            for _ in range(50):
                self.launch(self.work, self.processors, 1024, self.parameters)
            self.wait()
            took.append(time.perf_counter() - began)
        return {"seconds": took}


if __name__ == "__main__":
    import ranks

    ranks.serve(Rank())
