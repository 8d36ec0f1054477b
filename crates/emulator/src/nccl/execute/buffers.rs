//! The memory of one collective and its arithmetic: what is read, where results go, and how this
//! rank's contribution is scaled, combined and finished.
//!
//! Addresses are resolved here, when the operation runs. The ring engine calls it for every
//! chunk that comes in and never touches the user's memory by itself.

use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::plans::{Place, ReceivePiece};
use super::{Broken, Region};
use crate::nccl::call::{Collective, Kind};
use crate::nccl::communicator::reductions::Scalar;
use crate::nccl::elements::{self, Combine};

/// The memory of one collective, and its arithmetic.
pub(super) struct Buffers {
    input: Region,
    output: Region,
    bias: Option<Region>,
    pub(super) scratch: Vec<u8>,
    /// Holds the scaled contribution where there is no room for it in the user's memory.
    scaled: Vec<u8>,
    pub(super) datatype: DataType,
    combine: Combine,
    divide_by: Option<usize>,
}

impl Buffers {
    pub(super) fn prepare(collective: &Collective, rank: usize, size: usize) -> Result<Self, Broken> {
        let bytes = collective.bytes();
        let is_root = collective.root == rank;
        let (input, output) = match collective.kind {
            Kind::AllReduce => (bytes, bytes),
            Kind::Reduce => (bytes, if is_root { bytes } else { 0 }),
            Kind::ReduceScatter => (bytes * size, bytes),
            Kind::AllGather => (bytes, bytes * size),
            Kind::Broadcast => (if is_root { bytes } else { 0 }, bytes),
            _ => (0, 0),
        };
        let bias = (collective.bias != 0).then(|| Region::resolve(collective.bias, bytes)).transpose()?;
        let integer_average = collective.op == RedOp::AVG && !elements::is_float(collective.datatype);
        let mut buffers = Self {
            input: Region::resolve(collective.send, input)?,
            output: Region::resolve(collective.recv, output)?,
            bias,
            scratch: Vec::new(),
            scaled: Vec::new(),
            datatype: collective.datatype,
            combine: match collective.op {
                RedOp::PROD => Combine::Prod,
                RedOp::MAX => Combine::Max,
                RedOp::MIN => Combine::Min,
                _ => Combine::Sum,
            },
            divide_by: (collective.kind.reduces() && integer_average).then_some(size),
        };
        if let Some(factor) = factor(collective, size)? {
            buffers.scale(collective.kind, &factor);
        }
        match collective.kind {
            Kind::AllGather => buffers.output.part(rank * bytes, bytes).copy_from(buffers.input),
            Kind::Broadcast if is_root => buffers.output.copy_from(buffers.input),
            _ => {}
        }
        Ok(buffers)
    }

    /// Multiplies this rank's contribution, which from now on is read from the copy.
    fn scale(&mut self, kind: Kind, factor: &[u8]) {
        if kind == Kind::AllReduce {
            self.output.copy_from(self.input);
            self.input = self.output;
        } else {
            self.scaled = self.input.bytes().to_vec();
            self.input = Region { ptr: self.scaled.as_mut_ptr(), len: self.scaled.len() };
        }
        elements::scale(self.datatype, self.input.bytes_mut(), factor);
    }

    /// One rank: its contribution is the result.
    pub(super) fn finish_alone(&mut self) {
        let len = self.output.len.min(self.input.len);
        let mut output = self.output.part(0, len);
        output.copy_from(self.input);
        finish(self.datatype, self.divide_by, self.bias, output.bytes_mut());
    }

    pub(super) fn place(&mut self, place: Place) -> Region {
        match place {
            Place::Input => self.input,
            Place::Output => self.output,
            Place::Scratch => Region { ptr: self.scratch.as_mut_ptr(), len: self.scratch.len() },
        }
    }

    /// Combines whole elements that came in for a piece and puts them where they belong.
    pub(super) fn take_in(&mut self, piece: &ReceivePiece, own: usize, within: usize, incoming: &mut [u8]) {
        let contribution = self.input.part(own + within, incoming.len());
        elements::combine(self.combine, self.datatype, incoming, contribution.bytes());
        if piece.finish {
            let bias = self.bias.map(|bias| bias.part(piece.offset + within, incoming.len()));
            finish(self.datatype, self.divide_by, bias, incoming);
        }
        let mut target = self.place(piece.place).part(piece.offset + within, incoming.len());
        target.bytes_mut().copy_from_slice(incoming);
    }
}

fn finish(datatype: DataType, divide_by: Option<usize>, bias: Option<Region>, data: &mut [u8]) {
    if let Some(ranks) = divide_by {
        elements::divide(datatype, data, ranks);
    }
    if let Some(bias) = bias {
        elements::combine(Combine::Sum, datatype, data, bias.bytes());
    }
}

/// What each contribution is multiplied with: the factor of a PreMulSum, or 1/n for an average
/// of floats, which is how NCCL computes it.
fn factor(collective: &Collective, size: usize) -> Result<Option<Vec<u8>>, Broken> {
    match collective.scalar {
        Some(Scalar::Immediate(bytes)) => Ok(Some(bytes.to_vec())),
        Some(Scalar::Device(ptr)) => Ok(Some(Region::resolve(ptr, collective.element())?.bytes().to_vec())),
        None => {
            let averages = collective.kind.reduces() && collective.op == RedOp::AVG;
            let scales = averages && elements::is_float(collective.datatype);
            Ok(scales.then(|| elements::reciprocal(collective.datatype, size)))
        }
    }
}
