//! Compares what a job came to with the library and without it. Pure: what the ranks left goes in, what is wrong comes
//! out. Every claim is one function that returns its complaints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::fault::{Fault, Outcome};
use super::job::{Job, Step};
use super::report::Told;
use super::runner::{Ended, Ran};
use crate::End;

/// What the emulator says where ranks do not fit together, or somebody errs.
const MISTAKES: [&str; 9] = [
    "ranks disagree",
    "of a pair does not fit",
    "was never received",
    "panicked",
    "use after free",
    "which was destroyed",
    "in order",
    "has no implementation",
    "not permitted",
];

/// What a job may take more than without the library, beside the waits that its faults cause: faults that slow each operation down strike
/// those of the library's too, and the machine has other work.
const TIMES_AS_LONG: u32 = 3;
const BUSY: Duration = Duration::from_secs(5);

/// How a rank ended, without the details that chance decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Through,
    Failed,
    Killed,
    Stuck,
    Crashed,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    pub complaints: Vec<String>,
    /// Complaints that another run without the library may take back.
    against_bare: Vec<String>,
    /// Results of all ranks with the library.
    pub exact: usize,
    pub compressed: usize,
    /// Ranks that ended with an error, as the faults made them.
    pub failed_ranks: usize,
    /// Ranks that are stuck in the vendor's creation, waiting for one that is gone.
    pub excused_ranks: usize,
    pub took_ms: (u128, u128),
}

impl Verdict {
    pub fn is_fine(&self) -> bool {
        self.complaints.is_empty() && self.against_bare.is_empty()
    }

    pub fn depends_on_the_bare_run(&self) -> bool {
        !self.against_bare.is_empty()
    }

    pub fn all_complaints(&self) -> Vec<String> {
        self.complaints.iter().chain(&self.against_bare).cloned().collect()
    }
}

/// `bare` are one or more runs without the library; what any of them did may be done with it.
pub fn judge(job: &Job, bare: &[Ran], with: &Ran) -> Verdict {
    let mut verdict = Verdict {
        failed_ranks: with.ranks.iter().filter(|rank| class(rank) == Class::Failed).count(),
        took_ms: (bare[0].took.as_millis(), with.took.as_millis()),
        ..Verdict::default()
    };
    for told in results(with).map(|(_, told)| told) {
        match told.letter {
            'e' => verdict.exact += 1,
            'c' => verdict.compressed += 1,
            _ => {}
        }
    }
    verdict.complaints.extend(crashes(job, with));
    verdict.complaints.extend(wrong_results(job, with));
    verdict.complaints.extend(divergence(with));
    verdict.complaints.extend(mistakes(bare, with));
    verdict.complaints.extend(other_bits(&bare[0], with));
    match job.owes() {
        Outcome::Through => verdict.complaints.extend(not_through(bare, with)),
        Outcome::Same => verdict.against_bare.extend(not_the_same(job, bare, with)),
        Outcome::Bounded => {}
    }
    let (excused, hanging): (Vec<_>, Vec<_>) =
        stuck_only_with(bare, with).partition(|(_, ended)| waits_in_the_vendors_creation(job, with, ended));
    verdict.excused_ranks = excused.len();
    let hangs = |(rank, ended): (usize, &Ended)| format!("rank {rank} hangs: {}", told(ended));
    verdict.against_bare.extend(hanging.into_iter().map(hangs));
    if verdict.excused_ranks == 0 {
        verdict.against_bare.extend(too_long(job, bare, with));
    }
    verdict
}

fn class(rank: &Ended) -> Class {
    let stuck = rank.hung
        || rank.stderr.contains("airamp-rank: stuck in")
        || rank.report.as_ref().is_some_and(|report| {
            report.ended.as_ref().is_some_and(|ended| ended.how == "stuck" || ended.text.contains("hangs"))
        });
    match rank.end {
        _ if stuck => Class::Stuck,
        End::Code(0) => Class::Through,
        End::Signal(libc::SIGKILL) => Class::Killed,
        End::Code(1 | 3) => Class::Failed,
        _ => Class::Crashed,
    }
}

