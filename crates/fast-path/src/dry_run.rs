//! What a dry run does otherwise than a call. The same packets travel and the same kernels run, but what
//! arrives and what comes out stays in the arena, in pieces that fit there: input and output are left as
//! they are. If it is measured, a sample of the result is copied to the host piece by piece; the last piece's
//! copy comes behind the time stamp, so that a call of one step is not charged for it.

use crate::enqueue::Post;
use crate::error::FastPathError;
use crate::plan::Plan;
use crate::sample::runs;
use crate::shape::Algorithm;
use crate::steps::Steps;
use airamp_vendor::gpu::GpuError;
use airamp_vendor_abi::cuda::DevicePtr;

/// Elements `start .. start + elements` of the call, dequantised by one kernel: those of some packets of a
/// chunk from `first_packet` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) first_packet: usize,
    pub(crate) start: usize,
    pub(crate) elements: usize,
}

impl Plan {
    /// The chunk in one piece.
    pub(crate) fn whole(&self, step: usize) -> Piece {
        let chunk = self.chunk(step);
        Piece { first_packet: 0, start: chunk.start, elements: chunk.elements }
    }

    /// The chunk in the pieces in which it is dequantised; none is empty.
    pub(crate) fn pieces(&self, step: usize, element_bytes: usize) -> impl Iterator<Item = Piece> + use<> {
        let (chunk, layout) = (self.chunk(step), self.layout());
        let all = layout.packets_per_chunk();
        let packets = if self.dry { layout.packets_per_piece(chunk, element_bytes) } else { all };
        (0..all).step_by(packets).map_while(move |first_packet| {
            let before = first_packet * chunk.packet_elements;
            let elements = (packets * chunk.packet_elements).min(chunk.elements.saturating_sub(before));
            (elements > 0).then_some(Piece { first_packet, start: chunk.start + before, elements })
        })
    }
}

impl Steps<'_> {
    /// Where the elements of a piece go.
    pub(crate) fn result(&self, step: usize, piece: &Piece) -> DevicePtr {
        match (self.plan.dry, self.plan.shape.algorithm) {
            (false, _) => self.post.call.output + self.offset(piece.start),
            // The packets there have been reduced.
            (true, Algorithm::TwoShot | Algorithm::ThreeShot) => self.received(step, 0),
            (true, Algorithm::OneShot) => {
                self.lane.arena.scratch() + self.plan.slots() as u64 * self.plan.slot_bytes() as u64
            }
        }
    }

    /// The first time stamp: the kernels have waited for the caller's stream and for whatever used the arena
    /// last.
    pub(crate) fn begin_measured(&self) -> Result<(), GpuError> {
        match self.post.measurement() {
            None => Ok(()),
            Some(measurement) => measurement.begin(self.order.kernels()),
        }
    }

    /// The second one, where a call's result would be there for the caller.
    pub(crate) fn end_measured(&self) -> Result<(), FastPathError> {
        let Some(measurement) = self.post.measurement() else { return Ok(()) };
        self.lane.arena.read_back(self.order.kernels())?;
        self.order.mark_end(&measurement.ours_end)?;
        let last = self.plan.steps - 1;
        self.last_piece().map_or(Ok(()), |piece| self.copy_sample(last, &piece))
    }

    /// Copies what belongs to the sample before the next piece takes its place.
    pub(crate) fn keep_sample(&self, step: usize, piece: &Piece) -> Result<(), FastPathError> {
        if self.post.dry.is_none() || self.last_piece() == Some(*piece) {
            return Ok(());
        }
        self.copy_sample(step, piece)
    }

    fn last_piece(&self) -> Option<Piece> {
        self.plan.pieces(self.plan.steps - 1, self.post.call.element.size()).last()
    }

    fn copy_sample(&self, step: usize, piece: &Piece) -> Result<(), FastPathError> {
        let Some(measurement) = self.post.measurement() else { return Ok(()) };
        let (size, result) = (self.post.call.element.size(), self.result(step, piece));
        for run in runs(self.plan.count) {
            let Some(part) = run.within(piece.start, piece.elements) else { continue };
            let from = result + self.offset(part.start - piece.start);
            let (at, bytes) = (part.place * size, part.elements * size);
            // SAFETY: the kernels have written it there, in the order of the same stream.
            unsafe { measurement.ours.copy_from_address_async(at, from, bytes, self.order.kernels()) }?;
        }
        Ok(())
    }
}

impl Post<'_> {
    /// The vendor's call comes next on the post's stream.
    pub(crate) fn start_vendor(&self) -> Result<(), FastPathError> {
        let Some(measurement) = self.measurement() else { return Ok(()) };
        Ok(measurement.vendor_begin.record(&self.lane.gpu.borrow_stream(self.stream))?)
    }
}
