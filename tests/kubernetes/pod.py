"""Runs one pod of an overlay, or of a manifest, as kubelet would, with the very commands of its init container and its sidecar, in namespaces
of its own, and prints what happened as JSON. The job's command alone is ours: two ranks on emulated GPUs. Needs root and
util-linux. tests/kubernetes.rs calls it and judges; nothing is left on the machine. With --image, and --base for the job's, the containers are
podman's (runtime.py): `tests/kubernetes/image` makes the two."""

import argparse
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import render
import runtime
import sandbox
from sandbox import Volume, mount

ADDRESS = "192.0.2.10"
TOKEN = "a-token-of-the-test-0123456789"
PATIENCE = 60
FACTS = {"status.podIP": ADDRESS, "metadata.name": "train-0", "spec.nodeName": "node-a"}
EMULATED = {
    "nvidia": ("libairamp_emulated_cuda.so", ["libcuda.so.1", "libcudart.so.12", "libnccl.so.2"]),
    "amd": ("libairamp_emulated_hip.so", ["libamdhip64.so", "libamdhip64.so.6", "librccl.so.1"]),
}
# Ranks that run until somebody has seen enough of them.
JOB = """
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank /trainer/airamp-rank steps $STEPS_OPTIONS --compute-ms 5 >/tmp/rank.$rank 2>&1 &
    ranks="$ranks $!"
done
while [ ! -e /tmp/enough ]; do
    for one in $ranks; do kill -0 $one || { cat /tmp/rank.*; echo 'a rank has ended'; exit 1; }; done
    sleep 0.1
done
if [ -x /airamp/bin/airamp ]; then
    /airamp/bin/airamp status
    if [ -n "$ORDER" ]; then
        # A rank that has not answered within two seconds is left out.
        for _ in 1 2 3 4 5; do
            said=$(/airamp/bin/airamp "$ORDER")
            case $said in *process*process*) break ;; esac
        done
        echo "$said"
    fi
fi
kill $ranks; wait; cat /tmp/rank.*; echo 'the job is over'
"""
PROBE = "id -u; grep -E '^(CapEff|CapBnd|NoNewPrivs):' /proc/self/status; touch /opt/airamp/x /x 2>&1; ls /"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--manifests", type=pathlib.Path, required=True, help="deploy/kubernetes")
    parser.add_argument("--vendor", choices=EMULATED, required=True)
    parser.add_argument("--artifacts", type=pathlib.Path, required=True, help="what cargo has built")
    parser.add_argument("--tree", type=pathlib.Path, required=True, help="what a release has made of it")
    parser.add_argument("--work", type=pathlib.Path, required=True, help="an empty folder")
    parser.add_argument("--manifest", type=pathlib.Path, help="a job of somebody's, instead of the overlay's")
    parser.add_argument("--token", choices=["there", "late"], default="there")
    parser.add_argument("--install-limit", help="another size of the volume that the library is copied into")
    parser.add_argument("--settings", help="what the ConfigMap holds instead")
    parser.add_argument("--image", help="what the Containerfile has made, for podman")
    parser.add_argument("--base", help="an image with a shell and glibc, for the job")
    parser.add_argument("--inside", action="store_true")
    return parser.parse_args()


class Pod:
    def __init__(self, options):
        self.options = options
        self.tell = runtime.tell if options.image else sandbox.tell
        overlay = options.manifests / "overlays" / options.vendor
        namespace = options.manifests / "namespace"
        self.group = render.documents(options.manifest) if options.manifest else render.render(namespace) + render.render(overlay)
        job = next(one for one in self.group if one["kind"] == "Job")
        self.name = job["metadata"]["name"]
        self.spec = job["spec"]["template"]["spec"]
        self.volumes = {one["name"]: self.volume(one) for one in self.spec["volumes"]}

    def volume(self, wanted):
        if wanted["name"] == "airamp" and self.options.install_limit:
            wanted["emptyDir"]["sizeLimit"] = self.options.install_limit
        contents = None
        if "configMap" in wanted:
            named = {one["metadata"]["name"]: one["data"] for one in self.group if one["kind"] == "ConfigMap"}
            contents = named.get(wanted["configMap"]["name"])
            contents = {"airamp.conf": self.options.settings} if self.options.settings else contents
        if "secret" in wanted and self.options.token == "there":
            contents = {"token": TOKEN}
        folder = self.options.work / "volumes" / wanted["name"]
        return Volume(folder, wanted, self.spec.get("securityContext", {}).get("fsGroup", 0), contents)

    def container(self, wanted, name=None):
        is_ours = wanted["image"].startswith("airamp-accel:")
        if self.options.image:
            image = self.options.image if is_ours else self.trainer()
            return runtime.Container(self.options.base, self.spec, wanted, self.volumes, image)
        image = self.image() if is_ours else self.trainer()
        folder = self.options.work / "roots" / (name or wanted["name"])
        return sandbox.Container(folder, self.spec, wanted, self.volumes, image)

    def image(self):
        """What the COPY lines of the Containerfile put where."""
        text = (self.options.manifests / "Containerfile").read_text()
        for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE):
            *sources, target = [word for word in line.split() if not word.startswith("--")]
            for source in sources:
                if source == "${TREE}/":
                    yield from ((part, target + part.name) for part in self.options.tree.iterdir())
                else:
                    source = source.removeprefix("${TREE}/share/airamp/kubernetes/")
                    yield self.options.manifests / source, target + os.path.basename(source)

    def trainer(self):
        yield self.options.artifacts / "airamp-rank", "/trainer/airamp-rank"
        library, names = EMULATED[self.options.vendor]
        yield from ((self.options.artifacts / library, f"/trainer/lib/{name}") for name in names)

    def environment(self, container):
        facts = {**FACTS, "metadata.labels['batch.kubernetes.io/job-name']": self.name}
        return {
            one["name"]: one["value"] if "value" in one else facts[one["valueFrom"]["fieldRef"]["fieldPath"]]
            for one in container["env"]
        }


