"""A Slurm cluster of two nodes on one machine: Debian's slurmctld, slurmd and munged, with /etc, /var, /run, /tmp, /opt and /home of
their own. Each node has its own network, host name, processes and shared memory. Needs root and util-linux; it is all gone with
the first process. jobs.py runs jobs on it."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from progress import PATIENCE, step, until

NODES = ["n1", "n2"]
USER, UID = "trainer", 4242
SLURMD_PORT = 6818
PATH = "/opt/test:/usr/local/bin:/usr/bin:/bin"
FROM_ETC = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "nsswitch.conf", "localtime", "protocols", "services"]
OWN_FOLDERS = ["opt", "etc", "home", "run", "tmp", "var"]
CONF = """
ClusterName=emulated
SlurmctldHost=head(10.77.0.100)
AuthType=auth/munge
SlurmUser=root
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/srv/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd-%n.log
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/srv/spool
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
DefMemPerCPU=100
SlurmdParameters=config_overrides
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1
ReturnToService=2
MessageTimeout=60
KillWait=20
MinJobAge=300
CompleteWait=0
Epilog=/opt/test/epilog
NodeName=n1 NodeAddr=10.77.0.1 CPUs=64 RealMemory=128000 Gres=gpu:8
NodeName=n2 NodeAddr=10.77.0.2 CPUs=64 RealMemory=128000 Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES MaxTime=10
"""

# Slurm counts GPUs by their device files; any will do.
GPUS = "".join(f"Name=gpu File=/etc/slurm/gpu{number}\n" for number in range(8))


def call(*words):
    subprocess.run([str(word) for word in words], check=True)


def is_meant(process, namespace, name, job):
    try:
        there = os.readlink(process / "ns/pid") == namespace and (process / "comm").read_text().strip() == name
        return there and f"SLURM_JOB_ID={job}\0" in (process / "environ").read_text()
    except OSError:
        # It has ended meanwhile.
        return False


class Files:
    """What the machine's own folders are replaced by, built in an empty folder first."""

    def __init__(self, work, installed, settings):
        self.root = work
        call("mount", "-t", "tmpfs", "-o", "mode=0755", "none", work)
        for name in OWN_FOLDERS:
            (work / name).mkdir()
        (work / "tmp").chmod(0o1777)
        self.etc(settings)
        self.opt(installed)
        for name, owner, mode in [
            ("home/trainer", UID, 0o755),
            ("run/munge", "munge", 0o755),
            ("var/lib/munge", "munge", 0o711),
            ("var/log/munge", "munge", 0o700),
            ("var/spool/slurmctld", 0, 0o755),
            ("var/tmp", 0, 0o1777),
        ]:
            (work / name).mkdir(parents=True, exist_ok=True)
            shutil.chown(work / name, owner)
            (work / name).chmod(mode)

    def etc(self, settings):
        etc = self.root / "etc"
        for name in FROM_ETC:
            if os.path.lexists(f"/etc/{name}"):
                call("cp", "-a", f"/etc/{name}", etc)
        accounts = {name: pathlib.Path("/etc", name).read_text().splitlines() for name in ["passwd", "group"]}
        for name, last in [("passwd", f"{USER}:x:{UID}:{UID}::/home/trainer:/bin/sh"), ("group", f"{USER}:x:{UID}:")]:
            known = [line for line in accounts[name] if line.split(":")[0] in ("root", "munge", "slurm", "nogroup")]
            (etc / name).write_text("\n".join([*known, last, ""]))
        (etc / "hosts").write_text("127.0.0.1 localhost\n10.77.0.100 head\n10.77.0.1 n1\n10.77.0.2 n2\n")
        (etc / "slurm").mkdir()
        (etc / "slurm/slurm.conf").write_text(CONF)
        (etc / "slurm/gres.conf").write_text(GPUS)
        for number in range(8):
            (etc / f"slurm/gpu{number}").touch()
        (etc / "munge").mkdir(mode=0o700)
        (etc / "munge/munge.key").write_bytes(os.urandom(128))
        (etc / "munge/munge.key").chmod(0o600)
        for name in ["munge", "munge/munge.key"]:
            shutil.chown(etc / name, "munge")
        (etc / "airamp.conf").write_text(settings)

    def opt(self, installed):
        """Each file of the release where it would be installed."""
        for source, target in installed:
            place = self.root / "opt" / target
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
            call("mount", "--bind", source, place)

    def take_effect(self):
        # The folder that these lie in comes last: from then on they cannot be seen under their own names.
        for name in sorted(OWN_FOLDERS, key=lambda name: self.root.is_relative_to(f"/{name}")):
            call("mount", "--rbind", self.root / name, f"/{name}")
        os.chdir("/")


