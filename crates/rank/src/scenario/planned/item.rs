//! One call of a planned job with buffers of its own between guards: filled, called, and judged by what it must give.
//! An AllReduce may come out as the vendor's or as the codec's; everything else has one right result.

use airamp_codec::Format;
use airamp_vendor::gpu::{Buffer, GpuError};
use airamp_vendor_abi::cuda::CudaError;
use airamp_vendor_abi::nccl::RedOp;

use super::super::Equipment;
use super::super::expected::{Expectation, Spec};
use super::plan::CallPlan;
use super::report::Letter;
use crate::collective::{Call, Collective, Form};
use crate::digest::Digest;
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::pattern::{Reduction, agrees, input};

const GUARD: usize = 256;
const UNTOUCHED: u8 = 0xa5;

pub(super) struct Item {
    pub(super) plan: CallPlan,
    ranks: usize,
    rank: usize,
    send: Buffer,
    recv: Buffer,
    places: Places,
    /// That of compressed results.
    format: Format,
}

/// Where in the buffers the call's parts lie, in bytes.
struct Places {
    input_at: usize,
    input_bytes: usize,
    output_at: usize,
    output_bytes: usize,
}

impl Item {
    pub(super) fn new(own: &Equipment, comm: &Communicator, plan: CallPlan) -> Result<Self, RankError> {
        let plan = CallPlan { root: plan.root % comm.size, ..plan };
        let places = Places::of(&plan, comm);
        let room = places.room();
        let (send, recv) = (allocated(own, room)?, allocated(own, room)?);
        let format = own.expectation.format.unwrap_or(Format::Auto);
        Ok(Self { plan, ranks: comm.size, rank: comm.rank, send, recv, places, format })
    }

    /// Other numbers at each turn. The caller waits for the device before the call.
    pub(super) fn fill(&mut self, turn: usize) -> Result<(), RankError> {
        if self.plan.collective == Collective::AllReduce {
            self.plan.seed = self.plan.seed % 97 + 97 * (turn % 3);
        }
        self.recv.fill(0, self.recv.len(), UNTOUCHED)?;
        self.source().write(self.places.input_at, &self.input())?;
        Ok(())
    }

    fn source(&self) -> &Buffer {
        if self.plan.in_place { &self.recv } else { &self.send }
    }

    fn spec(&self) -> Spec {
        let CallPlan { datatype, reduction, count, in_place, seed, .. } = self.plan;
        Spec { reduction, in_place, ..Spec::sum(datatype, count).seeded(seed) }
    }

    fn input(&self) -> Vec<u8> {
        if self.plan.collective == Collective::AllReduce {
            return self.spec().input(self.ranks, self.rank);
        }
        let elements = self.plan.collective.elements(self.plan.count, self.ranks).0;
        input(self.plan.datatype, self.plan.reduction, self.ranks, self.rank, 0, elements)
    }

    pub(super) fn call(&self) -> Call {
        Call {
            form: Form::Plain,
            collective: self.plan.collective,
            send: self.source().at(self.places.input_at),
            recv: self.recv.at(self.places.output_at),
            count: self.plan.count,
            datatype: self.plan.datatype,
            op: operator(self.plan.reduction),
            root: self.plan.root as i32,
        }
    }

    /// What came, and its digest.
    pub(super) fn judge(&self) -> Result<(Letter, String), RankError> {
        let mut memory = vec![0; self.recv.len()];
        self.recv.read(0, &mut memory)?;
        let Places { output_at, output_bytes, .. } = self.places;
        let (before, rest) = memory.split_at(output_at);
        let (output, after) = rest.split_at(output_bytes);
        let mut digest = Digest::new();
        digest.add(output);
        // In place the other parts of the buffer are input, which a collective may use as it likes.
        let untouched = self.plan.in_place || before.iter().chain(after).all(|byte| *byte == UNTOUCHED);
        let letter = if untouched { self.letter(output) } else { Letter::Wrong };
        Ok((letter, digest.hex()))
    }

    fn letter(&self, output: &[u8]) -> Letter {
        let CallPlan { collective, datatype, reduction, count, root, .. } = self.plan;
        if collective == Collective::AllReduce {
            return self.letter_of_all_reduce(output);
        }
        let place = (self.ranks, self.rank, root);
        match collective.expected(datatype, reduction, place, count) {
            Some(right) if !agrees(datatype, reduction, self.ranks, output, &right) => Letter::Wrong,
            _ => Letter::Exact,
        }
    }

    fn letter_of_all_reduce(&self, output: &[u8]) -> Letter {
        let (spec, vendor) = (self.spec(), Expectation { format: None, min_bytes: 0 });
        if vendor.fault(&spec, self.ranks, output).is_none() {
            return Letter::Exact;
        }
        let any = Expectation { format: Some(self.format), min_bytes: 0 };
        let compressed = spec.compressed_by_any(self.ranks, self.format);
        match () {
            () if compressed.iter().any(|bits| bits == output) => Letter::Compressed,
            () if any.is_marked(&spec, self.ranks, output) => Letter::Marked,
            () => Letter::Wrong,
        }
    }
}

impl Places {
    fn of(plan: &CallPlan, comm: &Communicator) -> Self {
        let size = plan.datatype.size().unwrap_or(1);
        let (inputs, outputs) = plan.collective.elements(plan.count, comm.size);
        let begin = GUARD + plan.shift * size;
        let (input, output) = match plan.in_place {
            true => plan.collective.places_in_place(plan.count, comm.rank),
            false => (0, 0),
        };
        Self {
            input_at: begin + input * size,
            input_bytes: inputs * size,
            output_at: begin + output * size,
            output_bytes: outputs * size,
        }
    }

    fn room(&self) -> usize {
        (self.input_at + self.input_bytes).max(self.output_at + self.output_bytes) + GUARD
    }
}

/// Tries once more where memory was refused: the fault is one allocation's.
pub(super) fn allocated(own: &Equipment, bytes: usize) -> Result<Buffer, RankError> {
    match own.gpu.alloc(bytes) {
        Err(GpuError::Call { code, .. }) if code == CudaError::OUT_OF_MEMORY.0 => Ok(own.gpu.alloc(bytes)?),
        made => Ok(made?),
    }
}

fn operator(reduction: Reduction) -> RedOp {
    match reduction {
        Reduction::Prod => RedOp::PROD,
        Reduction::Max => RedOp::MAX,
        Reduction::Min => RedOp::MIN,
        Reduction::Avg => RedOp::AVG,
        Reduction::Sum | Reduction::PreMulSum => RedOp::SUM,
    }
}
