"""What makes the first kernel after an idle gap slow, and which small kernels in the gap make it fast again.

    python3 tests/gpu/ghost_trial.py              about 100 s
    python3 tests/gpu/ghost_trial.py --scale 0.3  a third of the repetitions
    python3 tests/gpu/ghost_trial.py --list       what would be measured, without a GPU

Stand-alone: PyTorch and the CUDA driver, nothing of the library. Two probes follow each gap, in turns: a kernel of one
warp and a product of 4096 x 4096 matrices in bf16. `host` rows do something on the host alone, to tell what a sleeping
processor costs from what an idle device costs. Exit status: 0 measured, 77 no GPU.

    call   from before the launch until it returned, microseconds, median
    done   until the host saw the small kernel's end, median and the largest
    gemm   the same for the product; dev: its time on the device by events, median
    watts  by the device's energy counter, over gaps and probes together
"""

import argparse
import ctypes
import statistics
import sys
import threading
import time
from dataclasses import dataclass

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
.visible .entry spin(.param .u32 cycles) {
  .reg .pred %p; .reg .u32 %c; .reg .u64 %s; .reg .u64 %n; .reg .u64 %w;
  ld.param.u32 %c, [cycles];
  cvt.u64.u32 %w, %c;
  mov.u64 %s, %clock64;
again:
  mov.u64 %n, %clock64;
  sub.u64 %n, %n, %s;
  setp.lt.u64 %p, %n, %w;
  @%p bra again;
  ret;
}
"""
# Two microseconds at the highest clock of the cards this is meant for.
SPIN_CYCLES = 4000
SIDE = 4096
GAPS_MS = {1: 40, 10: 24, 100: 10, 1000: 3}
KINDS = ("nothing", "spin on 1", "spin on all", "memset", "copy")
INTERVALS_US = (200, 500, 1000, 2000, 5000, 10000)
LEADS_US = (50, 200, 1000)


@dataclass(frozen=True)
class Case:
    """What happens in a gap: `kind` every `every_us`, or once `lead_us` before the end."""

    gap_ms: int
    kind: str
    every_us: int = 0
    lead_us: int = 0

    def when(self):
        if self.lead_us:
            return f"once, {self.lead_us} us before"
        return f"every {self.every_us} us" if self.every_us else ""


def cases():
    for gap in (1, 10, 100, 1000):
        yield Case(gap, "none")
    for gap in (10, 100):
        yield Case(gap, "host: spins")
        yield Case(gap, "host: thread wakes", every_us=500)
        yield Case(gap, "host: thread asks driver", every_us=500)
        for kind in KINDS:
            yield Case(gap, kind, every_us=500)
    for interval in INTERVALS_US:
        if interval != 500:
            yield Case(100, "nothing", every_us=interval)
            yield Case(100, "spin on all", every_us=interval)
    for lead in LEADS_US:
        yield Case(100, "nothing", lead_us=lead)
        yield Case(100, "spin on all", lead_us=lead)
        yield Case(10, "nothing", lead_us=lead)
    yield Case(1, "nothing", every_us=200)
    yield Case(1000, "nothing", every_us=2000)
    yield Case(1000, "spin on all", every_us=2000)
    yield Case(1000, "nothing", lead_us=200)
    # Again at the end: what changed by itself while all this ran.
    yield Case(100, "none")


class Device:
    """The driver in PyTorch's context: the probes' stream, the ghosts' stream of lowest priority, and the kernels."""

    def __init__(self, torch):
        self.torch = torch
        torch.zeros(1, device="cuda")
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.context = ctypes.c_void_p()
        self.check(self.cuda.cuCtxGetCurrent(ctypes.byref(self.context)))
        module = ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        self.functions = {name: self.function(module, name) for name in ("nothing", "spin")}
        self.processors = torch.cuda.get_device_properties(0).multi_processor_count
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self.check(self.cuda.cuCtxGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)))
        self.probes, self.ghosts = self.stream(0), self.stream(least.value)
        self.left = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        self.right = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
        self.product = torch.empty_like(self.left)
        self.scratch = torch.zeros(1 << 20, device="cuda", dtype=torch.uint8)
        self.events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        cycles = ctypes.c_uint32(SPIN_CYCLES)
        self.kept = cycles, (ctypes.c_void_p * 1)(ctypes.addressof(cycles))

    def check(self, result):
        if result != 0:
            raise SystemExit(f"the driver answered {result}")

    def function(self, module, name):
        function = ctypes.c_void_p()
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
        return function

    def stream(self, priority):
        stream = ctypes.c_void_p()
        self.check(self.cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, priority))
        return stream

    def launch(self, name, blocks, stream):
        parameters = self.kept[1] if name == "spin" else None
        function = self.functions[name]
        self.check(self.cuda.cuLaunchKernel(function, blocks, 1, 1, 32, 1, 1, 0, stream, parameters, None))

    def ghost(self, kind):
        """A function that does `kind` once."""
        start = ctypes.c_uint64(self.scratch.data_ptr())
        other = ctypes.c_uint64(self.scratch.data_ptr() + (1 << 19))
        return {
            "nothing": lambda: self.launch("nothing", 1, self.ghosts),
            "spin on 1": lambda: self.launch("spin", 1, self.ghosts),
            "spin on all": lambda: self.launch("spin", self.processors, self.ghosts),
            "memset": lambda: self.check(self.cuda.cuMemsetD8Async(start, 0, ctypes.c_size_t(4096), self.ghosts)),
            "copy": lambda: self.check(self.cuda.cuMemcpyDtoDAsync_v2(start, other, ctypes.c_size_t(65536), self.ghosts)),
            "host: thread wakes": lambda: None,
            "host: thread asks driver": lambda: self.cuda.cuStreamQuery(self.ghosts),
        }[kind]

    def small(self):
        """Microseconds until the launch returned and until the host saw its end."""
        began = time.perf_counter()
        self.launch("nothing", 1, self.probes)
        called = time.perf_counter()
        self.check(self.cuda.cuStreamSynchronize(self.probes))
        return 1e6 * (called - began), 1e6 * (time.perf_counter() - began)

    def gemm(self):
        """Microseconds until the host saw its end, and on the device."""
        began = time.perf_counter()
        self.events[0].record()
        self.torch.matmul(self.left, self.right, out=self.product)
        self.events[1].record()
        self.events[1].synchronize()
        done = time.perf_counter()
        return 1e6 * (done - began), 1e3 * self.events[0].elapsed_time(self.events[1])


