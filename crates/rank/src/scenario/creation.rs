//! `scenario creation`: a job to which the environment does something while a communicator is made. It tells what the
//! creation returned and what it left where the handle goes, tries what must be refused then, gets rid of the
//! rest as a framework does, and makes another communicator. It judges only that one: the harness knows what was done.

use std::ptr;

use airamp_vendor_abi::nccl::{Comm, Config, DataType, NcclResult, SHRINK_ABORT, SHRINK_DEFAULT, UniqueId};
use serde::Serialize;

use super::expected::Spec;
use super::lifetimes::use_another;
use super::piece::Piece;
use super::tracked::Tracked;
use super::{Job, Seen, print_line};
use crate::error::RankError;
use crate::nccl::invoke;

const CONFIG_VERSION: u32 = 21800;

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Way {
    Plain,
    Config,
    /// By a configuration that says that it blocks.
    Blocking,
    Scalable,
    /// By `ncclCommInitAll`, all ranks in one process.
    All,
    Split,
    /// One in a group.
    Group,
    /// Two in one group.
    Pair,
}

#[derive(Serialize)]
struct Report {
    process: usize,
    /// What the creation returned, or the end of its group.
    returned: i32,
    /// For each place that a handle goes to, whether there is one afterwards.
    handles: Vec<bool>,
    /// What the library and NCCL say of those: their state, a call, a split, a shrink.
    refused: Vec<i32>,
    /// What a shrink that aborts returned, where it was tried.
    way_out: Option<i32>,
    /// What ends returned: of each handle, or of none.
    ends: Vec<i32>,
    /// What was wrong with the communicator that was made next, or with the parent.
    mismatch: Option<String>,
    /// Calls of that one that the library compressed.
    compressed: u64,
}

pub(super) fn run(job: &mut Job, way: Way) -> Result<bool, RankError> {
    let mut seen = Seen::new();
    let parent = matches!(way, Way::Split).then(|| job.communicator()).transpose()?;
    let (returned, places) = make(job, way, parent.as_ref())?;
    let returned = settled(job, returned, &places)?;
    let mut report = Report {
        process: job.world.rank,
        returned,
        handles: places.iter().map(|place| !place.is_null()).collect(),
        refused: Vec::new(),
        way_out: None,
        ends: Vec::new(),
        mismatch: None,
        compressed: 0,
    };
    for place in places {
        if returned != 0 && !place.is_null() {
            report.refused.extend(refused(job, place)?);
            report.way_out = way_out(job, way, place);
        }
        report.ends.push(code(invoke!(job.nccl, ncclCommAbort(place))));
    }
    if let Some(parent) = &parent {
        use_parent(job, parent, &mut seen)?;
    }
    job.wait_for_everyone()?;
    if !matches!(way, Way::All | Way::Blocking) {
        use_another(job, &mut seen)?;
    }
    (report.mismatch, report.compressed) = (seen.mismatch, seen.compressed);
    print_line(&report);
    Ok(true)
}

/// What came of it, where the vendor goes on in the background.
fn settled(job: &mut Job, returned: i32, places: &[Comm]) -> Result<i32, RankError> {
    if returned != NcclResult::IN_PROGRESS.0 {
        return Ok(returned);
    }
    let mut states = vec![returned];
    while states.contains(&NcclResult::IN_PROGRESS.0) {
        std::thread::yield_now();
        states = places.iter().map(|place| job.nccl.async_error(*place)).collect::<Result<_, _>>()?;
    }
    job.wait_for_everyone()?;
    Ok(states.into_iter().find(|state| *state != 0).unwrap_or(0))
}

fn code(called: Result<(), RankError>) -> i32 {
    called.err().map_or(0, |error| error.nccl_code().unwrap_or(-1))
}

