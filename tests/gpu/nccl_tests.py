"""nccl-tests under the library: every program, all operations and datatypes, without and with LD_PRELOAD.

    AIRAMP_BIN=… tests/gpu/with_mps python3 tests/gpu/nccl_tests.py --dir FOLDER [--ranks 2] [--seconds 110]

FOLDER is a source tree of nccl-tests (Makefile, src/, verifiable/) that the user names; nothing of it is here. It is built there
with MPI, which several ranks on one card need (mpicc and mpirun; CUDA_HOME and NCCL_HOME as make takes them). Each rank has its
own NCCL_HOSTID. Exit status: 0, 1, 77 no GPU, no MPI or nothing built.

passthrough  every program with its own check of every result, several programs at a time: -o all -d all from 8 B to 8 MiB by
             factors of 1,024, then float sums of 1 GiB. Nothing may be wrong.
compressed   all_reduce_perf, float, 1 to 256 MiB, beside bare NCCL; compression switched on by the plan for tests
             (AIRAMP_TEST_PLAN), since the program's warm-up calls are of two sizes only. Without its check (-c 0): results are
             lossy, and it wants exact bits.
times        all_reduce_perf without the library, passed through, and passed through without telemetry, in rounds whose order
             changes, as many as the time allows: the ratio of medians by size, and how far runs lie apart by themselves.
"""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import ranks
import suite_part
from suite_part import median

PROGRAMS = "all_reduce all_gather alltoall alltoallv broadcast gather scatter reduce reduce_scatter sendrecv hypercube".split()
# Programs of the sweep that run side by side: nothing is timed there.
AT_ONCE = 4
# Long runs of one program, so that a run's mean is steady; runs differ more than calls do.
TIMED = {"small": "-b 8 -e 256K -f 32 -n 1500 -w 100 -c 0 -d float", "large": "-b 1M -e 16M -f 4 -n 40 -w 5 -c 0 -d float"}
OBSERVE = {"AIRAMP_MODE": "observe"}
WAYS = {"without": None, "observe": OBSERVE, "observe, no telemetry": dict(OBSERVE, AIRAMP_TELEMETRY="0")}


def build(part, folder):
    """The programs by name; built if they are not there."""

    def built():
        files = [*glob.glob(os.path.join(folder, "build", "*_perf")), *glob.glob(os.path.join(folder, "build", "*_perf_mpi"))]
        return {os.path.basename(file).split("_perf")[0]: file for file in sorted(files)}

    marker = os.path.join(folder, "build", "built-with-mpi")
    if os.path.exists(marker) and built():
        return built()
    command = ["make", "-C", folder, f"-j{os.cpu_count()}", "MPI=1", f"MPI_HOME={mpi_home()}"]
    command.append(f"CUDA_HOME={os.environ.get('CUDA_HOME', '/usr/local/cuda')}")
    if os.environ.get("NCCL_HOME"):
        command.append(f"NCCL_HOME={os.environ['NCCL_HOME']}")
    command.append(f"NVCC_GENCODE=-gencode=arch=compute_{capability()},code=sm_{capability()}")
    part.say(" ".join(command))
    made = subprocess.run(command, capture_output=True, text=True, timeout=max(30, part.left()))
    if made.returncode != 0:
        part.say("make failed: " + (made.stdout + made.stderr)[-2500:])
    elif built():
        with open(marker, "w"):
            pass
    return built()


def mpi_home():
    """The folder above mpicc's include folder, which the Makefile wants as MPI_HOME/include and MPI_HOME/lib."""
    shown = subprocess.run(["mpicc", "--showme:incdirs"], capture_output=True, text=True).stdout.split()
    for folder in shown:
        if os.path.exists(os.path.join(folder, "mpi.h")):
            return os.path.dirname(folder.rstrip("/"))
    return "/usr/lib/x86_64-linux-gnu/openmpi"


def capability():
    """Of the first card, as nvcc takes it; only that one is compiled for."""
    asked = subprocess.run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], capture_output=True, text=True)
    return asked.stdout.split()[0].replace(".", "") if asked.returncode == 0 and asked.stdout.split() else "90"


