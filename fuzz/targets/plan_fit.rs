//! Any text as a saved fit: refused with a short reason of one line, or read, written and read again as the same, and of
//! use for a prediction.
#![no_main]

use std::sync::LazyLock;

use airamp_plan::{Cluster, ClusterFile, EXAMPLE, Fit, predict};
use libfuzzer_sys::fuzz_target;

static CLUSTER: LazyLock<Cluster> =
    LazyLock::new(|| ClusterFile::parse(EXAMPLE).and_then(Cluster::of).expect("the example"));

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let fit = match Fit::from_text(text) {
        Ok(fit) => fit,
        Err(reason) => return airamp_fuzz::check_reason(&reason),
    };
    assert_eq!(Fit::from_text(&fit.to_text()).as_ref(), Ok(&fit));
    assert!(!fit.source.contains(char::is_control), "{:?}", fit.source);
    airamp_fuzz::check_prediction(&predict(&CLUSTER, &fit));
    let _ = [true, false].map(|link_has_a_rate| fit.errors.of_sizes(link_has_a_rate));
});
