//! A communicator's slot in the file: opened when it is made, before the application has it, and closed when it has
//! ended. Asks the vendor for the device, pinned against its end, and nothing else.

use super::{agreement, device, device_time, event, inside, tick_rate, writer};
use crate::calls::Ending;
use crate::communicators::{Known, Origin};
use crate::compression::{self, Fresh};
use crate::thread::Thread;
use crate::{ghosts, rhythm, startup, vendors};
use airamp_telemetry::{AgreementState, CommunicatorFacts, Ended, EventKind, Slot, Writer};
use airamp_vendor::gpu::Kind;

/// The slot of a communicator, if it has one; its place in the table may have been given to another one.
#[inline]
pub(crate) fn slot_of(known: Known) -> Option<Slot> {
    let bits = known.entry.slot();
    if bits == 0 || !known.is_current() { None } else { writer()?.slot(bits) }
}

/// A communicator was made, and took effect. One that is not `answering`, since it is still being made, cannot be
/// asked.
pub(crate) fn open(thread: &Thread, fresh: Fresh, answering: bool) {
    let Some(writer) = writer() else { return };
    let known = fresh.known;
    if known.entry.slot() != 0 {
        return;
    }
    tell_vendor(writer, known.entry.vendor());
    let device = if answering { device_of(thread, fresh) } else { -1 };
    let Some(slot) = writer.open(&facts(known, device)) else { return };
    if !known.entry.claim_slot(slot.bits()) {
        // Another thread has adopted it at the same time.
        return slot.close(Ended::Destroyed);
    }
    let state = match startup::ensure().asked {
        None => AgreementState::NotSought,
        Some(_) => AgreementState::Joining,
    };
    agreement(known, state, "");
    tick_rate::settle();
    inside::open(slot);
    device_time::acquire(slot, device);
    rhythm::open(slot, device);
    // One that is met at its first call is under way already: nothing may wait for the device there.
    if known.entry.origin() != Origin::Adopted as u8 {
        ghosts::prepare(slot, device);
    }
    event(known, EventKind::CommunicatorMade, known.entry.clique().0, 0, "");
}

fn facts(known: Known, device: i32) -> CommunicatorFacts {
    let entry = known.entry;
    let uuid = device::gpu().filter(|_| device >= 0).and_then(|gpu| gpu.device_uuid(device).ok());
    CommunicatorFacts {
        name: entry.clique().0,
        parent: entry.parent().0,
        rank: entry.rank(),
        ranks: entry.nranks(),
        device,
        device_uuid: uuid.unwrap_or_default(),
        nic: super::nic::of_this_process(),
        origin: entry.origin(),
        vendor_index: entry.vendor(),
    }
}

fn device_of(thread: &Thread, fresh: Fresh) -> i32 {
    let vendor = vendors::at(usize::from(fresh.known.entry.vendor()));
    vendor.and_then(|vendor| compression::device_of(thread, vendor, fresh).ok()).unwrap_or(-1)
}

fn tell_vendor(writer: &Writer, place: u8) {
    let Some(vendor) = vendors::at(usize::from(place)) else { return };
    let name = if startup::gpu_kind() == Some(Kind::Hip) { "RCCL" } else { "NCCL" };
    let number = vendor.version();
    // Two digits for the minor version since 2.9.
    let (major, rest) =
        if number < 10_000 { (number / 1000, number % 1000) } else { (number / 10_000, number % 10_000) };
    writer.set_vendor(&format!("{name} {major}.{}.{}", rest / 100, rest % 100));
}

/// A communicator has ended, or its place in the table was given to another one.
pub(crate) fn closed(known: Known, how: Ending) {
    let Some(slot) = slot_of(known) else { return };
    let ended = if how == Ending::Abort { Ended::Aborted } else { Ended::Destroyed };
    event(known, EventKind::CommunicatorEnded, known.entry.clique().0, 0, ended.name());
    slot.all_reduces(known.entry.index.counts().committed);
    known.entry.set_slot(0);
    rhythm::close(slot);
    ghosts::ended(slot);
    match how {
        Ending::Abort => device_time::forget(slot),
        _ => device_time::release(slot),
    }
    ghosts::step_aside();
    slot.close(ended);
}
