use airamp_telemetry::{CallRecord, Datatype, EventKind, Identity, Kind, Path, Writer, create, folders, now};

use super::*;

/// A file of this process, held open by its reader.
fn written() -> (tempfile::TempDir, Writer, Open) {
    let base = tempfile::tempdir().unwrap();
    let writer = create(Some(base.path()), &Identity::of_this_process("0", 0)).unwrap();
    let folder = folders(Some(base.path())).pop().unwrap();
    let reader = Reader::open(&folder, &folder.files()[0]).unwrap();
    (base, writer, Open::new(1, folder.uid(), reader))
}

fn call(writer: Writer, device_ns: u32) -> u64 {
    writer.call(&CallRecord {
        flags: CallRecord::SAMPLED,
        entered: now(),
        device_ns,
        ..CallRecord::new(0, Kind::AllReduce, Path::Vendor, Datatype(7), 1024)
    })
}

/// The numbers of the calls that a look hands on.
fn sampled(open: &mut Open) -> Vec<u64> {
    open.read(false).unwrap().sampled.iter().map(|call| call.number).collect()
}

#[test]
fn a_device_time_that_comes_after_its_call_is_handed_on_once() {
    let (_base, writer, mut open) = written();
    let (early, late) = (call(writer, 5), call(writer, 0));
    assert_eq!(sampled(&mut open), [early]);
    writer.device_time(late, 7);
    assert_eq!(sampled(&mut open), [late]);
    assert!(sampled(&mut open).is_empty());
}

#[test]
fn a_late_device_time_is_waited_for_during_a_few_looks_without_a_new_call() {
    let (_base, writer, mut open) = written();
    let calls = [call(writer, 0), call(writer, 0)];
    (0..LATE_TIMES_LOOKS).for_each(|_| assert!(sampled(&mut open).is_empty()));
    writer.device_time(calls[0], 7);
    assert_eq!(sampled(&mut open), [calls[0]], "the last look that waits");
    writer.device_time(calls[1], 7);
    assert!(sampled(&mut open).is_empty(), "nobody waits any more");
    call(writer, 0);
    assert_eq!(sampled(&mut open), [calls[1]], "a new call is a reason to look again");
}

#[test]
fn of_very_many_calls_the_newest_are_read_and_the_memory_of_them_is_bounded() {
    let (_base, writer, mut open) = written();
    (0..MOST_CALLS + 10).for_each(|_| _ = call(writer, 5));
    assert_eq!(sampled(&mut open), (10..MOST_CALLS + 10).collect::<Vec<u64>>());
    assert_eq!(open.told.len() as u64, LOOKED_AT_AGAIN);
    assert!(sampled(&mut open).is_empty());
}

#[test]
fn events_and_decisions_are_handed_on_once_and_what_was_overwritten_is_counted() {
    let (_base, writer, mut open) = written();
    let mut look = || {
        let reading = open.read(false).unwrap();
        (reading.events.len() as u64, reading.events_lost, reading.decisions.len())
    };
    writer.event(EventKind::Note, None, 0, 0, "one");
    writer.decision("{}");
    assert_eq!((look(), look()), ((1, 0, 1), (0, 0, 0)));
    const MANY: u64 = 2000;
    for _ in 0..2 {
        (0..MANY).for_each(|_| writer.event(EventKind::Note, None, 0, 0, "many"));
    }
    let (events, lost, _) = look();
    assert!(lost > 0 && events + lost == 2 * MANY, "{events} read, {lost} lost");
    writer.event(EventKind::Note, None, 0, 0, "one more");
    assert_eq!(look(), (1, lost, 0), "what is lost stays so");
}

#[test]
fn a_process_is_blocked_when_it_is_so_at_two_looks_in_a_row() {
    let (_base, _, mut open) = written();
    let states = ['D', 'S', 'D', 'D', 'T', 'D', 't', 'R'].map(|state| open.running(Some(state)));
    use ProcessState::{Blocked, Running, Stopped};
    assert_eq!(states, [Running, Running, Running, Blocked, Stopped, Running, Stopped, Running]);
    assert_eq!(open.running(None), Running);
}
