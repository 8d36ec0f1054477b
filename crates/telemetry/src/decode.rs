//! Makes a snapshot of a file's copies. What does not make sense is left out and counted as torn.

use std::fs::File;

use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::clock::Line;
use crate::copy::{Three, items};
use crate::header::Header;
use crate::layout::{self, ARRIVALS, BY_KIND, COMMUNICATORS, MILESTONE, PATHS, PROCESS};
use crate::sizes::HOOK_BUCKETS;
use crate::snapshot::{Arrival, Communicator, Count, Durations, Hook, Pattern, Sizes, Snapshot, Spent, Sums};
use crate::text::unpack;
use crate::{
    AgreementState, CodecCounters, CommunicatorFacts, Datatype, Ended, Kind, Path, PatternState, Reason,
    State, Unreadable, liveness,
};

pub(crate) fn snapshot(file: &File, header: &Header) -> Result<Snapshot, Unreadable> {
    let processes = Three::<layout::Process>::read(file, PROCESS, 0, 1)?;
    let process = processes.get(0).ok_or(Unreadable::Truncated)?;
    let by_path = used(file, process)?;
    let slots = word(&process.slots).min(COMMUNICATORS.count);
    let places = Three::<layout::Communicator>::read(file, COMMUNICATORS, 0, slots)?;
    // Taken after the copies: whatever they hold lies in the past.
    let line = Line::until_now(header.anchor, header.clock);
    let vendor =
        processes.whole(0, |process| &process.vendor.version).map(|_| text_of(&process.vendor.words));
    let communicators: Vec<_> = (0..places.len()).map(|place| communicator(&places, place, &line)).collect();
    let torn = communicators.iter().filter(|one| matches!(one, Slot::Torn)).count() as u64;
    let mut identity = header.identity.clone();
    identity.vendor = vendor.unwrap_or_default();
    Ok(Snapshot {
        pid: header.owner.pid,
        pid_is_ours: liveness::is_here(&header.owner),
        uid: header.owner.uid,
        identity,
        state: State::from_number(word(&process.state)).ok_or(Unreadable::Damaged)?,
        started_ns: line.moment_ns(header.anchor.ticks),
        started_unix_ms: header.unix_ns / 1_000_000,
        taken_ns: line.now_ns(),
        active_ns: line.moment_ns(word(&process.active)),
        counts: by_path.iter().flat_map(counts).collect(),
        sizes: by_path.iter().filter_map(sizes).collect(),
        durations: by_path.iter().flat_map(durations).collect(),
        hook: hook(&process.hook, &line),
        in_vendor: Spent {
            calls: word(&process.in_vendor.calls),
            ns: line.span_ns(word(&process.in_vendor.ticks)),
        },
        fallbacks: not_zero(Reason::ALL.iter().copied().zip(process.fallbacks.iter())),
        errors: not_zero((0..layout::RESULTS as i32 - 1).chain([-1]).zip(process.errors.iter())),
        untracked: word(&process.untracked),
        sums: sums(&process.sums),
        ghosts_measured: ghosts_measured(process),
        communicators: communicators.into_iter().filter_map(Slot::taken).collect(),
        calls_written: word(&process.calls.written),
        events_written: word(&process.events.written),
        decisions_written: word(&process.decisions.written),
        dropped: word(&process.dropped),
        torn,
    })
}

type ByPath = (Kind, Path, layout::ByPath);

/// Only what is marked as used is copied at all: most kinds and paths never occur.
fn used(file: &File, process: &layout::Process) -> Result<Vec<ByPath>, Unreadable> {
    let used = word(&process.used);
    let all = Kind::ALL.iter().flat_map(|kind| Path::ALL.iter().map(move |path| (*kind, *path)));
    let mut found = Vec::new();
    for (place, (kind, path)) in all.enumerate().filter(|(place, _)| used >> place & 1 == 1) {
        debug_assert_eq!(place, kind as usize * PATHS + path as usize);
        let one = items::<layout::ByPath>(file, BY_KIND, place as u64, 1)?.pop();
        found.extend(one.map(|one| (kind, path, one)));
    }
    Ok(found)
}

