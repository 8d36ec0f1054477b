//! What a user may rely on, whatever the file and the environment hold.

mod files;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use airamp_settings::{
    Environment, Loaded, LogLevel, MAX_FILE_BYTES, Mode, PatternEffects, Settings, Source, WireFormat,
    resolve,
};

fn environment(variables: &[(&str, &str)]) -> Environment {
    variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect()
}

fn from_environment(variables: &[(&str, &str)]) -> Loaded {
    resolve(&environment(variables), Path::new("/nonexistent/airamp.conf"))
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("airamp.conf")
    }

    fn holding(text: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        fs::write(folder.path(), text).expect("written");
        folder
    }

    fn resolve(&self, variables: &[(&str, &str)]) -> Loaded {
        resolve(&environment(variables), &self.path())
    }
}

fn source_of(loaded: &Loaded, key: &str) -> Source {
    loaded.effective().find(|effective| effective.setting.key == key).expect("a setting").source
}

#[track_caller]
fn assert_only_warning(loaded: &Loaded, parts: &[&str]) {
    assert_eq!(loaded.warnings.len(), 1, "{:?}", loaded.warnings);
    for part in parts {
        assert!(loaded.warnings[0].contains(part), "{part:?} is not in {:?}", loaded.warnings[0]);
    }
}

