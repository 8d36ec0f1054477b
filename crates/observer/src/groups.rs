//! The communicators of a job: which ranks on this node share one, the slot it is shown by, and what must be
//! remembered of it between looks. Bounded by the processes' own slots.

use std::collections::{BTreeMap, BTreeSet};

use airamp_telemetry::State;
use airamp_telemetry::snapshot::Communicator;

use crate::arrivals::{self, Comparison};
use crate::name;
use crate::process::Process;
use crate::standing::{Standing, Verdict, judge};
use crate::view::ProcessState;

/// How long an ended communicator is still shown.
const SHOWN_AFTER_END_NS: u64 = 60_000_000_000;

/// Its name, or, without one, where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Named(u64),
    Unnamed { process: u64, slot: u8, generation: u64 },
}

#[derive(Default)]
pub(crate) struct Groups {
    known: BTreeMap<Key, Known>,
}

#[derive(Default)]
struct Known {
    slot: u32,
    /// The sequence up to which arrivals were compared.
    compared: u64,
    /// By process: what it had issued when it was first seen behind, and when that was.
    behind: BTreeMap<u64, (u64, u64)>,
}

/// A communicator at this look.
pub(crate) struct Group<'a> {
    pub(crate) key: Key,
    pub(crate) slot: u32,
    pub(crate) members: Vec<Member<'a>>,
    pub(crate) verdict: Verdict,
    pub(crate) comparison: Comparison,
    /// The members that `verdict` is about, by their place in `members`; first those that `comparison` is about.
    pub(crate) judged: Vec<usize>,
}

#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) id: u64,
    pub(crate) process: &'a Process,
    pub(crate) communicator: &'a Communicator,
}

impl Member<'_> {
    /// Its process is gone, and it was not ended.
    pub(crate) fn is_dead(&self) -> bool {
        !self.process.is_live() && self.communicator.ended.is_none()
    }

    pub(crate) fn is_open(&self) -> bool {
        self.process.is_live() && self.communicator.ended.is_none()
    }

    /// The library counts nothing there any more: what its file says stands still while the job goes on.
    pub(crate) fn is_inert(&self) -> bool {
        self.process.snapshot.state == State::Inert
    }
}

impl Group<'_> {
    pub(crate) fn name(&self) -> String {
        match self.key {
            Key::Named(name) => name::communicator(name),
            Key::Unnamed { slot, .. } => {
                let pid = self.members.first().map_or(0, |member| member.process.snapshot.pid);
                format!("{pid}/{slot}")
            }
        }
    }

    pub(crate) fn size(&self) -> u64 {
        let sizes = self.members.iter().map(|member| member.communicator.facts.ranks);
        sizes.max().and_then(|size| u64::try_from(size).ok()).unwrap_or(0)
    }

    pub(crate) fn elsewhere(&self) -> u64 {
        self.size().saturating_sub(self.members.len() as u64)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.members.iter().any(Member::is_open)
    }

    /// How many are open, and say nothing of what they do.
    pub(crate) fn inert(&self) -> usize {
        self.members.iter().filter(|member| member.is_open() && member.is_inert()).count()
    }

    pub(crate) fn judged(&self) -> impl Iterator<Item = &Member<'_>> {
        self.judged.iter().filter_map(|place| self.members.get(*place))
    }

    /// The job's ranks that the others wait for.
    pub(crate) fn missing(&self) -> Vec<u32> {
        let places = self.verdict.hung.iter().flat_map(|hung| &hung.missing);
        let members =
            places.filter_map(|place| self.judged.get(*place)).filter_map(|at| self.members.get(*at));
        members.filter_map(|member| member.process.rank).collect()
    }
}

