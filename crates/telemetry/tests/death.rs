//! Writers that are killed, stopped, forked or born under odd circumstances.

mod place;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use airamp_telemetry::*;
use place::{Place, identity};

const BASE: &str = "AIRAMP_TELEMETRY_TEST_BASE";
const STARTED: &str = "AIRAMP_TELEMETRY_TEST_STARTED";
const AHEAD_S: &str = "100000";

/// This program again, as a process that writes until it is killed.
struct Writing(Child);

impl Writing {
    fn start(place: &Place, prepare: fn() -> std::io::Result<()>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        // SAFETY: the functions given make one system call each.
        unsafe { command.pre_exec(prepare) };
        Self::run(command, place)
    }

    fn run(mut command: Command, place: &Place) -> Self {
        command.args(["--exact", "a_child_that_writes", "--nocapture"]).env(BASE, place.base());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that was not waited for, so the number is still its own.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }
}

/// This program in a time namespace whose clocks are ahead of ours; nothing where none can be made.
fn ahead() -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--map-current-user", "--time", "--boottime", AHEAD_S, "--monotonic", AHEAD_S]);
        command.args(["--fork", "--kill-child"]);
        command
    };
    let made = unshare().arg("true").stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "not to be skipped in CI: time namespaces");
        let _ = writeln!(std::io::stderr(), "SKIPPED: no time namespace can be made here");
        return None;
    }
    let mut command = unshare();
    command.arg(std::env::current_exe().unwrap());
    Some(command)
}

fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the one structure it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
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
    let Ok(writer) = create(Some(base.as_ref()), &identity()) else { std::process::exit(77) };
    let write = || {
        for n in 0_u64.. {
            let slot = writer.open(&CommunicatorFacts { name: n, parent: !n, ..Default::default() });
            let text = "x".repeat(n as usize % 160);
            writer.event(EventKind::Note, slot, n, text.len() as u64, &text);
            writer.decision(&"y".repeat(n as usize % 1000));
            for _ in 0..10 {
                writer.call(&CallRecord { count: n, sequence: !n, ..place::call(0) });
                writer.count(Kind::Send, Path::Vendor, Datatype(1), 1, 2, 3, 4);
            }
            if let Some(slot) = slot {
                slot.issued(1 + n % 3, now());
                slot.agreement(AgreementState::Off, &text);
                slot.close(Ended::Destroyed);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(write);
        write();
    });
}

fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "waited a minute in vain");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn first_file(place: &Place) -> Reader {
    until(|| {
        let folder = folders(Some(place.base())).pop()?;
        Reader::open(&folder, folder.files().first()?).ok()
    })
}

#[test]
fn a_writer_killed_at_any_point_leaves_a_readable_file() {
    for round in 0..12 {
        let place = Place::new();
        let mut child = Writing::start(&place, || Ok(()));
        let reader = first_file(&place);
        until(|| (reader.snapshot().unwrap().calls_written > 5000).then_some(()));
        // Not at the same point of the loop each time.
        std::thread::sleep(Duration::from_micros(round * 137));
        child.kill();
        assert_eq!(reader.liveness(), Liveness::Gone);
        let snapshot = reader.snapshot().unwrap();
        assert!(snapshot.torn <= 2, "two threads stood in at most two slots");
        assert!(snapshot.communicators.iter().all(|one| one.facts.parent == !one.facts.name));
        let count = snapshot.counts[0];
        assert!(count.calls * 2 - count.logical_bytes <= 4 && count.calls * 3 - count.wire_bytes <= 6);
        let calls = reader.calls_since(0).unwrap();
        assert_eq!(
            (calls.next, calls.items.len() as u64 + calls.lost),
            (snapshot.calls_written, snapshot.calls_written)
        );
        assert!(calls.items.len() as u64 + 2 + snapshot.dropped >= 4096);
        assert!(calls.items.iter().all(|call| call.sequence == !call.count));
        let events = reader.events_since(0).unwrap().items;
        assert!(!events.is_empty() && events.iter().all(|event| event.text.len() as u64 == event.b));
        let decisions = reader.decisions_since(0).unwrap().items;
        assert!(decisions.iter().all(|decision| decision.json.bytes().all(|byte| byte == b'y')));
    }
}

