//! A step that was learnt: its calls in order, the pauses between them, where its bursts begin, and how its pace
//! changes. It begins after the longest pause. It says what stands where; what a call means that does not fit, `following`
//! decides.

use super::beat::{Burst, Change};
use super::learner::{DEPTH, Found, Learner, SHORT_STEP_NS};
use super::mark::{Key, Mark, Weights};
use super::pace::Pace;
use super::pauses::{PAUSE, SLOW_NS};

/// Calls that may be missing in a row before the rest of a step is given up.
const AHEAD: u32 = 16;
/// A call is late only if it is late by this part of the step.
const LATE_PART: f32 = 0.15;
/// And of a step that is one call, whose pause is as uneven as the whole step.
const LATE_PART_OF_ONE: f32 = 0.125;
/// And by so many times the mean distance from its mean pause.
const SPREADS: f32 = 3.0;
/// A step is learnt from so many at most.
const MOST_TIMES: usize = 8;
/// Of the pauses at the same place, one that is so many times the shortest was a break.
const BREAK: f32 = 3.0;
/// Steps of few calls are timed several at a time, so that a call costs the same; more where they follow each other faster
/// than `SLOW_NS`, and most where they are so fast that nothing but their usual length is made of it.
const CALLS_AT_A_TIME: u32 = 16;
const FAST_CALLS_AT_A_TIME: u32 = 64;
const SHORT_CALLS_AT_A_TIME: u32 = 256;
/// Of a pause that was seen twice, the mean distance from its mean is taken for this part of it.
const NEW_SPREAD: f32 = 0.1;
/// A call comes as the first of a step only after this part of the usual pause.
const PART_OF_PAUSE: f32 = 0.5;
/// Where only pauses tell steps apart, they must be longer to begin one elsewhere: a late call looks like it.
const PART_OF_ONLY_PAUSE: f32 = 0.8;

/// What every call looks at stands first (`Rhythm`).
#[repr(C)]
pub(super) struct Template {
    /// No call is late by less than this. What repeats faster than steps do has no late calls.
    pub(super) margin_ns: f32,
    pub(super) weights: Weights,
    pub(super) marks: [Mark; DEPTH],
    /// Calls of the step; 0 where none was learnt.
    pub(super) calls: u32,
    /// The calls are alike, and only their pauses tell where a step begins.
    pub(super) by_pauses: bool,
    /// It has held for long, and is worth returning to.
    pub(super) settled: bool,
    pub(super) period_ns: f32,
    pub(super) steps_at_a_time: u32,
    pub(super) pace: Pace,
}

impl Template {
    pub(super) const fn new() -> Self {
        Self {
            margin_ns: 0.0,
            weights: Weights::FIRST,
            marks: [Mark::NONE; DEPTH],
            calls: 0,
            by_pauses: false,
            settled: false,
            period_ns: 0.0,
            steps_at_a_time: 1,
            pace: Pace::new(),
        }
    }

    pub(super) fn forget(&mut self) {
        self.calls = 0;
        self.settled = false;
    }

    /// Takes the learner's last calls as the step, and says which of its places comes next.
    pub(super) fn learn(&mut self, learner: &Learner, found: Found) -> u32 {
        let calls = found.calls.clamp(1, DEPTH as u32);
        // All that has come again, and what it came after; not the very first call, before which was something else.
        let known = (found.run + calls).saturating_sub(1).max(calls);
        for (ago, mark) in (0..calls).rev().zip(&mut self.marks) {
            let times = (ago..known).step_by(calls as usize).take(MOST_TIMES);
            *mark = together(times.map_while(|ago| learner.back(ago)));
        }
        self.calls = calls;
        let sort = self.mark(0).key;
        self.by_pauses = found.by_pauses && self.step().iter().all(|mark| mark.key.same_sort(sort));
        self.settled = false;
        self.weights = Weights::FIRST;
        self.pace = Pace::new();
        let first = self.begin_after_the_longest_pause();
        self.take_period(self.step().iter().map(|mark| mark.gap_ns).sum());
        self.find_bursts();
        (calls - first) % calls
    }

    pub(super) fn step(&self) -> &[Mark] {
        self.marks.get(..self.calls as usize).unwrap_or_default()
    }

    #[inline]
    pub(super) fn mark(&self, place: u32) -> &Mark {
        &self.marks[place as usize % DEPTH]
    }

    #[inline]
    pub(super) fn after(&self, place: u32) -> u32 {
        if place + 1 >= self.calls { 0 } else { place + 1 }
    }

    /// Whole steps took this long each, the first of them being the `first`th.
    pub(super) fn took(&mut self, ns: f32, first: u64) -> Option<Change> {
        let usual_ns = self.period_ns;
        self.take_period(usual_ns + (ns - usual_ns).min(usual_ns / 4.0) * self.weights.step);
        if self.margin_ns.is_infinite() {
            return None;
        }
        self.pace.step(ns, first)
    }

    /// The pause before that place has become another one.
    pub(super) fn pause_is_now(&mut self, place: u32, gap_ns: f32) {
        let mark = &mut self.marks[place as usize % DEPTH];
        (mark.gap_ns, mark.spread_ns) = (gap_ns, gap_ns * NEW_SPREAD);
        self.take_period(self.step().iter().map(|mark| mark.gap_ns).sum());
    }

