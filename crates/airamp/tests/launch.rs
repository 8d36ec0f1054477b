//! What `airamp run` promises about exit codes, signals, output and processes, with shell scripts as ranks.

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Stdio;

use support::{airamp, finish, is_alive, ranks, run, shell, start, stderr, stdout, wait_until};

fn send(pid: u32, signal: i32) {
    // SAFETY: kill has no memory preconditions; the id is that of a child which the test has not reaped.
    assert_eq!(unsafe { libc::kill(pid as i32, signal) }, 0);
}

/// Waits until this many files are in the folder; ranks use it to say that they are ready.
fn wait_for_files(folder: &Path, count: usize) {
    wait_until("the ranks are ready", || fs::read_dir(folder).expect("listed").count() == count);
}

fn words_in_files(folder: &Path) -> Vec<String> {
    let mut words: Vec<String> = fs::read_dir(folder)
        .expect("listed")
        .map(|entry| fs::read_to_string(entry.expect("an entry").path()).expect("read").trim().to_owned())
        .collect();
    words.sort();
    words
}

#[test]
fn a_program_without_ranks_takes_the_place_of_airamp() {
    let child = start(&mut airamp(&["run", "--no-preload", "--", "/bin/sh", "-c", "echo $$; exit 7"]));
    let pid = child.id();
    let output = finish(child);
    assert_eq!(stdout(&output).trim(), pid.to_string());
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn a_program_without_ranks_dies_of_its_own_signal() {
    let output = run(&mut airamp(&["run", "--no-preload", "--", "/bin/sh", "-c", "kill -TERM $$"]));
    assert_eq!(output.status.signal(), Some(libc::SIGTERM));
}

#[test]
fn every_rank_knows_its_place() {
    let script = "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:?}";
    let output = run(&mut ranks(3, script));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let port = lines[0].rsplit(' ').next().expect("a port").to_owned();
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{port}");
    let expected: Vec<String> =
        (0..3).map(|rank| format!("[{rank}] {rank} {rank} 3 3 127.0.0.1 {port}")).collect();
    assert_eq!(lines, expected);
}

#[test]
fn an_address_and_port_that_are_set_are_kept() {
    let mut command = ranks(1, "echo $MASTER_ADDR:$MASTER_PORT");
    let output = run(command.env("MASTER_ADDR", "10.0.0.7").env("MASTER_PORT", "29500"));
    assert_eq!(stdout(&output), "[0] 10.0.0.7:29500\n");
}

#[test]
fn the_exit_code_is_that_of_the_rank_that_failed_and_the_others_end() {
    let output = run(&mut ranks(3, "if [ $RANK = 1 ]; then exit 9; fi; exec sleep 1000"));
    assert_eq!(output.status.code(), Some(9));
    assert!(stderr(&output).contains("rank 1"), "{}", stderr(&output));
    assert!(stderr(&output).contains("exited with code 9; ending the other ranks"), "{}", stderr(&output));
}

#[test]
fn a_rank_that_is_killed_gives_128_plus_the_signal() {
    let output = run(&mut ranks(2, "if [ $RANK = 0 ]; then kill -SEGV $$; fi; exec sleep 1000"));
    assert_eq!(output.status.code(), Some(128 + libc::SIGSEGV));
    assert!(stderr(&output).contains("SIGSEGV"), "{}", stderr(&output));
}

#[test]
fn a_rank_that_ends_well_does_not_end_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "cd {}; if [ $RANK = 0 ]; then exit 0; fi; sleep 0.2; echo still here > $RANK",
        folder.path().display()
    );
    let output = run(&mut ranks(2, &script));
    assert!(output.status.success());
    assert_eq!(words_in_files(folder.path()), ["still here"]);
}

/// Rank 0 fails with 3 once rank 1 has set its trap for SIGTERM.
fn rank_0_fails_while_rank_1(trap: &str, grace: &str) -> std::process::Output {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "cd {}; if [ $RANK = 0 ]; then while [ ! -e ready ]; do sleep 0.02; done; exit 3; fi
        trap '{trap}' TERM; : > ready; while :; do sleep 0.02; done",
        folder.path().display()
    );
    let args = ["run", "--no-preload", "--ranks", "2", "--grace", grace, "--", "/bin/sh", "-c", &script];
    run(&mut airamp(&args))
}

#[test]
fn a_rank_that_ignores_sigterm_is_killed_after_the_grace_time() {
    let output = rank_0_fails_while_rank_1("", "0.3");
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("killing them"), "{}", stderr(&output));
}

#[test]
fn a_rank_may_use_the_grace_time_to_clean_up() {
    let output = rank_0_fails_while_rank_1("echo cleaned up; exit 0", "60");
    assert_eq!(output.status.code(), Some(3));
    assert!(stdout(&output).contains("[1] cleaned up"), "{}", stdout(&output));
}

