//! What ranks learn about their calls may differ, and so may what they use it for; what they send may not. Each
//! result is the vendor's or the codec's, and the same on all of them, call by call.

use airamp_tests::Outcome;
use airamp_tests::scenario::Scenario;
use airamp_tests::tuned::assert_alike;
use std::time::Duration;

/// Six calls in a step, of a size that only the fitted variants cut into chunks which overlap, on a link so slow that
/// compression pays.
fn job() -> Scenario {
    let tensors =
        "float32:1048576,float32:1048576,float32:1048576,float32:1048576,float32:1048576,float32:1048576";
    let job = Scenario::new("tuned-loop", 2).args(&["--tensors", tensors, "--steps", "120"]);
    job.env("AIRAMP_EMU_LINK_GBPS", "1").time_limit(Duration::from_secs(240))
}

/// Rank 0 leads. By rank: whether it learns.
fn run(learns: [bool; 2]) -> Vec<Outcome> {
    job().in_mode_but("on", |rank, run| {
        let pattern = if learns[rank as usize] { "1" } else { "0" };
        run.env("AIRAMP_PATTERN", pattern).env("AIRAMP_ARENA_BYTES", "16777216")
    })
}

fn has_tried_what_fits(outcome: &Outcome) -> bool {
    outcome.stderr_text().contains("variant 4")
}

#[test]
fn ranks_of_which_only_the_leader_knows_the_step_try_what_fits_it_together() {
    let outcomes = run([true, false]);
    let reports = assert_alike(&outcomes);
    assert!(reports.iter().all(|report| report.agreed && report.trials > 0), "{reports:?}");
    assert!(has_tried_what_fits(&outcomes[0]), "{}", outcomes[0]);
}

#[test]
fn ranks_whose_leader_does_not_know_the_step_go_on_as_if_nobody_did() {
    let outcomes = run([false, true]);
    let reports = assert_alike(&outcomes);
    assert!(reports.iter().all(|report| report.agreed && report.trials > 0), "{reports:?}");
    assert!(!has_tried_what_fits(&outcomes[0]), "{}", outcomes[0]);
}

#[test]
fn ranks_that_use_the_step_for_different_things_stay_in_step() {
    let effects = ["chunks,plans", "samples"];
    let outcomes = job().in_mode_but("on", |rank, run| {
        run.env("AIRAMP_PATTERN_EFFECTS", effects[rank as usize]).env("AIRAMP_ARENA_BYTES", "16777216")
    });
    assert_alike(&outcomes);
}
