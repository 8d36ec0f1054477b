//! The programs of tests/gpu, as far as they run without a GPU: a typing error must not wait for a card to be found. Names lead
//! somewhere, documents and suite name the same parts, stored results render, a pack has what its machine needs; and on the emulator,
//! with what `tests/gpu/pack` packs and with stand-ins for MPS, tc and airamp, what runs there runs. Speeds are not judged.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use airamp_tests::packages::{have, repository};
use airamp_tests::{End, Outcome, Run, artifacts, emulator_dir};
use serde_json::Value;
use tempfile::TempDir;

/// Generous, for two busy cores.
const LIMIT: Duration = Duration::from_secs(120);
const NO_GPU: End = End::Code(77);

fn folder() -> PathBuf {
    repository().join("tests/gpu")
}

fn program(name: &str) -> Run {
    let path = folder().join(name);
    let run = match path.extension() {
        Some(_) => Run::new("/usr/bin/env").arg("python3").arg(path),
        None => Run::new(path),
    };
    run.env("PYTHONDONTWRITEBYTECODE", "1").time_limit(LIMIT)
}

/// On the emulator, with one device, so that ranks share it; `bin` has the binaries.
fn emulated(name: &str, bin: &Path) -> Run {
    program(name)
        .library_dir(emulator_dir())
        .env("AIRAMP_RANK_NCCL", emulator_dir().join("libnccl.so.2"))
        .env("AIRAMP_EMU_DEVICES", "1")
        .env("AIRAMP_BIN", bin)
}

/// Stand-ins for MPS and tc before all else, and where the one counts and the other keeps its rate.
fn with_stand_ins(run: Run, work: &Path) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", format!("{}:{path}", folder().join("stand-ins").display()))
        .env("STAND_IN", work.join("mps"))
        .env("LOOPBACK", work.join("loopback"))
}

/// A pack, unpacked; once for this program.
fn packed() -> &'static Path {
    static PACKED: OnceLock<TempDir> = OnceLock::new();
    let folder = PACKED.get_or_init(|| {
        let work = tempfile::tempdir().expect("a temporary folder");
        let file = work.path().join("pack.tar.gz");
        program("pack").arg(&file).env("AIRAMP_BIN", artifacts::folder()).run().assert_success();
        let tar = Run::new("/usr/bin/env").args(["tar", "-xzf"]).arg(&file).arg("-C").arg(work.path());
        tar.run().assert_success();
        work
    });
    folder.path()
}

/// A folder of binaries whose `airamp` is a script.
fn with_airamp(script: &str) -> TempDir {
    let bin = tempfile::tempdir().expect("a temporary folder");
    for name in ["airamp-rank", "libairamp_accel.so"] {
        symlink(artifacts::artifact(name), bin.path().join(name)).expect("a link");
    }
    let text = script.replace("REAL", &artifacts::airamp().display().to_string());
    let path = bin.path().join("airamp");
    fs::write(&path, format!("#!/bin/sh\n{text}")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script that runs");
    bin
}

fn json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}: {text}", path.display()))
}

