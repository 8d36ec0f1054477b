//! What a call adds to the file, and when: outside a group when it was accepted, inside at the outermost end. The
//! dispatcher and the path of compressed calls say what took effect; nothing else counts.

use super::bytes::{Size, uneven};
use super::device::is_captured;
use super::device_time::{self, About, Sample};
use super::group::lies_before_samples;
use super::shapes::{Remembered, sort};
use super::tally::Pending;
use super::{inside, is_on, slot_of, writer};
use crate::calls::Operation;
use crate::communicators::Known;
use crate::rhythm::Held;
use crate::thread::{self, Thread};
use crate::{ghosts, rhythm};
use airamp_policy::rhythm::Key;
use airamp_telemetry::{CallRecord, Datatype, Kind, Path, Reason, Recipe, Shape, Slot, Ticks, Times, Writer};
use airamp_vendor_abi::nccl::{DataType, NcclResult, Stream};

/// Who carried a call out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Vendor,
    /// The fast path, with so many bytes sent to peers.
    Compressed(u64),
    /// The vendor, behind a dry run with so many bytes sent.
    Trial(u64),
}

/// One call, as it is counted.
pub(super) struct Counted {
    pub(super) known: Option<Known>,
    pub(super) stream: Stream,
    shape: Shape,
    reason: Option<Reason>,
}

impl Counted {
    fn of(operation: &Operation, known: Option<Known>, turn: Turn, reason: Option<Reason>) -> Self {
        let captured = is_captured(operation.stream);
        if captured {
            ghosts::captured();
        }
        Self::made(operation, known, turn, reason, captured)
    }

    fn made(
        operation: &Operation,
        known: Option<Known>,
        turn: Turn,
        reason: Option<Reason>,
        captured: bool,
    ) -> Self {
        let Operation { kind, stream, .. } = *operation;
        let (logical, would_wire) = sizes(operation, known);
        let (path, wire) = match turn {
            Turn::Vendor if captured => (Path::VendorCaptured, would_wire),
            Turn::Vendor => (Path::Vendor, would_wire),
            Turn::Compressed(sent) if captured => (Path::CompressedCaptured, sent),
            Turn::Compressed(sent) => (Path::Compressed, sent),
            Turn::Trial(sent) => (Path::Trial, would_wire.saturating_add(sent)),
        };
        let reason = match turn {
            Turn::Vendor if kind == Kind::AllReduce => {
                reason.or_else(|| known.and_then(|known| known.entry.why_off()))
            }
            _ => None,
        };
        let (count, datatype) = (operation.count as u64, Datatype::of(operation.datatype.0));
        let shape = Shape { kind, path, datatype, count, logical, wire, would_wire };
        Self { known, stream, shape, reason }
    }

    /// One that the vendor carries out, outside any capture.
    pub(super) fn usual(operation: &Operation, known: Known) -> Self {
        Self::made(operation, Some(known), Turn::Vendor, None, false)
    }

    pub(super) fn recipe(&self, writer: &Writer) -> Recipe {
        writer.recipe(self.known.and_then(slot_of).map_or(0, Slot::bits), self.shape)
    }
}

/// Bytes of the call, and those of them that this rank sends if the vendor carries it out.
fn sizes(operation: &Operation, known: Option<Known>) -> (u64, u64) {
    let (rank, ranks) = known.map_or((-1, -1), |known| (known.entry.rank(), known.entry.nranks()));
    if operation.kind == Kind::AllToAllV {
        let element = operation.datatype.size().unwrap_or(0) as u64;
        let (all, sent) = uneven(send_counts(operation, ranks), rank);
        return (all.saturating_mul(element), sent.saturating_mul(element));
    }
    even_sizes(operation, rank, ranks)
}

#[inline(always)]
fn even_sizes(operation: &Operation, rank: i32, ranks: i32) -> (u64, u64) {
    let bytes = (operation.count as u64).wrapping_mul(element_bytes(operation.datatype));
    let size = Size { kind: operation.kind, bytes, rank, ranks, peer: operation.peer };
    (size.logical(), size.sent())
}

