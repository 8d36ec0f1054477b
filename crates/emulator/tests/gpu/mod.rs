//! What the tests of the emulated GPU share: processes with their own environment, and
//! operations that report when they run.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod code_object;

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use airamp_emulator::gpu::{Fault, Operation, Run, Touch};
use airamp_vendor_abi::cuda::CudaError;

/// Nothing in these tests takes long; what waits this long is stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(20);
/// Long enough for something that must not happen to happen.
pub(crate) const A_WHILE: Duration = Duration::from_millis(150);

/// How a process that ran one test's body ended.
pub(crate) struct Ended {
    pub(crate) signal: Option<i32>,
    pub(crate) success: bool,
    pub(crate) errors: String,
}

/// Runs `body` in a process of its own, started from this test's program with `variables`
/// set. `test` is the name of the calling test. Returns in the parent only.
pub(crate) fn in_own_process(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Ended {
    const ROLE: &str = "AIRAMP_TEST_BODY";
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        let (started, is_started) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // Whatever a thread takes at its start, memory for its allocations too, it has by then.
            started.send(Box::new(0)).expect("the test waits for it");
            std::thread::sleep(3 * STUCK);
            eprintln!("the process is stuck");
            std::process::abort();
        });
        is_started.recv().expect("the watchdog");
        body();
        std::process::exit(0);
    }
    let output: Output = Command::new(std::env::current_exe().expect("the test's program"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, test)
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("the test's program starts");
    Ended {
        signal: output.status.signal(),
        success: output.status.success(),
        errors: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

impl Ended {
    pub(crate) fn expect_success(&self) {
        assert!(self.success, "the process failed:\n{}", self.errors);
    }
}

/// What a process of a test may still take while its addresses are limited: enough for any message that
/// it prints, too little for a thread.
const SPARE_ADDRESSES: u64 = 1 << 20;

/// Runs `part` while the process gets no more than a few addresses. No thread may be starting then.
pub(crate) fn short_of_addresses<R>(part: impl FnOnce() -> R) -> R {
    let pages: u64 = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split(' ').next()?.parse().ok())
        .expect("the size of this process");
    // SAFETY: asks for a number.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let before = set_address_limit(pages * page + SPARE_ADDRESSES);
    let result = part();
    set_address_limit(before);
    result
}

/// Returns the limit before.
fn set_address_limit(bytes: u64) -> u64 {
    // SAFETY: both calls only use the structure of this frame.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_AS, &mut limit);
        let before = std::mem::replace(&mut limit.rlim_cur, bytes);
        assert_eq!(libc::setrlimit(libc::RLIMIT_AS, &limit), 0);
        before
    }
}

/// An operation that does `run` each time, with no memory.
pub(crate) fn operation(
    label: &str,
    run: impl Fn() -> Result<(), Fault> + Send + Sync + 'static,
) -> Operation {
    touching(label, Vec::new(), run)
}

pub(crate) fn touching(
    label: &str,
    touches: Vec<Touch>,
    run: impl Fn() -> Result<(), Fault> + Send + Sync + 'static,
) -> Operation {
    let run = Arc::new(run);
    let prepare = move || -> Run {
        let run = Arc::clone(&run);
        Box::new(move || run())
    };
    Operation { label: label.to_owned(), touches, prepare: Arc::new(prepare) }
}

/// An operation that does nothing but touch memory.
pub(crate) fn touch(label: &str, touch: Touch) -> Operation {
    touching(label, vec![touch], || Ok(()))
}

/// An operation that holds its queue until told, and says when it has started.
pub(crate) struct Gate {
    pub(crate) started: Receiver<()>,
    open: Sender<()>,
}

impl Gate {
    pub(crate) fn new() -> (Self, Operation) {
        let (start, started) = channel();
        let (open, opened) = channel::<()>();
        let opened = Mutex::new(opened);
        let gate = operation("gate", move || {
            start.send(()).ok();
            let stuck = |_| Fault::new(CudaError::LAUNCH_FAILED, "the gate was never opened");
            opened.lock().unwrap().recv_timeout(STUCK).map_err(stuck)
        });
        (Self { started, open }, gate)
    }

    pub(crate) fn open(&self) {
        self.open.send(()).ok();
    }

    pub(crate) fn wait_for_start(&self) {
        self.started.recv_timeout(STUCK).expect("the gate starts");
    }
}

/// An operation that says when it runs.
pub(crate) fn signal(label: &str) -> (Receiver<()>, Operation) {
    let (sender, receiver) = channel();
    let operation = operation(label, move || {
        sender.send(()).ok();
        Ok(())
    });
    (receiver, operation)
}
