//! Runs the built `airamp` in a bare environment and bounded in time.
#![allow(dead_code, reason = "each test file uses its own part of this module")]

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Only reached by a test that has failed.
const LIMIT: Duration = Duration::from_secs(60);

/// `airamp` with these arguments and none of the caller's AIRAMP_* or loader variables.
pub(crate) fn airamp(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_airamp"));
    command.args(args).env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command
}

/// A shell script as N ranks.
pub(crate) fn ranks(count: u32, script: &str) -> Command {
    airamp(&["run", "--no-preload", "--ranks", &count.to_string(), "--", "/bin/sh", "-c", script])
}

/// Starts the command with its output in pipes.
pub(crate) fn start(command: &mut Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("airamp starts")
}

/// Waits for the end of the child, or kills it and fails.
pub(crate) fn finish(mut child: Child) -> Output {
    let stdout = reader(child.stdout.take());
    let stderr = reader(child.stderr.take());
    let until = Instant::now() + LIMIT;
    let status = loop {
        if let Some(status) = child.try_wait().expect("waited") {
            break status;
        }
        if Instant::now() > until {
            child.kill().expect("killed");
            panic!("airamp did not end");
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let collected = |handle: std::thread::JoinHandle<Vec<u8>>| handle.join().expect("read");
    Output { status, stdout: collected(stdout), stderr: collected(stderr) }
}

fn reader(from: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            from.read_to_end(&mut bytes).expect("read");
        }
        bytes
    })
}

pub(crate) fn run(command: &mut Command) -> Output {
    finish(start(command))
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until the condition holds, or fails.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < until, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether a process runs, zombies not counted.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

/// Runs a shell command that must succeed. Files that a test executes are written by it: while this process
/// held one open for writing, a child started by another test's thread would inherit that, and the kernel
/// refuses to execute a file that somebody may write.
pub(crate) fn shell(script: &str, args: &[&Path]) {
    let status = Command::new("/bin/sh").args(["-ec", script, "sh"]).args(args).status().expect("a shell");
    assert!(status.success(), "{script}");
}
