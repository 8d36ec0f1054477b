//! How far off the model is on what the fit was not shown: each size in turn, at all numbers of ranks, links and types at
//! once; then each number of ranks. Every time is judged by ten percent and by the scatter of the measurements themselves.

use serde::{Deserialize, Serialize};

use crate::fit::{Costs, Known, costs, refitted, sorted};
use crate::foreign::is_name;
use crate::measured::{Point, SIDES, Side, median};
use crate::scatter::Scatter;

/// What a held-out time should be predicted within.
pub(crate) const WANTED: f64 = 0.1;
/// No file holds more.
const MOST_TIMES: usize = 1 << 32;

/// Relative errors on times that the fit was not shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Errors {
    /// Each size between the least and the largest of its series was left out.
    pub sizes: Vec<ErrorsOf>,
    /// The least and the largest size: beyond what the fit was shown.
    pub ends: Vec<ErrorsOf>,
    /// That number of ranks was left out; for information.
    pub ranks: Vec<ErrorsOf>,
    /// The sizes that were predicted worse than wanted, one by one.
    pub missed: Vec<Missed>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorsOf {
    pub ranks: usize,
    /// Whether the link had a rate; otherwise the machine itself was the limit.
    pub link_has_a_rate: bool,
    pub vendor: Spread,
    pub ours: Spread,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub times: usize,
    pub median: f64,
    pub worst: f64,
    /// Of these times, those off by more than is wanted.
    pub missed: usize,
    /// Of those, the ones that the scatter of the measurements does not explain.
    pub unexplained: usize,
    /// Of these times, those whose repeats have a median that is off by more than is wanted.
    pub missed_medians: usize,
}

/// A time that was predicted worse than wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Missed {
    pub is_ours: bool,
    pub link: String,
    pub ranks: usize,
    pub datatype: String,
    pub bytes: usize,
    pub measured_us: f64,
    pub predicted_us: f64,
    pub repeats_us: Vec<f64>,
    /// By how much the measurements scatter there, as a factor.
    pub scatter: f64,
    /// What a larger tensor took, where that was less, or a smaller one, where that was more.
    pub contradicted_by_us: Option<f64>,
    pub is_explained: bool,
}

impl Errors {
    /// Whether saved ones can be used: names that can be shown, and numbers that can be added up.
    pub(crate) fn are_whole(&self) -> bool {
        let all = self.sizes.iter().chain(&self.ends).chain(&self.ranks);
        all.flat_map(|of| [&of.vendor, &of.ours]).all(Spread::is_whole)
            && self.missed.iter().all(|of| is_name(&of.link) && is_name(&of.datatype))
    }

    /// Of the sizes that were left out, over all numbers of ranks and both sides: the median of the medians, the worst, and
    /// how many there are.
    pub fn of_sizes(&self, link_has_a_rate: bool) -> Option<Spread> {
        let those = || self.sizes.iter().filter(move |of| of.link_has_a_rate == link_has_a_rate);
        let spreads: Vec<&Spread> =
            those().flat_map(|of| [&of.vendor, &of.ours]).filter(|of| of.times > 0).collect();
        let sum = |of: fn(&Spread) -> usize| spreads.iter().map(|spread| of(spread)).sum::<usize>();
        (!spreads.is_empty()).then(|| Spread {
            times: sum(|of| of.times),
            median: median(spreads.iter().map(|of| of.median)),
            worst: spreads.iter().map(|of| of.worst).fold(0.0, f64::max),
            missed: sum(|of| of.missed),
            unexplained: sum(|of| of.unexplained),
            missed_medians: sum(|of| of.missed_medians),
        })
    }
}

/// One time, predicted without having been shown.
struct Held<'a> {
    side: Side,
    point: &'a Point,
    predicted_us: f64,
    bar: f64,
    contradiction: Option<f64>,
    is_end: bool,
}

impl Held<'_> {
    fn off(&self) -> f64 {
        (self.predicted_us / self.point.time_us(self.side) - 1.0).abs()
    }

    fn is_missed(&self) -> bool {
        self.off() > WANTED
    }

    fn is_median_missed(&self) -> bool {
        (self.predicted_us / self.point.typical_us(self.side) - 1.0).abs() > WANTED
    }

    /// By the scatter of the measurements: what is wanted and their own error add up as independent errors do. A time
    /// that its own series contradicts says nothing against a prediction on the other side of the contradiction.
    fn is_explained(&self) -> bool {
        let time = self.point.time_us(self.side);
        let beyond =
            |other: f64| if other < time { self.predicted_us <= other } else { self.predicted_us >= other };
        (self.predicted_us / time).ln().abs() <= WANTED.ln_1p().hypot(self.bar)
            || self.contradiction.is_some_and(beyond)
    }
}

