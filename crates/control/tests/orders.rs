//! An operator's orders over the Unix socket.

mod support;

use airamp_agreement::{Order, Settled};
use airamp_control::{Invitation, Options, orders};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use support::*;

fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
    folder
}

fn two_on(folder: &Path, job: &str) -> (Vec<airamp_control::Hub>, Vec<Player>) {
    let take = Options { orders: Some(folder.to_owned()), job: job.into(), ..options() };
    let hubs = vec![hub(take), hub(options())];
    let invitation = Invitation::from(hubs[1].introduce(LOCAL).unwrap());
    // The process that takes the order is not the leader's.
    let players = vec![sit(&hubs[1], invitation, 0, 2), sit(&hubs[0], invitation, 1, 2)];
    assert!(create_all(&players).iter().all(|settled| *settled == Settled::On));
    (hubs, players)
}

#[test]
fn an_order_reaches_the_leaders_brain_and_is_answered() {
    let folder = private_folder();
    let (_hubs, players) = two_on(folder.path(), "training");
    let answers = orders::send_in(folder.path(), Order::Off, None).unwrap();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].pid, std::process::id());
    assert_eq!((answers[0].job.as_str(), answers[0].communicators), ("training", 1));
    eventually("the order", || players[0].brain.has_heard("order Off"));
    orders::send_in(folder.path(), Order::On, Some("training")).unwrap();
    eventually("the order", || players[0].brain.has_heard("order On"));
}

#[test]
fn an_order_for_another_job_is_not_for_us() {
    let folder = private_folder();
    let (_hubs, players) = two_on(folder.path(), "training");
    assert_eq!(orders::send_in(folder.path(), Order::Off, Some("another")).unwrap(), []);
    // What came later has been heard, so the other would have been.
    orders::send_in(folder.path(), Order::On, Some("training")).unwrap();
    eventually("the order", || players[0].brain.has_heard("order On"));
    assert!(!players[0].brain.has_heard("order Off"));
}

#[test]
fn the_socket_is_the_users_alone_and_a_process_without_seats_has_none() {
    let folder = private_folder();
    let inner = folder.path().join("airamp");
    let idle = hub(Options { orders: Some(inner.clone()), ..options() });
    idle.introduce(LOCAL).unwrap();
    assert_eq!(orders::send_in(&inner, Order::Off, None).unwrap(), [], "there is no folder yet");
    let (_hubs, _players) = two_on(&inner, "training");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&inner), 0o700);
    let sockets: Vec<_> = fs::read_dir(&inner).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(sockets.len(), 1);
    assert_eq!(mode(&sockets[0]), 0o600);
}

#[test]
fn a_folder_that_others_can_write_to_is_not_used() {
    let folder = private_folder();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let (_hubs, _players) = two_on(folder.path(), "training");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    assert!(orders::send_in(folder.path(), Order::Off, None).is_err());
}

#[test]
fn what_a_process_left_behind_is_cleared_away_and_what_does_not_answer_left_out() {
    let folder = private_folder();
    drop(UnixListener::bind(folder.path().join("1.sock")).unwrap());
    fs::write(folder.path().join("notes.txt"), "").unwrap();
    // Bound again by a later process of the same number.
    drop(UnixListener::bind(folder.path().join(format!("{}.sock", std::process::id()))).unwrap());
    let (_hubs, players) = two_on(folder.path(), "training");
    assert_eq!(orders::send_in(folder.path(), Order::Off, None).unwrap().len(), 1);
    eventually("the order", || players[0].brain.has_heard("order Off"));
    assert!(!folder.path().join("1.sock").exists());
    assert!(folder.path().join("notes.txt").exists());
}

/// As old as the epoch, whatever it is.
fn age(path: &Path) {
    assert!(Command::new("touch").args(["-d", "@0"]).arg(path).status().unwrap().success());
}

#[test]
fn a_process_that_makes_its_socket_clears_away_what_ended_ones_left_and_nothing_else() {
    let folder = private_folder();
    let path = |name: &str| folder.path().join(name);
    let _living = UnixListener::bind(path("1.sock")).unwrap();
    for dead in ["2.sock", "3-1.sock", "4.sock", "5.other"] {
        drop(UnixListener::bind(path(dead)).unwrap());
    }
    fs::write(path("6.sock"), "no socket").unwrap();
    // One that is just being made does not listen yet.
    for old in ["1.sock", "2.sock", "3-1.sock", "5.other", "6.sock"] {
        age(&path(old));
    }
    let (_hubs, _players) = two_on(folder.path(), "training");
    let left =
        ["1.sock", "2.sock", "3-1.sock", "4.sock", "5.other", "6.sock"].map(|name| path(name).exists());
    assert_eq!(left, [true, false, false, true, true, true]);
}

#[test]
fn sockets_that_were_left_in_great_number_are_cleared_away_by_several_processes() {
    let folder = private_folder();
    for number in 0..300 {
        let path = folder.path().join(format!("{number}-9.sock"));
        drop(UnixListener::bind(&path).unwrap());
        age(&path);
    }
    let count = || fs::read_dir(folder.path()).unwrap().count();
    let _first = two_on(folder.path(), "training");
    assert!((1..300).contains(&count()), "{}", count());
    let _others: Vec<_> = (0..4).map(|_| two_on(folder.path(), "training")).collect();
    assert_eq!(count(), 5, "the living ones");
}

/// A process that has stopped takes no connection, and whoever connects to it in the usual way may wait for ever.
#[test]
fn a_process_that_takes_no_connections_holds_nobody_up() {
    let folder = private_folder();
    let path = folder.path().join("1.sock");
    let full = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    full.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    full.listen(0).unwrap();
    let waiting = UnixStream::connect(&path).unwrap();
    age(&path);
    let (_hubs, players) = two_on(folder.path(), "training");
    assert!(path.exists());
    drop((full, waiting));
    orders::send_in(folder.path(), Order::Off, None).unwrap();
    eventually("the order", || players[0].brain.has_heard("order Off"));
}

#[test]
fn a_folder_that_cannot_be_used_keeps_no_process_in_another_from_its_order() {
    let (open, ours, empty) = (private_folder(), private_folder(), private_folder());
    fs::set_permissions(open.path(), Permissions::from_mode(0o777)).unwrap();
    let (_hubs, players) = two_on(ours.path(), "training");
    let folders = [open.path(), ours.path(), empty.path()].map(Path::to_owned);
    let answers = orders::send_in_each(&folders, Order::Off, None).unwrap();
    assert_eq!(answers.len(), 1);
    eventually("the order", || players[0].brain.has_heard("order Off"));
    // Where nobody answers, the folder is the reason that can be told.
    assert!(orders::send_in_each(&folders, Order::Off, Some("another")).is_err());
}
