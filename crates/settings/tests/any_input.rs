//! Any bytes as a file, any text as a value: no panic, and every setting inside its bounds.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use airamp_settings::{Environment, Loaded, Plain, TABLE, resolve};
use proptest::collection::vec;
use proptest::prelude::*;

fn within_bounds(loaded: &Loaded) -> bool {
    let settings = &loaded.settings;
    let path_fits = |path: &Option<std::path::PathBuf>| {
        path.as_ref().is_none_or(|path| (1..=4095).contains(&path.as_os_str().len()))
    };
    (1.0..=100.0).contains(&settings.min_speedup)
        && (0.0..=1.0).contains(&settings.max_vnmse)
        && settings.trial_ms <= 3_600_000
        && settings.job.as_ref().is_none_or(|job| (1..=128).contains(&job.len()))
        && settings.min_bytes <= 1 << 40
        && (64 << 10..=4 << 30).contains(&settings.arena_bytes)
        && (10..=3_600_000).contains(&settings.consensus_timeout_ms)
        && (100..=3_600_000).contains(&settings.doubt_ms)
        && settings.metrics_port >= 1
        && (100..=3_600_000).contains(&settings.hang_after_ms)
        && (10..=3_600_000).contains(&settings.late_after_ms)
        && path_fits(&settings.telemetry_dir)
        && path_fits(&settings.metrics_token_file)
        && path_fits(&settings.evidence_dir)
        && path_fits(&settings.nccl_path)
        && path_fits(&settings.log_file)
        && path_fits(&settings.tuning_cache)
        && loaded.warnings.len() <= 21
}

fn resolved_from_file(bytes: &[u8]) -> Loaded {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("airamp.conf");
    fs::write(&path, bytes).expect("written");
    resolve(&Environment::default(), &path)
}

fn a_key() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => (0..TABLE.len()).prop_map(|index| TABLE[index].key.to_owned()),
        1 => "[a-z_]{1,20}",
    ]
}

fn a_toml_value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| format!("{number:?}").replace("NaN", "nan")),
        any::<bool>().prop_map(|value| value.to_string()),
        "[ -~]{0,30}".prop_map(|text| format!("'{}'", text.replace('\'', ""))),
        "[0-9]{1,20} ?([KMG]iB)?".prop_map(|text| format!("\"{text}\"")),
        Just("[1, 2]".to_owned()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn any_bytes_as_a_file(bytes in vec(any::<u8>(), 0..2000)) {
        prop_assert!(within_bounds(&resolved_from_file(&bytes)));
    }

    #[test]
    fn any_keys_and_values_in_a_file(entries in vec((a_key(), a_toml_value()), 0..20)) {
        let text: String = entries.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
        prop_assert!(within_bounds(&resolved_from_file(text.as_bytes())));
    }

    #[test]
    fn any_bytes_as_a_variable(index in 0..TABLE.len(), value in vec(1_u8.., 0..200)) {
        let variable = (OsString::from(TABLE[index].env), OsString::from_vec(value));
        let loaded = resolve(&[variable].into_iter().collect(), Path::new("/nonexistent/airamp.conf"));
        prop_assert!(within_bounds(&loaded));
    }

    #[test]
    fn what_is_shown_is_read_back_as_the_same(index in 0..TABLE.len(), text in "[0-9]{1,10}(\\.[0-9]{1,3})?|[KMG]iB|on|e5m2|info|::1|/a b") {
        let set = |value: String| {
            let variable = (OsString::from(TABLE[index].env), OsString::from(value));
            resolve(&[variable].into_iter().collect(), Path::new("/nonexistent/airamp.conf")).settings
        };
        let settings = set(text);
        let shown = (TABLE[index].value)(&settings);
        if shown != Plain::Unset {
            prop_assert_eq!(set(shown.to_string()), settings);
        }
    }
}
