//! What the control plane means for its process: fork, signals, sleep, and an application that closes descriptors.
//! Each claim has a process of its own.

mod support;

use airamp_agreement::{Gate, Hello, Settled};
use airamp_control::{Hub, Timeouts, abandon_in_child};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::*;

/// Runs it in a forked process; whether it came through.
fn in_child(what: impl FnOnce()) -> bool {
    // SAFETY: the child runs `what`, which takes no lock of another thread's, and leaves by _exit.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let outcome = catch_unwind(AssertUnwindSafe(what));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(outcome.is_err())) };
    }
    let deadline = Instant::now() + LONG;
    loop {
        let mut status = 0;
        // SAFETY: `status` is a valid place for the result.
        match unsafe { libc::waitpid(pid, &raw mut status, libc::WNOHANG) } {
            0 if Instant::now() > deadline => {
                // SAFETY: our own child, not yet waited for.
                unsafe { libc::kill(pid, libc::SIGKILL) };
                return false;
            }
            0 => std::thread::sleep(Duration::from_millis(5)),
            _ => return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        }
    }
}

fn own_hub() -> &'static Hub {
    let timeouts = Timeouts { consensus: Duration::from_secs(20), doubt: Duration::from_secs(20) };
    Hub::get(timeouts, "a job", quiet()).expect("a hub")
}

fn two_on(hub: &Hub) -> Vec<Player> {
    let invitation = hub.introduce(LOCAL).unwrap().into();
    let players: Vec<_> = (0..2).map(|rank| sit(hub, invitation, rank, 2)).collect();
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    players
}

fn sockets() -> BTreeSet<String> {
    let links = fs::read_dir("/proc/self/fd").unwrap();
    let links = links.filter_map(|link| fs::read_link(link.unwrap().path()).ok());
    let links = links.map(|link| link.to_string_lossy().into_owned());
    links.filter(|link| link.starts_with("socket:")).collect()
}

#[test]
fn a_forked_child_keeps_no_socket_stays_away_from_old_seats_and_can_begin_anew() {
    assert!(in_child(|| {
        let before = sockets();
        let hub = own_hub();
        let remote = support::hub(options());
        let invitation = hub.introduce(LOCAL).unwrap().into();
        let players = [sit(hub, invitation, 0, 2), sit(&remote, invitation, 1, 2)];
        assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
        assert!(sockets().len() > before.len());
        assert!(in_child(|| {
            abandon_in_child();
            assert_eq!(sockets(), before);
            let seat = &players[0].seat;
            assert!(is_off(&seat.wait()) && seat.has_news() && seat.child(1).is_none());
            seat.report(b"x");
            seat.end();
            let again = own_hub();
            assert!(!std::ptr::eq(hub, again));
            two_on(again);
        }));
        // The parent has not noticed.
        players[1].seat.report(b"x");
        eventually("the report", || players[0].brain.has_heard("report 1"));
        std::mem::forget(remote);
    }));
}

