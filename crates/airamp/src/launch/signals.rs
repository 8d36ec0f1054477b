//! Signals that arrive while a job runs, as bytes on a socket. What was set up before is put back when the
//! job is over, so that between two jobs of a benchmark Ctrl-C works as ever. One job at a time.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is passed on to the ranks, and SIGCHLD, which says that one ended.
const CAUGHT: [i32; 9] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
    libc::SIGCHLD,
];

/// The socket to which the handler writes; -1 while no job runs.
static NOTES: AtomicI32 = AtomicI32::new(-1);
static ONE_JOB: Mutex<()> = Mutex::new(());

/// Catches signals until dropped.
pub(crate) struct Signals {
    reader: UnixStream,
    writer: UnixStream,
    before: Vec<(i32, libc::sigaction)>,
    _one_job: MutexGuard<'static, ()>,
}

impl Signals {
    pub(crate) fn catch() -> io::Result<Self> {
        let one_job = ONE_JOB.lock().unwrap_or_else(PoisonError::into_inner);
        let (reader, writer) = UnixStream::pair()?;
        writer.set_nonblocking(true)?;
        NOTES.store(writer.as_raw_fd(), Ordering::SeqCst);
        let mut signals = Self { reader, writer, before: Vec::new(), _one_job: one_job };
        for signal in CAUGHT {
            // Under nohup, SIGHUP is ignored and must stay so, for us and for the ranks.
            if signal == libc::SIGCHLD || action_of(signal)?.sa_sigaction != libc::SIG_IGN {
                signals.replace(signal, note as *const () as usize)?;
            }
        }
        // A closed pipe is reported by `write`, and the job then ends in order.
        signals.replace(libc::SIGPIPE, libc::SIG_IGN)?;
        Ok(signals)
    }

    fn replace(&mut self, signal: i32, handler: usize) -> io::Result<()> {
        self.before.push((signal, set_action(signal, &restarting(handler))?));
        Ok(())
    }

    /// The signals that came; waits for one at most `limit`.
    pub(crate) fn wait(&self, limit: Duration) -> Vec<i32> {
        let mut notes = [0_u8; 64];
        // A limit of zero would mean for ever.
        let limit = limit.max(Duration::from_millis(1));
        if self.reader.set_read_timeout(Some(limit)).is_err() {
            std::thread::sleep(limit.min(Duration::from_millis(50)));
            return Vec::new();
        }
        let count = (&self.reader).read(&mut notes).unwrap_or(0);
        notes[..count].iter().map(|note| i32::from(*note)).collect()
    }

    /// Tells whoever waits that nobody reads our output any more.
    pub(super) fn output_is_closed(&self) {
        let note = [libc::SIGPIPE as u8];
        // A full socket already has something that wakes the reader, and the pump tells it again.
        let _ = io::Write::write(&mut &self.writer, &note);
    }
}

/// What Ctrl-Z does to a program that does not catch it, and nothing where no shell could continue it: the kernel spares it
/// there as it spares the program that we have started. SIGCONT comes as a note like any other signal.
pub(crate) fn stop_ourselves() {
    let Ok(ours) = set_action(libc::SIGTSTP, &restarting(libc::SIG_DFL)) else { return };
    // SAFETY: raising a signal at this thread has no memory preconditions; it is taken before the call returns.
    unsafe { libc::raise(libc::SIGTSTP) };
    let _ = set_action(libc::SIGTSTP, &ours);
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, action) in self.before.drain(..) {
            let _ = set_action(signal, &action);
        }
        NOTES.store(-1, Ordering::SeqCst);
    }
}

extern "C" fn note(signal: libc::c_int) {
    let byte = signal as u8;
    // SAFETY: only async-signal-safe calls; errno is put back for the code that was interrupted; the
    // descriptor is open while this handler is installed (`Signals` owns it), and -1 is refused by write.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::write(NOTES.load(Ordering::SeqCst), (&raw const byte).cast(), 1);
        *errno = before;
    }
}

fn restarting(handler: usize) -> libc::sigaction {
    // SAFETY: sigaction is a plain C struct for which all zeroes is a valid value (no flags, empty mask).
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    action
}

fn action_of(signal: i32) -> io::Result<libc::sigaction> {
    let mut held = restarting(libc::SIG_DFL);
    // SAFETY: both pointers are valid for the call; a null new action only asks.
    let result = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut held) };
    if result == 0 { Ok(held) } else { Err(io::Error::last_os_error()) }
}

fn set_action(signal: i32, action: &libc::sigaction) -> io::Result<libc::sigaction> {
    let mut before = restarting(libc::SIG_DFL);
    // SAFETY: both pointers are valid for the call; the handler is `note` above or what was there before.
    let result = unsafe { libc::sigaction(signal, action, &raw mut before) };
    if result == 0 { Ok(before) } else { Err(io::Error::last_os_error()) }
}
