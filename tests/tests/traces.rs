//! `airamp record` and `airamp replay` on the emulator: a trace has every call of a job, and the calls of a replay are
//! those of its trace. The traces of a replay are recorded in turn and compared.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use airamp_telemetry::Kind;
use airamp_tests::comparison::Presence;
use airamp_tests::live::{Live, LiveJob};
use airamp_tests::{End, Outcome, Run, airamp, rank_program};
use airamp_trace::synthesise::synthesise;
use airamp_trace::{Call, Communicator, Trace, bytes_of, read_file, write_file};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// `airamp record -o FOLDER -- airamp …`.
fn recorded(folder: &Path, args: &[&str]) -> Outcome {
    let run =
        Run::new(airamp()).args(["record", "--note", "a test", "-o"]).arg(folder).arg("--").arg(airamp());
    run.args(args).env("NCCL_SOCKET_IFNAME", "lo").time_limit(LIMIT).run()
}

#[track_caller]
fn trace(folder: &Path, name: &str) -> Trace {
    read_file(&folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What of a call a replay has to keep.
fn what(call: &Call) -> (u16, u8, u8, u64, bool) {
    (call.communicator, call.kind, call.datatype, call.count, call.group)
}

/// Without the AllReduces of one byte by which a replay connects its ranks.
fn played(trace: &Trace) -> Vec<(u16, u8, u8, u64, bool)> {
    let warm_up = |call: &&Call| (call.kind, call.datatype, call.count) == (0, 1, 1);
    let calls = trace.calls.iter().skip_while(warm_up);
    calls.map(what).collect()
}

#[test]
fn a_trace_has_every_call_of_every_rank_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let program = rank_program();
    // Not as fast as it goes: a recorder without a processor for half a second would lose some.
    let steps = ["--steps", "5000", "--collective", "all_gather", "--bytes", "1024", "--compute-ms", "1"];
    let mut args = vec!["run", "--emulate", "--ranks", "3", "--", program.to_str().unwrap(), "steps"];
    args.extend(steps);
    let outcome = recorded(folder.path(), &args);
    outcome.assert_success();
    assert!(outcome.stderr_text().contains("recorded 15000 calls of 3 processes"), "{outcome}");
    let traces: Vec<Trace> = (0..3).map(|rank| trace(folder.path(), &format!("rank-{rank}.jsonl"))).collect();
    for (rank, trace) in (0..).zip(&traces) {
        assert_eq!((trace.calls.len(), trace.lost), (5000, 0), "more than the ring holds");
        let Communicator { name, .. } = traces[0].communicators[0];
        assert_eq!(trace.communicators, [Communicator { ranks: 3, rank, name }]);
        assert!(name != 0);
        let all_gather = (0, Kind::AllGather as u8, 7, 1024 / 4 / 3, false);
        assert!(trace.calls.iter().all(|call| what(call) == all_gather));
        assert!(trace.calls.windows(2).all(|two| two[0].at_ns <= two[1].at_ns));
        assert!(trace.calls.iter().any(|call| call.device_ns.is_some()), "some are timed by the library");
        assert_eq!(trace.source, "recorded: a test, airamp-rank, NCCL 2.28.9");
    }
    assert_eq!(traces.iter().map(|trace| trace.calls[0].at_ns).min(), Some(0));
}

#[test]
fn a_replay_makes_the_calls_of_its_trace_and_no_others() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = all_kinds();
    let file = first.path().join("made.jsonl");
    write_file(&made, &file).unwrap();
    let args = ["replay", file.to_str().unwrap(), "--ranks", "3", "--speed", "max", "--json"];
    let outcome = recorded(second.path(), &args);
    outcome.assert_success();
    let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(report["results"].as_array().map(Vec::len), Some(3), "{report:#}");
    for (rank, result) in report["results"].as_array().unwrap().iter().enumerate() {
        assert_eq!((&result["rank"], &result["left_out"]), (&rank.into(), &1.into()));
        assert_eq!(result["calls"].as_u64(), Some(made.calls.len() as u64 - 1));
        assert!(result["first_us"]["p50"].as_f64().is_some_and(|us| us > 0.0), "{result:#}");
        assert!(result["host_us"]["p99"].as_f64() >= result["host_us"]["p50"].as_f64());
        let again = trace(second.path(), &format!("rank-{rank}.jsonl"));
        assert_eq!(again.communicators.len(), 2);
        assert_eq!(played(&again), expected(&made));
    }
}