    fn take_period(&mut self, period_ns: f32) {
        let is_short = period_ns < SHORT_STEP_NS;
        self.period_ns = period_ns;
        let part = if self.calls == 1 { LATE_PART_OF_ONE } else { LATE_PART };
        self.margin_ns = if is_short { f32::INFINITY } else { period_ns * part };
        let at_a_time = match period_ns {
            _ if is_short => SHORT_CALLS_AT_A_TIME,
            fast_ns if fast_ns < SLOW_NS => FAST_CALLS_AT_A_TIME,
            _ => CALLS_AT_A_TIME,
        };
        self.steps_at_a_time = at_a_time.div_ceil(self.calls.max(1));
    }

    /// By how much a call may come later than usual.
    pub(super) fn slack_ns(&self, mark: &Mark) -> f32 {
        (mark.spread_ns * SPREADS).max(self.margin_ns)
    }

    /// By how much a call may come earlier than usual.
    pub(super) fn lead_ns(mark: &Mark) -> f32 {
        (mark.spread_ns * SPREADS).min(mark.gap_ns)
    }

    /// Whether the call may be the first of a step.
    pub(super) fn begins_with(&self, call: &Mark) -> bool {
        let first = self.mark(0);
        let part = if self.by_pauses { PART_OF_ONLY_PAUSE } else { PART_OF_PAUSE };
        self.calls > 0 && first.key.admits(call.key) && call.gap_ns >= first.gap_ns * part
    }

    /// The place a little later in the step, or the first of the next step, at which this call stands.
    pub(super) fn ahead(&self, place: u32, call: &Mark) -> Option<u32> {
        let end = (place + 1 + AHEAD).min(self.calls);
        let in_step = (place + 1..end).find(|place| self.mark(*place).key.same(call.key));
        in_step.or_else(|| (place != 0 && self.begins_with(call)).then_some(0))
    }

    pub(super) fn bursts(&self) -> impl Iterator<Item = Burst> {
        self.step().chunk_by(|_, next| !next.key.has(Key::FIRST_OF_BURST)).map(|calls| Burst {
            calls: calls.len() as u32,
            bytes: calls.iter().map(|mark| mark.key.bytes()).sum(),
            largest: calls.iter().map(|mark| mark.key.bytes()).max().unwrap_or(0),
            idle_before_ns: calls.first().map_or(0, |mark| mark.gap_ns as u64),
        })
    }

    fn begin_after_the_longest_pause(&mut self) -> u32 {
        let longest =
            |(_, one): &(usize, &Mark), (_, other): &(usize, &Mark)| one.gap_ns.total_cmp(&other.gap_ns);
        let first = self.step().iter().enumerate().max_by(longest).map_or(0, |(place, _)| place);
        if let Some(step) = self.marks.get_mut(..self.calls as usize) {
            step.rotate_left(first);
        }
        first as u32
    }

    fn find_bursts(&mut self) {
        let pause = self.period_ns / self.calls as f32 * PAUSE;
        for place in 0..self.calls {
            if place == 0 || self.mark(place).gap_ns > pause {
                let before = if place == 0 { self.calls - 1 } else { place - 1 };
                self.flag(place, Key::FIRST_OF_BURST);
                self.flag(before, Key::LAST_OF_BURST);
            }
        }
        self.flag(self.calls - 1, Key::LAST_OF_STEP);
    }

    fn flag(&mut self, place: u32, flag: u64) {
        self.marks[place as usize % DEPTH].key.set(flag);
    }
}

/// As `slack_ns` says, without asking for the larger of two numbers that may be none. What is as much too early has to be
/// looked at as well.
#[inline]
pub(super) fn in_time(off_ns: f32, mark: &Mark, margin_ns: f32) -> bool {
    off_ns.abs() <= margin_ns || off_ns.abs() <= mark.spread_ns * SPREADS
}

/// A place of the step, from the calls that stood there, the last one first. What is known from few is little: it counts for
/// less than it says. A break before one of them does not count, nor does no pause at all: nothing is known before the first call.
fn together(calls: impl Iterator<Item = Mark> + Clone) -> Mark {
    let known = calls.clone().map(|call| call.gap_ns).filter(|gap_ns| *gap_ns > 0.0);
    let shortest_ns = known.clone().fold(f32::INFINITY, f32::min);
    let pauses = known.filter(move |gap_ns| *gap_ns <= shortest_ns * BREAK);
    let count = pauses.clone().count().max(1) as f32;
    let gap_ns = pauses.clone().sum::<f32>() / count;
    let spread_ns = pauses.map(|pause_ns| (pause_ns - gap_ns).abs()).sum::<f32>() / count;
    let mut key = calls.clone().next().map_or(Mark::NONE.key, |call| call.key.plain());
    if calls.clone().any(|call| !call.key.same(key)) {
        key.set(Key::VARIES);
    }
    Mark { key, gap_ns, spread_ns: spread_ns.max(gap_ns / (5.0 * count)) }
}
