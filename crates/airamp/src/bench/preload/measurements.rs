//! What the ranks reported, gathered over ranks and rounds: per cell and side the best
//! round's time, and every digest, so that one differing bit on one rank is seen.

use std::fmt;

use serde::Deserialize;

/// Without the library, or with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Bare,
    With,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bare => "without the library",
            Self::With => "with the library",
        })
    }
}

/// A line of `airamp-rank collectives`.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Line {
    Plan { ranks: usize, nccl: String, version: i32, measurements: usize },
    Progress { done: usize, measurements: usize },
    Result(Measurement),
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Measurement {
    pub(super) rank: usize,
    pub(super) collective: String,
    pub(super) datatype: String,
    pub(super) bytes: usize,
    pub(super) median_us: f64,
    pub(super) algorithm_gbs: f64,
    pub(super) bus_gbs: f64,
    pub(super) digest: String,
    pub(super) correct: bool,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) collective: String,
    pub(super) datatype: String,
    pub(super) bytes: usize,
    pub(super) bare: Seen,
    pub(super) with: Seen,
}

/// One side of a cell.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) best: Option<Measurement>,
    this_round: Option<Measurement>,
    /// Per rank, every digest that came up.
    digests: Vec<(usize, String)>,
    pub(super) all_correct: bool,
}

#[derive(Debug, Default)]
pub(super) struct Measurements {
    pub(super) cells: Vec<Cell>,
    pub(super) nccl: String,
    pub(super) version: i32,
    expected: usize,
    arrived: usize,
}

impl Measurements {
    pub(super) fn take(&mut self, side: Side, line: Line) {
        match line {
            Line::Plan { ranks, nccl, version, measurements } => {
                // With the library its own file stands in front of the vendor's.
                if side == Side::Bare {
                    (self.nccl, self.version) = (nccl, version);
                }
                self.expected = ranks * measurements;
            }
            Line::Progress { .. } => {}
            Line::Result(measurement) => {
                self.arrived += 1;
                self.cell(&measurement).side(side).take(measurement);
            }
        }
    }

    /// Closes a round; false if it was not complete.
    pub(super) fn end_round(&mut self) -> bool {
        let complete = self.expected > 0 && self.arrived == self.expected;
        (self.expected, self.arrived) = (0, 0);
        for cell in &mut self.cells {
            cell.bare.end_round();
            cell.with.end_round();
        }
        complete
    }

    fn cell(&mut self, of: &Measurement) -> &mut Cell {
        let is_it = |cell: &Cell| {
            (&cell.collective, &cell.datatype, cell.bytes) == (&of.collective, &of.datatype, of.bytes)
        };
        let index = self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(Cell {
                collective: of.collective.clone(),
                datatype: of.datatype.clone(),
                bytes: of.bytes,
                bare: Seen::new(),
                with: Seen::new(),
            });
            self.cells.len() - 1
        });
        &mut self.cells[index]
    }
}

impl Cell {
    fn side(&mut self, side: Side) -> &mut Seen {
        match side {
            Side::Bare => &mut self.bare,
            Side::With => &mut self.with,
        }
    }

    /// Whether every rank had the same bits on both sides and in every round.
    pub(super) fn results_equal(&self) -> bool {
        let per_rank = |seen: &Seen| {
            let mut digests = seen.digests.clone();
            digests.sort();
            digests.dedup();
            digests
        };
        let (bare, with) = (per_rank(&self.bare), per_rank(&self.with));
        let ranks = bare.iter().map(|(rank, _)| rank).collect::<std::collections::BTreeSet<_>>();
        // One digest per rank, and the same ones on both sides.
        !bare.is_empty() && bare == with && ranks.len() == bare.len()
    }
}

impl Seen {
    fn new() -> Self {
        Self { all_correct: true, ..Self::default() }
    }

    /// Within a round the slowest rank counts.
    fn take(&mut self, measurement: Measurement) {
        self.all_correct &= measurement.correct;
        self.digests.push((measurement.rank, measurement.digest.clone()));
        match &self.this_round {
            Some(slowest) if slowest.median_us >= measurement.median_us => {}
            _ => self.this_round = Some(measurement),
        }
    }

    fn end_round(&mut self) {
        let Some(round) = self.this_round.take() else { return };
        match &self.best {
            Some(best) if best.median_us <= round.median_us => {}
            _ => self.best = Some(round),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(ranks: usize) -> Line {
        Line::Plan { ranks, nccl: "libnccl.so.2".into(), version: 22809, measurements: 1 }
    }

    fn result(rank: usize, median_us: f64, digest: &str) -> Line {
        let text = format!(
            r#"{{"event":"result","rank":{rank},"collective":"all_reduce","datatype":"float32","bytes":1024,
            "median_us":{median_us},"algorithm_gbs":1.0,"bus_gbs":1.0,"digest":"{digest}","correct":true}}"#
        );
        serde_json::from_str(&text).expect("a line as the rank program prints it")
    }

    fn round(all: &mut Measurements, side: Side, lines: Vec<Line>) -> bool {
        all.take(side, plan(2));
        lines.into_iter().for_each(|line| all.take(side, line));
        all.end_round()
    }

    #[test]
    fn the_slowest_rank_of_the_best_round_counts() {
        let mut all = Measurements::default();
        assert!(round(&mut all, Side::Bare, vec![result(0, 10.0, "a"), result(1, 12.0, "a")]));
        assert!(round(&mut all, Side::Bare, vec![result(0, 11.0, "a"), result(1, 9.0, "a")]));
        assert_eq!(all.cells[0].bare.best.as_ref().map(|best| best.median_us), Some(11.0));
    }

    #[test]
    fn one_differing_digest_on_one_rank_is_seen() {
        let mut all = Measurements::default();
        round(&mut all, Side::Bare, vec![result(0, 1.0, "a"), result(1, 1.0, "b")]);
        round(&mut all, Side::With, vec![result(0, 1.0, "a"), result(1, 1.0, "b")]);
        assert!(all.cells[0].results_equal());
        round(&mut all, Side::With, vec![result(0, 1.0, "a"), result(1, 1.0, "c")]);
        assert!(!all.cells[0].results_equal());
    }

    #[test]
    fn a_round_without_all_results_is_not_complete() {
        let mut all = Measurements::default();
        assert!(!round(&mut all, Side::Bare, vec![result(0, 1.0, "a")]));
        assert!(!Measurements::default().end_round());
    }
}
