//! What the tuner decides by itself on links of different speed, what it says about it, and that a job which is
//! started again begins where the last one ended. Times are printed; only the decisions are asserted.

use std::path::Path;
use std::time::Duration;

use airamp_tests::scenario::Scenario;
use airamp_tests::tuned::{Tuned, assert_alike, assert_exact};
use airamp_tests::{Outcome, Run, airamp};

/// The first is so large that the wire takes far longer than the noise of a busy machine.
const TENSORS: [&str; 2] = ["--tensors", "float32:4194304,bfloat16:1048576"];
const LARGE: u64 = 4 << 20;

/// On a slow link compression pays by far, on two busy cores too.
fn slow(ranks: u32) -> Scenario {
    let job =
        Scenario::new("tuned-loop", ranks).args(&TENSORS).args(&["--steps", "3000", "--after-decided", "16"]);
    job.env("AIRAMP_EMU_LINK_GBPS", "1").time_limit(Duration::from_secs(200))
}

/// As fast as the machine, and each exchange of compressed calls, and only those gather, takes ten milliseconds
/// longer: how fast the machine's loopback is beside its processor must not matter.
fn fast(ranks: u32) -> Scenario {
    let job = Scenario::new("tuned-loop", ranks).args(&["--tensors", "float32:262144,bfloat16:65536"]);
    job.args(&["--steps", "3000", "--after-decided", "16"]).env("AIRAMP_EMU_SLOW_CALL", "ncclAllGather:10")
}

/// `airamp explain --json` on what all ranks logged.
fn explained(outcomes: &[Outcome], arguments: &[&str]) -> serde_json::Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("job.log");
    let log: Vec<u8> = outcomes.iter().flat_map(|outcome| outcome.stderr.clone()).collect();
    std::fs::write(&file, log).expect("a file in a temporary folder");
    let outcome = Run::new(airamp()).args(["explain", "--json"]).args(arguments).arg(&file).run();
    serde_json::from_str(&outcome.assert_success().stdout_text()).expect("JSON")
}

#[track_caller]
fn classes(explained: &serde_json::Value) -> Vec<serde_json::Value> {
    let communicators = explained["communicators"].as_array().expect("communicators");
    assert_eq!(communicators.len(), 1, "{explained:#}");
    let classes = communicators[0]["classes"].as_array().expect("classes");
    assert!(!classes.is_empty(), "nothing was decided: {explained:#}");
    classes.clone()
}

fn show(what: &str, reports: &[Tuned]) {
    let report = &reports[0];
    println!(
        "{what}, {} ranks: {} steps, {}; a step took {:.1} ms at first and {:.1} ms at the end",
        reports.len(),
        report.steps,
        report.outcomes,
        report.first_steps_ms,
        report.last_steps_ms
    );
}

#[test]
fn on_a_slow_link_it_switches_on_and_the_log_says_by_how_much_it_pays() {
    for ranks in [2, 4] {
        let outcomes = slow(ranks).in_mode("on");
        let reports = assert_alike(&outcomes);
        show("slow link", &reports);
        for report in &reports {
            assert!(report.agreed && report.classes[0].planned == "compressed", "{report:?}");
            assert!(report.compressed > 0, "{report:?}");
        }
        let classes = classes(&explained(&outcomes, &[]));
        let large = classes.iter().find(|class| class["class"]["from_bytes"] == LARGE);
        assert_eq!(large.map(|class| &class["decision"]), Some(&"compressed".into()), "{classes:#?}");
        for class in classes {
            let pays = class["speedup"].as_f64().is_some_and(|speedup| speedup >= 1.05);
            assert_eq!(class["decision"], if pays { "compressed" } else { "vendor" }, "{class:#}");
            assert!(class["vnmse"].as_f64().is_some_and(|error| error > 0.0 && error < 2e-3), "{class:#}");
        }
        show("slow link, without the library", &assert_exact(&slow(ranks).args(&["--steps", "40"]).bare()));
    }
}