fn counts((kind, path, by_path): &ByPath) -> impl Iterator<Item = Count> {
    Datatype::all().zip(&by_path.counts).filter_map(|(datatype, cell)| {
        let calls = word(&cell.calls);
        let count = Count {
            kind: *kind,
            path: *path,
            datatype,
            calls,
            logical_bytes: word(&cell.logical),
            wire_bytes: word(&cell.wire),
            would_wire_bytes: word(&cell.would_wire),
        };
        (calls != 0).then_some(count)
    })
}

fn sizes((kind, path, by_path): &ByPath) -> Option<Sizes> {
    let calls = words(&by_path.sizes);
    calls.iter().any(|calls| *calls != 0).then_some(Sizes { kind: *kind, path: *path, calls })
}

fn durations((kind, path, by_path): &ByPath) -> impl Iterator<Item = Durations> {
    (0..).zip(&by_path.durations).filter_map(|(size_class, cell)| {
        let buckets = words(&cell.buckets);
        let samples = total(&buckets);
        let sum_ns = word(&cell.sum_ns);
        (samples != 0).then_some(Durations { kind: *kind, path: *path, size_class, samples, sum_ns, buckets })
    })
}

fn hook(hook: &layout::Hook, line: &Line) -> Hook {
    let buckets = words(&hook.buckets);
    let spent = Spent { calls: total(&buckets), ns: line.span_ns(word(&hook.ticks)) };
    let bounds_ns =
        std::array::from_fn::<_, { HOOK_BUCKETS - 1 }, _>(|bucket| line.span_ns((1 << bucket) - 1));
    Hook { spent, buckets, bounds_ns }
}

fn sums(sums: &layout::Sums) -> Sums {
    Sums {
        codec: CodecCounters {
            saturated: word(&sums.saturated),
            nonfinite: word(&sums.nonfinite),
            foreign: word(&sums.foreign),
            blocks: word(&sums.blocks),
        },
        codec_ns: word(&sums.codec_ns),
        codec_bytes: word(&sums.codec_bytes),
        compressed_calls: word(&sums.compressed),
        trial_calls: word(&sums.trials),
        ghosts: word(&sums.ghosts),
        deviations: words(&sums.deviations),
        pace_changes: word(&sums.pace_changes),
    }
}

/// Two words that stand alone: both or neither.
fn ghosts_measured(process: &layout::Process) -> Option<(u64, u64)> {
    let (without, with) = (word(&process.first_without_ghosts), word(&process.first_with_ghosts));
    (without != 0 && with != 0).then_some((without, with))
}

enum Slot {
    Free,
    Torn,
    Taken(Box<Communicator>),
}

impl Slot {
    fn taken(self) -> Option<Communicator> {
        if let Self::Taken(communicator) = self { Some(*communicator) } else { None }
    }
}

fn communicator(places: &Three<layout::Communicator>, place: usize, line: &Line) -> Slot {
    let Some((cell, generation)) = places.whole(place, |cell| &cell.generation) else { return Slot::Torn };
    if generation == 0 {
        return Slot::Free;
    }
    let agreement = places.whole(place, |cell| &cell.agreement.version).map(|_| words(&cell.agreement.words));
    let plan = places.whole(place, |cell| &cell.plan.version).map(|_| words(&cell.plan.words));
    let pattern = places.whole(place, |cell| &cell.pattern.version).map(|_| words(&cell.pattern.words));
    let [state, length, reason @ ..] = agreement.unwrap_or_default();
    let [plan_from, plan @ ..] = plan.unwrap_or_default();
    let (facts, opened) = facts(&cell.facts);
    let (issuing, completing) = (&cell.issuing, &cell.completing);
    let issued = word(&issuing.issued);
    // Read before `inside`, since it is cleared behind it.
    let inside_other = word(&issuing.inside_other) != 0;
    let vnmse = f64::from_bits(!word(&issuing.vnmse));
    Slot::Taken(Box::new(Communicator {
        slot: place as u8,
        generation,
        facts,
        opened_ns: line.moment_ns(opened),
        ended: word(&cell.ended).checked_sub(1).and_then(Ended::from_number),
        ended_ns: line.moment_ns(word(&cell.ended_at)),
        poisoned: word(&cell.poisoned) as u32 as i32,
        issued,
        issued_ns: line.moment_ns(word(&issuing.issued_at)),
        completed: word(&completing.completed),
        completed_ns: line.moment_ns(word(&completing.completed_at)),
        pending: word(&completing.pending),
        pending_ns: line.moment_ns(word(&completing.pending_at)),
        polled_ns: line.moment_ns(word(&completing.polled_at)),
        inside: u32::try_from(word(&issuing.inside)).unwrap_or(0),
        inside_since_ns: line.moment_ns(word(&issuing.inside_since)),
        inside_other,
        agreement: AgreementState::from_number(state).unwrap_or(AgreementState::NotSought),
        agreement_reason: unpack(reason.into_iter(), length),
        plan_from,
        plan: plan_bytes(plan),
        all_reduces: word(&issuing.all_reduces),
        arena_bytes: word(&issuing.arena),
        sums: sums(&cell.sums),
        vnmse: vnmse.is_finite().then_some(vnmse),
        pattern: pattern_of(pattern.unwrap_or_default()),
        arrivals: arrivals(&cell.arrivals, issued, 1, line),
        milestones: arrivals(&cell.milestones, issued, MILESTONE, line),
    }))
}

