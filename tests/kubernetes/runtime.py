"""A container as podman and its runtime make it from a manifest: the image that the Containerfile makes, the manifest's user, roots, volumes
and limits, the runtime's own seccomp profile. The same as sandbox.py has it, for pod.py --image; `PODMAN` has the words of the command, where they
are more than `podman`."""

import os
import shlex
import signal
import subprocess

PODMAN = shlex.split(os.environ.get("PODMAN", "podman"))


class Container:
    """`image` is a name, or what is bound into the base image, as pairs of source and target."""

    def __init__(self, base, pod, container, volumes, image):
        self.pod, self.container = pod, container
        self.image, bound = (image, ()) if isinstance(image, str) else (base, image)
        self.mounts = [f"{os.path.abspath(source)}:{target}:ro" for source, target in bound]
        for wanted in container["volumeMounts"]:
            mode = ":ro" if wanted.get("readOnly") else ""
            self.mounts.append(f"{volumes[wanted['name']].folder}:{wanted['mountPath']}{mode}")

    def start(self, command, variables):
        user = {**self.pod.get("securityContext", {}), **self.container.get("securityContext", {})}
        line = [*PODMAN, "run", "--rm", "--pull", "never", "--network", "host", "--cap-drop", "all"]
        # A machine of ours may have fewer than the runtime would set.
        line += ["--ulimit", "nofile=4096:4096", "--ulimit", "nproc=4096:4096"]
        line += ["--user", f"{user.get('runAsUser', 0)}:{user.get('runAsGroup', 0)}"]
        for group in [user.get("fsGroup", 0), *user.get("supplementalGroups", [])]:
            line += ["--group-add", str(group)]
        if user.get("readOnlyRootFilesystem"):
            line += ["--read-only", "--read-only-tmpfs=false"]
        if user.get("allowPrivilegeEscalation") is False:
            line += ["--security-opt", "no-new-privileges"]
        line += self.limits()
        for one in self.mounts:
            line += ["--volume", one]
        for name, value in variables.items():
            line += ["--env", f"{name}={value}"]
        line += ["--entrypoint", command[0], self.image, *command[1:]]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def limits(self):
        """Of containers that are ours; the job's are of another machine."""
        limits = self.container.get("resources", {}).get("limits", {})
        if "cpu" not in limits:
            return []
        return ["--cpus", str(int(limits["cpu"].removesuffix("m")) / 1000), "--memory", limits["memory"].removesuffix("i").lower()]


def tell(started, number):
    """podman hands a signal on to the container's first process."""
    if started.poll() is None:
        os.kill(started.pid, signal.Signals(number))
