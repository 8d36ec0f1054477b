//! Which of the calls that a group keeps back are posted next.

use super::active::Failure;
use super::held::{Held, State};
use super::route::poison;
use crate::calls::Kind;
use crate::clique::Clique;
use crate::dispatch::Ticket;
use airamp_fast_path::MOST_LANES;
use airamp_vendor_abi::nccl::{Comm, NcclResult};
use arrayvec::ArrayVec;

pub(super) fn is_waiting_to_be_compressed(held: &Held) -> bool {
    held.state == State::Waiting && held.compressed.is_some()
}

pub(super) fn is_chosen(held: &&Held) -> bool {
    held.state == State::Chosen
}

/// Chooses what waits and belongs. False: there is nothing.
pub(super) fn choose(calls: &mut [Held], belongs: impl Fn(&Held) -> bool) -> bool {
    let mut any = false;
    for held in calls.iter_mut().filter(|held| held.state == State::Waiting) {
        if belongs(held) {
            held.state = State::Chosen;
            any = true;
        }
    }
    any
}

/// Of the cliques that have something to compress, the one that every rank takes first.
pub(super) fn next_clique(calls: &[Held]) -> Option<Clique> {
    calls.iter().filter(|held| is_waiting_to_be_compressed(held)).map(|held| held.clique).min()
}

/// Chooses the collectives of the clique that are not compressed and stand before the next one of
/// their communicator that is: a rank that posts its calls one by one has them in that order. False:
/// there is none.
pub(super) fn choose_what_comes_first(calls: &mut [Held], clique: Clique) -> bool {
    let mut any = false;
    for place in 0..calls.len() {
        let (before, rest) = calls.split_at(place);
        let (held, behind) = (&rest[0], &rest[1..]);
        let is_next =
            |other: &Held| other.operation.comm == held.operation.comm && is_waiting_to_be_compressed(other);
        if held.clique == clique
            && held.state == State::Waiting
            && held.compressed.is_none()
            && !matches!(held.operation.kind, Kind::Send | Kind::Recv)
            && !before.iter().any(is_next)
            && behind.iter().any(is_next)
        {
            calls[place].state = State::Chosen;
            any = true;
        }
    }
    any
}

/// Chooses the first call to be compressed of each communicator in the clique.
pub(super) fn choose_one_each(calls: &mut [Held], clique: Clique) {
    let mut chosen = ArrayVec::<Comm, MOST_LANES>::new();
    for held in calls.iter_mut().filter(|held| held.clique == clique && is_waiting_to_be_compressed(held)) {
        if !chosen.contains(&held.operation.comm) && chosen.try_push(held.operation.comm).is_ok() {
            held.state = State::Chosen;
        }
    }
}

/// The chosen calls have taken effect, or have not.
pub(super) fn settle_chosen(calls: &mut [Held], took_effect: bool) {
    for held in calls.iter_mut().filter(|held| held.state == State::Chosen) {
        held.state = State::Done;
        match held.ticket {
            Ticket::Reserved(known, _) if took_effect => known.entry.index.commit(known.generation, 1),
            Ticket::Reserved(known, _) => known.entry.index.roll_back(known.generation, 1),
            _ => {}
        }
    }
}

/// Forgets what is kept back of communicators that can no longer be used.
pub(super) fn drop_unusable(calls: &mut [Held]) -> NcclResult {
    if choose(calls, |held| held.known.is_some_and(|known| !known.is_usable())) {
        settle_chosen(calls, false);
        return NcclResult::INTERNAL_ERROR;
    }
    NcclResult::SUCCESS
}

pub(super) fn poison_chosen(calls: &[Held], failure: &Failure) {
    for held in calls.iter().filter(is_chosen) {
        if let Ticket::Reserved(known, index) = held.ticket {
            poison(known, &format!("AllReduce {index}, in a group, cannot be compressed: {failure}"));
        }
    }
}

/// The rest of a group has failed of which a part was compressed already: the application takes it that
/// nothing has happened, and the peers that everything has.
pub(super) fn poison_compressed(calls: &[Held]) {
    for held in calls.iter().filter(|held| held.state == State::Done && held.compressed.is_some()) {
        if let Some(known) = held.known.filter(|known| known.is_usable()) {
            poison(known, "the group of a compressed AllReduce failed after it");
        }
    }
}
