//! Order between streams: events before and after a collective, one communicator on
//! two streams, and the default stream.

use std::ptr;

use super::Case;
use super::lanes::Lanes;
use crate::error::RankError;
use crate::session::{Observed, Session};

pub(super) fn cases() -> Vec<Case> {
    vec![
        Case::new("streams/events_order_copies_and_collectives", events),
        Case::new("streams/one_communicator_on_two_streams", two_streams),
        Case::new("streams/a_collective_reads_what_the_one_before_wrote", dependent),
        Case::new("streams/default_stream", default_stream),
    ]
}

/// Inputs are copied on one stream, reduced on a second, read back on a third.
fn events(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(1, 50_000));
    let (upload, download) = (session.gpu.stream(true)?, session.gpu.stream(true)?);
    let (uploaded, reduced) = (session.gpu.event()?, session.gpu.event()?);
    for round in 0..4 {
        let lanes = lanes.in_round(round);
        let own = lanes.input(&session.comm, 0);
        let mut output = vec![0; own.len()];
        // SAFETY: `own` and `output` outlive the synchronisation of `download`, which
        // waits for the collective and through it for the upload.
        unsafe { session.send.write_async(0, &own, &upload)? };
        uploaded.record(&upload)?;
        session.stream.wait(&uploaded)?;
        let call = lanes.call(session, 0);
        call.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())?;
        reduced.record(&session.stream)?;
        download.wait(&reduced)?;
        // SAFETY: as above.
        unsafe { session.recv.read_async(0, &mut output, &download)? };
        download.synchronize()?;
        lanes.judge(&session.comm, 0, &output, &mut observed);
    }
    Ok(observed)
}

fn two_streams(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(8, 3000));
    let other = session.gpu.stream(true)?;
    lanes.prepare(session, &session.comm)?;
    for lane in 0..lanes.number {
        let stream = if lane % 2 == 0 { &session.stream } else { &other };
        lanes.call(session, lane).enqueue(&session.nccl, session.comm.raw(), stream.raw())?;
    }
    session.stream.synchronize()?;
    other.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    Ok(observed)
}

/// The second AllReduce of a stream takes the first one's output as its input.
fn dependent(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(1, 10_000));
    lanes.prepare(session, &session.comm)?;
    let first = lanes.call(session, 0);
    first.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())?;
    let mut second = first;
    second.send = session.recv.at(0);
    second.recv = session.send.at(0);
    second.enqueue(&session.nccl, session.comm.raw(), session.stream.raw())?;
    session.stream.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    let mut output = vec![0; lanes.elements * 4];
    session.send.read(0, &mut output)?;
    let once = lanes.expected(&session.comm, 0);
    let ranks = session.comm.size as f32;
    let right = output.chunks_exact(4).zip(once.chunks_exact(4)).all(|(twice, once)| {
        let value = |bytes: &[u8]| f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        value(twice) == value(once) * ranks
    });
    observed.expect(right, || "the second call did not see the first one's result".into());
    observed.digest.add(&output);
    Ok(observed)
}

fn default_stream(session: &mut Session) -> Result<Observed, RankError> {
    let (mut observed, lanes) = (Observed::new(), Lanes::new(2, 1500));
    lanes.prepare(session, &session.comm)?;
    for lane in 0..lanes.number {
        lanes.call(session, lane).enqueue(&session.nccl, session.comm.raw(), ptr::null_mut())?;
    }
    session.gpu.synchronize()?;
    lanes.check(session, &session.comm, &mut observed)?;
    Ok(observed)
}
