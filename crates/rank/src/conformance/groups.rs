//! Groups: nested, with many calls, on several streams and communicators, mixed with
//! point to point, simulated, and with a call that fails.

use airamp_vendor_abi::nccl::{DataType, NcclResult, RedOp, SIM_INFO_MAGIC, SimInfo};

use super::lanes::Lanes;
use super::{Case, point_to_point};
use crate::collective::Call;
use crate::error::RankError;
use crate::nccl::{Making, Nccl, invoke};
use crate::session::{Observed, Session};

pub(super) fn cases(session: &Session) -> Vec<Case> {
    let mut cases = vec![
        Case::new("group/empty", |session| {
            in_group(&session.nccl, || Ok(()))?;
            Ok(Observed::new())
        }),
        Case::new("group/many_calls", |session| grouped(session, Lanes::new(64, 501))),
        Case::new("group/many_sizes", many_sizes),
        Case::new("group/nested", nested),
        Case::new("group/several_streams", several_streams),
        Case::new("group/several_communicators", several_communicators),
        Case::new("group/collectives_and_point_to_point", mixed),
        Case::new("group/a_failing_call_fails_the_group", failing),
    ];
    if session.nccl.functions.ncclGroupSimulateEnd.is_some() {
        cases.push(Case::new("group/simulated_runs_nothing", simulated));
    }
    cases
}

/// Runs `calls` between GroupStart and GroupEnd; the group is closed also on failure.
pub(super) fn in_group(nccl: &Nccl, calls: impl FnOnce() -> Result<(), RankError>) -> Result<(), RankError> {
    invoke!(nccl, ncclGroupStart())?;
    let called = calls();
    let ended = invoke!(nccl, ncclGroupEnd());
    called?;
    ended
}

fn grouped(session: &Session, lanes: Lanes) -> Result<Observed, RankError> {
    let (mut observed, comm) = (Observed::new(), &session.comm);
    lanes.prepare(session, comm)?;
    in_group(&session.nccl, || {
        (0..lanes.number).try_for_each(|lane| enqueue(session, &lanes.call(session, lane)))
    })?;
    session.stream.synchronize()?;
    lanes.check(session, comm, &mut observed)?;
    Ok(observed)
}

fn enqueue(session: &Session, call: &Call) -> Result<(), RankError> {
    call.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())
}

fn many_sizes(session: &mut Session) -> Result<Observed, RankError> {
    let mut observed = Observed::new();
    let lanes = Lanes::new(6, 9000);
    lanes.prepare(session, &session.comm)?;
    in_group(&session.nccl, || {
        (0..lanes.number).try_for_each(|lane| {
            let shorter = Call { count: lanes.elements - lane * 1499, ..lanes.call(session, lane) };
            enqueue(session, &shorter)
        })
    })?;
    session.stream.synchronize()?;
    for lane in 0..lanes.number {
        let mut output = vec![0; (lanes.elements - lane * 1499) * 4];
        session.recv.read(lanes.offset(lane), &mut output)?;
        let expected = &lanes.expected(&session.comm, lane)[..output.len()];
        observed.expect(output == expected, || format!("call {lane} has a wrong result"));
        observed.digest.add(&output);
    }
    Ok(observed)
}

fn nested(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(3, 1023));
    lanes.prepare(session, &session.comm)?;
    in_group(&session.nccl, || {
        enqueue(session, &lanes.call(session, 0))?;
        in_group(&session.nccl, || in_group(&session.nccl, || enqueue(session, &lanes.call(session, 1))))?;
        enqueue(session, &lanes.call(session, 2))
    })?;
    session.stream.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    Ok(observed)
}

fn several_streams(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(4, 2047));
    let other = session.gpu.stream(true)?;
    lanes.prepare(session, &session.comm)?;
    in_group(&session.nccl, || {
        (0..lanes.number).try_for_each(|lane| {
            let stream = if lane % 2 == 0 { &session.stream } else { &other };
            lanes.call(session, lane).enqueue(&session.nccl, session.comm.raw(), stream.raw())
        })
    })?;
    session.stream.synchronize()?;
    other.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    Ok(observed)
}

