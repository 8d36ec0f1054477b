//! Renders docs/metrics.md from the table. A test compares the file with it.

use std::fmt::Write as _;

use super::family::{Family, Kind};
use super::table::TABLE;

const HEAD: &str = "\
# Metrics

This page is made from the table in `crates/airampd/src/metrics/table`; after a change there, run
`AIRAMP_BLESS=1 cargo test -p airampd`.

`airampd` serves them at `/metrics`, by default on `127.0.0.1:9090`, in two forms by the client's `Accept`
header: OpenMetrics 1.0 for who asks for it (Prometheus does), else the text form 0.0.4. Names and numbers are the
same in both; only OpenMetrics has units, exemplars and `_created`. Names below are those of the samples, as they
are used in queries; a histogram's have `_bucket`, `_sum` and `_count` behind them.

**Labels.** `workload` is the job: AIRAMP_JOB, SLURM_JOB_ID, torchrun's run id, or the pod; `#2` and so on are added where a node
sees a second job of the same name. It is not called `job`, because Prometheus gives every series a label of that
name, the scrape job's. `rank` is the job's rank; empty is what has none, and ranks that ended long ago, added up.

**Cardinality** is bounded: at most 32 slots per process, 12 collectives, 5 paths, 13 datatypes and 16 size classes;
identifiers (process, communicator, device UUID) stand only in the `_info` families, to be joined where they are
wanted. What is not known is no sample, never zero.

**Counters** never go backwards while the daemon lives, whatever processes end and start again.

";

/// The whole of docs/metrics.md.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for section in TABLE {
        let _ = write!(page, "## {}\n\n{}\n\n", section.title, section.about);
        page.push_str("| metric | type | labels | meaning |\n|---|---|---|---|\n");
        for family in section.families {
            row(&mut page, family);
        }
        page.push('\n');
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

fn row(page: &mut String, family: &Family) {
    let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
    let kind = match family.kind {
        Kind::Info => "gauge (info)",
        kind => kind.name(),
    };
    let ending = family.kind.ending();
    let _ =
        writeln!(page, "| `{}{ending}` | {kind} | {} | {} |", family.name, labels.join(", "), family.help);
}
