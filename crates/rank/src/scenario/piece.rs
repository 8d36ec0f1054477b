//! One AllReduce with buffers of its own between guards: enqueued, then compared with what the
//! expectation of its communicator says. Calls that were swapped, dropped or run twice show.

use airamp_vendor::gpu::{Buffer, CaptureStatus, Stream};
use airamp_vendor_abi::nccl::{RedOp, ScalarResidence};

use super::expected::{Expectation, Spec};
use super::tracked::Tracked;
use super::{Equipment, Seen};
use crate::collective::{Call, Collective};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::numbers::encode;
use crate::pattern::{Reduction, premultiplier};

/// Bytes before and after an output that nothing may touch.
const GUARD: usize = 256;
/// What untouched memory holds.
const UNTOUCHED: u8 = 0xa5;

pub(super) struct Piece {
    pub(super) spec: Spec,
    ranks: usize,
    rank: usize,
    pub(super) op: RedOp,
    send: Buffer,
    recv: Buffer,
}

impl Piece {
    pub(super) fn new(own: &Equipment, comm: &Tracked, spec: Spec) -> Result<Self, RankError> {
        let room = (spec.count + spec.shift) * spec.element_size() + 2 * GUARD;
        let (send, recv) = (own.gpu.alloc(room)?, own.gpu.alloc(room)?);
        let op = operator(own, comm, &spec)?;
        let piece = Self { spec, ranks: comm.comm.size, rank: comm.comm.rank, op, send, recv };
        piece.fill(own)?;
        Ok(piece)
    }

    /// As many pieces as there are specs.
    pub(super) fn all(
        own: &Equipment,
        comm: &Tracked,
        specs: impl IntoIterator<Item = Spec>,
    ) -> Result<Vec<Self>, RankError> {
        specs.into_iter().map(|spec| Self::new(own, comm, spec)).collect()
    }

    /// Other numbers, once all work on the old ones is done.
    pub(super) fn renew(&mut self, own: &Equipment, seed: usize) -> Result<(), RankError> {
        self.spec.seed = seed;
        self.fill(own)
    }

    /// Other numbers, written by the stream. What is returned is read until the stream has passed.
    pub(super) fn rewrite_on(&mut self, stream: &Stream, seed: usize) -> Result<Vec<u8>, RankError> {
        self.spec.seed = seed;
        let input = self.spec.input(self.ranks, self.rank);
        let into = if self.spec.in_place { &self.recv } else { &self.send };
        // SAFETY: the caller keeps the bytes, and waits for the stream before it drops them.
        unsafe { into.write_async(self.begin(), &input, stream)? };
        Ok(input)
    }

    pub(super) fn fill(&self, own: &Equipment) -> Result<(), RankError> {
        self.recv.fill(0, self.recv.len(), UNTOUCHED)?;
        let into = if self.spec.in_place { &self.recv } else { &self.send };
        into.write(self.begin(), &self.spec.input(self.ranks, self.rank))?;
        // Fills and copies of the default stream are not ordered with a non-blocking one.
        Ok(own.gpu.synchronize()?)
    }

    fn begin(&self) -> usize {
        GUARD + self.spec.shift * self.spec.element_size()
    }

    pub(super) fn call(&self) -> Call {
        let from = if self.spec.in_place { &self.recv } else { &self.send };
        Call {
            form: self.spec.form,
            collective: Collective::AllReduce,
            send: from.at(self.begin()),
            recv: self.recv.at(self.begin()),
            count: self.spec.count,
            datatype: self.spec.datatype,
            op: self.op,
            root: 0,
        }
    }

    /// Puts the call on the stream, or into the group that is open.
    pub(super) fn enqueue(&self, own: &Equipment, comm: &Tracked, stream: &Stream) -> Result<(), RankError> {
        self.call_without_effect(own, comm, stream)?;
        match stream.capture_status()? {
            CaptureStatus::Live => comm.note(&self.spec),
            _ => comm.note_captured(&self.spec),
        }
        Ok(())
    }

    /// The same call where it is known that it will not take effect.
    pub(super) fn call_without_effect(
        &self,
        own: &Equipment,
        comm: &Tracked,
        stream: &Stream,
    ) -> Result<(), RankError> {
        self.call().enqueue(&own.nccl, comm.comm.raw(), stream.raw())
    }

    /// Copies the result elsewhere, in stream order.
    pub(super) fn copy_result(&self, into: &Buffer, stream: &Stream) -> Result<(), RankError> {
        Ok(into.copy_from_async(0, &self.recv, self.begin(), self.spec.bytes(), stream)?)
    }

    /// Compares the result, the guards and the input, once the work is done.
    pub(super) fn judge(&self, comm: &Tracked, seen: &mut Seen) -> Result<(), RankError> {
        self.judge_by(&comm.expectation, seen)
    }

    /// The same where the communicator is gone.
    pub(super) fn judge_by(&self, expectation: &Expectation, seen: &mut Seen) -> Result<(), RankError> {
        let mut memory = vec![0; self.recv.len()];
        self.recv.read(0, &mut memory)?;
        let (before, rest) = memory.split_at(self.begin());
        let (output, after) = rest.split_at(self.spec.bytes());
        self.judge_result(expectation, output, seen);
        let untouched = before.iter().chain(after).all(|byte| *byte == UNTOUCHED);
        seen.expect(untouched, || format!("wrote outside its output: {:?}", self.spec));
        if !self.spec.in_place {
            let mut input = vec![0; self.spec.bytes()];
            self.send.read(self.begin(), &mut input)?;
            let kept = input == self.spec.input(self.ranks, self.rank);
            seen.expect(kept, || format!("changed its input: {:?}", self.spec));
        }
        Ok(())
    }

    /// Compares a result that lies elsewhere.
    pub(super) fn judge_result(&self, expectation: &Expectation, output: &[u8], seen: &mut Seen) {
        if let Some(fault) = expectation.fault(&self.spec, self.ranks, output) {
            seen.expect(false, || fault);
        }
        seen.results.add(output);
    }

    /// The result as it is.
    pub(super) fn result(&self) -> Result<Vec<u8>, RankError> {
        let mut output = vec![0; self.spec.bytes()];
        self.recv.read(self.begin(), &mut output)?;
        Ok(output)
    }

    /// That no call has written a result.
    pub(super) fn judge_untouched(&self, seen: &mut Seen) -> Result<(), RankError> {
        let output = self.result()?;
        seen.expect(output.iter().all(|byte| *byte == UNTOUCHED), || "a result without a call".into());
        Ok(())
    }
}

fn operator(own: &Equipment, comm: &Tracked, spec: &Spec) -> Result<RedOp, RankError> {
    if spec.reduction != Reduction::PreMulSum {
        return Ok(spec.built_in());
    }
    let mut scalar = Vec::with_capacity(8);
    encode(spec.datatype, premultiplier(comm.comm.rank), &mut scalar);
    scalar.resize(8, 0);
    let (mut op, host) = (RedOp::SUM, ScalarResidence::HOST_IMMEDIATE);
    let scalar = scalar.as_mut_ptr().cast();
    invoke!(own.nccl, ncclRedOpCreatePreMulSum(&raw mut op, scalar, spec.datatype, host, comm.comm.raw()))?;
    Ok(op)
}