/// Every kind of call, alone and in groups, on two communicators, and one that was captured.
fn all_kinds() -> Trace {
    let communicators =
        vec![Communicator { ranks: 4, rank: 1, name: 5 }, Communicator { ranks: 2, rank: 0, name: 6 }];
    let mut calls = Vec::new();
    let mut add = |communicator, kind: Kind, datatype, count, group| {
        // The calls of a group come at one moment.
        let at_ns = if group { 1_000_000 } else { 1000 * calls.len() as u64 };
        let (bytes, kind) = (bytes_of(datatype, count), kind as u8);
        calls.push(Call { at_ns, communicator, kind, datatype, count, bytes, group, ..Call::default() });
    };
    for kind in Kind::ALL.iter().filter(|kind| !matches!(kind, Kind::Send | Kind::Recv)) {
        add(0, *kind, 7, 300, false);
        add(1, *kind, 9, 30, false);
    }
    for (kind, datatype) in [(Kind::AllReduce, 7), (Kind::AllGather, 2), (Kind::Send, 6), (Kind::Recv, 6)] {
        add(0, kind, datatype, 500, true);
    }
    let mut alone = calls[0];
    alone.at_ns = 40_000_000;
    calls.push(Call { captured: true, ..alone });
    calls.push(alone);
    Trace { version: 1, source: "a test".into(), communicators, calls, lost: 0 }
}

/// As the calls of all kinds come out: an uneven AllToAll as an even one, and one with a bias as one without.
fn expected(made: &Trace) -> Vec<(u16, u8, u8, u64, bool)> {
    let live = made.calls.iter().filter(|call| !call.captured);
    live.map(|call| match Kind::from_number(call.kind.into()) {
        Some(Kind::AllToAllV) => {
            (call.communicator, Kind::AllToAll as u8, call.datatype, call.count / 3, false)
        }
        Some(Kind::AllReduceWithBias) => (call.communicator, 0, call.datatype, call.count, false),
        _ => what(call),
    })
    .collect()
}

#[test]
fn made_up_jobs_can_be_played_with_the_library_and_without() {
    let limits = ["--calls", "60", "--largest", "8KiB", "--speed", "max", "--ranks", "2", "--json"];
    for recipe in ["interleaved steps=3 layers=2", "decode steps=3", "aperiodic steps=3"] {
        for library in [&[][..], &["--no-preload"]] {
            let run = Run::new(airamp()).args(["replay", "--recipe", recipe]).args(limits).args(library);
            let outcome = run.env("NCCL_SOCKET_IFNAME", "lo").time_limit(LIMIT).run();
            outcome.assert_success();
            let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
            assert_eq!(report["library"], library.is_empty());
            assert_eq!(report["results"][0]["calls"], 60, "{recipe}");
        }
    }
}

#[test]
fn what_was_recorded_on_a_gpu_can_be_played() {
    let folder = airamp_tests::package_dir().join("traces/recorded");
    for part in ["ddp", "fsdp", "accumulation", "decode", "graphs"] {
        let run = Run::new(airamp()).arg("replay").arg(folder.join(part).with_extension("jsonl"));
        let run = run.args(["--calls", "150", "--largest", "4KiB", "--speed", "max", "--json"]);
        let outcome = run.env("NCCL_SOCKET_IFNAME", "lo").time_limit(LIMIT).run();
        outcome.assert_success();
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        let captured = if part == "graphs" { 4 } else { 0 };
        assert_eq!(report["results"][0]["left_out"], captured, "{part}");
        assert_eq!(report["results"][1]["calls"], 150 - captured, "{part}");
    }
}

#[test]
fn a_replay_at_recorded_speed_takes_as_long_as_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x.jsonl");
    write_file(&synthesise("ddp steps=10 buckets=2 step_ms=50 bucket_mib=0.01").unwrap(), &file).unwrap();
    let wall_ms = |speed: &str| {
        let run =
            Run::new(airamp()).arg("replay").arg(&file).args(["--json", "--ranks", "2", "--speed", speed]);
        let outcome = run.env("NCCL_SOCKET_IFNAME", "lo").time_limit(LIMIT).run();
        outcome.assert_success();
        let report: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        report["results"][0]["wall_ms"].as_f64().unwrap()
    };
    // No upper bound: two busy cores may be late.
    assert!(wall_ms("recorded") >= 450.0);
    assert!(wall_ms("0.5") >= 900.0);
}

