//! Makes the calls, and measures: the host's time inside each, and for the first of a burst the device's time from when
//! it is asked to when it is done. All on one stream, in the order of the trace: no rank can wait for another's later call.

use std::time::Instant;

use airamp_vendor::gpu::Event;
use airamp_vendor_abi::nccl::{Comm, RedOp};
use serde::Serialize;

use super::clock::{Clock, Speed};
use super::plan::{Moment, Operation, Plan, What};
use crate::collective::{Call, Form};
use crate::error::RankError;
use crate::nccl::{Communicator, invoke};
use crate::session::Session;
use crate::watchdog::Watchdog;

/// Bursts that are timed: each takes two events.
const MOST_TIMED: usize = 4096;
/// The watchdog hears of every so many calls.
const CALLS_BETWEEN_SIGNS: usize = 64;
/// As 32-bit floats 0.0115 each: what is compressed has an error to be measured.
const PAYLOAD: u8 = 0x3c;

#[derive(Serialize)]
#[serde(tag = "event", rename = "played")]
pub(super) struct Played {
    rank: usize,
    calls: usize,
    left_out: usize,
    cut: usize,
    bytes: u64,
    recorded_ms: f64,
    wall_ms: f64,
    /// The most that a call came later than its time.
    behind_ms: f64,
    bursts: usize,
    host_us: Option<Spread>,
    first_us: Option<Spread>,
}

#[derive(Serialize)]
struct Spread {
    p50: f64,
    p99: f64,
    most: f64,
}

pub(super) fn play(
    session: &mut Session,
    others: &[Communicator],
    plan: &Plan,
    speed: Speed,
    watchdog: &Watchdog,
) -> Result<Played, RankError> {
    session.send.fill(0, plan.scratch, PAYLOAD)?;
    session.gpu.synchronize()?;
    warm_up(session, others)?;
    let bursts = plan.moments.iter().filter(|moment| moment.begins_burst).count();
    let mut pairs = (0..bursts.min(MOST_TIMED)).map(|_| Ok((session.gpu.event()?, session.gpu.event()?)));
    let pairs: Vec<(Event, Event)> = pairs.by_ref().collect::<Result<_, RankError>>()?;
    let (mut unused, mut host_us) = (pairs.iter(), Vec::with_capacity(plan.moments.len()));
    session.wait_for_everyone()?;
    let mut clock = Clock::start(speed);
    for (number, moment) in plan.moments.iter().enumerate() {
        if number.is_multiple_of(CALLS_BETWEEN_SIGNS) || moment.begins_burst {
            watchdog.enter("a call of the trace");
        }
        if moment.begins_burst {
            // As a program does that reads its loss behind each step: what is timed next is no queue.
            session.stream.synchronize()?;
        }
        clock.wait_until(moment.at_ns);
        let pair = if moment.begins_burst { unused.next() } else { None };
        pair.map_or(Ok(()), |(before, _)| before.record(&session.stream))?;
        let began = Instant::now();
        enqueue(session, others, moment)?;
        host_us.push(began.elapsed().as_secs_f64() * 1e6);
        pair.map_or(Ok(()), |(_, behind)| behind.record(&session.stream))?;
    }
    session.stream.synchronize()?;
    let wall = clock.elapsed();
    let first_us: Vec<f64> = pairs
        .iter()
        .map(|(before, behind)| Ok(f64::from(behind.elapsed_ms(before)?) * 1e3))
        .collect::<Result<_, RankError>>()?;
    session.wait_for_everyone()?;
    Ok(Played {
        rank: session.comm.rank,
        calls: plan.calls,
        left_out: plan.left_out,
        cut: plan.cut,
        bytes: plan.bytes,
        recorded_ms: plan.recorded_ns as f64 / 1e6,
        wall_ms: wall.as_secs_f64() * 1e3,
        behind_ms: clock.behind.as_secs_f64() * 1e3,
        bursts,
        host_us: spread(host_us),
        first_us: spread(first_us),
    })
}

/// The first call of a communicator connects its ranks, and is no measure of anything.
fn warm_up(session: &Session, others: &[Communicator]) -> Result<(), RankError> {
    for comm in std::iter::once(&session.comm).chain(others) {
        let (send, recv) = (session.send.at(0), session.recv.at(0));
        let (datatype, stream) = (airamp_vendor_abi::nccl::DataType::UINT8, session.stream.raw());
        invoke!(session.nccl, ncclAllReduce(send, recv, 1, datatype, RedOp::SUM, comm.raw(), stream))?;
    }
    Ok(session.stream.synchronize()?)
}

fn enqueue(session: &Session, others: &[Communicator], moment: &Moment) -> Result<(), RankError> {
    let is_group = moment.is_group || moment.operations.len() > 1;
    if is_group {
        invoke!(session.nccl, ncclGroupStart())?;
    }
    for operation in &moment.operations {
        let comm = match operation.communicator.checked_sub(1) {
            None => &session.comm,
            Some(place) => others.get(place).unwrap_or(&session.comm),
        };
        match operation.what {
            What::Collective(collective) => {
                let Operation { datatype, count, send_at, recv_at, .. } = *operation;
                let (form, op, root) = (Form::Plain, RedOp::SUM, 0);
                let (send, recv) = (session.send.at(send_at), session.recv.at(recv_at));
                let call = Call { form, collective, send, recv, count, datatype, op, root };
                call.enqueue(&session.nccl, comm.raw(), session.stream.raw())?;
            }
            What::Exchange => exchange(session, comm.raw(), operation)?,
        }
    }
    if is_group {
        invoke!(session.nccl, ncclGroupEnd())?;
    }
    Ok(())
}

/// In a group, as one half could wait for the other's.
fn exchange(session: &Session, comm: Comm, operation: &Operation) -> Result<(), RankError> {
    let Operation { datatype, count, send_at, recv_at, .. } = *operation;
    let (rank, size, stream) = (session.comm.rank, session.comm.size, session.stream.raw());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    invoke!(session.nccl, ncclGroupStart())?;
    let sent =
        invoke!(session.nccl, ncclSend(session.send.at(send_at), count, datatype, next as i32, comm, stream));
    let received = invoke!(
        session.nccl,
        ncclRecv(session.recv.at(recv_at), count, datatype, before as i32, comm, stream)
    );
    invoke!(session.nccl, ncclGroupEnd())?;
    sent.and(received)
}

fn spread(mut values: Vec<f64>) -> Option<Spread> {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values.get(((values.len() - 1) as f64 * share).round() as usize).copied();
    Some(Spread { most: *values.last()?, p50: at(0.5)?, p99: at(0.99)? })
}
