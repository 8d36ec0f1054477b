//! What the calls of a communicator tell the leader: that a class is in use, how long trials and now and
//! then other calls took, that a call went into a graph. Nothing on the wire depends on it: what cannot be measured or told is
//! left out. No allocation; a lock only while something is measured.

use super::active::{FastCall, Standing};
use super::unsuited::Unsuited;
use crate::calls::Operation;
use crate::communicators::Known;
use crate::telemetry;
use airamp_control::Seat;
use airamp_fast_path::{Finished, Lane, MEASUREMENTS, Plan, UNMEASURED};
use airamp_policy::{Class, LONGEST_REPORT, PLACES, Report, ReportKind};
use airamp_telemetry::{CodecCounters, Path};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of 2 to this power calls one is timed.
const WATCHED_BITS: u32 = 6;

const _: () = assert!(PLACES <= u64::BITS as usize);

pub(super) struct Measuring {
    seat: Seat,
    known: Known,
    /// What telemetry was told of the device's counters: saturated elements, non-finite blocks, foreign packets.
    told: [AtomicU64; 3],
    /// What each measurement that is under way is about.
    subjects: Mutex<[Option<Subject>; MEASUREMENTS]>,
    under_way: AtomicU32,
    /// By `Class::place`: of which it was told that they are in use, and that a graph holds a call of the
    /// vendor's or a compressed one.
    seen: AtomicU64,
    captured: [AtomicU64; 2],
    unsuited: Unsuited,
}

#[derive(Clone, Copy)]
enum Subject {
    Trial(Tried),
    Watch { place: u8, index: u64, compressed: bool, count: u64, bytes: u64, dry_runs: u64 },
}

#[derive(Clone, Copy)]
struct Tried {
    place: u8,
    index: u64,
    iteration: u8,
    variant: u8,
    count: u64,
    bytes: u64,
}

/// A call of a class that may be timed.
#[derive(Clone, Copy)]
pub(super) struct Watched {
    pub(super) class: Class,
    pub(super) index: u64,
    pub(super) compressed: bool,
    /// Dry runs of the communicator before it.
    pub(super) dry_runs: u64,
}

impl Measuring {
    pub(super) fn new(seat: Seat, known: Known) -> Self {
        Self {
            seat,
            known,
            told: [const { AtomicU64::new(0) }; 3],
            subjects: Mutex::new([None; MEASUREMENTS]),
            under_way: AtomicU32::new(0),
            seen: AtomicU64::new(0),
            captured: [const { AtomicU64::new(0) }; 2],
            unsuited: Unsuited::new(),
        }
    }

    /// Tells of the class's first call.
    pub(super) fn see(&self, class: Class) {
        if set(&self.seen, class) {
            self.report(class.place(), ReportKind::Seen);
        }
    }

    /// Tells of a call that a graph will repeat, whatever is agreed later.
    pub(super) fn tell_captured(&self, class: Class, compressed: bool) {
        if set(self.captured(compressed), class) {
            self.report(class.place(), ReportKind::Captured { compressed });
        }
    }

    fn captured(&self, compressed: bool) -> &AtomicU64 {
        &self.captured[usize::from(compressed)]
    }

    /// Tells that the variant of a round of trials does not suit.
    pub(super) fn tell_unsuitable(&self, class: Class, (variant, round): (u8, u8), standing: Standing) {
        if self.unsuited.is_to_be_told(class, (variant, round), standing) {
            self.report(class.place(), ReportKind::Unsuitable { variant });
        }
    }

    /// Tells which variant fits the step's calls of the class: how many they are, and the elements of the largest.
    pub(super) fn tell_fits(&self, class: Class, variant: u8, (calls, largest): (u32, u64)) {
        self.report(class.place(), ReportKind::Fits { variant, calls, largest });
    }

    pub(super) fn is_leaders(&self) -> bool {
        self.known.entry.rank() == 0
    }

