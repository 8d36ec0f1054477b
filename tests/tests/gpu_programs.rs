//! The parts of tests/gpu/suite without a GPU: on the emulator, with what `tests/gpu/pack` packs, those that need no PyTorch; the
//! others with ranks that are made up. What a job that fails or falls short leads to. Speeds are not judged.

use std::fs;
use std::path::Path;

use airamp_tests::gpu::{
    NO_GPU, emulated, folder, json, made_up, packed, program, verdicts, with_airamp, with_stand_ins,
};
use airamp_tests::packages::have;
use airamp_tests::{End, Outcome, artifacts};
use serde_json::Value;

#[test]
fn the_parts_that_need_no_pytorch_run_on_the_emulator() {
    if !have(&["python3", "bash", "strip"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let part = |name: &str, words: &[&str]| {
        let outcome = emulated(name, packed()).args(words).arg("--output").arg(out.path()).run();
        let stem = name.trim_end_matches(".py");
        let part = json(&out.path().join(format!("{stem}.json")));
        assert_eq!(part["finished"], true, "{outcome}");
        assert!(matches!(outcome.end, End::Code(0 | 1)), "{outcome}");
        part
    };
    assert_eq!(verdicts(&part("contexts.py", &[])), ["ok", "ok"]);
    let grid =
        part("grid.py", &["--ranks", "2", "--wires", "loopback", "--sizes", "1KiB", "--seconds", "60"]);
    assert!(grid["cells"].as_array().is_some_and(|cells| cells.len() == 3), "{grid}");
    let exchanges =
        part("exchanges.py", &["--ranks", "4,2", "--size", "1", "--chunks", "1", "--rounds", "1"]);
    assert_eq!(verdicts(&exchanges), ["ok", "ok"], "{exchanges}");
    // A whole link's speed is not that of two busy cores.
    let compressed =
        part("compressed.py", &["--parts", "unshaped,errors", "--ranks", "2", "--sizes", "256KiB"]);
    assert_eq!(verdicts(&compressed)[1..], ["ok"; 3], "{compressed}");
    assert_eq!(compressed["jobs"].as_array().map(Vec::len), Some(4), "{compressed}");
}

#[test]
fn parts_for_pytorch_ask_judge_write_and_are_reported() {
    if !have(&["python3"]) {
        return;
    }
    let (out, docs) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let parts: [(&str, &[&str]); 8] = [
        ("memory", &["memory"]),
        ("training", &["training"]),
        ("tuning", &["tuning", "--parts", "unshaped,small,missing,graphs,killed"]),
        ("semantics", &["semantics"]),
        ("nodes", &["semantics", "--name", "nodes", "--ranks", "4", "--per-node", "2"]),
        ("kernels", &["kernels"]),
        ("memcheck", &["kernels", "--under", "memcheck"]),
        ("racecheck", &["kernels", "--under", "racecheck"]),
    ];
    for (name, words) in parts {
        let outcome = made_up(words, out.path(), false);
        outcome.assert_success();
        let part = json(&out.path().join(format!("{name}.json")));
        assert!(verdicts(&part).iter().all(|verdict| *verdict == "ok"), "{part}");
    }
    program("report.py")
        .arg(out.path())
        .arg("--docs")
        .arg(docs.path())
        .args(["--name", "made-up"])
        .run()
        .assert_success();
    let page = fs::read_to_string(docs.path().join("made-up.md")).expect("the page");
    for row in [
        "| 8 | 0.0 |",
        "| 8 | 0.0 | 1024 |",
        "| fp32 | 2 | 1.0000 |",
        "| 4 | two | ok | 3 |",
        "50, 50% | 90, 90%",
        "0 hazards",
    ] {
        assert!(page.contains(row), "{row} is not in {page}");
    }
    assert_eq!(page.matches("\n## ").count(), parts.len());
    assert!(page.contains("Not in this report: no AllReduce slower"), "{page}");
}

#[test]
fn what_lacked_time_is_skipped_and_no_failure() {
    if !have(&["python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    for name in ["memory", "training", "tuning", "semantics"] {
        made_up(&[name, "--seconds", "3"], out.path(), false);
        let part = json(&out.path().join(format!("{name}.json")));
        let found = verdicts(&part);
        assert!(found.contains(&"skipped") && !found.contains(&"FAILED"), "{part}");
    }
}

/// Its server may be wedged for the jobs behind it.
#[test]
fn a_job_that_ends_is_followed_by_a_fresh_daemon_of_mps() {
    if !have(&["python3", "bash", "setsid"]) {
        return;
    }
    for (words, ends) in [("memory", "all_reduce"), ("tuning --parts small,missing", "small")] {
        let work = tempfile::tempdir().expect("a temporary folder");
        let run = with_stand_ins(emulated("with_mps", &artifacts::folder()), work.path());
        let run = run.arg("python3").arg(folder().join("stand-ins/conduct.py")).args(words.split(' '));
        let outcome = run.arg("--output").arg(work.path()).env("ENDS", ends).run();
        assert_eq!(outcome.end, End::Code(1), "{outcome}");
        let name = words.split(' ').next().unwrap_or_default();
        let part = json(&work.path().join(format!("{name}.json")));
        let found = verdicts(&part);
        assert_eq!(found[0], "FAILED", "{part}");
        assert!(found[1..].iter().all(|verdict| *verdict == "ok"), "{part}");
        let told = fs::read_to_string(work.path().join("mps")).expect("what MPS was told");
        assert_eq!(told, "start\nquit\nstart\nquit\n", "{words}");
    }
}

#[test]
fn a_sanitizer_that_says_nothing_is_no_proof() {
    if !have(&["python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    for tool in ["memcheck", "racecheck"] {
        let outcome = made_up(&["kernels", "--under", tool], out.path(), true);
        assert_eq!(outcome.end, End::Code(1), "{outcome}");
    }
}

#[test]
fn a_kernel_below_the_floor_is_measured_twice_more() {
    if !have(&["python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let outcome = made_up(
        &["kernels", "--floor", "80", "--types", "f16", "--ranks", "2", "--sizes", "64"],
        out.path(),
        false,
    );
    assert_eq!(outcome.end, End::Code(1), "{outcome}");
    let part = json(&out.path().join("kernels.json"));
    let rates = part["rates"].as_array().expect("rates");
    let again: Vec<_> = rates.iter().filter_map(|one| one["all"].as_array()).map(Vec::len).collect();
    assert_eq!(again, [3; 3], "quantise, dequantise_sum and reduce, e4m3: {part}");
    assert_eq!(verdicts(&part), ["ok", "FAILED", "FAILED"], "reduce of 2 ranks apart: {part}");
}

#[test]
fn benchmarks_for_the_plan_are_a_file_a_run() {
    if !have(&["python3", "bash", "strip"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let run = emulated("plan_runs", packed()).arg(out.path());
    run.env("SIZES", "64KiB").env("RANKS", "2").env("RUNS", "1").run().assert_success();
    let first = json(&out.path().join("loopback-1.json"));
    assert_eq!(first["complete"], true, "{first}");
}

fn conformance(bin: &Path, work: &Path, tasks: &str) -> (Outcome, Value) {
    let numbers = work.join("conformance.json");
    let run = with_stand_ins(emulated("run", bin), work)
        .arg(work.join("report.txt"))
        .arg(&numbers)
        .env("PYTHON", "false")
        .env("TASKS", tasks)
        .env("CONFORMANCE", "--quick --filter group/");
    (run.run(), json(&numbers))
}

#[test]
fn conformance_and_scenarios_run_without_pytorch() {
    if !have(&["bash", "strip"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let (outcome, numbers) = conformance(packed(), work.path(), "conformance-2,pytorch,others-2");
    outcome.assert_success();
    assert_eq!(verdicts(&numbers), ["ok", "skipped", "ok"], "{numbers}");
}

/// A task that another one's crash has ended is right where it runs alone; that it failed first is not kept quiet.
#[test]
fn what_fails_is_repeated_alone_on_a_fresh_daemon_and_said() {
    if !have(&["bash"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let script = r#"case "$*" in *"scenario children"*) [ -e "$STAND_IN.failed" ] || { : >"$STAND_IN.failed"; exit 1; } ;; esac
        exec REAL "$@""#;
    let bin = with_airamp(script);
    let (outcome, numbers) = conformance(bin.path(), work.path(), "children");
    outcome.assert_success();
    assert_eq!(verdicts(&numbers), ["ok"], "{numbers}");
    let found = numbers["checks"][0]["found"].as_str().expect("what was found");
    assert!(found.contains("children failed; repeated, alone"), "{found}");
    assert!(outcome.stdout_text().contains("only when repeated alone: children"), "{outcome}");
    let told = fs::read_to_string(work.path().join("mps")).expect("what MPS was told");
    // Of the first batch, the second, two of lifetimes, and the repeated task.
    assert_eq!((told.matches("start").count(), told.matches("quit").count()), (5, 5), "{told}");
}

#[test]
fn an_arrangement_that_fails_is_left_out_and_the_others_are_measured() {
    if !have(&["python3"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let outcome = emulated("exchanges.py", &artifacts::folder())
        .args(["--ranks", "4", "--size", "1", "--chunks", "1", "--rounds", "1"])
        .arg("--output")
        .arg(out.path())
        // That of the first communicator of a pair.
        .env("AIRAMP_EMU_FAIL_CALL", "ncclCommSplit:2:3")
        .run();
    assert_eq!(outcome.end, End::Code(1), "{outcome}");
    let part = json(&out.path().join("exchanges.json"));
    let trial = &part["trials"][0];
    assert!(
        trial["failed"]["pairs of ranks"]
            .as_str()
            .is_some_and(|why| why.contains("ncclCommSplit returned 3")),
        "{trial}"
    );
    assert!(trial["seconds"]["two, scatter and gather"].is_number(), "{trial}");
    for way in ["pairs", "pairs at once", "pairs at once, beside"] {
        assert!(trial["seconds"][way].is_null(), "{way}: {trial}");
    }
    // Messages that have run alone leave their kernel's stack to those beside a Reduce.
    let first_use = |way: &str| outcome.stdout_text().find(&format!("use of: {way}  ")).expect(way);
    assert!(first_use("a reduce beside") < first_use("one communicator"), "{outcome}");
}

/// The first try is cut off and leaves its rate, the second falls short, and the one with more iterations counts.
#[test]
fn a_shaped_job_is_tried_again_where_it_fails_and_repeated_where_it_falls_short() {
    if !have(&["python3"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let script = r#"echo "$*" >>"$STAND_IN.calls"
        : >"$(echo "$NCCL_DEBUG_FILE" | sed s/%p/7/)"
        [ $(wc -l <"$STAND_IN.calls") -gt 1 ] || { : >"$LOOPBACK"; echo "no route" >&2; exit 1; }
        [ ! -e "$LOOPBACK" ] || { echo "loopback is shaped already" >&2; exit 2; }
        case "$*" in *"--iterations 15"*) speedup=3.9 ;; *) speedup=1.5 ;; esac
        row='"ranks":2,"bytes":67108864,"format":"auto","is_ours":true,"not_offered":null,"time_us":1,"vnmse":1e-5,"identical_bits":true'
        echo '{"complete":true,"environment":null,"settings":{},"results":[{"datatype":"float32","speedup":'$speedup','$row'}]}'"#;
    let bin = with_airamp(script);
    let run = with_stand_ins(emulated("compressed.py", bin.path()), work.path());
    let words = ["--parts", "shaped", "--ranks", "2", "--rates", "10gbit", "--output"];
    let outcome = run.args(words).arg(work.path()).run();
    outcome.assert_success();
    let calls = fs::read_to_string(work.path().join("mps.calls")).expect("the calls");
    assert_eq!(calls.lines().count(), 3, "{calls}");
    let part = json(&work.path().join("compressed.json"));
    let found = part["checks"][0]["found"].as_str().expect("what was found");
    assert!(
        found.contains("3.90x") && found.contains("repeated with 15 iterations, since at first"),
        "{found}"
    );
    assert_eq!(part["jobs"].as_array().map(Vec::len), Some(2), "both are kept: {part}");
    let of_the_first = fs::read_to_string(work.path().join("shaped-10gbit-2-1-said.txt"));
    assert_eq!(of_the_first.expect("what the job that failed said"), "no route\n");
    let of_nccl = |number: u32| work.path().join(format!("shaped-10gbit-2-{number}-nccl-7.txt")).exists();
    assert!(of_nccl(1) && !of_nccl(2), "NCCL's warnings are kept of what failed");
}

/// Neither is there an MPS nor are there host ids, so NCCL and the library take the ranks for one host's.
#[test]
fn ranks_with_a_card_each_need_no_mps() {
    if !have(&["python3", "bash"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let run =
        emulated("run", &artifacts::folder()).arg(work.path().join("report.txt")).env("PYTHON", "false");
    let outcome = run.env("TASKS", "others-4").env("AIRAMP_EMU_DEVICES", "8").run();
    assert!(outcome.assert_success().stdout_text().contains("MPS no"), "{outcome}");
    assert!(!outcome.stderr_text().contains("take turns"), "{outcome}");
    let run = emulated("exchanges.py", &artifacts::folder()).env("AIRAMP_EMU_DEVICES", "4");
    let words = ["--ranks", "4", "--size", "1", "--chunks", "1", "--rounds", "1", "--output"];
    run.args(words).arg(work.path()).run().assert_success();
    assert_eq!(json(&work.path().join("exchanges.json"))["cards"], 4);
}

#[test]
fn without_a_gpu_every_program_says_so() {
    if !have(&["python3", "bash"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    for name in ["run", "suite", "plan_runs", "contexts.py", "grid.py", "exchanges.py", "compressed.py"] {
        let run =
            emulated(name, &artifacts::folder()).env("AIRAMP_EMU_NO_DEVICE", "1").env("OUT", work.path());
        let outcome = run.run();
        assert_eq!(outcome.end, NO_GPU, "{name} {outcome}");
    }
}