def ask(path, token=None):
    """Status and text; status 0 where nobody listens."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://{ADDRESS}:9090{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, ""
    except OSError:
        return 0, ""


def until(holds):
    """The first true answer, or the last one when patience has run out."""
    end = time.monotonic() + PATIENCE
    while not (seen := holds()) and time.monotonic() < end:
        time.sleep(0.1)
    return seen


def job_metrics():
    status, text = ask("/metrics", TOKEN)
    lines = [line for line in text.splitlines() if line.startswith("airamp_collective_calls_total{")]
    return status == 200 and lines


def run(pod):
    report = {"init": [], "sidecar": {}}
    sidecar = None
    for wanted in pod.spec["initContainers"]:
        started = pod.container(wanted).start(wanted["command"], pod.environment(wanted) if "env" in wanted else {})
        if wanted.get("restartPolicy") == "Always":
            sidecar = started
            continue
        said, _ = started.communicate(timeout=PATIENCE)
        report["init"].append({"name": wanted["name"], "code": started.returncode, "said": said})
    probe = pod.container({**pod.spec["initContainers"][1]}, "probe").start(["sh", "-c", PROBE], {})
    report["confined"] = probe.communicate(timeout=PATIENCE)[0]
    watch(pod, report, sidecar)
    report["sidecar"]["running"] = sidecar.poll() is None
    pod.tell(sidecar, signal.SIGTERM)
    report["sidecar"]["said"], _ = sidecar.communicate(timeout=PATIENCE)
    report["sidecar"]["code"] = sidecar.returncode
    return report


def watch(pod, report, sidecar):
    """The job, and what can be seen of it while it runs."""
    wanted = pod.spec["containers"][0]
    options = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": 29500, "LD_LIBRARY_PATH": "/trainer/lib"}
    options |= {"NCCL_SOCKET_IFNAME": "lo", "STEPS_OPTIONS": "--hip" if pod.options.vendor == "amd" else ""}
    options["ORDER"] = "disable" if pod.options.settings else ""
    job = pod.container(wanted).start(["sh", "-c", JOB], {**pod.environment(wanted), **options})
    report["steps"] = until(lambda: job.poll() is not None or has_made_a_step(pod)) and job.poll() is None
    if pod.options.token == "late":
        report["before"] = {"status": ask("/metrics")[0], "running": sidecar.poll() is None and job.poll() is None}
        pod.volumes["airamp-token"].project({"token": TOKEN})
    if not pod.options.install_limit:
        report["metrics"] = until(job_metrics) or []
        report["answers"] = {"token": ask("/metrics", TOKEN)[0], "none": ask("/metrics")[0], "health": ask("/healthz")[0]}
        report["files"] = sorted(str(one.stat().st_uid) for one in telemetry(pod))
    if pod.options.token == "late":
        pod.volumes["airamp-token"].project({"token": TOKEN[::-1]})
        pod.tell(sidecar, signal.SIGHUP)
        until(lambda: ask("/metrics", TOKEN[::-1])[0] == 200)
        report["renewed"] = {"old": ask("/metrics", TOKEN)[0], "new": ask("/metrics", TOKEN[::-1])[0]}
    report["while_running"] = job.poll() is None
    (pod.options.work / "volumes/tmp/enough").touch()
    said, _ = job.communicate(timeout=PATIENCE)
    report["job"] = {"code": job.returncode, "said": said}
    report["installed"] = sorted(str(one.relative_to(installed(pod))) for one in installed(pod).rglob("*") if one.is_file())


def has_made_a_step(pod):
    said = [one.read_text() for one in (pod.options.work / "volumes/tmp").glob("rank.*")]
    return len(said) == 2 and all('"event":"running"' in text for text in said)


def telemetry(pod):
    return (pod.options.work / "volumes/airamp-telemetry").glob("airamp-*/*.airamp")


def installed(pod):
    return pod.options.work / "volumes/airamp"


def main():
    options = arguments()
    # As kubelet starts containers: a shell cannot trap what is ignored already, as under nohup.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if not options.inside:
        # A network, mounts and shared memory of its own, all gone with the last process in them.
        apart = ["unshare", "--mount", "--net", "--ipc", "--fork", "--kill-child", sys.executable, __file__, "--inside"]
        os.execvp(apart[0], apart + sys.argv[1:])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{ADDRESS}/32", "dev", "lo"], check=True)
    mount("-t", "tmpfs", "none", options.work)
    print(json.dumps(run(Pod(options)), indent=1))


if __name__ == "__main__":
    main()
