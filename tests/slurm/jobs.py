"""Runs jobs on a cluster of cluster.py, with the very scripts of deploy/slurm and its examples, spoils some of them, and prints what
happened as JSON. The jobs' programs alone are ours: ranks on emulated GPUs, and stand-ins for torchrun and vLLM.
tests/slurm.rs calls it and judges; nothing is left on the machine."""

import argparse
import json
import os
import pathlib
import re
import signal
import sys
import urllib.request

import progress
from cluster import NODES, PATH, Cluster, Files, Job, show_logs
from progress import PATIENCE, step, until

SETTINGS = 'mode = "shadow"\nlog = "info"\nmetrics_addr = "0.0.0.0"\nmetrics_port = 9400\n'
# What docs/slurm.md has one write for whole nodes, and for a part of them.
WHOLE = ["--exclusive", "--mem=0"]
PART = ["--gpus-per-node=2", "--cpus-per-task=16", "--mem=64G"]
# And for a step beside a job's own. That --overlap alone shared processors only was so until 21.08.
BESIDE = ["--overlap", "--mem=0", "--gres=none"]
EMULATED = ["libcuda.so.1", "libcudart.so.12", "libnccl.so.2"]
STAND_INS = ["train", "torchrun", "vllm", "epilog"]


def installed(options):
    """What lies where below /opt: a whole install, one without the daemon, and airamp-srun alone."""
    built, ours = options.artifacts, options.scripts
    for name in ["airamp", "airampd", "airamp-rank"]:
        yield built / name, f"airamp/bin/{name}"
    yield built / "libairamp_accel.so", "airamp/lib/libairamp_accel.so"
    for name in ["airamp-srun", "airamp-node"]:
        yield ours / name, f"airamp/bin/{name}"
        yield ours / name, f"no-daemon/bin/{name}"
    yield built / "airamp", "no-daemon/bin/airamp"
    yield built / "airamp-rank", "no-daemon/bin/airamp-rank"
    yield built / "libairamp_accel.so", "no-daemon/lib/libairamp_accel.so"
    yield ours / "airamp-srun", "alone/bin/airamp-srun"
    yield built / "airamp-rank", "alone/bin/airamp-rank"
    yield ours / "airamp-epilog", "airamp/slurm/airamp-epilog"
    for name in ["tasks", "ddp", "vllm"]:
        yield ours / f"examples/{name}.sbatch", f"examples/{name}.sbatch"
    yield from ((built / "libairamp_emulated_cuda.so", f"emulated/{name}") for name in EMULATED)
    own = pathlib.Path(__file__).resolve().parent
    yield from ((own / name, f"test/{name}") for name in [*STAND_INS, "signals", "bare.sbatch"])


def scrape(node, port):
    try:
        with urllib.request.urlopen(f"http://{node}:{port}/metrics", timeout=PATIENCE) as answer:
            return answer.read().decode()
    except OSError:
        return ""


def ranks(node, port, workload):
    """The ranks of a job whose calls the daemon of a node has counted."""
    lines = [line for line in scrape(node, port).splitlines() if line.startswith("airamp_collective_calls_total{")]
    return sorted({int(re.search(r'rank="(\d+)"', line)[1]) for line in lines if f'workload="{workload}"' in line})


def watched(port, workload, expected):
    """Who is shown where, once all are or patience has run out."""
    until(lambda: all(ranks(node, port, workload) == there for node, there in zip(NODES, expected)))
    return {node: ranks(node, port, workload) for node in NODES}


def started(node, port):
    found = re.search(r"^airampd_start_time_seconds (\S+)", scrape(node, port), re.MULTILINE)
    return found and found[1]


def small(tasks_a_node=1, nodes=2, gpus=0):
    """Options of sbatch that make an example small, and leave room on its nodes for others."""
    return [f"--nodes={nodes}", f"--ntasks-per-node={tasks_a_node}", f"--gpus-per-node={gpus}", "--mem=1G"]


