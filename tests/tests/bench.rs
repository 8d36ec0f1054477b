//! `airamp bench` as a user runs it, on the emulator: what it shows is there, fits together and keeps the
//! promised errors. Times are not judged here, only that speedups follow from them.

use airamp_tests::code_object::BlobFolder;
use airamp_tests::{End, Outcome, Run, airamp, emulator_dir, skip_outside_ci};
use serde::Deserialize;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, Deserialize)]
struct Report {
    complete: bool,
    emulated: bool,
    environment: Environment,
    results: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Environment {
    vendor: String,
    device: String,
    kernels: String,
    version: i32,
}

#[derive(Debug, Deserialize)]
struct Row {
    ranks: usize,
    link: String,
    datatype: String,
    bytes: usize,
    format: String,
    is_ours: bool,
    not_offered: Option<String>,
    #[serde(flatten)]
    result: Option<Measured>,
}

#[derive(Debug, Deserialize)]
struct Measured {
    vendor_us: f64,
    time_us: f64,
    speedup: f64,
    wire_bytes_per_element: f64,
    vnmse: f64,
    worst_element: f64,
    identical_bits: bool,
}

fn bench(args: &[&str]) -> Run {
    emulator_dir();
    let few = ["bench", "--iterations", "2", "--warmup", "1"];
    Run::new(airamp()).args(few).args(args).time_limit(Duration::from_secs(120))
}

fn report(run: Run) -> Report {
    let outcome = run.arg("--json").run();
    outcome.assert_success();
    let text = outcome.stdout_text();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn measured(row: &Row) -> &Measured {
    row.result.as_ref().unwrap_or_else(|| panic!("not measured: {row:?}"))
}

fn formats(report: &Report, datatype: &str) -> Vec<String> {
    let of_type = report.results.iter().filter(|row| row.datatype == datatype);
    of_type.map(|row| row.format.clone()).collect()
}

/// As by Ctrl-C, with the code by which a shell knows.
#[test]
fn one_that_is_interrupted_ends_as_such() {
    emulator_dir();
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let words = ["--preserve-status", "--kill-after", "60", "--signal", name, "4"];
        let run = Run::new("timeout").args(words).arg(airamp());
        let outcome = run.args(["bench", "--sizes", "256MiB", "--iterations", "1000"]).run();
        assert_eq!(outcome.end, End::Code(code), "{outcome}");
    }
}

#[test]
fn every_line_has_its_columns_and_they_fit_together() {
    let report = report(bench(&["--sizes", "4KiB,4MiB", "--link-rate", "2gbit"]));
    assert!(report.complete && report.emulated);
    assert_eq!((&report.environment.vendor[..], report.environment.version), ("NCCL", 22809));
    assert!(report.environment.device.contains("emulated"));
    assert_eq!(formats(&report, "float32"), ["vendor", "vendor_fp16", "vendor_fp8", "auto"].repeat(2));
    assert_eq!(formats(&report, "bfloat16"), ["vendor", "vendor_fp8", "auto"].repeat(2));
    for row in &report.results {
        let result = measured(row);
        assert_eq!((row.ranks, &row.link[..]), (2, "2gbit"));
        assert!(result.time_us > 0.0 && result.vendor_us > 0.0, "{row:?}");
        assert!((result.speedup - result.vendor_us / result.time_us).abs() < 1e-9, "{row:?}");
        assert!(result.identical_bits, "{row:?}");
        assert!(result.worst_element > 0.0 && result.worst_element.powi(2) >= result.vnmse, "{row:?}");
        if row.is_ours && row.bytes == 4 << 20 {
            assert!((1.0..=1.02).contains(&result.wire_bytes_per_element), "{row:?}");
        }
    }
}

#[test]
fn the_casts_are_on_the_wire_in_their_size_and_their_errors_are_their_own() {
    let report = report(bench(&["--sizes", "1MiB", "--datatypes", "float32", "--link-rate", "loopback"]));
    let of =
        |format: &str| report.results.iter().find(|row| row.format == format).map(measured).expect(format);
    let (vendor, half, float8, ours) = (of("vendor"), of("vendor_fp16"), of("vendor_fp8"), of("auto"));
    assert_eq!((vendor.wire_bytes_per_element, half.wire_bytes_per_element), (4.0, 2.0));
    assert_eq!(float8.wire_bytes_per_element, 1.0);
    // Rounding to 24, 11 and 4 bits, twice or more often.
    assert!(vendor.vnmse > 1e-17 && vendor.vnmse < 1e-14, "{vendor:?}");
    assert!(half.vnmse > 1e-9 && half.vnmse < 1e-6, "{half:?}");
    assert!(float8.vnmse > 5e-4 && float8.vnmse < 5e-3, "{float8:?}");
    assert!(ours.vnmse < float8.vnmse / 10.0, "{ours:?} {float8:?}");
}

#[test]
fn errors_keep_the_promised_bounds_on_every_kind_of_data() {
    for (data, most) in [("normal", 1.0e-4), ("spikes", 6e-4), ("lognormal", 4e-4)] {
        let args = ["--ranks", "2,4", "--sizes", "1MiB", "--link-rate", "loopback", "--formats", "auto,e4m3"];
        let types = ["--datatypes", "float16,bfloat16,float32", "--data", data];
        let report = report(bench(&[&args[..], &types].concat()));
        let ours: Vec<&Row> = report.results.iter().filter(|row| row.is_ours).collect();
        assert_eq!(ours.len(), 2 * 3 * 2);
        for row in ours {
            let bound = if row.format == "auto" { most } else { 1.5e-3 };
            let result = measured(row);
            assert!(result.vnmse > 0.0 && result.vnmse <= bound, "{data}: {row:?}");
            assert!(result.identical_bits, "{data}: {row:?}");
        }
    }
}

#[test]
fn zeros_are_exact_and_an_average_is_one() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback"];
    let zeros = report(bench(&[&few[..], &["--data", "zeros"]].concat()));
    assert!(
        zeros.results.iter().map(measured).all(|result| result.vnmse == 0.0 && result.worst_element == 0.0)
    );
    let average = report(bench(&[&few[..], &["--average", "--ranks", "3"]].concat()));
    for row in &average.results {
        let most = match &row.format[..] {
            "vendor" => 1e-12,
            "vendor_fp16" => 1e-5,
            "vendor_fp8" => 1e-2,
            _ => 1.0e-4,
        };
        assert!(measured(row).vnmse <= most, "{row:?}");
    }
}

