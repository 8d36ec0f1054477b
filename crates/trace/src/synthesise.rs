//! Makes traces up, from a recipe that a person can read and that gives the same calls on every machine.
//! The recipe is the trace's source: whoever has the file can make it again. Nothing here was measured; the shapes
//! are those of known training and serving loops, and of input that is meant to mislead.

mod adversaries;
mod dice;
mod jobs;
mod recipe;

use airamp_telemetry::{Datatype, Kind};

use self::dice::Dice;
pub use self::recipe::{Definition, Parameter, RECIPES, Recipe};
use crate::{Call, Communicator, MOST_CALLS, Trace, VERSION, bytes_of};

/// `recipe`: a job's kind and its parameters, such as "ddp buckets=24 jitter=0.1 seed=7". What it leaves out is as in
/// `RECIPES`, and the trace's source names it.
pub fn synthesise(recipe: &str) -> Result<Trace, String> {
    let recipe: Recipe = recipe.parse()?;
    let mut dice = Dice::new(recipe.whole("seed"));
    let mut steps = (recipe.definition.steps)(&recipe, &mut dice);
    let mut clock = Clock::new(&recipe);
    let mut calls = Vec::new();
    for number in 0..recipe.whole("steps") {
        let step = steps(&mut dice, number);
        let slow = if number < recipe.whole("warm_up") { recipe.value("warm_up_slower") } else { 1.0 };
        calls.extend(step.iter().map(|planned| clock.place(planned, slow, &mut dice)));
        pause(&recipe, number, &mut clock, &mut dice, &mut calls);
        if calls.len() > MOST_CALLS {
            return Err(format!("more than {MOST_CALLS} calls"));
        }
    }
    let communicators = (recipe.definition.communicators)(&recipe);
    let source = format!("synthesised: {recipe}");
    Ok(Trace { version: VERSION, source, communicators, calls, lost: 0 })
}

/// The trace's source without what says that it was synthesised.
pub fn recipe_of(source: &str) -> Option<&str> {
    source.strip_prefix("synthesised: ")
}

/// What a step says: for a step's number, its calls.
type Steps = Box<dyn FnMut(&mut Dice, u64) -> Vec<Planned>>;

/// A call of a step.
#[derive(Clone, Copy)]
struct Planned {
    /// What of the step's time passes before it.
    after: f64,
    communicator: u16,
    kind: Kind,
    datatype: Datatype,
    count: u64,
    group: bool,
}

const BFLOAT16: Datatype = Datatype(9);
const FLOAT32: Datatype = Datatype(7);

impl Planned {
    fn new(after: f64, kind: Kind, datatype: Datatype, count: u64) -> Self {
        Self { after, communicator: 0, kind, datatype, count, group: false }
    }

    fn on(self, communicator: u16) -> Self {
        Self { communicator, ..self }
    }

    /// With the call before it in one group.
    fn grouped(self) -> Self {
        Self { group: true, ..self }
    }
}

struct Clock {
    at_ns: u64,
    step_ns: f64,
    jitter: f64,
    hiccups: f64,
}

/// The shortest hiccup, as a part of the step; a longer one is as much rarer, up to the longest.
const HICCUP: f64 = 0.02;
const LONGEST_HICCUP: f64 = 1.0;

impl Clock {
    fn new(recipe: &Recipe) -> Self {
        Self {
            at_ns: 0,
            step_ns: recipe.value("step_ms") * 1e6,
            jitter: recipe.value("jitter"),
            hiccups: recipe.value("hiccups"),
        }
    }

    fn place(&mut self, planned: &Planned, slow: f64, dice: &mut Dice) -> Call {
        let Planned { after, communicator, kind, datatype, count, group } = *planned;
        let ns = after * self.step_ns * slow * dice.around_one(self.jitter);
        let ns = ns + self.hiccup(dice);
        // A call costs its host some microseconds; only those of a group come at one moment.
        let floor = if group && after == 0.0 { 0.0 } else { 3000.0 };
        self.at_ns = self.at_ns.saturating_add(ns.max(floor) as u64);
        let bytes = bytes_of(datatype.0, count);
        let (at_ns, kind, datatype) = (self.at_ns, kind as u8, datatype.0);
        Call { at_ns, communicator, kind, datatype, count, bytes, group, captured: false, device_ns: None }
    }
}