def start(cluster):
    """All at once: nodes are shared."""
    step("the first job begins")
    tasks = ["/opt/examples/tasks.sbatch", ["train"]]
    job = {"tasks": Job(cluster, ["--ntasks-per-node=2", *PART], *tasks, AIRAMP_MODE="on")}
    job["tasks"].runs(4)
    step("the other jobs are submitted")
    job["second"] = Job(cluster, small(), *tasks)
    job["ddp"] = Job(cluster, small(gpus=2), "/opt/examples/ddp.sbatch", ["train"], AIRAMP_METRICS_PORT="9401", AIRAMP_JOB="my-run")
    job["vllm"] = Job(cluster, small(nodes=1, gpus=2), "/opt/examples/vllm.sbatch", ["a-model", "--seed", "1"], AIRAMP_METRICS_PORT="9402")
    job["cancelled"] = Job(cluster, small(), *tasks, AIRAMP_METRICS_PORT="9403")
    job["killed"] = Job(cluster, small(), *tasks, AIRAMP_METRICS_PORT="9404")
    job["no_daemon"] = Job(cluster, small(), *tasks, PATH=f"/opt/no-daemon/bin:{PATH}", AIRAMP_METRICS_PORT="9405")
    job["alone"] = Job(cluster, small(), *tasks, PATH=f"/opt/alone/bin:{PATH}", AIRAMP_METRICS_PORT="9406")
    job["bare"] = Job(cluster, small(), "/opt/test/bare.sbatch", AIRAMP_METRICS_PORT="9407")
    job["signals"] = Job(cluster, small(), "/opt/test/signals", AIRAMP_METRICS_PORT="9408")
    return job


def told(cluster, processes, *words):
    """What they answer to the order, once so many do: one that has not within two seconds is left out."""
    said = []
    until(lambda: said.append(cluster.ask(*words)) or said[-1].count("was told") == processes)
    return said[-1]


def look(cluster, job):
    """What can be seen of the jobs while they run."""
    expected = {"second": 2, "cancelled": 2, "killed": 2, "no_daemon": 2, "alone": 2, "bare": 2, "tasks": 4, "ddp": 4, "vllm": 1}
    for name, count in expected.items():
        step(f"the ranks of {name} run")
        job[name].runs(count)
    number = job["tasks"].number
    inside = ["srun", f"--jobid={number}", *BESIDE, "--nodes=1", "--ntasks=1", "--nodelist=n1", "airamp"]
    step("the daemons show the ranks")
    seen = {
        "tasks": watched(9400, number, [[0, 1], [2, 3]]),
        "second": watched(9400, job["second"].number, [[0], [1]]),
        "ddp": watched(9401, "my-run", [[0, 1], [2, 3]]),
        "vllm": watched(9402, job["vllm"].number, [[0], []])["n1"],
        "metrics": [line for line in scrape("n1", 9400).splitlines() if f'workload="{number}"' in line and "_info{" in line],
    }
    step("status and an order in a job")
    return seen | {
        "status": cluster.ask(*inside, "status", "--once"),
        "disable": told(cluster, 2, *inside, "disable", "--job", number),
    }


def spoil(cluster, job):
    """Signals and faults, and what becomes of daemons and jobs."""
    report = {}
    tasks = job["tasks"]
    step("a signal to a job")
    first = started("n1", 9400)
    cluster.ask("scancel", "--signal=USR1", tasks.number)
    until(lambda: tasks.log().count("heard USR1") == 4)
    report["signalled"] = {"heard": tasks.log().count("heard USR1"), "same_daemon": started("n1", 9400) == first is not None}

    step("a daemon is killed")
    before = started("n2", 9400)
    cluster.nodes[1].kill("airampd", tasks.number)
    report["daemon_killed"] = {"back": until(lambda: started("n2", 9400) not in (None, before)), "job_runs": not tasks.is_over()}

    step("a job is cancelled")
    cluster.ask("scancel", job["cancelled"].number)
    report["cancelled"] = job["cancelled"].end()

    step("all of a job is killed on a node")
    for name in ["airamp-node", "airampd", "train", "airamp-rank"]:
        cluster.nodes[1].kill(name, job["killed"].number)
    report["killed"] = job["killed"].end()
    report["attached"] = attach(cluster, job["bare"])

    step("the first job ends and another daemon takes its port")
    tasks.enough()
    report["tasks"] = tasks.end()
    # The daemon of the job that has just ended held the port.
    report["taken_over"] = watched(9400, job["second"].number, [[0], [1]])
    return report