#[test]
fn what_a_rank_started_does_not_outlive_the_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!("sleep 1000 & echo $! > {}/$RANK; exit 0", folder.path().display());
    let output = run(&mut ranks(2, &script));
    assert!(output.status.success());
    let orphans = words_in_files(folder.path());
    assert_eq!(orphans.len(), 2);
    for pid in orphans {
        assert!(!is_alive(&pid), "{pid} is an orphan");
    }
}

/// As a job under systemd or in a container: a SIGTSTP that comes there would stop it until somebody finds out.
#[test]
fn where_no_shell_could_continue_a_job_neither_it_nor_its_ranks_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    let script = format!(
        "cd {path}; trap ': > heard$RANK' USR2; : > $RANK; while ! [ -e heard0 -a -e heard1 ]; do sleep 0.02; done"
    );
    let mut command = ranks(2, &script);
    // SAFETY: setsid is async-signal-safe.
    unsafe {
        command.pre_exec(|| (libc::setsid() > 0).then_some(()).ok_or_else(std::io::Error::last_os_error))
    };
    let child = start(&mut command);
    wait_for_files(folder.path(), 2);
    send(child.id(), libc::SIGTSTP);
    send(child.id(), libc::SIGUSR2);
    let output = finish(child);
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn signals_reach_every_rank() {
    for (name, signal) in [
        ("INT", libc::SIGINT),
        ("TERM", libc::SIGTERM),
        ("HUP", libc::SIGHUP),
        ("USR1", libc::SIGUSR1),
        ("USR2", libc::SIGUSR2),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let script = format!(
            "trap 'echo got {name}; exit 0' {name}; : > {}/$RANK
            while :; do sleep 0.05; done",
            folder.path().display()
        );
        let mut command = ranks(2, &script);
        // A shell cannot trap what was ignored before it (under nohup, for example).
        // SAFETY: between fork and exec, signal is safe to call.
        unsafe { command.pre_exec(move || Ok(_ = libc::signal(signal, libc::SIG_DFL))) };
        let child = start(&mut command);
        wait_for_files(folder.path(), 2);
        send(child.id(), signal);
        let output = finish(child);
        let text = stdout(&output);
        for rank in 0..2 {
            assert!(text.contains(&format!("[{rank}] got {name}")), "{name}: {text} {}", stderr(&output));
        }
        assert_eq!(output.status.code(), Some(0), "{name}: every rank ended well");
    }
}

#[test]
fn ranks_that_die_of_a_signal_passed_on_give_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = start(&mut ranks(2, &format!(": > {}/$RANK; exec sleep 1000", folder.path().display())));
    wait_for_files(folder.path(), 2);
    send(child.id(), libc::SIGTERM);
    assert_eq!(finish(child).status.code(), Some(128 + libc::SIGTERM));
}

#[test]
fn the_ranks_die_with_airamp() {
    let folder = tempfile::tempdir().expect("a folder");
    let script =
        format!("cd {}; echo $$ > tmp$RANK; mv tmp$RANK $RANK; exec sleep 1000", folder.path().display());
    let child = start(&mut ranks(2, &script));
    wait_until("both ranks are named", || (0..2).all(|rank| folder.path().join(rank.to_string()).exists()));
    let pids = words_in_files(folder.path());
    send(child.id(), libc::SIGKILL);
    assert_eq!(finish(child).status.signal(), Some(libc::SIGKILL));
    wait_until("the ranks are gone", || pids.iter().all(|pid| !is_alive(pid)));
}

#[test]
fn lines_of_different_ranks_never_mix() {
    // Each line is written in two parts, with time for the others in between.
    let script = "for i in 1 2 3 4 5 6 7 8; do printf 'begin-'; sleep 0.01; printf 'end\\n'; done";
    let output = run(&mut ranks(4, script));
    let text = stdout(&output);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..32).map(|i| format!("[{}] begin-end", i / 8)).collect();
    assert_eq!(lines, expected);
}

#[test]
fn output_without_a_last_newline_and_bytes_that_are_no_text_arrive() {
    let output = run(&mut ranks(1, "printf 'a\\377b\\nlast'; printf 'oops' >&2"));
    assert_eq!(output.stdout, b"[0] a\xffb\n[0] last\n");
    assert_eq!(stderr(&output), "[0] oops\n");
}

#[test]
fn a_flood_without_newlines_is_handed_on_in_pieces() {
    let output = run(&mut ranks(2, "head -c 1000000 /dev/zero | tr '\\0' x"));
    let count = output.stdout.iter().filter(|byte| **byte == b'x').count();
    assert_eq!(count, 2_000_000);
    assert!(stdout(&output).lines().all(|line| line.len() < 150_000));
}

#[test]
fn rank_0_alone_reads_standard_input() {
    let mut command = ranks(3, "cat");
    let mut child = start(command.stdin(Stdio::piped()));
    child.stdin.take().expect("a pipe").write_all(b"hello\n").expect("written");
    let output = finish(child);
    assert_eq!(stdout(&output), "[0] hello\n");
}

