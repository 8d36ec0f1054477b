//! Watches the error of what is compressed, from the counters that the kernels keep on every rank. The kernels count
//! dry runs too, whose error is the trials' business: what was counted across one is not judged.

use crate::believable::{power, vnmse};

#[derive(Debug, Default)]
pub(super) struct Guard {
    /// Of each rank when it last reported.
    totals: Vec<Totals>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    error: f64,
    signal: f64,
    dry_runs: u64,
}

impl Guard {
    /// The error since the rank's last report, if there was any signal and no dry run. Totals that cannot be believed
    /// change nothing; totals that went down begin anew.
    pub(super) fn take(
        &mut self,
        rank: u32,
        (squared_error, signal): (f64, f64),
        dry_runs: u64,
    ) -> Option<f64> {
        let now = Totals { error: power(squared_error)?, signal: power(signal)?, dry_runs };
        let place = rank as usize;
        if self.totals.len() <= place {
            self.totals.resize(place + 1, Totals::default());
        }
        let last = std::mem::replace(self.totals.get_mut(place)?, now);
        if now.dry_runs != last.dry_runs || now.error < last.error || now.signal <= last.signal {
            return None;
        }
        Some(vnmse(now.error - last.error, now.signal - last.signal))
    }
}
