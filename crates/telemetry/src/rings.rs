//! Reads the rings: records from a cursor on, in order. A record that was overwritten, never finished, or does not make
//! sense is skipped and counted as lost.

use std::fs::File;

use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::clock::Line;
use crate::copy::{Three, items};
use crate::guarded::complete;
use crate::layout::{
    CALL_RING, CallCell, DECISION_RING, DecisionCell, EVENT_RING, EventCell, PROCESS, Process, Section, Words,
};
use crate::snapshot::{Call, Decision, Event, Since};
use crate::text::unpack;
use crate::{CallRecord, Datatype, EventKind, Kind, Path, Unreadable};

/// A record that is being written is complete a moment later, unless its thread was stopped.
const ATTEMPTS: usize = 4;
/// More than any process writes; a ring that claims more is not one.
const MOST_RECORDS: u64 = 1 << 60;

pub(crate) fn calls(file: &File, cursor: u64, line: impl Fn() -> Line) -> Result<Since<Call>, Unreadable> {
    since(file, cursor, line, CALL_RING, |process| &process.calls.written, |cell| &cell.version, call)
}

pub(crate) fn events(file: &File, cursor: u64, line: impl Fn() -> Line) -> Result<Since<Event>, Unreadable> {
    since(file, cursor, line, EVENT_RING, |process| &process.events.written, |cell| &cell.version, event)
}

pub(crate) fn decisions(
    file: &File,
    cursor: u64,
    line: impl Fn() -> Line,
) -> Result<Since<Decision>, Unreadable> {
    since(
        file,
        cursor,
        line,
        DECISION_RING,
        |process| &process.decisions.written,
        |cell| &cell.version,
        decision,
    )
}

fn since<C: Words, T>(
    file: &File,
    cursor: u64,
    line: impl Fn() -> Line,
    ring: Section,
    written: fn(&Process) -> &AtomicU64,
    version: fn(&C) -> &AtomicU64,
    decode: fn(u64, &C, &Line) -> Option<T>,
) -> Result<Since<T>, Unreadable> {
    let process = items::<Process>(file, PROCESS, 0, 1)?;
    let next = written(process.first().ok_or(Unreadable::Truncated)?).load(Relaxed);
    if next > MOST_RECORDS {
        return Err(Unreadable::Damaged);
    }
    let first = cursor.max(next.saturating_sub(ring.count));
    let mut found = Since { items: Vec::new(), next, lost: first.saturating_sub(cursor) };
    if first >= next {
        return Ok(found);
    }
    // The range may run over the end of the ring: in two pieces then.
    let split = next.min(first - first % ring.count + ring.count);
    for (from, to) in [(first, split), (split, next)] {
        let mut cells = Three::<C>::read(file, ring, from % ring.count, to - from)?;
        for attempt in 1..ATTEMPTS {
            let is_complete =
                |place| cells.whole(place, version).is_some_and(|(_, v)| v >= complete(from + place as u64));
            if (0..cells.len()).all(is_complete) {
                break;
            }
            std::thread::sleep(std::time::Duration::from_micros(attempt as u64));
            cells = Three::read(file, ring, from % ring.count, to - from)?;
        }
        let line = line();
        for place in 0..cells.len() {
            let number = from + place as u64;
            let cell = cells.whole(place, version).filter(|(_, version)| *version == complete(number));
            match cell.and_then(|(cell, _)| decode(number, cell, &line)) {
                Some(record) => found.items.push(record),
                None => found.lost += 1,
            }
        }
    }
    Ok(found)
}

fn call(number: u64, cell: &CallCell, line: &Line) -> Option<Call> {
    let [small, count, sequence, entered, halves, ticks, _] = words(&cell.words);
    let [slot, kind, path, datatype, flags, ..] = small.to_le_bytes();
    let (low, high) = (|word: u64| word as u32, |word: u64| (word >> 32) as u32);
    Some(Call {
        number,
        slot: (slot != CallRecord::NO_SLOT).then_some(slot),
        kind: Kind::from_number(kind.into())?,
        path: Path::from_number(path.into())?,
        datatype: Datatype::of(datatype.into()),
        flags,
        count,
        sequence,
        step: low(halves),
        entered_ns: line.moment_ns(entered),
        vendor_ns: line.span_ns(low(ticks).into()),
        hook_ns: line.span_ns(high(ticks).into()),
        device_ns: high(halves),
    })
}

fn event(number: u64, cell: &EventCell, line: &Line) -> Option<Event> {
    let [small, at, a, b, text @ .., step, about] = words(&cell.words);
    let [kind, slot, ..] = small.to_le_bytes();
    Some(Event {
        number,
        kind: EventKind::from_number(kind.into())?,
        slot: (slot != CallRecord::NO_SLOT).then_some(slot),
        at_ns: line.moment_ns(at),
        a,
        b,
        step,
        about,
        text: unpack(text.into_iter(), small >> 32),
    })
}

fn decision(number: u64, cell: &DecisionCell, line: &Line) -> Option<Decision> {
    let [at, length, text @ ..] = words(&cell.words);
    Some(Decision { number, at_ns: line.moment_ns(at), json: unpack(text.into_iter(), length) })
}

fn words<const N: usize>(words: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|place| words[place].load(Relaxed))
}