/// 0 for a type that nobody knows. A table costs less than a decision.
#[inline(always)]
fn element_bytes(datatype: DataType) -> u64 {
    const BYTES: [u8; 13] = [1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 0];
    let place = usize::try_from(datatype.0).unwrap_or(12).min(12);
    u64::from(BYTES[place])
}

/// What the call sends to each rank, in elements.
fn send_counts(operation: &Operation, ranks: i32) -> &[usize] {
    let (counts, ranks) = (operation.send_counts, usize::try_from(ranks).unwrap_or(0));
    if counts.is_null() || ranks == 0 {
        return &[];
    }
    // SAFETY: one count for each rank, which the vendor has just read, in the call that is still under way.
    unsafe { std::slice::from_raw_parts(counts, ranks) }
}

/// Before the vendor is called with an operation outside any group.
#[inline(always)]
pub(crate) fn entering(thread: &Thread, known: Known, operation: &Operation, is_timed_elsewhere: bool) {
    let (bits, at) = (known.entry.slot(), thread.tally.arrived());
    if bits != 0 {
        inside::of(bits).enter(at);
        if !is_timed_elsewhere && device_time::is_due(bits as u8, at) {
            begin_sample(thread, bits, operation.stream, operation.count);
        }
    }
}

/// The same where nobody else times the call, and of an operation that is in registers.
#[inline(always)]
pub(crate) fn entering_with(thread: &Thread, known: Known, stream: Stream, count: usize) {
    let (bits, at) = (known.entry.slot(), thread.tally.arrived());
    if bits != 0 {
        inside::of(bits).enter(at);
        if device_time::is_due(bits as u8, at) {
            begin_sample(thread, bits, stream, count);
        }
    }
}

/// Behind either of them: the operation is no collective.
#[inline(always)]
pub(crate) fn entering_message(known: Known) {
    let bits = known.entry.slot();
    if bits != 0 {
        inside::of(bits).is_for_a_message();
    }
}

#[cold]
#[inline(never)]
fn begin_sample(thread: &Thread, bits: u64, stream: Stream, count: usize) {
    forget_sample(thread);
    // The vendor may refuse an empty call without a look at its stream.
    if count > 0 {
        thread.tally.sample.set(device_time::begin(bits, stream));
    }
}

/// The call that is being timed did not take effect.
pub(crate) fn forget_sample(thread: &Thread) {
    thread.tally.sample.take().into_iter().for_each(device_time::give_back);
}

/// Before the vendor is called to end a communicator, which may take as long as its peers do.
pub(crate) fn entering_end(thread: &Thread, known: Known) {
    if let Some(slot) = slot_of(known) {
        slot.enter_other(thread.tally.arrived());
    }
}

/// Behind it, whatever came of it.
pub(crate) fn left(known: Known) {
    if let Some(slot) = slot_of(known) {
        slot.leave();
    }
}

/// The vendor has accepted an operation outside any group.
#[inline(never)]
pub(crate) fn posted_alone(thread: &Thread, vendor: u8, operation: &Operation, known: Known) {
    if !posted_as_usual::<false>(thread, *operation, known) {
        posted(thread, vendor, operation, Some(known), NcclResult::SUCCESS);
    }
}

/// Counts the call, if it is one of those that are remembered and nobody else has its communicator's place. It is `PLAIN`
/// if the vendor's function is all there is to it.
#[inline(always)]
pub(crate) fn posted_as_usual<const PLAIN: bool>(
    thread: &Thread,
    operation: Operation,
    known: Known,
) -> bool {
    let (tally, bits) = (&thread.tally, known.entry.slot());
    if bits == 0 {
        // Without a file there is nothing to be done.
        return !is_on();
    }
    let is_usual =
        (PLAIN || tally.dry_run.get().is_none() && known.is_current()) && !is_captured(operation.stream);
    let Some(held) = (if is_usual { rhythm::take(bits) } else { None }) else { return false };
    let Some(Remembered { usual, key }) = held.shapes().look_up(sort(&operation), operation.count) else {
        return remember(held, operation, known);
    };
    let step = held.hear(*key, tally.arrived());
    let is_collective = is_collective(operation.kind);
    let (sequence, number) = usual.took_effect(is_collective, step, tally.arrived(), || tally.times());
    if operation.kind == Kind::AllReduce {
        let reason = if PLAIN { None } else { tally.reason.take() };
        if let Some(reason) = reason.or_else(|| known.entry.why_off()) {
            fell_back(reason);
        }
    }
    let Some(sample) = tally.sample.get() else {
        held.give_back();
        return true;
    };
    let shape = usual.shape(operation.kind);
    held.give_back();
    end_sample(thread, operation.stream, shape, sample, sequence, number);
    true
}

