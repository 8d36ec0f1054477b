//! What rhythms make of the calls of made-up jobs.

mod anything;
mod deviations;
mod jobs;
mod pace;
mod provisional;
mod steps;
mod usual;

use super::*;
use jobs::Job;

/// What a rhythm told while a job was played to it.
#[derive(Debug, Default)]
struct Told {
    /// Calls at which the state changed, and the step that was followed from then on; 0: none. A provisional step is none.
    states: Vec<(usize, u32)>,
    /// Calls at which a provisional step was taken up or given up, and the step.
    for_now: Vec<(usize, u32)>,
    forecast: usize,
    right: usize,
    deviations: Vec<(usize, Deviation)>,
    changes: Vec<Change>,
    rhythm: Box<Rhythm>,
}

impl Told {
    fn locks(&self) -> Vec<u32> {
        self.states.iter().map(|(_, calls)| *calls).filter(|calls| *calls > 0).collect()
    }

    fn late(&self) -> usize {
        self.deviations.iter().filter(|(_, deviation)| matches!(deviation, Deviation::Late { .. })).count()
    }
}

fn play(job: &Job) -> Told {
    let mut told = Told::default();
    for (number, beat) in job.beats.iter().enumerate() {
        if let Some(next) = told.rhythm.next() {
            told.forecast += 1;
            told.right += usize::from(next.kind == beat.kind && next.bytes == beat.bytes);
        }
        let was_provisional = told.rhythm.is_provisional();
        let heard = told.rhythm.hear(*beat);
        let followed = if told.rhythm.state() == State::Locked { told.rhythm.period_calls() } else { 0 };
        if heard.state_changed {
            let is_for_now = told.rhythm.is_provisional() || (was_provisional && followed == 0);
            let states = if is_for_now { &mut told.for_now } else { &mut told.states };
            states.push((number, followed));
        }
        told.deviations.extend(heard.deviation.map(|deviation| (number, deviation)));
        told.changes.extend(heard.change);
    }
    told
}

impl std::fmt::Debug for Rhythm {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{:?}, step of {} calls, {} steps", self.state, self.period_calls(), self.step)
    }
}
