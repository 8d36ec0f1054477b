//! Claims about real files, written by telemetry's own writer.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path as Folder;

use airamp_observer::{Observer, Options};
use airamp_telemetry::{
    CallRecord, CodecCounters, CommunicatorFacts, Datatype, EventKind, Identity, Kind, Path, Reason, State,
    Ticks, Writer, create, now,
};

fn identity(job: &str, rank: i32) -> Identity {
    let mut identity = Identity::of_this_process("0.1.0", 2);
    identity.job = job.to_owned();
    identity.world_rank = rank;
    identity.local_rank = rank;
    identity
}

fn writer(base: &Folder, job: &str, rank: i32) -> Writer {
    create(Some(base), &identity(job, rank)).expect("a telemetry file")
}

fn observer(base: &Folder) -> Observer {
    Observer::new(Options { bases: vec![base.to_path_buf()], ..Options::default() })
}

fn facts(rank: i32) -> CommunicatorFacts {
    let mut facts = CommunicatorFacts { name: 0xfeed, rank, ranks: 2, device: rank, ..Default::default() };
    facts.nic[..4].copy_from_slice(b"eth0");
    facts.device_uuid = [7; 16];
    facts
}

#[test]
fn what_two_processes_wrote_is_what_is_shown() {
    let base = tempfile::tempdir().expect("a folder");
    for rank in 0..2 {
        let writer = writer(base.path(), "4711", rank);
        writer.set_vendor("NCCL 2.28.9");
        writer.set_state(State::On);
        writer.count(Kind::AllReduce, Path::Compressed, Datatype(9), 3, 3000, 800, 3000);
        writer.duration(Kind::AllReduce, Path::Compressed, 0, 1_500_000);
        writer.fallback(Reason::Size, 4);
        writer.error(3);
        let slot = writer.open(&facts(rank)).expect("a slot");
        slot.issued(3, now());
        slot.codec(CodecCounters { saturated: 2, ..CodecCounters::default() });
        slot.compressed(3);
        slot.arena(4096);
        writer.event(EventKind::CommunicatorMade, Some(slot), 0, 0, "hello");
        writer.decision(
            r#"{"communicator":"000000000000feed","rank":0,"ranks":2,"index":8,"class":{"collective":"AllReduce","datatype":"bfloat16","from_bytes":0,"below_bytes":4096},"decision":"compressed","reason":"1.5 times","speedup":1.5,"ours_us":1000.0,"vendor_us":1500.0}"#,
        );
    }
    let node = observer(base.path()).look();
    assert_eq!((node.processes, node.unreadable_count, node.jobs.len()), (2, 0, 1));
    let job = &node.jobs[0];
    assert_eq!((job.label.as_str(), job.mode.as_ref(), job.vendor.as_str()), ("4711", "on", "NCCL 2.28.9"));
    assert_eq!((job.ranks_here, job.size, job.ranks.len()), (2, 2, 2));
    let row = &job.totals.calls[0];
    assert_eq!(
        (row.kind.as_ref(), row.path.as_ref(), row.datatype.as_ref()),
        ("all_reduce", "compressed", "bfloat16")
    );
    assert_eq!((row.calls, row.logical_bytes, row.wire_bytes, row.saved_bytes), (6, 6000, 1600, 4400));
    assert_eq!((job.totals.fallbacks[0].calls, job.totals.errors[0].calls, job.totals.saturated), (8, 2, 4));
    let latency = &job.latency[0];
    assert_eq!((latency.counts.iter().sum::<u64>(), latency.counts.len()), (2, latency.bounds_s.len() + 1));
    let communicator = &job.communicators[0];
    assert_eq!((communicator.name.as_str(), communicator.ranks.len()), ("000000000000feed", 2));
    assert_eq!((communicator.ranks[1].issued, communicator.ranks[1].arena_bytes), (3, 4096));
    assert_eq!((job.ranks[0].nic.as_str(), job.ranks[0].device), ("eth0", Some(0)));
    assert_eq!((job.classes.len(), job.decisions.len(), job.gain.speedup), (1, 1, Some(1.0)));
    assert!(node.events.iter().any(|event| event.kind == "communicator_made" && event.text == "hello"));
}

