//! What must hold of settings, whatever they were made from. The fuzz targets call it.

use airamp_settings::{Loaded, TABLE};

const MOST_WARNINGS: usize = 21;
const LONGEST_WARNING: usize = 8 << 10;

/// Panics, which is what a fuzzer finds, if the settings are not as promised.
pub fn check(loaded: &Loaded) {
    let settings = &loaded.settings;
    assert!((1.0..=100.0).contains(&settings.min_speedup));
    assert!((0.0..=1.0).contains(&settings.max_vnmse));
    assert!(settings.trial_ms <= 3_600_000);
    assert!(settings.job.as_ref().is_none_or(|job| (1..=128).contains(&job.len())));
    assert!(settings.min_bytes <= 1 << 40);
    assert!((64 << 10..=4 << 30).contains(&settings.arena_bytes));
    assert!((10..=3_600_000).contains(&settings.consensus_timeout_ms));
    assert!((100..=3_600_000).contains(&settings.doubt_ms));
    assert!(settings.metrics_port >= 1);
    assert!(loaded.warnings.len() <= MOST_WARNINGS);
    for warning in &loaded.warnings {
        assert!(warning.len() <= LONGEST_WARNING, "{} bytes", warning.len());
        assert!(!warning.contains(char::is_control), "{warning:?}");
    }
    assert_eq!(loaded.effective().count(), TABLE.len());
}
