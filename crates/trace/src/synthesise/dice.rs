//! Chance that is the same everywhere: whole numbers and their sums, no function whose last bit a machine may round
//! otherwise.

pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number: a counter by the golden ratio, well stirred.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// From 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Whether something of that probability happens.
    pub(super) fn is(&mut self, probability: f64) -> bool {
        self.share() < probability
    }

    /// From `least` to `most`, both among them.
    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most.saturating_sub(least) + 1)
    }

    pub(super) fn one_of<T: Copy>(&mut self, all: &[T], otherwise: T) -> T {
        let place = self.next() % all.len().max(1) as u64;
        all.get(place as usize).copied().unwrap_or(otherwise)
    }

    /// A factor with that standard deviation, bell-shaped, and never below a tenth.
    pub(super) fn around_one(&mut self, deviation: f64) -> f64 {
        let twelve: f64 = (0..12).map(|_| self.share()).sum();
        (1.0 + deviation * (twelve - 6.0)).max(0.1)
    }
}