#[test]
fn what_cannot_be_done_is_not_offered_and_says_why() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback"];
    let old = report(bench(&few).env("AIRAMP_EMU_NCCL_VERSION", "22300"));
    let float8 = old.results.iter().find(|row| row.format == "vendor_fp8").expect("a line");
    assert!(float8.result.is_none() && float8.not_offered.is_some(), "{float8:?}");
    let long = ["--sizes", "96MiB", "--datatypes", "bfloat16", "--link-rate", "loopback"];
    let cramped = report(bench(&[&long[..], &["--arena-bytes", "134KiB"]].concat()));
    let ours = cramped.results.iter().find(|row| row.is_ours).expect("a line");
    assert!(ours.not_offered.as_ref().is_some_and(|reason| reason.contains("steps")), "{ours:?}");
}

#[test]
fn the_least_arena_that_a_refusal_names_works() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback", "--ranks", "2,3"];
    let with = |arena: &str| bench(&few).args(["--arena-bytes", arena]);
    let told = with("1KiB").run().stderr_text();
    let least = told.split_once("at least ").and_then(|(_, rest)| rest.split(' ').next()).expect("a number");
    let report = report(with(least));
    let ours: Vec<&Row> = report.results.iter().filter(|row| row.is_ours).collect();
    assert!(ours.len() == 2 && ours.iter().all(|row| row.result.is_some()), "{ours:?}");
}

#[test]
fn a_tensor_that_is_named_twice_is_measured_once() {
    let twice = ["--sizes", "64KiB,65537,64KiB", "--datatypes", "float32,float32", "--formats", "auto,auto"];
    let report =
        report(bench(&[&twice[..], &["--ranks", "2,2", "--link-rate", "loopback,loopback"]].concat()));
    assert_eq!(formats(&report, "float32"), ["vendor", "vendor_fp16", "vendor_fp8", "auto"]);
}

