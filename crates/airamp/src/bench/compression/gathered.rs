//! What the ranks of one job reported, put together: the time of a way from all ranks' times, the worst
//! of their errors, and whether they all had the same bits.

use super::lines::{Environment, Line, Measurement};

pub(super) struct Gathered {
    pub(super) ranks: usize,
    pub(super) environment: Option<Environment>,
    pub(super) tensors: Vec<Tensor>,
    done: usize,
}

/// The ways that one tensor was reduced in.
pub(super) struct Tensor {
    pub(super) datatype: String,
    pub(super) bytes: usize,
    pub(super) ways: Vec<Way>,
}

pub(super) struct Way {
    pub(super) contender: String,
    pub(super) outcome: Outcome,
}

pub(super) enum Outcome {
    NotOffered(String),
    /// One for each rank that has reported.
    Measured(Vec<Measurement>),
}

/// A way's results over all ranks.
#[derive(Debug, PartialEq)]
pub(super) struct Combined {
    pub(super) time_us: f64,
    pub(super) wire_bytes_per_element: f64,
    pub(super) steps: Option<usize>,
    /// On the rank where it is most.
    pub(super) added_bytes: Option<usize>,
    pub(super) vnmse: Option<f64>,
    pub(super) worst: Option<f64>,
    pub(super) identical_bits: bool,
}

impl Gathered {
    pub(super) fn new(ranks: usize) -> Self {
        Self { ranks, environment: None, tensors: Vec::new(), done: 0 }
    }

    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Plan(environment) => self.environment = Some(environment),
            Line::Progress { .. } => {}
            Line::Done {} => self.done += 1,
            Line::NotOffered { datatype, bytes, contender, reason } => {
                self.way(&datatype, bytes, &contender).outcome = Outcome::NotOffered(reason);
            }
            Line::Result(measurement) => {
                let way = self.way(&measurement.datatype, measurement.bytes, &measurement.contender);
                if let Outcome::Measured(ranks) = &mut way.outcome {
                    ranks.push(measurement);
                }
            }
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.done == self.ranks
    }

    fn way(&mut self, datatype: &str, bytes: usize, contender: &str) -> &mut Way {
        let is_it = |tensor: &Tensor| tensor.datatype == datatype && tensor.bytes == bytes;
        let tensor = self.tensors.iter().position(is_it).unwrap_or_else(|| {
            self.tensors.push(Tensor { datatype: datatype.to_owned(), bytes, ways: Vec::new() });
            self.tensors.len() - 1
        });
        let ways = &mut self.tensors[tensor].ways;
        let way = ways.iter().position(|way| way.contender == contender).unwrap_or_else(|| {
            let outcome = Outcome::Measured(Vec::new());
            ways.push(Way { contender: contender.to_owned(), outcome });
            ways.len() - 1
        });
        &mut ways[way]
    }
}

impl Outcome {
    /// Nothing where a rank is missing.
    pub(super) fn combined(&self, ranks: usize) -> Option<Combined> {
        let Self::Measured(all) = self else { return None };
        let first = all.first().filter(|_| all.len() == ranks)?;
        Some(Combined {
            time_us: figure_of_merit(all)?,
            wire_bytes_per_element: first.wire_bytes_per_element,
            steps: first.steps,
            added_bytes: all.iter().filter_map(|rank| rank.added_bytes).max(),
            vnmse: largest(all.iter().map(|rank| rank.vnmse)),
            worst: largest(all.iter().map(|rank| rank.worst)),
            identical_bits: all.iter().all(|rank| rank.digest == first.digest),
        })
    }
}

/// Of each iteration the least over the ranks, since the last one to arrive waits for nobody; of those
/// the median.
fn figure_of_merit(ranks: &[Measurement]) -> Option<f64> {
    let iterations = ranks.iter().map(|rank| rank.times_us.len()).min()?;
    let least =
        |iteration: usize| ranks.iter().map(|rank| rank.times_us[iteration]).fold(f64::INFINITY, f64::min);
    let mut times: Vec<f64> = (0..iterations).map(least).collect();
    times.sort_by(f64::total_cmp);
    let (low, high) = (times.get(iterations.checked_sub(1)? / 2)?, times.get(iterations / 2)?);
    Some((low + high) / 2.0)
}

/// None is larger than any number.
fn largest(mut values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    values.try_fold(0.0_f64, |largest, value| value.map(|value| largest.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(times: &str, vnmse: &str, digest: &str) -> Line {
        let text = format!(
            r#"{{"event":"result","rank":0,"datatype":"float32","bytes":1024,"contender":"auto",
            "wire_bytes_per_element":1.0,"times_us":{times},"vnmse":{vnmse},"worst":0.5,"digest":"{digest}"}}"#
        );
        serde_json::from_str(&text).expect("a line as the rank program prints it")
    }

    fn combined(lines: Vec<Line>) -> Option<Combined> {
        let mut gathered = Gathered::new(2);
        lines.into_iter().for_each(|line| gathered.take(line));
        gathered.tensors[0].ways[0].outcome.combined(2)
    }

    #[test]
    fn the_rank_that_waited_least_counts_in_each_iteration_and_then_the_median() {
        let found = combined(vec![result("[9, 2, 7]", "0", "a"), result("[4, 8, 3]", "0", "a")]);
        assert_eq!(found.expect("both ranks").time_us, 3.0);
        let even = combined(vec![result("[1, 4]", "0", "a"), result("[5, 6]", "0", "a")]);
        assert_eq!(even.expect("both ranks").time_us, 2.5);
    }

    #[test]
    fn the_worst_rank_s_error_counts_and_one_that_is_not_finite_above_all() {
        let found = combined(vec![result("[1]", "1e-4", "a"), result("[1]", "2e-4", "a")]);
        assert_eq!(found.expect("both ranks").vnmse, Some(2e-4));
        let found = combined(vec![result("[1]", "1e-4", "a"), result("[1]", "null", "a")]);
        assert_eq!(found.expect("both ranks").vnmse, None);
    }

    #[test]
    fn one_rank_with_other_bits_is_seen() {
        let same = combined(vec![result("[1]", "0", "a"), result("[1]", "0", "a")]);
        assert!(same.expect("both ranks").identical_bits);
        let other = combined(vec![result("[1]", "0", "a"), result("[1]", "0", "b")]);
        assert!(!other.expect("both ranks").identical_bits);
    }

    #[test]
    fn a_way_that_a_rank_did_not_report_has_no_result() {
        assert_eq!(combined(vec![result("[1]", "0", "a")]), None);
        assert_eq!(combined(vec![result("[]", "0", "a"), result("[]", "0", "a")]), None);
    }
}
