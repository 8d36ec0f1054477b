//! The suite of tests/gpu without a GPU, as a typing error must not wait for a card to be found: names lead somewhere, documents and
//! suite name the same parts, stored results render, a pack has what its machine needs, and with stand-ins for MPS and tc the suite
//! and the scripts around the parts do what they say. The parts themselves: gpu_programs.rs.

use std::fs;
use std::path::Path;

use airamp_tests::gpu::{
    NO_GPU, emulated, folder, json, made_up, packed, program, with_airamp, with_stand_ins,
};
use airamp_tests::packages::{have, repository};
use airamp_tests::{End, Run, artifacts};

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
fn slices_of_a_suite_are_one_report() {
    if !have(&["python3"]) {
        return;
    }
    let (slices, docs) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    for name in ["memory", "training"] {
        let slice = slices.path().join(name);
        made_up(&[name], &slice, false).assert_success();
        let parts =
            format!(r#"{{"parts":[{{"name":"{name}","verdict":"ok","seconds":1,"last":"all ok"}}]}}"#);
        fs::write(slice.join("parts.json"), parts).expect("a file");
    }
    // Of a machine that was taken away while a part wrote it.
    fs::write(slices.path().join("memory/exchanges.json"), "{").expect("a file");
    let run = program("report.py").arg(slices.path()).arg("--docs").arg(docs.path());
    run.args(["--name", "all"]).run().assert_success();
    let page = fs::read_to_string(docs.path().join("all.md")).expect("the page");
    for row in [
        "| memory | ok | 1 | all ok |",
        "| training | ok | 1 | all ok |",
        "## Device memory",
        "## A language",
    ] {
        assert!(page.contains(row), "{row} is not in {page}");
    }
}

/// Card, and host of its own if it has one, of the third of four ranks.
fn placed(cards: &str, wire: &str) -> String {
    let show = r#"echo "$CUDA_VISIBLE_DEVICES ${NCCL_HOSTID:-none}""#;
    let run = program("on_a_card").args(["sh", "-c", show]).env("RANK", "2").env("WORLD_SIZE", "4");
    let outcome = run.env("CUDA_VISIBLE_DEVICES", cards).env("GPU_TEST_WIRE", wire).run();
    outcome.assert_success().stdout_text().trim().to_owned()
}

#[test]
fn ranks_are_hosts_of_their_own_where_they_outnumber_cards() {
    assert_eq!(placed("0", ""), "0 airamp-rank-2");
    assert_eq!(placed("4,7,5", ""), "5 airamp-rank-2");
    assert_eq!(placed("0,1", ""), "0 airamp-rank-2");
    assert_eq!(placed("0,1,2,3", ""), "2 none");
    assert_eq!(placed("0,1,2,3", "yes"), "2 airamp-rank-2", "what goes over sockets is measured");
}

#[test]
fn mps_is_started_where_ranks_can_outnumber_cards() {
    if !have(&["bash", "setsid"]) {
        return;
    }
    for (devices, cards, daemon) in [("1", "0", "mps"), ("3", "0,1,2", "mps"), ("8", "0,1,2,3,4,5,6,7", "")] {
        let work = tempfile::tempdir().expect("a temporary folder");
        let show = r#"echo "$CUDA_VISIBLE_DEVICES $(basename "$CUDA_MPS_PIPE_DIRECTORY")""#;
        let run = with_stand_ins(emulated("with_mps", &artifacts::folder()), work.path());
        let outcome = run.args(["sh", "-c", show]).env("AIRAMP_EMU_DEVICES", devices).run();
        assert_eq!(
            outcome.assert_success().stdout_text().trim(),
            format!("{cards} {daemon}").trim(),
            "{devices}"
        );
    }
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
fn a_part_whose_ranks_were_killed_goes_on_with_a_fresh_daemon_of_mps() {
    if !have(&["bash", "setsid"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let server = r#"cat "$CUDA_MPS_PIPE_DIRECTORY"/*.server"#;
    let command = format!("{server}; $FRESH; {server}; kill -0 $({server}) && echo serves");
    let run = with_stand_ins(program("with_mps"), work.path()).env("FRESH", folder().join("fresh_mps"));
    let outcome = run.args(["sh", "-c", &command]).env("WEDGED", "yes").run();
    let said = outcome.assert_success().stdout_text();
    let [first, second, "serves"] = said.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert_ne!(first, second);
    for server in [first, second] {
        let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap_or_default();
        assert!(!status.contains("nvidia-cuda-mps") || status.contains("State:\tZ"), "{status}");
    }
    let told = fs::read_to_string(work.path().join("mps")).expect("what MPS was told");
    assert_eq!(told, "start\nquit\nstart\nquit\n");
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
        suite(work.path(), bin.path(), &["--parts", "contexts,plan", "--pace", "0.3", "--within", "100"]);
    let run = with_stand_ins(run, work.path())
        .env("SIZES", "64KiB")
        .env("RANKS", "2")
        .env("RUNS", "1")
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
fn where_mps_serves_nobody_what_it_has_logged_is_said() {
    if !have(&["python3", "bash", "setsid"]) {
        return;
    }
    let work = tempfile::tempdir().expect("a temporary folder");
    let run = suite(work.path(), &artifacts::folder(), &["--parts", "exchanges"]);
    let outcome = with_stand_ins(run, work.path()).env("AIRAMP_EMU_FAIL_ALLOC", "1").run();
    assert_eq!(outcome.end, End::Code(1), "{outcome}");
    for said in ["MPS does not work", "cuMemAlloc returned 2", "control.log: serves nobody"] {
        assert!(outcome.stderr_text().contains(said), "{said}: {outcome}");
    }
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
    suite(work.path(), &artifacts::folder(), &["--parts", "exchanges,contexts"]).run().assert_success();
    let parts = json(&work.path().join("out/parts.json"));
    assert_eq!(
        (&parts["parts"][0]["verdict"], &parts["parts"][1]["verdict"]),
        (&"skipped".into(), &"ok".into())
    );
    assert!(
        parts["parts"][0]["last"].as_str().is_some_and(|why| why.contains("MPS does not work")),
        "{parts}"
    );
    let outcome = suite(work.path(), &artifacts::folder(), &["--parts", "contexts", "--within", "35"]).run();
    assert_eq!(outcome.end, NO_GPU, "{outcome}");
    assert_eq!(json(&work.path().join("out/parts.json"))["parts"][0]["last"], "no time left");
}