/// The verdict of each check of a part.
fn verdicts(part: &Value) -> Vec<&str> {
    let checks = part["checks"].as_array().expect("checks");
    checks.iter().map(|check| check["verdict"].as_str().expect("a verdict")).collect()
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn every_name_leads_somewhere_and_every_script_parses() {
    if !have(&["python3", "bash"]) {
        return;
    }
    program("names.py").run().assert_success();
    let mut scripts = 0;
    for entry in
        [folder(), folder().join("stand-ins")].iter().flat_map(|at| fs::read_dir(at).expect("a folder"))
    {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        let is_shell =
            first.ends_with("bash") || first == "#!/bin/sh" || path.extension().is_some_and(|of| of == "sh");
        if is_shell {
            let shell = if first == "#!/bin/sh" { "sh" } else { "bash" };
            Run::new("/usr/bin/env").args([shell, "-n"]).arg(&path).run().assert_success();
            scripts += 1;
        }
    }
    assert!(scripts >= 7, "{scripts}");
}

#[test]
fn document_and_suite_name_the_same_parts_and_programs() {
    if !have(&["python3"]) {
        return;
    }
    let list = program("suite").arg("--list").run().assert_success().stdout_text();
    let parts: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let text = fs::read_to_string(repository().join("docs/gpu-tests.md")).expect("the document");
    let slices: Vec<_> =
        text.lines().filter(|line| line.starts_with("timeout") && line.contains("--parts")).collect();
    assert_eq!(slices.len(), 3);
    for name in
        slices.iter().filter_map(|line| line.split_whitespace().skip_while(|word| *word != "--parts").nth(1))
    {
        for name in name.split(',') {
            assert!(parts.contains(&name), "{name} is no part of {parts:?}");
        }
    }
    for line in list.lines() {
        let named = line.rsplit(" (").next().unwrap_or_default();
        let program = named.split([',', ')']).next().unwrap_or_default();
        assert!(folder().join(program).exists(), "{line}");
        assert!(text.contains(&format!("| `{program}` |")), "{program} is not in the document");
    }
}

#[test]
fn a_pack_has_a_tc_that_runs_by_its_own_libraries() {
    if !have(&["python3", "tc", "ldd", "strip"]) {
        return;
    }
    let tc = packed().join("tc");
    Run::new(tc.join("tc")).arg("-V").run().assert_success();
    let needed =
        Run::new("/usr/bin/env").arg("ldd").arg(tc.join("tc.bin")).library_dir(&tc).run().stdout_text();
    let paths: Vec<_> = needed.lines().filter_map(|line| line.split(" => ").nth(1)).collect();
    assert!(!paths.is_empty(), "{needed}");
    for path in paths {
        let is_the_systems =
            path.contains("/libc.so") || path.contains("/libm.so") || path.contains("/libdl.so");
        assert!(is_the_systems || path.starts_with(&*tc.to_string_lossy()), "{path}");
    }
    assert!(!tc.join("libc.so.6").exists(), "a machine's loader takes no other system's libc");
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

/// A part that wants PyTorch, with ranks, a torch and a sanitizer that are made up.
fn made_up(words: &[&str], out: &Path, silent: bool) -> Outcome {
    let run = with_stand_ins(program("stand-ins/conduct.py"), out).args(words).arg("--output").arg(out);
    if silent { run.env("SILENT", "yes").run() } else { run.run() }
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
    for row in
        ["| 8 | 0.0 |", "| fp32 | 2 | 1.0000 |", "| 4 | two | ok | 3 |", "50, 50% | 90, 90%", "0 hazards"]
    {
        assert!(page.contains(row), "{row} is not in {page}");
    }
    assert_eq!(count(&page, "\n## "), parts.len());
    assert!(page.contains("Not in this report: no AllReduce slower"), "{page}");
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

/// The numbers of an earlier report make the same tables again, and stand beside what was run since.
#[test]
fn stored_results_still_render() {
    if !have(&["python3"]) {
        return;
    }
    let (parts, docs) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let stored = repository().join("docs/results/2026-11-16-suite-h200.json");
    let page = || {
        let run =
            program("report.py").arg(parts.path()).arg("--with").arg(&stored).arg("--docs").arg(docs.path());
        run.args(["--name", "again"]).run().assert_success();
        fs::read_to_string(docs.path().join("again.md")).expect("the page")
    };
    let made = page();
    let text = fs::read_to_string(stored.with_extension("md")).expect("the page of that report");
    let rows = text.lines().filter(|line| line.starts_with("| ") || line.starts_with("## "));
    let lost: Vec<_> = rows.filter(|row| !made.contains(*row)).collect();
    // Numbers are stored with six digits: a last one may be rounded the other way.
    assert!(lost.len() <= 1, "{lost:#?}");
    assert_eq!(count(&made, "## Device memory"), 0);
    made_up(&["memory"], parts.path(), false).assert_success();
    let made = page();
    assert_eq!((count(&made, "## Device memory"), count(&made, "## No AllReduce slower")), (1, 1), "{made}");
}

#[test]
fn benchmarks_for_the_plan_are_a_file_a_run() {
    if !have(&["python3", "bash", "strip"]) {
        return;
    }
    let out = tempfile::tempdir().expect("a temporary folder");
    let run = emulated("plan_runs", packed()).arg(out.path());
    run.env("SIZES", "64KiB").env("RANKS", "2").env("SECONDS_LEFT", "12").run().assert_success();
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
    assert_eq!((count(&told, "start"), count(&told, "quit")), (5, 5), "{told}");
}

#[test]
fn a_wedged_server_of_mps_is_gone_when_its_daemon_was_ended() {
    if !have(&["bash", "setsid"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let command = r#"cat "$CUDA_MPS_PIPE_DIRECTORY"/*.server"#;
    let run =
        with_stand_ins(program("with_mps"), work.path()).args(["sh", "-c", command]).env("WEDGED", "yes");
    let outcome = run.run();
    let server: u32 = outcome.assert_success().stdout_text().trim().parse().expect("a process id");
    // One that has ended and whom nobody has asked after yet is no more.
    let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap_or_default();
    assert!(!status.contains("nvidia-cuda-mps") || status.contains("State:\tZ"), "{status}");
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
    assert!(trial["seconds"]["pairs"].is_null(), "{trial}");
}

/// The first try is cut off and leaves its rate, the second falls short, and the one with more iterations counts.
#[test]
fn a_shaped_job_is_tried_again_where_it_fails_and_repeated_where_it_falls_short() {
    if !have(&["python3"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let script = r#"echo "$*" >>"$STAND_IN.calls"
        [ $(wc -l <"$STAND_IN.calls") -gt 1 ] || { : >"$LOOPBACK"; exit 1; }
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
}

fn suite(work: &Path, bin: &Path, words: &[&str]) -> Run {
    let (output, docs) = (work.join("out"), work.join("docs"));
    emulated("suite", bin).args(words).arg("--output").arg(output).arg("--docs").arg(docs)
}

#[test]
fn a_suite_takes_away_the_rate_that_a_part_left_and_reports() {
    if !have(&["python3", "bash"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let bin = with_airamp(r#": >"$LOOPBACK"; exec REAL "$@""#);
    let archive = work.path().join("a.tar.gz");
    let run =
        suite(work.path(), bin.path(), &["--parts", "contexts,plan", "--pace", "0.045", "--within", "100"]);
    let run = with_stand_ins(run, work.path())
        .env("SIZES", "64KiB")
        .env("RANKS", "2")
        .arg("--archive")
        .arg(&archive);
    let outcome = run.run();
    outcome.assert_success();
    assert!(outcome.stdout_text().contains("plan left a rate on loopback"), "{outcome}");
    assert!(!work.path().join("loopback").exists(), "the rate is still there");
    assert!(archive.exists());
    let parts = json(&work.path().join("out/parts.json"));
    assert!(
        parts["parts"].as_array().is_some_and(|all| all.iter().all(|one| one["verdict"] == "ok")),
        "{parts}"
    );
    let pages: Vec<_> = fs::read_dir(work.path().join("docs")).expect("the report").collect();
    assert!(pages.len() >= 2, "{pages:?}");
}

#[test]
fn a_suite_without_mps_or_time_runs_nothing_that_needs_it() {
    if !have(&["python3", "bash"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let outcome = suite(work.path(), &artifacts::folder(), &["--parts", "exchanges"]).run();
    assert_eq!(outcome.end, End::Code(1), "{outcome}");
    assert!(outcome.stderr_text().contains("MPS does not work"), "{outcome}");
    let outcome = suite(work.path(), &artifacts::folder(), &["--parts", "contexts", "--within", "35"]).run();
    assert_eq!(outcome.end, NO_GPU, "{outcome}");
    assert_eq!(json(&work.path().join("out/parts.json"))["parts"][0]["last"], "no time left");
}
