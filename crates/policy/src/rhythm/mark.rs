//! A call as the rhythm keeps it: what it was in one word, so that two calls are compared by one instruction, and the
//! pause before it. Sixteen bytes, because a rhythm holds three thousand of them.

use super::beat::Beat;

const BYTES_BITS: u32 = 40;
const MOST_BYTES: u64 = (1 << BYTES_BITS) - 1;
const KIND: u32 = BYTES_BITS;
const DATATYPE: u32 = BYTES_BITS + 8;

/// What a call was: kind, datatype and bytes (1 TiB at most, which is taken for more), and flags of the place it has in a step.
/// Callers that make the same call again and again make its key once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key(u64);

impl Key {
    /// Of kind and datatype only.
    const SORT: u64 = 0xffff << KIND;
    const WHOLE: u64 = Self::SORT | MOST_BYTES;
    /// Its bytes differ from step to step.
    pub(super) const VARIES: u64 = 1 << 56;
    pub(super) const FIRST_OF_BURST: u64 = 1 << 57;
    pub(super) const LAST_OF_BURST: u64 = 1 << 58;
    pub(super) const LAST_OF_STEP: u64 = 1 << 59;
    /// Something begins or ends there.
    pub(super) const ENDS: u64 = Self::FIRST_OF_BURST | Self::LAST_OF_BURST | Self::LAST_OF_STEP;
    /// A call stood there once that was not of these bytes.
    pub(super) const RESIZED: u64 = 1 << 60;

    #[inline]
    #[must_use]
    pub fn new(kind: u8, datatype: u8, bytes: u64) -> Self {
        Self(bytes.min(MOST_BYTES) | u64::from(kind) << KIND | u64::from(datatype) << DATATYPE)
    }

    #[inline]
    pub(super) fn of(beat: &Beat) -> Self {
        Self::new(beat.kind, beat.datatype, beat.bytes)
    }

    /// What a place has beyond the call that stands there, but for the bytes of other calls.
    #[inline(always)]
    pub(super) fn beyond(self, call: Self) -> u64 {
        (self.0 ^ call.0) & !(Self::VARIES | Self::RESIZED)
    }

    #[inline(always)]
    pub(super) fn ends(self) -> u64 {
        self.0 & Self::ENDS
    }

    #[inline]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn set(&mut self, flag: u64) {
        self.0 |= flag;
    }

    pub(super) fn plain(self) -> Self {
        Self(self.0 & Self::WHOLE)
    }

    #[inline]
    pub(super) fn same(self, other: Self) -> bool {
        (self.0 ^ other.0) & Self::WHOLE == 0
    }

    #[inline]
    pub(super) fn same_sort(self, other: Self) -> bool {
        (self.0 ^ other.0) & Self::SORT == 0
    }

    /// Whether `call` may stand at this place of a step.
    #[inline]
    pub(super) fn admits(self, call: Self) -> bool {
        self.same(call) || (self.has(Self::VARIES) && self.same_sort(call))
    }

    #[inline]
    pub(super) fn resize(&mut self, call: Self) {
        self.0 = (self.0 & !MOST_BYTES) | call.bytes();
    }

    /// For tables: bytes count only where they are looked at.
    pub(super) fn mixed(self, with_bytes: bool) -> u64 {
        let word = self.0 & if with_bytes { Self::WHOLE } else { Self::SORT };
        (word ^ word >> 29).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[inline]
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0 & MOST_BYTES
    }

    #[must_use]
    pub fn kind(self) -> u8 {
        (self.0 >> KIND) as u8
    }

    #[must_use]
    pub fn datatype(self) -> u8 {
        (self.0 >> DATATYPE) as u8
    }
}

/// A call and the pause before it: of one call that was heard, or the mean of all that stood at its place in the step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) key: Key,
    pub(super) gap_ns: f32,
    /// Mean distance of the pauses from their mean.
    pub(super) spread_ns: f32,
}

impl Mark {
    pub(super) const NONE: Self = Self { key: Key(0), gap_ns: 0.0, spread_ns: 0.0 };

    /// A call stood here after a pause that was longer than usual by this.
    #[inline]
    pub(super) fn heed(&mut self, off_ns: f32, weights: Weights) {
        self.gap_ns += off_ns * weights.gap;
        // Twice the usual, at most, so that a few that are far off do not make everything usual.
        let spread_ns = self.spread_ns;
        let off_ns = off_ns.abs();
        let counted_ns = if off_ns < spread_ns * 2.0 { off_ns } else { spread_ns * 2.0 };
        self.spread_ns += (counted_ns - spread_ns) * weights.spread;
    }

    /// A call came earlier than it could be late: what was thought usual is not, as after some that were late in a row.
    pub(super) fn heed_early(&mut self, off_ns: f32) {
        self.gap_ns += off_ns * 0.5;
    }

    /// A call was late by so much that it tells little about the others. If many are, they are soon not late any more.
    pub(super) fn heed_late(&mut self, slack_ns: f32) {
        self.gap_ns += slack_ns * 0.0625;
        self.spread_ns += slack_ns * 0.03125;
    }
}

/// What one more call counts beside those before it.
#[derive(Clone, Copy)]
pub(super) struct Weights {
    gap: f32,
    spread: f32,
    /// Of a step's length.
    pub(super) step: f32,
}

impl Weights {
    /// While little is known.
    pub(super) const FIRST: Self = Self { gap: 0.25, spread: 0.25, step: 0.5 };
    pub(super) const LATER: Self = Self { gap: 0.25, spread: 0.0625, step: 0.25 };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(kind: u8, datatype: u8, bytes: u64) -> Key {
        Key::of(&Beat { kind, datatype, bytes, at_ns: 0 })
    }

    #[test]
    fn a_key_gives_back_what_it_was_made_of() {
        let key = key(255, 254, 123_456_789_012);
        assert_eq!((key.kind(), key.datatype(), key.bytes()), (255, 254, 123_456_789_012));
    }

    #[test]
    fn a_call_of_more_bytes_than_fit_is_taken_for_the_most() {
        let key = key(3, 7, u64::MAX);
        assert_eq!((key.kind(), key.datatype(), key.bytes()), (3, 7, (1 << 40) - 1));
    }

    #[test]
    fn flags_do_not_make_another_call_of_it() {
        let (mut flagged, plain) = (key(1, 2, 300), key(1, 2, 300));
        flagged.set(Key::FIRST_OF_BURST | Key::LAST_OF_STEP);
        assert!(flagged.same(plain) && flagged.admits(plain));
        assert_eq!(flagged.plain(), plain);
    }

    #[test]
    fn only_a_place_whose_bytes_vary_admits_other_bytes_and_none_admits_another_kind() {
        let mut place = key(1, 2, 300);
        assert!(!place.admits(key(1, 2, 301)));
        place.set(Key::VARIES);
        assert!(place.admits(key(1, 2, 301)));
        assert!(!place.admits(key(2, 2, 300)) && !place.admits(key(1, 3, 300)));
    }
}
