#!/usr/bin/env python3
"""What telemetry adds to the time of 16 KiB AllReduces of two ranks on the emulator, by the clock and of processor time.

    ./x build && tests/performance/telemetry_cost.py [--rounds 200] [--calls 5000] [--core 1]

Each round runs tests/hazards/small_calls.c three times in a random order, all on one core, where threads do not race for two:
with telemetry, and twice without it. The two runs without it show how far equal runs differ. Nothing else should run.
"""
import argparse
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
WAYS = {"with": {}, "without": {"AIRAMP_TELEMETRY": "0"}, "without, again": {"AIRAMP_TELEMETRY": "0"}}


def main():
    arguments = parse_arguments()
    if not (BUILT / "airamp").exists():
        sys.exit(f"{BUILT} has no airamp: run ./x build first")
    # In memory, as where nobody names a folder.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        emulator = subprocess.check_output([BUILT / "airamp", "emulator", "dir"], text=True).strip()
        program = compile_program(Path(folder), emulator)
        environment = dict(os.environ, LD_LIBRARY_PATH=emulator, LD_PRELOAD=str(BUILT / "libairamp_accel.so"),
                           AIRAMP_EMU_RACECHECK="0", AIRAMP_TELEMETRY_DIR=folder)
        command = ["taskset", "-c", str(arguments.core), program, str(arguments.calls)]
        rounds = []
        for done in range(arguments.rounds):
            if done % 20 == 0:
                print(f"{done} of {arguments.rounds} rounds", file=sys.stderr)
            rounds.append(one_round(command, environment))
    for place, what in enumerate(("by the clock", "of processor time")):
        tell(what, rounds, place)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--calls", type=int, default=5000, help="of each rank in each run")
    parser.add_argument("--core", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.rounds < 2 or arguments.calls < 1:
        parser.error("at least 2 rounds of 1 call")
    return arguments


def compile_program(folder, emulator):
    tests = REPOSITORY / "tests"
    program = folder / "small_calls"
    subprocess.check_call(["cc", "-O2", "-pthread", "-I", tests / "include", tests / "hazards" / "small_calls.c", "-o", program,
                           "-L", emulator, "-l:libnccl.so.2", "-l:libcudart.so.12"])
    return program


def one_round(command, environment):
    """Nanoseconds of a call, by the clock and of processor time, for each way."""
    ways = list(WAYS)
    random.shuffle(ways)
    return {way: [float(number) for number in subprocess.check_output(command, env={**environment, **WAYS[way]}).split()]
            for way in ways}


def tell(what, rounds, place):
    calls = [statistics.median(times[way][place] for times in rounds) for way in WAYS]
    print(f"{what}: " + ", ".join(f"{ns:,.0f} ns {way}" for way, ns in zip(WAYS, calls)))
    logs = [[math.log(times[way][place]) for way in WAYS] for times in rounds]
    compare("with telemetry over the mean of both without", [on - (off + again) / 2 for on, off, again in logs])
    compare("without over without", [again - off for _, off, again in logs])


def compare(what, differences):
    low, median, high = statistics.quantiles(differences, n=4)
    # Of a median, as of a normal distribution.
    error = 1.25 * (high - low) / 1.35 / math.sqrt(len(differences))
    print(f"    {what}: {100 * math.expm1(median):+.2f}%, known to {100 * error:.2f}%")


if __name__ == "__main__":
    main()
