//! Steps whose calls are all alike differ by their pauses alone. This counts the calls between pauses and says when
//! that number has come several times in a row.

use super::learner::DEPTH;

/// So many times the usual pause between calls is a pause between bursts.
pub(super) const PAUSE: f32 = 3.0;
/// What counts of a pause is at most so many times the usual one.
const COUNTED: f32 = 1.1;
/// The shortest of the first pauses is the usual one; then one counts for one part of so many, at least. Both that and how
/// little a longer one counts make a step show its pauses soon after a warm-up that was slower.
const FIRST: u32 = 4;
const MEMORY: u32 = 8;
const BURSTS: usize = 4;
/// Bursts of fewer calls than this must come once more.
pub(super) const FEW: u32 = 8;
/// Of fewer than this they are layers more often than steps, unless so much time lies between them.
pub(super) const VERY_FEW: u32 = 4;
pub(super) const SLOW_NS: f32 = 1e7;

pub(super) struct Pauses {
    /// About the mean pause within bursts.
    usual_ns: f32,
    heard: u32,
    calls: u32,
    bursts: [u32; BURSTS],
}

impl Pauses {
    pub(super) const fn new() -> Self {
        Self { usual_ns: 0.0, heard: 0, calls: 0, bursts: [0; BURSTS] }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// The calls of each of the last bursts, if this call ends them and they had the same number.
    pub(super) fn hear(&mut self, gap_ns: f32) -> Option<u32> {
        self.heard = self.heard.saturating_add(1);
        // The first call has no pause, and the second none to compare it with.
        let paused = self.heard > 2 && gap_ns > self.usual_ns * PAUSE;
        if self.heard == 2 || (self.heard <= FIRST && gap_ns < self.usual_ns) {
            self.usual_ns = gap_ns;
        }
        // A pause counts for little: in short bursts it is one of two or three, and would be usual itself.
        let counted_ns = gap_ns.min(self.usual_ns * COUNTED);
        self.usual_ns += (counted_ns - self.usual_ns) / self.heard.clamp(1, MEMORY) as f32;
        if !paused {
            self.calls = self.calls.saturating_add(1);
            return None;
        }
        let calls = std::mem::replace(&mut self.calls, 1);
        self.bursts.rotate_right(1);
        self.bursts[0] = calls;
        let equal = self.are_equal(calls);
        let is_layer = calls < VERY_FEW && gap_ns < SLOW_NS;
        (equal && calls > 1 && !is_layer && calls as usize * BURSTS <= DEPTH).then_some(calls)
    }

    /// One of several longer bursts may be two: where calls become faster, the first pause is none beside what was usual.
    fn are_equal(&self, calls: u32) -> bool {
        let (asked, most_doubled) = if calls < FEW { (BURSTS, 0) } else { (BURSTS - 1, 1) };
        let others = self.bursts.iter().take(asked).filter(|burst| **burst != calls);
        let doubled = others.clone().filter(|burst| **burst == calls.saturating_mul(2)).count();
        doubled == others.count() && doubled <= most_doubled
    }
}
