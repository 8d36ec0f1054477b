//! The streams of a group that is posted in parts.
//!
//! For a vendor the calls of a group on several streams of one communicator wait for all of these streams, and all of them
//! for the calls. Of a group that was kept back it sees some parts, each on its own, and the fast path has others. So the
//! streams of each communicator that compresses meet before the first part and behind the last. Communicators that do
//! not have one part, or, where calls could not be kept, two that do not meet (docs/guide/limits.md).

use super::active::Failure;
use super::held::{AtOnce, Held};
use crate::calls::Operation;
use crate::telemetry;
use airamp_fast_path::{MOST_LANES, meet};
use airamp_vendor_abi::nccl::{Comm, Stream};
use arrayvec::ArrayVec;

/// `room` is for the streams of one communicator, and kept from group to group.
pub(super) fn all_meet(calls: &[Held], at_once: &[AtOnce], room: &mut Vec<Stream>) -> Result<(), Failure> {
    let all = || {
        calls
            .iter()
            .filter(|held| !is_dropped(&held.operation))
            .map(AtOnce::of)
            .chain(at_once.iter().copied())
    };
    if all().zip(all().skip(1)).all(|(one, next)| one.stream == next.stream) {
        return Ok(());
    }
    let mut met = ArrayVec::<Comm, MOST_LANES>::new();
    for (place, held) in calls.iter().enumerate() {
        let comm = held.operation.comm;
        let is_further = met.contains(&comm)
            || (met.try_push(comm).is_err() && calls[..place].iter().any(|it| it.operation.comm == comm));
        if is_further || !held.compresses() {
            continue;
        }
        gather(room, all().filter(|one| one.comm == comm))?;
        streams_meet(held, room)?;
    }
    Ok(())
}

/// The vendor does not even look at the stream of a collective of nothing.
pub(super) fn is_dropped(operation: &Operation) -> bool {
    operation.count == 0 && telemetry::is_collective(operation.kind)
}

fn gather(room: &mut Vec<Stream>, calls: impl Iterator<Item = AtOnce>) -> Result<(), Failure> {
    room.clear();
    for AtOnce { stream, .. } in calls {
        if !room.contains(&stream) {
            room.try_reserve(1).map_err(|_| Failure::Streams)?;
            room.push(stream);
        }
    }
    Ok(())
}

/// Of a communicator that is ending nobody expects anything any more.
fn streams_meet(held: &Held, streams: &[Stream]) -> Result<(), Failure> {
    let pin = held.known.and_then(|known| known.pin());
    match pin.as_ref().and_then(|pin| pin.active()) {
        // SAFETY: they are the application's, as they would be for the vendor.
        Some(active) if streams.len() > 1 => Ok(unsafe { meet(active.lane(), streams) }?),
        _ => Ok(()),
    }
}