#[test]
fn a_stopped_process_is_alive_and_a_zombie_is_not() {
    let place = Place::new();
    let child = Writing::start(&place, || Ok(()));
    let reader = first_file(&place);
    child.signal(libc::SIGSTOP);
    assert_eq!(reader.liveness(), Liveness::Alive);
    child.signal(libc::SIGKILL);
    until(|| (reader.liveness() == Liveness::Gone).then_some(()));
}

#[test]
fn a_killed_process_of_another_pid_namespace_is_gone_though_it_was_busy_a_moment_ago() {
    let place = Place::new();
    let mut child = Writing::start(&place, || Ok(()));
    first_file(&place);
    name_another_namespace(&place.file());
    let reader = place.only();
    assert!(!reader.snapshot().unwrap().pid_is_ours);
    assert_eq!(reader.liveness(), Liveness::Alive);
    child.kill();
    until(|| (reader.liveness() == Liveness::Gone).then_some(()));
}

#[test]
fn a_process_of_another_time_namespace_is_alive_until_it_is_killed() {
    let place = Place::new();
    let Some(command) = ahead() else { return };
    let mut child = Writing::run(command, &place);
    let reader = first_file(&place);
    assert!(reader.snapshot().unwrap().pid_is_ours);
    assert_eq!(reader.liveness(), Liveness::Alive);
    child.kill();
    until(|| (reader.liveness() == Liveness::Gone).then_some(()));
}

#[test]
fn moments_of_a_process_of_another_time_namespace_are_those_of_the_readers_clock() {
    let place = Place::new();
    let Some(command) = ahead() else { return };
    let before = monotonic_ns();
    let _child = Writing::run(command, &place);
    let reader = first_file(&place);
    let after = monotonic_ns();
    // From here on a wrong rate shows.
    until(|| (monotonic_ns() > after + 4 * (after - before)).then_some(()));
    let snapshot = reader.snapshot().unwrap();
    assert!((before..after).contains(&snapshot.started_ns), "{before} {} {after}", snapshot.started_ns);
    assert!((before..=monotonic_ns()).contains(&snapshot.active_ns), "{before} {}", snapshot.active_ns);
}

