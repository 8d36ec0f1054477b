"""Ranks of a test, started by a conductor that tells them one by one what to do next. They share the cards that there are
(`on_a_card`); each sees its own as device 0.

The conductor (`Ranks`) and the ranks (`serve`) are the same script: requests and answers are JSON lines on the
ranks' stdin and stdout. Ranks with the library and ranks without can be up side by side and take turns. Between two
requests all ranks are idle. Needs nothing but Python here.
"""

import ctypes
import json
import os
import queue
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

RANK = int(os.environ.get("RANK", "-1"))
SIZE = int(os.environ.get("WORLD_SIZE", "0"))
IS_RANK = "GPU_TEST_RANK" in os.environ
NO_GPU = 77
# Of jobs that measure what goes over sockets, also where each rank has a card of its own.
WIRE = {"GPU_TEST_WIRE": "yes"}
ON_A_CARD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "on_a_card")
NOT_THE_LIBRARYS = ("AIRAMP_RANK_NCCL", "AIRAMP_EMU_")


class Ended(Exception):
    """A rank has ended, or has not answered in time; the text says which and what it said last."""


def library_file():
    """The library to preload: from the folder AIRAMP_BIN, or the one that cargo builds into."""
    here = os.path.dirname(os.path.abspath(__file__))
    folder = os.environ.get("AIRAMP_BIN") or os.path.join(here, "..", "..", "target", "release")
    file = os.path.realpath(os.path.join(folder, "libairamp_accel.so"))
    if not os.path.exists(file):
        raise SystemExit(f"{file} is missing: set AIRAMP_BIN to the folder with the binaries")
    return file


def fresh_mps():
    """Another daemon of MPS in the place of the one around this program, if there is one: for the next job, after ranks were killed."""
    if "MPS_CARDS" in os.environ:
        subprocess.run([os.path.join(os.path.dirname(ON_A_CARD), "fresh_mps")], stdin=subprocess.DEVNULL)


def require_gpu():
    """Ends the program with status 77 where there is no GPU; in a child, so that nothing of it stays here. All cards are used, unless
    CUDA_VISIBLE_DEVICES says which."""
    program = """if True:
        import ctypes
        cuda, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
        failed = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
        print(*range(count.value), sep=",")
        exit(1 if failed or not count.value else 0)"""
    found = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    if found.returncode != 0:
        print("skipped: no CUDA device", file=sys.stderr)
        raise SystemExit(NO_GPU)
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", found.stdout.strip())


