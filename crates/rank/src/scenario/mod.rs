//! `airamp-rank scenario`: programs that use NCCL as applications do and know what must come out, with
//! the vendor alone and with compression. They have no part in compressing. One JSON line per case
//! and process, so that runs can be compared bit for bit; all processes walk the cases in step.

mod arguments;
mod beyond;
mod calls;
mod children;
mod creation;
mod crossing;
mod devices;
mod endings;
mod expected;
mod fault;
mod graph_update;
mod graphs;
mod groups;
mod lifetimes;
mod meeting;
mod messages;
mod mixed;
mod piece;
mod planned;
mod refused;
mod streams;
mod threads;
mod tracked;
mod tuned;
mod uncaptured;
mod unlike;

use std::io::Write;
use std::ops::Deref;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use airamp_codec::Format;
use airamp_vendor::gpu::{Gpu, Kind, Stream};
use airamp_vendor_abi::nccl::UniqueId;
use serde::Serialize;

use crate::digest::Digest;
use crate::error::RankError;
use crate::nccl::{Communicator, Making, Nccl, invoke};
use crate::watchdog::Watchdog;
use crate::world::World;
use expected::Expectation;
use tracked::Tracked;

/// Longer than the longest case takes on two busy cores.
const CASE_LIMIT: Duration = Duration::from_secs(40);

#[derive(clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct Arguments {
    /// Cases whose name begins with NAME; `fault` is a job to which something is done, `creation` one
    /// while its communicator is made, and `tuned-loop`,
    /// `tuned-crossing`, `tuned-children`, `tuned-devices`, `tuned-pipeline` and `tuned-graphs` run for
    /// many steps. `planned` does what a file says, and `beyond` takes gigabytes.
    name: String,
    /// A case that is left out, by its whole name.
    #[arg(long)]
    except: Option<String>,
    /// Whose results are right.
    #[arg(long, value_enum, default_value = "vendor")]
    expect: Arithmetic,
    /// The wire format, where results are compressed.
    #[arg(long, default_value = "auto")]
    format: String,
    /// The least bytes of a call that is compressed.
    #[arg(long, default_value_t = 4096)]
    min_bytes: usize,
    /// Ranks in each process, where there are several.
    #[arg(long, value_delimiter = ',')]
    layout: Vec<usize>,
    /// Each call of `fault` in a group of its own.
    #[arg(long)]
    grouped: bool,
    /// A message of `fault` that its receiver awaits too late.
    #[arg(long, conflicts_with = "grouped")]
    misplaced: bool,
    /// Further communicators of `fault` behind the first, which one of the ranks keeps from compressing.
    #[arg(long)]
    again: bool,
    /// How the communicator of `creation` is made.
    #[arg(long, value_enum, default_value = "plain")]
    way: creation::Way,
    /// The file of `planned`.
    #[arg(long)]
    plan: Option<PathBuf>,
    #[command(flatten)]
    tuned: tuned::Arguments,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Arithmetic {
    Vendor,
    Compressed,
}

/// What a thread works with.
struct Equipment {
    kind: Kind,
    gpu: Gpu,
    nccl: Rc<Nccl>,
    stream: Stream,
    expectation: Expectation,
}

/// One process of the job.
struct Job {
    equipment: Equipment,
    world: World,
    layout: Vec<usize>,
    /// What becomes of the library's part of each id that is made.
    trailer: tuned::Change,
}

impl Deref for Job {
    type Target = Equipment;

    fn deref(&self) -> &Equipment {
        &self.equipment
    }
}

/// What a case saw, and the first thing that was wrong.
struct Seen {
    /// The bits of AllReduces, equal on all ranks.
    results: Digest,
    /// Other bits, which may differ from rank to rank.
    others: Digest,
    /// Calls that the library says it compressed.
    compressed: u64,
    mismatch: Option<String>,
}

impl Seen {
    fn new() -> Self {
        Self { results: Digest::new(), others: Digest::new(), compressed: 0, mismatch: None }
    }

    fn expect(&mut self, holds: bool, claim: impl FnOnce() -> String) {
        if !holds && self.mismatch.is_none() {
            self.mismatch = Some(claim());
        }
    }

    /// Adds what was seen apart, on a communicator that not all ranks share or in another thread.
    fn take_in(&mut self, part: Self) {
        self.others.add(part.results.hex().as_bytes());
        self.others.add(part.others.hex().as_bytes());
        self.compressed += part.compressed;
        if let Some(mismatch) = part.mismatch {
            self.expect(false, || mismatch);
        }
    }
}

type Run = Box<dyn Fn(&mut Job) -> Result<Seen, RankError>>;

struct Case {
    name: String,
    run: Run,
}

