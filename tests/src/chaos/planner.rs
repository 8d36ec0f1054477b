//! From a seed to a job with faults. The same seed gives the same job; what is planned is right NCCL, so that whatever
//! goes wrong comes from a fault.

use super::chance::Chance;
use super::fault::Fault;
use super::job::{Call, Job, Kin, MANY_QUEUES, Manner, Mode, Step};

const COUNTS: [usize; 12] = [0, 1, 7, 100, 1023, 1024, 1025, 4096, 5003, 16_001, 33_000, 70_001];
const COLLECTIVES: [&str; 8] =
    ["all_reduce", "reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "gather", "scatter"];
const FLOATS: [&str; 3] = ["float32", "float16", "bfloat16"];
const TYPES: [&str; 8] = ["int8", "uint8", "int32", "uint64", "float64", "float16", "bfloat16", "float32"];

pub fn plan(seed: u64) -> Job {
    let mut chance = Chance::of(seed);
    let ranks = chance.pick(&[2, 2, 2, 3, 3, 4, 4, 5, 6, 8]);
    let mode = chance.pick(&[
        Mode::Observe,
        Mode::Observe,
        Mode::Observe,
        Mode::Shadow,
        Mode::On,
        Mode::On,
        Mode::On,
        Mode::Forced,
        Mode::Forced,
        Mode::Forced,
    ]);
    // Compression pays on a link that is slower than the machine.
    let link_gbps = if mode == Mode::On { chance.pick(&[0, 1, 1]) } else { chance.pick(&[0, 0, 1]) };
    let communicators = communicators(&mut chance);
    let mut job = Job {
        seed,
        ranks,
        mode,
        link_gbps,
        queues: MANY_QUEUES,
        heedless: false,
        ranks_per_node: ranks_per_node(seed),
        communicators,
        steps: Vec::new(),
        faults: Vec::new(),
    };
    job.steps = steps(&mut chance, &job);
    let faults = chance.pick(&[1, 1, 2, 2, 3, 3]);
    while job.faults.len() < faults {
        let fault = fault(&mut chance, &job);
        if fits(&job, &fault) {
            job.faults.push(fault);
        }
    }
    job
}

/// By dice of its own, so that seeds of before nodes still give the rest of their jobs.
fn ranks_per_node(seed: u64) -> u32 {
    Chance::of(!seed).pick(&[1, 1, 1, 2, 2, 3])
}

fn communicators(chance: &mut Chance) -> Vec<Kin> {
    let mut all = vec![Kin::World];
    for place in 1..chance.between(1, 3) {
        let split =
            Kin::Split { of: chance.below(place), parts: chance.between(1, 2), reversed: chance.one_in(2) };
        all.push(if chance.one_in(3) { Kin::World } else { split });
    }
    all
}

fn steps(chance: &mut Chance, job: &Job) -> Vec<Step> {
    let mut steps: Vec<Step> = (0..job.communicators.len()).map(Step::Make).collect();
    let last = job.communicators.len() - 1;
    for _ in 0..chance.between(2, 6) {
        let comms = job.communicators.len();
        steps.push(match chance.below(12) {
            0 => {
                Step::Messages { comm: chance.below(comms), bytes: chance.pick(&[1, 1000, 20_641, 100_000]) }
            }
            1 => Step::Forks(chance.between(1, 3)),
            _ => calls(chance, job),
        });
        // The last one has no children: it can go and come again.
        if last > 0 && chance.one_in(6) {
            steps.extend([Step::End(last), Step::Make(last)]);
        }
    }
    steps.push(calls(chance, job));
    steps
}

fn calls(chance: &mut Chance, job: &Job) -> Step {
    let manner = chance.pick(&[
        Manner::Plain,
        Manner::Plain,
        Manner::Grouped,
        Manner::Grouped,
        Manner::Captured,
        Manner::Shuffled,
        Manner::Threads,
    ]);
    let number = chance.between(1, 4);
    let calls = (0..number).map(|_| call(chance, job, manner)).collect();
    let most = if job.mode == Mode::On && chance.one_in(2) { 60 } else { 5 };
    let skew_us = chance.pick(&[0, 0, 300, 3000]);
    Step::Calls { calls, manner, times: chance.between(1, most), skew_us }
}

fn call(chance: &mut Chance, job: &Job, manner: Manner) -> Call {
    let reduces_all = !chance.one_in(3);
    let collective = match reduces_all {
        true => "all_reduce",
        false if manner == Manner::Captured => chance.pick(&COLLECTIVES[..5]),
        false => chance.pick(&COLLECTIVES),
    };
    let floats = chance.below(4) > 0;
    let datatype = if floats { chance.pick(&FLOATS) } else { chance.pick(&TYPES) };
    // An average over another number of ranks rounds, so that the rank program could not tell a wrong one.
    let others = ["max", "min", "prod", "avg"];
    let others = if job.ranks.is_power_of_two() { &others[..] } else { &others[..3] };
    let reduction = if chance.one_in(5) { chance.pick(others) } else { "sum" };
    Call {
        comm: chance.below(job.communicators.len()),
        collective: collective.into(),
        datatype: datatype.into(),
        reduction: reduction.into(),
        count: if chance.one_in(2) { chance.pick(&COUNTS) } else { chance.pick(&COUNTS[7..]) },
        // NCCL does not define an AlltoAll in place.
        in_place: collective != "all_to_all" && chance.one_in(3),
        shift: chance.pick(&[0, 0, 0, 1, 3]),
        root: chance.below(8),
        seed: chance.below(90),
    }
}

/// A step with calls: before it, all communicators are there.
fn working_step(chance: &mut Chance, job: &Job) -> usize {
    let works = |step: &Step| matches!(step, Step::Calls { .. } | Step::Messages { .. });
    let places: Vec<usize> = (0..job.steps.len()).filter(|place| works(&job.steps[*place])).collect();
    chance.pick(&places)
}

fn fault(chance: &mut Chance, job: &Job) -> Fault {
    let rank = chance.below(job.ranks as usize) as u32;
    let number = chance.between(1, 12) as u32;
    match chance.below(30) {
        0 | 1 => Fault::Die { rank, before_step: working_step(chance, job) },
        2 => Fault::KillAfter { rank, ms: chance.between(20, 1500) as u64 },
        3 => Fault::DieInCall { rank, number },
        4 | 5 => Fault::Stop {
            rank,
            after_ms: chance.between(20, 1000) as u64,
            for_ms: chance.between(100, 1500) as u64,
        },
        6 => Fault::Pause {
            rank,
            before_step: chance.below(job.steps.len()),
            ms: chance.between(50, 1500) as u64,
        },
        7 => Fault::CutAll { rank, before_step: working_step(chance, job) },
        8 => Fault::CutOne { rank, before_step: working_step(chance, job), which: chance.below(16) },
        9 | 10 => Fault::CutControl { rank, frames: chance.between(1, 24) as u32, forever: chance.one_in(4) },
        11 => Fault::SlowRank { rank, ms: chance.between(1, 12) as u32 },
        12 => Fault::SlowCall { rank, function: function(chance), ms: chance.between(1, 12) as u32 },
        13 | 14 => {
            let ways = ["noise", "removed", "token", "address=127.0.0.9", "address=203.0.113.1"];
            Fault::Refuse { how: chance.pick(&ways).into() }
        }
        15 | 16 => Fault::Memory { rank, number },
        17 => Fault::RefuseLaunch { rank, number: chance.between(1, 80) as u32 },
        18 => Fault::FailLaunch { rank, number: chance.between(1, 80) as u32 },
        19 => {
            let result = chance.pick(&[1, 2, 3, 6]);
            Fault::FailCall { rank, function: function(chance), number, result }
        }
        20 => Fault::Blob { rank },
        21 => Fault::Architecture { rank, name: chance.pick(&["sm_80", "sm_70", "sm_999"]).into() },
        22 => setting(chance, rank),
        23 => Fault::Version { rank },
        24 => Fault::MixedPreload { rank },
        25 => Fault::DiskFull { rank },
        26 if chance.one_in(2) => Fault::DiskGone { rank },
        26 => Fault::DiskFills { rank, after_ms: chance.between(10, 1200) as u64 },
        27 => Fault::ClockOffset { rank, seconds: chance.pick(&[60, 86_400, 31_536_000]) },
        28 => clock(chance, rank),
        _ => Fault::Panic { rank, place: place(chance) },
    }
}

fn clock(chance: &mut Chance, rank: u32) -> Fault {
    let after_ms = chance.between(0, 800) as u32;
    match chance.one_in(2) {
        true => Fault::ClockJump { rank, seconds: chance.pick(&[-86_400, -3, 3, 31_536_000]), after_ms },
        // Shorter than every wait of the library's: what has been waited for is not over by it.
        false => Fault::ClockLeap { rank, ms: chance.between(100, 2500) as u32, after_ms },
    }
}

fn function(chance: &mut Chance) -> String {
    let all = [
        "ncclAllReduce",
        "ncclGroupEnd",
        "ncclGroupStart",
        "ncclAllGather",
        "ncclSend",
        "ncclRecv",
        "ncclReduce",
    ];
    chance.pick(&all).into()
}

fn setting(chance: &mut Chance, rank: u32) -> Fault {
    let (name, value) = chance.pick(&[
        ("AIRAMP_WIRE_FORMAT", "int8"),
        ("AIRAMP_ARENA_BYTES", "2097152"),
        ("AIRAMP_MIN_BYTES", "8192"),
        ("AIRAMP_MIN_BYTES", "nonsense"),
        ("AIRAMP_MAX_VNMSE", "0.1"),
        ("AIRAMP_MODE", "observe"),
        ("AIRAMP_MODE", "shadow"),
        ("AIRAMP_DISABLE", "1"),
        ("AIRAMP_LOG", "debug"),
        ("AIRAMP_LOG_FILE", "/dev/full"),
        ("AIRAMP_TUNING_CACHE", "/dev/full"),
        ("AIRAMP_CONFIG", "/dev/zero"),
        ("AIRAMP_TELEMETRY", "0"),
        ("AIRAMP_PATTERN", "0"),
    ]);
    Fault::Setting { rank, name: name.into(), value: value.into() }
}

fn place(chance: &mut Chance) -> String {
    let all = [
        "ncclAllReduce:before",
        "ncclAllReduce:after",
        "ncclGroupEnd:before",
        "ncclGroupEnd:after",
        "ncclCommInitRank:before",
        "ncclCommInitRank:after",
        "ncclCommSplit:after",
        "ncclGetUniqueId:after",
        "ncclCommDestroy:before",
        "all",
    ];
    chance.pick(&all).into()
}

/// No two faults that are one variable or one namespace of a rank, and none that needs what another takes away.
fn fits(job: &Job, fault: &Fault) -> bool {
    let twice = job.faults.iter().any(|other| other.kind() == fault.kind() && other.rank() == fault.rank());
    let refuses = |fault: &Fault| matches!(fault, Fault::Refuse { .. });
    // The trailer that is changed must be there: rank 0 writes it.
    let of_rank_0 = |fault: &Fault| {
        let takes = ["settings", "version", "mixed preload", "panic", "blob", "memory"];
        fault.rank() == Some(0) && takes.contains(&fault.kind())
    };
    let all = || job.faults.iter().chain([fault]);
    // The parent of a rank in a time namespace does not pass on that it was killed.
    let offset = |one: &Fault| matches!(one, Fault::ClockOffset { .. });
    let hides = all().any(|one| offset(one) && all().any(|other| other.kills() == one.rank()));
    let refused = all().any(refuses) && (job.mode == Mode::Observe || all().any(of_rank_0));
    !twice && !refused && !hides
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_is_a_job() {
        for seed in 0..50 {
            assert_eq!(format!("{:?}", plan(seed)), format!("{:?}", plan(seed)));
        }
    }

    #[test]
    fn every_kind_of_fault_manner_and_mode_comes() {
        let jobs: Vec<Job> = (0..400).map(plan).collect();
        let kinds: BTreeSet<&str> = jobs.iter().flat_map(|job| job.faults.iter().map(Fault::kind)).collect();
        assert_eq!(kinds.len(), 15, "{kinds:?}");
        let text = format!("{jobs:?}");
        for name in ["Plain", "Shuffled", "Grouped", "Captured", "Threads", "Split", "Forks", "Messages"] {
            assert!(text.contains(name), "{name}");
        }
    }
}
