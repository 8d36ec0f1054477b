//! `airamp doctor`: looks at a machine and says what is right, what is not, and what to do about it.
//! It changes nothing, needs no GPU itself, and asks everything that could hang in a process that it can end.

mod child;
mod daemon;
mod gpu;
mod kernels;
mod preload;
mod report;
mod settings;
mod telemetry;

use crate::cli::CommandError;
use crate::streams;
pub(crate) use preload::{PRINT_MAPS, print_maps};
use report::Check;
pub(crate) use settings::may_create_in;

const AFTER_HELP: &str = "\
Each line is `ok`, `warning` (something will not work or not as well) or `problem` (the library cannot be used \
here), with what to do after an arrow. Exit code: 0 all is well, 1 there are warnings, 2 there are problems.

Examples:
  airamp doctor
  airamp run --emulate -- airamp doctor       as a program on the emulated GPU would see it
  airamp doctor --json | jq '.checks[] | select(.status != \"ok\")'";

/// Check this machine: GPU, NCCL, preloading, kernels, settings, permissions, telemetry, airampd
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Print one JSON object instead of lines
    #[arg(long)]
    json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    let checks = checks();
    if args.json {
        streams::print(&format!("{:#}\n", report::as_json(&checks)))?;
    } else {
        streams::print(&report::as_lines(&checks))?;
    }
    Ok(report::exit_code(&checks))
}

fn checks() -> Vec<Check> {
    let loaded = airamp_settings::load();
    let mut checks = preload::checks();
    checks.extend(gpu::checks(loaded.settings.nccl_path.as_deref()));
    checks.push(kernels::check(loaded.settings.kernel_dir.as_deref()));
    checks.extend(settings::checks(&loaded));
    checks.push(telemetry::check(loaded.settings.telemetry, loaded.settings.telemetry_dir.as_deref()));
    checks.extend(daemon::checks(&loaded.settings));
    checks
}

/// The whole report, for whoever sends it along.
pub(crate) fn report() -> serde_json::Value {
    report::as_json(&checks())
}