/// And when the communicator was made.
fn facts(cell: &[AtomicU64; layout::FACT_WORDS]) -> (CommunicatorFacts, u64) {
    let [name, parent, ranks, device, uuid_low, uuid_high, nic_low, nic_high, opened] = words(cell);
    let (low, high) = (|word: u64| word as u32 as i32, |word: u64| (word >> 32) as u32 as i32);
    let sixteen = |low: u64, high: u64| (u128::from(low) | u128::from(high) << 64).to_le_bytes();
    let [_, _, _, _, origin, vendor_index, ..] = device.to_le_bytes();
    let facts = CommunicatorFacts {
        name,
        parent,
        rank: low(ranks),
        ranks: high(ranks),
        device: low(device),
        device_uuid: sixteen(uuid_low, uuid_high),
        nic: sixteen(nic_low, nic_high),
        origin,
        vendor_index,
    };
    (facts, opened)
}

fn plan_bytes(words: [u64; 8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    bytes
}

fn pattern_of([state, packed, period_ns, step]: [u64; 4]) -> Pattern {
    let confidence = f32::from_bits(packed as u32);
    Pattern {
        state: PatternState::from_number(state).unwrap_or(PatternState::Off),
        confidence: if confidence.is_finite() { confidence } else { 0.0 },
        period_calls: (packed >> 32) as u32,
        period_ns,
        step,
    }
}

/// Two words of different arrivals give a sequence that does not belong into their cell, or was not issued lately.
fn arrivals(ring: &[layout::Arrival; ARRIVALS], issued: u64, every: u64, line: &Line) -> Vec<Arrival> {
    let reach = every.saturating_mul(ARRIVALS as u64);
    let mut found: Vec<_> = (0..)
        .zip(ring)
        .filter_map(|(place, cell)| {
            let at = word(&cell.at);
            let sequence = word(&cell.mixed) ^ at;
            let belongs = sequence.is_multiple_of(every) && sequence / every % ARRIVALS as u64 == place;
            let is_recent = sequence <= issued && issued - sequence < reach && sequence > 0;
            (at != 0 && belongs && is_recent).then(|| Arrival { sequence, at_ns: line.moment_ns(at) })
        })
        .collect();
    found.sort_unstable();
    found
}

/// Length first.
fn text_of<const N: usize>(cell: &[AtomicU64; N]) -> String {
    let length = cell.first().map_or(0, word);
    unpack(cell.iter().skip(1).map(word), length)
}

fn not_zero<'a, K>(pairs: impl Iterator<Item = (K, &'a AtomicU64)>) -> Vec<(K, u64)> {
    pairs.map(|(key, cell)| (key, word(cell))).filter(|(_, value)| *value != 0).collect()
}

/// Of a hostile file's buckets, too.
fn total(buckets: &[u64]) -> u64 {
    buckets.iter().fold(0, |sum, one| sum.saturating_add(*one))
}

fn word(cell: &AtomicU64) -> u64 {
    cell.load(Relaxed)
}

fn words<const N: usize>(cells: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|place| word(&cells[place]))
}
