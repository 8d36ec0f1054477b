"""Records the calls of small PyTorch jobs with `airamp record`, for tests/traces/recorded.

    AIRAMP_BIN=… python3 tests/gpu/record.py [--ranks 2] [--parts ddp,fsdp,accumulation,decode,graphs] [--output traces]

The ranks are up for all parts; `airamp record --pid …` watches them while a part runs, and is told to end behind it.
Parts: DDP with buckets of 25 MB; FSDP2 (fully_shard on each layer); DDP that exchanges gradients in every fourth step
only and sums a loss up in each; a loop as of tensor-parallel serving, with a batch that changes and a host that thinks
between tokens; a training step captured whole in a CUDA graph, with a loss summed up live behind each replay.
Writes OUTPUT/PART/rank-N.jsonl (OUTPUT: the argument, else $OUT, else ./traces) and prints a table last.
Exit status: 0 every part was recorded and nothing lost, 1 not so, 77 no GPU. `--device cpu` tries the program without
a GPU: gloo, smaller models, nothing recorded.
"""

import argparse
import json
import os
import select
import signal
import subprocess
import sys
import time

import ranks

PARTS = {
    "ddp": "DDP, buckets of 25 MB",
    "fsdp": "FSDP2, a group per layer",
    "accumulation": "DDP, gradients of every fourth step",
    "decode": "tensor-parallel decoding with a changing batch",
    "graphs": "a training step in a CUDA graph",
}
STEPS = {"ddp": 80, "fsdp": 50, "accumulation": 160, "decode": 300, "graphs": 150}
STEPS_ON_CPU = 8
# All steps of a part, its model and its first steps.
PART_LIMIT = 60


class Recorder:
    """`airamp record` on running ranks. Nothing is recorded where `pids` is empty."""

    def __init__(self, pids, folder, note):
        self.process, self.said = None, []
        if not pids:
            return
        program = os.path.join(os.path.dirname(ranks.library_file()), "airamp")
        chosen = [word for pid in pids for word in ("--pid", str(pid))]
        command = [program, "record", "-o", folder, "--for", str(PART_LIMIT), "--note", note, *chosen]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        # One that says nothing but is there may well record.
        if not self.hears(b"watching") and self.process.poll() is not None:
            raise ranks.Ended(f"airamp record ended with {self.process.returncode}: {self.text()}")
        if b"watching 0 " in b"".join(self.said):
            raise ranks.Ended(f"airamp record sees none of the ranks: {self.text()}")

    def hears(self, word):
        """Waits until it says that, at most ten seconds."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and not any(word in line for line in self.said):
            if select.select([self.process.stderr], [], [], 0.2)[0]:
                part = os.read(self.process.stderr.fileno(), 4096)
                if not part:
                    break
                self.said.append(part)
        return any(word in line for line in self.said)

    def text(self):
        return b"".join(self.said).decode(errors="replace").strip()

    def end(self):
        """What it said last."""
        if self.process is None:
            return "not recorded"
        self.process.send_signal(signal.SIGINT)
        try:
            _, rest = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, rest = self.process.communicate()
        self.said.append(rest)
        return self.text().splitlines()[-1] if self.text() else "nothing said"


def files_of(folder):
    """Calls, seconds and lost calls of each file of a part."""
    found = []
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    for name in (name for name in names if name.endswith(".jsonl")):
        with open(os.path.join(folder, name)) as file:
            head = json.loads(file.readline())
            gaps = [json.loads(line)[0] for line in file]
        path = os.path.join(folder, name)
        seconds = sum(gaps[1:]) / 1e9
        found.append(dict(name=name, calls=len(gaps), seconds=seconds, lost=head["lost"], size=os.path.getsize(path)))
    return found


class Conductor:
    def __init__(self, arguments):
        self.arguments, self.job = arguments, None
        self.cuda = arguments.device == "cuda"

    def ranks(self):
        """The ranks; anew where the last part has ended them."""
        if self.job is None:
            how, options = "passthrough" if self.cuda else "without", ["--device", self.arguments.device]
            self.job = ranks.Ranks(__file__, self.arguments.ranks, how, arguments=options, limit=PART_LIMIT)
        return self.job

    def part(self, name):
        """Records one; what came of it."""
        folder = os.path.join(self.arguments.output, name)
        try:
            job = self.ranks()
            hello = job.ask({"do": "hello"})[0]
            pids = [process.pid for process in job.processes] if self.cuda else []
            note = f"PyTorch {hello['torch']}, {PARTS[name]}, {self.arguments.ranks} ranks on one {hello['device']}"
            recorder = Recorder(pids, folder, note)
            try:
                steps = self.arguments.steps or (STEPS[name] if self.cuda else STEPS_ON_CPU)
                answers = job.ask(dict(do=name, steps=steps))
            finally:
                said = recorder.end()
            return dict(steps=steps, seconds=max(answer["seconds"] for answer in answers), said=said)
        except ranks.Ended as ended:
            self.close()
            return dict(steps=0, seconds=0.0, said=f"FAILED: {ended}")

    def close(self):
        if self.job is not None:
            self.job.close()
            self.job = None

    def conduct(self):
        results = {}
        try:
            for name in self.arguments.parts.split(","):
                results[name] = self.part(name)
                print(f"{name}: {results[name]['said']}", flush=True)
        finally:
            self.close()
        return self.table(results)

    def table(self, results):
        right = True
        columns = (("part", -14), ("steps", 7), ("seconds", 9), ("file", 16), ("calls", 8), ("lost", 6), ("KB", 8))
        print("\n" + "".join(f"{name:<{-width}}" if width < 0 else f"{name:>{width}}" for name, width in columns))
        for name, result in results.items():
            files = files_of(os.path.join(self.arguments.output, name)) if self.cuda else []
            right = right and "FAILED" not in result["said"]
            right = right and (not self.cuda or len(files) == self.arguments.ranks)
            for file in files or [dict(name="none", calls=0, lost=0, size=0)]:
                right = right and file["lost"] == 0
                row = f"{name:<14}{result['steps']:>7}{result['seconds']:>9.1f}{file['name']:>16}"
                print(f"{row}{file['calls']:>8}{file['lost']:>6}{file['size'] / 1000:>8.1f}")
        print("ok" if right else "FAILED: a part was not recorded, or something was lost")
        return right


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--steps", type=int, default=0, help="of each part; 0: as many as it has")
    parser.add_argument("--output", default=os.environ.get("OUT") or "traces")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the script, with gloo")
    arguments = parser.parse_args()
    if ranks.IS_RANK:
        from record_rank import Rank

        ranks.serve(Rank(arguments.device))
        return
    unknown = [name for name in arguments.parts.split(",") if name not in PARTS]
    if unknown:
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if arguments.device == "cuda":
        ranks.require_gpu()
    sys.exit(0 if Conductor(arguments).conduct() else 1)


if __name__ == "__main__":
    main()
