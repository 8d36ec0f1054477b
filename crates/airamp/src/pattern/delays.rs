//! Which calls of a trace were held up, by the trace alone: the pause before a call is compared with those before the same
//! call of the steps before it. So that a call which the rhythm calls late can be said to have been late, or not, without
//! asking the rhythm by how much. `judge` and `stragglers` ask.

use super::playing::Note;

/// Steps that are looked back at, and pauses that must be there to say anything.
const STEPS: usize = 8;
const FEWEST: usize = 4;
/// A delay of less than this part of the step is none.
const LEAST_PART: f64 = 0.15;
/// How far from the median a number is an outlier, in units of the median distance from it: 3.5 by the usual rule for the
/// modified z-score, in which 0.6745 makes the unit a standard deviation where numbers are normally distributed.
const OUTLIER: f64 = 3.5 / 0.6745;

/// For each call whether it was held up: by 15% of the step and by more than pauses there differ, or by `part` of it.
pub(super) fn held_up(notes: &[Note], part: f64) -> Vec<bool> {
    let mut heard: Vec<Vec<usize>> = Vec::new();
    let mut held_up = Vec::with_capacity(notes.len());
    for (number, note) in notes.iter().enumerate() {
        if heard.len() <= note.communicator {
            heard.resize(note.communicator + 1, Vec::new());
        }
        let own = &mut heard[note.communicator];
        own.push(number);
        held_up.push(is_held_up(notes, own, part));
    }
    held_up
}

/// The last of a communicator's calls.
fn is_held_up(notes: &[Note], own: &[usize], part: f64) -> bool {
    let call = |ago: usize| own.len().checked_sub(ago + 1).and_then(|place| notes.get(own[place]));
    let pause = |ago: usize| Some(call(ago)?.at_ns.saturating_sub(call(ago + 1)?.at_ns) as f64);
    let (Some(now), Some(now_ns)) = (call(0), pause(0)) else { return false };
    let is_like = |ago: &usize| call(*ago).is_some_and(|before| before.made.is_like(&now.made));
    let places = (1..=STEPS).map(|steps| steps * now.period_calls as usize).filter(is_like);
    let mut before: Vec<f64> = places.filter_map(pause).collect();
    if now.period_calls == 0 || before.len() < FEWEST {
        return false;
    }
    let usual_ns = median(&mut before);
    let mut apart: Vec<f64> = before.iter().map(|pause_ns| (pause_ns - usual_ns).abs()).collect();
    let is_outlier = now_ns - usual_ns > median(&mut apart) * OUTLIER;
    let late = (now_ns - usual_ns) / now.period_ns.max(1) as f64;
    late >= part || (late >= LEAST_PART && is_outlier)
}

/// Of some numbers, which it sorts.
fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = |place: usize| numbers.get(place).copied().unwrap_or_default();
    (middle(numbers.len() / 2) + middle(numbers.len().saturating_sub(1) / 2)) / 2.0
}

#[cfg(test)]
mod tests {
    use airamp_trace::synthesise::synthesise;

    use super::held_up;
    use crate::pattern::playing::play;

    const DELAYED: usize = 200;

    /// Calls of steps of 8 that were held up, where one is, by this part of the step of 80 ms.
    fn found(delay: f64) -> Vec<usize> {
        let mut trace = synthesise("ddp jitter=0.02 seed=5 steps=60").expect("a recipe");
        let delay_ns = (80e6 * delay) as u64;
        trace.calls.iter_mut().skip(DELAYED).for_each(|call| call.at_ns += delay_ns);
        let held_up = held_up(&play(&trace, |call| call.at_ns), 0.2);
        (0..held_up.len()).filter(|call| held_up[*call]).collect()
    }

    #[test]
    fn a_call_was_held_up_where_its_pause_stands_out_by_a_part_of_the_step_and_nowhere_else() {
        assert_eq!(found(0.0), [0_usize; 0]);
        assert_eq!(found(0.1), [0_usize; 0]);
        assert_eq!(found(0.17), [DELAYED]);
        assert_eq!(found(0.5), [DELAYED]);
    }
}
