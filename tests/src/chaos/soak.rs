//! Long runs: what a process holds must not grow. Three of them: steady work with communicators that come and go, nothing but
//! communicators, and children by fork. Each also runs without the library, since the emulator and the rank
//! program have their own ways with memory; what counts is what the library adds.

use std::path::Path;
use std::time::Duration;

use super::job::{Call, Job, Kin, MANY_QUEUES, Manner, Mode, PlanFile, Step};
use super::report::{Report, Vitals};
use super::runner::{Ran, run_plan};
use crate::End;

/// Added to the time that a run is given, for its start and its last round on a busy machine.
const BEYOND: Duration = Duration::from_secs(240);

/// The emulator starts a thread for each when it is first used: few are all there when the warm-up is over.
const FEW_QUEUES: u32 = 4;

/// What tables may grow by when they double, in bytes.
const TABLES: u64 = 64 << 10;
/// What may stay of a communicator for a while, in bytes.
const OF_A_COMMUNICATOR: u64 = 2 << 10;

/// Communicators of a run whose first third has used every place in the telemetry file: each of the 32 keeps what its
/// first communicator has learnt in, 58 KiB, for the next one.
const SETTLED: usize = 3 * 40;

/// A run of many rounds.
#[derive(Clone, Debug)]
pub struct Soak {
    pub job: Job,
    pub rounds: usize,
    pub seconds: Option<u64>,
}

/// What a process held after the warm-up and at the end: of each quantity, by the rank for which it grew most.
#[derive(Clone, Copy, Debug, Default)]
pub struct Growth {
    pub rounds: usize,
    /// Communicators that each process made.
    pub made: usize,
    pub anonymous_kib: (u64, u64),
    /// Allocated and not freed, in bytes.
    pub live_heap: (u64, u64),
    pub mapped_kib: (u64, u64),
    pub descriptors: (u64, u64),
    pub threads: (u64, u64),
    pub mappings: (u64, u64),
}

impl Soak {
    /// Every manner of calls, on communicators that are made and ended in each round.
    pub fn steady(ranks: u32, mode: Mode, seconds: u64) -> Self {
        let manners = [
            Manner::Plain,
            Manner::Grouped,
            Manner::Captured,
            Manner::Shuffled,
            Manner::Threads,
            Manner::Plain,
        ];
        let mut steps = vec![Step::Make(0), Step::Make(1)];
        for (number, manner) in manners.into_iter().enumerate() {
            let calls = vec![call(0, "float32", 16_001, number), call(1, "bfloat16", 5_003, number + 7)];
            steps.push(Step::Calls { calls, manner, times: 8, skew_us: 0 });
        }
        steps.push(Step::Messages { comm: 0, bytes: 20_641 });
        let communicators = vec![Kin::World, Kin::Split { of: 0, parts: 2, reversed: false }];
        Self { job: job(ranks, mode, communicators, steps), rounds: 0, seconds: Some(seconds) }
    }

    /// Four communicators in each round, and one call on each.
    pub fn churn(ranks: u32, mode: Mode, communicators: usize) -> Self {
        let split = |of| Kin::Split { of, parts: 1, reversed: true };
        let kin = vec![Kin::World, split(0), split(1), Kin::World];
        let mut steps = Vec::new();
        for place in 0..kin.len() {
            let calls = vec![call(place, "float32", 2_000, place)];
            steps.push(Step::Make(place));
            steps.push(Step::Calls { calls, manner: Manner::Plain, times: 1, skew_us: 0 });
        }
        let rounds = communicators.div_ceil(kin.len());
        Self { job: Job { queues: FEW_QUEUES, ..job(ranks, mode, kin, steps) }, rounds, seconds: None }
    }

    /// Ten children in each round, between calls.
    pub fn forks(ranks: u32, mode: Mode, rounds: usize) -> Self {
        let calls = |seed| Step::Calls {
            calls: vec![call(0, "float32", 5_003, seed)],
            manner: Manner::Plain,
            times: 3,
            skew_us: 0,
        };
        let steps = vec![Step::Make(0), calls(1), Step::Forks(10), calls(2)];
        let job = job(ranks, mode, vec![Kin::World], steps);
        Self { job: Job { queues: FEW_QUEUES, ..job }, rounds, seconds: None }
    }

    /// Runs it; plan and telemetry lie in the folder.
    pub fn run(&self, folder: &Path, with: bool) -> Ran {
        let plan = PlanFile {
            rounds: self.rounds,
            seconds: self.seconds,
            tells_results: false,
            tells_vitals: true,
            ..self.job.plan_file()
        };
        let limit = Duration::from_secs(self.seconds.unwrap_or(self.rounds as u64)) + BEYOND;
        run_plan(&self.job, &plan, folder, with, limit)
    }
}

fn job(ranks: u32, mode: Mode, communicators: Vec<Kin>, steps: Vec<Step>) -> Job {
    Job {
        seed: 0,
        ranks,
        mode,
        link_gbps: 0,
        queues: MANY_QUEUES,
        heedless: false,
        ranks_per_node: 1,
        communicators,
        steps,
        faults: Vec::new(),
    }
}

