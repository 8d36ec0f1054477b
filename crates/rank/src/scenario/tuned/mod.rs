//! `scenario tuned-…`: programs that run for many steps while the library measures, switches on, off and
//! back as it likes. Each result must be the vendor's or the codec's, bit for bit; which of them came, call by
//! call, is the report, in which all processes must agree. They have no part in what the library decides.

mod children;
mod crossing;
mod devices;
mod gradient;
mod graphs;
mod library;
mod pipeline;
mod report;
mod steps;
mod trailer;

use std::path::PathBuf;

use airamp_vendor_abi::nccl::DataType;

use super::Job;
use super::expected::Spec;
use crate::error::RankError;
use crate::watchdog::Watchdog;
use report::Report;
pub(super) use trailer::Change;

#[derive(Clone, Debug, clap::Args)]
// The arguments that it is part of have the name that it would get.
#[group(id = "tuned")]
pub(super) struct Arguments {
    /// Steps of a `tuned-…` program, at most.
    #[arg(long, default_value_t = 200)]
    steps: usize,
    /// Ends so many steps after the library has decided on every tensor.
    #[arg(long)]
    after_decided: Option<usize>,
    /// Ends once this file is there.
    #[arg(long)]
    stop_file: Option<PathBuf>,
    /// Rank 0 appends a line to this file whenever results change from one kind to the other.
    #[arg(long)]
    progress: Option<PathBuf>,
    /// Tensors of a step, as `float32:65536` in bytes.
    #[arg(long, value_delimiter = ',', value_parser = tensor)]
    #[arg(default_value = "float32:65536,float16:20000,bfloat16:262144")]
    tensors: Vec<(DataType, usize)>,
    /// What is done to the part of the id that the library wrote.
    #[arg(long, value_parser = Change::parse, default_value = "nothing")]
    trailer: Change,
    /// Each call in a group of its own.
    #[arg(long)]
    one_by_one: bool,
}

impl Arguments {
    pub(super) fn trailer(&self) -> Change {
        self.trailer.clone()
    }

    /// The AllReduces of a step: every tensor once, some of them in place.
    fn specs(&self) -> Vec<Spec> {
        let spec = |(number, (datatype, bytes)): (usize, &(DataType, usize))| {
            let count = bytes / datatype.size().unwrap_or(1);
            Spec { in_place: number % 2 == 1, ..Spec::sum(*datatype, count).seeded(7 * number) }
        };
        self.tensors.iter().enumerate().map(spec).collect()
    }
}

fn tensor(text: &str) -> Result<(DataType, usize), String> {
    let (name, bytes) = text.split_once(':').ok_or("not of the form datatype:bytes")?;
    let datatype = match name {
        "float16" => DataType::FLOAT16,
        "bfloat16" => DataType::BFLOAT16,
        "float32" => DataType::FLOAT32,
        other => return Err(format!("{other} is none of float16, bfloat16 and float32")),
    };
    let bytes: usize = bytes.parse().map_err(|_| format!("{bytes} is no number"))?;
    Ok((datatype, bytes))
}

/// Runs the program of that name; `None` if there is none.
pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    name: &str,
    arguments: &Arguments,
) -> Option<Result<bool, RankError>> {
    let program: fn(&mut Job, &Watchdog, &Arguments, &mut Report) -> Result<(), RankError> = match name {
        "tuned-loop" => steps::run,
        "tuned-crossing" => crossing::run,
        "tuned-children" => children::run,
        "tuned-devices" => devices::run,
        "tuned-pipeline" => pipeline::run,
        "tuned-graphs" => graphs::run,
        _ => return None,
    };
    let mut report = Report::new(name, job.world.rank);
    report.error = program(job, watchdog, arguments, &mut report).err().map(|error| error.to_string());
    watchdog.enter("the end");
    Some(Ok(report.print()))
}
