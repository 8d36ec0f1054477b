//! The live view of `airamp status` in a pseudo-terminal: it draws, reacts to keys and sizes, and gives the terminal
//! back however it ends.

#[path = "support/job.rs"]
mod job;
mod support;
#[path = "support/terminal.rs"]
mod terminal;

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use support::{airamp, wait_until};
use tempfile::TempDir;
use terminal::Terminal;

fn live(environment: &[(&str, &str)], columns: u16, rows: u16) -> (TempDir, Terminal) {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    job::started(base.path(), "bert");
    let mut command = airamp(&["status", "--watch", "0.2", "--telemetry-dir"]);
    command.arg(base.path()).envs(environment.iter().copied());
    let terminal = Terminal::start(&mut command, columns, rows);
    (base, terminal)
}

#[test]
fn it_draws_reacts_to_keys_and_gives_the_terminal_back() {
    let (_base, mut terminal) = live(&[], 80, 24);
    terminal.wait_for("[1 overview]");
    terminal.wait_for("q leave");
    terminal.wait_for("[1 of 2] job ");
    terminal.press("2");
    terminal.wait_for("[2 ranks]");
    terminal.wait_for("carries");
    terminal.press("\t");
    terminal.wait_for("[3 communicators]");
    terminal.wait_for(" on ");
    terminal.press("n");
    terminal.wait_for("[2 of 2] job ");
    terminal.press("?");
    terminal.wait_for("choose the section");
    terminal.press("q");
    let ended = terminal.wait_for_the_end();
    assert_eq!(ended.code(), Some(0));
    terminal.assert_given_back();
}

#[test]
fn it_fits_the_screen_when_that_changes() {
    let (_base, terminal) = live(&[], 80, 24);
    terminal.wait_for("q leave");
    for (columns, rows) in [(132, 43), (40, 10), (80, 24)] {
        terminal.resize(columns, rows);
        wait_until("the keys are in the last line", || {
            terminal.text().lines().nth(usize::from(rows) - 1).is_some_and(|line| line.starts_with("q leave"))
        });
    }
    terminal.signal(libc::SIGKILL);
}

#[test]
fn control_c_and_signals_end_it_in_order() {
    let (_base, mut terminal) = live(&[], 80, 24);
    terminal.wait_for("q leave");
    terminal.press("\u{3}");
    assert_eq!(terminal.wait_for_the_end().code(), Some(0));
    terminal.assert_given_back();
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
        let (_base, mut terminal) = live(&[], 80, 24);
        terminal.wait_for("q leave");
        terminal.signal(signal);
        let ended = terminal.wait_for_the_end();
        assert_eq!((ended.code(), ended.signal()), (Some(128 + signal), None));
        terminal.assert_given_back();
    }
}

#[test]
fn a_panic_gives_the_terminal_back_and_is_read_afterwards() {
    let (_base, mut terminal) = live(&[("AIRAMP_INJECT_PANIC", "status")], 80, 24);
    assert_eq!(terminal.wait_for_the_end().code(), Some(101));
    terminal.assert_given_back();
    terminal.wait_for("panicked");
}

#[test]
fn colour_is_there_unless_it_is_not_wanted() {
    let foreground = "\u{1b}[38;5;";
    let (_base, mut terminal) = live(&[], 80, 24);
    terminal.wait_for("not sent");
    assert!(terminal.bytes().contains(foreground), "{:?}", terminal.bytes());
    terminal.press("q");
    terminal.wait_for_the_end();
    let (_base, mut terminal) = live(&[("NO_COLOR", "1")], 80, 24);
    terminal.wait_for("not sent");
    terminal.press("q");
    terminal.wait_for_the_end();
    assert!(!terminal.bytes().contains(foreground), "{:?}", terminal.bytes());
}

#[test]
fn explain_at_a_terminal_explains_what_runs() {
    let base = tempfile::tempdir().expect("a folder");
    job::started(base.path(), "llama");
    let mut command = airamp(&["explain"]);
    let mut terminal = Terminal::start(command.env("AIRAMP_TELEMETRY_DIR", base.path()), 200, 40);
    assert_eq!(terminal.wait_for_the_end().code(), Some(0), "{}", terminal.text());
    terminal.wait_for("is on from call 12");
}

/// A shell at its prompt that knows the program as `$AIRAMP`. Its terminal forgets nothing at Ctrl-Z: else what is typed as
/// soon as the shell is back can be gone, since the kernel sends the signal first and then empties the terminal's input.
fn shell(home: &TempDir) -> Terminal {
    std::fs::write(home.path().join("libairamp_accel.so"), "").expect("written");
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "stty noflsh && exec sh -i"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("PS1", "ready> ")
        .current_dir(home);
    shell.env("AIRAMP_HOME", home.path()).env("AIRAMP", env!("CARGO_BIN_EXE_airamp"));
    let terminal = Terminal::start(&mut shell, 200, 40);
    terminal.wait_for("ready>");
    terminal
}

/// The quotes tell what is printed from what is typed.
fn stopped_by_control_z(terminal: &mut Terminal) {
    terminal.press("\u{1a}");
    terminal.wait_for("Stopped");
    terminal.press("echo at the pr''ompt\n");
    terminal.wait_for("at the prompt");
}

fn leave(mut terminal: Terminal) {
    terminal.press("exit\n");
    terminal.wait_for_the_end();
}

#[test]
fn control_z_stops_a_recording_with_its_program_and_the_shell_goes_on() {
    let home = tempfile::tempdir().expect("a folder");
    let mut terminal = shell(&home);
    terminal.press("$AIRAMP record -o out -- sh -c 'echo be\"\"gun; read line; echo he\"\"ard $line'\n");
    terminal.wait_for("begun");
    stopped_by_control_z(&mut terminal);
    terminal.press("fg\nagain\n");
    terminal.wait_for("heard again");
    terminal.wait_for("no call was recorded");
    leave(terminal);
}

#[test]
fn control_z_stops_a_recording_of_what_runs_already() {
    let home = tempfile::tempdir().expect("a folder");
    job::started(home.path(), "llama");
    let mut terminal = shell(&home);
    let folder = home.path().display();
    terminal.press(&format!("$AIRAMP record -o out --telemetry-dir {folder} --job llama\n"));
    terminal.wait_for("watching 2 processes");
    stopped_by_control_z(&mut terminal);
    // Ctrl-C could come before the shell has handed the terminal over.
    terminal.press("kill %1\nfg\n");
    terminal.wait_for("no call was recorded");
    leave(terminal);
}
