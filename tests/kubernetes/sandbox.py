"""A container as a runtime makes it from a manifest, in the mount and network namespace of pod.py: a root of its own that is
read-only where the manifest says so, volumes with kubelet's owners and modes, the manifest's user, no capability, a process
namespace. The host's /usr stands for the base image. No cgroups and no seccomp. Nothing outlives the namespace."""

import os
import pathlib
import re
import shutil
import subprocess

UNITS = {"Ki": 10, "Mi": 20, "Gi": 30}
DEVICES = ["null", "zero", "full", "random", "urandom"]


def mount(*arguments):
    subprocess.run(["mount", *map(str, arguments)], check=True)


def bytes_of(quantity):
    number, unit = re.fullmatch(r"(\d+)(Ki|Mi|Gi)", quantity).groups()
    return int(number) << UNITS[unit]


class Volume:
    """A folder on the host side. Files of maps and secrets are links through '..data', as kubelet leaves them."""

    def __init__(self, folder, wanted, group, contents):
        self.folder, self.wanted, self.group = folder, wanted, group
        folder.mkdir(parents=True)
        if "emptyDir" in wanted:
            size = bytes_of(wanted["emptyDir"]["sizeLimit"])
            mount("-t", "tmpfs", "-o", f"size={size},mode=2777,gid={group}", "none", folder)
            os.chmod(folder, 0o2777)
        else:
            mount("-t", "tmpfs", "-o", "mode=0755", "none", folder)
            self.project(contents)

    def project(self, contents):
        """Puts these files in place of those before, all at once."""
        if contents is None:
            return
        source = self.wanted.get("secret") or self.wanted.get("configMap")
        data = self.folder / f"..{len(list(self.folder.iterdir()))}"
        data.mkdir()
        for name, text in contents.items():
            (data / name).write_text(text)
            os.chown(data / name, 0, self.group)
            os.chmod(data / name, source.get("defaultMode", 0o644) | 0o040)
            if not (self.folder / name).is_symlink():
                (self.folder / name).symlink_to(f"..data/{name}")
        (self.folder / "..new").symlink_to(data.name)
        os.rename(self.folder / "..new", self.folder / "..data")


class Container:
    """One container's root, ready to run commands in."""

    def __init__(self, folder, pod, container, volumes, image):
        self.root, self.container, self.pod = folder, container, pod
        self.root.mkdir(parents=True)
        mount("-t", "tmpfs", "-o", "mode=0755", "none", self.root)
        self.base()
        for source, target in image:
            self.bind(source, target)
        for wanted in container["volumeMounts"]:
            path = self.inside(wanted["mountPath"])
            path.mkdir(parents=True, exist_ok=True)
            mount("--bind", volumes[wanted["name"]].folder, path)
            if wanted.get("readOnly"):
                mount("-o", "remount,bind,ro", path)
        if container.get("securityContext", {}).get("readOnlyRootFilesystem"):
            mount("-o", "remount,ro", self.root)

    def inside(self, path):
        return self.root / str(path).lstrip("/")

    def base(self):
        for name in ["proc", "sys", "dev/shm", "etc", "tmp", "usr"]:
            self.inside(name).mkdir(parents=True)
        mount("--bind", "/usr", self.inside("usr"))
        for name in ["bin", "sbin", "lib", "lib64"]:
            host = pathlib.Path("/", name)
            if host.is_symlink():
                self.inside(name).symlink_to(os.readlink(host))
            elif host.is_dir():
                self.bind(host, host)
        if os.path.exists("/etc/ld.so.cache"):
            shutil.copy("/etc/ld.so.cache", self.inside("etc"))
        for name in DEVICES:
            self.bind(f"/dev/{name}", f"/dev/{name}")

    def bind(self, source, target):
        place = self.inside(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.mkdir() if os.path.isdir(source) else place.touch()
        mount("--bind", source, place)

    def start(self, command, variables):
        """Runs it as the first process of a process namespace; output is kept."""
        user = {**self.pod.get("securityContext", {}), **self.container.get("securityContext", {})}
        groups = [user.get("fsGroup", 0), *user.get("supplementalGroups", [])]
        become = ["/usr/bin/setpriv", "--reuid", user.get("runAsUser", 0), "--regid", user.get("runAsGroup", 0)]
        become += ["--groups", ",".join(map(str, groups)), "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        given = [f"{name}={value}" for name, value in variables.items()]
        line = ["unshare", "--pid", "--fork", "--kill-child", f"--mount-proc={self.root / 'proc'}"]
        line += ["chroot", self.root, *become, "/usr/bin/env", "-i", "PATH=/usr/bin:/bin", *given, *command]
        return subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def tell(started, signal):
    """Sends a signal to the container's own first process, below the one that made the namespace; to nobody if it has ended."""
    if started.poll() is not None:
        return
    children = pathlib.Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    if children:
        os.kill(int(children[0]), signal)
