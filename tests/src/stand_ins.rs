//! Programs that stand in for those that documents start and a test cannot: launchers and frameworks that are not here, or
//! have no GPU here, and tools that would change the machine or a cluster. Each keeps a line of what it was told, and fails
//! at what the real one would not take. Who runs a page's commands puts their folder first in PATH.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Each wants the library: preloaded, named as NCCL, or in its arguments.
const FRAMEWORKS: [&str; 5] = ["torchrun", "deepspeed", "vllm", "python3", "mpirun"];
/// Those that only start something elsewhere.
const SCHEDULERS: [&str; 2] = ["srun", "sbatch"];

/// A program that would change something.
struct Tool {
    name: &'static str,
    /// What the first word can be; any, if none is named.
    actions: &'static str,
    options: &'static str,
    /// What it does, as a line of shell.
    does: &'static str,
}

const fn tool(name: &'static str, actions: &'static str, options: &'static str) -> Tool {
    Tool { name, actions, options, does: "" }
}

const TOOLS: [Tool; 17] = [
    // The task runner of a checkout, as ./x.
    tool("x", "build test check bench release packages gpu fuzz help", "--out --target --suite"),
    tool("apt-get", "update install remove purge", "-y"),
    tool("dnf", "install remove", "-y"),
    tool("pip", "install uninstall", "-y"),
    tool("systemctl", "enable disable start stop restart reload status daemon-reload", "--now"),
    tool("curl", "", "-s"),
    tool("tar", "", "-xzf -C"),
    tool("ln", "", "-sfn"),
    tool("install", "", "-D -t -m"),
    tool("podman", "build push", "-f -t --build-arg"),
    tool("kubectl", "create apply delete exec", "-f -k -n -o --from-literal --dry-run --"),
    tool("promtool", "check test", ""),
    // What reads a pipe to its end.
    Tool { name: "less", actions: "", options: "", does: "cat >/dev/null" },
    Tool { name: "jq", actions: "", options: "-r", does: "cat >/dev/null" },
    tool("setpriv", "", "--reuid --regid --clear-groups --no-new-privs"),
    // Of whom a folder is: a user without any.
    Tool { name: "stat", actions: "", options: "-c", does: "echo 65534" },
    // An empty database of advisories.
    Tool { name: "git", actions: "clone", options: "", does: "mkdir -p \"$(basename \"$2\")/crates\"" },
];

/// The folder of these programs in a page's folder, which also gets what a checkout has: `./x` and `deploy`.
pub fn put_into(folder: &Path, repository: &Path) -> PathBuf {
    let programs = folder.join("stand-ins");
    fs::create_dir(&programs).expect("a folder in it");
    let write = |name: &str, does: &str| {
        let script =
            format!("#!/bin/sh\n{does}\necho \"{name} $*\" >> '{}'\n", folder.join("told").display());
        let path = programs.join(name);
        fs::write(&path, script).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("an executable");
    };
    FRAMEWORKS.iter().for_each(|name| write(name, WANTS_LIBRARY));
    SCHEDULERS.iter().for_each(|name| write(name, ""));
    TOOLS.iter().for_each(|tool| write(tool.name, &tool.script()));
    symlink(programs.join("x"), folder.join("x")).expect("a link");
    symlink(repository.join("deploy"), folder.join("deploy")).expect("a link");
    programs
}

/// The programs that were started there.
pub fn started(folder: &Path) -> BTreeSet<String> {
    let told = fs::read_to_string(folder.join("told")).unwrap_or_default();
    told.lines().filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
}

pub fn names() -> BTreeSet<String> {
    let tools = TOOLS.iter().map(|tool| tool.name);
    FRAMEWORKS.into_iter().chain(SCHEDULERS).chain(tools).map(str::to_owned).collect()
}

/// A program of the checkout's own needs no library, nor does the question where that is.
const WANTS_LIBRARY: &str = r#"case "${1:-}" in deploy/*) PATH=${PATH#*:} exec "${0##*/}" "$@" ;; esac
case "${LD_PRELOAD:-}${VLLM_NCCL_SO_PATH:-}$*" in *libairamp_accel.so*|*"airamp_accel.library()"*) ;; *)
echo "$0: the library is not preloaded" >&2; exit 9 ;; esac"#;

impl Tool {
    fn script(&self) -> String {
        let Self { name, actions, options, does } = self;
        format!(
            r#"case " {actions} " in "  "|*" ${{1:-}} "*) ;; *) echo "{name}: no action '${{1:-}}'" >&2; exit 9 ;; esac
for word in "$@"; do
    case $word in
    --) break ;;
    -?*) case " {options} " in *" ${{word%%=*}} "*) ;; *) echo "{name}: no option '$word'" >&2; exit 9 ;; esac ;;
    -) cat >/dev/null ;;
    esac
done
{does}"#
        )
    }
}