class Node:
    """A host name, a network address, processes and shared memory of its own; its slurmd is running."""

    START = """
set -e
hostname "$1"
ip link set lo up
mount -t tmpfs -o mode=1777 none /dev/shm
mount -t tmpfs -o mode=1777 none /tmp
mount -t tmpfs none /srv
while ! ip link show eth0 >/dev/null 2>&1; do sleep 0.02; done
ip address add "$2/24" dev eth0
ip link set eth0 up
slurmd -D -N "$1" &
# As the first process it also waits for those that nobody else waits for.
wait
"""

    def __init__(self, name, address, output):
        self.name = name
        apart = ["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self.process = subprocess.Popen([*apart, "sh", "-c", self.START, "sh", name, address], **output)
        self.first = until(self.child)
        call("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", self.first)
        call("ip", "link", "set", f"to-{name}", "master", "switch", "up")

    def child(self):
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        children = path.read_text().split()
        # The network is another one only after unshare has done its part.
        own = children and os.readlink(f"/proc/{children[0]}/ns/net") != os.readlink("/proc/self/ns/net")
        return children[0] if own else None

    def inside(self, *words):
        """What a command prints there."""
        enter = ["nsenter", "--target", self.first, "--mount", "--net", "--uts", "--ipc", "--pid", *words]
        return subprocess.run(enter, stdout=subprocess.PIPE, text=True, timeout=PATIENCE).stdout

    def processes(self, name, job):
        """Numbers of the job's processes of this name, as seen from outside."""
        namespace = os.readlink(f"/proc/{self.first}/ns/pid")
        return [int(one.name) for one in pathlib.Path("/proc").glob("[1-9]*") if is_meant(one, namespace, name, job)]

    def kill(self, name, job):
        for process in self.processes(name, job):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def left(self):
        """What a job has left here: processes, files in memory, ports."""
        names = self.inside("ps", "-e", "-o", "comm=").split()
        files = self.inside("find", "/dev/shm", "/tmp", "-mindepth", "1").split()
        listening = [line.split() for line in self.inside("cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()]
        ports = {int(words[1].rpartition(":")[2], 16) for words in listening if words[3] == "0A"}
        return {
            "processes": sorted(set(names) - {"sh", "slurmd", "ps"}),
            "files": sorted(files),
            "ports": sorted(ports - {SLURMD_PORT}),
        }


class Cluster:
    def __init__(self):
        step("munged and the nodes begin")
        call("hostname", "head")
        call("ip", "link", "set", "lo", "up")
        call("ip", "link", "add", "switch", "type", "bridge")
        call("ip", "address", "add", "10.77.0.100/24", "dev", "switch")
        call("ip", "link", "set", "switch", "up")
        call("setpriv", "--reuid", "munge", "--regid", "munge", "--clear-groups", "munged")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.nodes = [Node(name, f"10.77.0.{number}", quiet) for number, name in enumerate(NODES, 1)]
        step("slurmctld finds both nodes")
        self.controller = subprocess.Popen(["slurmctld", "-D", "-i"], **quiet)
        assert until(lambda: self.ask("sinfo", "-h", "-o", "%t %D") == "idle 2"), self.ask("sinfo", "-R")

    def begin(self, *words, **variables):
        """Starts a command of the user's; its output, both streams, is kept."""
        become = ["setpriv", "--reuid", UID, "--regid", UID, "--clear-groups"]
        given = {"HOME": "/home/trainer", "PATH": f"/opt/airamp/bin:{PATH}", **variables}
        return subprocess.Popen(
            [str(word) for word in [*become, *words]], cwd="/home/trainer", env=given,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )

    def ask(self, *words, **variables):
        """What such a command prints."""
        return self.begin(*words, **variables).communicate(timeout=PATIENCE)[0].strip()


class Job:
    """A batch job of the user's."""

    def __init__(self, cluster, options, script, arguments=(), **variables):
        self.cluster = cluster
        said = cluster.ask("sbatch", "--parsable", *options, script, *arguments, **variables)
        self.number = int(said)

    def log(self):
        path = pathlib.Path(f"/home/trainer/slurm-{self.number}.out")
        return path.read_text() if path.exists() else ""

    def enough(self, code=0):
        """Its program may end now, with this code."""
        path = pathlib.Path(f"/home/trainer/enough.{self.number}")
        path.with_suffix(".new").write_text(str(code))
        path.with_suffix(".new").rename(path)

    def runs(self, ranks):
        """Whether so many ranks have made their first step."""
        return until(lambda: self.log().count('"event":"running"') >= ranks)

    def is_over(self):
        return not self.cluster.ask("squeue", "-h", "-j", self.number)

    def end(self):
        """How it has ended, once it has."""
        until(self.is_over)
        words = dict(word.split("=", 1) for word in self.cluster.ask("scontrol", "show", "job", self.number).split() if "=" in word)
        before = {one.suffix[1:]: one.read_text().split() for one in pathlib.Path("/var/log").glob(f"before-epilog.{self.number}.*")}
        left = {node: jobs.count(str(self.number)) for node, jobs in before.items()}
        return {"state": words["JobState"], "code": words["ExitCode"], "log": self.log(), "files_before_epilog": left}


def show_logs():
    """On stderr, for one who asks why a run came to nothing."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        subprocess.run(["ps", "-e", "-o", "pid,ppid,stat,wchan:20,etime,args"], stdout=sys.stderr, timeout=10)
    for path in [*sorted(pathlib.Path("/home/trainer").glob("slurm-*.out")), *sorted(pathlib.Path("/var/log").glob("slurm*.log"))]:
        print(f"--- {path}\n{path.read_text(errors='replace')[-4000:]}", file=sys.stderr)
