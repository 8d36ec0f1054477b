//! Watches over the ranks: passes signals on, and ends the whole job when one of them fails.
//! First SIGTERM, then, when the grace time is over, SIGKILL. It runs on a thread of its own.

use std::time::{Duration, Instant};

use super::ranks::{Ending, Ranks};
use super::signals::{Signals, stop_ourselves};
use crate::streams::complain;

/// SIGCHLD wakes us; this is for a process whose parent had it blocked.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LOOK_FOR_LEFTOVERS_EVERY: Duration = Duration::from_millis(10);

pub(super) struct Supervisor<'a> {
    ranks: Ranks,
    signals: &'a Signals,
    grace: Duration,
    /// The job's exit code, once it is known.
    verdict: Option<u8>,
    kill_at: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    pub(super) fn new(ranks: Ranks, signals: &'a Signals, grace: Duration) -> Self {
        Self { ranks, signals, grace, verdict: None, kill_at: None }
    }

    /// Returns the job's exit code when no rank is left.
    pub(super) fn run(mut self) -> u8 {
        loop {
            self.note_endings();
            if self.ranks.all_ended() {
                break;
            }
            self.kill_if_time_is_up();
            for signal in self.signals.wait(self.time_to_wait()) {
                self.pass_on(signal);
            }
        }
        self.end_leftovers();
        self.verdict.unwrap_or(0)
    }

    fn note_endings(&mut self) {
        let mut failed = None;
        for (rank, process) in self.ranks.iter_mut().filter(|(_, process)| process.ended.is_none()) {
            // A child that cannot be waited for is gone.
            let ending = process.look().unwrap_or(Some(Ending::Exited(1)));
            process.ended = ending;
            if let Some(ending) = ending.filter(|ending| ending.code() != 0) {
                failed.get_or_insert((rank, process.pid(), ending));
            }
        }
        if let (Some((rank, pid, ending)), None) = (failed, self.verdict) {
            let others = if self.ranks.all_ended() { "" } else { "; ending the other ranks" };
            complain(&format!("airamp: rank {rank} (pid {pid}) {}{others}", described(ending)));
            self.end_all(ending.code());
        }
    }

    fn end_all(&mut self, verdict: u8) {
        self.verdict = Some(verdict);
        self.kill_at = Some(Instant::now() + self.grace);
        self.ranks.signal_groups(libc::SIGTERM);
        // One that is stopped would not see the signal.
        self.ranks.signal_groups(libc::SIGCONT);
    }

    fn kill_if_time_is_up(&mut self) {
        if self.kill_at.is_some_and(|when| when <= Instant::now()) {
            let grace = self.grace.as_secs_f32();
            complain(&format!("airamp: ranks still run {grace} s after SIGTERM; killing them"));
            self.ranks.signal_groups(libc::SIGKILL);
            self.kill_at = None;
        }
    }

    fn time_to_wait(&self) -> Duration {
        self.kill_at.map_or(LOOK_EVERY, |when| when.saturating_duration_since(Instant::now()).min(LOOK_EVERY))
    }

    fn pass_on(&mut self, signal: i32) {
        match signal {
            libc::SIGCHLD => {}
            libc::SIGPIPE if self.verdict.is_none() => self.end_all(128 + libc::SIGPIPE as u8),
            libc::SIGPIPE => {}
            // As `kill` would: helper processes of a rank may not expect these two.
            libc::SIGUSR1 | libc::SIGUSR2 => self.ranks.signal_processes(signal),
            libc::SIGTSTP => self.stop(),
            _ => self.ranks.signal_groups(signal),
        }
    }

    /// Ctrl-Z: the ranks stop, then we do. Afterwards we were continued, or spared; so must they be.
    fn stop(&self) {
        self.ranks.signal_groups(libc::SIGTSTP);
        stop_ourselves();
        self.ranks.signal_groups(libc::SIGCONT);
    }

    /// Ends what the ranks started and left behind.
    fn end_leftovers(&mut self) {
        if !self.ranks.anything_alive() {
            return;
        }
        self.ranks.signal_groups(libc::SIGTERM);
        let until = self.kill_at.unwrap_or_else(|| Instant::now() + self.grace);
        while Instant::now() < until && self.ranks.anything_alive() {
            std::thread::sleep(LOOK_FOR_LEFTOVERS_EVERY);
        }
    }
}

fn described(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exited with code {code}"),
        Ending::Killed(signal) => format!("was killed by signal {signal}{}", name_of(signal)),
    }
}

fn name_of(signal: i32) -> &'static str {
    match signal {
        libc::SIGINT => " (SIGINT)",
        libc::SIGILL => " (SIGILL)",
        libc::SIGABRT => " (SIGABRT)",
        libc::SIGBUS => " (SIGBUS)",
        libc::SIGFPE => " (SIGFPE)",
        libc::SIGKILL => " (SIGKILL)",
        libc::SIGSEGV => " (SIGSEGV)",
        libc::SIGPIPE => " (SIGPIPE)",
        libc::SIGTERM => " (SIGTERM)",
        _ => "",
    }
}
