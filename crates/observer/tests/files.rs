//! Claims about real files, written by telemetry's own writer.

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path as Folder, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use airamp_observer::anomaly::Window;
use airamp_observer::view::{FindingKind, JobState, Node};
use airamp_observer::{Observer, Options};
use airamp_telemetry::{
    CallRecord, CodecCounters, CommunicatorFacts, Datatype, EventKind, Identity, Kind, Path, Reason, State,
    Writer, create, now,
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
            flags: CallRecord::SAMPLED,
            sequence,
            step: 1,
            entered: now(),
            vendor_ticks: 10,
            hook_ticks: 1,
            device_ns,
            ..CallRecord::new(slot.index(), Kind::AllReduce, Path::Vendor, Datatype(7), 1024)
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
fn a_process_that_is_gone_and_whose_file_was_cut_short_is_not_shown_any_more() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = Writing::start(base.path());
    let mut observer = observer(base.path());
    until(&mut observer, |node| node.processes == 1);
    fs::File::options().write(true).open(only_file(base.path())).expect("it").set_len(0).expect("to cut it");
    let cut = observer.look();
    assert_eq!((cut.processes, cut.unreadable_count), (1, 1), "it lives, and what it last said holds");
    child.kill();
    let node = observer.look();
    assert_eq!((node.processes, node.jobs[0].state), (0, JobState::Ended));
}

#[test]
fn the_last_calls_of_a_dead_rank_are_evidence_of_its_death() {
    let base = tempfile::tempdir().expect("a folder");
    let mut child = Writing::start(base.path());
    let writer = writer(base.path(), "job", 0);
    let slot = writer.open(&facts(0)).expect("a slot");
    slot.issued(CALLS + 1, now());
    let late_after = Duration::from_millis(1);
    let bases = vec![base.path().to_path_buf()];
    let mut observer = Observer::new(Options { bases, late_after, ..Options::default() });
    until(&mut observer, |node| {
        node.processes == 2 && node.totals.calls.iter().map(|row| row.calls).sum::<u64>() == CALLS
    });
    child.kill();
    until(&mut observer, |node| node.findings.iter().any(|one| one.kind == FindingKind::DeadProcess));
    let window = window_of(&mut observer, FindingKind::DeadProcess);
    let dead = window.processes.iter().find(|process| process.rank == Some(1)).expect("the dead one");
    let sequences: Vec<u64> = dead.before.iter().map(|call| call.sequence).collect();
    assert_eq!(sequences, (1..=CALLS).collect::<Vec<u64>>());
    assert_eq!((dead.after.len(), dead.lost), (0, 0));
}

#[test]
fn files_of_the_dead_are_counted_once_though_their_folder_was_away() {
    let base = tempfile::tempdir().expect("a folder");
    writer(base.path(), "job", 0).count(Kind::AllGather, Path::Vendor, Datatype(7), 1, 100, 100, 100);
    let file = only_file(base.path());
    // Another process has its number now.
    let header = fs::File::options().write(true).open(&file).expect("it");
    header.write_all_at(&1_u64.to_le_bytes(), 184).expect("its start");
    let mut observer = observer(base.path());
    let counted = |observer: &mut Observer| observer.look().totals.calls[0].calls;
    assert_eq!(counted(&mut observer), 1);
    let (folder, away) = (file.parent().expect("a folder"), base.path().join("away"));
    fs::rename(folder, &away).expect("to rename it");
    assert_eq!(counted(&mut observer), 1);
    fs::rename(&away, folder).expect("to rename it back");
    assert_eq!(counted(&mut observer), 1);
}

const BASE: &str = "AIRAMP_OBSERVER_TEST_BASE";
const CALLS: u64 = 20;
const LIMIT: Duration = Duration::from_secs(60);

/// This program again, as rank 1 of a job: it makes some calls, and waits to be killed.
struct Writing(Child);

impl Writing {
    fn start(base: &Folder) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "a_child_that_writes", "--nocapture"]).env(BASE, base);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a child"))
    }

    fn kill(&mut self) {
        self.0.kill().expect("to kill it");
        self.0.wait().expect("its end");
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_child_that_writes() {
    let Some(base) = std::env::var_os(BASE) else { return };
    let writer = writer(base.as_ref(), "job", 1);
    let slot = writer.open(&facts(1)).expect("a slot");
    for _ in 0..CALLS {
        let sequence = slot.issued(1, now());
        writer.call(&CallRecord {
            sequence,
            step: 1,
            entered: now(),
            vendor_ticks: 10,
            hook_ticks: 1,
            ..CallRecord::new(slot.index(), Kind::AllReduce, Path::Vendor, Datatype(7), 1024)
        });
        writer.count(Kind::AllReduce, Path::Vendor, Datatype(7), 1, 4096, 4096, 4096);
    }
    std::thread::sleep(2 * LIMIT);
}

fn until(observer: &mut Observer, is_so: impl Fn(&Node) -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_so(&observer.look()) {
        assert!(Instant::now() < end, "waited a minute in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn window_of(observer: &mut Observer, kind: FindingKind) -> Window {
    let end = Instant::now() + LIMIT;
    loop {
        observer.look();
        if let Some(window) = observer.windows().into_iter().find(|one| one.finding.kind == kind) {
            return window;
        }
        assert!(Instant::now() < end, "waited a minute in vain");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn only_file(base: &Folder) -> PathBuf {
    let only = |folder: &Folder| {
        fs::read_dir(folder).expect("entries").next().expect("one").expect("to be read").path()
    };
    only(&only(base))
}

#[test]
fn an_empty_base_is_an_empty_node() {
    let base = tempfile::tempdir().expect("a folder");
    let node = observer(base.path()).look();
    assert_eq!((node.processes, node.jobs.len(), node.schema), (0, 0, 1));
    assert!(!node.node.is_empty());
}

/// An observer can look from a thread of its own.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Observer>();
};
