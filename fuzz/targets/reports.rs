//! Any bytes as what the ranks of a communicator report, in pieces behind their length: no panic, records that fit into a
//! line, and nothing compressed in shadow mode.
#![no_main]

use airamp_policy::{Entry, Mode, Order, Report, Tuner, TunerConfig};
use libfuzzer_sys::fuzz_target;

const RANKS: u32 = 2;

fuzz_target!(|bytes: &[u8]| {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let mode = if first & 1 == 0 { Mode::On } else { Mode::Shadow };
    let config = TunerConfig {
        communicator: 0,
        rank: 0,
        ranks: RANKS,
        variants: 2,
        fitted: 2,
        mode,
        min_speedup: 1.05,
        max_vnmse: 2e-3,
        trial_budget_us: 1e7,
    };
    let mut tuner = Tuner::new(config);
    tuner.first(None);
    let (mut now_us, mut index) = (0_u64, 0_u64);
    while let Some((what, after)) = rest.split_first() {
        let (piece, after) = after.split_at(after.len().min(usize::from(what & 63)));
        rest = after;
        match what >> 6 {
            0 | 1 => {
                if let Some(report) = Report::decode(piece) {
                    assert_eq!(report.encode(), piece);
                    tuner.report(u32::from(what >> 6), &report);
                }
            }
            2 => now_us = now_us.saturating_add(u64::from(*what) << 20),
            _ => tuner.order(if what & 1 == 0 { Order::Off } else { Order::On }),
        }
        let Some(plan) = tuner.next(now_us) else { continue };
        let compresses = |byte: &u8| matches!(Entry::from_byte(*byte), Entry::Compressed { .. });
        assert!(mode == Mode::On || !plan.iter().any(compresses));
        index = index.saturating_add(8);
        tuner.decided(index, &plan, what & 7 != 0);
    }
    tuner.drain_records().for_each(|record| assert!(record.to_line().len() < 900));
});
