//! The rings: in order, counted when lost, amended when a time comes late.

mod place;

use airamp_telemetry::*;
use place::{Place, call};

#[test]
fn a_reader_gets_each_record_once_and_in_order() {
    let place = Place::new();
    let writer = place.writer();
    let reader = place.only();
    let mut cursor = 0;
    for round in 0..30_u64 {
        for n in 0..round * 40 {
            writer.call(&CallRecord { sequence: n, ..call(5) });
        }
        let found = reader.calls_since(cursor).unwrap();
        assert_eq!((found.lost, found.next - cursor), (0, round * 40));
        assert!(found.items.iter().map(|call| call.sequence).eq(0..round * 40));
        assert!(found.items.iter().map(|call| call.number).eq(cursor..found.next));
        cursor = found.next;
    }
    assert!(cursor > 3 * 4096, "the ring was gone round a few times");
    let call = reader.calls_since(cursor - 1).unwrap().items[0];
    assert_eq!((call.slot, call.kind, call.path), (Some(5), Kind::AllReduce, Path::Vendor));
    assert_eq!((call.count, call.flags), (8192, CallRecord::GROUP));
    assert!(call.vendor_ns > call.hook_ns && call.entered_ns > 0);
}

/// Faults of this thread that needed no disk.
fn faults() -> i64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the call fills in the usage; zeros are one, too.
    unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init().ru_minflt
    }
}

/// Whether the kernel can make pages that are there to be written (5.14 and later).
fn can_populate() -> bool {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(1) as usize;
    let mut pages = vec![0_u8; 2 * size];
    let at = pages.as_mut_ptr().wrapping_add(pages.as_ptr().align_offset(size));
    // SAFETY: a page inside the vector, whose bytes stay as they are.
    unsafe { libc::madvise(at.cast(), size, libc::MADV_POPULATE_WRITE) == 0 }
}

#[test]
fn no_call_is_the_first_to_touch_a_page_of_the_file() {
    if !can_populate() {
        return eprintln!("skipped: this kernel does not know MADV_POPULATE_WRITE");
    }
    let place = Place::new();
    let writer = place.writer();
    writer.call(&call(5));
    let before = faults();
    for _ in 0..4096 {
        writer.call(&call(5));
    }
    // The ring of calls has 64 pages.
    let taken = faults() - before;
    assert!(taken < 16, "{taken} faults");
}

#[test]
fn what_was_overwritten_is_counted_as_lost() {
    let place = Place::new();
    let writer = place.writer();
    for n in 0..600 {
        writer.event(EventKind::Note, None, n, 2 * n, &format!("event {n}"));
    }
    let reader = place.only();
    let found = reader.events_since(10).unwrap();
    assert_eq!((found.next, found.lost, found.items.len()), (600, 78, 512));
    let first = &found.items[0];
    assert_eq!((first.number, first.a, first.b, first.text.as_str()), (88, 88, 176, "event 88"));
    assert_eq!((first.slot, first.kind), (None, EventKind::Note));
    assert_eq!(reader.events_since(600).unwrap().items, []);
    assert_eq!(reader.events_since(5000).unwrap(), snapshot::Since { items: vec![], next: 600, lost: 0 });
}

#[test]
fn an_event_of_the_rhythm_has_its_step_and_what_it_is_about() {
    let place = Place::new();
    let writer = place.writer();
    let (most, text) = (u64::MAX, "x".repeat(160));
    writer.event_in_step(EventKind::PaceChanged, None, 812, [5, 9, Grew::Compute as u64], "slower");
    writer.event_in_step(EventKind::CallLate, None, most, [most; 3], &text);
    writer.event(EventKind::Note, None, 1, 2, "");
    let events = place.only().events_since(0).unwrap().items;
    let told: Vec<_> = events.iter().map(|e| (e.kind, e.step, e.a, e.b, e.about, e.text.as_str())).collect();
    assert_eq!(
        told,
        [
            (EventKind::PaceChanged, 812, 5, 9, 2, "slower"),
            (EventKind::CallLate, most, most, most, most, text.as_str()),
            (EventKind::Note, 0, 1, 2, 0, ""),
        ]
    );
}

#[test]
fn a_decision_comes_whole_or_is_counted_as_dropped() {
    let place = Place::new();
    let writer = place.writer();
    let longest = "ä".repeat(500);
    writer.decision(&longest);
    writer.decision(&"x".repeat(1001));
    writer.decision("{}");
    let reader = place.only();
    let found = reader.decisions_since(0).unwrap();
    assert_eq!(found.items.iter().map(|one| one.json.as_str()).collect::<Vec<_>>(), [longest.as_str(), "{}"]);
    assert_eq!((found.lost, reader.snapshot().unwrap().dropped), (0, 1));
}

#[test]
fn a_device_time_that_comes_late_is_filled_in_if_the_record_is_still_there() {
    let place = Place::new();
    let writer = place.writer();
    let first = writer.call(&CallRecord { step: 9, ..call(0) });
    writer.device_time(first, 4711);
    writer.device_time(first + 1, 1);
    writer.device_time(u64::MAX, 1);
    let reader = place.only();
    let found = reader.calls_since(0).unwrap().items;
    assert_eq!((found.len(), found[0].device_ns, found[0].step), (1, 4711, 9));
    let second = writer.call(&CallRecord { step: 10, ..call(0) });
    writer.device_time(second, u64::MAX);
    assert_eq!(reader.calls_since(second).unwrap().items[0].device_ns, u32::MAX);
    for _ in 0..4096 {
        writer.call(&call(0));
    }
    writer.device_time(first, 99);
    assert!(reader.calls_since(0).unwrap().items.iter().all(|call| call.device_ns == 0));
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let place = Place::new();
    place.writer().event(EventKind::Error, None, 0, 0, "a\x1b[31mb\nc\u{85}");
    assert_eq!(place.only().events_since(0).unwrap().items[0].text, "a\u{fffd}[31mb\u{fffd}c\u{fffd}");
}
