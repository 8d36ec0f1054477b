"""The cells of grid.py whose calls take seconds or minutes: the library decides after some two dozen of them, and nobody waits for that here.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/grid_long.py --after grid.json [--wires 40gbit,10gbit,1gbit] [--seconds 500]

Whatever the library would decide, such a call is then NCCL's own or a compressed one. So the compressed one is measured, from the
first call on, in its usual shape (AIRAMP_TEST_PLAN), beside a job without the library: where it is not slower, no decision is. A job has a network
namespace of its own, and with it a loopback of its own, shaped when its ranks are connected; jobs run side by side as long as their ranks
are at most 36 and their links at most 24 Gbit/s together, which is little for loopback. Each cell is one call of
each job behind a small one, two where they take less than 6 s. Measured is what --after FILE, a result of grid.py or of
report.py, has missed; the result, grid.json, holds both. Needs root, tc, a GPU and MPS. Exit status: 0, 1, 77 no GPU.
"""

import ctypes
import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time

import grid
import loopback
import ranks
import suite_part

MOST_RANKS, MOST_BITS, MOST_SECONDS = 36, 24e9, 400
TWICE_BELOW = 6.0
NAME = "long"
CLONE_NEWNET, SIOCSIFFLAGS, IFF_UP = 0x40000000, 0x8914, 1
# As an entry of the library's plan would be: compressed, in the first of its shapes.
COMPRESSED = 0x40


def own_loopback():
    """A network namespace of this process and its children, whose loopback is up."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise SystemExit(f"grid_long.py: no network namespace: {os.strerror(ctypes.get_errno())}")
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


class Job:
    """One way to call, of so many ranks over one link: its cells, one after the other, by a process of its own."""

    def __init__(self, how, wire, count, cells):
        self.how, self.wire, self.count, self.cells = how, wire, count, cells
        self.found, self.process, self.thread = {}, None, None

    def bits(self):
        return grid.BITS[self.wire]

    def seconds(self):
        """What it takes for all of it, about."""
        nccl = sum(turns_of(self.wire, self.count, size) * grid.estimate(self.bits(), self.count, size) for size, _ in self.cells)
        return nccl if self.how == "without" else nccl / 2

    def start(self):
        work = json.dumps([self.how, self.wire, self.count, self.cells])
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--job", work], stdout=subprocess.PIPE, text=True)
        self.thread = threading.Thread(target=self.listen)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.found[answer["bytes"], answer["datatype"]] = answer
        self.process.wait()

    def is_over(self):
        return not self.thread.is_alive()


def turns_of(wire, count, size):
    return 2 if grid.estimate(grid.BITS[wire], count, size) < TWICE_BELOW else 1


def run_job(how, wire, count, cells):
    own_loopback()
    with ranks.Ranks(__file__, count, how, limit=MOST_SECONDS, common=ranks.WIRE) as job:
        unique = job.ask({"do": "id"}, only=0)[0]["id"]
        job.ask({"do": "make", "name": NAME, "id": unique})
        # What is set up at a first call is none of the cell's, and connecting through a shaped link may fail.
        for datatype in {datatype for _, datatype in cells}:
            job.ask({"do": "time", "name": NAME, "size": 4 << 20, "datatype": datatype, "calls": 2})
        with loopback.Shaped(wire):
            for size, datatype in cells:
                request = {"do": "time", "name": NAME, "size": size, "datatype": datatype, "calls": 1}
                before = counted(job.ask(dict(request, size=4096)))
                answers = [job.ask(request) for _ in range(turns_of(wire, count, size))]
                seconds = [min(answer["seconds"] for answer in turn) for turn in answers]
                compressed = counted(answers[-1]) - before
                print(json.dumps({"bytes": size, "datatype": datatype, "seconds": seconds, "compressed": compressed}), flush=True)


def counted(answers):
    return answers[0]["compressed"] or 0


def jobs_of(missed):
    """Two jobs for each link and number of ranks; a cell that takes long has jobs of its own."""
    rows = {}
    for cell in missed:
        long = grid.estimate(grid.BITS[cell["wire"]], cell["ranks"], cell["bytes"]) > 30
        row = cell["wire"], cell["ranks"], cell["datatype"] if long else None
        rows.setdefault(row, []).append((cell["bytes"], cell["datatype"]))
    made = [Job(how, wire, count, cells) for (wire, count, _), cells in rows.items() for how in ("without", "compressed")]
    return sorted(made, key=Job.seconds, reverse=True)


def run(part, waiting):
    """The longest first, each as soon as there is room beside those under way."""
    running, done = [], []
    while (waiting or running) and part.left() > 5:
        for job in [job for job in running if job.is_over()]:
            running.remove(job)
            done.append(job)
            part.say(f"{job.how}, {job.wire}, {job.count} ranks: {len(job.found)} of {len(job.cells)} cells")
        for job in list(waiting):
            taken, bits = sum(other.count for other in running), sum(other.bits() for other in running)
            if not running or (taken + job.count <= MOST_RANKS and bits + job.bits() <= MOST_BITS):
                waiting.remove(job)
                job.start()
                running.append(job)
        time.sleep(0.2)
    for job in running:
        job.process.terminate()
    return done + running


def cells_from(done):
    """What both jobs of a cell measured."""
    halves = {}
    for job in done:
        for (size, datatype), answer in job.found.items():
            halves.setdefault((job.wire, job.count, size, datatype), {})[job.how] = answer
    for (wire, count, size, datatype), half in halves.items():
        if len(half) == 2 and half["compressed"]["compressed"] > 0:
            turns = {"without": half["without"]["seconds"], "tuned": half["compressed"]["seconds"]}
            ratio = suite_part.median(turns["without"]) / suite_part.median(turns["tuned"])
            cell = {"wire": wire, "ranks": count, "bytes": size, "datatype": datatype, "ratio": ratio, "turns": turns}
            yield dict(cell, entry=COMPRESSED, again=0, decided=True, forced=True)


def conduct(arguments):
    earlier, missed = grid.earlier(arguments)
    part = suite_part.Part("grid", arguments)
    part.put(cells=list(earlier.values()), missed=list(missed.values()), after=arguments.after)
    wires = arguments.wires.split(",")
    wanted = [cell for where, cell in missed.items() if cell["wire"] in wires and where not in earlier]
    jobs = jobs_of(wanted)
    part.say(f"{len(wanted)} cells, {len(jobs)} jobs, the longest about {max([job.seconds() for job in jobs], default=0):.0f} s")
    done = run(part, list(jobs))
    for cell in sorted(cells_from(done), key=grid.place):
        earlier[grid.key(cell)] = cell
        both = [suite_part.median(cell["turns"][how]) for how in ("without", "tuned")]
        where = f"{cell['wire']}, {cell['ranks']} ranks, {cell['datatype']}, {cell['bytes'] >> 20} MiB"
        part.say(f"{where}: {both[0]:.2f} s without, {both[1]:.2f} s compressed: {cell['ratio']:.3f}")
    return grid.judge(part, list(earlier.values()), missed)


def main():
    if ranks.IS_RANK:
        from grid_rank import Rank

        ranks.serve(Rank())
        return
    if sys.argv[1:2] == ["--job"]:
        run_job(*json.loads(sys.argv[2]))
        return
    parser = suite_part.parser_of(__doc__, 500)
    parser.add_argument("--after", metavar="FILE", required=True, help="grid.json, or a report's JSON, with the cells that were missed")
    parser.add_argument("--wires", default="40gbit,10gbit,1gbit", help="rates of which cells are measured")
    arguments = parser.parse_args()
    ranks.require_gpu()
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