def on_the_first_card(count):
    """How many of so many ranks share the first card."""
    return -(-count // len(os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")))


def free_port():
    """Below those that the system hands out: nobody takes it before rank 0 does."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


class Ranks:
    """`count` ranks of a script. `how`: without (the library), passthrough, compressed (all that can be, at once) or
    tuned (what the library decides by itself). The ranks of `bare` are without the library, whatever the others do.
    `common` are variables of any job; ranks that do not share a GPU by MPS take turns on it."""

    def __init__(
        self, script, count, how, settings=None, arguments=(), limit=80, bare=(), common=None, shares_gpu=True
    ):
        self.how, self.limit, self.bare = how, limit, bare
        self.common, self.shares_gpu = common or {}, shares_gpu
        # Short, as it may hold a socket.
        self.folder = tempfile.mkdtemp(prefix="airamp-ranks-", dir="/tmp")
        # Whether one did not end by itself: whoever starts others has a fresh_mps() first.
        self.forced = False
        self.answers = [queue.Queue() for _ in range(count)]
        self.processes = []
        shared = self.environment(count, settings or {})
        for rank in range(count):
            self.start(rank, shared, [sys.executable, os.path.abspath(script), *arguments])

    def environment(self, count, settings):
        """Nothing of the library is inherited: a run without it is without it. Which NCCL to use is not the library's, nor is
        what the emulator is told."""
        ours = {name for name in os.environ if name.startswith("AIRAMP_") and not name.startswith(NOT_THE_LIBRARYS)}
        mine = {name: value for name, value in os.environ.items() if name not in ours}
        mine.pop("LD_PRELOAD", None)
        if not self.shares_gpu:
            mine.pop("CUDA_MPS_PIPE_DIRECTORY", None)
        mine.update(self.common)
        mine.update(GPU_TEST_RANK="yes", WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1")
        mine.update(MASTER_PORT=str(free_port()), TORCH_NCCL_USE_COMM_NONBLOCKING="0", OMP_NUM_THREADS="1")
        mine.update(NCCL_SOCKET_IFNAME="lo", NCCL_NET="Socket", NCCL_IB_DISABLE="1", GLOO_SOCKET_IFNAME="lo")
        mine.update(PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1")
        mine.setdefault("CUDA_VISIBLE_DEVICES", "0")
        if self.how != "without":
            mine.update(LD_PRELOAD=library_file(), AIRAMP_LOG="info")
        if self.how == "compressed":
            mine.update(AIRAMP_TEST_PLAN="forced", AIRAMP_WIRE_FORMAT="auto", AIRAMP_CONSENSUS_TIMEOUT_MS="30000")
            mine.update(settings)
        if self.how == "tuned":
            mine.update(AIRAMP_ENABLE_FP8_ALLREDUCE="1")
            mine.update(settings)
        return mine

    def start(self, rank, shared, command):
        mine = dict(shared, RANK=str(rank), LOCAL_RANK=str(rank))
        command = [ON_A_CARD, *command]
        if rank in self.bare:
            mine.pop("LD_PRELOAD", None)
        if self.how != "without":
            mine["AIRAMP_LOG_FILE"] = self.file(rank, "log")
        with open(self.file(rank, "err"), "wb") as errors:
            process = subprocess.Popen(
                command, env=mine, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            )
        self.processes.append(process)
        threading.Thread(target=self.listen, args=(rank, process.stdout), daemon=True).start()

    def file(self, rank, kind):
        return os.path.join(self.folder, f"{rank}.{kind}")

    def listen(self, rank, lines):
        for line in lines:
            if line.startswith("{"):
                self.answers[rank].put(json.loads(line))
        self.answers[rank].put(None)

    def ask(self, request, only=None):
        """Sends a request to all ranks, or to one, and returns the answers in their order."""
        asked = range(len(self.processes)) if only is None else [only]
        for rank in asked:
            try:
                self.processes[rank].stdin.write(json.dumps(request) + "\n")
                self.processes[rank].stdin.flush()
            except OSError:
                raise self.failure(rank) from None
        deadline = time.monotonic() + self.limit
        waiting, found = list(asked), {}
        while waiting:
            rank = waiting.pop(0)
            try:
                # Each in turn and briefly: one that has ended must not hide behind one that waits for it.
                answer = self.answers[rank].get(timeout=0.05)
            except queue.Empty:
                if time.monotonic() > deadline:
                    raise self.failure(rank, f"gave no answer in {self.limit} s") from None
                waiting.append(rank)
                continue
            if answer is None:
                raise self.failure(rank)
            found[rank] = answer
        return [found[rank] for rank in asked]

    def lose(self, victim, request, after, patience):
        """Sends a request to all ranks and kills one of them meanwhile: how the others end, and after how long."""
        for process in self.processes:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        time.sleep(after)
        self.processes[victim].kill()
        struck, ends = time.monotonic(), []
        for rank, process in enumerate(self.processes):
            if rank == victim:
                continue
            try:
                status = process.wait(max(0.1, struck + patience - time.monotonic()))
            except subprocess.TimeoutExpired:
                status = "still there"
            ends.append({"rank": rank, "status": status, "seconds": time.monotonic() - struck})
        self.kill()
        return ends

    def failure(self, rank, what=None):
        """Ends all ranks at once, as they may wait for each other; what that one said last."""
        if what is None:
            try:
                what = f"ended with {self.processes[rank].wait(10)}"
            except subprocess.TimeoutExpired:
                what = "closed its output"
        self.kill()
        words = self.last_words(rank) + self.complaints()
        return Ended("\n    ".join([f"rank {rank} of {len(self.processes)}, {self.how}, {what}:", *words]))

    def last_words(self, rank):
        return self.text(rank, "err").strip().splitlines()[-12:]

    def kill(self):
        for process in self.processes:
            process.kill()

    def text(self, rank, kind):
        try:
            with open(self.file(rank, kind), errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def log_lines(self):
        return [line for rank in range(len(self.processes)) for line in self.text(rank, "log").splitlines()]

    def last_error(self, rank):
        """What NCCL or PyTorch said went wrong, in few words."""
        known = ("ncclRemoteError", "ncclSystemError", "ncclInternalError", "ncclUnhandledCudaError", "timeout", "Timeout")
        text = self.text(rank, "err")
        return next((name.lower() if "imeout" in name else name for name in known if name in text), "nothing known")

    def complaints(self):
        """What the library warned of."""
        return [line for line in self.log_lines() if line.startswith(("airamp warn", "airamp error"))]

    def switched_on(self):
        """How many communicators, over all ranks, compress by the library's log."""
        return sum("compression on" in line for line in self.log_lines())

    def close(self):
        """Ends the ranks: by themselves, as stdin ends, or by force."""
        for process in self.processes:
            try:
                process.stdin.close()
            except OSError:
                pass
        deadline = time.monotonic() + 20
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.forced = True
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is not None:
            self.kill()
        self.close()


def serve(rank):
    """The loop of a rank: `rank.answer` turns a request into an answer, `rank.end` is called last."""
    for line in sys.stdin:
        print(json.dumps(rank.answer(json.loads(line))), flush=True)
    rank.end()


def compressed_calls(comm, library=None):
    """How many calls of that ncclComm_t the library compressed; None where it never will. It is preloaded, or `library` is it."""
    try:
        ask = (library or ctypes.CDLL(None)).airampCompressedCalls
    except AttributeError:
        return None
    ask.restype, ask.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64)]
    calls = ctypes.c_uint64()
    return calls.value if ask(comm, ctypes.byref(calls)) == 0 else None


