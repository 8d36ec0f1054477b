//! The terminal while the live view has it: raw input, the alternate screen, no cursor. However the command ends
//! short of SIGKILL (a key, a signal, an error, a panic), the terminal is given back as it was.

use std::io::{self, Stdout, stdout};
use std::panic;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};

/// Whether there is something to give back; a panic may come before or after.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The first signal that asked us to end, or 0.
static ASKED_TO_END: AtomicI32 = AtomicI32::new(0);

pub(super) type Drawn = Terminal<CrosstermBackend<Stdout>>;

/// Held while the terminal is ours.
pub(super) struct Screen {
    pub(super) terminal: Drawn,
}

impl Screen {
    pub(super) fn take() -> io::Result<Self> {
        give_back_on_panic();
        end_on_signals();
        take()?;
        match Terminal::new(CrosstermBackend::new(stdout())) {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    /// Stops like any other program of a shell's job, and goes on when the shell says so.
    pub(super) fn stop_for_a_while(&mut self) -> io::Result<()> {
        give_back();
        // SAFETY: raise has no memory preconditions; the default action of SIGTSTP stops this process until SIGCONT.
        unsafe { libc::raise(libc::SIGTSTP) };
        take()?;
        self.terminal.clear()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// The signal that asked the command to end.
pub(super) fn asked_to_end() -> Option<i32> {
    Some(ASKED_TO_END.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

fn take() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode().and_then(|()| execute!(stdout(), EnterAlternateScreen, Hide));
    if taken.is_err() {
        give_back();
    }
    taken
}

/// What cannot be given back is lost with the terminal itself.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Before the message of the panic, which would else be lost with the alternate screen.
fn give_back_on_panic() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        give_back();
        before(what);
    }));
}

fn end_on_signals() {
    extern "C" fn note(signal: libc::c_int) {
        let _ = ASKED_TO_END.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
    }
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        let handler = note as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler only stores to an atomic, which is allowed in a handler.
        unsafe { libc::signal(signal, handler) };
    }
}
