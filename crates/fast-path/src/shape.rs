//! The shapes that a call can be given, which the ranks of a communicator choose among: by measurement,
//! and all the same one. Pure.

/// How the ranks exchange a call's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Exchange everything once, all add up. The fewest exchanges, and the more bytes the more ranks.
    OneShot,
    /// Scatter the shards, reduce, gather the results.
    TwoShot,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub algorithm: Algorithm,
    /// The largest chunk is this part of what fits into the arena, unless the call would take too many
    /// steps then: small chunks begin earlier and end earlier, large ones cost less per byte.
    pub parts: u32,
}

const ONE_SHOT: Shape = Shape { algorithm: Algorithm::OneShot, parts: 1 };
const ONE_SHOT_IN_PARTS: Shape = Shape { algorithm: Algorithm::OneShot, parts: 4 };
const TWO_SHOT: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 1 };
const TWO_SHOT_IN_PARTS: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 4 };

impl Shape {
    /// What so many ranks choose among, the usual one first. A lane is connected for these and no others.
    pub fn candidates(ranks: usize) -> &'static [Shape] {
        match ranks {
            // Send and Recv would cost device memory that two ranks need not spend.
            0..=2 => &[ONE_SHOT, ONE_SHOT_IN_PARTS],
            // The one-shot moves half as many bytes again as the two-shot with three ranks, twice as many with
            // four; small calls may still gain by the exchange that it saves.
            3..=4 => &[TWO_SHOT, TWO_SHOT_IN_PARTS, ONE_SHOT],
            _ => &[TWO_SHOT, TWO_SHOT_IN_PARTS],
        }
    }

    /// The first of the candidates.
    pub fn usual(ranks: usize) -> Shape {
        Self::candidates(ranks)[0]
    }
}