fn make(job: &mut Job, way: Way, parent: Option<&Tracked>) -> Result<(i32, Vec<Comm>), RankError> {
    let mut places = vec![ptr::null_mut(); if matches!(way, Way::Pair) { 2 } else { 1 }];
    let ids: Vec<UniqueId> = places.iter().map(|_| job.new_id()).collect::<Result<_, _>>()?;
    let (ranks, rank, mut id) = (job.world.size as i32, job.world.rank as i32, ids[0]);
    let (nccl, at) = (&job.nccl, places.as_mut_ptr());
    let mut config = Config::undefined(CONFIG_VERSION);
    let config = &raw mut config;
    let made = match way {
        Way::Plain => invoke!(nccl, ncclCommInitRank(at, ranks, id, rank)),
        Way::Blocking => {
            // SAFETY: nobody else has the configuration.
            unsafe { (*config).blocking = 1 };
            invoke!(nccl, ncclCommInitRankConfig(at, ranks, id, rank, config))
        }
        Way::Config => invoke!(nccl, ncclCommInitRankConfig(at, ranks, id, rank, config)),
        Way::Scalable => {
            invoke!(nccl, ncclCommInitRankScalable(at, ranks, rank, 1, &raw mut id, config))
        }
        Way::Split => {
            let parent = parent.map_or(ptr::null_mut(), |parent| parent.comm.raw());
            invoke!(nccl, ncclCommSplit(parent, 0, rank, at, ptr::null_mut()))
        }
        Way::All => {
            let devices: Vec<i32> = (0..job.layout[0] as i32).collect();
            places.resize(devices.len(), ptr::null_mut());
            let at = places.as_mut_ptr();
            invoke!(nccl, ncclCommInitAll(at, devices.len() as i32, devices.as_ptr()))
        }
        Way::Group | Way::Pair => job.group(|| {
            let mut each = ids.iter().zip(&mut places);
            each.try_for_each(|(id, place)| {
                invoke!(nccl, ncclCommInitRank(ptr::from_mut(place), ranks, *id, rank))
            })
        }),
    };
    Ok((code(made), places))
}

/// What goes to the vendor from here waits for peers that are still in the creation.
fn refused(job: &Job, comm: Comm) -> Result<Vec<i32>, RankError> {
    let (buffer, mut child) = (job.gpu.alloc(4096)?, ptr::null_mut());
    let (from, to, stream) = (buffer.at(0), buffer.at(0), job.stream.raw());
    let sum = airamp_vendor_abi::nccl::RedOp::SUM;
    let mut none = [job.world.size as i32 - 1];
    let (at, config) = (&raw mut child, ptr::null_mut());
    let nccl = &job.nccl;
    Ok(vec![
        nccl.async_error(comm)?,
        code(invoke!(nccl, ncclAllReduce(from, to, 16, DataType::FLOAT32, sum, comm, stream))),
        code(invoke!(nccl, ncclCommSplit(comm, 0, 0, at, config))),
        code(invoke!(nccl, ncclCommShrink(comm, none.as_mut_ptr(), 1, at, config, SHRINK_DEFAULT))),
        code(job.group(|| invoke!(nccl, ncclCommSplit(comm, 0, 0, at, config)))),
    ])
}

/// All but the last rank go on without it.
fn way_out(job: &Job, way: Way, comm: Comm) -> Option<i32> {
    let last = job.world.size as i32 - 1;
    if !matches!(way, Way::Group) || job.world.rank as i32 == last {
        return None;
    }
    let (mut child, mut excluded) = (ptr::null_mut(), [last]);
    let at = &raw mut child;
    let config = ptr::null_mut();
    let made =
        code(invoke!(job.nccl, ncclCommShrink(comm, excluded.as_mut_ptr(), 1, at, config, SHRINK_ABORT)));
    let ended = code(invoke!(job.nccl, ncclCommDestroy(child)));
    Some(if made == 0 { ended } else { made })
}

fn use_parent(job: &Job, parent: &Tracked, seen: &mut Seen) -> Result<(), RankError> {
    let piece = Piece::new(job, parent, Spec::sum(DataType::FLOAT32, 5003).seeded(1))?;
    piece.enqueue(job, parent, &job.stream)?;
    job.stream.synchronize()?;
    piece.judge(parent, seen)?;
    parent.check(seen);
    Ok(())
}