def compressed_by_telemetry():
    """How many calls of this process the preloaded library compressed, by what it tells operators; None without it."""
    library = os.environ.get("LD_PRELOAD")
    if not library:
        return None
    tool = os.path.join(os.path.dirname(library.split(":")[0]), "airamp")
    shown = subprocess.run([tool, "status", "--json"], capture_output=True, env=dict(os.environ, LD_PRELOAD=""))
    jobs = json.loads(shown.stdout)["jobs"] if shown.stdout else []
    mine = [rank for job in jobs for rank in job["ranks"] if rank.get("pid") == os.getpid()]
    return sum(rank["totals"]["compressed_calls"] for rank in mine) if mine else None


def plan_of(comm):
    """What the library does next with each class of calls of that ncclComm_t, a byte for each; None where nothing is agreed
    on. A byte of 0x40 to 0x4f means compressed, of 0x80 and more that the class is being tried."""
    try:
        ask = ctypes.CDLL(None).airampPlan
    except AttributeError:
        return None
    ask.restype = ctypes.c_int
    ask.argtypes = [ctypes.c_void_p, ctypes.c_char * 64, ctypes.POINTER(ctypes.c_uint64)]
    plan, since = (ctypes.c_char * 64)(), ctypes.c_uint64()
    return plan.raw[:48] if ask(comm, plan, ctypes.byref(since)) == 0 else None


def communicator_of(group, device):
    """The ncclComm_t of a process group of PyTorch's; it must have been made."""
    return ctypes.c_void_p(group._get_backend(device)._comm_ptr())
