//! Any text as a tuning cache: refused with a reason of one line, or read, and then written and read again as the same.
#![no_main]

use airamp_policy::cache::{Cache, LONGEST_TEXT, MOST_TUNINGS, seal};
use airamp_policy::{Mode, Tuner, TunerConfig};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = str::from_utf8(bytes) else { return };
    check(text);
    // With the right sum, so that what lies behind it is read too.
    check(&seal(text));
});

fn check(text: &str) {
    let cache = match Cache::parse(text) {
        Ok(cache) => cache,
        Err(reason) => {
            let reason = reason.to_string();
            assert!(reason.len() < 1000 && !reason.contains(char::is_control), "{reason:?}");
            return;
        }
    };
    let written = cache.to_text();
    assert!(written.len() <= LONGEST_TEXT);
    assert_eq!(Cache::parse(&written).as_ref(), Ok(&cache));
    assert!(cache.hashes().count() <= MOST_TUNINGS);
    for (key, hash) in cache.hashes() {
        let tuning = cache.get(key).expect("a tuning");
        assert_eq!(tuning.hash(), hash);
        let config = TunerConfig {
            communicator: 0,
            rank: 0,
            ranks: 2,
            variants: 16,
            fitted: 0,
            mode: Mode::On,
            min_speedup: 1.05,
            max_vnmse: 2e-3,
            trial_budget_us: 1e7,
        };
        let mut tuner = Tuner::new(config);
        tuner.first(Some(tuning));
        assert_eq!(tuner.tuning(key).as_ref(), Some(tuning), "what was kept is what holds");
        tuner.drain_records().for_each(|record| assert!(record.to_line().len() < 900));
    }
}
