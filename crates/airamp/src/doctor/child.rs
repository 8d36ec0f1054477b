//! Runs a child process for a bounded time: a driver that hangs must not hang the doctor.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_millis(5);
/// After the end of the child its pipes are empty at once, unless something else holds them.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What a child left behind.
pub(super) struct Finished {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error("could not be started: {0}")]
    NotStarted(#[from] io::Error),
    #[error("did not end within {} s", .0.as_secs())]
    TookTooLong(Duration),
}

pub(super) fn run_within(limit: Duration, command: &mut Command) -> Result<Finished, ChildError> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn()?;
    let stdout = collect(child.stdout.take());
    let stderr = collect(child.stderr.take());
    let until = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            let text = |from: Receiver<String>| from.recv_timeout(LAST_WORDS).unwrap_or_default();
            return Ok(Finished { status, stdout: text(stdout), stderr: text(stderr) });
        }
        if Instant::now() >= until {
            // Not waited for: one that hangs inside the kernel cannot be ended.
            // SAFETY: kill has no memory preconditions; the child is not reaped, so its group is still its own.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            return Err(ChildError::TookTooLong(limit));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Reads on a thread of its own, so that a child that writes much does not block.
fn collect(from: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What was read before an error is still worth showing.
            let _ = from.read_to_end(&mut bytes);
        }
        let _ = send.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_hangs_is_given_up() {
        let hung = run_within(Duration::from_millis(50), Command::new("sleep").arg("1000"));
        assert!(matches!(hung, Err(ChildError::TookTooLong(_))));
    }

    #[test]
    fn output_larger_than_a_pipe_is_collected() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "head -c 300000 /dev/zero; echo no >&2; exit 3"]);
        let finished = run_within(Duration::from_secs(60), &mut command).expect("it ends");
        assert_eq!((finished.stdout.len(), finished.stderr.as_str()), (300_000, "no\n"));
        assert_eq!(finished.status.code(), Some(3));
    }
}
