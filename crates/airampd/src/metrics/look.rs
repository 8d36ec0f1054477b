//! A look at the node, laid out for the table's rows: each rank and each member of a communicator once, with its
//! labels ready. What cannot be told apart by its labels is left to `Samples`, which keeps the first: those that
//! run come before those that do not.

use airamp_observer::view::{Communicator, Job, JobState, Member, MemberState, Node, ProcessState, Rank};

/// What the daemon knows of itself. `created` of its counters is its own start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Daemon {
    pub started_unix_ms: u64,
    pub looks: u64,
    /// All of them together.
    pub look_s: f64,
    /// Answers by status.
    pub requests: Vec<(u16, u64)>,
    pub connections_open: u64,
    pub connections_refused: u64,
    pub evidence_written: u64,
    pub evidence_dropped: u64,
    pub reloads: u64,
    pub cpu_s: Option<f64>,
    pub resident_bytes: Option<u64>,
}

pub(super) struct Look<'a> {
    pub(super) node: &'a Node,
    pub(super) daemon: &'a Daemon,
    pub(super) ranks: Vec<RankRow<'a>>,
    pub(super) members: Vec<MemberRow<'a>>,
}

pub(super) struct RankRow<'a> {
    pub(super) job: &'a Job,
    pub(super) label: String,
    pub(super) rank: &'a Rank,
}

pub(super) struct MemberRow<'a> {
    pub(super) job: &'a Job,
    pub(super) communicator: &'a Communicator,
    pub(super) rank: String,
    pub(super) slot: String,
    pub(super) member: &'a Member,
}

impl<'a> Look<'a> {
    pub(super) fn of(node: &'a Node, daemon: &'a Daemon) -> Self {
        let ranks = node.jobs.iter().flat_map(ranks_of).collect();
        let mut members: Vec<_> = node.jobs.iter().flat_map(members_of).collect();
        members.sort_by_key(|row| row.member.state != MemberState::Running);
        Self { node, daemon, ranks, members }
    }

    /// Ranks whose process is there.
    pub(super) fn live_ranks(&self) -> impl Iterator<Item = &RankRow<'a>> {
        let is_over = |state| matches!(state, ProcessState::Gone | ProcessState::Left);
        self.ranks.iter().filter(move |row| !is_over(row.rank.process_state))
    }

    /// Ranks of the jobs that run, those among them whose process is missed.
    pub(super) fn expected_ranks(&self) -> impl Iterator<Item = &RankRow<'a>> {
        let runs = |row: &&RankRow<'_>| row.job.state == JobState::Running;
        self.ranks.iter().filter(runs).filter(|row| row.rank.process_state != ProcessState::Left)
    }
}

impl RankRow<'_> {
    pub(super) fn labels(&self) -> [&str; 2] {
        [&self.job.label, &self.label]
    }
}

impl MemberRow<'_> {
    pub(super) fn labels(&self) -> [&str; 3] {
        [&self.job.label, &self.rank, &self.slot]
    }
}

fn ranks_of(job: &Job) -> impl Iterator<Item = RankRow<'_>> {
    job.ranks.iter().map(move |rank| RankRow { job, label: rank_label(rank.rank), rank })
}

/// Those of communicators that have not ended: a slot is given away after that.
fn members_of(job: &Job) -> impl Iterator<Item = MemberRow<'_>> {
    let running = job.communicators.iter().filter(|_| job.state == JobState::Running);
    running.flat_map(move |communicator| {
        let there = communicator.ranks.iter().filter(|member| member.state != MemberState::Ended);
        there.map(move |member| MemberRow {
            job,
            communicator,
            rank: rank_label(member.rank),
            slot: communicator.slot.to_string(),
            member,
        })
    })
}

/// Empty for what has no rank.
pub(super) fn rank_label(rank: Option<u32>) -> String {
    rank.map(|rank| rank.to_string()).unwrap_or_default()
}

/// The word that stands for a value in JSON and in labels.
pub(super) fn process_word(state: ProcessState) -> &'static str {
    match state {
        ProcessState::Running => "running",
        ProcessState::Stopped => "stopped",
        ProcessState::Blocked => "blocked",
        ProcessState::Gone => "gone",
        ProcessState::Left => "left",
        ProcessState::Foreign => "foreign",
    }
}
