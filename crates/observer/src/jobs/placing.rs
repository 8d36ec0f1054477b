//! Which job a process is of: that with which it shares a communicator, else one of its name in which its rank is
//! free, else one of its own. Only who lives has a rank; `jobs` says so after each look.

use std::collections::BTreeMap;

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
        let mut read: Vec<(Stage, u64)> =
            read.iter().filter_map(|id| Some((stage(processes.get(id)?), *id))).collect();
        read.sort_by_key(|(stage, _)| *stage);
        for (_, id) in read {
            if let Some(process) = processes.get_mut(&id) {
                self.place(process);
            }
        }
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

    fn place(&mut self, process: &mut Process) {
        let (name, uid, stage) = (job_name(process), process.snapshot.uid, stage(process));
        let same = self.of_name(uid, &name);
        if stage == Stage::Settled && same.len() < 2 {
            return;
        }
        let names: Vec<u64> = names(process).collect();
        let shares = |number: &&u64| {
            self.by_number.get(number).is_some_and(|job| names.iter().any(|name| job.names.contains(name)))
        };
        let is_free = |number: &&u64| {
            let is_taken = |job: &Job| process.rank.is_some() && job.live.contains(&process.rank);
            stage == Stage::Gone || self.by_number.get(number).is_some_and(|job| !is_taken(job))
        };
        // It was free for a process whose rank was not known yet; with the rank it may be another's.
        let stays = |number: &&u64| {
            **number == process.job && (!matches!(stage, Stage::Shown { .. }) || is_free(number))
        };
        let found =
            same.iter().find(shares).or(same.iter().find(stays)).or(same.iter().find(is_free)).copied();
        process.job = found.unwrap_or_else(|| self.make(name, uid));
        process.settled |= !names.is_empty();
        let Some(job) = self.by_number.get_mut(&process.job).filter(|_| stage != Stage::Gone) else { return };
        job.names.extend(names);
        job.live.insert(process.rank);
    }
}

fn stage(process: &Process) -> Stage {
    match process.settled {
        _ if !process.is_live() => Stage::Gone,
        true => Stage::Settled,
        false if names(process).next().is_some() => Stage::Shown { anew: process.job == 0 },
        false => Stage::Unknown,
    }
}
