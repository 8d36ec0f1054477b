"""What is common to all packages: the files of a release's tree and where a system wants them, the version, the one date, and
what the binaries ask of a system. deb, rpm, wheel and tar are the formats. Nothing is taken from outside the tree but scripts."""

import argparse
import dataclasses
import gzip
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "deploy/release"))

import elf  # noqa: E402

NAME = "airamp-accel"
SUMMARY = "Compressed collectives for NCCL and RCCL jobs, by preloading"
DESCRIPTION = """\
libairamp_accel.so stands between an application and NCCL or RCCL, watches every collective, and compresses AllReduce on
the wire where all ranks agree on it and where it pays. It is off until a job is started with it (airamp run, LD_PRELOAD),
and changes no result until it is told to (AIRAMP_MODE). airampd serves metrics of a node's jobs; nothing starts it unasked."""
# An address that can never be anybody's; whoever distributes the packages names himself.
PACKAGER = os.environ.get("AIRAMP_PACKAGER", "AIRamp-Accel packages <packages@airamp-accel.invalid>")
LICENCE = "Apache-2.0"


@dataclasses.dataclass
class Layout:
    """Where a kind of system keeps things, below its root."""
    libraries: str
    zsh: str
    documents: str = f"usr/share/doc/{NAME}"
    units: str = "usr/lib/systemd/system"

    def place(self, path):
        """Of a file of the tree, None where it is not wanted."""
        moves = [("etc/", "etc/"), ("bin/", "usr/bin/"), ("lib/", f"{self.libraries}/"),
                 ("share/zsh/site-functions/", f"{self.zsh}/"), ("share/doc/airamp/", f"{self.documents}/"),
                 ("share/airamp/systemd/", f"{self.units}/"), ("share/", "usr/share/")]
        for old, new in moves:
            if path.startswith(old):
                return new + path.removeprefix(old)
        raise ValueError(f"{path} has no place on a system")


def debian(processor):
    return Layout(f"usr/lib/{processor}-linux-gnu", "usr/share/zsh/vendor-completions")


FEDORA = Layout("usr/lib64", "usr/share/zsh/site-functions")


class Release:
    """A tree, and what can be known of it."""

    def __init__(self, tree):
        self.tree = tree.resolve()
        if not (self.tree / "bin/airamp").is_file():
            sys.exit(f"{tree} is no release: make it with deploy/release/tree")
        link = os.readlink(self.tree / "lib/libairamp_accel.so")
        self.version = os.environ.get("AIRAMP_PACKAGE_VERSION", link.removeprefix("libairamp_accel.so."))
        self.epoch = int((self.tree / "bin/airamp").stat().st_mtime)
        binaries = elf.in_tree(self.tree)
        # One for all: check-binaries sees to it.
        self.processor = binaries[0].processor
        self.needs_libgcc = any("libgcc_s.so.1" in file.needed for file in binaries)
        # What is promised of every release; a tree that plain cargo made may ask for more.
        self.glibc = max([(2, 28), *(file.glibc()[:2] for file in binaries)])

    def files(self):
        """Every file and link by its path in the tree."""
        found = [path for path in sorted(self.tree.rglob("*")) if path.is_symlink() or path.is_file()]
        return [str(path.relative_to(self.tree)) for path in found]

    def install(self, layout, root):
        """Copies the tree below a root as a system wants it. Man pages are compressed, as everywhere."""
        for name in self.files():
            source, target = self.tree / name, root / layout.place(name)
            is_page = name.startswith("share/man/")
            target = target.with_name(target.name + ".gz") if is_page else target
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_symlink():
                target.symlink_to(os.readlink(source))
            elif is_page:
                target.write_bytes(gzip.compress(source.read_bytes(), 9, mtime=0))
            else:
                shutil.copy2(source, target)
        self.settle(root)

    def settle(self, root):
        """Modes and dates that do not depend on who makes the package."""
        for path in sorted(root.rglob("*"), reverse=True):
            if not path.is_symlink():
                runs = path.is_dir() or path.stat().st_mode & 0o100
                path.chmod(0o755 if runs else 0o644)
            os.utime(path, (self.epoch, self.epoch), follow_symlinks=False)

    def environment(self):
        """For tools that heed it."""
        return {**os.environ, "SOURCE_DATE_EPOCH": str(self.epoch), "LC_ALL": "C.UTF-8", "TZ": "UTC"}


def arguments(about):
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "dist/tree")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="folder for the package")
    parser.add_argument("--quick", action="store_true", help="compress little: for tests")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def run(command, **more):
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, **more)
