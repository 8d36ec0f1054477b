//! `airamp config`, `airamp doctor` and `airamp emulator dir`, as a user meets them.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use support::{airamp, finish, run, shell, start, stderr, stdout};

fn json(output: &std::process::Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stdout(output)))
}

fn folder_with_file(text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("airamp.conf");
    fs::write(&path, text).expect("written");
    let path = path.to_str().expect("UTF-8").to_owned();
    (folder, path)
}

/// A shell script in the place of `airamp-rank`.
fn rank_program(folder: &Path, script: &str) {
    let (text, program) = (folder.join("script"), folder.join("airamp-rank"));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).expect("written");
    shell("cp \"$1\" \"$2\"; chmod 755 \"$2\"", &[&text, &program]);
}

#[test]
fn config_shows_each_value_with_its_source_and_warns_on_stderr() {
    let (_folder, path) = folder_with_file("metrics_port = 1234\ncolour = 1\n");
    let output = run(airamp(&["config"]).env("AIRAMP_CONFIG", &path).env("AIRAMP_LOG", "debug"));
    assert_eq!(output.status.code(), Some(0));
    let words = |key: &str| -> Vec<String> {
        let text = stdout(&output);
        let line = text.lines().find(|line| line.starts_with(key)).expect("a line").to_owned();
        line.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(words("metrics_port")[1..3], ["1234", &format!("{path}:1")]);
    assert_eq!(words("log ")[1..3], ["debug", "environment"]);
    assert_eq!(words("mode")[1..3], ["observe", "default"]);
    assert!(stderr(&output).contains(&format!("{path}:2: unknown key \"colour\"")), "{}", stderr(&output));
}

#[test]
fn config_shows_no_control_characters() {
    let output = run(airamp(&["config"]).env("AIRAMP_LOG_FILE", "/tmp/\u{1b}[2Jx\ny"));
    let text = stdout(&output);
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let line = |key: &str| text.lines().find(|line| line.starts_with(key)).expect("a line");
    assert!(line("log_file").contains("[2Jx\\ny"), "{text}");
}

#[test]
fn config_as_json_has_typed_values() {
    let (_folder, path) = folder_with_file("min_bytes = \"4 MiB\"\n");
    let output = run(airamp(&["config", "--json"]).env("AIRAMP_CONFIG", &path));
    let value = json(&output);
    let setting = |key: &str| {
        let settings = value["settings"].as_array().expect("settings");
        settings.iter().find(|setting| setting["key"] == key).expect("a setting").clone()
    };
    assert_eq!(setting("min_bytes")["value"], 4 << 20);
    assert_eq!((&setting("min_bytes")["source"], &setting("min_bytes")["line"]), (&"file".into(), &1.into()));
    assert_eq!(setting("disable")["value"], false);
    assert_eq!(setting("nccl_path")["value"], Value::Null);
    assert_eq!(value["file"]["read"], true);
}

#[test]
fn config_ends_quietly_when_nobody_reads_it() {
    let mut child = start(&mut airamp(&["config", "--json"]));
    drop(child.stdout.take());
    let output = finish(child);
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn doctor_names_a_broken_library_as_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libairamp_accel.so"), "not a library").expect("written");
    let output = run(airamp(&["doctor", "--json"]).env("AIRAMP_HOME", folder.path()));
    assert_eq!(output.status.code(), Some(2), "{}", stdout(&output));
    let value = json(&output);
    assert_eq!(value["status"], "problem");
    assert_eq!(value["checks"][0]["name"], "preload");
    assert!(value["checks"][0]["found"].as_str().expect("text").contains("cannot be preloaded"), "{value}");
}

#[test]
fn doctor_reports_what_the_probe_says() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = r#"{"gpu":{"kind":"cuda","library":"libcuda.so.1","driver_version":12040,
        "devices":[{"name":"H200","arch":"sm_90"}],"error":null},
        "nccl":{"path":"/lib/libnccl.so.2","version":22809,"error":null}}"#;
    rank_program(folder.path(), &format!("echo '{}'", answer.replace('\n', " ")));
    let output = run(airamp(&["doctor"]).env("AIRAMP_HOME", folder.path()));
    let text = stdout(&output);
    for part in ["CUDA 12.4 (libcuda.so.1)", "0: H200 (sm_90)", "2.28.9 (/lib/libnccl.so.2)"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn doctor_calls_a_library_that_is_named_and_absent_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let answer = r#"{"gpu":{"kind":"none"},"nccl":{"path":null,"version":null,"error":"cannot open"}}"#;
    rank_program(folder.path(), &format!("echo '{answer}'"));
    let nccl = |named: &[(&str, &str)]| {
        let mut command = airamp(&["doctor"]);
        let output = run(command.env("AIRAMP_HOME", folder.path()).envs(named.iter().copied()));
        stdout(&output).lines().find(|line| line.contains(" nccl ")).expect("a line").to_owned()
    };
    assert!(nccl(&[]).starts_with("warning"), "{}", nccl(&[]));
    let named = nccl(&[("AIRAMP_NCCL_PATH", "/none/libnccl.so")]);
    assert!(named.starts_with("problem"), "{named}");
    assert!(named.contains("/none/libnccl.so") && named.contains("unset it"), "{named}");
}

