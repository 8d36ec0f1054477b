//! Which job a party goes to: that in which all of it was, else one of its own in which no other has one of its ranks,
//! else one of its name where there is room, else a new one. Only who lives has a rank.

use std::collections::{BTreeMap, BTreeSet};

use super::parties::{Kin, Party, Stage, by_kin, parties};
use super::{Job, Jobs};
use crate::name;
use crate::process::Process;

/// Jobs that one party asks for room. Whoever has very many of one name gets a new one: else the work of a look would
/// grow with the square of the files, in which anybody can write what he likes.
const MOST_ASKED: usize = 64;

impl Jobs {
    /// Gives each process its job, and another one when a communicator shows with whom it belongs. The work is that of
    /// sorting processes and their communicators, and at most `MOST_ASKED` questions about each process's rank.
    pub(crate) fn assign(&mut self, processes: &mut BTreeMap<u64, Process>) {
        let mut same: BTreeMap<Kin, Vec<u64>> = BTreeMap::new();
        for (number, job) in &mut self.by_number {
            job.live.clear();
            same.entry((job.uid, job.name.clone())).or_default().push(*number);
        }
        for (kin, ids) in by_kin(processes) {
            let same = same.remove(&kin).unwrap_or_default();
            let parties = parties(&ids, processes);
            let awaited = awaited(&parties);
            let mut placing = Placing { jobs: self, kin, same, having: BTreeMap::new(), awaited, label: 2 };
            parties.iter().for_each(|party| placing.place(party, processes));
        }
    }
}

/// The processes of one user and name find their jobs.
struct Placing<'a> {
    jobs: &'a mut Jobs,
    kin: Kin,
    /// The jobs of that name.
    same: Vec<u64>,
    /// The job that each communicator is of.
    having: BTreeMap<u64, u64>,
    /// Jobs and ranks of those that have shown no communicator yet.
    awaited: BTreeSet<(u64, u32)>,
    /// Where the numbers of labels begin that may be free.
    label: u64,
}

impl Placing<'_> {
    fn place(&mut self, party: &Party, processes: &mut BTreeMap<u64, Process>) {
        let number = self.fitting(party).unwrap_or_else(|| self.make());
        let is_shown = match party.stage {
            Stage::Stays | Stage::Joined | Stage::Shown => true,
            Stage::Unknown => false,
            Stage::Gone => party.communicators.iter().any(|name| self.having.contains_key(name)),
        };
        for id in &party.members {
            let Some(process) = processes.get_mut(id) else { continue };
            process.job = number;
            process.settled |= is_shown;
        }
        self.bring_decisions(party, number);
        let Some(job) = self.jobs.by_number.get_mut(&number) else { return };
        if party.stage != Stage::Gone {
            job.live.extend(&party.ranks);
            self.having.extend(party.communicators.iter().map(|name| (*name, number)));
        }
    }

    fn fitting(&self, party: &Party) -> Option<u64> {
        let own = party.own.first();
        match party.stage {
            Stage::Stays => own.copied(),
            Stage::Gone => {
                let having = party.communicators.iter().filter_map(|name| self.having.get(name)).min();
                having.or(own).or(self.same.first()).copied()
            }
            Stage::Joined | Stage::Shown | Stage::Unknown => {
                let own = party.own.iter().map(|number| (*number, true));
                let others = self.same.iter().map(|number| (*number, false));
                let mut asked = own.chain(others).take(MOST_ASKED);
                asked
                    .find(|(number, is_own)| self.has_room(*number, *is_own, party))
                    .map(|(number, _)| number)
            }
        }
    }

    /// Who has shown no communicator gives way to a party that was in the same job, and to no other.
    fn has_room(&self, number: u64, is_own: bool, party: &Party) -> bool {
        let Some(job) = self.jobs.by_number.get(&number) else { return false };
        let is_awaited = |rank: u32| !is_own && self.awaited.contains(&(number, rank));
        let is_free = |rank: u32| !job.live.contains(&Some(rank)) && !is_awaited(rank);
        party.ranks.iter().flatten().all(|rank| is_free(*rank))
    }

    fn make(&mut self) -> u64 {
        let (uid, name) = self.kin.clone();
        let mut label = name.clone();
        while self.jobs.labels.contains(&label) {
            label = format!("{name}#{}", self.label);
            self.label += 1;
        }
        self.jobs.labels.insert(label.clone());
        self.jobs.made += 1;
        let number = self.jobs.made;
        self.jobs.by_number.insert(number, Job { label, name, uid, ..Job::default() });
        self.same.push(number);
        number
    }

    /// What was decided for its communicators it takes along from where it was.
    fn bring_decisions(&mut self, party: &Party, to: u64) {
        if party.own.iter().all(|number| *number == to) {
            return;
        }
        let communicators = party.communicators.iter().map(|one| name::communicator(*one)).collect();
        for number in party.own.iter().filter(|number| **number != to) {
            let Some(from) = self.jobs.by_number.get_mut(number) else { continue };
            let theirs = from.decisions.split_off(&communicators);
            let Some(job) = self.jobs.by_number.get_mut(&to) else { return };
            job.decisions.join(theirs);
        }
    }
}

fn awaited(parties: &[Party]) -> BTreeSet<(u64, u32)> {
    let unknown = parties.iter().filter(|party| party.stage == Stage::Unknown);
    let places = unknown.flat_map(|party| {
        let ranks = party.ranks.iter().flatten();
        ranks.flat_map(|rank| party.own.iter().map(|number| (*number, *rank)))
    });
    places.collect()
}
