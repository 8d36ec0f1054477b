//! Progress on standard error: a bar on a terminal, nothing elsewhere, so that logs stay readable.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::streams::complain;

/// Steps of a part that the bar can tell apart.
const STEPS: u64 = 1000;

/// Clones show the same bar.
#[derive(Clone)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A benchmark of so many parts that take about the same time.
    pub(super) fn start(parts: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(parts as u64 * STEPS), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3}%  {elapsed}  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self { bar }
    }

    pub(super) fn enter(&self, part: usize, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
            bar.set_position(part as u64 * STEPS);
        }
    }

    /// Within the part, `done` of `total` measurements are over.
    pub(super) fn at(&self, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            let part = bar.position() / STEPS;
            let share = STEPS * done as u64 / total.max(1) as u64;
            bar.set_position(part * STEPS + share.min(STEPS - 1));
        }
    }

    pub(super) fn now(&self, what: String) {
        if let Some(bar) = &self.bar {
            bar.set_message(what);
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