#[test]
fn ranks_that_read_different_traces_refuse_to_play() {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..2 {
        let trace = synthesise(&format!("ddp steps=2 bucket_mib=0.0{}", rank + 1)).unwrap();
        write_file(&trace, &folder.path().join(format!("{rank}.jsonl"))).unwrap();
    }
    let run = Presence::Preloaded.applied_to(Run::new(rank_program()).args(["replay", "--speed", "max"]));
    let run = run.env("NCCL_SOCKET_IFNAME", "lo");
    let outcomes = run.run_unequal_ranks(2, |rank, run| run.arg(folder.path().join(format!("{rank}.jsonl"))));
    for outcome in outcomes {
        assert_eq!(outcome.end, End::Code(2), "{outcome}");
        assert!(outcome.stderr_text().contains("different traces"), "{outcome}");
    }
}

#[test]
fn a_job_that_runs_is_recorded_until_it_is_told_and_goes_on() {
    let (base, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut job = LiveJob::start(base.path(), "live", 2, &["--bytes", "4096", "--compute-ms", "1"]);
    job.await_first_step();
    let out = folder.path().join("out");
    let run = Run::new(airamp()).args(["record", "--job", "live", "--telemetry-dir"]).arg(base.path());
    let recorder = Live::start(&run.arg("-o").arg(&out));
    until(&recorder, || recorder.complaints().contains("watching 2 processes"));
    // Something to be recorded.
    std::thread::sleep(Duration::from_millis(500));
    // Ctrl-C does the same, but is ignored by whatever a shell has started in the background.
    recorder.signal(libc::SIGTERM);
    recorder.finish().assert_success();
    for rank in 0..2 {
        let trace = trace(&out, &format!("rank-{rank}.jsonl"));
        assert!(!trace.calls.is_empty() && trace.lost == 0);
        job.signal(rank, 0);
    }
}

#[track_caller]
fn until(recorder: &Live, wanted: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !wanted() {
        assert!(Instant::now() < deadline, "{}", recorder.complaints());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn what_the_program_returns_is_returned() {
    let folder = tempfile::tempdir().unwrap();
    let record = |command: &[&str]| {
        let run = Run::new(airamp()).args(["record", "-o"]).arg(folder.path()).arg("--").args(command);
        run.run()
    };
    assert_eq!(record(&["sh", "-c", "exit 7"]).end, End::Code(7));
    assert_eq!(record(&["sh", "-c", "kill -9 $$"]).end, End::Code(137));
    assert_eq!(record(&["/no/such/program"]).end, End::Code(127));
    let nothing = record(&["sh", "-c", "ls -d \"$AIRAMP_TELEMETRY_DIR\""]);
    let telemetry = nothing.stdout_text();
    assert!(telemetry.contains("airamp-record-") && !Path::new(telemetry.trim_end()).exists(), "{nothing}");
    assert_eq!(nothing.end, End::Code(1));
    assert!(nothing.stderr_text().contains("no call was recorded"), "{nothing}");
    let file: PathBuf = folder.path().join("rank-0.jsonl");
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(record(&["true"]).end, End::Code(2), "a trace is not overwritten");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn who_is_not_there_is_named_and_where_to_look_is_said() {
    let (base, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (option, value, named) in
        [("--pid", "999999999", "process 999999999"), ("--job", "nobody's", "job \"nobody's\"")]
    {
        let run = Run::new(airamp()).args(["record", option, value]).arg("-o").arg(out.path());
        let outcome = run.env("AIRAMP_TELEMETRY_DIR", base.path()).run();
        assert_eq!(outcome.end, End::Code(1), "{outcome}");
        for part in [named, "is seen here", "--telemetry-dir"] {
            assert!(outcome.stderr_text().contains(part), "{part}: {outcome}");
        }
        assert!(!outcome.stderr_text().contains("must use NCCL"), "{outcome}");
    }
}

#[test]
fn a_recorder_that_is_told_to_end_passes_it_on_and_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let program = rank_program();
    let command = [airamp().to_str().unwrap(), "run", "--emulate", "--ranks", "2", "--"].map(str::to_owned);
    let run = Run::new(airamp()).arg("record").arg("-o").arg(&out).arg("--").args(command).arg(program);
    let run = run.args(["steps", "--compute-ms", "1"]).env("NCCL_SOCKET_IFNAME", "lo");
    let recorder = Live::start(&run);
    until(&recorder, || recorder.has_said("[1] {\"event\":\"running\""));
    recorder.signal(libc::SIGTERM);
    let outcome = recorder.finish();
    assert_eq!(outcome.end, End::Code(128 + libc::SIGTERM), "{outcome}");
    assert!(!trace(&out, "rank-0.jsonl").calls.is_empty());
}
