//! `airamp-rank replay`: makes the calls of a trace again, at their times or as fast as it goes, and says how long they
//! took. All ranks make the calls of the first file, so that no rank waits for a call that another does not make; what
//! the file does not know is chosen (docs/traces.md). It knows nothing of the library that may be preloaded.

mod bursts;
mod clock;
mod plan;
mod play;

use std::path::PathBuf;
use std::time::Duration;

use airamp_trace::{Trace, read_file};
use airamp_vendor::gpu::Kind;

use self::clock::Speed;
use self::plan::Plan;
use crate::bench::print;
use crate::error::RankError;
use crate::nccl::Making;
use crate::session::Session;
use crate::watchdog::Watchdog;
use crate::world;

/// Beyond the longest gap of the trace.
const CALL_LIMIT: Duration = Duration::from_secs(180);
/// Each costs device memory.
const MOST_COMMUNICATORS: usize = 32;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Traces of `airamp record`: the calls are the first one's; rank n takes its times from the nth, if that has the
    /// same calls.
    #[arg(required = true)]
    traces: Vec<PathBuf>,
    /// recorded, max, or a factor: 2 is twice as fast.
    #[arg(long, default_value = "recorded")]
    speed: Speed,
    /// Calls with a larger buffer get so many bytes.
    #[arg(long)]
    largest: Option<usize>,
    /// The first so many calls only.
    #[arg(long)]
    calls: Option<usize>,
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let (rank, ranks) = world::place()?;
    let (trace, times) = traces(arguments, rank)?;
    let plan = Plan::of(&trace, &times, ranks, arguments.largest)?;
    let watchdog = Watchdog::start(CALL_LIMIT + arguments.speed.of(plan.longest_gap_ns()));
    let mut session = Session::start(kind, plan.scratch)?;
    agree(&mut session, &plan)?;
    let mut others = Vec::new();
    for _ in 1..trace.communicators.len() {
        others.push(session.another_communicator(Making::Plain)?);
    }
    let played = play::play(&mut session, &others, &plan, arguments.speed, &watchdog)?;
    print(&played);
    Ok(true)
}

/// The calls, and the times of this rank for them.
fn traces(arguments: &Arguments, rank: usize) -> Result<(Trace, Vec<u64>), RankError> {
    let read = |path: &PathBuf| {
        let mut trace =
            read_file(path).map_err(|error| RankError::Arguments(format!("{}: {error}", path.display())))?;
        trace.calls.truncate(arguments.calls.unwrap_or(usize::MAX));
        Ok::<Trace, RankError>(trace)
    };
    let first = arguments.traces.first().ok_or_else(|| RankError::Arguments("no trace".into()))?;
    let trace = read(first)?;
    if trace.calls.is_empty() {
        return Err(RankError::Arguments(format!("{}: no calls", first.display())));
    }
    if trace.communicators.len() > MOST_COMMUNICATORS {
        return Err(RankError::Arguments(format!(
            "{} communicators; at most {MOST_COMMUNICATORS} are played",
            trace.communicators.len()
        )));
    }
    let own = arguments.traces.get(rank % arguments.traces.len().max(1)).filter(|own| *own != first);
    let own = own.map(read).transpose()?.filter(|own| plan::has_same_calls(own, &trace));
    let times = own.as_ref().unwrap_or(&trace).calls.iter().map(|call| call.at_ns).collect();
    Ok((trace, times))
}

/// Files may differ between machines, and ranks that make different calls wait for each other for ever.
fn agree(session: &mut Session, plan: &Plan) -> Result<(), RankError> {
    let own = plan.digest().into_bytes();
    let mut first = own.clone();
    session.world.broadcast(&mut first)?;
    let all = session.world.all_gather(u8::from(own == first))?;
    if all.iter().all(|same| *same == 1) {
        return Ok(());
    }
    Err(RankError::Arguments("the ranks read different traces".into()))
}
