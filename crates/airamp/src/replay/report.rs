//! What the ranks measured, as a table or as JSON.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Args;
use crate::columns::{aligned, time};

/// A line of `airamp-rank replay`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Played {
    pub(super) rank: usize,
    pub(super) calls: usize,
    pub(super) left_out: usize,
    pub(super) cut: usize,
    pub(super) bytes: u64,
    pub(super) recorded_ms: f64,
    pub(super) wall_ms: f64,
    pub(super) behind_ms: f64,
    pub(super) bursts: usize,
    pub(super) host_us: Option<Spread>,
    pub(super) first_us: Option<Spread>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Spread {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) most: f64,
}

pub(super) struct Report<'a> {
    pub(super) args: &'a Args,
    pub(super) source: &'a str,
    pub(super) ranks: u32,
    pub(super) results: &'a [Played],
}

impl Report<'_> {
    pub(super) fn json(&self) -> String {
        let Self { args, source, ranks, results } = self;
        let report = json!({
            "trace": source,
            "ranks": ranks,
            "speed": args.speed,
            "library": !args.no_preload,
            "emulated": !args.gpu,
            "results": results,
        });
        format!("{report:#}\n")
    }

    pub(super) fn table(&self) -> String {
        let header = [
            "rank",
            "calls",
            "MiB",
            "recorded",
            "wall",
            "behind",
            "host p50",
            "host p99",
            "bursts",
            "first p50",
            "first p99",
        ];
        let lines = self.results.iter().map(line).collect();
        let library = if self.args.no_preload { "without the library" } else { "with the library" };
        let place = if self.args.gpu { "on GPUs" } else { "on the emulator" };
        let mut text = format!("{}\n{library}, {place}, speed {}\n", self.source, self.args.speed);
        text.push_str(&aligned(header, lines, &[]));
        if let Some(first) = self.results.first() {
            if first.left_out > 0 {
                text.push_str(&format!("{} captured calls are left out\n", first.left_out));
            }
            if first.cut > 0 {
                text.push_str(&format!("{} calls have fewer bytes than in the trace\n", first.cut));
            }
        }
        if self.results.len() < self.ranks as usize {
            text.push_str(&format!("{} of {} ranks have played it\n", self.results.len(), self.ranks));
        }
        text
    }
}

fn line(played: &Played) -> [String; 11] {
    let ms = |ms: f64| time(ms * 1e3);
    let us = |spread: &Option<Spread>, of: fn(&Spread) -> f64| {
        spread.as_ref().map_or_else(|| "-".to_owned(), |spread| format!("{:.1} us", of(spread)))
    };
    [
        played.rank.to_string(),
        played.calls.to_string(),
        format!("{:.1}", played.bytes as f64 / 1048576.0),
        ms(played.recorded_ms),
        ms(played.wall_ms),
        ms(played.behind_ms),
        us(&played.host_us, |spread| spread.p50),
        us(&played.host_us, |spread| spread.p99),
        played.bursts.to_string(),
        us(&played.first_us, |spread| spread.p50),
        us(&played.first_us, |spread| spread.p99),
    ]
}