#[test]
fn on_a_fast_link_it_switches_itself_off_and_says_why() {
    for ranks in [2, 4] {
        let outcomes = fast(ranks).in_mode("on");
        let reports = assert_exact(&outcomes);
        show("fast link", &reports);
        assert!(reports.iter().all(|report| report.agreed && report.all_planned("vendor")), "{reports:?}");
        assert!(reports.iter().all(|report| report.trials > 0), "{reports:?}");
        for class in classes(&explained(&outcomes, &[])) {
            assert_eq!(class["decision"], "vendor", "{class:#}");
            assert!(class["speedup"].as_f64().is_some_and(|speedup| speedup < 1.05), "{class:#}");
            assert!(class["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{class:#}");
        }
    }
}

#[test]
fn an_error_above_the_bound_keeps_it_off_and_is_the_reason() {
    let outcomes = slow(2).args(&["--steps", "800"]).env("AIRAMP_MAX_VNMSE", "1e-9").in_mode("on");
    let reports = assert_exact(&outcomes);
    assert!(reports.iter().all(|report| report.trials > 0 && report.all_planned("vendor")), "{reports:?}");
    for class in classes(&explained(&outcomes, &[])) {
        assert_eq!(class["decision"], "vendor", "{class:#}");
        assert!(class["vnmse"].as_f64().is_some_and(|error| error > 1e-9), "{class:#}");
    }
}

#[test]
fn a_speedup_that_nobody_reaches_keeps_it_off() {
    let reports =
        assert_exact(&slow(2).args(&["--steps", "800"]).env("AIRAMP_MIN_SPEEDUP", "100").in_mode("on"));
    assert!(reports.iter().all(|report| report.trials > 0 && report.all_planned("vendor")), "{reports:?}");
}

#[test]
fn in_shadow_mode_every_result_is_exact_and_the_gain_is_told() {
    let outcomes = slow(2).args(&["--steps", "300"]).in_mode("shadow");
    let reports = assert_exact(&outcomes);
    assert!(reports.iter().all(|report| report.trials > 0 && report.compressed == 0), "{reports:?}");
    for class in classes(&explained(&outcomes, &["--all"])) {
        let pays = class["speedup"].as_f64().is_some_and(|speedup| speedup >= 1.05);
        assert_eq!(class["decision"], if pays { "would" } else { "would-not" }, "{class:#}");
        assert!(class["vnmse"].as_f64().is_some_and(|error| error > 0.0), "{class:#}");
    }
}

#[test]
fn calls_in_groups_of_their_own_are_measured_too() {
    let reports = assert_alike(&slow(2).args(&["--one-by-one"]).in_mode("on"));
    assert!(reports.iter().all(|report| report.classes[0].planned == "compressed"), "{reports:?}");
}

mod a_tuning_cache {
    use super::*;

    /// The ranks of one machine share the file, as they share a home folder.
    fn job(cache: &Path) -> Vec<Tuned> {
        let cache = cache.to_str().expect("UTF-8");
        assert_alike(&slow(2).env("AIRAMP_TUNING_CACHE", cache).in_mode("on"))
    }

    #[test]
    fn lets_a_job_that_is_started_again_begin_decided() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = folder.path().join("tuning.toml");
        let first = job(&cache);
        assert!(first[0].outcomes.contains('e') && first[0].trials > 0, "{first:?}");
        let second = job(&cache);
        assert_eq!((&second[0].classes, second[0].trials), (&first[0].classes, 0), "{second:?}");
        let compressed = first[0].classes.iter().filter(|class| class.planned == "compressed").count();
        assert!(compressed > 0, "{first:?}");
        assert_eq!(second[0].count('c'), compressed * second[0].steps, "{second:?}");
    }

    #[test]
    fn that_only_some_ranks_hold_is_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (own, other) = (folder.path().join("own.toml"), folder.path().join("other.toml"));
        job(&own);
        let outcomes = slow(2).in_mode_but("on", |rank, run| {
            run.env("AIRAMP_TUNING_CACHE", if rank == 0 { &own } else { &other })
        });
        let reports = assert_alike(&outcomes);
        assert!(reports[0].outcomes.contains('e') && reports[0].trials > 0, "{reports:?}");
    }

    #[test]
    fn that_holds_noise_is_told_and_not_used() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let cache = folder.path().join("tuning.toml");
        std::fs::write(&cache, "[[tuning]\nplan = 0xzz\u{0}").expect("a file in a temporary folder");
        let cache = cache.to_str().expect("UTF-8").to_owned();
        let outcomes = slow(2).env("AIRAMP_TUNING_CACHE", cache.clone()).in_mode("on");
        let reports = assert_alike(&outcomes);
        assert!(reports[0].trials > 0 && reports[0].count('c') > 0, "{reports:?}");
        assert!(outcomes[0].stderr_text().contains(&cache), "{}", outcomes[0]);
    }
}
