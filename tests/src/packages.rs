//! A release's tree and its packages, made by the scripts of deploy/ from what cargo has built here, once for each test
//! program; and a small Debian to install into. Claims about them are in tests/tests/release.rs, packages.rs and
//! newcomer.rs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::artifacts::folder;
use crate::{Outcome, Run, package_dir, skip_outside_ci};

/// Generous, for two busy cores.
pub const LIMIT: Duration = Duration::from_secs(240);

pub fn repository() -> PathBuf {
    package_dir().parent().expect("the repository").to_path_buf()
}

/// A program of deploy/ that ends well.
#[track_caller]
pub fn deploy(program: &str) -> Run {
    let path = repository().join("deploy").join(program);
    Run::new(path).env("PYTHONDONTWRITEBYTECODE", "1").time_limit(LIMIT)
}

/// Whether all these programs are there; if not, says so.
pub fn have(programs: &[&str]) -> bool {
    let is_there = |program: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|output| output.status.success())
    };
    let missing: Vec<_> = programs.iter().filter(is_there).collect();
    if !missing.is_empty() {
        skip_outside_ci(&format!("not installed: {missing:?}"));
    }
    missing.is_empty()
}

/// The tree, stripped and complete, in a folder that lasts as long as the machine's temporary ones do.
pub fn tree() -> &'static Path {
    static TREE: OnceLock<PathBuf> = OnceLock::new();
    TREE.get_or_init(|| make_tree(&kept("tree")))
}

pub fn make_tree(out: &Path) -> PathBuf {
    let from = folder();
    deploy("release/tree").arg("--from").arg(from).arg("--out").arg(out).run().assert_success();
    out.to_path_buf()
}

/// A tree of another version: the same files, and another settings file than the one before.
pub fn next_tree(folder: &Path) -> PathBuf {
    let next = folder.join("next");
    Run::new("cp").arg("-a").arg(tree()).arg(&next).run().assert_success();
    let settings = next.join("etc/airamp.conf");
    let text = fs::read_to_string(&settings).expect("the settings file");
    fs::write(settings, text + "\n# Of the next version.\n").expect("written");
    next
}

/// A folder of this test program's own beside the built files, empty at first.
fn kept(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the path of the test executable");
    let stem = program.file_stem().expect("a name").to_string_lossy().into_owned();
    let path = folder().join("packages").join(stem).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder beside the built files");
    path
}

/// A package of the tree: `deb`, `rpm`, `wheel` or `tar`. The path is what the script prints.
#[track_caller]
pub fn package(kind: &str, tree: &Path, out: &Path) -> PathBuf {
    package_of_version(kind, tree, out, None)
}

#[track_caller]
pub fn package_of_version(kind: &str, tree: &Path, out: &Path, version: Option<&str>) -> PathBuf {
    let mut run =
        deploy(&format!("packages/{kind}")).arg("--quick").arg("--tree").arg(tree).arg("--out").arg(out);
    if let Some(version) = version {
        run = run.env("AIRAMP_PACKAGE_VERSION", version);
    }
    let outcome = run.run();
    PathBuf::from(outcome.assert_success().stdout_text().trim_end())
}

/// Every file, link and folder below, by its path there.
pub fn listed(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            found.insert(path.strip_prefix(root).expect("below").to_string_lossy().into_owned());
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            }
        }
    }
    found
}

/// A Debian that is just large enough for dpkg to install into and run maintainer scripts in, with a `systemctl` that
/// writes down what it is asked.
pub struct SmallDebian {
    root: tempfile::TempDir,
}

const INSTALLED: &str = "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: amd64\n\
                         Maintainer: nobody <nobody@invalid>\nDescription: stands in for glibc\n\n\
                         Package: libgcc-s1\nStatus: install ok installed\nVersion: 12\nArchitecture: amd64\n\
                         Maintainer: nobody <nobody@invalid>\nDescription: stands in for GCC's library\n\n";

impl SmallDebian {
    /// None after a loud skip, where there is no dpkg or we are not root.
    pub fn new() -> Option<Self> {
        if !have(&["dpkg", "dpkg-deb"]) {
            return None;
        }
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            skip_outside_ci("dpkg --root takes root");
            return None;
        }
        let new = Self { root: tempfile::tempdir().expect("a temporary folder") };
        new.furnish();
        Some(new)
    }

    fn furnish(&self) {
        for name in [
            "usr/bin",
            "usr/lib64",
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "run/systemd/system",
            "tmp",
            "dev",
        ] {
            fs::create_dir_all(self.path(name)).expect("a folder");
        }
        fs::create_dir_all(self.path("usr/lib/x86_64-linux-gnu")).expect("a folder");
        for (name, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
            symlink(target, self.path(name)).expect("a link");
        }
        for (source, target) in [
            ("/bin/dash", "usr/bin/sh"),
            ("/bin/rm", "usr/bin/rm"),
            ("/lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"),
            ("/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"),
        ] {
            fs::copy(source, self.path(target)).unwrap_or_else(|error| panic!("{source}: {error}"));
        }
        self.write("usr/bin/systemctl", "#!/bin/sh\necho \"$@\" >> /asked\n");
        fs::set_permissions(self.path("usr/bin/systemctl"), fs::Permissions::from_mode(0o755))
            .expect("a mode");
        self.write("var/lib/dpkg/status", INSTALLED);
        self.write("asked", "");
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap_or_else(|error| panic!("{name}: {error}"));
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// What systemctl was asked since the last time, a line each.
    pub fn asked(&self) -> Vec<String> {
        let said = self.read("asked").lines().map(str::to_owned).collect();
        self.write("asked", "");
        said
    }

    #[track_caller]
    pub fn dpkg(&self, arguments: &[&str]) -> Outcome {
        let root = format!("--root={}", self.root.path().display());
        let run = Run::new("dpkg").arg(root).arg("--force-confold").args(arguments).time_limit(LIMIT);
        let outcome = run.env("DEBIAN_FRONTEND", "noninteractive").run();
        outcome.assert_success();
        outcome
    }

    /// rpm installs into it as well; what the package needs is not in its database, so that `--nodeps` is needed.
    #[track_caller]
    pub fn rpm(&self, arguments: &[&str]) -> Outcome {
        let root = self.root.path().display().to_string();
        let run = Run::new("rpm").args(["--root", &root, "--dbpath", "/var/lib/rpm"]).args(arguments);
        let outcome = run.time_limit(LIMIT).run();
        outcome.assert_success();
        outcome
    }

    /// All that is there but dpkg's and rpm's own notes.
    pub fn contents(&self) -> BTreeSet<String> {
        listed(self.root.path()).into_iter().filter(|name| !name.starts_with("var/")).collect()
    }
}