#[test]
fn doctor_looks_at_the_kernels_that_would_be_used() {
    let kernels = |folder: Option<&Path>| {
        let output = run(airamp(&["doctor"]).envs(folder.map(|folder| ("AIRAMP_KERNEL_DIR", folder))));
        stdout(&output).lines().find(|line| line.contains(" kernels ")).expect("a line").to_owned()
    };
    assert!(kernels(None).starts_with("ok") && kernels(None).contains("embedded: sm_80, sm_90"));
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/blobs");
    let found = kernels(Some(&ours));
    assert!(found.starts_with("ok") && found.contains("blobs): sm_80, sm_90"), "{found}");

    let folder = tempfile::tempdir().expect("a folder");
    let found = kernels(Some(folder.path()));
    assert!(found.starts_with("warning") && found.contains("manifest.toml"), "{found}");
    fs::copy(ours.join("manifest.toml"), folder.path().join("manifest.toml")).expect("copied");
    let found = kernels(Some(folder.path()));
    assert!(found.starts_with("warning") && found.contains("sm_80.cubin: listed, but not there"), "{found}");
}

fn fifo(path: &Path) {
    shell("mkfifo \"$1\"", &[path]);
}

#[test]
fn doctor_waits_for_no_fifo_in_the_place_of_the_log_or_of_the_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, manifest) = (folder.path().join("log"), folder.path().join("manifest.toml"));
    fifo(&log);
    fifo(&manifest);
    let mut command = airamp(&["doctor", "--json"]);
    command.env("AIRAMP_LOG_FILE", &log).env("AIRAMP_KERNEL_DIR", folder.path());
    let report = json(&run(&mut command));
    let found = |name: &str| {
        let checks = report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["name"] == name).expect("this check");
        (check["status"].clone(), check["found"].to_string())
    };
    assert_eq!(found("log file").0, "problem", "{}", found("log file").1);
    assert!(found("kernels").1.contains("no regular file"), "{}", found("kernels").1);
}

#[test]
fn a_fifo_in_the_place_of_code_objects_is_named_and_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let manifest = folder.path().join("manifest.toml");
    let of_folder = |command: &str| run(airamp(&["kernels", command, "--dir"]).arg(folder.path()));
    let hash = "0".repeat(64);
    let text = format!("[[blob]]\nfile = \"a.ptx\"\narchitecture = \"compute_80\"\nsha256 = \"{hash}\"\n");
    fs::write(&manifest, text).expect("written");
    fifo(&folder.path().join("a.ptx"));
    let listed = of_folder("list");
    assert!(stdout(&listed).contains("missing"), "{}", stdout(&listed));
    let verified = of_folder("verify");
    assert_eq!(verified.status.code(), Some(1));
    assert!(
        stdout(&verified).contains("a.ptx: cannot be read: it is no regular file"),
        "{}",
        stdout(&verified)
    );
    fs::remove_file(&manifest).expect("removed");
    fifo(&manifest);
    for command in ["list", "verify"] {
        let output = of_folder(command);
        assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
        assert!(stderr(&output).contains("no regular file"), "{}", stderr(&output));
    }
}

