//! Who is placed together: processes that live and share communicators, and each other one alone. `placing` asks for
//! them, of one user and name at a time.

use std::collections::{BTreeMap, BTreeSet};

use super::{job_name, names};
use crate::process::Process;

/// User and job's name: only processes that have both in common can be of one job.
pub(super) type Kin = (u32, String);

/// Processes that go to one job.
pub(super) struct Party {
    pub(super) stage: Stage,
    pub(super) members: BTreeSet<u64>,
    /// The jobs that they were in: of those that a communicator had shown to belong there, if there are any.
    pub(super) own: BTreeSet<u64>,
    pub(super) ranks: BTreeSet<Option<u32>>,
    pub(super) communicators: BTreeSet<u64>,
}

/// In this order parties are placed: what is certain first, and last who is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// All that was shown before is in one job.
    Stays,
    /// A communicator joins what was shown to be in several jobs.
    Joined,
    /// The first communicator shows with whom they belong.
    Shown,
    Unknown,
    Gone,
}

pub(super) fn by_kin(processes: &BTreeMap<u64, Process>) -> BTreeMap<Kin, Vec<u64>> {
    let mut by_kin: BTreeMap<Kin, Vec<u64>> = BTreeMap::new();
    for (id, process) in processes {
        by_kin.entry((process.snapshot.uid, job_name(process))).or_default().push(*id);
    }
    by_kin
}

/// In the order in which they are placed; within a stage, who has a job comes first.
pub(super) fn parties(kin: &[u64], processes: &BTreeMap<u64, Process>) -> Vec<Party> {
    let mut having: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (id, process) in of(kin, processes).filter(|(_, process)| process.is_live()) {
        names(process).for_each(|name| having.entry(name).or_default().push(id));
    }
    let mut placed: BTreeSet<u64> = BTreeSet::new();
    let mut parties = Vec::new();
    for (id, process) in of(kin, processes) {
        if placed.contains(&id) {
            continue;
        }
        let members =
            if process.is_live() { together(id, processes, &mut having) } else { BTreeSet::from([id]) };
        placed.extend(&members);
        parties.push(Party::new(members, processes));
    }
    parties.sort_by_key(|party| (party.stage, party.own.first().copied().unwrap_or(u64::MAX)));
    parties
}

fn of<'a>(kin: &'a [u64], processes: &'a BTreeMap<u64, Process>) -> impl Iterator<Item = (u64, &'a Process)> {
    kin.iter().filter_map(|id| Some((*id, processes.get(id)?)))
}

/// With whom it shares a communicator, with whom those do, and so on: each communicator is asked about once.
fn together(
    first: u64,
    processes: &BTreeMap<u64, Process>,
    having: &mut BTreeMap<u64, Vec<u64>>,
) -> BTreeSet<u64> {
    let (mut together, mut to_ask) = (BTreeSet::from([first]), vec![first]);
    while let Some(id) = to_ask.pop() {
        let others = processes.get(&id).into_iter().flat_map(names).filter_map(|name| having.remove(&name));
        to_ask.extend(others.flatten().filter(|other| together.insert(*other)));
    }
    together
}

impl Party {
    fn new(members: BTreeSet<u64>, processes: &BTreeMap<u64, Process>) -> Self {
        let all = || members.iter().filter_map(|id| processes.get(id));
        let is_settled = all().any(|one| one.settled);
        let own = all().filter(|one| one.settled == is_settled && one.job != 0);
        let own: BTreeSet<u64> = own.map(|one| one.job).collect();
        let communicators: BTreeSet<u64> = all().flat_map(names).collect();
        let stage = match is_settled {
            _ if !all().any(Process::is_live) => Stage::Gone,
            true if own.len() == 1 => Stage::Stays,
            true => Stage::Joined,
            false if communicators.is_empty() => Stage::Unknown,
            false => Stage::Shown,
        };
        let ranks = all().map(|one| one.rank).collect();
        Self { stage, members, own, ranks, communicators }
    }
}
