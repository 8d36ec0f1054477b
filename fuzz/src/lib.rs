//! What must hold of settings, of a reason and of a prediction, whatever they were made from. The fuzz targets call it.

use airamp_plan::{Compared, Parts, Prediction};
use airamp_settings::{Loaded, TABLE};

const MOST_WARNINGS: usize = 21;
const LONGEST_WARNING: usize = 8 << 10;
const LONGEST_REASON: usize = 2 << 10;

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

/// Why a file is refused: short, and one line.
pub fn check_reason(reason: &str) {
    assert!(reason.len() <= LONGEST_REASON, "{} bytes", reason.len());
    assert!(!reason.contains(char::is_control), "{reason:?}");
}

pub fn is_positive(number: f64) -> bool {
    number.is_finite() && number > 0.0
}

/// Times and gains can be.
pub fn check_prediction(prediction: &Prediction) {
    for of in &prediction.messages {
        let parts = std::iter::once(&of.vendor).chain(&of.compressed);
        parts.for_each(|parts| check_parts(parts));
        assert!(is_positive(of.with_airamp_us) && of.gain_if_compressed.is_none_or(is_positive));
        let up_to = of.pays.as_ref().and_then(|pays| pays.up_to_gbps);
        assert!(up_to.is_none_or(is_positive), "{up_to:?}");
    }
    let step = &prediction.step;
    let bounds = step.nothing_hidden.iter().chain(&step.all_hidden);
    std::iter::once(&step.communication).chain(bounds).for_each(check_compared);
}

fn check_parts(of: &Parts) {
    assert!(is_positive(of.total_us), "{of:?}");
    for part in [of.latency_us, of.wire_us, of.sending_us, of.codec_us] {
        assert!(part.is_finite() && part >= 0.0, "{of:?}");
    }
}

fn check_compared(of: &Compared) {
    assert!([of.without_us, of.with_us, of.gain].into_iter().all(is_positive), "{of:?}");
}
