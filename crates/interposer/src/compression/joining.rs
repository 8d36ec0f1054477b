//! How a rank comes to the agreement of its communicator, without configuration: who makes an id adds to it where
//! to meet, every rank reads that and says Hello before the vendor's init. Children meet at their parent's leader,
//! the ranks of `ncclCommInitAll` in their own process. Nothing here fails a call: whatever goes wrong leaves the
//! communicator to the vendor, with a reason that `offer` logs.

use super::brain::{Tuned, TunedParts};
use super::seats::{Joining, Seated};
use super::{Fresh, terms};
use crate::clique::Clique;
use crate::communicators::{Known, Origin};
use crate::startup::State;
use crate::thread::Thread;
use crate::{errno, log, startup};
use airamp_agreement::Hello;
use airamp_control::{Hub, Invitation, Log, Timeouts, Trailer, address_in_id, every_rank_makes_this_id};
use airamp_policy::Mode;
use airamp_vendor_abi::nccl::UniqueId;
use std::sync::Arc;
use std::time::{Duration, Instant};

const NO_TRAILER: &str =
    "the id was made by a process without the library, or in observe mode, or by NCCL_COMM_ID";

const LOG: Log = Log {
    warn: |line| log::warn(format_args!("{line}")),
    info: |line| log::info(format_args!("{line}")),
    debug: |line| log::debug(format_args!("{line}")),
};

/// Who asks for compression, and of what it is asked; `None`: nobody, and nothing of all this happens.
fn asked() -> Option<(&'static State, Mode)> {
    let state = startup::ensure();
    let asked = state.asked.filter(|_| !startup::is_inert())?;
    Some((state, asked))
}

fn hub(state: &State) -> Result<&'static Hub, String> {
    let timeouts = Timeouts { consensus: consensus(state), doubt: doubt(state) };
    let job = state.settings.job.as_deref().unwrap_or_default();
    Hub::get(timeouts, job, LOG).map_err(|error| format!("no control plane in this process: {error}"))
}

fn doubt(state: &State) -> Duration {
    Duration::from_millis(state.settings.doubt_ms)
}

/// The vendor has just made an id here: whoever makes a communicator of it can find us.
pub(crate) fn introduce(id: *mut UniqueId) {
    let Some((state, _)) = asked() else { return };
    let _errno = errno::keep();
    // SAFETY: null, or where the vendor has just written the id.
    let Some(id) = (unsafe { id.as_mut() }) else { return };
    if let Err(reason) = add_trailer(state, id) {
        log::warn(format_args!("no communicator of this id will compress: {reason}"));
    }
}

fn add_trailer(state: &State, id: &mut UniqueId) -> Result<(), String> {
    // Every rank makes it for itself then, so that none may write into it.
    let is_set = std::env::var_os("NCCL_COMM_ID").is_some_and(|value| !value.is_empty());
    if is_set || every_rank_makes_this_id(&id.internal) {
        return Err("NCCL_COMM_ID is set".into());
    }
    let address = address_in_id(&id.internal).ok_or("the id holds no address")?;
    let trailer =
        hub(state)?.introduce(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
    if trailer.write(&mut id.internal) {
        Ok(())
    } else {
        Err("the id has no room for an address of ours".into())
    }
}

/// A rank of a communicator that is about to be made.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) rank: i32,
    pub(crate) ranks: i32,
    pub(crate) blocking: bool,
    pub(crate) clique: Clique,
}

/// Before the vendor's init. `None`: compression is out of the question, and nobody asks why.
pub(crate) fn join(
    id: *const UniqueId,
    rank: i32,
    ranks: i32,
    blocking: bool,
    waits: bool,
) -> Option<Joining> {
    let (state, asked) = asked()?;
    // SAFETY: null, or an id that the vendor is about to read.
    let id = unsafe { id.as_ref() }.filter(|_| ranks > 1 && (0..ranks).contains(&rank))?;
    let _errno = errno::keep();
    let place = Place { rank, ranks, blocking, clique: Clique::of_id(id) };
    let seated = match Trailer::read(&id.internal) {
        None => Seated::without(NO_TRAILER),
        Some(trailer) => seat(state, asked, &trailer.into(), place),
    };
    if waits && blocking {
        seated.await_hello(Instant::now(), consensus(state));
    }
    Some(Joining::new(seated))
}

