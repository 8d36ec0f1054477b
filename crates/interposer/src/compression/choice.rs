//! Which of the calls that a group keeps back are posted next.

use super::active::Failure;
use super::held::{Held, State};
use super::route::poison;
use crate::calls::Kind;
use crate::clique::Clique;
use crate::dispatch::Ticket;
use crate::telemetry::{self, Turn};
use airamp_fast_path::MOST_LANES;
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use arrayvec::ArrayVec;

/// Whether the call's turn on the fast path, compressed or as a dry run, is still to come.
pub(super) fn awaits_its_turn(held: &Held) -> bool {
    held.state == State::Waiting && held.fast.is_some() && held.tried.is_none()
}

pub(super) fn is_chosen(held: &&Held) -> bool {
    held.state == State::Chosen
}

/// Whether the group is one call on one communicator, on one or more of its ranks. Among others, its time
/// would be theirs too.
pub(super) fn is_one_call(calls: &[Held]) -> bool {
    let comm = |place: usize| calls.get(place).map(|held| held.operation.comm);
    calls.len() <= MOST_LANES
        && calls.windows(2).all(|pair| pair[0].clique == pair[1].clique)
        && (0..calls.len()).all(|place| (0..place).all(|before| comm(before) != comm(place)))
}

/// Chooses what waits and belongs. False: there is nothing.
pub(super) fn choose(calls: &mut [Held], mut belongs: impl FnMut(&Held) -> bool) -> bool {
    let mut any = false;
    for held in calls.iter_mut().filter(|held| held.state == State::Waiting) {
        if belongs(held) {
            held.state = State::Chosen;
            any = true;
        }
    }
    any
}

/// What is to be done with the calls that were chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    PassOn,
    FastPath,
    Nothing,
}

/// Chooses what is posted next.
pub(super) fn choose_next(calls: &mut [Held]) -> Next {
    match next_clique(calls) {
        Some(_) if choose_tried(calls) => Next::PassOn,
        Some(clique) if choose_what_comes_first(calls, clique) => Next::PassOn,
        Some(clique) => {
            choose_one_each(calls, clique);
            Next::FastPath
        }
        None if choose(calls, |_| true) => Next::PassOn,
        None => Next::Nothing,
    }
}

/// Chooses what the vendor has to do now that its dry runs are posted: a rank that posts its calls one by
/// one has a dry run and its call next to each other. False: there is none.
fn choose_tried(calls: &mut [Held]) -> bool {
    choose(calls, |held| held.tried.is_some())
}

/// Of the cliques that compress, the one that every rank takes first and that still has collectives: those that are the
/// vendor's come before the next clique too, whatever else of it is in this rank's group. `None`: no turn is left in the group.
fn next_clique(calls: &[Held]) -> Option<Clique> {
    if !calls.iter().any(awaits_its_turn) {
        return None;
    }
    let mut done = None;
    loop {
        let compressing = calls.iter().filter(|held| Some(held.clique) > done && held.compresses());
        let first = compressing.map(|held| held.clique).min()?;
        if calls.iter().any(|held| held.clique == first && is_waiting_collective(held)) {
            return Some(first);
        }
        done = Some(first);
    }
}

/// Messages come behind the collectives, and of all communicators together.
fn is_waiting_collective(held: &Held) -> bool {
    held.state == State::Waiting && !matches!(held.operation.kind, Kind::Send | Kind::Recv)
}

/// Chooses the collectives of the clique that are the vendor's and have no turn of their communicator before them
/// that is still to come: a rank that posts its calls one by one has them in that order. False: there is
/// none.
fn choose_what_comes_first(calls: &mut [Held], clique: Clique) -> bool {
    // Whose turn is still to come. Where there is no room for one more, the others wait for the next look.
    let (mut with_a_turn, mut is_full) = (ArrayVec::<Comm, MOST_LANES>::new(), false);
    let mut any = false;
    for held in calls.iter_mut().filter(|held| held.clique == clique && is_waiting_collective(held)) {
        let comm = held.operation.comm;
        let is_behind_one = is_full || with_a_turn.contains(&comm);
        if awaits_its_turn(held) {
            is_full |= !is_behind_one && with_a_turn.try_push(comm).is_err();
        } else if !is_behind_one {
            held.state = State::Chosen;
            any = true;
        }
    }
    any
}

/// Chooses the first call for the fast path of each communicator in the clique.
fn choose_one_each(calls: &mut [Held], clique: Clique) {
    let mut chosen = ArrayVec::<Comm, MOST_LANES>::new();
    for held in calls.iter_mut().filter(|held| held.clique == clique && awaits_its_turn(held)) {
        if !chosen.contains(&held.operation.comm) && chosen.try_push(held.operation.comm).is_ok() {
            held.state = State::Chosen;
        }
    }
}

/// The chosen calls have had their turn on the fast path: those that were tried are the vendor's now, and
/// keep their place.
pub(super) fn settle_turns(calls: &mut [Held]) {
    for held in calls.iter_mut().filter(|held| held.state == State::Chosen && held.tried.is_some()) {
        held.state = State::Waiting;
    }
    settle_chosen(calls, true);
}

/// The chosen calls have taken effect, or have not.
pub(super) fn settle_chosen(calls: &mut [Held], took_effect: bool) {
    for held in calls.iter_mut().filter(|held| held.state == State::Chosen) {
        held.state = if took_effect { State::Done } else { State::Dropped };
        if took_effect {
            telemetry::held_took_effect(&held.operation, held.known, turn_of(held), held.reason);
        }
        match held.ticket {
            Ticket::Reserved(known, _) if took_effect => known.entry.index.commit(known.generation, 1),
            Ticket::Reserved(known, _) => known.entry.index.roll_back(known.generation, 1),
            _ => {}
        }
    }
}

/// Who has carried the call out.
fn turn_of(held: &Held) -> Turn {
    match (held.fast.as_ref().zip(held.known), held.tried) {
        (Some((fast, known)), Some(_)) => Turn::Trial(fast.sent_bytes(known)),
        (Some((fast, known)), None) if fast.trial.is_none() => Turn::Compressed(fast.sent_bytes(known)),
        _ => Turn::Vendor,
    }
}

/// Forgets what is kept back of communicators that can no longer be used.
pub(super) fn drop_unusable(calls: &mut [Held]) -> NcclResult {
    let mut result = NcclResult::SUCCESS;
    let chosen = choose(calls, |held| {
        let Some(known) = held.known.filter(|known| !known.is_usable()) else { return false };
        if result == NcclResult::SUCCESS {
            result = known.entry.poison().unwrap_or(NcclResult::INTERNAL_ERROR);
        }
        true
    });
    if chosen {
        settle_chosen(calls, false);
    }
    result
}

pub(super) fn poison_chosen(calls: &[Held], failure: &Failure) {
    for held in calls.iter().filter(is_chosen) {
        if let Some((known, fast)) = held.known.zip(held.fast) {
            let reason = format!("AllReduce {}, in a group, cannot be compressed: {failure}", fast.index);
            poison(known, failure.result(), &reason);
        }
    }
}

#[cfg(test)]
mod tests;
