//! The judgements as a table or as JSON.

use serde_json::json;

use super::judge::{Judgement, Learnt, Trial};
use crate::columns::{aligned, time};

const HEADER: [&str; 14] = [
    "trace",
    "comm",
    "calls",
    "state",
    "step",
    "length",
    "found after",
    "predicted",
    "late",
    "false late",
    "other",
    "planted",
    "seen",
    "precision",
];

pub(super) fn json(judgements: &[Judgement], trial: &Trial) -> String {
    format!("{:#}\n", json!({ "straggler": trial.part, "seed": trial.seed, "traces": judgements }))
}

pub(super) fn table(judgements: &[Judgement], trial: &Trial) -> String {
    let lines = judgements.iter().flat_map(|judgement| {
        judgement.communicators.iter().enumerate().map(|(place, learnt)| line(judgement, place, learnt))
    });
    let table = aligned(HEADER, lines.collect(), &["trace", "state"]);
    format!("{table}\nplanted: delays of {:.0}% of the step, seed {}\n", trial.part * 100.0, trial.seed)
}

/// What was planted belongs to the whole trace and stands in its first line.
fn line(judgement: &Judgement, place: usize, learnt: &Learnt) -> [String; 14] {
    let planted = &judgement.stragglers;
    let once = |text: String| if place == 0 { text } else { String::new() };
    let found = learnt.found_after_periods.map_or("-".into(), |steps| format!("{steps:.1} steps"));
    [
        once(judgement.name.clone()),
        learnt.communicator.to_string(),
        learnt.calls.to_string(),
        learnt.state.into(),
        format!("{} calls", learnt.period_calls),
        time(learnt.period_ns as f64 / 1e3),
        found,
        percent(learnt.share_predicted()),
        learnt.late.to_string(),
        format!("{:.3}%", learnt.false_late as f64 * 100.0 / learnt.calls.max(1) as f64),
        learnt.missing_extra_resized.to_string(),
        once(planted.planted.to_string()),
        once(percent(planted.recall())),
        once(percent(planted.precision())),
    ]
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1}%", share * 100.0))
}
