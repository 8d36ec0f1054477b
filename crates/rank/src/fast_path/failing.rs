//! A call of which the vendor refuses a part, and what the fast path leaves behind then.

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::scenarios::{Report, tensors};
use super::stage::{PLACE, PLACES, Stage, enqueue};
use super::trials::{dry, end_trial};
use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::nccl::{Communicator, Making, invoke};

/// Rank 0 asks whether its lane is idle while the stream that the call is on cannot go on: it is
/// behind an AllReduce of another communicator, which the others enter later.
pub(super) fn run(stage: &mut Stage) -> Result<Report, RankError> {
    let other = stage.session.another_communicator(Making::Plain)?;
    let (beside, first) = (stage.session.gpu.stream(true)?, other.rank == 0);
    // The first one connects, and blocks the host.
    hold_up(stage, &other, &beside)?;
    beside.synchronize()?;
    stage.prepare(&tensors())?;
    if first {
        hold_up(stage, &other, &stage.session.stream)?;
    }
    let mut posts = Vec::new();
    for tensor in &tensors() {
        posts.push(stage.post(&stage.lane, tensor, &stage.session.stream)?);
    }
    let refused = enqueue(&posts).err().map(|error| error.to_string());
    let group_left_open = invoke!(stage.session.nccl, ncclGroupEnd()).is_ok();
    let idle_while_pending = first && stage.lane.is_idle()?;
    drop(posts);
    stage.session.wait_for_everyone()?;
    if !first {
        hold_up(stage, &other, &beside)?;
    }
    stage.session.stream.synchronize()?;
    beside.synchronize()?;
    while !stage.lane.is_idle()? {
        std::thread::yield_now();
    }
    Ok(Report { refused, group_left_open, idle_while_pending, ..Report::default() })
}

/// Rank 0's stream cannot go on between the dry run and the sample of the vendor's result.
pub(super) fn pending_trial(stage: &mut Stage) -> Result<Report, RankError> {
    let other = stage.session.another_communicator(Making::Plain)?;
    let (beside, first) = (stage.session.gpu.stream(true)?, other.rank == 0);
    hold_up(stage, &other, &beside)?;
    beside.synchronize()?;
    let tensor = tensors()[0];
    stage.prepare(&[tensor])?;
    let (measured, stream) = (stage.lane.take_measurement(), &stage.session.stream);
    let post = dry(stage, &tensor, stage.lane.shapes()[0], measured, stream)?;
    enqueue(&[post])?;
    stream.synchronize()?;
    if first {
        hold_up(stage, &other, stream)?;
    }
    end_trial(stage, &post, measured, stream)?;
    let idle_while_pending = first && stage.lane.is_idle()?;
    let early = if first { stage.lane.finished() } else { None };
    stage.session.wait_for_everyone()?;
    if !first {
        hold_up(stage, &other, &beside)?;
    }
    stage.session.stream.synchronize()?;
    beside.synchronize()?;
    let mut wrong: Vec<_> = early.map(|early| format!("{early:?} came early")).into_iter().collect();
    if !stage.lane.is_idle()? || stage.lane.finished().is_none() {
        wrong.push("the trial did not end".to_owned());
    }
    Ok(Report { idle_while_pending, wrong, ..Report::default() })
}

/// Lets the stream wait for all ranks of `comm`.
fn hold_up(stage: &Stage, comm: &Communicator, stream: &Stream) -> Result<(), RankError> {
    let (send, recv) = (&stage.session.send, &stage.session.recv);
    let unused = (PLACES - 1) * PLACE;
    let call = Call {
        form: Form::Plain,
        collective: Collective::AllReduce,
        send: send.at(unused),
        recv: recv.at(unused),
        count: 1,
        datatype: DataType::FLOAT32,
        op: RedOp::SUM,
        root: 0,
    };
    call.enqueue(&stage.session.nccl, comm.raw(), stream.raw())
}
