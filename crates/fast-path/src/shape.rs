//! The shapes that a call can be given, which the ranks of a communicator choose among: by measurement,
//! and all the same one. Pure.

use crate::plan::Phase;
use crate::ranks::Ranks;
use std::fmt::{Display, Formatter};

/// How the ranks exchange a call's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// Exchange everything once, all add up. The fewest exchanges, and the more bytes the more ranks.
    OneShot,
    /// Scatter the shards, reduce, gather the results.
    TwoShot,
    /// Scatter within each node, reduce, scatter across the nodes, reduce, gather the results. One exchange more and one
    /// rounding more; of what is scattered, only what a node has summed up leaves it.
    ThreeShot,
}

impl Algorithm {
    /// The exchanges of a chunk, in their order.
    pub(crate) fn phases(self) -> &'static [Phase] {
        match self {
            Self::OneShot => &[Phase::Gather],
            Self::TwoShot => &[Phase::Scatter, Phase::Gather],
            Self::ThreeShot => &[Phase::WithinNode, Phase::Scatter, Phase::Gather],
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub algorithm: Algorithm,
    /// The largest chunk is this part of what fits into the arena, unless the call would take too many
    /// steps then: small chunks begin earlier and end earlier, large ones cost less per byte.
    pub parts: u32,
    /// Whether one chunk is under way at a time, and twice as large, instead of two: kernels and exchanges take
    /// turns. Where an exchange costs more by itself than kernels do.
    pub in_turn: bool,
}

const ONE_SHOT: Shape = Shape { algorithm: Algorithm::OneShot, parts: 1, in_turn: false };
const ONE_SHOT_IN_PARTS: Shape = Shape { algorithm: Algorithm::OneShot, parts: 4, in_turn: false };
const ONE_SHOT_IN_SMALL_PARTS: Shape = Shape { algorithm: Algorithm::OneShot, parts: 16, in_turn: false };
const ONE_SHOT_IN_SMALLEST_PARTS: Shape = Shape { algorithm: Algorithm::OneShot, parts: 64, in_turn: false };
const ONE_SHOT_IN_TURN: Shape = Shape { algorithm: Algorithm::OneShot, parts: 1, in_turn: true };
const TWO_SHOT: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 1, in_turn: false };
const TWO_SHOT_IN_PARTS: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 4, in_turn: false };
const TWO_SHOT_IN_SMALL_PARTS: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 16, in_turn: false };
const TWO_SHOT_IN_SMALLEST_PARTS: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 64, in_turn: false };
const TWO_SHOT_IN_TURN: Shape = Shape { algorithm: Algorithm::TwoShot, parts: 1, in_turn: true };
const THREE_SHOT: Shape = Shape { algorithm: Algorithm::ThreeShot, parts: 1, in_turn: false };
const THREE_SHOT_IN_PARTS: Shape = Shape { algorithm: Algorithm::ThreeShot, parts: 4, in_turn: false };
const THREE_SHOT_IN_SMALL_PARTS: Shape = Shape { algorithm: Algorithm::ThreeShot, parts: 16, in_turn: false };
const THREE_SHOT_IN_SMALLEST_PARTS: Shape =
    Shape { algorithm: Algorithm::ThreeShot, parts: 64, in_turn: false };

impl Display for Shape {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.algorithm {
            Algorithm::OneShot => "one-shot",
            Algorithm::TwoShot => "two-shot",
            Algorithm::ThreeShot => "three-shot",
        })?;
        if self.parts > 1 {
            write!(f, ", 1/{} chunks", self.parts)?;
        }
        if self.in_turn {
            f.write_str(", one at a time")?;
        }
        Ok(())
    }
}

/// Of the list of candidates and of how they cut calls: a plan names one by its place, so that ranks with different lists must
/// not agree. Raised with every change of either.
pub const SHAPES_VERSION: u32 = 6;

/// Of the candidates, the last ones are tried only for calls that they fit.
const FITTED: usize = 2;

impl Shape {
    /// What so many ranks choose among, the usual one first. A lane is connected for these and no others.
    pub fn candidates(ranks: impl Into<Ranks>) -> &'static [Shape] {
        let ranks = ranks.into();
        if ranks.per_node() > 1 {
            // The two-shot rounds once less and waits once less, for nodes whose links are as fast as those inside.
            return &[
                THREE_SHOT,
                THREE_SHOT_IN_PARTS,
                TWO_SHOT,
                THREE_SHOT_IN_SMALL_PARTS,
                THREE_SHOT_IN_SMALLEST_PARTS,
            ];
        }
        match ranks.all() {
            // Send and Recv would cost device memory that two ranks need not spend.
            0..=2 => &[
                ONE_SHOT,
                ONE_SHOT_IN_PARTS,
                ONE_SHOT_IN_TURN,
                ONE_SHOT_IN_SMALL_PARTS,
                ONE_SHOT_IN_SMALLEST_PARTS,
            ],
            // The one-shot moves half as many bytes again as the two-shot with three ranks, twice as many with
            // four; small calls may still gain by the exchange that it saves.
            3..=4 => {
                &[TWO_SHOT, TWO_SHOT_IN_PARTS, ONE_SHOT, TWO_SHOT_IN_SMALL_PARTS, TWO_SHOT_IN_SMALLEST_PARTS]
            }
            // The more ranks, the more an exchange costs by itself.
            _ => &[
                TWO_SHOT,
                TWO_SHOT_IN_PARTS,
                TWO_SHOT_IN_TURN,
                TWO_SHOT_IN_SMALL_PARTS,
                TWO_SHOT_IN_SMALLEST_PARTS,
            ],
        }
    }

    /// How many of the candidates are tried for all calls, and how many, behind them, only where they fit. It does not
    /// depend on the nodes: whoever decides has to know it before them.
    pub fn variants(ranks: impl Into<Ranks>) -> (u8, u8) {
        let tried = Self::candidates(ranks).len() - FITTED;
        (tried as u8, FITTED as u8)
    }

    /// The first of the candidates.
    pub fn usual(ranks: impl Into<Ranks>) -> Shape {
        Self::candidates(ranks)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_change_which_shapes_there_are_and_not_how_many() {
        for (all, per_node) in [(4, 2), (6, 2), (6, 3), (8, 4), (256, 2), (1024, 8)] {
            let on_nodes = Ranks::new(all, per_node);
            assert_eq!(Shape::variants(on_nodes), Shape::variants(all));
            assert_eq!(Shape::usual(on_nodes).to_string(), "three-shot");
            assert!(Shape::candidates(on_nodes).contains(&TWO_SHOT));
            let flat = Shape::candidates(Ranks::new(all, 1));
            assert!(flat.iter().all(|shape| shape.algorithm != Algorithm::ThreeShot));
        }
    }
}