#[test]
fn there_is_one_hub_whoever_asks_first() {
    assert!(in_child(|| {
        let hubs: Vec<usize> = std::thread::scope(|scope| {
            let ask = || std::ptr::from_ref(own_hub()) as usize;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(hubs.iter().all(|hub| *hub == hubs[0]));
        eventually("one thread", || control_threads().len() == 1);
    }));
}

fn control_threads() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let tasks = tasks.map(|task| task.unwrap().path().to_string_lossy().into_owned());
    let named = |task: &String| {
        fs::read_to_string(format!("{task}/comm")).is_ok_and(|name| name.trim() == "airamp-control")
    };
    tasks.filter(named).collect()
}

#[test]
fn the_thread_takes_no_signals_and_sleeps_without_a_time_out() {
    assert!(in_child(|| {
        let _players = two_on(own_hub());
        let thread = control_threads().pop().expect("the thread");
        let status = fs::read_to_string(format!("{thread}/status")).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
        for signal in
            [libc::SIGTERM, libc::SIGINT, libc::SIGCHLD, libc::SIGALRM, libc::SIGUSR1, libc::SIGPROF]
        {
            assert!(blocked & (1 << (signal - 1)) != 0, "signal {signal}");
        }
        // Number and arguments of the system call that it is in; the fourth is the time-out.
        eventually("sleep for ever", || {
            let call = fs::read_to_string(format!("{thread}/syscall")).unwrap();
            let timeout = call.split_whitespace().nth(4).and_then(|word| word.strip_prefix("0x"));
            let timeout = timeout.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            timeout.is_some_and(|timeout| timeout as i32 == -1)
        });
    }));
}

#[test]
fn an_application_that_closes_all_descriptors_gets_none_of_our_bytes() {
    assert!(in_child(|| {
        let hub = own_hub();
        let players = two_on(hub);
        let remote = support::hub(options());
        let invitation = hub.introduce(LOCAL).unwrap().into();
        let pair = [sit(hub, invitation, 0, 2), sit(&remote, invitation, 1, 2)];
        assert!(create_all(&pair).iter().all(|settled| *settled == Settled::On));
        // Nobody else comes: an alarm wakes the thread after the descriptors are gone.
        let alone = sit(hub, hub.introduce(LOCAL).unwrap().into(), 1, 2);
        alone.prepare();
        players[1].seat.report(b"x");
        eventually("the thread's turn", || players[0].brain.has_heard("report 1"));
        // SAFETY: closes what this process has open but for the standard three; nothing here relies on them.
        unsafe { libc::close_range(3, u32::MAX, 0) };
        // All numbers that were ours are now both ends of the application's own sockets.
        let mut own: Vec<UnixStream> = Vec::new();
        for _ in 0..40 {
            let (one, other) = UnixStream::pair().unwrap();
            one.set_nonblocking(true).unwrap();
            other.set_nonblocking(true).unwrap();
            own.extend([one, other]);
        }
        for player in players.iter().chain(&pair) {
            player.seat.report(b"x");
            player.seat.order(airamp_agreement::Order::Off);
            player.seat.end();
        }
        assert!(hub.introduce(LOCAL).is_err());
        assert!(is_off(&alone.seat.wait()));
        eventually("the end of the thread", || control_threads().len() <= 1);
        for pair in own.chunks_mut(2) {
            let [one, other] = pair else { continue };
            let outcome = (one.read(&mut [0; 8]), other.read(&mut [0; 8]));
            let (Err(none), Err(neither)) = outcome else { panic!("bytes came: {outcome:?}") };
            assert_eq!(none.kind(), std::io::ErrorKind::WouldBlock);
            assert_eq!(neither.kind(), std::io::ErrorKind::WouldBlock);
            assert_eq!(one.write(b"y").unwrap(), 1, "it is still open");
            assert_eq!(other.read(&mut [0; 8]).unwrap(), 1);
        }
        std::mem::forget(remote);
    }));
}

/// Stops the process for longer than the patience of its ranks.
fn stop_for_a_while() {
    let script = format!("sleep 2.5; kill -CONT {}", std::process::id());
    let mut shell = std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell");
    // SAFETY: stops this process until the shell lets it go on.
    unsafe { libc::raise(libc::SIGSTOP) };
    let _ = shell.wait();
}

#[test]
fn a_job_that_is_stopped_in_the_middle_of_a_vote_goes_on_as_if_nothing_had_happened() {
    assert!(in_child(|| {
        let timeouts = Timeouts { consensus: Duration::from_secs(20), doubt: Duration::from_secs(1) };
        let hubs = [(); 2].map(|()| support::hub(airamp_control::Options { timeouts, ..options() }));
        let invitation = hubs[0].introduce(LOCAL).unwrap().into();
        let member = sit(&hubs[1], invitation, 1, 2);
        let (gate, voted, stopped) =
            (Arc::new(Gate::new()), Arc::clone(&member.gate), AtomicBool::new(false));
        // Rank 0 is asked for its vote when rank 1 has pledged; there everybody is stopped.
        let reserved = move || {
            let until = Instant::now() + Duration::from_millis(300);
            while !stopped.load(Ordering::SeqCst) && Instant::now() < until {
                if voted.pledged().is_some() {
                    stopped.store(true, Ordering::SeqCst);
                    stop_for_a_while();
                    std::thread::sleep(Duration::from_millis(200));
                }
                std::thread::sleep(Duration::from_millis(10));
            }
            0
        };
        let brain = Thinker::with_plans(&[plan(1)]);
        let hello = Hello { rank: 0, ranks: 2, terms: vec![term("mode", "on")] };
        let seat =
            hubs[0].join(&invitation, hello, Arc::clone(&gate), Box::new(reserved), Box::new(brain.clone()));
        let leader = Player { rank: 0, seat, gate, reserved: Arc::default(), brain };
        let players = [leader, member];
        assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
        eventually("the switch", || players.iter().all(|player| player.gate.newest().1 == plan(1)));
        assert_eq!(players[1].gate.entry(10_000, 0), Ok(1));
    }));
}
