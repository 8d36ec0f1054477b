#!/usr/bin/env python3
"""AllReduce over several ranks of each of two hosts on the emulator: the vendor's, the two-shot and the three-shot.

    ./x build && tests/performance/several_gpus_per_node.py [--per-host 2] [--rate 1gbit] [--sizes 4194304,16777216]

Each host is a network namespace; a virtual cable, shaped by tc at both ends, joins them, and ranks of one host talk over its
loopback, which is not shaped. All ways take turns in one job, so that they meet the same machine; of each call the time
of the rank that came last counts, as in `airamp bench`. Needs root, ip and tc. Nothing else should run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "release"
HOSTS = [f"airamp-{os.getpid()}-{side}" for side in "ab"]
ADDRESSES = ["10.123.48.1", "10.123.48.2"]
CABLE = "eth0"


def main():
    arguments = parse_arguments()
    if not (BUILT / "airamp-rank").exists():
        sys.exit(f"{BUILT} has no airamp-rank: run ./x build first")
    try:
        join_hosts(arguments.rate)
        show(arguments, run_job(arguments))
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "del", host], check=False, stderr=subprocess.DEVNULL)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--per-host", type=int, default=2)
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--sizes", default="4194304,16777216")
    parser.add_argument("--datatypes", default="float32,bfloat16")
    parser.add_argument("--iterations", default="11")
    return parser.parse_args()


def join_hosts(rate):
    def ip(*words):
        subprocess.run(["ip", *words], check=True)

    for host in HOSTS:
        ip("netns", "add", host)
    ip("-n", HOSTS[0], "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", HOSTS[1])
    for host, address in zip(HOSTS, ADDRESSES):
        ip("-n", host, "addr", "add", f"{address}/24", "dev", CABLE)
        ip("-n", host, "link", "set", CABLE, "up")
        ip("-n", host, "link", "set", "lo", "up")
        shape = ["root", "tbf", "rate", rate, "burst", "256kb", "latency", "200ms"]
        ip("netns", "exec", host, "tc", "qdisc", "add", "dev", CABLE, *shape)


def run_job(arguments):
    """The results of all ranks."""
    ranks = 2 * arguments.per_host
    emulator = subprocess.check_output([BUILT / "airamp", "emulator", "dir"], text=True).strip()
    common = dict(os.environ, LD_LIBRARY_PATH=emulator, AIRAMP_EMU_RACECHECK="0", WORLD_SIZE=str(ranks),
                  MASTER_ADDR=ADDRESSES[0], MASTER_PORT="29556", AIRAMP_RANKS_PER_NODE=str(arguments.per_host))
    command = [BUILT / "airamp-rank", "bench", "--all-shapes", "--sizes", arguments.sizes,
               "--datatypes", arguments.datatypes, "--iterations", arguments.iterations]
    started = []
    for rank in range(ranks):
        host, place = divmod(rank, arguments.per_host)
        environment = dict(common, RANK=str(rank), LOCAL_RANK=str(place))
        started.append(subprocess.Popen(["ip", "netns", "exec", HOSTS[host], *command], env=environment,
                                        stdout=subprocess.PIPE, text=True))
    results = []
    for process in started:
        output = process.communicate(timeout=1800)[0]
        if process.returncode != 0:
            sys.exit(f"a rank ended with {process.returncode}")
        lines = map(json.loads, output.splitlines())
        results += [line for line in lines if line["event"] == "result"]
    return results


def show(arguments, results):
    tensors = {}
    for line in results:
        ways = tensors.setdefault((line["datatype"], line["bytes"]), {})
        ways.setdefault(line["contender"], []).append(line)
    print(f"2 hosts of {arguments.per_host} ranks, {arguments.rate} between them; medians of {arguments.iterations} calls")
    print("| tensor | way | ms | gain | vNMSE |\n|---|---|---|---|---|")
    for (datatype, size), ways in tensors.items():
        taken = {way: median_ms(lines) for way, lines in ways.items()}
        for way, lines in ways.items():
            if way.startswith("vendor_"):
                continue
            if len({line["digest"] for line in lines}) != 1:
                sys.exit(f"{way}: the ranks hold different bits")
            gain, error = taken["vendor"] / taken[way], lines[0]["vnmse"]
            print(f"| {datatype} {size >> 20} MiB | {way} | {taken[way]:.1f} | {gain:.2f}x | {error:.1e} |")


def median_ms(lines):
    """Of each call the rank that waited least for the others."""
    return statistics.median(min(call) for call in zip(*(line["times_us"] for line in lines))) / 1e3


if __name__ == "__main__":
    main()
