//! Any text as a cluster file: refused with a short reason of one line, or understood, and then predicted with numbers that
//! can be.
#![no_main]

use std::sync::LazyLock;

use airamp_plan::{Cluster, ClusterFile, Fit, Prediction, adapted, gain_at, predict};
use libfuzzer_sys::fuzz_target;

static FIT: LazyLock<Fit> = LazyLock::new(|| Fit::built_in().expect("the fit that is built in"));

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let file = match ClusterFile::parse(text) {
        // Other files are not read here.
        Ok(file) if file.trace.is_some() => return,
        Ok(file) => file,
        Err(reason) => return airamp_fuzz::check_reason(&reason),
    };
    match Cluster::of(file) {
        Err(reason) => airamp_fuzz::check_reason(&reason),
        Ok(cluster) => {
            check(&cluster, &predict(&cluster, &FIT));
            let fit = adapted(&cluster, &FIT);
            let gains = cluster.messages.iter().filter_map(|message| gain_at(&cluster, &fit, message, 1e3));
            gains.for_each(|gain| assert!(airamp_fuzz::is_positive(gain), "{gain}"));
        }
    }
});

fn check(cluster: &Cluster, prediction: &Prediction) {
    assert_eq!(prediction.messages.len(), cluster.messages.len());
    assert!(!cluster.file.name.as_deref().unwrap_or_default().contains(char::is_control));
    airamp_fuzz::check_prediction(prediction);
}