class Runs:
    """Starts a program of nccl-tests on all ranks and reads its table."""

    def __init__(self, count, part):
        self.count, self.part = count, part
        self.folder = tempfile.mkdtemp(prefix="airamp-nccl-tests-", dir="/tmp")
        self.library = ranks.library_file()
        # mpirun has one environment for all ranks; each needs a host id of its own, and the library only here.
        self.wrapper = os.path.join(self.folder, "rank")
        with open(self.wrapper, "w") as file:
            file.write('#!/bin/sh\nNCCL_HOSTID="airamp-rank-$OMPI_COMM_WORLD_RANK"; export NCCL_HOSTID\n')
            file.write('[ -z "$NCCL_TESTS_PRELOAD" ] || { LD_PRELOAD=$NCCL_TESTS_PRELOAD; export LD_PRELOAD; }\nexec "$@"\n')
        os.chmod(self.wrapper, 0o755)

    def environment(self, settings):
        mine = {name: value for name, value in os.environ.items() if not name.startswith("AIRAMP_") and name != "LD_PRELOAD"}
        mine.update(NCCL_SOCKET_IFNAME="lo", NCCL_NET="Socket", NCCL_IB_DISABLE="1", NCCL_TESTS_DEVICE="0")
        mine.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_btl="self,tcp")
        mine.update(OMPI_MCA_btl_tcp_if_include="lo", OMPI_MCA_oob_tcp_if_include="lo", OMPI_MCA_plm="isolated")
        # OpenMPI must not touch the device; and its folders must have short names.
        mine.update(OMPI_MCA_pml="ob1", OMPI_MCA_rmaps_base_oversubscribe="1", TMPDIR="/tmp")
        mine.setdefault("CUDA_VISIBLE_DEVICES", "0")
        if settings is not None:
            mine.update(settings, NCCL_TESTS_PRELOAD=self.library)
        return mine

    def run(self, program, options, settings=None, limit=60):
        """Rows of (bytes, type, operation, us out of place, us in place, wrong), and why there are none."""
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np", str(self.count), self.wrapper, program, *options]
        try:
            done = subprocess.run(
                command, env=self.environment(settings), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                timeout=max(3, min(limit, self.part.left())),
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b"").decode(errors="replace") if isinstance(late.stdout, bytes) else late.stdout or ""
            return rows_of(text), "not done in time"
        why = None if done.returncode == 0 else f"ended with {done.returncode}: {(done.stdout + done.stderr)[-700:]}"
        return rows_of(done.stdout), why

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def number(text):
    try:
        return float(text)
    except ValueError:
        return None


def rows_of(text):
    """The lines of a table: size, count, type, operation or nothing, root, then time, algbw, busbw, wrong, twice."""
    rows = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) < 12 or not (cells[0].isdigit() and cells[1].isdigit()):
            continue
        times, kind = cells[-8:], cells[2:-9]
        # N/A, or less than nothing, where a way is not checked.
        counts = [value for value in map(number, (times[3], times[7])) if value is not None and value >= 0]
        rows.append({
            "bytes": int(cells[0]), "type": kind[0], "op": kind[1] if len(kind) > 1 else "none", "us": number(times[0]),
            "in_place_us": number(times[4]), "busbw": number(times[2]), "wrong": int(sum(counts)), "checked": bool(counts),
        })  # fmt: skip
    return rows


def sweep(part, runs, programs):
    """All operations and datatypes with the library passing through, then one large size: wrong results by program."""
    found, kinds = (
        {},
        {"all": "-b 8 -e 8M -f 1024 -o all -d all -n 1 -w 0 -c 1", "1 GiB": "-b 1G -e 1G -o sum -d float -n 1 -w 0 -c 1"},
    )
    for kind, options in kinds.items():
        with ThreadPoolExecutor(AT_ONCE) as pool:
            started = {name: pool.submit(runs.run, file, options.split(), OBSERVE, 45) for name, file in programs.items()}
            for name, one in started.items():
                rows, why = one.result()
                wrong, checked = sum(row["wrong"] for row in rows), sum(row["checked"] for row in rows)
                pairs = len({(row["type"], row["op"]) for row in rows})
                found.setdefault(name, {})[kind] = {
                    "rows": len(rows),
                    "checked": checked,
                    "wrong": wrong,
                    "kinds": pairs,
                    "why": why,
                }
                part.put(passthrough=found)
                late = why == "not done in time"
                holds = None if late and wrong == 0 else wrong == 0 and bool(rows) and why is None
                text = f"{wrong} wrong in {checked} checked rows, {pairs} pairs of datatype and operation"
                part.check(f"{name}, {kind}: nothing wrong, passed through", holds, text + (f"; {why}" if why else ""))


def times(part, runs, program):
    """all_reduce_perf without the library and with it passing through, in rounds whose order changes, as many as fit."""
    turns, longest, number = {kind: {way: [] for way in WAYS} for kind in TIMED}, 0.0, 0
    # Calls of microseconds feel the library most.
    for kind in ("small", "small", "large", *["small", "large", "small"] * 20):
        ways = list(WAYS)[number % len(WAYS) :] + list(WAYS)[: number % len(WAYS)]
        number += 1
        if part.left() < 1.1 * longest + 1:
            break
        before = part.left()
        for way in ways:
            rows, why = runs.run(program, TIMED[kind].split(), WAYS[way], limit=25)
            if rows and why is None:
                turns[kind][way].append({row["bytes"]: row["us"] for row in rows})
            else:
                part.say(f"{kind}, {way}: {why}")
        longest = max(longest, before - part.left())
        part.put(turns=turns)
    judge_times(part, turns)


