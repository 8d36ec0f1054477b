//! The outermost end of a group: its communicators are inside the vendor while it lasts, some of them are timed, and
//! its calls are counted if it took effect.

use super::counting::settle_calls;
use super::device_time::{self, About, Sample};
use super::tally::Pending;
use super::{inside, slot_of, writer};
use crate::communicators::Known;
use crate::thread::Thread;
use airamp_telemetry::CallRecord;
use airamp_vendor_abi::nccl::Stream;

/// Communicators of one group that are timed at most.
pub(super) const MOST_SAMPLES: usize = 4;

/// Of a communicator in a group.
#[derive(Clone, Copy)]
pub(super) struct GroupSample {
    known: Known,
    sample: Sample,
    stream: Stream,
    /// What is behind it, once that has taken effect.
    about: Option<About>,
}

/// Before the vendor's function.
#[inline]
pub(crate) fn begin_end(thread: &Thread, vendor: u8) {
    if !thread.tally.holds_any() {
        return;
    }
    let at = thread.tally.arrived();
    thread.tally.each(vendor, |Pending { known, stream, recipe, .. }| {
        let Some(known) = *known else { return };
        let bits = known.entry.slot();
        if bits == 0 || !known.is_current() {
            return;
        }
        inside::of(bits).enter_group(recipe.is_collective(), at);
        if device_time::is_due(bits as u8, at) {
            begin_sample(thread, known, *stream);
        }
    });
}

#[cold]
fn begin_sample(thread: &Thread, known: Known, stream: Stream) {
    if thread.tally.has_room_for_sample()
        && let Some(sample) = device_time::begin(known.entry.slot(), stream)
    {
        thread.tally.keep_sample(GroupSample { known, sample, stream, about: None });
    }
}

/// Calls of a group on one communicator, one behind the other.
pub(crate) struct Run {
    pub(crate) known: Known,
    /// Of the first.
    pub(crate) stream: Stream,
    pub(crate) has_collectives: bool,
}

/// Before a group whose calls were kept back is carried out.
pub(crate) fn entering_held(thread: &Thread, runs: impl Iterator<Item = Run>) {
    for Run { known, stream, has_collectives } in runs {
        let Some(slot) = slot_of(known) else { continue };
        let at = thread.tally.arrived();
        if has_collectives {
            slot.enter(at);
        } else {
            slot.enter_other(at);
        }
        if device_time::is_due(slot.index(), at) {
            begin_sample(thread, known, stream);
        }
    }
}

/// Behind it, whatever came of it.
pub(crate) fn left_held(thread: &Thread, runs: impl Iterator<Item = Run>) {
    runs.for_each(|run| super::left(run.known));
    end_samples(thread);
}

/// All of the group took effect, or none.
#[inline]
pub(crate) fn settle_group(thread: &Thread, vendor: u8, took_effect: bool) {
    if !thread.tally.holds_any() {
        return;
    }
    match writer() {
        Some(writer) if took_effect => thread.tally.take(vendor, |pending| {
            let about = settle_calls(writer, thread, pending, CallRecord::GROUP);
            lies_before_samples(thread, pending.known, about);
        }),
        _ => thread.tally.take(vendor, |pending| pending.known.into_iter().for_each(super::left)),
    }
    end_samples(thread);
}

/// Calls of a group have taken effect, of which a sample may be under way.
#[inline]
pub(super) fn lies_before_samples(thread: &Thread, known: Option<Known>, about: About) {
    thread.tally.each_sample(|sample| {
        if Some(sample.known) == known {
            let alone = about.alone && sample.about.is_none();
            sample.about = Some(About { alone, ..about });
        }
    });
}

#[inline]
fn end_samples(thread: &Thread) {
    thread.tally.take_samples(|GroupSample { sample, stream, about, .. }| match about {
        Some(about) => device_time::end(sample, stream, about),
        None => device_time::give_back(sample),
    });
}
