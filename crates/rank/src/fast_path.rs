//! `airamp-rank fast-path SCENARIO`: compressed calls made directly and not through the library, of
//! which some share something or fail in part. Prints one JSON line: what came of them, beside what
//! comes of the same calls made one by one.

mod devices;
mod expected;
mod failing;
mod scenarios;
mod stage;
mod trials;

use airamp_vendor::gpu::Kind;

use crate::error::RankError;
use crate::watchdog::Watchdog;

const LIMIT: std::time::Duration = std::time::Duration::from_secs(300);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    scenario: scenarios::Scenario,
    /// Device memory for scratch.
    #[arg(long, default_value_t = 16 << 20)]
    arena_bytes: usize,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let _watchdog = Watchdog::start(LIMIT);
    scenarios::run(kind, arguments.scenario, arguments.arena_bytes)
}