#[test]
fn a_reader_in_another_time_namespace_has_moments_of_its_own_clock() {
    let place = Place::new();
    let Some(mut command) = ahead() else { return };
    let before = monotonic_ns();
    let _writer = place.writer();
    let started = format!("{before} {}", monotonic_ns());
    command
        .args(["--exact", "a_child_that_reads", "--nocapture"])
        .env(BASE, place.base())
        .env(STARTED, started);
    let read = command.output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn a_child_that_reads() {
    let (Some(base), Ok(started)) = (std::env::var_os(BASE), std::env::var(STARTED)) else { return };
    let ahead_ns = AHEAD_S.parse::<u64>().unwrap() * 1_000_000_000;
    let there: Vec<u64> = started.split(' ').map(|ns| ns.parse::<u64>().unwrap() + ahead_ns).collect();
    let folder = folders(Some(base.as_ref())).pop().unwrap();
    let snapshot = Reader::open(&folder, &folder.files()[0]).unwrap().snapshot().unwrap();
    assert!((there[0]..there[1]).contains(&snapshot.started_ns), "{there:?} {}", snapshot.started_ns);
    assert!(snapshot.started_ns <= monotonic_ns());
}

/// A child that runs no program of its own. As long as it lives it has what its parent had open, pipes of other tests too.
struct Forked(i32);

impl Drop for Forked {
    fn drop(&mut self) {
        // SAFETY: the child is waited for here alone, so the number is its own until then; the status is not asked for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// As a program does whose first thread ends by pthread_exit.
#[test]
fn a_process_whose_first_thread_has_ended_is_alive_while_another_runs() {
    let place = Place::new();
    // SAFETY: the child runs nothing of this process's but the C library, which keeps its own locks in order over a fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        write_on_another_thread(&place);
        // SAFETY: ends this thread alone, which holds nothing.
        unsafe { libc::syscall(libc::SYS_exit, 0) };
    }
    assert!(child > 0);
    let child = Forked(child);
    let reader = first_file(&place);
    let stat = format!("/proc/{}/stat", child.0);
    until(|| std::fs::read_to_string(&stat).unwrap().contains(") Z ").then_some(()));
    assert_eq!(reader.liveness(), Liveness::Alive);
    drop(child);
    assert_eq!(reader.liveness(), Liveness::Gone);
}

/// Until the process is killed, or a minute has passed.
fn write_on_another_thread(place: &Place) {
    let Ok(writer) = create(Some(place.base()), &identity()) else { std::process::abort() };
    std::thread::spawn(move || {
        for _ in 0..60_000 {
            writer.count(Kind::Send, Path::Vendor, Datatype(1), 1, 2, 3, 4);
            std::thread::sleep(Duration::from_millis(1));
        }
        std::process::abort();
    });
}

/// As a reader in another container sees it.
fn name_another_namespace(file: &std::path::Path) {
    let file = std::fs::File::options().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &1_u64.to_le_bytes(), 176).unwrap();
}

#[test]
fn a_forked_child_does_not_write_into_its_parents_file() {
    let place = Place::new();
    let writer = place.writer();
    let slot = writer.open(&CommunicatorFacts::default()).unwrap();
    slot.issued(1, now());
    // SAFETY: the child only stores into memory and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        abandon_in_child();
        writer.count(Kind::Send, Path::Vendor, Datatype(0), 1, 1, 1, 1);
        writer.event(EventKind::Error, Some(slot), 0, 0, "child");
        writer.decision("child");
        writer.call(&place::call(0));
        writer.fallback(Reason::Other, 1);
        writer.set_state(State::Disabled);
        slot.issued(1, now());
        slot.compressed(1);
        slot.close(Ended::Aborted);
        let opened = writer.open(&CommunicatorFacts::default()).is_some();
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(i32::from(opened)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child got a slot of its parent's");
    let snapshot = place.only().snapshot().unwrap();
    assert_eq!((snapshot.counts.len(), snapshot.fallbacks.len()), (0, 0));
    assert_eq!((snapshot.events_written, snapshot.decisions_written, snapshot.calls_written), (0, 0, 0));
    assert_eq!(
        (snapshot.state, snapshot.untracked, snapshot.sums.compressed_calls),
        (State::Observing, 0, 0)
    );
    assert_eq!((snapshot.communicators[0].issued, snapshot.communicators[0].ended), (1, None));
    assert_eq!(slot.issued(1, now()), 2, "the parent goes on");
}

#[test]
fn a_limit_on_the_size_of_files_ends_in_an_error_and_not_in_a_signal() {
    let place = Place::new();
    let mut child = Writing::start(&place, || {
        let limit = libc::rlimit { rlim_cur: 100_000, rlim_max: 100_000 };
        // SAFETY: a valid limit.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        Ok(())
    });
    assert_eq!(child.0.wait().unwrap().code(), Some(77));
    assert_eq!(std::fs::read_dir(place.folder().path()).unwrap().count(), 0, "nothing half made is left");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_thread_that_may_not_read_the_processors_counter_gets_no_file_and_lives() {
    let place = Place::new();
    // SAFETY: the child makes system calls only, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: from here on the counter ends the child.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV) };
        let refused = create(Some(place.base()), &identity()).is_err();
        // SAFETY: leaves without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "killed, or a file was made");
}

#[test]
fn no_umask_opens_or_shuts_the_file() {
    use std::os::unix::fs::PermissionsExt;
    let open: fn() -> std::io::Result<()> = || {
        // SAFETY: sets the new process's mask.
        unsafe { libc::umask(0) };
        Ok(())
    };
    let shut: fn() -> std::io::Result<()> = || {
        // SAFETY: sets the new process's mask.
        unsafe { libc::umask(0o777) };
        Ok(())
    };
    for umask in [open, shut] {
        let place = Place::new();
        let _child = Writing::start(&place, umask);
        first_file(&place);
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode(place.folder().path()), mode(&place.file())), (0o700, 0o600));
    }
}