#[test]
fn nothing_set_means_the_defaults_and_silence() {
    let loaded = from_environment(&[]);
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    assert!(loaded.effective().all(|effective| effective.source == Source::Default));
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_the_default() {
    let folder = Folder::holding("log = \"info\"\n\nmetrics_port = 1234\n");
    let loaded = folder.resolve(&[("AIRAMP_LOG", "debug")]);
    assert_eq!(loaded.settings.log, LogLevel::Debug);
    assert_eq!(source_of(&loaded, "log"), Source::Environment);
    assert_eq!(loaded.settings.metrics_port, 1234);
    assert_eq!(source_of(&loaded, "metrics_port"), Source::File { line: 3 });
    assert_eq!(source_of(&loaded, "wire_format"), Source::Default);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

const EVERY_SETTING: &str = r#"
disable = true
mode = "observe"
enable_fp8_allreduce = false
wire_format = "int8"
min_speedup = 2
max_vnmse = 0.5
trial_ms = 0
tuning_cache = "/var/cache/airamp.toml"
min_bytes = "2 KiB"
arena_bytes = 1048576
ranks_per_node = 8
lean_messages = true
consensus_timeout_ms = 100
doubt_ms = 200
job = "night run"
enable_ghost_kernels = true
ghost_interval_us = 500
ghost_max_idle_ms = 300
ghost_duty_percent = 0.25
telemetry = false
telemetry_dir = "/run/airamp"
device_timings = false
pattern = false
pattern_effects = "samples"
metrics_addr = "::1"
metrics_port = 1
metrics_token_file = "/etc/airamp/token"
metrics_tls_cert = "/etc/airamp/cert.pem"
metrics_tls_key = "/etc/airamp/key.pem"
evidence_dir = "/srv/evidence"
device_metrics = false
nic_metrics = false
hang_after_ms = 500
late_after_ms = 50
nccl_path = "/opt/nccl/libnccl.so.2"
kernel_dir = "/opt/airamp/kernels"
log = "error"
log_file = "/var/log/airamp.log"
"#;

#[test]
fn every_setting_is_read_from_the_file() {
    let folder = Folder::holding(EVERY_SETTING);
    let loaded = folder.resolve(&[]);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let expected = Settings {
        disable: true,
        mode: Mode::Observe,
        enable_fp8_allreduce: false,
        wire_format: WireFormat::Int8,
        min_speedup: 2.0,
        max_vnmse: 0.5,
        trial_ms: 0,
        tuning_cache: Some("/var/cache/airamp.toml".into()),
        min_bytes: 2048,
        arena_bytes: 1 << 20,
        ranks_per_node: Some(8),
        lean_messages: true,
        consensus_timeout_ms: 100,
        doubt_ms: 200,
        job: Some("night run".into()),
        enable_ghost_kernels: true,
        ghost_interval_us: 500,
        ghost_max_idle_ms: 300,
        ghost_duty_percent: 0.25,
        telemetry: false,
        telemetry_dir: Some("/run/airamp".into()),
        device_timings: false,
        pattern: false,
        pattern_effects: PatternEffects { samples: true, ..PatternEffects::NONE },
        metrics_addr: "::1".parse().expect("an address"),
        metrics_port: 1,
        metrics_token_file: Some("/etc/airamp/token".into()),
        metrics_tls_cert: Some("/etc/airamp/cert.pem".into()),
        metrics_tls_key: Some("/etc/airamp/key.pem".into()),
        evidence_dir: Some("/srv/evidence".into()),
        device_metrics: false,
        nic_metrics: false,
        hang_after_ms: 500,
        late_after_ms: 50,
        nccl_path: Some("/opt/nccl/libnccl.so.2".into()),
        kernel_dir: Some("/opt/airamp/kernels".into()),
        log: LogLevel::Error,
        log_file: Some("/var/log/airamp.log".into()),
    };
    assert_eq!(loaded.settings, expected);
    assert!(loaded.effective().all(|effective| matches!(effective.source, Source::File { .. })));
}

#[test]
fn sizes_take_binary_units() {
    for (text, bytes) in [("0", 0), ("1024", 1024), ("3KiB", 3072), ("16 mib", 16 << 20), ("1GiB", 1 << 30)] {
        let loaded = from_environment(&[("AIRAMP_MIN_BYTES", text)]);
        assert_eq!((loaded.settings.min_bytes, loaded.warnings.len()), (bytes, 0), "{text}");
    }
    for text in ["-1", "1.5MiB", "MiB", "1 MB", "99999999999999999999", "18446744073709551615GiB"] {
        let loaded = from_environment(&[("AIRAMP_MIN_BYTES", text)]);
        assert_eq!(loaded.settings.min_bytes, Settings::default().min_bytes, "{text}");
        assert_only_warning(&loaded, &["AIRAMP_MIN_BYTES", "KiB, MiB or GiB", "nothing is compressed"]);
    }
}

#[test]
fn a_number_of_ranks_per_node_may_be_left_to_the_hosts() {
    for (text, value) in [("auto", None), (" AUTO", None), ("1", Some(1)), ("1024", Some(1024))] {
        let loaded = from_environment(&[("AIRAMP_RANKS_PER_NODE", text)]);
        assert_eq!((loaded.settings.ranks_per_node, loaded.warnings.len()), (value, 0), "{text}");
    }
    assert_eq!(Folder::holding("ranks_per_node = \"auto\"").resolve(&[]).warnings.len(), 0);
    for text in ["0", "1025", "-1", "automatic", "2.0"] {
        let loaded = from_environment(&[("AIRAMP_RANKS_PER_NODE", text)]);
        assert_only_warning(&loaded, &["AIRAMP_RANKS_PER_NODE", "`auto` or a whole number from 1 to 1024"]);
        assert_eq!(loaded.rejected, ["AIRAMP_RANKS_PER_NODE"], "{text}");
    }
}

#[test]
fn switches_take_the_usual_words() {
    for (text, value) in [("1", true), ("TRUE", true), ("on", true), ("0", false), ("no", false)] {
        let loaded = from_environment(&[("AIRAMP_DISABLE", text)]);
        assert_eq!((loaded.settings.disable, loaded.warnings.len()), (value, 0), "{text}");
    }
    assert_only_warning(
        &from_environment(&[("AIRAMP_DISABLE", "2")]),
        &["AIRAMP_DISABLE", "`1` or `0`", "\"2\""],
    );
}

#[test]
fn a_wrong_type_is_named_with_file_line_and_key() {
    let folder = Folder::holding("log = \"info\"\nmetrics_port = \"9091\"\n");
    let loaded = folder.resolve(&[]);
    let place = format!("{}:2: metrics_port", folder.path().display());
    assert_only_warning(
        &loaded,
        &[&place, "a whole number from 1 to 65535", "the string \"9091\"", "using 9090"],
    );
    assert_eq!(loaded.settings.log, LogLevel::Info, "the rest of the file holds");
}

#[test]
fn every_toml_type_is_refused_where_it_does_not_belong() {
    for value in [
        "[1]",
        "{ a = 1 }",
        "1979-05-27",
        "1.5",
        "nan",
        "true",
        "\"x\"",
        "-1",
        "9223372036854775807",
        "99999999999999999999",
    ] {
        let loaded = Folder::holding(format!("metrics_port = {value}\n")).resolve(&[]);
        assert_only_warning(&loaded, &[":1: metrics_port", "using 9090 (default)"]);
    }
    assert_only_warning(&Folder::holding("[mode]\nx = 1\n").resolve(&[]), &[":1: mode", "a table"]);
    assert_only_warning(&Folder::holding("[[mode]]\n").resolve(&[]), &[":1: mode", "an array"]);
}

#[test]
fn a_bad_variable_leaves_what_the_file_says() {
    let loaded = Folder::holding("metrics_port = 1234").resolve(&[("AIRAMP_METRICS_PORT", "70000")]);
    assert_eq!(loaded.settings.metrics_port, 1234);
    assert_only_warning(&loaded, &["AIRAMP_METRICS_PORT in the environment", "using 1234", "airamp.conf:1"]);
}

#[test]
fn a_relative_folder_of_telemetry_is_refused_and_other_paths_may_be_relative() {
    for relative in ["telemetry", "./telemetry", "../shm"] {
        let loaded = from_environment(&[("AIRAMP_TELEMETRY_DIR", relative)]);
        assert_only_warning(&loaded, &["AIRAMP_TELEMETRY_DIR", "an absolute path", relative]);
        assert_eq!(loaded.settings.telemetry_dir, None);
    }
    let folder = Folder::holding("telemetry_dir = \"shm\"\n");
    assert_only_warning(&folder.resolve(&[]), &[":1: telemetry_dir", "an absolute path"]);
    let others = ["TUNING_CACHE", "EVIDENCE_DIR", "NCCL_PATH", "KERNEL_DIR", "LOG_FILE"];
    for name in others.map(|name| format!("AIRAMP_{name}")) {
        let loaded = from_environment(&[(&name, "here")]);
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    }
}

#[test]
fn a_setting_without_a_default_stays_unset_where_its_value_is_wrong() {
    let loaded = from_environment(&[("AIRAMP_TELEMETRY_DIR", "relative")]);
    assert_only_warning(&loaded, &["found \"relative\"; it stays unset"]);
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_one() {
    let loaded = Folder::holding("# comment\nmetric_port = 1\n").resolve(&[]);
    assert_only_warning(&loaded, &[":2: unknown key \"metric_port\"", "did you mean metrics_port?"]);
    let begun = Folder::holding("metrics_token = \"/x\"\n").resolve(&[]);
    assert_only_warning(&begun, &["did you mean metrics_token_file?"]);
    let variable = Folder::holding("AIRAMP_MODE = \"on\"\n").resolve(&[]);
    assert_only_warning(&variable, &["unknown key \"AIRAMP_MODE\" (did you mean mode?)"]);
}

#[test]
fn an_unknown_variable_is_named_with_the_nearest_one() {
    let loaded = from_environment(&[("AIRAMP_LOGS", "debug")]);
    assert_only_warning(&loaded, &["\"AIRAMP_LOGS\"", "did you mean AIRAMP_LOG?"]);
}

#[test]
fn the_emulators_and_the_tests_variables_are_no_business_of_the_settings() {
    let variables = [
        ("AIRAMP_EMU_X", "1"),
        ("AIRAMP_TEST_X", "1"),
        ("AIRAMP_INJECT_X", "1"),
        ("AIRAMP_HOME", "/"),
        ("PATH", ""),
    ];
    assert!(from_environment(&variables).warnings.is_empty());
}

#[test]
fn an_empty_variable_is_an_unset_one() {
    let loaded =
        from_environment(&[("AIRAMP_MODE", ""), ("AIRAMP_CONFIG", ""), ("AIRAMP_METRICS_TOKEN", "")]);
    assert_eq!(loaded.settings, Settings::default());
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn the_compression_switch_turns_the_mode_on() {
    let loaded = from_environment(&[("AIRAMP_ENABLE_FP8_ALLREDUCE", "1")]);
    assert_eq!(loaded.settings.mode, Mode::On);
    assert_eq!(source_of(&loaded, "mode"), Source::Environment);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_wrong_value_for_compression_is_rejected_and_not_only_replaced() {
    let loaded = from_environment(&[("AIRAMP_MODE", "shadwo"), ("AIRAMP_ENABLE_FP8_ALLREDUCE", "1")]);
    assert_eq!(loaded.rejected, ["AIRAMP_MODE"], "who asked for shadow must not get on");
    let loaded = from_environment(&[("AIRAMP_MAX_VNMSE", "nan"), ("AIRAMP_TRIAL_MS", "-1")]);
    assert_eq!(loaded.rejected, ["AIRAMP_MAX_VNMSE", "AIRAMP_TRIAL_MS"]);
    assert!(from_environment(&[("AIRAMP_LOG", "loud")]).rejected.is_empty());
}

#[test]
fn a_wrong_value_for_compression_says_that_nothing_is_compressed() {
    let loaded = Folder::holding("min_bytes = 8192").resolve(&[("AIRAMP_MIN_BYTES", "1 MB")]);
    assert_eq!(loaded.rejected, ["AIRAMP_MIN_BYTES"], "the environment is stronger, and wrong");
    assert_only_warning(&loaded, &["AIRAMP_MIN_BYTES", "\"1 MB\"; nothing is compressed until it is right"]);
    let both = Folder::holding("mode = \"shadwo\"").resolve(&[("AIRAMP_MODE", "onn")]);
    assert_eq!((both.rejected, both.warnings.len()), (vec!["AIRAMP_MODE"], 2));
}

#[test]
fn a_right_value_in_a_stronger_source_makes_up_for_a_wrong_one() {
    let folder = Folder::holding("min_bytes = \"1 MB\"\nmetrics_addr = \"localhost\"");
    let loaded = folder.resolve(&[("AIRAMP_MIN_BYTES", "8KiB"), ("AIRAMP_METRICS_ADDR", "::1")]);
    assert!(loaded.rejected.is_empty() && loaded.rejected_of_daemon.is_empty(), "{loaded:?}");
    assert_eq!(loaded.settings.min_bytes, 8192);
    assert!(loaded.warnings[0].ends_with("using 8 KiB (environment)"), "{:?}", loaded.warnings);
}

#[test]
fn a_job_without_a_name_has_the_schedulers() {
    let name = |variables: &[(&str, &str)]| from_environment(variables).settings.job;
    assert_eq!(name(&[]), None);
    assert_eq!(name(&[("TORCHELASTIC_RUN_ID", "run-7")]).as_deref(), Some("run-7"));
    // What torchrun calls every job that was given no name.
    assert_eq!(name(&[("TORCHELASTIC_RUN_ID", "none")]), None);
    let both = [("TORCHELASTIC_RUN_ID", "run-7"), ("SLURM_JOB_ID", "4711")];
    assert_eq!(name(&both).as_deref(), Some("4711"));
    assert_eq!(name(&[("SLURM_JOB_ID", "4711"), ("AIRAMP_JOB", "mine")]).as_deref(), Some("mine"));
    let file = Folder::holding("job = \"from the file\"").resolve(&[("SLURM_JOB_ID", "4711")]);
    assert_eq!(file.settings.job.as_deref(), Some("from the file"));
}

#[test]
fn a_schedulers_name_that_does_not_suit_is_nobodys_fault() {
    let loaded = from_environment(&[("SLURM_JOB_ID", &"x".repeat(129))]);
    assert_eq!((loaded.settings.job, loaded.warnings.len()), (None, 0));
    let loaded = from_environment(&[("AIRAMP_JOB", &"x".repeat(129))]);
    assert_only_warning(&loaded, &["AIRAMP_JOB", "1 to 128 bytes of text on one line"]);
}

#[test]
fn a_mode_in_the_environment_wins_over_the_switch_in_the_file() {
    let loaded = Folder::holding("enable_fp8_allreduce = true").resolve(&[("AIRAMP_MODE", "observe")]);
    assert_eq!(loaded.settings.mode, Mode::Observe);
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
}

#[test]
fn a_switch_and_a_mode_that_contradict_each_other_are_named() {
    let loaded = from_environment(&[("AIRAMP_ENABLE_FP8_ALLREDUCE", "1"), ("AIRAMP_MODE", "shadow")]);
    assert_eq!(loaded.settings.mode, Mode::On);
    assert!(loaded.warnings.iter().any(|warning| warning.contains("contradict")), "{:?}", loaded.warnings);
}

#[test]
fn a_variable_that_is_not_text_is_named() {
    let variable = (OsString::from("AIRAMP_LOG"), OsString::from_vec(vec![0xff]));
    let loaded = resolve(&[variable].into_iter().collect(), Path::new("/nonexistent/airamp.conf"));
    assert_only_warning(&loaded, &["AIRAMP_LOG", "not UTF-8", "using warn"]);
}

#[test]
fn warnings_are_few_short_and_on_one_line() {
    let noise: String = (0..900).map(|i| format!("\"key\\n{i}\" = 1\n")).collect();
    let loaded = Folder::holding(noise).resolve(&[("AIRAMP_LOG", &"x\n\u{1b}[31m".repeat(10_000))]);
    assert_eq!(loaded.warnings.len(), 21, "twenty and a count");
    assert!(loaded.warnings[20].contains("more warnings"), "{:?}", loaded.warnings[20]);
    for warning in &loaded.warnings {
        assert!(!warning.contains(char::is_control), "{warning:?}");
        assert!(warning.len() < 1000, "{warning:?}");
    }
}

#[test]
fn a_wrong_value_of_the_daemon_is_named_and_keeps_no_rank_from_compressing() {
    let loaded = from_environment(&[("AIRAMP_METRICS_PORT", "0"), ("AIRAMP_NIC_METRICS", "perhaps")]);
    assert_eq!(loaded.rejected_of_daemon, ["AIRAMP_METRICS_PORT", "AIRAMP_NIC_METRICS"]);
    assert!(loaded.rejected.is_empty());
}

#[test]
fn effects_of_the_pattern_are_named_one_by_one_or_all_or_none() {
    let effects = |text: &str| from_environment(&[("AIRAMP_PATTERN_EFFECTS", text)]);
    let loaded = effects("plans, CHUNKS");
    assert_eq!(loaded.settings.pattern_effects, PatternEffects { samples: false, ..PatternEffects::ALL });
    let shown = loaded.effective().find(|one| one.setting.key == "pattern_effects").expect("a setting");
    assert_eq!((shown.setting.value)(&loaded.settings).to_string(), "plans,chunks");
    assert_eq!(effects("none").settings.pattern_effects, PatternEffects::NONE);
    assert_eq!(effects("all").settings.pattern_effects, PatternEffects::ALL);
    let wrong = effects("plans,speed");
    assert_eq!(wrong.settings.pattern_effects, PatternEffects::ALL);
    assert_only_warning(&wrong, &["AIRAMP_PATTERN_EFFECTS", "`samples`"]);
}