    /// The communicator's slot in the telemetry file; 0: none.
    pub(super) fn slot(&self) -> u64 {
        self.known.entry.slot()
    }

    /// Begins to time a live call; `None` if it cannot be.
    pub(super) fn start_watch(&self, lane: &Lane, watched: Watched, operation: &Operation) -> Option<usize> {
        let measurement = lane.take_measurement()?;
        if lane.start_watch(measurement, operation.stream).is_err() {
            lane.drop_measurement(measurement);
            return None;
        }
        let Watched { class, index, compressed, dry_runs } = watched;
        let (place, count) = (class.place() as u8, operation.count as u64);
        let bytes = bytes_of(operation);
        self.begin(measurement, Subject::Watch { place, index, compressed, count, bytes, dry_runs });
        Some(measurement)
    }

    /// Ends it behind the call, which was accepted or not.
    pub(super) fn end_watch(&self, lane: &Lane, measurement: usize, operation: &Operation, accepted: bool) {
        if !accepted || lane.end_watch(measurement, operation.stream).is_err() {
            self.finish(measurement);
            lane.drop_measurement(measurement);
        }
    }

    /// Ends a trial behind the vendor's call. One that was not measured is told of at once.
    pub(super) fn end_trial(&self, lane: &Lane, measurement: usize, fast: &FastCall, operation: &Operation) {
        let tried = Tried {
            place: fast.class.place() as u8,
            index: fast.index,
            iteration: fast.trial.unwrap_or(0),
            variant: fast.variant,
            count: operation.count as u64,
            bytes: bytes_of(operation),
        };
        if measurement == UNMEASURED {
            return self.report_unmeasured(tried);
        }
        self.begin(measurement, Subject::Trial(tried));
        let call = fast.call(operation);
        // SAFETY: the application's own buffers and stream, with which the vendor has just accepted the call.
        if unsafe { lane.end_trial(measurement, &call, operation.count, operation.stream) }.is_err() {
            self.finish(measurement);
            lane.drop_measurement(measurement);
            self.report_unmeasured(tried);
        }
    }

    /// Tells of one measurement that has come to its end, if there is one. So many dry runs have been posted.
    pub(super) fn poll(&self, lane: &Lane, posted: u64) {
        if self.under_way.load(Ordering::Relaxed) == 0 {
            return;
        }
        match lane.finished() {
            None => {}
            Some(Finished::Trial { place, ours_us, vendor_us, squared_error, signal }) => {
                if let Some(Subject::Trial(tried)) = self.finish(place) {
                    let Tried { place, index, iteration, variant, count, bytes } = tried;
                    telemetry::timed(Path::Trial, bytes, ours_us + vendor_us);
                    self.tell_accuracy(squared_error, signal);
                    self.tell_counters(lane);
                    let measured = true;
                    let kind = ReportKind::Trial {
                        index,
                        iteration,
                        variant,
                        count,
                        ours_us,
                        vendor_us,
                        squared_error,
                        signal,
                        measured,
                    };
                    self.report(usize::from(place), kind);
                }
            }
            Some(Finished::Watch { place, us }) => {
                if let Some(Subject::Watch { place, index, compressed, count, bytes, dry_runs }) =
                    self.finish(place)
                {
                    telemetry::timed(if compressed { Path::Compressed } else { Path::Vendor }, bytes, us);
                    self.tell_counters(lane);
                    self.report(usize::from(place), ReportKind::Watch { index, compressed, count, us });
                    // The device has passed all dry runs before the call, and perhaps those behind it.
                    if dry_runs == posted {
                        self.report_counters(lane, usize::from(place), dry_runs);
                    }
                }
            }
        }
    }

    fn tell_accuracy(&self, squared_error: f64, signal: f64) {
        if let Some(slot) = telemetry::slot_of(self.known).filter(|_| signal > 0.0) {
            slot.accuracy(squared_error / signal);
        }
    }