class Ghosts(threading.Thread):
    """Does a case's work in each gap, on its own thread, as the library would."""

    def __init__(self, device):
        super().__init__(daemon=True)
        self.device = device
        self.opened, self.in_gap, self.over = threading.Event(), False, False
        self.case, self.until, self.launched = None, 0.0, 0

    def open(self, case, until):
        self.case, self.until, self.in_gap = case, until, True
        self.opened.set()

    def close(self):
        self.in_gap = False

    def run(self):
        # Sleeps as short as asked for: 29 is PR_SET_TIMERSLACK.
        ctypes.CDLL(None).prctl(29, 1000, 0, 0, 0)
        self.device.check(self.device.cuda.cuCtxSetCurrent(self.device.context))
        while True:
            self.opened.wait()
            self.opened.clear()
            if self.over:
                return
            self.gap(self.case, self.device.ghost(self.case.kind))

    def gap(self, case, ghost):
        if case.lead_us:
            time.sleep(max(0.0, self.until - time.perf_counter() - 1e-6 * case.lead_us))
            ghost()
            self.launched += 1
            return
        while self.in_gap:
            ghost()
            self.launched += 1
            time.sleep(1e-6 * case.every_us)

    def finish(self):
        self.over = True
        self.opened.set()
        self.join(10)


class Energy:
    """The device's energy counter and clock, or nothing where NVML has none."""

    def __init__(self):
        self.handle = ctypes.c_void_p()
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
            found = self.nvml.nvmlInit_v2() == 0
            found = found and self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) == 0
        except (OSError, AttributeError):
            found = False
        self.nvml = self.nvml if found else None

    def joules(self):
        millijoules = ctypes.c_ulonglong()
        if self.nvml is None or self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle, ctypes.byref(millijoules)):
            return float("nan")
        return millijoules.value / 1000

    def megahertz(self):
        clock = ctypes.c_uint()
        if self.nvml is None or self.nvml.nvmlDeviceGetClockInfo(self.handle, 1, ctypes.byref(clock)):
            return 0
        return clock.value

    def reasons(self):
        reasons = ctypes.c_ulonglong()
        read = self.nvml and self.nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle, ctypes.byref(reasons)) == 0
        return f"{reasons.value:#x}" if read else "unknown"


def gap(case, ghosts):
    until = time.perf_counter() + 1e-3 * case.gap_ms
    if case.kind == "host: spins":
        while time.perf_counter() < until:
            pass
        return
    if case.kind != "none":
        ghosts.open(case, until)
    time.sleep(1e-3 * case.gap_ms)
    ghosts.close()


def measure(case, device, ghosts, energy, scale):
    repetitions = max(2, round(GAPS_MS[case.gap_ms] * scale))
    calls, dones, gemms, on_device = [], [], [], []
    for _ in range(20):
        device.small()
        device.gemm()
    ghosts.launched, before, began = 0, energy.joules(), time.perf_counter()
    for _ in range(repetitions):
        gap(case, ghosts)
        called, done = device.small()
        calls.append(called)
        dones.append(done)
        device.gemm()
        gap(case, ghosts)
        done, ran = device.gemm()
        gemms.append(done)
        on_device.append(ran)
    seconds = time.perf_counter() - began
    launched = ghosts.launched
    watts = (energy.joules() - before) / seconds
    gap(case, ghosts)
    middle = statistics.median
    print(
        f"{case.gap_ms:5} {case.kind:25}{case.when():22}{middle(calls):7.1f}{middle(dones):8.1f}{max(dones):8.1f}"
        f"{middle(gemms):9.1f}{max(gemms):9.1f}{middle(on_device):8.1f}{watts:8.0f}{energy.megahertz():6}"
        f"{launched / (2 * repetitions):8.1f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of repetitions")
    parser.add_argument("--list", action="store_true", help="only say what would be measured")
    arguments = parser.parse_args()
    if arguments.list:
        for case in cases():
            print(f"{case.gap_ms:5} ms  {case.kind:25}{case.when()}")
        seconds = sum(2e-3 * case.gap_ms * max(2, round(GAPS_MS[case.gap_ms] * arguments.scale)) for case in cases())
        print(f"about {seconds:.0f} s of gaps")
        return
    import torch

    if not torch.cuda.is_available():
        print("no GPU")
        sys.exit(77)
    device, energy = Device(torch), Energy()
    ghosts = Ghosts(device)
    ghosts.start()
    print(f"{torch.cuda.get_device_name(0)}, {device.processors} multiprocessors, throttle reasons {energy.reasons()}")
    print("  gap what                     when                     call    done     max     gemm      max     dev   watts   MHz  a gap")
    for case in cases():
        measure(case, device, ghosts, energy, arguments.scale)
    print(f"throttle reasons at the end {energy.reasons()}")
    ghosts.finish()


if __name__ == "__main__":
    main()
