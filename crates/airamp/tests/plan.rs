//! `airamp plan` from the outside: what it prints, in every form, and what it says about files that are wrong.

mod support;

use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{airamp, run, stderr, stdout};

fn repository(path: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    path.to_str().expect("UTF-8").to_owned()
}

/// The output of a plan for a cluster file with this text; `{}` among the arguments is the file.
fn planned(text: &str, arguments: &[&str]) -> std::process::Output {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster.toml");
    std::fs::write(&file, text).expect("written");
    let file = file.to_str().expect("UTF-8");
    let arguments: Vec<&str> = arguments.iter().map(|one| if *one == "{}" { file } else { *one }).collect();
    run(&mut airamp(&[&["plan"], arguments.as_slice()].concat()))
}

const CLUSTER: &str = "\
name = \"four nodes\"
nodes = 4
nic_gbps = 10
compute_ms = 100

[[message]]
datatype = \"bfloat16\"
size = \"32MiB\"
count = 3

[[message]]
datatype = \"float32\"
size = \"64KiB\"
";

#[test]
fn the_table_says_what_is_gained_up_to_where_and_from_what() {
    let output = planned(CLUSTER, &["{}"]);
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for part in [
        "four nodes: 4 nodes of 1 GPU, 1 NIC of 10 Gbit/s to a node (sockets)",
        "fit: NVIDIA H200, NCCL 2.28.9",
        "bfloat16 32MiB",
        "vendor: smaller than 1MiB",
        "step, nothing hidden",
        "step, all hidden that can be",
        "The model leaves out:",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn json_has_the_same_and_the_fit_it_comes_from() {
    let output = planned(CLUSTER, &["--json", "{}"]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let (large, small) = (&value["messages"][0], &value["messages"][1]);
    let gain = large["gain_if_compressed"].as_f64().expect("a gain");
    assert!((1.8..2.0).contains(&gain), "{gain}");
    assert_eq!((&large["is_compressed"], &small["is_compressed"]), (&true.into(), &false.into()));
    assert_eq!(large["extrapolated"], Value::Array(Vec::new()));
    assert_eq!(large["pays"]["link"], "nic");
    assert_eq!(value["fit"]["scope"]["ranks"], serde_json::json!([2, 4, 8]));
    let number = |value: &Value| value.as_f64().expect("a number");
    let step = &value["step"];
    let (exposed, hidden) = (&step["nothing_hidden"], &step["all_hidden"]);
    assert!(number(&exposed["without_us"]) > number(&hidden["without_us"]));
    let communication = number(&step["communication"]["without_us"]);
    let sum = 3.0 * number(&large["vendor"]["total_us"]) + number(&small["vendor"]["total_us"]);
    assert!((communication / sum - 1.0).abs() < 1e-9);
    assert!(!value["the_model_leaves_out"].as_array().expect("a list").is_empty());
}

#[test]
fn the_example_can_be_used_as_it_is() {
    let example = run(&mut airamp(&["plan", "--example"]));
    let output = planned(&stdout(&example), &["{}", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["extrapolated"], true, "eight GPUs in a node were never measured");
}

#[test]
fn the_chart_marks_the_own_speed_and_has_two_colour_schemes() {
    let folder = tempfile::tempdir().expect("a folder");
    let chart = folder.path().join("gain.svg");
    let output = planned(CLUSTER, &["{}", "--chart", chart.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = std::fs::read_to_string(chart).expect("the chart");
    for part in ["yours: 10.0 Gbit/s", "bfloat16 32MiB, 4 ranks: ", "prefers-color-scheme:dark", "<polyline"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"));
    let refused = planned(CLUSTER, &["{}", "--chart", "gain.png"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn a_recorded_trace_stands_for_the_messages() {
    let trace = repository("tests/traces/recorded/ddp.jsonl");
    let text = format!("nodes = 4\nnic_gbps = 10\ntrace = \"{trace}\"\ntrace_steps = 80\n");
    let output = planned(&text, &["{}", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let messages = value["messages"].as_array().expect("messages");
    let reduced =
        messages.iter().filter(|of| of["collective"] == "all_reduce" && of["is_compressed"] == true);
    let per_step: f64 = reduced.filter_map(|of| of["per_step"].as_f64()).sum();
    assert!((3.9..4.1).contains(&per_step), "four buckets in a step, not {per_step}");
    let broadcast = messages.iter().find(|of| of["collective"] == "broadcast").expect("a broadcast");
    assert_eq!(broadcast["left_to_the_vendor"], "only AllReduce is compressed");
}

#[test]
fn a_fit_of_one_s_own_is_made_saved_and_used() {
    let folder = tempfile::tempdir().expect("a folder");
    let saved = folder.path().join("fit.json");
    let saved = saved.to_str().expect("UTF-8");
    let bench = ["200mbit", "500mbit"].map(|link| repository(&format!("tests/bench/emulator-{link}.json")));
    let output = run(&mut airamp(&["plan", "--fit", &bench[0], &bench[1], "--errors", "--save", saved]));
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(
        text.contains("AIRamp emulated GPU")
            && text.contains("Each size between the least and the largest of its series held out"),
        "{text}"
    );
    let output = planned(CLUSTER, &["{}", "--json", "--fit", saved]);
    let value: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(value["fit"]["scope"]["gbps"], serde_json::json!([0.2, 0.5]));
    let beyond = &value["messages"][0]["extrapolated"];
    assert_eq!(beyond, &serde_json::json!(["size 32MiB", "nic of 10 Gbit/s"]));
}

#[test]
fn a_file_that_is_wrong_is_named_with_line_and_key() {
    let complaint = |text: &str, arguments: &[&str]| {
        let output = planned(text, arguments);
        assert_eq!(output.status.code(), Some(2), "{text}");
        stderr(&output)
    };
    let typo = complaint("nodes = 4\nnic_gpbs = 10\n", &["{}"]);
    assert!(typo.contains("cluster.toml: line 2: nic_gpbs: unknown key"), "{typo}");
    let missing = complaint("nodes = 4\n[[message]]\ndatatype = \"float32\"\nsize = \"4MiB\"\n", &["{}"]);
    assert!(missing.contains("nic_gbps is missing"), "{missing}");
    let no_file = run(&mut airamp(&["plan", "/no/such/cluster.toml"]));
    assert_eq!(no_file.status.code(), Some(2));
    let no_fit = complaint(CLUSTER, &["{}", "--fit", &repository("README.md")]);
    assert!(no_fit.contains("README.md: not the output of `airamp bench --json`"), "{no_fit}");
    let mixed =
        ["emulator-1gbit", "h200-10gbit-2"].map(|name| repository(&format!("tests/bench/{name}.json")));
    let mixed = complaint(CLUSTER, &["{}", "--fit", &mixed[0], &mixed[1]]);
    assert!(mixed.contains("measured on different devices"), "{mixed}");
    for nothing in [&["plan"][..], &["plan", "--fit", "my-fit.json", "cluster.toml"]] {
        let output = run(&mut airamp(nothing));
        assert_eq!(output.status.code(), Some(2), "nothing to plan");
        assert!(stderr(&output).contains("it stands before --fit"), "{}", stderr(&output));
    }
}