fn results(ran: &Ran) -> impl Iterator<Item = (usize, &Told)> {
    ran.ranks.iter().enumerate().flat_map(|(rank, ended)| {
        let results = ended.report.as_ref().map_or(&[][..], |report| &report.results);
        results.iter().map(move |told| (rank, told))
    })
}

/// A signal that nobody sent, an exit that the rank program does not have, a panic that nobody asked for.
fn crashes(job: &Job, with: &Ran) -> Vec<String> {
    let mut found = Vec::new();
    for (rank, ended) in with.ranks.iter().enumerate() {
        let killed = job.faults.iter().any(|fault| fault.kills() == Some(rank as u32));
        let panics = job.faults.iter().any(|fault| matches!(fault, Fault::Panic { .. }));
        match class(ended) {
            Class::Crashed => found.push(format!("rank {rank} crashed: {:?}", ended.end)),
            Class::Killed if !killed => found.push(format!("rank {rank} was killed by nobody")),
            _ => {}
        }
        if !panics && (ended.stderr.contains("panicked") || ended.stderr.contains("internal error:")) {
            found.push(format!("rank {rank} panicked"));
        }
        let lost = ended.report.is_none() && !matches!(class(ended), Class::Killed | Class::Stuck);
        if lost && !ended.stderr.contains("airamp-rank:") {
            found.push(format!("rank {rank} says nothing: {:?}", ended.end));
        }
    }
    found
}

fn wrong_results(job: &Job, with: &Ran) -> Vec<String> {
    let bad = |told: &Told| !(told.letter == 'e' || told.letter == 'c' && job.mode.may_compress());
    let tell = |(rank, told): (usize, &Told)| {
        format!(
            "rank {rank}: the result at {:?} of communicator {} is {:?}",
            told.place, told.comm, told.letter
        )
    };
    results(with).filter(|(_, told)| bad(told)).map(tell).collect()
}

/// Ranks of one communicator have the same bits of one AllReduce.
fn divergence(with: &Ran) -> Vec<String> {
    let mut seen: BTreeMap<_, (usize, &Told)> = BTreeMap::new();
    let mut found = Vec::new();
    for (rank, told) in results(with).filter(|(_, told)| told.reduces_all) {
        let key = (told.place, told.comm, told.part);
        let (first, other) = *seen.entry(key).or_insert((rank, told));
        if (told.letter, &told.digest) != (other.letter, &other.digest) {
            found.push(format!(
                "ranks {first} and {rank} differ at {:?} of communicator {}: {:?} {} and {:?} {}",
                told.place, told.comm, other.letter, other.digest, told.letter, told.digest
            ));
        }
    }
    found
}

/// Mistakes that the emulator names with the library and never without it.
fn mistakes(bare: &[Ran], with: &Ran) -> Vec<String> {
    let named = |ran: &Ran| -> BTreeSet<&'static str> {
        let lines = ran.ranks.iter().flat_map(|rank| rank.stderr.lines());
        let lines: Vec<&str> = lines.filter(|line| line.starts_with("airamp emulator:")).collect();
        MISTAKES.into_iter().filter(|mistake| lines.iter().any(|line| line.contains(mistake))).collect()
    };
    let known: BTreeSet<&str> = bare.iter().flat_map(&named).collect();
    let new = named(with).into_iter().filter(|mistake| !known.contains(mistake));
    new.map(|mistake| format!("the emulator says: {mistake}")).collect()
}

/// An exact result has the vendor's bits, not only its value.
fn other_bits(bare: &Ran, with: &Ran) -> Vec<String> {
    let key = |(rank, told): (usize, &Told)| ((rank, told.place, told.comm, told.part), told.digest.clone());
    let known: BTreeMap<_, _> = results(bare).map(key).collect();
    let mut found = Vec::new();
    for (rank, told) in results(with).filter(|(_, told)| told.letter == 'e') {
        let without = known.get(&(rank, told.place, told.comm, told.part));
        if without.is_some_and(|digest| *digest != told.digest) {
            found.push(format!("rank {rank} has other bits at {:?}", told.place));
        }
    }
    found
}

fn not_through(bare: &[Ran], with: &Ran) -> Vec<String> {
    let mut found = Vec::new();
    for (side, ran) in [("without", &bare[0]), ("with", with)] {
        for (rank, ended) in ran.ranks.iter().enumerate().filter(|(_, ended)| class(ended) != Class::Through)
        {
            found.push(format!("{side} the library rank {rank} did not go through: {}", told(ended)));
        }
    }
    found
}

