//! Which job a process is of: that with which it shares a communicator, else one of its name in which its rank is
//! free, else one of its own. Only who lives has a rank; `jobs` says so after each look.

use std::collections::{BTreeMap, BTreeSet};

use super::{Job, Jobs, job_name, names};
use crate::process::Process;

/// In this order processes are placed: what is certain first, and last who is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Settled,
    /// A communicator shows with whom it belongs; first of one that has a job.
    Shown {
        anew: bool,
    },
    Unknown,
    Gone,
}

impl Jobs {
    /// Gives each process that was read its job, and again when a communicator shows with whom it belongs.
    pub(crate) fn assign(&mut self, processes: &mut BTreeMap<u64, Process>, read: &[u64]) {
        self.count_in(processes);
        let mut firsts = self.firsts();
        for party in parties(processes, read) {
            self.place(&party, processes, &mut firsts);
        }
    }

    fn firsts(&self) -> Firsts {
        let mut firsts = Firsts::new();
        for (number, job) in &self.by_number {
            for name in &job.names {
                firsts.entry((job.uid, job.name.clone(), *name)).or_insert(*number);
            }
        }
        firsts
    }

    /// Ranks and communicators of those that live. Whose first communicator has just shown may have to leave.
    pub(super) fn count_in(&mut self, processes: &BTreeMap<u64, Process>) {
        self.by_number.values_mut().for_each(|job| job.live.clear());
        for process in processes.values() {
            let Some(job) = self.by_number.get_mut(&process.job) else { continue };
            let stage = stage(process);
            if stage == Stage::Settled {
                job.names.extend(names(process));
            }
            if matches!(stage, Stage::Settled | Stage::Unknown) {
                job.live.insert(process.rank);
            }
        }
    }

    /// A party stays together.
    fn place(&mut self, party: &BTreeSet<u64>, processes: &mut BTreeMap<u64, Process>, firsts: &mut Firsts) {
        let members: Vec<&Process> = party.iter().filter_map(|id| processes.get(id)).collect();
        let Some(first) = members.first() else { return };
        // Most are where they belong, and there may be very many jobs of one name.
        let is_earlier = |clique| firsts.get(&clique).is_some_and(|number| *number < first.job);
        if stage(first) == Stage::Settled && !cliques(first).any(is_earlier) {
            return;
        }
        let (name, uid) = (job_name(first), first.snapshot.uid);
        let same = self.of_name(uid, &name);
        let shared: BTreeSet<u64> = members.iter().flat_map(|member| names(member)).collect();
        let number = self.fitting(&same, &members, &shared).unwrap_or_else(|| self.make(name.clone(), uid));
        let Some(job) = self.by_number.get_mut(&number) else { return };
        for id in party {
            let Some(process) = processes.get_mut(id) else { continue };
            process.job = number;
            process.settled |= !shared.is_empty();
        }
        let mut live = party.iter().filter_map(|id| processes.get(id)).filter(|one| one.is_live()).peekable();
        if live.peek().is_some() {
            for shown in &shared {
                let earliest = firsts.entry((uid, name.clone(), *shown)).or_insert(number);
                *earliest = number.min(*earliest);
            }
            job.names.extend(shared);
        }
        job.live.extend(live.map(|process| process.rank));
    }

    fn fitting(&self, same: &[u64], members: &[&Process], shared: &BTreeSet<u64>) -> Option<u64> {
        let stage = members.first().map(|member| stage(member))?;
        let of_number = |number: &u64| self.by_number.get(number);
        let is_free = |number: &&u64| {
            let has_room = |job: &Job| members.iter().all(|member| !job.has_another(member.rank));
            stage == Stage::Gone || of_number(number).is_some_and(has_room)
        };
        // One that has its place leaves it for a job that has its communicator, unless another has its rank there.
        let is_there = |number: &u64| members.iter().any(|member| member.job == *number);
        let shares = |number: &&u64| {
            of_number(number).is_some_and(|job| !job.names.is_disjoint(shared))
                && (stage != Stage::Settled || is_there(number) || is_free(number))
        };
        // It was free for a process whose rank was not known yet; with the rank it may be another's.
        let is_sure = !matches!(stage, Stage::Shown { .. });
        let stays = |number: &&u64| is_there(number) && (is_sure || is_free(number));
        same.iter().find(shares).or(same.iter().find(stays)).or(same.iter().find(is_free)).copied()
    }
}

impl Job {
    /// One that lives has the rank.
    fn has_another(&self, rank: Option<u32>) -> bool {
        rank.is_some() && self.live.contains(&rank)
    }
}

/// In the order in which they are placed: those whom communicators show to belong together, and each other process
/// alone. One by one, a rank of one program could take what a rank of another with its name has not taken yet.
fn parties(processes: &BTreeMap<u64, Process>, read: &[u64]) -> Vec<BTreeSet<u64>> {
    let mut order: Vec<(Stage, u64)> =
        read.iter().filter_map(|id| Some((stage(processes.get(id)?), *id))).collect();
    order.sort_by_key(|(stage, _)| *stage);
    let is_shown = |stage: &Stage| matches!(stage, Stage::Shown { .. });
    let mut shown: BTreeMap<Clique, Vec<u64>> = BTreeMap::new();
    for (_, id) in order.iter().filter(|(stage, _)| is_shown(stage)) {
        let own = processes.get(id).into_iter().flat_map(cliques);
        own.for_each(|clique| shown.entry(clique).or_default().push(*id));
    }
    let mut placed: BTreeSet<u64> = BTreeSet::new();
    let mut parties = Vec::new();
    for (stage, id) in order {
        if !placed.contains(&id) {
            let party =
                if is_shown(&stage) { party(id, processes, &mut shown) } else { BTreeSet::from([id]) };
            placed.extend(&party);
            parties.push(party);
        }
    }
    parties
}

/// With whom it shares a communicator, with whom those do, and so on: each is asked once.
fn party(
    first: u64,
    processes: &BTreeMap<u64, Process>,
    shown: &mut BTreeMap<Clique, Vec<u64>>,
) -> BTreeSet<u64> {
    let (mut party, mut to_ask) = (BTreeSet::from([first]), vec![first]);
    while let Some(id) = to_ask.pop() {
        let own = processes.get(&id).into_iter().flat_map(cliques);
        let others = own.filter_map(|clique| shown.remove(&clique)).flatten();
        to_ask.extend(others.filter(|other| party.insert(*other)));
    }
    party
}

/// A communicator of processes that can be of one job: user, the job's name, its own.
type Clique = (u32, String, u64);

/// The first job with each, of those that have it in this look.
type Firsts = BTreeMap<Clique, u64>;

fn cliques(process: &Process) -> impl Iterator<Item = Clique> + '_ {
    names(process).map(|name| (process.snapshot.uid, job_name(process), name))
}

fn stage(process: &Process) -> Stage {
    match process.settled {
        _ if !process.is_live() => Stage::Gone,
        true => Stage::Settled,
        false if names(process).next().is_some() => Stage::Shown { anew: process.job == 0 },
        false => Stage::Unknown,
    }
}
