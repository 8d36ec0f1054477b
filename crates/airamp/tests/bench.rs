//! `airamp bench` with a shell script in the place of the rank program: what it starts, and its exit code.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use support::{airamp, run, shell, stderr, stdout};

const PLAN: &str = r#"{"event":"plan","rank":0,"ranks":2,"nccl":"x","version":22809,"measurements":1}"#;

/// What each rank prints for its one measurement; rank and digest are shell variables.
const RESULT: &str = r#"printf '{"event":"result","rank":%s,"collective":"all_reduce","datatype":"float32",
"bytes":1024,"median_us":1.0,"algorithm_gbs":1.0,"bus_gbs":1.0,"digest":"%s","correct":true}\n' $RANK $digest"#;

/// A folder with the artifacts, of which only the rank program does anything.
struct Home(tempfile::TempDir);

impl Home {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["libairamp_accel.so", "libairamp_emulated_cuda.so", "libairamp_emulated_hip.so"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let (text, program) = (folder.path().join("script"), folder.path().join("airamp-rank"));
        let result = RESULT.replace('\n', "");
        fs::write(&text, format!("#!/bin/sh\nplan='{PLAN}'\nresult() {{ {result}; }}\n{script}\n"))
            .expect("written");
        shell("cp \"$1\" \"$2\"; chmod 755 \"$2\"", &[&text, &program]);
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn bench(&self, args: &[&str]) -> Command {
        let mut command = airamp(&[&["bench"], args].concat());
        command.env("AIRAMP_HOME", self.path());
        command
    }
}

fn well(command: &mut Command) -> Output {
    let output = run(command);
    assert_eq!(output.status.code(), Some(0), "{} {}", stdout(&output), stderr(&output));
    output
}

#[test]
fn the_bare_side_is_bare_whatever_is_preloaded_already() {
    let home = Home::new("digest=a; echo \"$plan\"; result; echo \"-$LD_PRELOAD-\" >> $AIRAMP_HOME/seen");
    let ours = home.path().join("libairamp_accel.so");
    let preloaded = format!("/none/a.so {}:/elsewhere/libairamp_accel.so", ours.display());
    well(home.bench(&["--ranks", "2"]).env("LD_PRELOAD", preloaded));
    let seen = fs::read_to_string(home.path().join("seen")).expect("written by the ranks");
    let with = format!("-{}:/none/a.so-", ours.display());
    let count = |expected: &str| seen.lines().filter(|line| *line == expected).count();
    assert_eq!((count("-/none/a.so-"), count(&with)), (8, 8), "{seen}");
}

#[test]
fn the_ranks_meet_on_this_machine_whatever_the_environment_says() {
    let home =
        Home::new("digest=a; echo \"$plan\"; result; echo $MASTER_ADDR:$MASTER_PORT >> $AIRAMP_HOME/seen");
    well(home.bench(&["--ranks", "2"]).env("MASTER_ADDR", "10.0.0.7").env("MASTER_PORT", "29500"));
    let seen = fs::read_to_string(home.path().join("seen")).expect("written by the ranks");
    for line in seen.lines() {
        assert!(line.starts_with("127.0.0.1:") && !line.ends_with(":29500"), "{line}");
    }
}

#[test]
fn results_that_differ_are_1_and_a_rank_that_fails_is_not() {
    let differs = Home::new("digest=a$LD_PRELOAD; echo \"$plan\"; result");
    assert_eq!(run(&mut differs.bench(&[])).status.code(), Some(1));
    for (ends, code) in [("exit 1", 3), ("exit 0", 3), ("exit 7", 7), ("kill -KILL $$", 137)] {
        let output = run(&mut Home::new(ends).bench(&[]));
        assert_eq!(output.status.code(), Some(code), "{ends}: {}", stderr(&output));
        assert!(stderr(&output).contains("before it was complete"), "{}", stderr(&output));
    }
}

#[test]
fn a_size_with_no_element_for_each_rank_is_refused_before_anything_starts() {
    let home = Home::new("exit 7");
    for (args, part) in [
        (&["--sizes", "9", "--ranks", "3", "--datatypes", "float64"][..], "24 bytes"),
        (&["--sizes", "1MiB,8", "--ranks", "4", "--datatypes", "int8,float32"], "16 bytes"),
    ] {
        let output = run(&mut home.bench(args));
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    // An AllReduce needs one element in all.
    let args = ["--sizes", "8", "--ranks", "4", "--datatypes", "float64", "--collectives", "all_reduce"];
    assert_eq!(run(&mut home.bench(&args)).status.code(), Some(7));
}

#[test]
fn the_help_has_no_line_that_breaks_off() {
    let help = stdout(&run(&mut airamp(&["bench", "--help"])));
    let text = help.split_once("The time of a measurement").expect("the explanation").1;
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).collect();
    for line in &paragraph[..paragraph.len() - 1] {
        assert!(line.len() > 70, "{line:?}");
    }
}