/// Each rank ends as it did in one of the runs without the library; the one that was struck by the same error.
fn not_the_same(job: &Job, bare: &[Ran], with: &Ran) -> Vec<String> {
    let mut found = Vec::new();
    for (rank, ended) in with.ranks.iter().enumerate() {
        let known: Vec<&Ended> = bare.iter().map(|ran| &ran.ranks[rank]).collect();
        // It came to its own death; whether it hears of another's before is chance, the more so where compression has connected all peers.
        let died_as_planned = class(ended) == Class::Killed
            && job.faults.iter().any(|fault| fault.kills() == Some(rank as u32));
        if !died_as_planned && !known.iter().any(|known| class(known) == class(ended)) {
            found.push(format!("rank {rank}: {}; without the library: {}", told(ended), told(known[0])));
        }
        let struck =
            |fault: &Fault| matches!(fault, Fault::FailCall { .. }) && fault.rank() == Some(rank as u32);
        let alone = job.faults.len() == 1 && job.faults.iter().all(struck);
        if alone && !known.iter().any(|known| code(known) == code(ended)) {
            found.push(format!("rank {rank} has the error {:?}, not {:?}", code(ended), code(known[0])));
        }
    }
    found
}

fn stuck_only_with<'a>(bare: &'a [Ran], with: &'a Ran) -> impl Iterator<Item = (usize, &'a Ended)> {
    let known = |rank: usize| bare.iter().any(|ran| class(&ran.ranks[rank]) == Class::Stuck);
    let stuck = with.ranks.iter().enumerate().filter(|(_, ended)| class(ended) == Class::Stuck);
    stuck.filter(move |(rank, _)| !known(*rank))
}

/// Longer than the longest without the library by more than what its faults make it wait, and what a busy machine may add.
fn too_long(job: &Job, bare: &[Ran], with: &Ran) -> Option<String> {
    if job.faults.iter().any(Fault::stretches_waits) {
        return None;
    }
    let longest = bare.iter().map(|ran| ran.took).max().unwrap_or_default();
    let allowed = TIMES_AS_LONG * longest + BUSY + job.waits();
    (with.took > allowed).then(|| {
        format!("it took {:.1?}, without the library {longest:.1?}; at most {allowed:.1?}", with.took)
    })
}