#[test]
fn a_second_look_counts_nothing_twice_and_sees_what_came_since() {
    let base = tempfile::tempdir().expect("a folder");
    let writer = writer(base.path(), "job", 0);
    let slot = writer.open(&facts(0)).expect("a slot");
    let count = || writer.count(Kind::AllGather, Path::Vendor, Datatype(7), 1, 100, 100, 100);
    let mut observer = observer(base.path());
    count();
    writer.event(EventKind::Note, Some(slot), 0, 0, "one");
    let first = observer.look();
    let unchanged = observer.look();
    assert_eq!(first.totals.calls, unchanged.totals.calls);
    assert_eq!(first.events.len(), unchanged.events.len());
    count();
    writer.event(EventKind::Note, Some(slot), 0, 0, "two");
    let node = observer.look();
    assert_eq!(node.totals.calls[0].calls, 2);
    assert_eq!(node.events.last().map(|event| event.text.as_str()), Some("two"));
    assert!(node.rates.calls_per_s > 0.0);
}

#[test]
fn a_spike_among_sampled_calls_leaves_a_window_of_calls_before_and_after_it() {
    let base = tempfile::tempdir().expect("a folder");
    let writer = writer(base.path(), "job", 0);
    let slot = writer.open(&facts(0)).expect("a slot");
    let call = |device_ns: u32| {
        let sequence = slot.issued(1, now());
        writer.call(&CallRecord {
            slot: slot.index(),
            kind: Kind::AllReduce,
            path: Path::Vendor,
            datatype: Datatype(7),
            flags: CallRecord::SAMPLED,
            count: 1024,
            sequence,
            step: 1,
            entered: now(),
            vendor_ticks: 10,
            hook_ticks: 1,
            device_ns,
        });
    };
    let mut observer = observer(base.path());
    (0..40).for_each(|_| call(1_000_000));
    observer.look();
    call(900_000_000);
    let node = observer.look();
    assert!(
        node.findings.iter().any(|finding| finding.kind.name() == "latency_spike"),
        "{:?}",
        node.findings
    );
    assert!(observer.windows().is_empty(), "it is not complete yet");
    (0..300).for_each(|_| call(1_000_000));
    observer.look();
    observer.look();
    let windows = observer.windows();
    assert_eq!(windows.len(), 1);
    let process = &windows[0].processes[0];
    assert_eq!((process.before.len(), process.after.len()), (41, 256));
    assert_eq!(process.before.last().and_then(|call| call.device_us), Some(900_000.0));
    assert_eq!(process.after[0].communicator, "000000000000feed");
    assert!(observer.windows().is_empty(), "each is handed out once");
}

#[test]
fn files_that_are_none_are_named_and_leave_the_others_alone() {
    let base = tempfile::tempdir().expect("a folder");
    let _ = writer(base.path(), "job", 0);
    let folder = fs::read_dir(base.path()).expect("entries").next().expect("a folder").expect("it").path();
    for (name, content) in [("1-0123456789abcdef.airamp", "short"), ("2-0123456789abcdef.airamp", "")] {
        fs::write(folder.join(name), content).expect("a file");
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o600)).expect("its mode");
    }
    let node = observer(base.path()).look();
    assert_eq!((node.processes, node.unreadable_count), (1, 2));
    assert!(node.unreadable[0].why.contains("not a telemetry file"), "{:?}", node.unreadable);
}

#[test]
fn an_empty_base_is_an_empty_node() {
    let base = tempfile::tempdir().expect("a folder");
    let node = observer(base.path()).look();
    assert_eq!((node.processes, node.jobs.len(), node.schema), (0, 0, 1));
    assert!(!node.node.is_empty());
}

#[test]
fn an_observer_can_look_from_a_thread_of_its_own() {
    fn is_send<T: Send>() {}
    is_send::<Observer>();
    let _ = Ticks(0);
}