/// The next such call is remembered. This one is not counted yet.
#[inline(always)]
fn remember(held: Held<'_>, operation: Operation, known: Known) -> bool {
    let Operation { kind, comm, count, datatype, peer, stream, all_reduce, by_pointer, send_counts } =
        operation;
    let operation =
        Operation { kind, comm, count, datatype, peer, stream, all_reduce, by_pointer, send_counts };
    held.shapes().remember(&operation, known);
    held.give_back();
    false
}

#[inline(always)]
pub(crate) fn is_collective(kind: Kind) -> bool {
    (kind as u8) < Kind::Send as u8
}

#[cold]
fn fell_back(reason: Reason) {
    if let Some(writer) = writer() {
        writer.fallback(reason, 1);
    }
}

#[cold]
#[inline(never)]
fn end_sample(thread: &Thread, stream: Stream, shape: Shape, sample: Sample, sequence: u64, number: u64) {
    thread.tally.sample.set(None);
    device_time::end(sample, stream, About::of(shape, sequence, number));
}

/// The vendor has answered an operation, outside a group or in one that is open.
pub(crate) fn posted(
    thread: &Thread,
    vendor: u8,
    operation: &Operation,
    known: Option<Known>,
    result: NcclResult,
) {
    if let Some(writer) = writer() {
        posted_otherwise(writer, thread, vendor, operation, known, result);
    }
}

#[inline(never)]
fn posted_otherwise(
    writer: &Writer,
    thread: &Thread,
    vendor: u8,
    operation: &Operation,
    known: Option<Known>,
    result: NcclResult,
) {
    let tally = &thread.tally;
    let is_alone = thread.group_depth(vendor) == 0;
    if is_alone {
        known.into_iter().for_each(left);
    }
    let (sample, reason, dry_run) = (tally.sample.take(), tally.reason.take(), tally.dry_run.take());
    if !result.is_accepted() {
        return failed(writer, thread, operation, known, sample);
    }
    let call = Counted::of(operation, known, dry_run.map_or(Turn::Vendor, Turn::Trial), reason);
    if is_alone {
        settle_one(writer, thread, &call, sample);
    } else {
        let Counted { known, stream, reason, .. } = call;
        tally.keep(Pending { recipe: call.recipe(writer), known, stream, reason, vendor, calls: 1 });
    }
}

/// The vendor has accepted an operation into an open group.
#[inline]
pub(crate) fn posted_in_group(
    thread: &Thread,
    vendor: u8,
    operation: &Operation,
    known: Known,
    result: NcclResult,
) {
    let (tally, bits) = (&thread.tally, known.entry.slot());
    let is_usual = bits != 0
        && tally.dry_run.get().is_none()
        && tally.reason.get().is_none()
        && !is_captured(operation.stream);
    let held = if is_usual { rhythm::take(bits) } else { None };
    let recipe = held.and_then(|held| {
        let usual = held.shapes().look_up(sort(operation), operation.count).map(|it| it.usual);
        let usual = usual.or_else(|| held.shapes().remember(operation, known));
        held.give_back();
        Some(usual?.recipe(bits, operation.kind))
    });
    let Some(recipe) = recipe else {
        return posted(thread, vendor, operation, Some(known), result);
    };
    let reason = if operation.kind == Kind::AllReduce { known.entry.why_off() } else { None };
    let (known, stream) = (Some(known), operation.stream);
    tally.keep(Pending { recipe, known, stream, reason, vendor, calls: 1 });
}

fn settle_one(writer: &Writer, thread: &Thread, call: &Counted, sample: Option<Sample>) {
    let flags = if sample.is_some() { CallRecord::SAMPLED } else { 0 };
    let about = settle(writer, thread, call, flags);
    if let Some(sample) = sample {
        device_time::end(sample, call.stream, about);
    }
}

