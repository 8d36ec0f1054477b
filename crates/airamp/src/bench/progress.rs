//! Progress on standard error: a bar on a terminal, a plain line per round elsewhere,
//! so that logs stay readable.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::measurements::Side;
use crate::streams::complain;

/// Parts of a round that the bar can tell apart.
const STEPS: u64 = 1000;

/// Clones show the same bar.
#[derive(Clone)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    rounds: usize,
}

impl Progress {
    pub(super) fn start(rounds: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar =
                ProgressBar::with_draw_target(Some(rounds as u64 * STEPS), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3}%  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar, rounds }
    }

    pub(super) fn enter_round(&self, round: usize, side: Side) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(side.to_string());
                bar.set_position(round as u64 * STEPS);
            }
            None => complain(&format!("airamp bench: round {} of {}, {side}", round + 1, self.rounds)),
        }
    }

    /// Within the round, `done` of `total` measurements are over.
    pub(super) fn at(&self, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            let round = bar.position() / STEPS;
            let share = STEPS * done as u64 / total.max(1) as u64;
            bar.set_position(round * STEPS + share.min(STEPS - 1));
        }
    }

    /// A line that a rank printed and that is no measurement.
    pub(super) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => complain(text),
        }
    }

    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
