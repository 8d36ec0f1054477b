//! The table: one row per family, by subject. To add a metric, add a row and run the tests of this crate with
//! AIRAMP_BLESS=1, which rewrites docs/metrics.md.

mod collectives;
mod communicators;
mod compression;
mod daemon;
mod devices;
mod jobs;
mod network;
mod node;
mod ranks;
mod rhythm;

use super::family::Section;

pub const TABLE: &[Section] = &[
    node::SECTION,
    jobs::SECTION,
    collectives::SECTION,
    ranks::SECTION,
    communicators::SECTION,
    compression::SECTION,
    rhythm::SECTION,
    devices::SECTION,
    network::SECTION,
    daemon::SECTION,
];

const WORKLOAD: &[&str] = &["workload"];
const RANK: &[&str] = &["workload", "rank"];
const MEMBER: &[&str] = &["workload", "rank", "slot"];
