//! Plants delays in a trace and counts how many are seen. A delay comes before one call of a random step and moves
//! everything after it, on all communicators, as a rank that was held up does. It is seen if the next call of one of
//! the communicators is called late. Any other call that is called late is a false alarm, unless the job had a delay there itself.

use airamp_policy::rhythm::State;
use airamp_trace::Trace;
use serde::Serialize;

use super::judge::Trial;
use super::playing::{Note, play};

/// Steps between two delays, at least, so that one is over before the next comes.
const STEPS_APART: u64 = 8;
/// Steps after the lock before the first one.
const STEPS_BEFORE: u64 = 4;
const WANTED: usize = 200;
const MOST_PASSES: u64 = 100;

#[derive(Debug, Default, Serialize)]
pub(super) struct Planted {
    pub(super) planted: usize,
    pub(super) seen: usize,
    /// Calls that were called late without a delay, planted or not. And all calls that were played.
    pub(super) false_alarms: usize,
    pub(super) calls: usize,
    /// The step of which the delays are a part: the longest of the communicators'.
    pub(super) step_ns: u64,
}

impl Planted {
    pub(super) fn recall(&self) -> Option<f64> {
        (self.planted > 0).then(|| self.seen as f64 / self.planted as f64)
    }

    pub(super) fn precision(&self) -> Option<f64> {
        let told = self.seen + self.false_alarms;
        (told > 0).then(|| self.seen as f64 / told as f64)
    }
}

pub(super) fn plant(trace: &Trace, untouched: &[Note], trial: &Trial) -> Planted {
    let Some((leader, step_ns)) = longest_step(untouched) else { return Planted::default() };
    let delay_ns = (step_ns as f64 * trial.part) as u64;
    let mut planted = Planted { step_ns, ..Planted::default() };
    let mut random = Random(trial.seed);
    for _ in 0..MOST_PASSES {
        let delays = choose(untouched, leader, step_ns, &mut random);
        if planted.planted >= WANTED {
            break;
        }
        let notes = play(trace, |call| call.at_ns + delay_ns * come(&delays, call.at_ns) as u64);
        count(&mut planted, untouched, &notes, &delays, delay_ns);
    }
    planted
}

/// The communicator whose step is the longest in time, as it was at its end, and that step.
fn longest_step(notes: &[Note]) -> Option<(usize, u64)> {
    let mut last: Vec<(usize, u64)> = Vec::new();
    for note in notes.iter().filter(|note| note.state == State::Locked) {
        last.retain(|(communicator, _)| *communicator != note.communicator);
        last.push((note.communicator, note.period_ns));
    }
    last.into_iter().max_by_key(|(_, period_ns)| *period_ns)
}

/// Times of calls of the leading communicator before which a delay is put, while it follows that step: calls of the step, as
/// they were expected, and not shortly after one that was late anyway.
fn choose(notes: &[Note], leader: usize, step_ns: u64, random: &mut Random) -> Vec<u64> {
    let mut delays = Vec::new();
    let mut not_before = 0;
    for note in notes.iter().filter(|note| note.communicator == leader) {
        let follows = note.was_sure && note.period_ns > step_ns / 2;
        if !follows || note.is_late() {
            not_before = note.at_ns + step_ns * STEPS_BEFORE;
        } else if note.predicted
            && note.at_ns > not_before
            && random.is_one_in(u64::from(note.period_calls) * 2)
        {
            delays.push(note.at_ns);
            not_before = note.at_ns + step_ns * STEPS_APART;
        }
    }
    delays
}

/// How many delays come before a call that was made at this time, or just before it.
fn come(delays: &[u64], at_ns: u64) -> usize {
    delays.partition_point(|delay| *delay <= at_ns)
}

fn count(planted: &mut Planted, untouched: &[Note], notes: &[Note], delays: &[u64], delay_ns: u64) {
    // When they are over, by the clock of the calls that they moved.
    let ends: Vec<u64> = (1..).zip(delays).map(|(number, delay)| delay + delay_ns * number).collect();
    let mut seen = vec![false; delays.len()];
    let mut before: Vec<(usize, usize)> = Vec::new();
    for (note, as_it_was) in notes.iter().zip(untouched) {
        let now = come(&ends, note.at_ns);
        let last = match before.iter_mut().find(|(communicator, _)| *communicator == note.communicator) {
            Some((_, count)) => std::mem::replace(count, now),
            None => {
                before.push((note.communicator, now));
                now
            }
        };
        if note.is_late() {
            match seen.get_mut(last..now).and_then(<[bool]>::last_mut) {
                Some(delay) => *delay = true,
                None => planted.false_alarms += usize::from(!as_it_was.held_up),
            }
        }
    }
    planted.planted += delays.len();
    planted.seen += seen.iter().filter(|seen| **seen).count();
    planted.calls += notes.len();
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn is_one_in(&mut self, many: u64) -> bool {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).is_multiple_of(many.max(1))
    }
}
