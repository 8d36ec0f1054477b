//! `airamp-rank steps`: a job of many equal steps, each some time of the host's and then one collective, as a training
//! loop has them. What goes wrong in it is planted by arguments; the tests of the diagnosis stop and kill its ranks.
//! Knows nothing of telemetry. Prints one JSON line after the first step and one at the end.

use std::str::FromStr;
use std::thread;
use std::time::Duration;

use airamp_vendor::gpu::Kind;
use airamp_vendor_abi::nccl::DataType;
use serde::Serialize;

use crate::bench::print;
use crate::error::RankError;
use crate::exchange::Exchange;
use crate::session::Session;
use crate::watchdog::Watchdog;

/// Whatever is planted, a rank does not outlive its test for long.
const STEP_LIMIT: Duration = Duration::from_secs(180);

/// As 32-bit floats 0.0115 each.
const PAYLOAD: u8 = 0x3c;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How many; without it, until the process is ended.
    #[arg(long)]
    steps: Option<u64>,
    /// The collective of each step, or send_recv (a ring), all_to_all_v, all_reduce_with_bias (both with --hip only).
    #[arg(long, default_value = "all_reduce")]
    collective: String,
    /// Bytes of a rank's larger buffer.
    #[arg(long, default_value_t = 16384)]
    bytes: usize,
    #[arg(long, default_value = "float32")]
    datatype: String,
    /// What the host does before each collective takes so long.
    #[arg(long, default_value_t = 0)]
    compute_ms: u64,
    /// And up to so much longer, otherwise on each rank and in each step.
    #[arg(long, default_value_t = 0)]
    jitter_ms: u64,
    /// The host waits for its device after so many steps.
    #[arg(long, default_value_t = 1)]
    wait_every: u64,
    /// Planted: RANK:MS, this rank computes so much longer in each step.
    #[arg(long)]
    slow: Option<OnRank>,
    /// A rank that loses its peers stays, as one that waits for its framework's watchdog.
    #[arg(long)]
    stay: bool,
    /// Planted: RANK:STEP, this rank leaves out the collective of that step, counted from 1, and then waits for the
    /// others on the host.
    #[arg(long)]
    leave_out: Option<OnRank>,
    /// Planted: 32-bit floats halfway between the codes of E5M2, so that compressing them so loses much.
    #[arg(long)]
    rough: bool,
}

/// A number that is meant for one rank.
#[derive(Clone, Copy)]
struct OnRank {
    rank: usize,
    value: u64,
}

impl FromStr for OnRank {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair =
            text.split_once(':').and_then(|(rank, value)| Some((rank.parse().ok()?, value.parse().ok()?)));
        pair.map(|(rank, value)| Self { rank, value }).ok_or_else(|| format!("{text} is not RANK:NUMBER"))
    }
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Running { rank: usize },
    Done { rank: usize, steps: u64 },
}

pub(crate) fn run(kind: Kind, arguments: &Arguments) -> Result<bool, RankError> {
    let watchdog = Watchdog::start(STEP_LIMIT);
    let mut session = Session::start(kind, arguments.bytes)?;
    let done = walk(&mut session, arguments, &watchdog);
    if arguments.stay && done.is_err() {
        // The communicator is not ended: nobody has noticed yet.
        watchdog.enter("waiting to be ended");
        thread::sleep(2 * STEP_LIMIT);
    }
    done.map(|()| true)
}

fn walk(session: &mut Session, arguments: &Arguments, watchdog: &Watchdog) -> Result<(), RankError> {
    let exchange = exchange(session, arguments)?;
    let rank = session.comm.rank;
    let mut step = 0;
    while arguments.steps.is_none_or(|steps| step < steps) {
        step += 1;
        watchdog.enter("a step");
        thread::sleep(compute_time(arguments, rank, step));
        if planted(arguments.leave_out, rank) == Some(step) {
            session.wait_for_everyone()?;
            continue;
        }
        exchange.enqueue(session)?;
        if step.is_multiple_of(arguments.wait_every.max(1)) {
            session.stream.synchronize()?;
        }
        if step == 1 {
            print(&Line::Running { rank });
        }
    }
    session.stream.synchronize()?;
    session.wait_for_everyone()?;
    print(&Line::Done { rank, steps: step });
    Ok(())
}

fn planted(on: Option<OnRank>, rank: usize) -> Option<u64> {
    on.filter(|on| on.rank == rank).map(|on| on.value)
}

/// The jitter is a hash of rank and step, so that a run can be had again.
fn compute_time(arguments: &Arguments, rank: usize, step: u64) -> Duration {
    let mixed = (step << 8 | rank as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    let jitter_us = mixed % (arguments.jitter_ms * 1000 + 1);
    let slow_ms = planted(arguments.slow, rank).unwrap_or(0);
    Duration::from_millis(arguments.compute_ms + slow_ms) + Duration::from_micros(jitter_us)
}

fn exchange(session: &Session, arguments: &Arguments) -> Result<Exchange, RankError> {
    let wrong = |what: &str| RankError::Arguments(format!("{what} is not known"));
    let datatype = DataType::ALL.iter().find(|(_, name)| *name == arguments.datatype);
    let (datatype, _) = *datatype.ok_or_else(|| wrong(&arguments.datatype))?;
    if arguments.rough {
        session.send.write(0, &rough(arguments.bytes))?;
    } else {
        // Not zero: what is compressed has an error to be measured.
        session.send.fill(0, arguments.bytes, PAYLOAD)?;
    }
    session.gpu.synchronize()?;
    let exchange = Exchange::named(&arguments.collective, session, datatype, arguments.bytes);
    exchange.ok_or_else(|| wrong(&arguments.collective))
}

/// The first element of each block of the wire format gets its largest code, 1.75 × 2^15; the others are 1.125 × 2^15
/// beside it, which has no code.
fn rough(bytes: usize) -> Vec<u8> {
    const BLOCK: usize = 128;
    const HALFWAY: f32 = 1.125 / 1.75;
    let element = |place: usize| if place.is_multiple_of(BLOCK) { 1.0 } else { HALFWAY };
    let mut floats: Vec<u8> = (0..bytes / 4).flat_map(|place| element(place).to_le_bytes()).collect();
    floats.resize(bytes, 0);
    floats
}
