//! `airamp pattern` over the traces of the repository: what the library must get right about honest jobs, and that it
//! believes nothing of the others.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{airamp, run, stderr, stdout};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/traces").join(name)
}

fn judged(name: &str) -> Vec<Value> {
    let folder = folder(name);
    let output = run(&mut airamp(&["pattern", "--json", folder.to_str().expect("UTF-8")]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    std::mem::take(value["traces"].as_array_mut().expect("traces"))
}

fn honest() -> Vec<Value> {
    let made_up = judged("synthesised").into_iter().filter(|trace| !is_adversary(trace));
    made_up.chain(judged("recorded")).collect()
}

fn is_adversary(trace: &Value) -> bool {
    trace["name"].as_str().is_some_and(|name| name.contains("adversary"))
}

fn communicators(trace: &Value) -> impl Iterator<Item = &Value> {
    trace["communicators"].as_array().into_iter().flatten()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

/// A communicator with so few calls has no step to find.
const FEW_CALLS: f64 = 100.0;
const MOST_STEPS: f64 = 5.0;

#[test]
fn the_step_of_an_honest_job_is_found_within_five() {
    for trace in honest() {
        for learnt in communicators(&trace).filter(|learnt| number(&learnt["calls"]) >= FEW_CALLS) {
            assert!(number(&learnt["found_after_periods"]) <= MOST_STEPS, "{} of {}", learnt, trace["name"]);
        }
    }
}

#[test]
fn of_the_calls_of_an_honest_job_95_in_a_hundred_are_foretold() {
    for trace in honest() {
        for learnt in communicators(&trace).filter(|learnt| number(&learnt["calls"]) >= FEW_CALLS) {
            let share = number(&learnt["predicted"]) / number(&learnt["judged"]);
            assert!(share >= 0.95, "{share}: {} of {}", learnt, trace["name"]);
        }
    }
}

#[test]
fn of_the_calls_of_honest_jobs_less_than_one_in_a_thousand_is_falsely_late() {
    for trace in honest() {
        for learnt in communicators(&trace) {
            let share = number(&learnt["false_late"]) / number(&learnt["calls"]);
            assert!(share < 0.001, "{share}: {} of {}", learnt, trace["name"]);
        }
    }
}

#[test]
fn of_the_delays_of_a_fifth_of_the_step_95_in_a_hundred_are_seen() {
    let honest = honest();
    let all = |of: &str| -> f64 { honest.iter().map(|trace| number(&trace["stragglers"][of])).sum() };
    assert!(all("seen") / all("planted") >= 0.95, "{} of {}", all("seen"), all("planted"));
    for trace in &honest {
        let stragglers = &trace["stragglers"];
        let (planted, seen) = (number(&stragglers["planted"]), number(&stragglers["seen"]));
        assert!(planted >= 50.0 && seen / planted >= 0.95, "{} of {}", stragglers, trace["name"]);
    }
}

#[test]
fn of_calls_without_a_step_nothing_is_believed_for_long() {
    let adversaries: Vec<Value> = judged("synthesised").into_iter().filter(is_adversary).collect();
    assert!(!adversaries.is_empty());
    for trace in adversaries.iter().filter(|trace| trace["name"] != "synthesised/adversary-switching") {
        for learnt in communicators(trace) {
            assert_eq!(learnt["state"], "learning", "{} of {}", learnt, trace["name"]);
            assert_eq!(learnt["found_after_calls"], Value::Null, "{} of {}", learnt, trace["name"]);
        }
    }
}

#[test]
fn a_recipe_is_judged_as_a_trace_is_and_shown_as_a_table() {
    let output = run(&mut airamp(&["pattern", "--recipe", "ddp buckets=24 jitter=0.1 seed=7 steps=80"]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    for part in ["24 calls", "locked", "100.0%", "planted: delays of 20% of the step, seed 1"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn what_is_no_trace_is_refused() {
    let missing = run(&mut airamp(&["pattern", "/nowhere/rank-0.jsonl"]));
    assert_eq!(missing.status.code(), Some(125), "{}", stderr(&missing));
    let part = run(&mut airamp(&["pattern", "--straggler", "0", "--recipe", "ddp"]));
    assert_eq!(part.status.code(), Some(2), "{}", stderr(&part));
}