impl Clock {
    /// Chance is not asked where there are none, so that other recipes stay as they are.
    fn hiccup(&self, dice: &mut Dice) -> f64 {
        if self.hiccups == 0.0 || !dice.is(self.hiccups) {
            return 0.0;
        }
        self.step_ns * (HICCUP / (1.0 - dice.share())).min(LONGEST_HICCUP)
    }
}

/// An evaluation: nothing for a while, then what it found is gathered.
fn pause(recipe: &Recipe, number: u64, clock: &mut Clock, dice: &mut Dice, calls: &mut Vec<Call>) {
    let every = recipe.whole("pause_every");
    if every == 0 || !(number + 1).is_multiple_of(every) {
        return;
    }
    clock.at_ns = clock.at_ns.saturating_add((recipe.value("pause_ms") * 1e6) as u64);
    for _ in 0..recipe.whole("pause_calls") {
        let planned = Planned::new(0.1, Kind::AllGather, FLOAT32, 64);
        calls.push(clock.place(&planned, 1.0, dice));
    }
}

fn one_communicator(recipe: &Recipe) -> Vec<Communicator> {
    vec![Communicator { ranks: recipe.whole("ranks") as u32, rank: 0, name: 1 }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_gives_the_same_trace_each_time_and_says_how() {
        for definition in RECIPES {
            let first = synthesise(definition.name).unwrap();
            let again = synthesise(recipe_of(&first.source).unwrap()).unwrap();
            assert_eq!(first, again, "{}", definition.name);
            assert!(first.calls.len() > 100, "{}", definition.name);
            assert!(first.calls.windows(2).all(|two| two[0].at_ns <= two[1].at_ns), "{}", definition.name);
            let other = synthesise(&format!("{} seed=77", definition.name)).unwrap();
            assert_ne!(first.calls, other.calls, "{}: the seed has no effect", definition.name);
        }
    }

    #[test]
    fn every_parameter_has_an_effect() {
        for definition in RECIPES {
            let usual = synthesise(definition.name).unwrap();
            for parameter in definition.parameters() {
                // A pause and a warm-up of nothing are the same however long each would be.
                let switch = match parameter.name {
                    "pause_ms" | "pause_calls" => " pause_every=10",
                    "warm_up_slower" => " warm_up=3",
                    _ => "",
                };
                let base = synthesise(&format!("{}{switch}", definition.name)).unwrap();
                let value = if parameter.usual == 0.0 { 1.0 } else { parameter.usual * 0.5 };
                let value = if parameter.is_whole { value.ceil().max(1.0) } else { value };
                let value = if value == parameter.usual { value + 1.0 } else { value };
                let text = format!("{}{switch} {}={value}", definition.name, parameter.name);
                let changed = synthesise(&text).unwrap();
                assert!(
                    changed.calls != base.calls || changed.communicators != usual.communicators,
                    "{text} changes nothing"
                );
            }
        }
    }

    #[test]
    fn without_jitter_the_steps_of_a_job_are_alike() {
        let trace = synthesise("ddp steps=20 jitter=0").unwrap();
        let period = trace.calls.len() / 20;
        for (one, next) in trace.calls.iter().zip(&trace.calls[period..]) {
            assert_eq!((one.kind, one.count), (next.kind, next.count));
            assert_eq!(next.at_ns - one.at_ns, 80_000_000);
        }
    }

    #[test]
    fn what_is_no_recipe_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "which recipe"),
            ("dpd", "dpd"),
            ("ddp buckets", "buckets"),
            ("ddp buckets=x", "buckets"),
            ("ddp buckets=2.5", "whole"),
            ("ddp buckets=-1", "from"),
            ("ddp buckets=1e9", "to"),
            ("ddp buckets=NaN", "buckets"),
            ("ddp bukets=3", "bukets"),
            ("ddp buckets=3 buckets=4", "twice"),
            ("aperiodic steps=1000000 calls=1000", "calls"),
        ] {
            let error = synthesise(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
