//! Steps whose calls are all alike differ by their pauses alone. This counts the calls between pauses and says when
//! that number has come several times in a row.

use super::learner::DEPTH;

/// So many times the mean pause between calls is a pause between bursts.
pub(super) const PAUSE: f32 = 3.0;
const BURSTS: usize = 4;
/// Bursts of fewer calls than this must come once more.
const FEW: u32 = 8;

pub(super) struct Pauses {
    mean_ns: f32,
    heard: u32,
    calls: u32,
    bursts: [u32; BURSTS],
}

impl Pauses {
    pub(super) const fn new() -> Self {
        Self { mean_ns: 0.0, heard: 0, calls: 0, bursts: [0; BURSTS] }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// The calls of each of the last bursts, if this call ends them and they had the same number.
    pub(super) fn hear(&mut self, gap_ns: f32) -> Option<u32> {
        self.heard = self.heard.saturating_add(1);
        // The first call has no pause, and the second none to compare it with.
        let paused = self.heard > 2 && gap_ns > self.mean_ns * PAUSE;
        if self.heard <= 2 {
            self.mean_ns = gap_ns;
        }
        self.mean_ns += (gap_ns - self.mean_ns) / self.heard.min(24) as f32;
        if !paused {
            self.calls = self.calls.saturating_add(1);
            return None;
        }
        let calls = std::mem::replace(&mut self.calls, 1);
        self.bursts.rotate_right(1);
        self.bursts[0] = calls;
        let asked = if calls < FEW { BURSTS } else { BURSTS - 1 };
        let equal = self.bursts.iter().take(asked).all(|burst| *burst == calls);
        (equal && calls > 1 && calls as usize * BURSTS <= DEPTH).then_some(calls)
    }
}
