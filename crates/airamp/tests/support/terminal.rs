//! A pseudo-terminal with `airamp` in it: what it draws is read into a screen, keys are typed, the size changes.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use super::wait_until;

pub(crate) struct Terminal {
    master: File,
    /// Held, so that its settings can be asked after the end of the child.
    slave: OwnedFd,
    child: Child,
    shown: Arc<Mutex<Shown>>,
    before: libc::termios,
}

struct Shown {
    screen: vt100::Parser,
    bytes: Vec<u8>,
}

impl Terminal {
    pub(crate) fn start(command: &mut Command, columns: u16, rows: u16) -> Self {
        let (master, slave) = pair(columns, rows);
        let before = settings(&slave);
        let end = || Stdio::from(slave.try_clone().expect("a second descriptor"));
        command.stdin(end()).stdout(end()).stderr(end()).env("TERM", "xterm-256color");
        // SAFETY: setsid and ioctl are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            });
        }
        let child = command.spawn().expect("airamp starts");
        let screen = vt100::Parser::new(rows, columns, 0);
        let shown = Arc::new(Mutex::new(Shown { screen, bytes: Vec::new() }));
        collect(master.try_clone().expect("a second descriptor"), Arc::clone(&shown));
        Self { master, slave, child, shown, before }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("typed");
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        self.shown.lock().expect("no panic").screen.screen_mut().set_size(rows, columns);
        let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the descriptor is open and `size` is a winsize that outlives the call.
        let result = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(result, 0, "resized");
    }

    pub(crate) fn signal(&self, signal: i32) {
        // SAFETY: kill has no memory preconditions; the child has not been waited for.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    pub(crate) fn text(&self) -> String {
        self.shown.lock().expect("no panic").screen.screen().contents()
    }

    /// Everything that was written, with its control sequences.
    pub(crate) fn bytes(&self) -> String {
        String::from_utf8_lossy(&self.shown.lock().expect("no panic").bytes).into_owned()
    }

    pub(crate) fn wait_for(&self, part: &str) {
        wait_until(&format!("{part:?} on the screen"), || self.text().contains(part));
    }

    pub(crate) fn wait_for_the_end(&mut self) -> ExitStatus {
        let mut ended = None;
        wait_until("the end", || {
            ended = self.child.try_wait().expect("waited");
            ended.is_some()
        });
        ended.expect("it has ended")
    }

    /// The settings are as before, the screen is the one of before, and the cursor is seen.
    pub(crate) fn assert_given_back(&self) {
        let after = settings(&self.slave);
        // The input's speed may be spelled out where it was 'as the output's'.
        let control = |found: &libc::termios| found.c_cflag & !libc::CIBAUD;
        let modes = |found: &libc::termios| (found.c_iflag, found.c_oflag, found.c_lflag, control(found));
        assert_eq!(modes(&after), modes(&self.before), "the terminal's modes");
        wait_until("the alternate screen is left and the cursor shown", || {
            let shown = self.shown.lock().expect("no panic");
            let screen = shown.screen.screen();
            !screen.alternate_screen() && !screen.hide_cursor()
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Only where a test has failed is it still there.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(mut from: File, shown: Arc<Mutex<Shown>>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count) = from.read(&mut buffer) {
            let mut shown = shown.lock().expect("no panic");
            shown.screen.process(&buffer[..count]);
            shown.bytes.extend_from_slice(&buffer[..count]);
            if count == 0 {
                return;
            }
        }
    });
}

fn pair(columns: u16, rows: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: both integers and `size` outlive the call; null pointers are allowed for name and settings.
    let result = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(result, 0, "a pseudo-terminal");
    // SAFETY: openpty has just given us both descriptors, and nobody else has them.
    unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}

fn settings(of: &OwnedFd) -> libc::termios {
    // SAFETY: an all-zero termios is a valid value of plain integers.
    let mut found: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `found` outlives the call.
    assert_eq!(unsafe { libc::tcgetattr(of.as_raw_fd(), &raw mut found) }, 0, "asked");
    found
}
