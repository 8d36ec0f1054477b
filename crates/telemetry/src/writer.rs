//! The writer's side: stores into the mapped file. Wait-free, no system call, no allocation, no panic; callable
//! from any thread. Called by the interposer alone.

use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::guarded;
use crate::layout::{
    CALLS, DECISION_TEXT_WORDS, DECISIONS, EVENT_TEXT_WORDS, EVENT_WORDS, EVENTS, PATHS, RESULTS, Region,
};
use crate::process::{self, Epoch};
use crate::sizes::{SIZE_CLASSES, duration_bucket, size_class};
use crate::text::{pack, put_text};
use crate::{CallRecord, CommunicatorFacts, Datatype, EventKind, Kind, Path, Reason, Slot, State, now};

/// This process's telemetry file. It stays mapped until the process ends.
#[derive(Clone, Copy)]
pub struct Writer {
    region: &'static Region,
    epoch: Epoch,
}

impl Writer {
    pub(crate) fn new(region: &'static Region) -> Self {
        Self { region, epoch: process::epoch() }
    }

    /// Nothing in a forked child: the file is its parent's.
    #[inline]
    pub(crate) fn region(self) -> Option<&'static Region> {
        // As a branch: what follows needs the region at once.
        if process::epoch() != self.epoch {
            return None;
        }
        Some(self.region)
    }

    /// For callers that have forgotten the writer in a forked child.
    #[inline(always)]
    pub(crate) fn region_of_this_process(&self) -> &'static Region {
        self.region
    }

    /// Cut at 64 bytes.
    pub fn set_vendor(self, name: &str) {
        let Some(region) = self.region() else { return };
        let vendor = &region.process.vendor;
        let mut words = [0; 9];
        put_text(&mut words, name);
        guarded::replace(&vendor.version, &vendor.words, &words);
    }

    pub fn set_state(self, state: State) {
        let Some(region) = self.region() else { return };
        region.process.state.store(state as u64, Relaxed);
    }

    /// For tests and made-up jobs; the library has a `Recipe`. `calls` equal calls that took effect, with the bytes of all
    /// of them together; the size class is that of one.
    #[inline]
    pub fn count(
        self,
        kind: Kind,
        path: Path,
        datatype: Datatype,
        calls: u64,
        logical: u64,
        wire: u64,
        would: u64,
    ) {
        let Some(region) = self.region() else { return };
        if calls == 0 {
            return;
        }
        let each = if calls == 1 { logical } else { logical / calls };
        let by_path = used(region, kind, path);
        let cell = &by_path.counts[datatype.place()];
        cell.calls.fetch_add(calls, Relaxed);
        add(&cell.logical, logical);
        add(&cell.wire, wire);
        add(&cell.would_wire, would);
        by_path.sizes[usize::from(size_class(each)) % SIZE_CLASSES].fetch_add(calls, Relaxed);
    }

    /// Device time of a sampled call.
    pub fn duration(self, kind: Kind, path: Path, size_class: u8, ns: u64) {
        let Some(region) = self.region() else { return };
        let class = usize::from(size_class).min(SIZE_CLASSES - 1);
        let cell = &used(region, kind, path).durations[class];
        cell.sum_ns.fetch_add(ns, Relaxed);
        cell.buckets[duration_bucket(ns)].fetch_add(1, Relaxed);
    }

    #[inline]
    pub fn fallback(self, reason: Reason, calls: u64) {
        let Some(region) = self.region() else { return };
        region.process.fallbacks[reason as usize].fetch_add(calls, Relaxed);
    }

    /// A call returned an error.
    pub fn error(self, result: i32) {
        let Some(region) = self.region() else { return };
        let place = usize::try_from(result).unwrap_or(RESULTS).min(RESULTS - 1);
        region.process.errors[place].fetch_add(1, Relaxed);
    }

    /// Sets what the first kernel after a gap takes without and with ghost kernels in the gap.
    pub fn ghosts_measured(self, without_ns: u64, with_ns: u64) {
        let Some(region) = self.region() else { return };
        region.process.first_without_ghosts.store(without_ns, Relaxed);
        region.process.first_with_ghosts.store(with_ns, Relaxed);
    }

    /// A free slot, or the one that ended longest ago. `None` if all are in use: counted as untracked.
    pub fn open(self, facts: &CommunicatorFacts) -> Option<Slot> {
        let slot = Slot::open(self, facts);
        if let (None, Some(region)) = (slot, self.region()) {
            region.process.untracked.fetch_add(1, Relaxed);
        }
        slot
    }

    /// `text` is cut at 160 bytes.
    pub fn event(self, kind: EventKind, slot: Option<Slot>, a: u64, b: u64, text: &str) {
        self.event_in_step(kind, slot, 0, [a, b, 0], text);
    }

    /// An event that belongs to a step of its communicator's rhythm; `words` are a, b and about.
    pub fn event_in_step(self, kind: EventKind, slot: Option<Slot>, step: u64, words: [u64; 3], text: &str) {
        let Some(region) = self.region() else { return };
        let at = now().0;
        let [a, b, about] = words;
        let mut words = [0; EVENT_WORDS];
        let (text_words, length) = pack::<EVENT_TEXT_WORDS>(text);
        let slot = slot.map_or(CallRecord::NO_SLOT, Slot::index);
        words[0] = kind as u64 | u64::from(slot) << 8 | length << 32;
        words[1..4].copy_from_slice(&[at, a, b]);
        words[4..EVENT_WORDS - 2].copy_from_slice(&text_words);
        words[EVENT_WORDS - 2..].copy_from_slice(&[step, about]);
        let position = region.process.events.written.fetch_add(1, Relaxed);
        let cell = &region.events[position as usize % EVENTS];
        region.process.active.store(at, Relaxed);
        region.note(guarded::put(&cell.version, position, &cell.words, &words));
    }

    /// A `policy::explain::Record` as JSON of at most 1,000 bytes; a longer one is dropped and counted.
    pub fn decision(self, json: &str) {
        let Some(region) = self.region() else { return };
        if json.len() > DECISION_TEXT_WORDS * 8 {
            region.note(false);
            return;
        }
        let mut words = [0; 2 + DECISION_TEXT_WORDS];
        let (text_words, length) = pack::<DECISION_TEXT_WORDS>(json);
        words[..2].copy_from_slice(&[now().0, length]);
        words[2..].copy_from_slice(&text_words);
        let position = region.process.decisions.written.fetch_add(1, Relaxed);
        let cell = &region.decisions[position as usize % DECISIONS];
        region.note(guarded::put(&cell.version, position, &cell.words, &words));
    }

    /// The number of the record, for `device_time`.
    #[inline]
    pub fn call(self, record: &CallRecord) -> u64 {
        let Some(region) = self.region() else { return u64::MAX };
        let halves = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
        let bytes =
            [record.slot, record.kind as u8, record.path as u8, record.datatype.0, record.flags, 0, 0, 0];
        let words = [
            u64::from_le_bytes(bytes),
            record.count,
            record.sequence,
            record.entered.0,
            halves(record.step, record.device_ns),
            halves(record.vendor_ticks, record.hook_ticks),
        ];
        let position = region.process.calls.written.fetch_add(1, Relaxed);
        let cell = &region.calls[position as usize % CALLS];
        region.process.active.store(record.entered.0, Relaxed);
        region.note(guarded::put(&cell.version, position, &cell.words, &words));
        position
    }

    /// Fills in the device time of a call, if its record is still there.
    pub fn device_time(self, number: u64, ns: u64) {
        let Some(region) = self.region() else { return };
        if number >= region.process.calls.written.load(Relaxed) {
            return;
        }
        let cell = &region.calls[number as usize % CALLS];
        let ns = ns.min(u64::from(u32::MAX));
        guarded::amend(&cell.version, number, &cell.words[HALVES], |word| {
            word & u64::from(u32::MAX) | ns << 32
        });
    }

    /// What `Slot::bits` was called on.
    #[inline]
    pub fn slot(self, bits: u64) -> Option<Slot> {
        Slot::from_bits(self, bits)
    }
}

impl Region {
    #[inline]
    fn note(&self, was_put: bool) {
        if !was_put {
            self.process.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// The word of a call's record that holds its step and its device time.
const HALVES: usize = 4;

#[inline]
fn used(region: &'static Region, kind: Kind, path: Path) -> &'static crate::layout::ByPath {
    let bit = 1 << (kind as usize * PATHS + path as usize);
    if region.process.used.load(Relaxed) & bit == 0 {
        region.process.used.fetch_or(bit, Relaxed);
    }
    &region.by_kind[kind as usize][path as usize]
}

/// An atomic addition costs more than to see that there is nothing to add.
#[inline]
pub(crate) fn add(cell: &AtomicU64, value: u64) {
    if value != 0 {
        cell.fetch_add(value, Relaxed);
    }
}
