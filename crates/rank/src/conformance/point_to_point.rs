//! Send and Recv: rings, all pairs, to oneself, chains without a group, several
//! messages between one pair, and nothing at all.

use airamp_vendor_abi::nccl::DataType;

use super::Case;
use super::groups::in_group;
use super::lanes::Lanes;
use crate::error::RankError;
use crate::nccl::{Communicator, invoke};
use crate::pattern::{Reduction, input};
use crate::session::{Observed, Session};

const COUNTS: [usize; 5] = [0, 1, 7, 1023, 65_537];

pub(super) fn cases(session: &Session, quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for (datatype, name) in DataType::ALL {
        if session.supports(datatype) && (!quick || datatype == DataType::FLOAT32) {
            cases.push(Case::new(format!("send_recv/ring/{name}"), move |session| ring(session, datatype)));
        }
    }
    cases.push(Case::new("send_recv/all_pairs_and_oneself", all_pairs));
    cases.push(Case::new("send_recv/chain_without_a_group", chain));
    cases.push(Case::new("send_recv/messages_of_a_pair_keep_their_order", ordered));
    cases
}

/// The ranks after and before this one, in a ring.
pub(super) fn neighbours(comm: &Communicator) -> (usize, usize) {
    ((comm.rank + 1) % comm.size, (comm.rank + comm.size - 1) % comm.size)
}

pub(super) fn send(
    session: &Session,
    comm: &Communicator,
    offset: usize,
    count: usize,
    datatype: DataType,
    peer: usize,
) -> Result<(), RankError> {
    let (from, stream) = (session.send.at(offset), session.stream.raw());
    invoke!(session.nccl, ncclSend(from, count, datatype, peer as i32, comm.raw(), stream))
}

pub(super) fn receive(
    session: &Session,
    comm: &Communicator,
    offset: usize,
    count: usize,
    datatype: DataType,
    peer: usize,
) -> Result<(), RankError> {
    let (into, stream) = (session.recv.at(offset), session.stream.raw());
    invoke!(session.nccl, ncclRecv(into, count, datatype, peer as i32, comm.raw(), stream))
}

fn ring(session: &mut Session, datatype: DataType) -> Result<Observed, RankError> {
    let (mut observed, comm) = (Observed::new(), &session.comm);
    let (next, previous) = neighbours(comm);
    for count in COUNTS {
        let message = |rank| input(datatype, Reduction::Sum, comm.size, rank, 0, count);
        session.send.write(0, &message(comm.rank))?;
        session.gpu.synchronize()?;
        in_group(&session.nccl, || {
            send(session, comm, 0, count, datatype, next)?;
            receive(session, comm, 0, count, datatype, previous)
        })?;
        session.stream.synchronize()?;
        expect_received(session, 0, &message(previous), &mut observed)?;
    }
    Ok(observed)
}

fn expect_received(
    session: &Session,
    offset: usize,
    expected: &[u8],
    observed: &mut Observed,
) -> Result<(), RankError> {
    let mut received = vec![0; expected.len()];
    session.recv.read(offset, &mut received)?;
    observed.expect(received == expected, || {
        format!("the message of {} bytes at {offset} is not the one that was sent", expected.len())
    });
    observed.digest.add(&received);
    Ok(())
}

fn all_pairs(session: &mut Session) -> Result<Observed, RankError> {
    const COUNT: usize = 3001;
    let (mut observed, comm) = (Observed::new(), &session.comm);
    let message =
        |from: usize, to: usize| input(DataType::FLOAT32, Reduction::Sum, comm.size, from, to * 29, COUNT);
    for peer in 0..comm.size {
        session.send.write(peer * COUNT * 4, &message(comm.rank, peer))?;
    }
    session.gpu.synchronize()?;
    in_group(&session.nccl, || {
        (0..comm.size).try_for_each(|peer| {
            send(session, comm, peer * COUNT * 4, COUNT, DataType::FLOAT32, peer)?;
            receive(session, comm, peer * COUNT * 4, COUNT, DataType::FLOAT32, peer)
        })
    })?;
    session.stream.synchronize()?;
    for peer in 0..comm.size {
        expect_received(session, peer * COUNT * 4, &message(peer, comm.rank), &mut observed)?;
    }
    Ok(observed)
}

/// Each rank receives from the one before it and sends on what it got.
fn chain(session: &mut Session) -> Result<Observed, RankError> {
    const COUNT: usize = 5000;
    let (mut observed, comm) = (Observed::new(), &session.comm);
    let first = input(DataType::INT32, Reduction::Sum, comm.size, 0, 0, COUNT);
    session.recv.write(0, &first)?;
    session.gpu.synchronize()?;
    if comm.rank > 0 {
        session.recv.fill(0, COUNT * 4, 0)?;
        session.gpu.synchronize()?;
        receive(session, comm, 0, COUNT, DataType::INT32, comm.rank - 1)?;
    }
    session.send.copy_from_async(0, &session.recv, 0, COUNT * 4, &session.stream)?;
    if comm.rank + 1 < comm.size {
        send(session, comm, 0, COUNT, DataType::INT32, comm.rank + 1)?;
    }
    session.stream.synchronize()?;
    expect_received(session, 0, &first, &mut observed)?;
    Ok(observed)
}

fn ordered(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(8, 600));
    let comm = &session.comm;
    let (next, previous) = neighbours(comm);
    let count = |lane: usize| lanes.elements - lane * 31;
    lanes.prepare(session, comm)?;
    in_group(&session.nccl, || {
        (0..lanes.number).try_for_each(|lane| {
            send(session, comm, lanes.offset(lane), count(lane), DataType::FLOAT32, next)
        })?;
        (0..lanes.number).try_for_each(|lane| {
            receive(session, comm, lanes.offset(lane), count(lane), DataType::FLOAT32, previous)
        })
    })?;
    session.stream.synchronize()?;
    for lane in 0..lanes.number {
        let sent = lanes.input_of(comm, previous, lane);
        expect_received(session, lanes.offset(lane), &sent[..count(lane) * 4], &mut observed)?;
    }
    Ok(observed)
}
