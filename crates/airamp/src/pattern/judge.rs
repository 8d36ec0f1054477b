//! Judges a trace: when each communicator's step was found, how many calls it foretold, how often it cried wolf, and
//! what it made of planted delays.

use airamp_policy::rhythm::State;
use airamp_trace::Trace;
use serde::Serialize;

use super::delays::held_up;
use super::playing::{Note, play};
use super::stragglers::{self, Planted};

/// A step that held for so many times its calls, and for so many calls, was not found by chance.
const HELD: u32 = 4;
const HELD_CALLS: usize = 16;

/// What is planted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trial {
    pub(super) part: f64,
    pub(super) seed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Judgement {
    pub(super) name: String,
    pub(super) source: String,
    pub(super) communicators: Vec<Learnt>,
    pub(super) stragglers: Planted,
}

/// What was learnt of one communicator.
#[derive(Debug, Default, Serialize)]
pub(super) struct Learnt {
    pub(super) communicator: usize,
    pub(super) calls: usize,
    /// At the end: `learning`, `locked` or `drifting`.
    pub(super) state: &'static str,
    /// Calls of the trace until the step was found that was then followed longest; null where none held.
    pub(super) found_after_calls: Option<usize>,
    /// How often it had come by then, where calls of another sort before it do not count.
    pub(super) found_after_periods: Option<f64>,
    /// Steps that were found and did not hold.
    pub(super) false_locks: usize,
    /// The step that was followed longest.
    pub(super) period_calls: u32,
    pub(super) period_ns: u64,
    /// Of the calls since it was found: all, and those that came as forecast.
    pub(super) judged: usize,
    pub(super) predicted: usize,
    /// Told late in the trace as it is, where the job had a delay, and where it had none.
    pub(super) late: usize,
    pub(super) false_late: usize,
    pub(super) missing_extra_resized: usize,
}

impl Learnt {
    pub(super) fn share_predicted(&self) -> Option<f64> {
        (self.judged > 0).then(|| self.predicted as f64 / self.judged as f64)
    }
}

pub(super) fn judge(name: &str, trace: &Trace, trial: &Trial) -> Judgement {
    let mut notes = play(trace, |call| call.at_ns);
    let held_up = held_up(&notes, trial.part);
    notes.iter_mut().zip(held_up).for_each(|(note, held_up)| note.held_up = held_up);
    let communicators = (0..trace.communicators.len())
        .map(|communicator| learnt(communicator, &of(&notes, communicator)))
        .filter(|learnt| learnt.calls > 0)
        .collect();
    Judgement {
        name: name.to_owned(),
        source: trace.source.clone(),
        communicators,
        stragglers: stragglers::plant(trace, &notes, trial),
    }
}

fn of(notes: &[Note], communicator: usize) -> Vec<Note> {
    notes.iter().filter(|note| note.communicator == communicator).copied().collect()
}

fn learnt(communicator: usize, notes: &[Note]) -> Learnt {
    let locks = locks(notes);
    let longest = locks.iter().max_by_key(|lock| lock.calls);
    let is_it = |lock: &&Lock| longest.is_some_and(|longest| longest.period == lock.period) && lock.held();
    let found = locks.iter().find(is_it);
    let since = locks.iter().find(|lock| lock.held()).map_or(notes.len(), |lock| lock.first + 1);
    let later = notes.get(since..).unwrap_or_default();
    let late = notes.iter().filter(|note| note.is_late());
    let broke = |lock: &&Lock| !lock.held() && lock.first + lock.calls < notes.len();
    Learnt {
        communicator,
        calls: notes.len(),
        state: notes.last().map_or("learning", |note| named(note.state)),
        found_after_calls: found.map(|lock| lock.first + 1),
        found_after_periods: found.map(|lock| lock.periods_before(notes)),
        false_locks: locks.iter().filter(broke).count(),
        period_calls: longest.map_or(0, |lock| lock.period),
        period_ns: longest.and_then(|lock| notes.get(lock.last())).map_or(0, |note| note.period_ns),
        judged: later.len(),
        predicted: later.iter().filter(|note| note.predicted).count(),
        late: late.clone().filter(|note| note.held_up).count(),
        false_late: late.filter(|note| !note.held_up).count(),
        missing_extra_resized: later
            .iter()
            .filter(|note| note.deviation.is_some() && !note.is_late())
            .count(),
    }
}

/// A stretch of calls in which one step was followed.
struct Lock {
    /// The call at which it was found.
    first: usize,
    calls: usize,
    period: u32,
    /// It was not given up while it was provisional.
    is_sure: bool,
}

impl Lock {
    fn new(first: usize, note: &Note) -> Self {
        Self { first, calls: 1, period: note.period_calls, is_sure: note.is_sure }
    }

    fn held(&self) -> bool {
        let least = u64::from(self.period.max(1)) * u64::from(HELD);
        self.is_sure && self.calls as u64 >= least && self.calls >= HELD_CALLS
    }

    /// Back from where it was found, to the first call that is not like the one a step later.
    fn periods_before(&self, notes: &[Note]) -> f64 {
        let period = self.period.max(1) as usize;
        let repeats = |later: &usize| {
            let before = later.checked_sub(period).and_then(|before| notes.get(before));
            before.zip(notes.get(*later)).is_some_and(|(before, later)| before.made.is_like(&later.made))
        };
        let repeated = (0..=self.first).rev().take_while(repeats).count();
        (repeated + period).min(self.first + 1) as f64 / period as f64
    }

    fn last(&self) -> usize {
        self.first + self.calls.saturating_sub(1)
    }
}

fn locks(notes: &[Note]) -> Vec<Lock> {
    let mut locks: Vec<Lock> = Vec::new();
    let mut following = false;
    for (place, note) in notes.iter().enumerate() {
        let locked = note.state == State::Locked;
        match locks.last_mut().filter(|lock| following && lock.period == note.period_calls) {
            Some(lock) if locked => {
                lock.calls += 1;
                lock.is_sure |= note.is_sure;
            }
            _ if locked => locks.push(Lock::new(place, note)),
            _ => {}
        }
        following = locked;
    }
    locks
}

fn named(state: State) -> &'static str {
    match state {
        State::Learning => "learning",
        State::Locked => "locked",
        State::Drifting => "drifting",
    }
}