def attach(cluster, job):
    """Daemons for a job that has none, from outside: away again, and once more until the job is cancelled."""
    step("daemons are attached to a job")
    line = ["srun", f"--jobid={job.number}", *BESIDE, "--nodes=2", "--ntasks-per-node=1", "airamp-node"]
    before = ranks("n1", 9407, job.number)
    daemons = cluster.begin(*line, AIRAMP_METRICS_PORT="9407")
    seen = watched(9407, job.number, [[0], [1]])
    step("attached daemons are taken away")
    until(lambda: ended_by_interrupts(daemons))
    gone = until(lambda: not scrape("n1", 9407) and not scrape("n2", 9407))
    runs = not job.is_over()
    step("daemons are attached again and the job is cancelled")
    daemons = cluster.begin(*line, AIRAMP_METRICS_PORT="9407")
    again = watched(9407, job.number, [[0], [1]])
    cluster.ask("scancel", job.number)
    daemons.communicate(timeout=PATIENCE)
    return {"before": before, "seen": seen, "gone": gone, "job_runs": runs, "again": again}


def ended_by_interrupts(process):
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    return process.poll() is not None


def whole(cluster):
    """The examples with the options that they have themselves, one after the other: each takes its nodes for itself."""
    tasks = Job(cluster, WHOLE, "/opt/examples/tasks.sbatch", ["train"])
    vllm = Job(cluster, WHOLE, "/opt/examples/vllm.sbatch", ["a-model", "--seed", "1"])
    ends = {}
    for name, job, count in [("whole_tasks", tasks, 16), ("whole_vllm", vllm, 1)]:
        step(f"the ranks of {name} run")
        job.runs(count)
        job.enough()
        ends[name] = job.end()
    return ends


def finish(job):
    codes = {"alone": 3}
    names = ["second", "ddp", "vllm", "no_daemon", "alone"]
    for name in names:
        job[name].enough(codes.get(name, 0))
    ends = {}
    for name in [*names, "bare", "signals"]:
        step(f"the end of {name}")
        ends[name] = job[name].end()
    return ends


def run(cluster):
    job = start(cluster)
    report = {"numbers": {name: one.number for name, one in job.items()}, "seen": look(cluster, job)}
    report |= spoil(cluster, job)
    report |= finish(job)
    report |= whole(cluster)
    step("nothing is left on the nodes")
    # The last epilogs run after the jobs have left the queue.
    until(lambda: not any(any(node.left().values()) for node in cluster.nodes))
    report["left"] = {node.name: node.left() for node in cluster.nodes}
    return report | {"waited_in_vain": progress.waited_in_vain}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--artifacts", type=pathlib.Path, required=True, help="what cargo has built")
    parser.add_argument("--scripts", type=pathlib.Path, required=True, help="deploy/slurm")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="an empty folder")
    parser.add_argument("--inside", action="store_true")
    options = parser.parse_args()
    if not options.inside:
        apart = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp(apart[0], [*apart, sys.executable, __file__, "--inside", *sys.argv[1:]])
    step("folders are made")
    files = Files(options.work, installed(options), SETTINGS)
    files.take_effect()
    try:
        print(json.dumps(run(Cluster()), indent=1))
    except BaseException:
        show_logs()
        raise


if __name__ == "__main__":
    main()
