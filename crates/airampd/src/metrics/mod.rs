//! The metrics: one table of families (`TABLE`), and what a look at the node gives for each, written in the two
//! text forms that Prometheus reads. HELP texts and docs/metrics.md come from the table. Pure: the server hands
//! in a look, and sends what comes out.
//!
//! The writer is our own. The crate prometheus-client writes OpenMetrics but not the older form, and its metrics
//! are counters that a program counts on; ours come counted already, with labels and exemplars, once a second.

mod document;
mod exposition;
mod family;
mod look;
mod negotiate;
mod number;
mod samples;
mod table;

#[cfg(test)]
mod claims;

use airamp_observer::view::Node;

pub use document::markdown;
pub use family::{Family, Kind, Section};
pub use look::Daemon;
pub use negotiate::{Format, negotiate};
pub use table::TABLE;

/// The page that a scrape gets: every family of the table that has samples, in the table's order.
pub fn render(node: &Node, daemon: &Daemon, format: Format) -> String {
    let look = look::Look::of(node, daemon);
    let mut page = exposition::Exposition::new(format);
    for family in TABLE.iter().flat_map(|section| section.families) {
        let mut samples = samples::Samples::of(family);
        (family.source)(&look, &mut samples);
        page.write(family, &samples);
    }
    page.finish()
}
