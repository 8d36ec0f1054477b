//! `airamp plan`: how long a step of a cluster would take without and with compression. The model, its fit and the cluster
//! file are `airamp_plan`'s; here are the arguments and what is shown. It reads files, starts nothing and asks no GPU.

mod chart;
mod report;

use std::path::{Path, PathBuf};

use airamp_plan::{Cluster, EXAMPLE, Fit, Measured, predict, text_of};

use crate::cli::CommandError;
use crate::streams;

const AFTER_HELP: &str = "\
The cluster file says how many nodes and GPUs there are, how fast the links are, and what a step sends; keys that are not \
known are refused. Of each message the table says how long the vendor's AllReduce and the compressed one take, whether the \
library would compress it, at which link speeds that pays (a gain of AIRAMP_MIN_SPEEDUP), and what it is bound by then: \
latency (more steps than the vendor's), codec (our kernels), sending (what processors do for each byte), or bytes on the wire (beyond 128 nodes, several \
GPUs of a node send more over its NICs than a ring does). A step has two bounds: no communication hidden behind computation, and all \
that can be. What goes beyond the measurements is marked with a star, and listed.

The costs come from a fit to `airamp bench --json`. The one that is built in was measured on one NVIDIA H200, NCCL over \
loopback sockets: for another machine make your own. docs/plan.md has the formulas and the errors.

Exit code: 0 predicted, 2 wrong arguments or a file that cannot be used, 125 airamp failed.

Examples:
  airamp plan --example > cluster.toml                     a file to begin with
  airamp plan cluster.toml                                 the table
  airamp plan cluster.toml --chart gain.svg                and the gain over the link's speed
  airamp bench --gpu --ranks 2,4,8 --sizes 256KiB..64MiB --link-rate 10gbit --json > bench.json
  airamp plan --fit bench.json --errors                    how well does the model fit this machine?
  airamp plan --fit bench.json --save my-fit.json          keep the fit
  airamp plan cluster.toml --fit my-fit.json               and use it";

/// --fit takes all files that follow it.
const NO_CLUSTER: &str =
    "no cluster file is named; it stands before --fit (`airamp plan --example` prints one)";

/// Predict the step time of a cluster without and with compression
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A cluster file
    #[arg(value_name = "CLUSTER")]
    cluster: Option<PathBuf>,

    /// What `airamp bench --json` printed on one machine, several files if need be, or a fit that --save wrote; without
    /// it the fit that is built in
    #[arg(long, value_name = "FILE", num_args = 1..)]
    fit: Vec<PathBuf>,

    /// Show how far the fit is off on sizes and numbers of ranks that it was not shown
    #[arg(long, conflicts_with_all = ["cluster", "chart"])]
    errors: bool,

    /// Write the fit into this file
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// One JSON object instead of the table
    #[arg(long)]
    json: bool,

    /// Draw the gain over the speed of the link into this file, .svg
    #[arg(long, value_name = "FILE", requires = "cluster", value_parser = chart::place)]
    chart: Option<PathBuf>,

    /// Print a cluster file with comments
    #[arg(long, exclusive = true)]
    example: bool,
}

pub(crate) fn execute(args: &Args) -> Result<u8, CommandError> {
    if args.example {
        streams::print(EXAMPLE)?;
        return Ok(0);
    }
    if args.cluster.is_none() && !args.errors && args.save.is_none() {
        return Err(CommandError::Arguments(NO_CLUSTER.to_owned()));
    }
    let fit = fit(&args.fit).map_err(CommandError::Arguments)?;
    if let Some(path) = &args.save {
        std::fs::write(path, fit.to_text()).map_err(|error| named(path, error))?;
    }
    if args.errors {
        streams::print(&if args.json { fit.to_text() } else { report::errors(&fit) })?;
    }
    match &args.cluster {
        Some(path) => show(args, &fit, path),
        None => Ok(0),
    }
}

fn show(args: &Args, fit: &Fit, path: &Path) -> Result<u8, CommandError> {
    let cluster = Cluster::read(path).map_err(CommandError::Arguments)?;
    let prediction = predict(&cluster, fit);
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    if let Some(place) = &args.chart {
        std::fs::write(place, chart::drawing(&cluster, fit, &name)).map_err(|error| named(place, error))?;
    }
    let shown = if args.json { report::json } else { report::text };
    streams::print(&shown(&cluster, fit, &prediction, &name))?;
    Ok(0)
}

/// From the files that were named, or the one that is built in.
fn fit(paths: &[PathBuf]) -> Result<Fit, String> {
    match paths {
        [] => Fit::built_in(),
        [saved] if text_of(saved).is_ok_and(|text| text.contains("\"airamp_plan_fit\"")) => {
            let wrong = |error: String| format!("{}: {error}", saved.display());
            Fit::from_text(&text_of(saved).map_err(wrong)?).map_err(wrong)
        }
        paths => Measured::read(paths).and_then(|measured| {
            if measured.incomplete {
                streams::complain("airamp plan: a benchmark did not run to its end; its lines are used");
            }
            Fit::of(&measured)
        }),
    }
}

fn named(path: &Path, error: std::io::Error) -> CommandError {
    CommandError::Io(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}