/// An operation outside any group was compressed.
pub(crate) fn compressed(thread: &Thread, operation: &Operation, known: Known, sent_bytes: u64) {
    let Some(writer) = writer() else { return };
    let sample = thread.tally.sample.take();
    let call = Counted::of(operation, Some(known), Turn::Compressed(sent_bytes), None);
    settle_one(writer, thread, &call, sample);
}

/// A call that was kept back until the end of its group has taken effect.
pub(crate) fn held_took_effect(
    operation: &Operation,
    known: Option<Known>,
    turn: Turn,
    reason: Option<Reason>,
) {
    let Some(writer) = writer() else { return };
    let call = Counted::of(operation, known, turn, reason);
    thread::with(|thread| {
        let about = settle(writer, thread, &call, CallRecord::GROUP);
        // What the fast path does is timed by the tuner.
        let alone = about.alone && turn == Turn::Vendor;
        lies_before_samples(thread, known, About { alone, ..about });
    });
}

/// One call has taken effect; what a sample behind it is about.
fn settle(writer: &Writer, thread: &Thread, call: &Counted, flags: u8) -> About {
    let Counted { known, stream, reason, .. } = *call;
    let recipe = call.recipe(writer);
    let about =
        settle_calls(writer, thread, &Pending { recipe, known, stream, reason, vendor: 0, calls: 1 }, flags);
    if call.shape.path != Path::Vendor {
        tell_slot(call, 1);
    }
    about
}

/// Equal calls have taken effect; what a sample behind the last of them is about.
#[inline]
pub(super) fn settle_calls(writer: &Writer, thread: &Thread, pending: &Pending, flags: u8) -> About {
    let (arrived, times) = (thread.tally.arrived(), thread.tally.times());
    let mut last = (0, 0);
    if rhythm::effects().any() {
        last = settle_in_rhythm(pending, flags, arrived, times);
    } else {
        for _ in 0..pending.calls {
            last = pending.recipe.took_effect(flags, arrived, times);
        }
    }
    if let Some(reason) = pending.reason {
        writer.fallback(reason, u64::from(pending.calls));
    }
    About { alone: pending.calls == 1, ..About::of(pending.recipe.shape(), last.0, last.1) }
}

/// Apart, for the same reason.
#[inline(never)]
fn settle_in_rhythm(pending: &Pending, flags: u8, arrived: Ticks, times: Times) -> (u64, u64) {
    let mut last = (0, 0);
    for _ in 0..pending.calls {
        let step = hear(pending, arrived);
        last = pending.recipe.took_effect_in(step, flags, arrived, times);
    }
    last
}

/// Tells the communicator's rhythm; the step that the call is in.
#[inline]
fn hear(pending: &Pending, arrived: Ticks) -> u32 {
    let Some(known) = pending.known else { return 0 };
    let Shape { kind, path, datatype, logical, .. } = pending.recipe.shape();
    match path {
        Path::VendorCaptured | Path::CompressedCaptured => 0,
        _ if !known.is_current() => 0,
        _ => rhythm::hear(known.entry.slot(), Key::new(kind as u8, datatype.0, logical), arrived),
    }
}

fn tell_slot(call: &Counted, calls: u64) {
    let Some(slot) = call.known.and_then(slot_of) else { return };
    match call.shape.path {
        Path::Compressed | Path::CompressedCaptured => slot.compressed(calls),
        Path::Trial => slot.trials(calls),
        Path::Vendor | Path::VendorCaptured => {}
    }
}

#[cold]
fn failed(
    writer: &Writer,
    thread: &Thread,
    operation: &Operation,
    known: Option<Known>,
    sample: Option<Sample>,
) {
    sample.into_iter().for_each(device_time::give_back);
    // Nothing that the call points to is looked at: the vendor may have refused it for that.
    writer.call(&CallRecord {
        slot: known.and_then(slot_of).map_or(CallRecord::NO_SLOT, Slot::index),
        kind: operation.kind,
        path: Path::Vendor,
        datatype: Datatype::of(operation.datatype.0),
        flags: CallRecord::ERROR,
        count: operation.count as u64,
        sequence: 0,
        step: 0,
        entered: thread.tally.arrived(),
        vendor_ticks: 0,
        hook_ticks: 0,
        device_ns: 0,
    });
}
