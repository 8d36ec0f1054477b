//! Decisions of processes that run, or ended a short while ago, out of their telemetry. A job that decided nothing
//! says why: that is most of what people ask.

use airamp_observer::view::{Job, JobState, Node};
use airamp_policy::explain::Record;
use serde::Serialize;

use crate::config::without_control_characters;
use crate::observe::{self, Which};

/// A job of this machine and why it does what it does.
#[derive(Debug, Serialize, PartialEq)]
pub(super) struct JobSaid {
    pub(super) job: String,
    pub(super) user: String,
    pub(super) mode: String,
    pub(super) state: &'static str,
    /// One sentence about all its calls.
    pub(super) why: String,
    /// One about its rhythm; empty without one.
    pub(super) rhythm: String,
}

pub(super) struct Seen {
    pub(super) jobs: Vec<JobSaid>,
    pub(super) records: Vec<Record>,
    /// What to do where nothing was decided.
    pub(super) advice: String,
}

pub(super) fn look(which: &Which) -> Seen {
    // Decisions need one look only; rates are not shown.
    of(which, which.of(which.observer().look()))
}

pub(super) fn of(which: &Which, mut node: Node) -> Seen {
    let jobs: Vec<JobSaid> = node.jobs.iter().map(said).collect();
    let advice = match jobs.is_empty() {
        true => which.nothing_found(&node),
        false => {
            "airamp: no decision has been made -> AIRAMP_MODE=shadow measures what compression would gain, \
                  AIRAMP_MODE=on compresses where it pays; both need calls of at least AIRAMP_MIN_BYTES"
                .to_owned()
        }
    };
    let records = node.jobs.iter_mut().flat_map(|job| std::mem::take(&mut job.decisions)).collect();
    Seen { jobs, records, advice }
}

fn said(job: &Job) -> JobSaid {
    JobSaid {
        job: observe::name(job).to_owned(),
        user: job.user.clone(),
        mode: job.mode.to_string(),
        state: if job.state == JobState::Ended { "ended" } else { "running" },
        why: why(job),
        rhythm: rhythm(job),
    }
}

/// What was learnt of its calls, and what that is good for.
fn rhythm(job: &Job) -> String {
    match (job.rhythm.state.as_ref(), job.rhythm.step_s) {
        ("locked", Some(step_s)) => format!(
            "Its calls repeat every {:.1} ms: the library is ready before they come (AIRAMP_PATTERN_EFFECTS).",
            step_s * 1e3
        ),
        ("drifting", _) => {
            "Its calls do not follow the step that was learnt, as in an evaluation.".to_owned()
        }
        ("learning", _) => "No step that repeats has been found yet: nothing is foreseen.".to_owned(),
        _ => String::new(),
    }
}

/// From what is known without any decision.
fn why(job: &Job) -> String {
    if let Some(ranks) = in_state(job, "inert") {
        return format!(
            "{} had an internal error and passes every call on, for good: its log says why.",
            capital(&ranks)
        );
    }
    if let Some(ranks) = in_state(job, "disabled") {
        return format!("AIRAMP_DISABLE is set on {ranks}: every call is the vendor's.");
    }
    if job.mode == "observe" {
        return "Mode observe: calls are counted and never changed (AIRAMP_MODE).".to_owned();
    }
    if job.communicators.is_empty() {
        return "No communicator has been made yet.".to_owned();
    }
    match job.decisions.len() {
        0 => "The ranks have not decided anything yet.".to_owned(),
        1 => "1 decision is known.".to_owned(),
        count => format!("{count} decisions are known."),
    }
}

/// The ranks that are in this state, if there are any.
fn in_state(job: &Job, word: &str) -> Option<String> {
    let which: Vec<_> = job.ranks.iter().filter(|rank| rank.state == word).collect();
    let numbers: Vec<u32> = which.iter().filter_map(|rank| rank.rank).collect();
    match (which.is_empty(), numbers.is_empty()) {
        (true, _) => None,
        (false, true) => Some("a process".to_owned()),
        (false, false) => Some(super::ranks(&numbers)),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// The lines above the communicators.
pub(super) fn heading(jobs: &[JobSaid]) -> String {
    let line = |job: &JobSaid| {
        let JobSaid { job, user, mode, state, why, rhythm } = job;
        let text = format!("job {job}, user {user}, mode {mode}, {state}: {why} {rhythm}");
        format!("{}\n", without_control_characters(text.trim_end()))
    };
    jobs.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decisions_of_all_jobs_are_taken_and_each_job_says_why() {
        let node = Node::example();
        let expected: usize = node.jobs.iter().map(|job| job.decisions.len()).sum();
        let seen = of(&Which::default(), node);
        assert!(expected > 0 && seen.records.len() == expected);
        assert!(
            heading(&seen.jobs).starts_with("job 4711, user alice, mode on, running: "),
            "{}",
            heading(&seen.jobs)
        );
    }

    #[test]
    fn a_job_with_a_rhythm_says_how_long_its_steps_are() {
        let seen = of(&Which::default(), Node::example());
        let told = heading(&seen.jobs);
        let [first, second] = [0, 1].map(|line| told.lines().nth(line).unwrap_or_default());
        assert!(first.contains(" Its calls repeat every 512.0 ms: "), "{first}");
        assert!(!second.contains("repeat") && !second.ends_with(' '), "{second}");
    }

    #[test]
    fn a_job_without_decisions_says_what_keeps_it() {
        let mut job = Node::example().jobs.remove(0);
        job.mode = "observe".into();
        assert!(why(&job).starts_with("Mode observe"));
        job.ranks[3].state = "disabled".into();
        assert_eq!(why(&job), "AIRAMP_DISABLE is set on rank 3: every call is the vendor's.");
        job.ranks[1].state = "inert".into();
        assert!(why(&job).starts_with("Rank 1 had an internal error"), "{}", why(&job));
    }

    #[test]
    fn where_nothing_runs_the_advice_says_so() {
        let seen = of(&Which::default(), Node::default());
        assert!(seen.advice.contains("AIRAMP_TELEMETRY_DIR") && seen.records.is_empty());
    }
}
