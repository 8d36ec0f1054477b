//! Who has come, and whether all want the same. Everything that a rank says is compared with rank 0's. Made for the
//! leader alone.

use super::LeaderTimer;
use crate::message::{Capable, Hello, Rank, Term, difference};
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Gathering {
    hellos: BTreeMap<Rank, Vec<Term>>,
    ready: BTreeMap<Rank, Capable>,
    /// Rank 0's own vendor init has returned.
    present: bool,
}

impl Gathering {
    pub(super) fn timers(&self, ranks: u32) -> Vec<LeaderTimer> {
        match (self.present, self.hellos.len() < ranks as usize) {
            (false, _) => Vec::new(),
            (true, false) => vec![LeaderTimer::Verdict],
            (true, true) => vec![LeaderTimer::Grace, LeaderTimer::Verdict],
        }
    }

    pub(super) fn present(&mut self) {
        self.present = true;
    }

    pub(super) fn hello(&mut self, rank: Rank, hello: Hello, ranks: u32) -> Result<(), String> {
        if hello.rank != rank {
            return Err(format!("rank {} said Hello in the name of rank {rank}", hello.rank));
        }
        if hello.ranks != ranks {
            return Err(format!("rank {rank} counts {} ranks, rank 0 counts {ranks}", hello.ranks));
        }
        if self.hellos.insert(rank, hello.terms).is_some() {
            return Err(format!("there are two with the number of rank {rank}"));
        }
        differences(&self.hellos, rank, Vec::as_slice)
    }

    pub(super) fn ready(&mut self, rank: Rank, capable: Capable) -> Result<(), String> {
        if self.ready.insert(rank, capable).is_some() {
            return Err(format!("rank {rank} said Ready twice"));
        }
        differences(&self.ready, rank, |capable| &capable.terms)
    }

    pub(super) fn is_complete(&self, ranks: u32) -> bool {
        self.hellos.len() == ranks as usize && self.ready.len() == ranks as usize
    }

    pub(super) fn take_capable(&mut self) -> Vec<Capable> {
        mem::take(&mut self.ready).into_values().collect()
    }

    /// Whom a timer has found missing, in words.
    pub(super) fn missing(&self, timer: LeaderTimer, ranks: u32, linked: &BTreeSet<Rank>) -> String {
        if timer == LeaderTimer::Grace {
            let who = name_missing(ranks, |rank| self.hellos.contains_key(&rank));
            return format!("{who} did not join");
        }
        let who = name_missing(ranks, |rank| self.ready.contains_key(&rank) && linked.contains(&rank));
        format!("{who} did not get ready in time")
    }
}

/// Compares the newcomer with rank 0, or all with rank 0 if that is the newcomer.
fn differences<T>(
    all: &BTreeMap<Rank, T>,
    newcomer: Rank,
    terms: impl Fn(&T) -> &[Term],
) -> Result<(), String> {
    let Some(of_rank_0) = all.get(&0) else { return Ok(()) };
    let mut others = all.iter().filter(|&(&rank, _)| newcomer == 0 || rank == newcomer);
    others.find_map(|(&rank, other)| difference(rank, terms(other), terms(of_rank_0))).map_or(Ok(()), Err)
}

pub(super) fn name_missing(ranks: u32, is_there: impl Fn(Rank) -> bool) -> String {
    let mut missing = (0..ranks).filter(|&rank| !is_there(rank));
    match (missing.next(), missing.count()) {
        (None, _) => "a rank".to_owned(),
        (Some(rank), 0) => format!("rank {rank}"),
        (Some(rank), more) => format!("rank {rank} and {more} more"),
    }
}
