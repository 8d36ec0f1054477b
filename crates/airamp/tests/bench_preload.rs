//! `airamp bench --preload` with a shell script in the place of the rank program: what it starts, and its
//! exit code.

#[path = "support/home.rs"]
mod home;
mod support;

use std::process::{Command, Output};

use home::Home;
use support::{run, stderr, stdout};

/// Prints what a rank prints whose one measurement has the digest in `$digest`.
const MEASURES: &str = r#"
plan='{"event":"plan","rank":0,"ranks":2,"nccl":"x","version":22809,"measurements":1}'
result() {
printf '{"event":"result","rank":%s,"collective":"all_reduce","datatype":"float32","bytes":1024,' $RANK
printf '"median_us":1.0,"algorithm_gbs":1.0,"bus_gbs":1.0,"digest":"%s","correct":true}\n' "$digest"
}
"#;

fn home(script: &str) -> Home {
    Home::new(&format!("{MEASURES}{script}"))
}

fn preload(home: &Home, args: &[&str]) -> Command {
    home.bench(&[&["--preload"], args].concat())
}

fn well(command: &mut Command) -> Output {
    let output = run(command);
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    output
}

#[test]
fn the_bare_side_is_bare_whatever_is_preloaded_already() {
    let home = home("digest=a; echo \"$plan\"; result; echo \"-$LD_PRELOAD-\" >> $AIRAMP_HOME/seen");
    let ours = home.path().join("libairamp_accel.so");
    let preloaded = format!("/none/a.so {}:/elsewhere/libairamp_accel.so", ours.display());
    well(preload(&home, &["--ranks", "2"]).env("LD_PRELOAD", preloaded));
    let with = format!("-{}:/none/a.so-", ours.display());
    let seen = home.seen();
    let count = |expected: &str| seen.lines().filter(|line| *line == expected).count();
    assert_eq!((count("-/none/a.so-"), count(&with)), (8, 8), "{seen}");
}

#[test]
fn the_ranks_meet_on_this_machine_whatever_the_environment_says() {
    let home = home("digest=a; echo \"$plan\"; result; echo $MASTER_ADDR:$MASTER_PORT >> $AIRAMP_HOME/seen");
    well(preload(&home, &[]).env("MASTER_ADDR", "10.0.0.7").env("MASTER_PORT", "29500"));
    for line in home.seen().lines() {
        assert!(line.starts_with("127.0.0.1:") && !line.ends_with(":29500"), "{line}");
    }
}

#[test]
fn results_that_differ_are_1_and_so_is_a_rank_that_fails() {
    let differs = home("digest=a$LD_PRELOAD; echo \"$plan\"; result");
    let output = run(&mut preload(&differs, &[]));
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).lines().last().is_some_and(|line| line.ends_with("no")), "{}", stdout(&output));
    for ends in ["exit 1", "exit 0", "exit 7", "kill -KILL $$"] {
        let output = run(&mut preload(&home(ends), &[]));
        assert_eq!(output.status.code(), Some(1), "{ends}: {}", stderr(&output));
        assert!(stderr(&output).contains("before it was complete"), "{}", stderr(&output));
    }
}

#[test]
fn a_size_with_no_element_for_each_rank_is_refused_before_anything_starts() {
    let home = home("echo started >> $AIRAMP_HOME/seen; exit 7");
    for (args, part) in [
        (&["--sizes", "9", "--ranks", "3", "--datatypes", "float64"][..], "24 bytes"),
        (&["--sizes", "1MiB,8", "--ranks", "4", "--datatypes", "int8,float32"], "16 bytes"),
    ] {
        let output = run(&mut preload(&home, args));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert!(!home.path().join("seen").exists());
    // An AllReduce needs one element in all.
    let args = ["--sizes", "8", "--ranks", "4", "--datatypes", "float64", "--collectives", "all_reduce"];
    assert_eq!(run(&mut preload(&home, &args)).status.code(), Some(1));
    assert!(home.seen().contains("started"));
}

#[test]
fn what_belongs_to_the_other_benchmark_is_refused() {
    let home = home("exit 7");
    for args in [
        &["--formats", "auto"][..],
        &["--data", "zeros"],
        &["--average"],
        &["--arena-bytes", "1MiB"],
        &["--chart", "a.svg"],
        &["--ranks", "2,4"],
        &["--link-rate", "1gbit,2gbit"],
    ] {
        assert_eq!(run(&mut preload(&home, args)).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(run(&mut home.bench(&["--collectives", "all_gather"])).status.code(), Some(2));
}
