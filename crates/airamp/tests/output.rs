//! What becomes of the ranks' output, and of airamp's own, where it cannot be written at once or at all.

mod support;

use std::fs::OpenOptions;
use std::io::{PipeReader, PipeWriter, Read};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::{airamp, finish, ranks, run, stderr, wait_until};

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full").into()
}

/// A pipe that refuses a write for which it has no room, as some terminals and CI runners hand out.
fn pipe_that_never_blocks() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // SAFETY: fcntl with these arguments only sets a flag of a descriptor that `writer` owns.
    assert_eq!(unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) }, 0);
    (reader, writer)
}

fn is_full(pipe: &PipeWriter) -> bool {
    let mut polled = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: the pointer is that of one pollfd, and the count says so.
    unsafe { libc::poll(&raw mut polled, 1, 0) == 0 }
}

#[test]
fn a_pipe_that_is_full_for_a_while_does_not_end_the_job() {
    let (mut reader, writer) = pipe_that_never_blocks();
    let mut command = ranks(1, "yes | head -c 400000");
    command.stdout(writer.try_clone().expect("a second descriptor")).stderr(Stdio::piped());
    let child = command.spawn().expect("airamp starts");
    // It holds the second descriptor, without which the pipe would never end.
    drop(command);
    wait_until("the pipe is full", || is_full(&writer));
    drop(writer);
    std::thread::sleep(Duration::from_millis(100));
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("read");
    let output = finish(child);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(text, "[0] y\n".repeat(200_000));
}

#[test]
fn output_that_cannot_be_written_ends_the_job_with_125_and_the_reason() {
    let mut command = ranks(2, "while :; do echo y; done");
    let child = command.stdout(full()).stderr(Stdio::piped()).spawn().expect("airamp starts");
    let output = finish(child);
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
}

#[test]
fn complaints_that_cannot_be_written_leave_the_exit_code_as_it_is() {
    let ended = |command: &mut Command| {
        finish(command.stdout(Stdio::piped()).stderr(full()).spawn().expect("airamp starts")).status.code()
    };
    assert_eq!(ended(&mut ranks(2, "exit 9")), Some(9));
    assert_eq!(ended(&mut airamp(&["run", "--no-preload", "--", "/nonexistent/program"])), Some(127));
    assert_eq!(ended(airamp(&["config"]).env("AIRAMP_LOG", "loud")), Some(0));
}

#[test]
fn what_a_command_prints_and_cannot_is_an_error() {
    for command in [
        "config",
        "config --json",
        "doctor",
        "doctor --json",
        "kernels list",
        "kernels list --json",
        "kernels verify",
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let child = airamp(&args).stdout(full()).stderr(Stdio::piped()).spawn().expect("airamp starts");
        let output = finish(child);
        assert_eq!(output.status.code(), Some(125), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains("No space left on device"), "{command}: {}", stderr(&output));
    }
}

#[test]
fn a_script_whose_interpreter_is_missing_is_not_called_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("script");
    support::shell("printf '#!/no/such\\n' > \"$1\"; chmod 755 \"$1\"", &[&script]);
    let path = script.to_str().expect("UTF-8");
    for args in [&["run", "--no-preload", "--", path][..], &["run", "--no-preload", "--", "script"]] {
        let output = run(airamp(args).env("PATH", folder.path()));
        assert_eq!(output.status.code(), Some(126), "{}", stderr(&output));
        assert!(stderr(&output).contains("interpreter"), "{}", stderr(&output));
    }
}
