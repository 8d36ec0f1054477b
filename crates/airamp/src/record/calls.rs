//! The calls of one process as they come out of its ring, and the communicators that they belong to: a place among the
//! communicators is given to others again, so that it takes place and time to know whose a call was.

use std::collections::BTreeMap;

use airamp_telemetry::snapshot::{Call, Snapshot};
use airamp_telemetry::{CallRecord, Path, Reader};
use airamp_trace::{Communicator, MOST_CALLS, MOST_COMMUNICATORS, Trace, VERSION, bytes_of};

/// A call's device time becomes known after the call: so many calls are read again.
const READ_AGAIN: u64 = 256;
/// Looks between two at the communicators, which cost more.
const COMMUNICATORS_EVERY: u32 = 10;

pub(super) struct Calls {
    pid: u32,
    rank: i32,
    program: String,
    vendor: String,
    /// Number of the first call that is not read yet.
    next: u64,
    /// Calls before this number are not ours to record.
    from: u64,
    /// In the order of their numbers.
    calls: Vec<Call>,
    lost: u64,
    /// By place and generation.
    communicators: BTreeMap<(u8, u64), Life>,
    looks: u32,
}

struct Life {
    about: Communicator,
    opened_ns: u64,
    /// 0: not ended.
    ended_ns: u64,
}

impl Calls {
    pub(super) fn new(snapshot: &Snapshot, from: u64) -> Self {
        let mut calls = Self {
            pid: snapshot.pid,
            rank: snapshot.identity.world_rank,
            program: snapshot.identity.command.clone(),
            vendor: String::new(),
            next: from,
            from,
            calls: Vec::new(),
            lost: 0,
            communicators: BTreeMap::new(),
            looks: 0,
        };
        calls.learn(snapshot);
        calls
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    pub(super) fn rank(&self) -> i32 {
        self.rank
    }

    pub(super) fn first_ns(&self) -> Option<u64> {
        self.calls.iter().map(|call| call.entered_ns).min()
    }

    /// What is new in the ring; `whole` with the communicators, too. A file that cannot be read any more has said what
    /// it had to say.
    pub(super) fn read(&mut self, reader: &Reader, whole: bool) {
        let again = self.next.saturating_sub(READ_AGAIN).max(self.from);
        if let Ok(since) = reader.calls_since(again) {
            self.take(since.items, since.next);
        }
        self.looks = self.looks.wrapping_add(1);
        if (whole || self.looks.is_multiple_of(COMMUNICATORS_EVERY))
            && let Ok(snapshot) = reader.snapshot()
        {
            self.learn(&snapshot);
        }
    }

    /// `items` are in the order of their numbers and may repeat calls that are there already.
    fn take(&mut self, items: Vec<Call>, next: u64) {
        let mut got = 0;
        for call in items {
            if call.number < self.next {
                self.complete(&call);
                continue;
            }
            got += 1;
            if self.calls.len() < MOST_CALLS {
                self.calls.push(call);
            } else {
                self.lost = self.lost.saturating_add(1);
            }
        }
        let written = next.saturating_sub(self.next);
        self.lost = self.lost.saturating_add(written.saturating_sub(got));
        self.next = self.next.max(next);
    }

    fn complete(&mut self, again: &Call) {
        if let Ok(place) = self.calls.binary_search_by_key(&again.number, |call| call.number)
            && let Some(call) = self.calls.get_mut(place)
        {
            call.device_ns = again.device_ns;
        }
    }

    fn learn(&mut self, snapshot: &Snapshot) {
        if !snapshot.identity.vendor.is_empty() {
            self.vendor.clone_from(&snapshot.identity.vendor);
        }
        for found in &snapshot.communicators {
            let (facts, key) = (found.facts, (found.slot, found.generation));
            let ranks = u32::try_from(facts.ranks).unwrap_or(0).max(1);
            let rank = u32::try_from(facts.rank).unwrap_or(0).min(ranks - 1);
            let about = Communicator { ranks, rank, name: facts.name };
            let life = Life { about, opened_ns: found.opened_ns, ended_ns: found.ended_ns };
            if self.communicators.len() < MOST_COMMUNICATORS || self.communicators.contains_key(&key) {
                self.communicators.insert(key, life);
            }
        }
    }

    pub(super) fn trace(mut self, first_ns: u64, note: Option<&str>) -> Trace {
        self.calls.sort_by_key(|call| (call.entered_ns, call.number));
        let source = self.source(note);
        let mut trace = Trace { version: VERSION, source, lost: self.lost, ..Trace::default() };
        let mut places: BTreeMap<(u8, u64), u16> = BTreeMap::new();
        for call in &self.calls {
            // One that the vendor refused was no call to anybody.
            if call.flags & CallRecord::ERROR != 0 {
                continue;
            }
            let Some((key, life)) = self.communicator_of(call) else {
                trace.lost = trace.lost.saturating_add(1);
                continue;
            };
            let communicator = *places.entry(key).or_insert_with(|| {
                trace.communicators.push(life.about);
                trace.communicators.len() as u16 - 1
            });
            trace.calls.push(recorded(call, communicator, first_ns));
        }
        trace
    }

    fn communicator_of(&self, call: &Call) -> Option<((u8, u64), &Life)> {
        let slot = call.slot?;
        let of_place = self.communicators.range((slot, 0)..=(slot, u64::MAX));
        let (key, life) = of_place.rev().find(|(_, life)| life.opened_ns <= call.entered_ns)?;
        // Between two looks another one may have come and gone in its place.
        (life.ended_ns == 0 || call.entered_ns <= life.ended_ns).then_some((*key, life))
    }

    fn source(&self, note: Option<&str>) -> String {
        let parts = [note.unwrap_or(""), &self.program, &self.vendor];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let source = format!("recorded: {}", parts.join(", "));
        source.chars().filter(|letter| !letter.is_control()).take(512).collect()
    }
}

fn recorded(call: &Call, communicator: u16, first_ns: u64) -> airamp_trace::Call {
    airamp_trace::Call {
        at_ns: call.entered_ns.saturating_sub(first_ns),
        communicator,
        kind: call.kind as u8,
        datatype: call.datatype.0,
        count: call.count,
        bytes: bytes_of(call.datatype.0, call.count),
        group: call.flags & CallRecord::GROUP != 0,
        captured: matches!(call.path, Path::VendorCaptured | Path::CompressedCaptured),
        device_ns: (call.device_ns > 0).then_some(call.device_ns),
    }
}

#[cfg(test)]
mod tests {
    use airamp_telemetry::{Datatype, Kind};