def judge_times(part, turns):
    """Per size the ratio of medians, and how far the runs without the library lie apart by themselves."""
    found, ratios, apart = {}, {way: [] for way in WAYS}, []
    for kind, ways in turns.items():
        for size in sorted({size for turn in ways["without"] for size in turn}):
            us = {way: [turn[size] for turn in of if turn.get(size)] for way, of in ways.items()}
            if not all(us.values()):
                continue
            bare = median(us["without"])
            spread = (max(us["without"]) - min(us["without"])) / bare
            found[size] = {"kind": kind, "us": us, "ratio": {way: bare / median(of) for way, of in us.items()}, "spread": spread}
            apart.append(spread)
            for way in WAYS:
                ratios[way].append(found[size]["ratio"][way])
            shown = ", ".join(f"{way} {median(of):.1f} us ({bare / median(of):.3f})" for way, of in us.items())
            part.say(f"{size} bytes: {shown}; {len(us['without'])} runs without lie {100 * spread:.1f}% apart")
    part.put(times=found)
    if not found:
        part.check("passed through, time within noise of bare", None, "no time")
        return
    text = "; ".join(
        f"{way}: median {median(of):.3f}, {min(of):.3f} to {max(of):.3f} by size"
        for way, of in ratios.items()
        if way != "without"
    )
    noise = max(0.02, median(apart))
    part.check(
        "passed through, time within noise of bare",
        median(ratios["observe"]) >= 1 - noise,
        f"{text}; runs without lie {100 * median(apart):.1f}% apart",
    )


def compressed(part, runs, program):
    """Bandwidth beside bare NCCL, size by size."""
    tables = {}
    options = "-b 1M -e 256M -f 4 -n 8 -w 3 -c 0 -d float -o sum".split()
    forced = {"AIRAMP_TEST_PLAN": "forced", "AIRAMP_CONSENSUS_TIMEOUT_MS": "30000"}
    for how, settings in (("without", None), ("with", forced)):
        tables[how], why = runs.run(program, options, settings, limit=30)
        if why:
            part.say(f"compressed, {how}: {why}")
    part.put(compressed=tables)
    bare = {row["bytes"]: row for row in tables["without"]}
    print(
        f"\nall_reduce_perf, float, sum, without its check\n{'bytes':>12}{'NCCL, us':>12}{'with, us':>12}{'busbw':>9}{'busbw':>9}{'ratio':>8}"
    )
    ratios = []
    for row in tables["with"]:
        other = bare.get(row["bytes"])
        if other and row["us"] and other["us"]:
            ratios.append(other["us"] / row["us"])
            print(
                f"{row['bytes']:>12}{other['us']:>12.0f}{row['us']:>12.0f}{other['busbw']:>9.2f}{row['busbw']:>9.2f}{ratios[-1]:>8.2f}",
                flush=True,
            )
    text = f"{len(ratios)} sizes, {min(ratios):.2f} to {max(ratios):.2f} times as fast" if ratios else "no time, or no table"
    part.check("compressed: all_reduce_perf beside bare NCCL", (max(ratios) > 1) if ratios else None, text)


def conduct(arguments):
    wanted = arguments.parts.split(",")
    part = suite_part.Part("nccl-tests" if "sweep" in wanted and not arguments.programs else "nccl-tests-more", arguments)
    part.put(ranks=arguments.ranks)
    programs = build(part, arguments.dir)
    missing = [name for name in PROGRAMS if name not in programs]
    if not programs:
        part.check("nccl-tests is built", None, f"no program in {arguments.dir}/build")
        part.end()
        return ranks.NO_GPU
    part.say(f"built: {', '.join(programs)}" + (f"; not there: {', '.join(missing)}" if missing else ""))
    everything = programs
    if arguments.programs:
        programs = {name: programs[name] for name in arguments.programs.split(",") if name in programs}
    if part.name.endswith("more"):
        part.put(supersedes=["passed through, time"] if "times" in wanted else [])
    runs = Runs(arguments.ranks, part)
    try:
        if "sweep" in wanted:
            sweep(part, runs, programs)
        if "compressed" in wanted and "all_reduce" in everything:
            compressed(part, runs, everything["all_reduce"])
        if "times" in wanted and "all_reduce" in everything:
            times(part, runs, everything["all_reduce"])
    finally:
        runs.close()
    return part.end()


def main():
    parser = suite_part.parser_of(__doc__, 110)
    parser.add_argument("--dir", required=True, help="the source tree of nccl-tests")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--parts", default="sweep,compressed,times")
    parser.add_argument("--programs", default="", help="only these in the sweep, as hypercube,sendrecv")
    arguments = parser.parse_args()
    ranks.require_gpu()
    for tool in ("mpirun", "mpicc", "make"):
        if not shutil.which(tool):
            print(f"skipped: {tool} is missing", file=sys.stderr)
            sys.exit(ranks.NO_GPU)
    sys.exit(conduct(arguments))


if __name__ == "__main__":
    main()