#[test]
fn doctor_bears_a_probe_that_breaks() {
    let folder = tempfile::tempdir().expect("a folder");
    rank_program(folder.path(), "echo nonsense; echo driver fell over >&2; exit 9");
    let output = run(airamp(&["doctor"]).env("AIRAMP_HOME", folder.path()));
    assert_eq!(output.status.code(), Some(2));
    assert!(stdout(&output).contains("driver fell over"), "{}", stdout(&output));
}

#[test]
fn doctor_passes_the_warnings_about_settings_on() {
    let (_folder, path) = folder_with_file("metrics_port = \"x\"\n");
    let mut command = airamp(&["doctor"]);
    let output = run(command.env("AIRAMP_CONFIG", &path).env("AIRAMP_TELEMETRY_DIR", "shm"));
    assert!(stdout(&output).contains(&format!("{path}:1: metrics_port")), "{}", stdout(&output));
    let relative = "AIRAMP_TELEMETRY_DIR in the environment: expected an absolute path";
    assert!(stdout(&output).contains(relative), "{}", stdout(&output));
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn the_emulators_folder_is_made_by_many_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libairamp_emulated_cuda.so", "libairamp_emulated_hip.so"] {
        fs::write(folder.path().join(name), name).expect("written");
    }
    let children: Vec<_> =
        (0..8).map(|_| start(airamp(&["emulator", "dir"]).env("AIRAMP_HOME", folder.path()))).collect();
    let emulator = folder.path().join("emulator");
    for output in children.into_iter().map(finish) {
        assert_eq!(stdout(&output).trim_end(), emulator.to_string_lossy(), "{}", stderr(&output));
    }
    let read = |name: &str| {
        fs::read_to_string(emulator.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    for name in [
        "libcuda.so.1",
        "libcuda.so",
        "libcudart.so",
        "libcudart.so.12",
        "libcudart.so.13",
        "libnccl.so.2",
        "libnccl.so",
    ] {
        assert_eq!(read(name), "libairamp_emulated_cuda.so");
    }
    for name in ["libamdhip64.so", "libamdhip64.so.6", "librccl.so.1", "librccl.so"] {
        assert_eq!(read(name), "libairamp_emulated_hip.so");
    }
    let left = fs::read_dir(&emulator).expect("listed").count();
    assert_eq!(left, 11, "nothing temporary is left");
}

#[test]
fn where_the_folder_cannot_be_made_the_user_gets_one_of_his_own() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libairamp_emulated_cuda.so"), "cuda").expect("written");
    // A file in its place stops even root.
    fs::write(folder.path().join("emulator"), "in the way").expect("written");
    let runtime = tempfile::tempdir().expect("a folder");
    let mut command = airamp(&["emulator", "dir"]);
    let output = run(command.env("AIRAMP_HOME", folder.path()).env("XDG_RUNTIME_DIR", runtime.path()));
    let made = stdout(&output);
    assert!(made.starts_with(&*runtime.path().to_string_lossy()), "{made} {}", stderr(&output));
    let nccl = fs::read_to_string(format!("{}/libnccl.so.2", made.trim_end())).expect("a link that holds");
    assert_eq!(nccl, "cuda");
}

#[test]
fn a_folder_that_others_may_write_to_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("libairamp_emulated_cuda.so"), "cuda").expect("written");
    fs::write(folder.path().join("emulator"), "in the way").expect("written");
    let runtime = tempfile::tempdir().expect("a folder");
    // SAFETY: geteuid has no preconditions and cannot fail.
    let ours = runtime.path().join(format!("airamp-{}", unsafe { libc::geteuid() }));
    fs::create_dir(&ours).expect("made");
    fs::set_permissions(&ours, fs::Permissions::from_mode(0o777)).expect("opened to all");
    let mut command = airamp(&["emulator", "dir"]);
    let output = run(command.env("AIRAMP_HOME", folder.path()).env("XDG_RUNTIME_DIR", runtime.path()));
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("others may write to it"), "{}", stderr(&output));
}