    use super::*;

    fn nobodys() -> Calls {
        Calls {
            pid: 1,
            rank: 0,
            program: "program".into(),
            vendor: "NCCL".into(),
            next: 0,
            from: 0,
            calls: Vec::new(),
            lost: 0,
            communicators: BTreeMap::new(),
            looks: 0,
        }
    }

    fn call(number: u64, entered_ns: u64) -> Call {
        Call {
            number,
            slot: Some(0),
            kind: Kind::AllReduce,
            path: Path::Vendor,
            datatype: Datatype(7),
            flags: 0,
            count: 10,
            sequence: number,
            step: 0,
            entered_ns,
            vendor_ns: 0,
            hook_ns: 0,
            device_ns: 0,
        }
    }

    fn lived(calls: &mut Calls, generation: u64, name: u64, opened_ns: u64, ended_ns: u64) {
        let about = Communicator { ranks: 2, rank: 0, name };
        calls.communicators.insert((0, generation), Life { about, opened_ns, ended_ns });
    }

    #[test]
    fn a_call_belongs_to_who_held_the_place_then() {
        let mut calls = nobodys();
        lived(&mut calls, 2, 77, 100, 200);
        lived(&mut calls, 4, 88, 300, 0);
        calls.take(vec![call(0, 50), call(1, 150), call(2, 250), call(3, 350)], 4);
        let trace = calls.trace(150, None);
        let names: Vec<u64> = trace.communicators.iter().map(|communicator| communicator.name).collect();
        assert_eq!(names, [77, 88]);
        let found: Vec<(u64, u16)> = trace.calls.iter().map(|call| (call.at_ns, call.communicator)).collect();
        assert_eq!(
            (found, trace.lost),
            (vec![(0, 0), (200, 1)], 2),
            "before any, and between two, it is nobody's"
        );
    }

    #[test]
    fn what_is_read_again_is_not_there_twice_and_brings_its_device_time() {
        let mut calls = nobodys();
        lived(&mut calls, 2, 77, 1, 0);
        calls.take(vec![call(0, 10), call(1, 20)], 2);
        calls.take(vec![Call { device_ns: 5, ..call(1, 20) }, call(2, 30)], 3);
        let trace = calls.trace(0, None);
        let times: Vec<Option<u32>> = trace.calls.iter().map(|call| call.device_ns).collect();
        assert_eq!((times, trace.lost), (vec![None, Some(5), None], 0));
    }

    #[test]
    fn what_was_overwritten_is_counted_as_lost() {
        let mut calls = nobodys();
        lived(&mut calls, 2, 77, 1, 0);
        calls.take(vec![call(0, 10)], 1);
        calls.take(vec![call(5, 20), call(6, 30)], 7);
        calls.take(Vec::new(), 9);
        assert_eq!(calls.trace(0, None).lost, 4 + 2);
    }

    #[test]
    fn a_call_that_was_refused_is_none_and_a_captured_one_is_marked() {
        let mut calls = nobodys();
        lived(&mut calls, 2, 77, 1, 0);
        let refused = Call { flags: CallRecord::ERROR, ..call(0, 10) };
        let captured = Call { path: Path::CompressedCaptured, flags: CallRecord::GROUP, ..call(1, 20) };
        calls.take(vec![refused, captured], 2);
        let trace = calls.trace(0, Some("a\u{1b}note"));
        assert_eq!((trace.calls.len(), trace.lost), (1, 0));
        assert!(trace.calls[0].captured && trace.calls[0].group);
        assert_eq!(trace.source, "recorded: anote, program, NCCL");
    }
}
