//! The packages, made here from a plain build: a .deb in a small Debian of the test's own (installed, upgraded under a running
//! job, removed, purged), the .rpm's contents and scripts, the wheel in a fresh Python environment. No service is started unasked, and
//! what goes leaves nothing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use airamp_tests::packages::{
    LIMIT, SmallDebian, have, listed, next_tree, package, package_of_version, tree,
};
use airamp_tests::{Run, rank_program, skip_outside_ci};

fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn words(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn a_deb_is_installed_upgraded_and_removed_without_a_trace_and_starts_nothing() {
    let Some(debian) = SmallDebian::new() else { return };
    let out = temporary();
    let first = package("deb", tree(), out.path());
    let second = package_of_version("deb", &next_tree(out.path()), out.path(), Some("99.0"));
    let bare = debian.contents();

    debian.dpkg(&["--install", words(&first)]);
    assert_eq!(debian.asked(), ["--system daemon-reload"]);
    for name in [
        "usr/bin/airamp",
        "usr/lib/x86_64-linux-gnu/libairamp_accel.so",
        "usr/lib/systemd/system/airampd.service",
        "usr/share/man/man1/airamp-srun.1.gz",
        "usr/share/man/man5/airamp.conf.5.gz",
        "usr/share/man/man8/airampd.8.gz",
        "usr/share/zsh/vendor-completions/_airampd",
        "usr/share/doc/airamp-accel/copyright",
        "etc/airamp.conf",
    ] {
        assert!(debian.path(name).exists(), "{name} is not installed");
    }
    assert!(!debian.path("etc/systemd").exists(), "a service was enabled");

    debian.write("etc/airamp.conf", "mode = \"shadow\"\n");
    debian.dpkg(&["--install", words(&second)]);
    assert_eq!(debian.read("etc/airamp.conf"), "mode = \"shadow\"\n", "what the operator wrote is gone");
    assert!(debian.path("etc/airamp.conf.dpkg-dist").exists(), "the new file is offered beside");
    assert_eq!(debian.asked(), ["--system daemon-reload", "try-restart airampd.service"]);

    // As `systemctl enable`, and a daemon that has kept evidence, leave it.
    fs::create_dir_all(debian.path("etc/systemd/system/multi-user.target.wants")).expect("folders");
    debian.write("etc/systemd/system/multi-user.target.wants/airampd.service", "");
    fs::create_dir_all(debian.path("var/lib/airamp/evidence")).expect("folders");
    debian.dpkg(&["--remove", "airamp-accel"]);
    assert_eq!(debian.asked(), ["disable --now airampd.service", "--system daemon-reload"]);
    assert!(!debian.path("etc/systemd/system/multi-user.target.wants/airampd.service").exists());
    assert_eq!(debian.read("etc/airamp.conf"), "mode = \"shadow\"\n", "settings stay until the purge");
    assert!(debian.path("var/lib/airamp").exists() && !debian.path("usr/bin/airamp").exists());

    debian.dpkg(&["--purge", "airamp-accel"]);
    fs::remove_dir_all(debian.path("etc/systemd")).expect("the test's own folders");
    let left: Vec<_> = debian.contents().difference(&bare).cloned().collect();
    assert!(left.is_empty() || left == ["etc"], "left behind: {left:?}");
    assert!(!debian.path("var/lib/airamp").exists());
}

/// A job of two ranks on the emulator, with programs and library of an install, until it is dropped.
struct Job {
    child: Child,
    telemetry: tempfile::TempDir,
    airamp: PathBuf,
}

impl Job {
    fn start(installed: &Path) -> Self {
        let (telemetry, airamp) = (temporary(), installed.join("usr/bin/airamp"));
        let mut command = Command::new(&airamp);
        command
            .args(["run", "--emulate", "--ranks", "2", "--"])
            .arg(installed.join("usr/bin/airamp-rank"))
            .arg("steps");
        command
            .args(["--compute-ms", "5"])
            .env("XDG_RUNTIME_DIR", telemetry.path())
            .env("AIRAMP_CONFIG", "/dev/null");
        command.env("AIRAMP_TELEMETRY_DIR", telemetry.path()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a job");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let running = (0..2)
            .filter(|_| lines.next().is_some_and(|line| line.is_ok_and(|line| line.contains("running"))));
        assert_eq!(running.count(), 2, "no first step");
        Self { child, telemetry, airamp }
    }

    fn status(&self) -> String {
        let run = Run::new(&self.airamp).args([
            "status",
            "--json",
            "--telemetry-dir",
            words(self.telemetry.path()),
        ]);
        run.env("AIRAMP_CONFIG", "/dev/null").run().assert_success().stdout_text()
    }

    /// The number of calls that all ranks have issued, as telemetry has it.
    fn calls(&self) -> u64 {
        let node: serde_json::Value = serde_json::from_str(&self.status()).expect("JSON");
        fn sum(value: &serde_json::Value) -> u64 {
            match value {
                serde_json::Value::Object(map) => map
                    .iter()
                    .map(|(name, value)| {
                        if name == "calls" {
                            value.as_u64().unwrap_or_else(|| sum(value))
                        } else {
                            sum(value)
                        }
                    })
                    .sum(),
                serde_json::Value::Array(list) => list.iter().map(sum).sum(),
                _ => 0,
            }
        }
        sum(&node)
    }

    fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("waiting for a child").is_none()
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).expect("a process id fits");
        // SAFETY: kill has no memory effects; the child was not waited for yet, or the number is still its own.
        unsafe { libc::kill(id, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}

#[test]
fn a_job_goes_on_while_its_library_is_upgraded_and_removed() {
    let Some(debian) = SmallDebian::new() else { return };
    let out = temporary();
    let first = package("deb", tree(), out.path());
    let second = package_of_version("deb", &next_tree(out.path()), out.path(), Some("99.0"));
    debian.dpkg(&["--install", words(&first)]);
    let keep = debian.path("tmp/keep");
    fs::create_dir(&keep).expect("a folder");
    let mut job = Job::start(&debian.path(""));
    // Looking at it takes a program that is not about to be removed.
    job.airamp = airamp_tests::airamp();
    for step in [["--install", words(&second)], ["--remove", "airamp-accel"]] {
        debian.dpkg(&step);
        let before = job.calls();
        assert!(before > 0, "{}", job.status());
        let deadline = Instant::now() + Duration::from_secs(60);
        while job.calls() <= before {
            assert!(job.is_running() && Instant::now() < deadline, "the job stands still after {step:?}");
        }
    }
    assert!(!debian.path("usr/lib/x86_64-linux-gnu/libairamp_accel.so").exists());
}

#[test]
fn an_rpm_has_its_files_in_place_keeps_settings_and_starts_nothing() {
    if !have(&["rpm", "rpmbuild"]) {
        return;
    }
    let out = temporary();
    let file = package("rpm", tree(), out.path());
    let asked = |arguments: &[&str]| {
        let run = Run::new("rpm").arg("-qp").args(arguments).arg(&file).env("HOME", out.path());
        run.run().assert_success().stdout_text()
    };
    let files: BTreeSet<String> = asked(&["--list"]).lines().map(str::to_owned).collect();
    for name in [
        "/usr/bin/airamp",
        "/usr/bin/airampd",
        "/usr/bin/airamp-rank",
        "/usr/lib64/libairamp_accel.so",
        "/usr/lib64/airamp/libairamp_emulated_cuda.so",
        "/usr/lib/systemd/system/airampd.service",
        "/etc/airamp.conf",
        "/usr/share/man/man1/airamp-srun.1.gz",
        "/usr/share/man/man5/airamp.conf.5.gz",
        "/usr/share/man/man8/airampd.8.gz",
        "/usr/share/zsh/site-functions/_airamp",
        "/usr/lib64/airamp",
    ] {
        assert!(files.contains(name), "{name} is not in the package");
    }
    // A folder that belongs to the system is not ours to remove.
    for name in ["/usr/bin", "/usr/lib64", "/etc", "/usr/lib/systemd/system"] {
        assert!(!files.contains(name), "{name} is the system's");
    }
    assert_eq!(asked(&["--configfiles"]).trim_end(), "/etc/airamp.conf");
    let flags = asked(&["--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\n]"]);
    assert!(
        flags.lines().any(|line| line == "/etc/airamp.conf cn"),
        "settings are not %config(noreplace)\n{flags}"
    );
    let owners = asked(&["--queryformat", "[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]"]);
    assert!(owners.lines().all(|line| line == "root:root"), "{owners}");
    let needs = asked(&["--requires"]);
    assert!(needs.contains("libc.so.6(GLIBC_2.") && !needs.contains("libcuda"), "{needs}");
    let gives = asked(&["--provides"]);
    assert!(
        gives.lines().all(|line| line.starts_with("airamp-accel")),
        "it passes for somebody's library: {gives}"
    );
    let scripts = asked(&["--scripts"]);
    for line in scripts.lines().filter(|line| line.contains("systemctl")) {
        let is_harmless =
            ["daemon-reload", "disable --now", "try-restart"].iter().any(|word| line.contains(word));
        assert!(is_harmless, "{line}");
    }
    Run::new("rpm").args(["-K", "--nosignature"]).arg(&file).env("HOME", out.path()).run().assert_success();
}

/// By rpm's own transactions, into a root that is no RHEL.
#[test]
fn an_rpm_is_installed_upgraded_and_erased_and_starts_nothing() {
    let Some(root) = SmallDebian::new() else { return };
    if !have(&["rpm", "rpmbuild"]) {
        return;
    }
    let out = temporary();
    let first = package("rpm", tree(), out.path());
    let second = package_of_version("rpm", &next_tree(out.path()), out.path(), Some("99.0"));
    let bare = root.contents();
    root.rpm(&["--nodeps", "--install", words(&first)]);
    assert_eq!(root.asked(), ["--system daemon-reload"]);
    root.rpm(&["--nodeps", "--verify", "airamp-accel"]);

    root.write("etc/airamp.conf", "mode = \"shadow\"\n");
    root.rpm(&["--nodeps", "--upgrade", words(&second)]);
    assert_eq!(root.read("etc/airamp.conf"), "mode = \"shadow\"\n", "what the operator wrote is gone");
    assert_eq!(root.rpm(&["--query", "airamp-accel"]).stdout_text().trim(), "airamp-accel-99.0-1.x86_64");
    let asked = root.asked();
    assert!(asked.contains(&"try-restart airampd.service".into()), "{asked:?}");
    assert!(
        asked.iter().all(|one| one == "--system daemon-reload" || one.starts_with("try-restart")),
        "{asked:?}"
    );

    root.rpm(&["--erase", "airamp-accel"]);
    assert_eq!(root.asked(), ["disable --now airampd.service", "--system daemon-reload"]);
    assert_eq!(
        root.read("etc/airamp.conf.rpmsave"),
        "mode = \"shadow\"\n",
        "settings that were changed stay"
    );
    let left = root.contents().difference(&bare).cloned().collect::<Vec<_>>();
    // Folders that are the system's.
    let files: Vec<_> = left.iter().filter(|name| !root.path(name).is_dir()).collect();
    assert_eq!(
        files,
        ["etc/airamp.conf.rpmnew", "etc/airamp.conf.rpmsave"],
        "rpm leaves both to the operator"
    );
}

#[test]
fn the_same_tree_gives_the_same_packages() {
    if !have(&["dpkg-deb", "rpmbuild", "python3"]) {
        return;
    }
    let out = temporary();
    for kind in ["deb", "rpm", "wheel"] {
        let [first, second] = ["a", "b"].map(|folder| package(kind, tree(), &out.path().join(folder)));
        assert_eq!(first.file_name(), second.file_name());
        assert!(
            fs::read(first).expect("a package") == fs::read(second).expect("a package"),
            "two {kind}s differ"
        );
    }
}

/// A Python environment with nothing in it, and the machine's pip to fill it.
struct Python {
    folder: tempfile::TempDir,
}

impl Python {
    fn new() -> Option<Self> {
        if !have(&["python3"]) {
            return None;
        }
        let folder = temporary();
        let made =
            Run::new("python3").args(["-m", "venv", "--without-pip"]).arg(folder.path().join("env")).run();
        if made.end != airamp_tests::End::Code(0) {
            skip_outside_ci("python3 has no venv (Debian: apt install python3-venv)");
            return None;
        }
        let made = Self { folder };
        // pip removes its folder of packages too, if nothing else is in it.
        fs::write(made.site_packages().join("another.py"), "").expect("a module");
        Some(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("env").join(name)
    }

    #[track_caller]
    fn pip(&self, arguments: &[&str]) {
        let run = Run::new("python3")
            .args(["-m", "pip", "--disable-pip-version-check", "--python"])
            .arg(self.path("bin/python3"));
        run.args(arguments).time_limit(LIMIT).run().assert_success();
    }

    /// Everything of the environment but what running Python leaves.
    fn contents(&self) -> BTreeSet<String> {
        listed(&self.path("")).into_iter().filter(|name| !name.contains("__pycache__")).collect()
    }

    fn run(&self, program: &str) -> Run {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let run =
            Run::new(self.path("bin").join(program)).env("PATH", path).env("AIRAMP_CONFIG", "/dev/null");
        run.env("XDG_RUNTIME_DIR", self.folder.path()).env("PYTHONDONTWRITEBYTECODE", "1")
    }

    fn site_packages(&self) -> PathBuf {
        let outcome =
            self.run("python3").args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).run();
        PathBuf::from(outcome.assert_success().stdout_text().trim_end())
    }
}

/// What stands for torchrun: opens the NCCL of its environment, as PyTorch does, and makes an id.
const TORCHRUN: &str = r#"#!/usr/bin/env python3
import ctypes, pathlib, sysconfig
nccl = ctypes.CDLL(str(pathlib.Path(sysconfig.get_path("purelib"), "nvidia/nccl/lib/libnccl.so.2")))
assert nccl.ncclGetUniqueId(ctypes.create_string_buffer(128)) == 0
"#;

/// A program without any NCCL that takes our library for one, as vLLM does with VLLM_NCCL_SO_PATH.
const AS_NCCL: &str = "import airamp_accel, ctypes; assert ctypes.CDLL(airamp_accel.library()).ncclGetUniqueId(ctypes.create_string_buffer(128)) == 0";

#[test]
fn the_wheel_runs_a_job_finds_the_environments_nccl_and_leaves_nothing() {
    let Some(python) = Python::new() else { return };
    let out = temporary();
    let wheel = package("wheel", tree(), out.path());
    assert!(words(&wheel).contains("-py3-none-manylinux_2_"), "{}", wheel.display());
    let bare = python.contents();
    python.pip(&["install", "--quiet", "--no-index", "--no-deps", words(&wheel)]);
    for program in ["airamp", "airampd", "airamp-rank"] {
        python.run(program).arg("--version").run().assert_success();
    }
    for script in ["kubernetes/add-to", "kubernetes/monitoring/rules", "slurm/airamp-epilog"] {
        let path = python.site_packages().join("airamp_accel/share/airamp").join(script);
        let mode =
            fs::metadata(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).permissions();
        assert_eq!(mode.mode() & 0o111, 0o111, "{}", path.display());
    }
    let table = ["bench", "--sizes", "64KiB", "--datatypes", "float32", "--iterations", "1", "--warmup", "1"];
    assert!(python.run("airamp").args(table).run().assert_success().stdout_text().contains("vNMSE"));

    // The environment's NCCL is the emulated one, and the driver is where a machine has it: in the loader's path.
    let emulated = rank_program().with_file_name("libairamp_emulated_cuda.so");
    let (nvidia, driver) = (python.site_packages().join("nvidia"), out.path().join("driver"));
    for (folder, name) in [(nvidia.join("nccl/lib"), "libnccl.so.2"), (driver.clone(), "libcuda.so.1")] {
        fs::create_dir_all(&folder).expect("folders");
        fs::copy(&emulated, folder.join(name)).expect("a copy of the emulator");
    }
    fs::write(python.path("bin/torchrun"), TORCHRUN).expect("a program");
    Run::new("chmod").arg("+x").arg(python.path("bin/torchrun")).run().assert_success();
    for (command, step) in
        [(vec!["torchrun"], "own handle"), (vec!["python3", "-c", AS_NCCL], "AIRAMP_NCCL_PATH")]
    {
        let run = python
            .run("airamp")
            .args(["run", "--"])
            .args(&command)
            .library_dir(&driver)
            .env("AIRAMP_LOG", "info");
        let outcome = run.run();
        let lines = outcome.assert_success().product_lines();
        let is_found = |line: &String| line.contains(step) && line.contains(words(&nvidia));
        assert!(lines.iter().any(is_found), "{command:?} did not find it by {step}: {outcome}");
    }

    fs::remove_file(python.path("bin/torchrun")).expect("removed");
    fs::remove_dir_all(nvidia).expect("removed");
    python.pip(&["uninstall", "--quiet", "--yes", "airamp-accel"]);
    let left: Vec<_> = python.contents().difference(&bare).cloned().collect();
    assert_eq!(left, Vec::<String>::new(), "left behind");
}