fn consensus(state: &State) -> Duration {
    Duration::from_millis(state.settings.consensus_timeout_ms)
}

fn seat(state: &State, mode: Mode, invitation: &Invitation, place: Place) -> Seated {
    let Place { rank, ranks, blocking, clique } = place;
    let (rank, ranks, settings) = (rank.unsigned_abs(), ranks.unsigned_abs(), &state.settings);
    let terms = terms::of_rank(settings, mode, blocking);
    let brain = Tuned::new(TunedParts {
        communicator: clique.0,
        rank,
        ranks,
        mode,
        min_speedup: settings.min_speedup,
        max_vnmse: settings.max_vnmse,
        trial_budget_us: settings.trial_ms as f64 * 1000.0,
        cache: settings.tuning_cache.clone(),
        ranks_per_node: settings.ranks_per_node,
        terms: terms.clone(),
    });
    let hello = Hello { rank, ranks, terms };
    let seated = Seated::take(doubt(state), |gate, reserved| {
        Ok(hub(state)?.join(invitation, hello, gate, reserved, Box::new(brain)))
    });
    seated.meeting_at(invitation.address.ip())
}

/// Before the vendor makes the communicators of a group: what outside a group [`join`] waits for.
pub(crate) fn await_hellos(thread: &Thread, vendor: u8) {
    let Some((state, _)) = asked() else { return };
    let _errno = errno::keep();
    let (began, longest) = (Instant::now(), consensus(state));
    thread.each_fresh(vendor, |fresh| {
        if let Some(seated) = fresh.known.seat().filter(|_| fresh.known.entry.is_blocking()) {
            seated.await_hello(began, longest);
        }
    });
}

/// The vendor has made a communicator from that parent.
pub(crate) fn join_child(known: Known, origin: Origin, parent: Option<Known>) {
    let Some((state, asked)) = asked() else { return };
    let _errno = errno::keep();
    let entry = known.entry;
    let place = Place {
        rank: entry.rank(),
        ranks: entry.nranks(),
        blocking: entry.is_blocking(),
        clique: entry.clique(),
    };
    if place.blocking && place.ranks == 1 {
        return;
    }
    let seated = match invitation(origin, parent, place) {
        Ok(invitation) => seat(state, asked, &invitation, place),
        Err(reason) => Seated::without(reason),
    };
    Arc::new(seated).belongs_to(known);
}

fn invitation(origin: Origin, parent: Option<Known>, place: Place) -> Result<Invitation, &'static str> {
    if origin == Origin::Grow {
        return Err("communicators that have grown are not compressed");
    }
    if !place.blocking {
        return Err("the communicator is not blocking");
    }
    if place.rank < 0 || place.clique == Clique::UNKNOWN {
        return Err(
            "this rank's place in the communicator is not known, or its parent was shrunk in more than eight ways",
        );
    }
    let parent = parent.and_then(Known::seat).ok_or("its parent takes no part in any agreement")?;
    parent.child(place.clique.0).ok_or("not all ranks of its parent came to the agreement")
}

/// The vendor has made all ranks of a communicator in this process.
pub(crate) fn join_all(fresh: &[Fresh]) {
    let Some((state, asked)) = asked().filter(|_| fresh.len() > 1) else { return };
    let _errno = errno::keep();
    let meeting = hub(state)
        .and_then(|hub| hub.introduce_within().map_err(|error| format!("the ranks cannot meet: {error}")));
    for Fresh { known, .. } in fresh {
        let entry = known.entry;
        let (rank, ranks, blocking) = (entry.rank(), entry.nranks(), entry.is_blocking());
        let place = Place { rank, ranks, blocking, clique: entry.clique() };
        let seated = match &meeting {
            Ok(meeting) => seat(state, asked, meeting, place),
            Err(reason) => Seated::without(reason),
        };
        Arc::new(seated).belongs_to(*known);
    }
}
