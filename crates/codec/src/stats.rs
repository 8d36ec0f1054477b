//! What quantising tells about its own quality, and reading about what it was given. The counts are exact and the same in every
//! implementation; the two sums are samples for the accuracy guard and may differ in the last digits.

use std::ops::AddAssign;

/// Error and signal are taken from the blocks of a packet whose index is a multiple of this.
pub const SAMPLED_EVERY: usize = 256;

/// Counts and samples of one or more packets; add them up with `+=`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stats {
    /// Elements that did not fit the range of the codes and became its end.
    pub saturated: u64,
    /// Blocks with at least one non-finite element.
    pub non_finite_blocks: u64,
    /// Sum of (decoded - element)² over the finite elements of the sampled blocks.
    pub squared_error: f64,
    /// Sum of element² over the same elements.
    pub signal: f64,
    /// Packets read whose tag was not the one expected.
    pub foreign: u64,
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.saturated += other.saturated;
        self.non_finite_blocks += other.non_finite_blocks;
        self.squared_error += other.squared_error;
        self.signal += other.signal;
        self.foreign += other.foreign;
    }
}