#[test]
fn the_job_ends_when_nobody_reads_its_output() {
    let mut child = start(&mut ranks(2, "while :; do echo y; done"));
    drop(child.stdout.take());
    assert_eq!(finish(child).status.code(), Some(128 + libc::SIGPIPE));
}

#[test]
fn a_program_that_is_not_there_is_127_and_one_that_cannot_run_is_126() {
    for extra in [&["--no-preload"][..], &["--no-preload", "--ranks", "2"]] {
        for (program, code, text) in
            [("/nonexistent/program", 127, "no such program"), ("/etc/passwd", 126, "cannot be executed")]
        {
            let output = run(&mut airamp(&[&["run"], extra, &["--", program]].concat()));
            assert_eq!(output.status.code(), Some(code), "{program} {extra:?}");
            assert!(stderr(&output).contains(text), "{}", stderr(&output));
        }
    }
}

#[test]
fn a_missing_library_says_where_it_was_looked_for_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("airamp");
    shell("cp \"$1\" \"$2\"", &[Path::new(env!("CARGO_BIN_EXE_airamp")), &copy]);
    let output = run(std::process::Command::new(&copy).env_clear().args(["run", "--", "/bin/true"]));
    assert_eq!(output.status.code(), Some(125));
    let text = stderr(&output);
    for part in ["libairamp_accel.so", &folder.path().to_string_lossy(), "cargo build", "AIRAMP_HOME"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn the_library_is_preloaded_before_the_users_own_and_the_emulator_is_found_first() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["libairamp_accel.so", "libairamp_emulated_cuda.so", "libairamp_emulated_hip.so"] {
        fs::write(folder.path().join(name), "").expect("written");
    }
    let home = folder.path().to_str().expect("UTF-8");
    let print = "/usr/bin/env";
    let mut command = airamp(&["run", "--emulate", "--ranks", "1", "--", print]);
    let output = run(command
        .env("AIRAMP_HOME", home)
        .env("LD_PRELOAD", "/none/a.so /none/b.so")
        .env("LD_LIBRARY_PATH", "/none"));
    let text = stdout(&output);
    let preload = format!("[0] LD_PRELOAD={home}/libairamp_accel.so:/none/a.so:/none/b.so");
    let path = format!("[0] LD_LIBRARY_PATH={home}/emulator:/none");
    assert!(text.lines().any(|line| line == preload), "{text}");
    assert!(text.lines().any(|line| line == path), "{text}");
    let nccl = fs::read_link(folder.path().join("emulator/libnccl.so.2")).expect("a link");
    assert_eq!(nccl, folder.path().join("libairamp_emulated_cuda.so"));
}

#[test]
fn without_preloading_a_library_of_ours_that_is_inherited_goes_and_the_others_stay() {
    let print = ["run", "--no-preload", "--", "/bin/sh", "-c", "echo ${LD_PRELOAD-unset}"];
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("linked.so");
    fs::write(folder.path().join("libairamp_accel.so"), "").expect("written");
    std::os::unix::fs::symlink("libairamp_accel.so", &link).expect("linked");
    for (held, left) in [
        ("/none/libairamp_accel.so".to_owned(), "unset"),
        ("/none/a.so libairamp_accel.so:/none/b.so".to_owned(), "/none/a.so:/none/b.so"),
        (format!("{}:/none/a.so", link.display()), "/none/a.so"),
        ("/none/a.so /none/b.so".to_owned(), "/none/a.so /none/b.so"),
    ] {
        assert_eq!(stdout(&run(airamp(&print).env("LD_PRELOAD", &held))).trim_end(), left, "{held}");
    }
}

#[test]
fn the_programs_own_options_need_no_dashes_before_it() {
    let output = run(&mut airamp(&["run", "--no-preload", "/bin/sh", "-c", "echo $0", "--ranks"]));
    assert_eq!(stdout(&output), "--ranks\n");
}

#[test]
fn wrong_arguments_say_what_is_right_and_give_2() {
    for (args, part) in [
        (&["run"][..], "<CMD>"),
        (&["run", "--ranks", "0", "--", "true"], "expected a whole number from 1 to 1024"),
        (&["run", "--ranks", "-1", "--", "true"], "expected a whole number from 1 to 1024"),
        (&["run", "--ranks", "many", "--", "true"], "--ranks"),
        (&["run", "--hip", "--", "true"], "--emulate"),
        (&["run", "--ranks", "1", "--grace", "-1", "--", "true"], "from 0 to 3600"),
        (&["run", "--rank", "2", "--", "true"], "--ranks"),
        (&["run", "--no-preload", "--emulated", "true"], "--emulate"),
        (&["rum"], "run"),
        (&[], "Usage"),
    ] {
        let output = run(&mut airamp(args));
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(part), "{args:?}: {}", stderr(&output));
    }
}
