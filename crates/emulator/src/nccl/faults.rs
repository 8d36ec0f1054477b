//! Faults by order: slow and dying ranks, calls that fail or take long.
//!
//! Read once from the environment (the rows of `AIRAMP_EMU_SLOW_RANK` and its neighbours in the
//! settings table). Without any of them a call pays one load and one branch.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use super::error::{NcclError, Outcome, announce};
use super::lock;
use crate::environment;

struct Plan {
    slow_ranks: Vec<(usize, Duration)>,
    deaths: Vec<(usize, u64)>,
    failures: Vec<(String, u64, i32)>,
    slow_calls: Vec<(String, Duration)>,
    calls: Mutex<HashMap<String, u64>>,
}

static PLAN: LazyLock<Option<Plan>> = LazyLock::new(|| {
    let millis = |text: &str| text.parse().ok().map(Duration::from_millis);
    let plan = Plan {
        slow_ranks: entries("AIRAMP_EMU_SLOW_RANK", |part| {
            Some((part.first()?.parse().ok()?, millis(part.get(1)?)?))
        }),
        deaths: entries("AIRAMP_EMU_DIE_AT_CALL", |part| {
            Some((part.first()?.parse().ok()?, part.get(1)?.parse().ok()?))
        }),
        failures: entries("AIRAMP_EMU_FAIL_CALL", |part| {
            Some(((*part.first()?).to_owned(), part.get(1)?.parse().ok()?, part.get(2)?.parse().ok()?))
        }),
        slow_calls: entries("AIRAMP_EMU_SLOW_CALL", |part| {
            Some(((*part.first()?).to_owned(), millis(part.get(1)?)?))
        }),
        calls: Mutex::default(),
    };
    let idle = plan.slow_ranks.is_empty()
        && plan.deaths.is_empty()
        && plan.failures.is_empty()
        && plan.slow_calls.is_empty();
    (!idle).then_some(plan)
});

fn entries<T>(variable: &str, parse: impl Fn(&[&str]) -> Option<T>) -> Vec<T> {
    let text = environment::text(variable);
    let parse_one = |entry: &str| {
        let parsed = parse(&entry.split(':').collect::<Vec<_>>());
        if parsed.is_none() {
            announce(&format!("{variable}: {entry:?} is not understood and ignored"));
        }
        parsed
    };
    text.split(',').filter(|entry| !entry.is_empty()).filter_map(parse_one).collect()
}

/// At the start of every exported call.
#[inline]
pub(crate) fn enter(function: &'static str) -> Outcome {
    match &*PLAN {
        None => Ok(()),
        Some(plan) => plan.enter(function),
    }
}

/// At every collective and point-to-point call of a rank.
pub(crate) fn perhaps_die(rank: usize) {
    if let Some(plan) = &*PLAN
        && !plan.deaths.is_empty()
    {
        let count = plan.count(&format!("rank {rank}"));
        if plan.deaths.contains(&(rank, count)) {
            announce(&format!("rank {rank} dies in its call {count}, as AIRAMP_EMU_DIE_AT_CALL asks"));
            // SAFETY: a signal to this process itself; nothing is expected to run after it.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
    }
}

/// How much later a rank starts each operation.
pub(crate) fn delay(rank: usize) -> Option<Duration> {
    let plan = PLAN.as_ref()?;
    let entry = plan.slow_ranks.iter().find(|(slow, _)| *slow == rank);
    entry.map(|(_, delay)| *delay)
}

impl Plan {
    fn enter(&self, function: &'static str) -> Outcome {
        if let Some((_, delay)) = self.slow_calls.iter().find(|(name, _)| name == function) {
            std::thread::sleep(*delay);
        }
        if self.failures.iter().any(|(name, _, _)| name == function) {
            let count = self.count(function);
            let due = |(name, nth, _): &&(String, u64, i32)| name == function && *nth == count;
            if let Some((_, _, result)) = self.failures.iter().find(due) {
                return Err(NcclError::Injected(*result));
            }
        }
        Ok(())
    }

    fn count(&self, what: &str) -> u64 {
        let mut calls = lock(&self.calls);
        let count = calls.entry(what.to_owned()).or_default();
        *count += 1;
        *count
    }
}
