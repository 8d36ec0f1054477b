//! How long steps take, and when that changed for good. Differences from the mean are added up, in units of what is
//! usual and clipped, so that one slow step is not a change and a few in a row are. Where communication was measured it
//! says whether that is what changed.

use super::beat::{Change, Grew};

/// Steps from which the first mean is taken.
const FIRST: u32 = 8;
/// A single step counts for no more than this many usual differences.
const CLIP: f32 = 4.0;
/// A difference below this is taken for none.
const IDLE: f32 = 0.75;
const ENOUGH: f32 = 10.0;
const FEWEST_STEPS: u32 = 6;
/// A change by less than this part of the step is not worth telling.
const LEAST_CHANGE: f32 = 0.05;
/// The usual difference is taken for no less than this part of the step.
const LEAST_SPREAD: f32 = 0.02;

/// A mean that is made of samples as they come.
#[derive(Clone, Copy)]
struct Mean {
    ns: f32,
    samples: u32,
}

impl Mean {
    const NONE: Self = Self { ns: 0.0, samples: 0 };

    /// Counts for one part in `most`, at least.
    fn add(&mut self, ns: f32, most: u32) {
        self.samples = self.samples.saturating_add(1).min(most);
        self.ns += (ns - self.ns) / self.samples as f32;
    }
}

pub(super) struct Pace {
    usual: Mean,
    spread: Mean,
    slower: f32,
    faster: f32,
    /// Since the step at which it began to differ.
    since: Mean,
    since_step: u64,
    communication: Mean,
    communication_since: Mean,
}

impl Pace {
    pub(super) const fn new() -> Self {
        Self {
            usual: Mean::NONE,
            spread: Mean::NONE,
            slower: 0.0,
            faster: 0.0,
            since: Mean::NONE,
            since_step: 0,
            communication: Mean::NONE,
            communication_since: Mean::NONE,
        }
    }

    /// A whole step took this long.
    pub(super) fn step(&mut self, ns: f32, step: u64) -> Option<Change> {
        let off = ns - self.usual.ns;
        if self.usual.samples < FIRST {
            if self.usual.samples > 0 {
                self.spread.add(off.abs(), 32);
            }
            self.usual.add(ns, 32);
            return None;
        }
        let unit = (self.spread.ns * 1.25).max(self.usual.ns * LEAST_SPREAD).max(1.0);
        let usual_differences = (off / unit).clamp(-CLIP, CLIP);
        self.spread.add(usual_differences.abs() * unit, 32);
        self.slower = (self.slower + usual_differences - IDLE).max(0.0);
        self.faster = (self.faster - usual_differences - IDLE).max(0.0);
        if self.slower + self.faster == 0.0 {
            self.settle();
            self.usual.add(ns, 32);
            return None;
        }
        if self.since.samples == 0 {
            self.since_step = step;
        }
        self.since.add(ns, u32::MAX);
        let enough = self.slower.max(self.faster) > ENOUGH && self.since.samples >= FEWEST_STEPS;
        enough.then(|| self.changed()).flatten()
    }

    pub(super) fn communicated(&mut self, ns: f32) {
        let since = self.since.samples > 0;
        let mean = if since { &mut self.communication_since } else { &mut self.communication };
        mean.add(ns, 32);
    }

    /// The difference went away: what was measured meanwhile is as usual.
    fn settle(&mut self) {
        if self.communication_since.samples > 0 {
            self.communication.add(self.communication_since.ns, 32);
        }
        self.since = Mean::NONE;
        self.communication_since = Mean::NONE;
    }

    fn changed(&mut self) -> Option<Change> {
        let (before, after) = (self.usual.ns, self.since.ns);
        let change = Change {
            began_at_step: self.since_step,
            before_ns: before as u64,
            after_ns: after as u64,
            grew: self.grew(after - before),
        };
        if self.communication_since.samples > 0 {
            self.communication = self.communication_since;
        }
        *self = Self {
            usual: Mean { ns: after, samples: FIRST },
            spread: self.spread,
            communication: self.communication,
            ..Self::new()
        };
        ((after - before).abs() > before * LEAST_CHANGE).then_some(change)
    }

    fn grew(&self, by_ns: f32) -> Grew {
        if self.communication.samples == 0 || self.communication_since.samples == 0 || by_ns == 0.0 {
            return Grew::Unknown;
        }
        let part = (self.communication_since.ns - self.communication.ns) / by_ns;
        match part {
            part if part >= 0.75 => Grew::Communication,
            part if part <= 0.25 => Grew::Compute,
            _ => Grew::Both,
        }
    }
}
