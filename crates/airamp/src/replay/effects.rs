//! `airamp replay --compare-effects`: plays the trace with each effect of a learnt rhythm alone, with all and with none,
//! in rounds whose order turns, and compares the first call of a burst. Measures nothing itself: each run is a replay.

use serde_json::json;

use super::report::{Played, Spread};
use crate::columns::aligned;

/// Values of `AIRAMP_PATTERN_EFFECTS`; the first is what the others are compared with.
pub(super) const SETTINGS: [&str; 5] = ["none", "plans", "samples", "chunks", "all"];

/// What the runs of one setting measured.
pub(super) struct Tried {
    pub(super) setting: &'static str,
    pub(super) runs: Vec<Vec<Played>>,
}

impl Tried {
    pub(super) fn none() -> Vec<Self> {
        SETTINGS.map(|setting| Self { setting, runs: Vec::new() }).into()
    }

    /// In the middle of all runs and ranks.
    fn middle(&self, of: fn(&Spread) -> f64) -> Option<f64> {
        let played = self.runs.iter().flatten();
        let mut values: Vec<f64> = played.filter_map(|played| played.first_us.as_ref().map(of)).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    }

    fn lowest_and_highest(&self, of: fn(&Spread) -> f64) -> Option<(f64, f64)> {
        let values = self.runs.iter().flatten().filter_map(|played| played.first_us.as_ref().map(of));
        values.map(|one| (one, one)).reduce(|(low, high), (one, _)| (low.min(one), high.max(one)))
    }
}

/// The order of round `number`: each setting comes at each place in turn.
pub(super) fn order(number: u32) -> impl Iterator<Item = usize> {
    (0..SETTINGS.len()).map(move |place| (place + number as usize) % SETTINGS.len())
}

pub(super) fn table(all: &[Tried], rounds: u32) -> String {
    let header =
        ["effects", "first p50", "lowest to highest", "ratio", "first p99", "lowest to highest", "ratio"];
    let lines = all.iter().map(|tried| {
        let [p50, p99] = [p50 as fn(&Spread) -> f64, p99].map(|of| cells(tried, &all[0], of));
        let [(p50, p50_range, p50_ratio), (p99, p99_range, p99_ratio)] = [p50, p99];
        [tried.setting.to_owned(), p50, p50_range, p50_ratio, p99, p99_range, p99_ratio]
    });
    let table = aligned(header, lines.collect(), &["effects"]);
    format!("{table}\n{rounds} rounds; of all runs and ranks the one in the middle; ratio: to none\n")
}

fn cells(tried: &Tried, none: &Tried, of: fn(&Spread) -> f64) -> (String, String, String) {
    let dash = || "-".to_owned();
    let ratio = tried.middle(of).zip(none.middle(of)).map(|(with, without)| with / without);
    (
        tried.middle(of).map_or_else(dash, |us| format!("{us:.1} us")),
        tried.lowest_and_highest(of).map_or_else(dash, |(low, high)| format!("{low:.1} to {high:.1}")),
        ratio.map_or_else(dash, |ratio| format!("{ratio:.3}")),
    )
}

pub(super) fn json(all: &[Tried], rounds: u32, source: &str) -> String {
    let effects: Vec<_> = all
        .iter()
        .map(|tried| {
            json!({
                "effects": tried.setting,
                "first_p50_us": tried.middle(p50),
                "first_p99_us": tried.middle(p99),
                "runs": tried.runs,
            })
        })
        .collect();
    format!("{:#}\n", json!({ "trace": source, "rounds": rounds, "compared": effects }))
}

fn p50(spread: &Spread) -> f64 {
    spread.p50
}

fn p99(spread: &Spread) -> f64 {
    spread.p99
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_comes_at_every_place() {
        for place in 0..SETTINGS.len() {
            let mut there: Vec<usize> =
                (0..SETTINGS.len() as u32).filter_map(|round| order(round).nth(place)).collect();
            there.sort_unstable();
            assert_eq!(there, [0, 1, 2, 3, 4]);
        }
    }

    #[test]
    fn what_is_compared_is_the_middle_of_all_runs() {
        let played = |p50: f64| {
            let line = format!(
                r#"{{"rank":0,"calls":1,"left_out":0,"cut":0,"bytes":1,"recorded_ms":1.0,"wall_ms":1.0,"behind_ms":0.0,
                "bursts":1,"host_us":null,"first_us":{{"p50":{p50},"p99":100.0,"most":100.0}}}}"#
            );
            vec![serde_json::from_str::<Played>(&line).expect("a line")]
        };
        let mut all = Tried::none();
        all[0].runs = vec![played(10.0), played(20.0), played(90.0)];
        all[1].runs = vec![played(5.0), played(10.0), played(11.0)];
        let text = table(&all, 3);
        let plans = text.lines().find(|line| line.starts_with("plans")).expect("a line");
        for part in ["10.0 us", "5.0 to 11.0", "0.500", "1.000"] {
            assert!(plans.contains(part), "{part}: {plans}");
        }
        assert!(text.contains("3 rounds"), "{text}");
    }
}