impl Case {
    fn new(name: impl Into<String>, run: impl Fn(&mut Job) -> Result<Seen, RankError> + 'static) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    case: &'a str,
    process: usize,
    results: String,
    others: String,
    compressed: u64,
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    if arguments.name == "planned" {
        return run_planned(kind, arguments);
    }
    let is_beyond = arguments.name == beyond::NAME;
    let watchdog = Watchdog::start(if is_beyond { beyond::LIMIT } else { CASE_LIMIT });
    let mut job = Job::start(kind, arguments)?;
    if arguments.name == "fault" {
        return fault::run(
            &mut job,
            fault::Manner {
                grouped: arguments.grouped,
                misplaced: arguments.misplaced,
                again: arguments.again,
            },
        );
    }
    if arguments.name == "creation" {
        return creation::run(&mut job, arguments.way);
    }
    if let Some(done) = tuned::run(&mut job, &watchdog, &arguments.name, &arguments.tuned) {
        return done;
    }
    let mut cases = if is_beyond { vec![beyond::case()] } else { all_cases(&job) };
    cases.retain(|case| case.name.starts_with(&arguments.name));
    cases.retain(|case| arguments.except.as_ref() != Some(&case.name));
    let mut all_right = !cases.is_empty();
    for case in &cases {
        watchdog.enter(&case.name);
        all_right &= run_case(&mut job, case)?;
    }
    watchdog.enter("the end");
    Ok(all_right)
}

fn run_planned(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let plan = arguments.plan.as_deref();
    let plan = plan.ok_or_else(|| RankError::Arguments("planned takes a --plan".into()))?;
    let watchdog = planned::watchdog(plan)?;
    planned::run(&mut Job::start(kind, arguments)?, &watchdog, plan)
}

fn all_cases(job: &Job) -> Vec<Case> {
    let mut cases = calls::cases(job);
    cases.extend(streams::cases());
    cases.extend(threads::cases());
    cases.extend(groups::cases());
    cases.extend(meeting::cases(job));
    cases.extend(mixed::cases(job));
    cases.extend(unlike::cases(job));
    cases.extend(crossing::cases(job));
    cases.extend(arguments::cases(job));
    cases.extend(endings::cases(job));
    cases.extend(graphs::cases(job));
    cases.extend(uncaptured::cases());
    cases.extend(refused::cases(job));
    cases.extend(lifetimes::cases());
    cases.extend(children::cases(job));
    cases.extend(devices::cases(job));
    cases
}

fn run_case(job: &mut Job, case: &Case) -> Result<bool, RankError> {
    let outcome = (case.run)(job);
    let failed = outcome.is_err();
    let seen = outcome.unwrap_or_else(|error| Seen { mismatch: Some(error.to_string()), ..Seen::new() });
    let right = seen.mismatch.is_none();
    print_line(&Line {
        case: &case.name,
        process: job.world.rank,
        results: seen.results.hex(),
        others: seen.others.hex(),
        compressed: seen.compressed,
        verdict: if right { "right" } else { "wrong" },
        detail: seen.mismatch,
    });
    let failures = job.world.all_gather(u8::from(failed))?;
    if failures.contains(&0) && failures.contains(&1) {
        return Err(RankError::OutOfStep(case.name.clone()));
    }
    Ok(right)
}

fn print_line(line: &impl Serialize) {
    // A line of our own type always serialises; a closed stdout ends the run elsewhere.
    if let Ok(text) = serde_json::to_string(line) {
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }
}

impl Equipment {
    fn open(kind: Kind, expectation: Expectation) -> Result<Self, RankError> {
        let gpu = Gpu::open(kind)?;
        gpu.set_device(0)?;
        let (nccl, stream) = (Nccl::open(kind)?, gpu.stream(true)?);
        Ok(Self { kind, gpu, nccl, stream, expectation })
    }

    /// Runs `calls` between GroupStart and GroupEnd; the group is closed also on failure.
    fn group(&self, calls: impl FnOnce() -> Result<(), RankError>) -> Result<(), RankError> {
        invoke!(self.nccl, ncclGroupStart())?;
        let called = calls();
        let ended = invoke!(self.nccl, ncclGroupEnd());
        called?;
        ended
    }
}

impl Job {
    fn start(kind: Kind, arguments: &Arguments) -> Result<Self, RankError> {
        let world = World::meet()?;
        let format = Format::from_name(&arguments.format)
            .ok_or_else(|| RankError::Arguments(format!("{} is no wire format", arguments.format)))?;
        let format = matches!(arguments.expect, Arithmetic::Compressed).then_some(format);
        let expectation = Expectation { format, min_bytes: arguments.min_bytes };
        let layout = match arguments.layout.as_slice() {
            [] => vec![1; world.size],
            given => given.to_vec(),
        };
        if layout.len() != world.size {
            return Err(RankError::Arguments(format!(
                "the layout {layout:?} is not of {} processes",
                world.size
            )));
        }
        let trailer = arguments.tuned.trailer();
        Ok(Self { equipment: Equipment::open(kind, expectation)?, world, layout, trailer })
    }

    /// A new id, made by the first process and known to all.
    fn new_id(&mut self) -> Result<UniqueId, RankError> {
        let mut id = UniqueId { internal: [0; 128] };
        if self.world.rank == 0 {
            id = self.nccl.unique_id()?;
            self.trailer.apply(&mut id)?;
        }
        self.world.broadcast(&mut id.internal)?;
        Ok(id)
    }

    /// A new communicator with one rank in each process.
    fn communicator(&mut self) -> Result<Tracked, RankError> {
        Ok(Tracked::new(self.plain_communicator()?, self.expectation))
    }

    fn plain_communicator(&mut self) -> Result<Communicator, RankError> {
        let id = self.new_id()?;
        Communicator::init(&self.nccl, Making::Plain, id, self.world.rank, self.world.size)
    }

    /// Waits on the host until every process is here.
    fn wait_for_everyone(&mut self) -> Result<(), RankError> {
        self.world.all_gather(0).map(|_| ())
    }
}