fn call(comm: usize, datatype: &str, count: usize, seed: usize) -> Call {
    Call {
        comm,
        collective: "all_reduce".into(),
        datatype: datatype.into(),
        reduction: "sum".into(),
        count,
        in_place: false,
        shift: 0,
        root: 0,
        seed,
    }
}

/// The reports of a run in which every rank went through with right results; otherwise what was wrong.
pub fn reports(ran: &Ran) -> Result<Vec<&Report>, String> {
    let mut all = Vec::new();
    for (rank, ended) in ran.ranks.iter().enumerate() {
        let report = ended.report.as_ref();
        let fine = ended.end == End::Code(0) && !ended.hung;
        match report.filter(|report| fine && report.counted.other == 0) {
            Some(report) => all.push(report),
            None => {
                let by = report.and_then(|report| report.ended.as_ref());
                return Err(format!(
                    "rank {rank}: {:?}, hung: {}, {by:?}\n{}",
                    ended.end, ended.hung, ended.stderr
                ));
            }
        }
    }
    Ok(all)
}

/// The first third is the warm-up: kernels, caches, pools. Then the lowest of the second third against the lowest of the last:
/// what is never given back lifts that too, and what a look finds half way, such as a connection that is being closed, does not.
pub fn growth(reports: &[&Report]) -> Growth {
    let least = |of: fn(&Report) -> usize| reports.iter().map(|report| of(report)).min().unwrap_or(0);
    let mut growth = Growth {
        rounds: least(|report| report.rounds),
        made: least(|report| report.made),
        ..Growth::default()
    };
    for report in reports {
        let third = report.vitals.len() / 3;
        let (warm, last) = (&report.vitals[third..2 * third], &report.vitals[2 * third..]);
        let put = |pair: &mut (u64, u64), of: fn(&Vitals) -> u64| {
            let lowest = |looks: &[Vitals]| looks.iter().map(of).min().unwrap_or(0);
            let own = (lowest(warm), lowest(last));
            if grown(own) >= grown(*pair) {
                *pair = own;
            }
        };
        put(&mut growth.anonymous_kib, |look| look.anonymous_kib);
        put(&mut growth.live_heap, |look| look.live_heap);
        put(&mut growth.mapped_kib, |look| look.mapped_kib);
        put(&mut growth.descriptors, |look| look.descriptors);
        put(&mut growth.threads, |look| look.threads);
        put(&mut growth.mappings, |look| look.mappings);
    }
    growth
}

fn grown(pair: (u64, u64)) -> u64 {
    pair.1.saturating_sub(pair.0)
}

impl Growth {
    /// What grew more than without the library, beyond what the sizes of pools and stacks vary by.
    pub fn beyond(&self, bare: &Self) -> Vec<String> {
        let mut found = Vec::new();
        let mut claim = |name: &str, with: (u64, u64), bare: (u64, u64), allowed: u64| {
            if grown(with) > grown(bare) + allowed {
                found
                    .push(format!("{name} grew from {} to {}; without the library {bare:?}", with.0, with.1));
            }
        };
        claim("anonymous memory, KiB,", self.anonymous_kib, bare.anonymous_kib, 4096);
        if self.made >= SETTLED {
            claim("live heap, bytes,", self.live_heap, bare.live_heap, self.heap_allowed());
        }
        claim("mapped memory, KiB,", self.mapped_kib, bare.mapped_kib, 8192);
        claim("descriptors", self.descriptors, bare.descriptors, 4);
        claim("threads", self.threads, bare.threads, 2);
        claim("mappings", self.mappings, bare.mappings, 32);
        found
    }
    /// Tables that double, and for each communicator that was made between the two looks what is remembered of it: the
    /// introducer keeps the last ids, the emulator the memory that was freed.
    fn heap_allowed(&self) -> u64 {
        TABLES + OF_A_COMMUNICATOR * (self.made as u64).div_ceil(3)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::Counted;
    use super::*;

    /// Of 60 rounds with four communicators each, of which each leaves so many bytes and every third a descriptor half open.
    fn report(left: u64) -> Report {
        let counted = Counted { exact: 0, compressed: 0, other: 0, said_compressed: 0, said_trials: 0 };
        let look = |round: usize| Vitals {
            round,
            anonymous_kib: 5000,
            live_heap: 2_000_000 + 4 * left * round as u64,
            mapped_kib: 6000,
            descriptors: if round > 40 && round.is_multiple_of(3) { 30 } else { 10 },
            threads: 8,
            mappings: 90,
        };
        let vitals = (0..60).map(look).collect();
        Report {
            process: 0,
            rounds: 60,
            made: 240,
            forks: 0,
            results: Vec::new(),
            counted,
            ended: None,
            vitals,
        }
    }

    fn found(left: u64, of_others: u64) -> Vec<String> {
        growth(&[&report(0), &report(left)]).beyond(&growth(&[&report(of_others)]))
    }

    #[test]
    fn what_each_communicator_leaves_is_found_and_a_look_at_the_wrong_moment_is_not() {
        assert_eq!(found(0, 0), [""; 0]);
        assert!(found(8192, 0).join("").starts_with("live heap, bytes, grew from 2655360 to 3310720"));
        assert_eq!(found(8192, 8192), [""; 0], "it does so without the library");
    }
}