    /// Tells telemetry what the codec has to do for a call that was enqueued, and about how long that takes.
    pub(super) fn tell_codec(&self, ns: u64, bytes: u64, plan: &Plan) {
        let Some(slot) = telemetry::slot_of(self.known) else { return };
        let blocks = plan.blocks(self.known.entry.rank().unsigned_abs() as usize) as u64;
        slot.codec_time(ns, bytes);
        slot.codec(CodecCounters { blocks, ..CodecCounters::default() });
    }

    /// Tells telemetry what the device has counted since it was told last.
    pub(super) fn tell_counters(&self, lane: &Lane) {
        let Some(slot) = telemetry::slot_of(self.known) else { return };
        let stats = lane.stats();
        let now = [stats.saturated, stats.non_finite_blocks, stats.foreign];
        let since = |at: usize| now[at].saturating_sub(self.told[at].swap(now[at], Ordering::Relaxed));
        let (saturated, nonfinite, foreign) = (since(0), since(1), since(2));
        slot.codec(CodecCounters { saturated, nonfinite, foreign, ..CodecCounters::default() });
    }

    fn report_unmeasured(&self, tried: Tried) {
        let Tried { place, index, iteration, variant, count, .. } = tried;
        let kind = ReportKind::Trial {
            index,
            iteration,
            variant,
            count,
            ours_us: 0.0,
            vendor_us: 0.0,
            squared_error: 0.0,
            signal: 0.0,
            measured: false,
        };
        self.report(usize::from(place), kind);
    }

    fn report_counters(&self, lane: &Lane, place: usize, dry_runs: u64) {
        let stats = lane.stats();
        let kind = ReportKind::Counters {
            squared_error: stats.squared_error,
            signal: stats.signal,
            saturated: stats.saturated,
            non_finite_blocks: stats.non_finite_blocks,
            foreign: stats.foreign,
            dry_runs,
        };
        self.report(place, kind);
    }

    fn report(&self, place: usize, kind: ReportKind) {
        const { assert!(LONGEST_REPORT <= Seat::REPORT_ROOM) };
        let mut buffer = [0; LONGEST_REPORT];
        if let Ok(report) = postcard::to_slice(&Report { place: place as u8, kind }, &mut buffer) {
            self.seat.report(report);
        }
    }

    fn begin(&self, measurement: usize, subject: Subject) {
        let mut subjects = self.subjects();
        if subjects.get_mut(measurement).is_some_and(|place| place.replace(subject).is_none()) {
            self.under_way.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn finish(&self, measurement: usize) -> Option<Subject> {
        let subject = self.subjects().get_mut(measurement)?.take()?;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        Some(subject)
    }

    fn subjects(&self) -> MutexGuard<'_, [Option<Subject>; MEASUREMENTS]> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the call with that index is one of those that are timed. All ranks time the same ones, since only
/// the last to arrive knows what a call takes; spread so that no rhythm of the calls misses them.
pub(super) fn is_due(index: u64) -> bool {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - WATCHED_BITS) == 1
}

fn bytes_of(operation: &Operation) -> u64 {
    (operation.count as u64).saturating_mul(operation.datatype.size().unwrap_or(0) as u64)
}

fn bit(class: Class) -> u64 {
    1 << class.place()
}

/// Marks the class; whether it was not marked before.
fn set(marks: &AtomicU64, class: Class) -> bool {
    marks.load(Ordering::Relaxed) & bit(class) == 0
        && marks.fetch_or(bit(class), Ordering::Relaxed) & bit(class) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_calls_of_any_rhythm_about_one_in_64_is_timed() {
        for step in [1, 2, 3, 8, 48, 64, 100] {
            for first in 0..3 {
                let timed = (0..6400).filter(|call| is_due(first + call * step)).count();
                assert!((80..=120).contains(&timed), "{timed} of 6400 at every {step}th index from {first}");
            }
        }
    }
}