/// Or in the meeting before. The vendor's creation waits for ever for a rank that is gone, with us or without us. The library's log has a line for
/// each communicator that the vendor has made: one less than were begun.
fn waits_in_the_vendors_creation(job: &Job, with: &Ran, rank: &Ended) -> bool {
    let gone = with.ranks.iter().any(|other| matches!(class(other), Class::Failed | Class::Killed));
    // The ranks' own meeting, before any call: one of them was killed on its way there.
    if rank.stderr.contains("airamp-rank: stuck in start") {
        return gone;
    }
    let step = rank.stderr.lines().find_map(|line| line.strip_prefix("airamp-rank: stuck in step "));
    let step = step.and_then(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    let Some(step) = step.filter(|step| matches!(job.steps.get(*step), Some(Step::Make(_)))) else {
        return false;
    };
    let begun = job.steps[..=step].iter().filter(|step| matches!(step, Step::Make(_))).count();
    let is_made = |line: &&str| line.contains("communicator 0x") && line.contains(", rank ");
    gone && rank.stderr.lines().filter(is_made).count() < begun
}

fn code(rank: &Ended) -> Option<i32> {
    rank.report.as_ref()?.ended.as_ref()?.code
}

fn told(rank: &Ended) -> String {
    let by = rank.report.as_ref().and_then(|report| report.ended.as_ref());
    let by = by.map(|by| format!(" at step {}, {} ({:?}): {}", by.step, by.how, by.code, by.text));
    format!(
        "{:?}{}{}",
        class(rank),
        if rank.hung { ", killed at the deadline" } else { "" },
        by.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::super::job::{Kin, Mode};
    use super::super::report::{Counted, EndedBy, Report};
    use super::*;

    fn job(mode: Mode, faults: Vec<Fault>) -> Job {
        let (communicators, steps) = (vec![Kin::World], vec![Step::Make(0)]);
        Job {
            seed: 1,
            ranks: 2,
            mode,
            link_gbps: 0,
            queues: 8,
            heedless: false,
            ranks_per_node: 1,
            communicators,
            steps,
            faults,
        }
    }

    fn told(letter: char, digest: &str) -> Told {
        Told { place: (1, 0, 0), comm: 0, part: 0, reduces_all: true, letter, digest: digest.into() }
    }

    fn rank(results: Vec<Told>) -> Ended {
        let counted = Counted { exact: 0, compressed: 0, other: 0, said_compressed: 0, said_trials: 0 };
        let report = Report {
            process: 0,
            rounds: 1,
            made: 1,
            forks: 0,
            results,
            counted,
            ended: None,
            vitals: Vec::new(),
        };
        Ended { end: End::Code(0), hung: false, report: Some(report), stderr: String::new() }
    }

    fn failing(how: &str) -> Ended {
        let mut rank = rank(Vec::new());
        rank.end = End::Code(1);
        let ended = EndedBy { step: 1, how: how.into(), code: Some(6), text: String::new() };
        rank.report.as_mut().unwrap().ended = Some(ended);
        rank
    }

    fn ran(ranks: Vec<Ended>) -> Ran {
        Ran { ranks, took: Duration::ZERO, stood_still: Duration::ZERO }
    }

    fn good() -> Ran {
        ran(vec![rank(vec![told('e', "1")]), rank(vec![told('e', "1")])])
    }

    fn complaints(job: &Job, with: Ran) -> String {
        judge(job, &[good()], &with).all_complaints().join("; ")
    }

    #[test]
    fn what_is_the_same_is_fine() {
        let harmless = job(Mode::Observe, vec![Fault::Version { rank: 1 }]);
        assert_eq!(complaints(&harmless, good()), "");
    }

    #[test]
    fn ranks_with_different_results_are_found() {
        let job = job(Mode::Forced, vec![Fault::Version { rank: 1 }]);
        let with = ran(vec![rank(vec![told('e', "1")]), rank(vec![told('c', "2")])]);
        assert!(complaints(&job, with).contains("ranks 0 and 1 differ"));
    }

    #[test]
    fn wrong_results_and_lossy_ones_that_nobody_asked_for_are_found() {
        let observed = job(Mode::Observe, vec![Fault::Version { rank: 1 }]);
        let with = |letter| ran(vec![rank(vec![told(letter, "2")]), rank(vec![told(letter, "2")])]);
        assert!(complaints(&observed, with('c')).contains("is 'c'"));
        let forced = job(Mode::Forced, vec![Fault::Version { rank: 1 }]);
        assert_eq!(complaints(&forced, with('c')), "");
        assert!(complaints(&forced, with('w')).contains("is 'w'"));
        assert!(complaints(&forced, with('m')).contains("is 'm'"));
        assert!(complaints(&forced, with('e')).contains("other bits"));
    }

    #[test]
    fn hangs_crashes_and_deaths_that_nobody_caused_are_found() {
        let job = job(Mode::Forced, vec![Fault::CutOne { rank: 1, before_step: 0, which: 0 }]);
        let ended = |change: &dyn Fn(&mut Ended)| {
            let mut last = rank(Vec::new());
            change(&mut last);
            complaints(&job, ran(vec![rank(Vec::new()), last]))
        };
        assert_eq!(ended(&|_| ()), "");
        assert!(ended(&|rank| rank.hung = true).contains("hangs"));
        assert!(ended(&|rank| rank.end = End::Signal(libc::SIGSEGV)).contains("crashed"));
        assert!(ended(&|rank| rank.end = End::Signal(libc::SIGKILL)).contains("killed by nobody"));
        assert!(ended(&|rank| rank.stderr = "thread panicked at".into()).contains("panicked"));
        let mistake = "airamp emulator: ranks disagree on operation 3".to_owned();
        assert!(ended(&|rank| rank.stderr.clone_from(&mistake)).contains("ranks disagree"));
        assert_eq!(complaints(&job, ran(vec![rank(Vec::new()), failing("lost")])), "");
        assert!(complaints(&job, ran(vec![rank(Vec::new()), failing("stuck")])).contains("hangs"));
    }

    #[test]
    fn a_job_that_takes_longer_than_its_faults_make_it_wait_is_found() {
        let took = |seconds| Ran { took: Duration::from_secs(seconds), ..good() };
        let judged = |mode, fault, without: u64, with: u64| {
            judge(&job(mode, vec![fault]), &[took(without)], &took(with)).all_complaints().join("; ")
        };
        let refused = || Fault::Refuse { how: "token".into() };
        // Nobody is missed: nothing but a busy machine.
        assert_eq!(judged(Mode::Forced, Fault::Blob { rank: 0 }, 1, 8), "");
        assert!(judged(Mode::Forced, Fault::Blob { rank: 0 }, 1, 9).contains("at most 8.0s"));
        assert_eq!(judged(Mode::Forced, Fault::Blob { rank: 0 }, 80, 93), "");
        // One communicator, which may wait for its creation and in doubt.
        assert_eq!(judged(Mode::Forced, refused(), 1, 18), "");
        assert!(judged(Mode::Forced, refused(), 1, 19).contains("it took 19.0s"));
        assert!(judged(Mode::Observe, refused(), 1, 9).contains("it took 9.0s"));
        let leap = Fault::ClockLeap { rank: 0, ms: 700, after_ms: 10 };
        assert_eq!(judged(Mode::Forced, leap, 1, 19), "", "each of its sleeps may have been longer");
        // A slower run without the library takes it back.
        let slow = [took(1), took(5)];
        assert!(judge(&job(Mode::Observe, vec![refused()]), &slow, &took(9)).is_fine());
    }

    #[test]
    fn who_is_stuck_in_the_vendors_creation_is_excused_and_counted() {
        let job = job(Mode::On, vec![Fault::KillAfter { rank: 1, ms: 300 }]);
        let killed = || Ended { end: End::Signal(libc::SIGKILL), ..rank(Vec::new()) };
        let stuck = |log: &str| {
            let mut rank = failing("stuck");
            rank.stderr = format!("{log}airamp-rank: stuck in step 0 Make(0)");
            rank
        };
        let verdict = judge(&job, &[good()], &ran(vec![stuck(""), killed()]));
        assert!(verdict.is_fine(), "{:?}", verdict.all_complaints());
        assert_eq!(verdict.excused_ranks, 1);
        // The vendor had made it, so that it waits elsewhere; or nobody is gone.
        let made = "airamp: communicator 0x10, rank 0 of 2\n";
        assert!(!judge(&job, &[good()], &ran(vec![stuck(made), killed()])).is_fine());
        assert!(!judge(&job, &[good()], &ran(vec![stuck(""), rank(Vec::new())])).is_fine());
    }

    #[test]
    fn an_error_where_there_is_none_without_the_library_is_found() {
        let harmless = job(Mode::On, vec![Fault::MixedPreload { rank: 1 }]);
        let with = || ran(vec![rank(Vec::new()), failing("lost")]);
        assert!(complaints(&harmless, with()).contains("did not go through"));
        let deadly = job(Mode::On, vec![Fault::CutAll { rank: 1, before_step: 0 }]);
        assert!(complaints(&deadly, with()).contains("without the library: Through"));
        let both = [good(), with()];
        assert!(judge(&deadly, &both, &with()).is_fine());
    }

    #[test]
    fn a_rank_that_comes_to_its_own_death_may_not_have_heard_of_another_s() {
        let dies = |rank: u32| Fault::Die { rank, before_step: 0 };
        let killed = || Ended { end: End::Signal(libc::SIGKILL), ..rank(Vec::new()) };
        let bare = [ran(vec![killed(), failing("lost")])];
        let with = ran(vec![killed(), killed()]);
        assert!(judge(&job(Mode::Forced, vec![dies(0), dies(1)]), &bare, &with).is_fine());
        assert!(!judge(&job(Mode::Forced, vec![dies(0)]), &bare, &with).is_fine());
        // Where it fails instead, which it never does without the library, that is told.
        let bare = [ran(vec![killed(), killed()])];
        let with = ran(vec![killed(), failing("lost")]);
        assert!(!judge(&job(Mode::Forced, vec![dies(0), dies(1)]), &bare, &with).is_fine());
    }
}
