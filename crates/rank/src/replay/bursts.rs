//! Which calls begin a burst, that is, come after a pause. By the trace alone, so that it is the same at any speed.

/// A gap of so many usual ones is a pause,
const TIMES_USUAL: u64 = 3;
/// unless it is shorter than this,
const LEAST_NS: u64 = 200_000;
/// and any gap as long as this is one.
const CERTAIN_NS: u64 = 10_000_000;

/// For each moment, given their times in order.
pub(super) fn firsts(times: &[u64]) -> Vec<bool> {
    let gaps: Vec<u64> = times.windows(2).map(|two| two[1].saturating_sub(two[0])).collect();
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let usual = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    let pause = usual.saturating_mul(TIMES_USUAL).clamp(LEAST_NS, CERTAIN_NS);
    let first = std::iter::once(true).take(times.len());
    first.chain(gaps.iter().map(|gap| *gap >= pause)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_after_a_pause_begins_a_burst() {
        const MS: u64 = 1_000_000;
        assert_eq!(firsts(&[0, MS, 2 * MS, 6 * MS, 7 * MS]), [true, false, false, true, false]);
        assert_eq!(firsts(&[0, 20 * MS, 40 * MS]), [true; 3], "each is one of its own");
        assert_eq!(firsts(&[0, 1000, 9000, 10_000]), [true, false, false, false], "too short for a pause");
        assert_eq!((firsts(&[]).len(), firsts(&[5]).as_slice()), (0, [true].as_slice()));
    }
}