#[test]
fn kernels_come_from_the_folder_that_the_settings_name() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback"];
    assert!(report(bench(&few)).environment.kernels.contains("embedded"));
    let folder = BlobFolder::real();
    let named = folder.path().to_str().expect("a path");
    let used = report(bench(&few).env("AIRAMP_KERNEL_DIR", named)).environment.kernels;
    assert!(used.starts_with(named), "{used}");

    let settings = folder.file("airamp.conf");
    fs::write(&settings, format!("kernel_dir = \"{named}\"\n")).expect("written");
    let used = report(bench(&few).env("AIRAMP_CONFIG", &settings)).environment.kernels;
    assert!(used.starts_with(named), "{used}");
}

#[test]
fn a_folder_of_kernels_that_cannot_be_used_is_an_error_that_names_it() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback"];
    let spoilt = BlobFolder::real();
    spoilt.spoil("sm_90.cubin", |bytes| bytes.truncate(1000));
    for folder in [Path::new("/nonexistent"), spoilt.path()] {
        let outcome = bench(&few).env("AIRAMP_KERNEL_DIR", folder).run();
        let told = outcome.stderr_text();
        assert_eq!(outcome.end, End::Code(1), "{told}");
        let named = format!("AIRAMP_KERNEL_DIR ({})", folder.display());
        assert!(told.contains(&named) && told.contains("kernel blob"), "{told}");
    }
}

#[test]
fn the_table_names_its_columns_and_the_chart_is_xml() {
    let folder = tempfile::tempdir().expect("a folder");
    let chart = |name: &str| folder.path().join(name);
    let few = ["--sizes", "16KiB..64KiB", "--link-rate", "loopback", "--formats", "auto,int8"];
    let drawn = |place: &Path| -> Outcome { bench(&few).arg("--chart").arg(place).run() };
    let outcome = drawn(&chart("a.svg"));
    outcome.assert_success();
    let header = "ranks link datatype format size vendor time speedup B/element vNMSE worst same bits";
    let text = outcome.stdout_text();
    let has_header = |line: &str| line.split_whitespace().eq(header.split_whitespace());
    assert!(text.lines().any(has_header), "{text}");
    drawn(&chart("a.html")).assert_success();
    let svg = fs::read_to_string(chart("a.svg")).expect("the chart");
    assert_eq!(svg.matches("<polyline").count(), 4, "{svg}");
    let parses = "import sys, xml.dom.minidom as xml; [xml.parse(name) for name in sys.argv[1:]]";
    match Command::new("python3").args(["-c", parses]).args([chart("a.svg"), chart("a.html")]).output() {
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
        Err(error) => skip_outside_ci(&format!("python3 for its XML parser: {error}")),
    }
}

#[test]
fn hip_and_the_comparison_by_preloading_run_too() {
    let few = ["--sizes", "64KiB", "--datatypes", "float32", "--link-rate", "loopback"];
    assert_eq!(report(bench(&[&few[..], &["--hip"]].concat())).environment.vendor, "RCCL");
    let outcome = bench(&[&few[..], &["--preload", "--collectives", "all_reduce,all_gather"]].concat()).run();
    outcome.assert_success();
    assert!(outcome.stdout_text().contains("results equal"), "{}", outcome.stdout_text());
}

/// The emulator stands for the GPU, in a network namespace whose loopback may be shaped.
#[test]
fn on_a_machine_s_own_libraries_loopback_is_shaped_for_the_time_of_the_run() {
    let alone = |script: &str| Command::new("unshare").args(["-n", "sh", "-ec", script]).output();
    if !alone("ip link set lo up; tc qdisc show dev lo").is_ok_and(|output| output.status.success()) {
        return skip_outside_ci("a network namespace needs root, and loopback is shaped by tc");
    }
    let script = "ip link set lo up; \"$0\" bench --gpu --link-rate 1gbit --sizes 256KiB --datatypes float32 --json; \
                  tc qdisc show dev lo >&2; tc qdisc add dev lo root tbf rate 1gbit burst 2mb limit 64mb; \
                  \"$0\" bench --gpu --link-rate 1gbit || [ $? = 2 ]";
    let run = Run::new("unshare").args(["-n", "sh", "-ec", script]).arg(airamp()).library_dir(emulator_dir());
    let outcome = run.time_limit(Duration::from_secs(120)).run();
    outcome.assert_success();
    let report: Report = serde_json::from_str(&outcome.stdout_text()).expect("one report");
    assert!(report.results.iter().all(|row| row.link == "1gbit") && !report.emulated);
    let told = outcome.stderr_text();
    assert!(told.contains("noqueue") && told.contains("shaped already"), "{told}");
}
