//! AllReduces in groups with messages and other collectives, the same on every rank.

use airamp_vendor::gpu::Buffer;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::messages::{Messages, message_bytes, spec};
use super::piece::Piece;
use super::{Case, Job, Seen};
use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::pattern::{Reduction, input};

/// Where the messages stand in the group.
#[derive(Clone, Copy)]
enum Place {
    Before,
    Around,
    After,
}

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let places = [(Place::Before, "before"), (Place::Around, "around"), (Place::After, "after")];
    let mut cases = Vec::new();
    for (place, name) in places {
        cases.push(Case::new(format!("mixed/messages_{name}"), move |job| grouped(job, place, false)));
        let other = format!("mixed/messages_on_another_communicator_{name}");
        cases.push(Case::new(other, move |job| grouped(job, place, true)));
    }
    cases.push(Case::new("mixed/messages_on_another_stream_between_calls", between_calls));
    cases.push(Case::new("mixed/a_chain_of_single_messages_between_calls", chain));
    cases.push(Case::new("mixed/gathering_and_broadcast_beside", beside_collectives));
    // A single rank has no peer.
    cases.retain(|_| job.layout.iter().sum::<usize>() > 1);
    cases
}

fn grouped(job: &mut Job, place: Place, on_another: bool) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let another = if on_another { Some(job.communicator()?) } else { None };
    let carrier = another.as_ref().unwrap_or(&comm);
    let pieces = Piece::all(job, &comm, [spec(0), spec(1)])?;
    let messages = Messages::new(job, carrier, 1)?;
    for _ in 0..3 {
        job.group(|| {
            // Around: receives before, sends after.
            if !matches!(place, Place::After) {
                messages.receive(job, carrier, &job.stream)?;
            }
            if matches!(place, Place::Before) {
                messages.send(job, carrier, &job.stream)?;
            }
            pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
            if !matches!(place, Place::Before) {
                messages.send(job, carrier, &job.stream)?;
            }
            if matches!(place, Place::After) {
                messages.receive(job, carrier, &job.stream)?;
            }
            Ok(())
        })?;
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    messages.judge(carrier, &mut seen)?;
    comm.check(&mut seen);
    Ok(seen)
}

/// Calls on one stream, messages on another, none waited for.
fn between_calls(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, other, mut seen) = (job.communicator()?, job.gpu.stream(true)?, Seen::new());
    let pieces = Piece::all(job, &comm, (0..5).map(spec))?;
    let mut messages = Vec::new();
    for seed in 0..5 {
        messages.push(Messages::new(job, &comm, seed)?);
    }
    for (piece, messages) in pieces.iter().zip(&messages) {
        piece.enqueue(job, &comm, &job.stream)?;
        job.group(|| {
            messages.send(job, &comm, &other)?;
            messages.receive(job, &comm, &other)
        })?;
    }
    job.stream.synchronize()?;
    other.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    messages.iter().try_for_each(|messages| messages.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}

/// Each rank receives from the one before it and then sends to the next, outside of any group.
fn chain(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (rank, last) = (comm.comm.rank, comm.comm.size - 1);
    let pieces = Piece::all(job, &comm, (0..4).map(spec))?;
    let messages = Messages::new(job, &comm, 3)?;
    for piece in &pieces {
        piece.enqueue(job, &comm, &job.stream)?;
        if rank > 0 {
            messages.receive_from(rank - 1, job, &comm, &job.stream)?;
        }
        if rank < last {
            messages.send_to(rank + 1, job, &comm, &job.stream)?;
        }
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    if rank > 0 {
        messages.judge_from(rank - 1, &comm, &mut seen)?;
    }
    comm.check(&mut seen);
    Ok(seen)
}

fn beside_collectives(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (rank, ranks) = (comm.comm.rank, comm.comm.size);
    let pieces = Piece::all(job, &comm, [spec(0), spec(1)])?;
    let bytes = message_bytes(ranks);
    let own = |rank: usize| input(DataType::UINT8, Reduction::Sum, ranks, rank, 0, bytes);
    let (sent, gathered, spread) =
        (job.gpu.alloc(bytes)?, job.gpu.alloc(ranks * bytes)?, job.gpu.alloc(bytes)?);
    sent.write(0, &own(rank))?;
    job.gpu.synchronize()?;
    let other = |collective: Collective, into: &Buffer| Call {
        form: Form::Plain,
        collective,
        send: sent.at(0),
        recv: into.at(0),
        count: bytes,
        datatype: DataType::UINT8,
        op: RedOp::SUM,
        root: 1,
    };
    job.group(|| {
        other(Collective::AllGather, &gathered).enqueue(&job.nccl, comm.comm.raw(), job.stream.raw())?;
        pieces[0].enqueue(job, &comm, &job.stream)?;
        other(Collective::Broadcast, &spread).enqueue(&job.nccl, comm.comm.raw(), job.stream.raw())?;
        pieces[1].enqueue(job, &comm, &job.stream)
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    let (mut all, mut one) = (vec![0; ranks * bytes], vec![0; bytes]);
    gathered.read(0, &mut all)?;
    spread.read(0, &mut one)?;
    let expected: Vec<u8> = (0..ranks).flat_map(own).collect();
    seen.expect(all == expected, || "the gathered bytes are wrong".into());
    seen.expect(one == own(1), || "the broadcast bytes are wrong".into());
    comm.check(&mut seen);
    Ok(seen)
}