fn several_communicators(session: &mut Session) -> Result<Observed, RankError> {
    let other = session.another_communicator(Making::Plain)?;
    let (mut observed, lanes) = (Observed::new(), Lanes::new(4, 777));
    lanes.prepare(session, &session.comm)?;
    in_group(&session.nccl, || {
        (0..lanes.number).try_for_each(|lane| {
            let comm = if lane % 2 == 0 { &session.comm } else { &other };
            lanes.call(session, lane).enqueue(&session.nccl, comm.raw(), session.stream.raw())
        })
    })?;
    session.stream.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    other.destroy()?;
    Ok(observed)
}

fn mixed(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(4, 1001));
    let comm = &session.comm;
    lanes.prepare(session, comm)?;
    let (next, previous) = point_to_point::neighbours(comm);
    in_group(&session.nccl, || {
        point_to_point::send(session, comm, lanes.offset(3), 1001, DataType::FLOAT32, next)?;
        enqueue(session, &lanes.call(session, 0))?;
        point_to_point::receive(session, comm, lanes.offset(3), 1001, DataType::FLOAT32, previous)?;
        enqueue(session, &lanes.call(session, 1))?;
        enqueue(session, &lanes.call(session, 2))
    })?;
    session.stream.synchronize()?;
    let collectives = Lanes { number: 3, ..lanes };
    collectives.check(session, comm, &mut observed)?;
    let mut received = vec![0; 1001 * 4];
    session.recv.read(lanes.offset(3), &mut received)?;
    let sent = lanes.input_of(comm, previous, 3);
    observed.expect(received == sent, || "the received message is not the one that was sent".into());
    observed.digest.add(&received);
    Ok(observed)
}

/// On a communicator of its own: what a failed group leaves behind is not promised.
fn failing(session: &mut Session) -> Result<Observed, RankError> {
    let comm = session.another_communicator(Making::Plain)?;
    let (mut observed, lanes) = (Observed::new(), Lanes::new(2, 64));
    lanes.prepare(session, &comm)?;
    invoke!(session.nccl, ncclGroupStart())?;
    let good = lanes.call(session, 0).enqueue(&session.nccl, comm.raw(), session.stream.raw());
    let bad = Call { op: RedOp(-1), ..lanes.call(session, 1) };
    let bad = bad.enqueue(&session.nccl, comm.raw(), session.stream.raw());
    let ended = invoke!(session.nccl, ncclGroupEnd());
    good?;
    let code = |result: Result<(), RankError>| result.err().and_then(|error| error.nccl_code()).unwrap_or(0);
    let (bad, ended) = (code(bad), code(ended));
    let invalid = NcclResult::INVALID_ARGUMENT.0;
    observed.result = ended;
    observed.expect(bad == invalid, || format!("a wrong reduction returned {bad}"));
    observed.expect(ended == invalid, || format!("GroupEnd returned {ended}"));
    session.wait_for_everyone()?;
    comm.abort()?;
    Ok(observed)
}

fn simulated(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(2, 4096));
    lanes.prepare(session, &session.comm)?;
    let mut info = SimInfo {
        size: size_of::<SimInfo>(),
        magic: SIM_INFO_MAGIC,
        version: session.version as u32,
        estimated_time: -1.0,
    };
    invoke!(session.nccl, ncclGroupStart())?;
    let called = (0..2).try_for_each(|lane| enqueue(session, &lanes.call(session, lane)));
    let ended = invoke!(session.nccl, ncclGroupSimulateEnd(&raw mut info));
    called?;
    ended?;
    session.stream.synchronize()?;
    let mut output = vec![0; 2 * 4096 * 4];
    session.recv.read(0, &mut output)?;
    observed.expect(output.iter().all(|byte| *byte == 0), || "a simulated group wrote results".into());
    lanes.run(session, &session.comm, &mut observed)?;
    Ok(observed)
}