impl Groups {
    /// `processes`: those of the job.
    pub(crate) fn look<'a>(
        &mut self,
        processes: &[(u64, &'a Process)],
        now_ns: u64,
        hang_after_ns: u64,
    ) -> Vec<Group<'a>> {
        let mut members: BTreeMap<Key, Vec<Member<'a>>> = BTreeMap::new();
        for (id, process) in processes {
            for communicator in process.snapshot.communicators.iter().filter(|one| is_shown(one, now_ns)) {
                let member = Member { id: *id, process, communicator };
                members.entry(key(&member)).or_default().push(member);
            }
        }
        members.retain(|_, members| members.iter().any(|member| member.process.is_live()));
        self.known.retain(|key, _| members.contains_key(key));
        self.give_slots(members.keys());
        let mut groups = Vec::with_capacity(members.len());
        for (key, mut members) in members {
            members.sort_by_key(|member| member.communicator.facts.rank);
            let known = self.known.entry(key).or_default();
            groups.push(known.look(key, members, now_ns, hang_after_ns));
        }
        groups.sort_by_key(|group| group.slot);
        groups
    }

    fn give_slots<'k>(&mut self, keys: impl Iterator<Item = &'k Key>) {
        let used: BTreeSet<u32> = self.known.values().map(|known| known.slot).collect();
        let mut free = (0..).filter(|slot| !used.contains(slot));
        for key in keys {
            self.known
                .entry(*key)
                .or_insert_with(|| Known { slot: free.next().unwrap_or(u32::MAX), ..Known::default() });
        }
    }
}

impl Known {
    fn look<'a>(&mut self, key: Key, members: Vec<Member<'a>>, now_ns: u64, hang_after_ns: u64) -> Group<'a> {
        let tells = |place: &usize| {
            let member = &members[*place];
            (member.is_open() || member.is_dead()) && !member.is_inert()
        };
        let mut judged: Vec<usize> = (0..members.len()).filter(tells).collect();
        let told: Vec<&Communicator> = judged.iter().map(|place| members[*place].communicator).collect();
        let comparison = arrivals::compare(&told, self.compared);
        self.compared = comparison.newest;
        self.follow(judged.iter().map(|place| &members[*place]), now_ns);
        // That its process is gone is known of an inert one too.
        let is_lost = |place: &usize| members[*place].is_dead() && members[*place].is_inert();
        judged.extend((0..members.len()).filter(is_lost));
        let standings: Vec<Standing<'a>> =
            judged.iter().map(|place| self.standing(&members[*place])).collect();
        let verdict = judge(&standings, now_ns, hang_after_ns);
        Group { key, slot: self.slot, members, verdict, comparison, judged }
    }

    /// Remembers since when each member has been behind with what it has issued.
    fn follow<'m, 'a: 'm>(&mut self, members: impl Iterator<Item = &'m Member<'a>> + Clone, now_ns: u64) {
        let furthest = members.clone().map(|member| member.communicator.issued).max().unwrap_or(0);
        let mut behind = BTreeMap::new();
        for member in members.filter(|member| member.communicator.issued < furthest) {
            let issued = member.communicator.issued;
            let since = match self.behind.get(&member.id) {
                Some((known, since)) if *known == issued => *since,
                _ => now_ns,
            };
            behind.insert(member.id, (issued, since));
        }
        self.behind = behind;
    }

    fn standing<'a>(&self, member: &Member<'a>) -> Standing<'a> {
        Standing {
            communicator: member.communicator,
            dead: member.is_dead(),
            inert: member.is_inert(),
            stopped: member.process.state == ProcessState::Stopped,
            absent_since_ns: member.process.absent_since_ns(),
            in_flight_since_ns: member.process.in_flight_since_ns(member.communicator),
            seen_behind_since_ns: self.behind.get(&member.id).map(|(_, since)| *since),
        }
    }
}

fn key(member: &Member<'_>) -> Key {
    match member.communicator.facts.name {
        0 => Key::Unnamed {
            process: member.id,
            slot: member.communicator.slot,
            generation: member.communicator.generation,
        },
        name => Key::Named(name),
    }
}

pub(crate) fn is_shown(communicator: &Communicator, now_ns: u64) -> bool {
    communicator.ended.is_none() || now_ns.saturating_sub(communicator.ended_ns) < SHOWN_AFTER_END_NS
}