pub(crate) fn held_out(known: &[Known<'_>], all: &Costs) -> Errors {
    let held: Vec<Held<'_>> = SIDES.iter().flat_map(|side| sizes(known, all, *side)).collect();
    let (ends, inside): (Vec<_>, Vec<_>) = held.into_iter().partition(|one| one.is_end);
    let missed = inside.iter().filter(|one| one.is_missed()).map(missed).collect();
    Errors { sizes: summed(&inside), ends: summed(&ends), ranks: summed(&ranks(known)), missed }
}

/// Leaves out one size after the other. A size of ours is a number of elements: two types then have the same one.
fn sizes<'a>(known: &[Known<'a>], all: &Costs, side: Side) -> Vec<Held<'a>> {
    let judge = Judge::new(known, side);
    let mut held = Vec::new();
    for size in sorted(judge.felt.iter().map(|of| of.point.size(side))) {
        let (left_out, others): (Vec<Known<'_>>, Vec<Known<'_>>) =
            judge.felt.iter().partition(|of| of.point.size(side) == size);
        let costs = refitted(&others, all, side);
        held.extend(left_out.iter().map(|of| judge.held(of, &costs)));
    }
    held
}

/// Fits all other numbers of ranks and predicts that one.
fn ranks<'a>(known: &[Known<'a>]) -> Vec<Held<'a>> {
    let numbers = sorted(known.iter().map(|of| of.point.ranks));
    if numbers.len() < 3 {
        return Vec::new();
    }
    let judges = SIDES.map(|side| Judge::new(known, side));
    let mut held = Vec::new();
    for ranks in numbers {
        let others: Vec<Known<'_>> = known.iter().filter(|of| of.point.ranks != ranks).copied().collect();
        let Ok(costs) = costs(&others) else { continue };
        for judge in &judges {
            let left_out = judge.felt.iter().filter(|of| of.point.ranks == ranks);
            held.extend(left_out.map(|of| judge.held(of, &costs)));
        }
    }
    held
}

/// What the measurements of one side say about each other.
struct Judge<'a> {
    side: Side,
    /// Those that had to wait for their link; the others are neither fitted nor judged.
    felt: Vec<Known<'a>>,
    scatter: Scatter<'a>,
}

impl<'a> Judge<'a> {
    fn new(known: &[Known<'a>], side: Side) -> Self {
        let felt: Vec<Known<'_>> = known.iter().filter(|of| of.is_felt(side)).copied().collect();
        let scatter = Scatter::of(felt.iter().map(|of| of.point).collect(), side);
        Self { side, felt, scatter }
    }

    fn held(&self, of: &Known<'a>, costs: &Costs) -> Held<'a> {
        let sizes = || self.scatter.series(of.point).map(|other| other.bytes);
        let is_end = [sizes().min(), sizes().max()].contains(&Some(of.point.bytes));
        Held {
            side: self.side,
            point: of.point,
            predicted_us: costs.predict_us(of, self.side),
            bar: self.scatter.bar(of.point),
            contradiction: self.scatter.contradiction(of.point),
            is_end,
        }
    }
}

fn summed(held: &[Held<'_>]) -> Vec<ErrorsOf> {
    let jobs = sorted(held.iter().map(|one| (one.point.gbps.is_none(), one.point.ranks)));
    let of_job = |(unlimited, ranks): (bool, usize)| {
        let those = |side: Side| {
            let is_it = move |one: &&Held<'_>| {
                one.side == side && (one.point.gbps.is_none(), one.point.ranks) == (unlimited, ranks)
            };
            Spread::of(&held.iter().filter(is_it).collect::<Vec<_>>())
        };
        ErrorsOf { ranks, link_has_a_rate: !unlimited, vendor: those(Side::Vendor), ours: those(Side::Ours) }
    };
    jobs.into_iter().map(of_job).collect()
}

impl Spread {
    fn is_whole(&self) -> bool {
        self.times <= MOST_TIMES
            && self.missed.max(self.missed_medians) <= self.times
            && self.unexplained <= self.missed
    }

    fn of(held: &[&Held<'_>]) -> Self {
        if held.is_empty() {
            return Self::default();
        }
        let missed = || held.iter().filter(|one| one.is_missed());
        Self {
            times: held.len(),
            median: median(held.iter().map(|one| one.off())),
            worst: held.iter().map(|one| one.off()).fold(0.0, f64::max),
            missed: missed().count(),
            unexplained: missed().filter(|one| !one.is_explained()).count(),
            missed_medians: held.iter().filter(|one| one.is_median_missed()).count(),
        }
    }
}

fn missed(held: &Held<'_>) -> Missed {
    let point = held.point;
    Missed {
        is_ours: held.side == Side::Ours,
        link: point.link.clone(),
        ranks: point.ranks,
        datatype: point.datatype.clone(),
        bytes: point.bytes,
        measured_us: point.time_us(held.side),
        predicted_us: held.predicted_us,
        repeats_us: point.repeats(held.side).to_vec(),
        scatter: held.bar.exp(),
        contradicted_by_us: held.contradiction,
        is_explained: held.is_explained(),
    }
}
