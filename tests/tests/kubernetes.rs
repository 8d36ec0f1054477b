//! The manifests of deploy/kubernetes: Kubernetes and the operators take them, and a pod of them does what it is meant to, run
//! with the very commands of its init container and sidecar, as its user, on a read-only root. `tests/kubernetes` has the
//! checker and the pod; what is claimed of them is here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use airamp_tests::artifacts::folder;
use airamp_tests::{
    End, Outcome, Run, airamp, airampd, interposer, package_dir, packages, rank_program, skip,
    skip_outside_ci,
};
use serde_json::Value;

fn manifests() -> PathBuf {
    package_dir().join("../deploy/kubernetes").canonicalize().expect("deploy/kubernetes")
}

/// A program of tests/kubernetes with the packages that it needs; `None` after a loud skip.
fn python(program: &str) -> Option<Run> {
    with_packages(Run::new("python3").arg(package_dir().join("kubernetes").join(program)))
}

fn with_packages(run: Run) -> Option<Run> {
    static PACKAGES: OnceLock<Result<String, String>> = OnceLock::new();
    let packages = PACKAGES.get_or_init(|| {
        let output = Command::new(package_dir().join("kubernetes/tools")).output();
        let output = output.map_err(|error| format!("tests/kubernetes/tools cannot be run: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        output.status.success().then(|| text(&output.stdout)).ok_or_else(|| text(&output.stderr))
    });
    match packages {
        Ok(packages) => Some(run.env("PYTHONPATH", packages).env("PYTHONDONTWRITEBYTECODE", "1")),
        Err(reason) => {
            skip_outside_ci(reason);
            None
        }
    }
}

#[test]
fn kubernetes_and_the_operators_take_every_manifest() {
    let Some(check) = python("check.py") else { return };
    let outcome = check.arg(manifests()).run();
    assert_eq!(outcome.assert_success().stdout_text(), "");
}

const WITH_LIVENESS: &str = "          livenessProbe: { tcpSocket: { port: 9090 } }\n          ports:\n";
const WITH_STARTUP: &str = "          startupProbe: { tcpSocket: { port: 9090 } }\n          ports:\n";

/// File, what is replaced, by what, and what the checker must say of it.
const SPOILT: [(&str, &str, &str, &str); 20] = [
    ("base/job.yaml", "completionMode", "completionsMode", "'completionsMode' was unexpected"),
    (
        "base/job.yaml",
        "readOnlyRootFilesystem: true",
        "readOnlyRootFilesystem: false",
        "can write to its root",
    ),
    ("base/job.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "may run as root"),
    ("base/job.yaml", "          restartPolicy: Always\n", "", "no native sidecar"),
    ("base/job.yaml", "          ports:\n", WITH_LIVENESS, "airampd has a probe"),
    ("base/job.yaml", "          ports:\n", WITH_STARTUP, "airampd has a probe"),
    (
        "base/job.yaml",
        "fieldPath: status.podIP",
        "fieldPath: status.hostIP",
        "not listen at the pod's address",
    ),
    ("base/job.yaml", "requests: { cpu: 200m", "requests: { cpu: 20m", "asks for less than its limits"),
    ("base/job.yaml", "fieldPath: spec.nodeName", "fieldPath: metadata.name", "take the pod for the node"),
    ("base/job.yaml", "containerPort: 9090", "containerPort: 9091", "not listen at the port"),
    ("base/job.yaml", "value: /airamp/lib/", "value: /usr/lib/", "not preloaded from where it was copied"),
    ("base/job.yaml", "medium: Memory, sizeLimit: 64Mi", "sizeLimit: 64Mi", "telemetry is not in memory"),
    ("base/job.yaml", "AIRAMP_METRICS_PORT", "AIRAMP_METRIC_PORT", "AIRAMP_METRIC_PORT is no setting"),
    ("namespace/networkpolicy.yaml", "port: 9090", "port: 9091", "opens other ports"),
    ("monitoring/pods/podmonitor.yaml", "interval:", "intervall:", "'intervall' was unexpected"),
    ("monitoring/service/servicemonitor.yaml", "airamp-metrics-token", "a-token", "with another token"),
    ("examples/pytorchjob.yaml", "nprocPerNode", "procsPerNode", "'procsPerNode' was unexpected"),
    ("examples/pytorchjob.yaml", "cpu: 200m", "cpu: 300m", "init containers are not those of base"),
    ("examples/vllm.yaml", "mountPath: /model", "mountPath: /models", "no volume of its own"),
    ("examples/vllm.yaml", "volumeMounts: &mounts", "volumeMount: &mounts", "'volumeMount' was unexpected"),
];

#[test]
fn a_manifest_that_is_spoilt_is_noticed() {
    let Some(check) = python("check.py") else { return };
    let base = tempfile::tempdir().expect("a folder");
    let roots: Vec<PathBuf> =
        (0..SPOILT.len()).map(|number| base.path().join(format!("{number:02}"))).collect();
    for (root, (file, from, to, _)) in roots.iter().zip(SPOILT) {
        copy(&manifests(), root);
        let text = std::fs::read_to_string(root.join(file)).expect("a manifest");
        assert!(text.contains(from), "{file} has no {from:?}");
        std::fs::write(root.join(file), text.replace(from, to)).expect("a manifest");
    }
    let said = check.args(&roots).run().stdout_text();
    for (root, (file, _, to, expected)) in roots.iter().zip(SPOILT) {
        let about: Vec<&str> =
            said.lines().filter(|line| line.starts_with(&*root.to_string_lossy())).collect();
        assert!(about.iter().any(|line| line.contains(expected)), "{file} with {to:?}: {about:#?}");
    }
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status();
    assert!(status.is_ok_and(|status| status.success()), "{} is copied", from.display());
}

#[test]
fn what_is_added_to_a_foreign_manifest_is_valid_and_can_be_taken_out_without_a_trace() {
    let (Some(check), Some(render)) = (python("check.py"), python("render.py")) else { return };
    let base = tempfile::tempdir().expect("a folder");
    let [with, twice, back] =
        ["with", "twice", "back"].map(|name| base.path().join(name).with_extension("yaml"));
    let plain = package_dir().join("kubernetes/plain.yaml");
    let change = |from: &Path, to: &Path, options: &[&str]| {
        let Some(add) = python("../../deploy/kubernetes/add-to") else { return };
        std::fs::write(to, &add.args(options).arg(from).run().assert_success().stdout).expect("a file");
    };
    let added = ["--image", "airamp-accel:1", "--container", "model", "--user", "3000"];
    change(&plain, &with, &added);
    change(&with, &twice, &added);
    change(&with, &back, &["--remove"]);
    assert_eq!(check.arg(&with).run().assert_success().stdout_text(), "");
    let json = |path: &Path| render.clone().arg(path).run().assert_success().stdout_text();
    assert_eq!(json(&plain), json(&back));
    assert_eq!(json(&with), json(&twice));

    let found: Value = serde_json::from_str(&json(&with)).expect("JSON");
    let pod = &found[0]["spec"]["template"]["spec"];
    assert_eq!(pod["volumes"][0]["name"], "airampd-data", "the user's own: {pod:#}");
    assert_eq!(pod["initContainers"][1]["securityContext"]["runAsUser"], 2000, "the pod's own user");
    let preloaded = &pod["containers"][1]["env"][0]["value"];
    assert_eq!(preloaded, "/airamp/lib/libairamp_accel.so:/usr/lib/libother.so");
    assert!(pod["containers"][0]["env"].is_null(), "the proxy was not meant: {pod:#}");
    let text = found.to_string();
    let alone =
        &found.as_array().expect("a list").iter().find(|one| one["kind"] == "Pod").expect("the pod")["spec"];
    assert_eq!(alone["initContainers"][0]["securityContext"]["runAsUser"], 3000, "the one given");
    assert!(text.contains(r#"{"name":"AIRAMP_JOB","value":"the-sweep"}"#), "the user's own: {text}");
    assert!(!text.contains(r#"{"name":"AIRAMP_JOB","value":"sweep"}"#), "beside the user's own: {text}");
    assert!(
        text.contains(r#"{"name":"AIRAMP_CONFIG","value":"/data/airamp.conf"}"#),
        "the user's own: {text}"
    );
}

#[test]
fn a_job_that_is_renamed_is_not_told_of_under_its_old_name() {
    let base = tempfile::tempdir().expect("a folder");
    let [plain, with] = ["plain.yaml", "with.yaml"].map(|name| base.path().join(name));
    let text = std::fs::read_to_string(package_dir().join("kubernetes/plain-job.yaml")).expect("a manifest");
    let renamed = |text: String| text.replace("metadata:\n  name: train\n", "metadata:\n  name: two\n");
    let change = |from: &Path, options: &[&str]| {
        let add = python("../../deploy/kubernetes/add-to")?.args(options).arg(from).run();
        Some(add.assert_success().stdout_text())
    };
    let added = ["--image", "airamp-accel:1", "--user", "0"];
    std::fs::write(&plain, &text).expect("a file");
    let Some(first) = change(&plain, &added) else { return };
    std::fs::write(&with, renamed(first.clone())).expect("a file");
    std::fs::write(&plain, renamed(text)).expect("a file");
    assert_ne!(first, renamed(first.clone()));
    assert_eq!(change(&with, &added), change(&plain, &added), "added again");
    assert_eq!(change(&with, &["--remove"]), change(&plain, &["--remove"]), "taken out");
}

/// A pod with a piece of text in its container, and what add-to must say of it.
const REFUSED: [(&str, &str); 7] = [
    (
        "env: [{name: LD_PRELOAD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
        "LD_PRELOAD comes from elsewhere",
    ),
    ("env: [{name: AIRAMP_TELEMETRY_DIR, value: /mine}]", "sets AIRAMP_TELEMETRY_DIR itself"),
    ("env: [", "neither YAML nor JSON"),
    ("env: [{value: one}]", "'env' of container model of one is no list of things with names"),
    ("volumeMounts: /data", "'volumeMounts' of container model of one is no list"),
    ("securityContext: {runAsUser: me}", "runAsUser is no number: me"),
    ("securityContext: root", "'securityContext' of a pod of one is no mapping"),
];

/// A whole file, and what add-to must say of it.
const NO_MANIFEST: [(&[u8], &str); 6] = [
    (b"\x7fELF\x02\x01\x00\xff\xfe", "neither YAML nor JSON"),
    (b"one: &one [*one]", "too deep, or holds itself"),
    (b"kind: Pod\nmetadata: foo\nspec: {containers: [{name: one}]}", "'metadata' of an object is no mapping"),
    (
        b"kind: Pod\nspec: {containers: [{image: one}]}",
        "'containers' of a pod of unnamed is no list of things",
    ),
    (b"kind: Pod\nspec: {containers: []}", "a pod of unnamed has no container"),
    (b"kind: Service\nspec: {}", "there is no pod in it"),
];

#[test]
fn a_manifest_that_cannot_be_added_to_is_refused_in_a_sentence() {
    let base = tempfile::tempdir().expect("a folder");
    let manifest = base.path().join("pod.yaml");
    let head = "kind: Pod\nmetadata: {name: one}\nspec:\n  containers:\n    - name: model\n      ";
    let parts = REFUSED.map(|(part, expected)| (format!("{head}{part}\n").into_bytes(), expected));
    let files = NO_MANIFEST.map(|(file, expected)| (file.to_vec(), expected));
    for (text, expected) in parts.into_iter().chain(files) {
        let Some(add) = python("../../deploy/kubernetes/add-to") else { return };
        std::fs::write(&manifest, &text).expect("a manifest");
        let outcome = add.args(["--image", "airamp-accel:1", "--user", "1"]).arg(&manifest).run();
        let text = String::from_utf8_lossy(&text);
        assert_eq!((outcome.end, outcome.stdout_text()), (End::Code(1), String::new()), "{text}");
        let said = outcome.stderr_text();
        assert!(said.starts_with("add-to: ") && said.contains(expected), "{text}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_manifest_that_nobody_takes_is_said_in_a_sentence_or_not_at_all() {
    let base = tempfile::tempdir().expect("a folder");
    let cannot = |why: &str| format!("add-to: the manifest cannot be written: {why}\n");
    // In the last the reader has gone before there is anything to read.
    for (line, expected) in [
        ("add >/dev/full", cannot("No space left on device")),
        ("add >&-", cannot("Bad file descriptor")),
        (r#"{ read -r _ <gone; add; } | { exec <&-; echo >gone; }; exit "${PIPESTATUS[0]}""#, String::new()),
    ] {
        let add = r#"add() { python3 "$0/add-to" --image airamp-accel:1 --user 0 "$plain"; }"#;
        let script = format!("plain=$1/plain-job.yaml; {add}\ncd \"$2\"; rm -f gone; mkfifo gone; {line}");
        let run =
            Run::new("bash").args(["-c", &script]).arg(manifests()).arg(package_dir().join("kubernetes"));
        let Some(run) = with_packages(run.arg(base.path())) else { return };
        let outcome = run.run();
        assert_eq!((outcome.end, outcome.stderr_text()), (End::Code(1), expected), "{line}");
    }
}

#[test]
fn a_manifest_that_does_not_say_its_user_is_left_alone_until_somebody_does() {
    let Some(add) = python("../../deploy/kubernetes/add-to") else { return };
    let outcome =
        add.args(["--image", "airamp-accel:1"]).arg(package_dir().join("kubernetes/plain.yaml")).run();
    assert_eq!((outcome.end, outcome.stdout_text()), (End::Code(1), String::new()));
    assert!(outcome.stderr_text().contains("--user"), "{outcome}");
}

#[test]
fn a_pyyaml_that_is_too_old_is_said_in_a_sentence() {
    let base = tempfile::tempdir().expect("a folder");
    std::fs::write(base.path().join("yaml.py"), "__version__ = '3.13'\n").expect("a stand-in");
    let add = Run::new("python3").arg(manifests().join("add-to")).env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = add.args(["--remove", "-"]).env("PYTHONPATH", base.path()).run();
    let expected =
        "add-to: PyYAML 3.13 is too old: 5.1 or later is needed, as pip install --upgrade PyYAML brings it\n";
    assert_eq!((outcome.end, outcome.stderr_text()), (End::Code(1), expected.to_owned()));
}

/// The real one; `None` after a skip where npm is missing, and a loud one where it cannot bring it.
fn kustomize() -> Option<PathBuf> {
    let output = Command::new(package_dir().join("kubernetes/kustomize")).output().expect("a shell script");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    match output.status.code() {
        Some(0) => return Some(said(&output.stdout).into()),
        Some(3) => skip(&said(&output.stderr)),
        _ => skip_outside_ci(&said(&output.stderr)),
    }
    None
}

#[test]
fn kustomize_makes_of_them_what_the_checks_take_for_granted() {
    let Some(render) = python("render.py") else { return };
    let Some(kustomize) = kustomize() else { return };
    let base = tempfile::tempdir().expect("a folder");
    for name in ["overlays/nvidia", "overlays/amd", "monitoring/pods", "monitoring/service"] {
        let real = Run::new(&kustomize).arg("build").arg(manifests().join(name)).run();
        let file = base.path().join("real.yaml");
        std::fs::write(&file, &real.assert_success().stdout).expect("a file");
        let rendered = |path: &Path| render.clone().arg(path).run().assert_success().stdout_text();
        assert_eq!(rendered(&manifests().join(name)), rendered(&file), "{name}");
    }
}

/// The name of the port in each line that names one, as `- { name: airampd, containerPort: 9090, protocol: TCP }`.
fn port_names(manifest: &str) -> Vec<&str> {
    let lines = manifest.lines().filter(|line| line.contains("containerPort: 9090"));
    lines.filter_map(|line| line.split_once("name: ")?.1.split(',').next()).collect()
}

#[test]
fn prometheus_without_its_operator_looks_for_the_port_that_the_pods_have() {
    let read = |path: PathBuf| std::fs::read_to_string(path).expect("a file of deploy/");
    let example = read(manifests().join("../prometheus/prometheus.yml"));
    let (_, behind) = example.split_once("[__meta_kubernetes_pod_container_port_name]").expect("a rule");
    let looks_for = behind.lines().find_map(|line| line.split_once(" regex: ")).expect("what it keeps").1;
    for name in ["base/job.yaml", "examples/pytorchjob.yaml", "examples/vllm.yaml"] {
        let manifest = read(manifests().join(name));
        let names = port_names(&manifest);
        assert!(!names.is_empty(), "{name} has no such port");
        assert!(names.iter().all(|name| *name == looks_for), "{name}: {names:?}, {looks_for}");
    }
}

#[test]
fn the_alerts_reach_the_operator_as_they_are() {
    let Some(python) = python("render.py") else { return };
    let base = tempfile::tempdir().expect("a folder");
    let printed = Run::new(manifests().join("monitoring/rules")).run();
    let file = base.path().join("rules.yaml");
    std::fs::write(&file, &printed.assert_success().stdout).expect("a file");
    let resource: Value =
        serde_json::from_str(&python.arg(file).run().assert_success().stdout_text()).expect("JSON");
    assert_eq!(resource[0]["kind"], "PrometheusRule");
    let groups = resource[0]["spec"]["groups"].as_array().expect("groups");
    let rules: usize = groups.iter().map(|group| group["rules"].as_array().map_or(0, Vec::len)).sum();
    let source =
        std::fs::read_to_string(manifests().join("../prometheus/airamp.rules.yml")).expect("the rules");
    let written = source
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with("- alert:") || line.starts_with("- record:"));
    assert!(rules > 10 && rules == written.count(), "{rules} rules");
}

/// In those of a container runtime, where `tests/kubernetes/image` has made an image for it.
fn in_containers(run: Run) -> Run {
    let made = |name: &str| std::env::var(name).ok();
    match (made("AIRAMP_POD_IMAGE"), made("AIRAMP_POD_BASE"), made("PODMAN")) {
        (Some(image), Some(base), Some(podman)) => {
            run.args(["--image", &image, "--base", &base]).env("PODMAN", podman)
        }
        _ => run,
    }
}

/// What tests/kubernetes/pod.py reports of a pod; `None` after a loud skip.
fn pod(vendor: &str, more: &[&str]) -> Option<Value> {
    let apart = ["--mount", "--net", "--ipc", "--pid", "--fork", "true"];
    if !Command::new("unshare").args(apart).status().is_ok_and(|status| status.success()) {
        skip_outside_ci("namespaces cannot be made here: that needs root");
        return None;
    }
    for artifact in [airamp(), airampd(), interposer(), rank_program()] {
        assert!(artifact.exists());
    }
    let work = tempfile::tempdir().expect("a folder");
    let run = python("pod.py")?.arg("--manifests").arg(manifests()).args(["--vendor", vendor]).args(more);
    let run = run.arg("--artifacts").arg(folder()).arg("--tree").arg(packages::tree());
    let run = run.arg("--work").arg(work.path());
    let run = in_containers(run);
    let outcome: Outcome = run.time_limit(Duration::from_secs(400)).run();
    let report = serde_json::from_str(&outcome.assert_success().stdout_text());
    assert_eq!(std::fs::read_dir(work.path()).expect("the folder").count(), 0, "something was left behind");
    Some(report.unwrap_or_else(|error| panic!("{error}: {outcome}")))
}

#[track_caller]
fn assert_watched(report: &Value) {
    let lines = report["metrics"].as_array().expect("lines");
    for rank in ["rank=\"0\"", "rank=\"1\""] {
        let is_seen = |line: &&Value| {
            line.as_str().is_some_and(|line| line.contains("workload=\"train\"") && line.contains(rank))
        };
        assert!(lines.iter().any(|line| is_seen(&line)), "{rank}: {report:#}");
    }
    assert_eq!(report["while_running"], true, "{report:#}");
    assert_eq!(report["answers"]["token"], 200, "{report:#}");
    assert_eq!(report["answers"]["none"], 401, "{report:#}");
    assert_eq!(report["answers"]["health"], 200, "{report:#}");
}

#[track_caller]
fn assert_ended_well(report: &Value) {
    assert_eq!(report["init"][0]["code"], 0, "{report:#}");
    assert_eq!(report["job"]["code"], 0, "{report:#}");
    assert!(
        report["job"]["said"].as_str().is_some_and(|said| said.ends_with("the job is over\n")),
        "{report:#}"
    );
    assert_eq!(report["sidecar"]["running"], true, "{report:#}");
    assert_eq!(report["sidecar"]["code"], 0, "{report:#}");
}

/// The pod of the NVIDIA overlay with nothing out of order, run once for all tests that look at it.
fn sound_pod() -> Option<&'static Value> {
    static REPORT: OnceLock<Option<Value>> = OnceLock::new();
    REPORT.get_or_init(|| pod("nvidia", &[])).as_ref()
}

#[track_caller]
fn assert_used(report: &Value, said_of_it: [&str; 3]) {
    assert_watched(report);
    assert_ended_well(report);
    // The command line that was copied beside the library sees the same job.
    let said = report["job"]["said"].as_str().expect("text");
    assert!(said_of_it.iter().all(|words| said.contains(words)) && !said.contains("ld.so"), "{said}");
    let mut shipped: Vec<String> =
        ["bin", "lib", "lib/airamp"].into_iter().flat_map(files_of_the_tree).collect();
    shipped.sort();
    assert!(shipped.len() > 6, "{shipped:?}");
    assert_eq!(report["installed"], serde_json::json!(shipped));
}

/// Files and links of a folder of a release.
fn files_of_the_tree(part: &str) -> Vec<String> {
    let files = std::fs::read_dir(packages::tree().join(part)).expect("a folder of the tree");
    let files = files.map(|file| file.expect("a file")).filter(|file| file.path().is_file());
    files.map(|file| format!("{part}/{}", file.file_name().to_string_lossy())).collect()
}

#[test]
fn a_pod_brings_the_library_into_its_job_and_shows_it_to_who_has_the_token() {
    let Some(report) = sound_pod() else { return };
    assert_used(report, ["job train (given)", "NCCL 2.", "mode observe"]);
}

#[test]
fn on_amd_it_is_the_same_and_the_settings_of_the_namespace_and_orders_reach_the_job() {
    let Some(report) = pod("amd", &["--settings", "mode = \"shadow\""]) else { return };
    assert_used(&report, ["job train (given)", "RCCL 2.", "mode shadow"]);
    let said = report["job"]["said"].as_str().expect("text");
    assert_eq!(said.matches("was told; the switch is agreed with all ranks").count(), 2, "{said}");
}

#[test]
fn the_daemon_has_no_privilege_and_no_place_to_write_but_its_volumes() {
    let Some(report) = sound_pod() else { return };
    let confined = report["confined"].as_str().expect("text");
    let lines: Vec<&str> = confined.lines().collect();
    assert_eq!(lines[0], "1000", "{confined}");
    for privilege in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(lines.contains(&privilege), "{confined}");
    }
    assert_eq!(confined.matches("Read-only file system").count(), 2, "{confined}");
    assert_eq!(report["files"], serde_json::json!(["1000", "1000"]), "owners of the telemetry");
}

#[test]
fn a_foreign_job_that_runs_as_root_is_watched_once_the_library_is_added_to_it() {
    let Some(add) = python("../../deploy/kubernetes/add-to") else { return };
    let base = tempfile::tempdir().expect("a folder");
    let manifest = base.path().join("job.yaml");
    let add = add
        .args(["--image", "airamp-accel:1", "--user", "0"])
        .arg(package_dir().join("kubernetes/plain-job.yaml"));
    std::fs::write(&manifest, &add.run().assert_success().stdout).expect("a file");
    let Some(report) = pod("nvidia", &["--manifest", &manifest.to_string_lossy()]) else { return };
    assert_used(&report, ["job train (given)", "NCCL 2.", "mode observe"]);
    assert_eq!(report["files"], serde_json::json!(["0", "0"]), "owners of the telemetry");
}

#[test]
fn without_its_token_the_daemon_serves_nothing_and_the_job_runs() {
    let Some(report) = pod("nvidia", &["--token", "late"]) else { return };
    assert_eq!(report["steps"], true, "{report:#}");
    assert_eq!(report["before"]["status"], 0, "something listens: {report:#}");
    assert_eq!(report["before"]["running"], true, "{report:#}");
    // It comes by itself once the token is there, and takes another one when it is told to.
    assert_watched(&report);
    assert_eq!(report["renewed"], serde_json::json!({ "old": 401, "new": 200 }), "{report:#}");
    assert_ended_well(&report);
}

#[test]
fn a_volume_that_is_too_small_leaves_the_job_without_the_library_and_no_half_of_one() {
    let Some(report) = pod("nvidia", &["--install-limit", "1Mi"]) else { return };
    assert_ended_well(&report);
    assert_eq!(report["steps"], true, "{report:#}");
    assert_eq!(report["installed"], serde_json::json!([]), "{report:#}");
    assert!(
        report["init"][0]["said"].as_str().is_some_and(|said| said.contains("without the library")),
        "{report:#}"
    );
    assert!(
        report["job"]["said"].as_str().is_some_and(|said| said.contains("cannot be preloaded")),
        "{report:#}"
    );
}
