//! One tensor that is reduced at every step, with a few sets of numbers that it takes in turn and whose
//! results are worked out beforehand: the vendor's, and the codec's by each algorithm.

use airamp_codec::Format;
use airamp_vendor::gpu::{Buffer, Stream};
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::super::Equipment;
use super::super::expected::Spec;
use super::report::Outcome;
use crate::collective::{Call, Collective};
use crate::error::RankError;
use crate::nccl::Communicator;

/// Sets of numbers; a result of an earlier step is never that of this one.
const SETS: usize = 3;
const UNTOUCHED: u8 = 0xa5;

pub(super) struct Gradient {
    pub(super) spec: Spec,
    sets: Vec<Numbers>,
    current: usize,
    untouched: Vec<u8>,
    send: Buffer,
    recv: Buffer,
}

struct Numbers {
    input: Vec<u8>,
    exact: Vec<u8>,
    compressed: Vec<Vec<u8>>,
}

impl Gradient {
    pub(super) fn new(own: &Equipment, comm: &Communicator, spec: Spec) -> Result<Self, RankError> {
        let format = own.expectation.format.unwrap_or(Format::Auto);
        let numbers = |set: usize| {
            let spec = spec.seeded(spec.seed + 1000 * set);
            Numbers {
                input: spec.input(comm.size, comm.rank),
                exact: spec.exact(comm.size),
                compressed: spec.compressed_by_any(comm.size, format),
            }
        };
        let sets = (0..SETS).map(numbers).collect();
        let (send, recv) = (own.gpu.alloc(spec.bytes())?, own.gpu.alloc(spec.bytes())?);
        Ok(Self { spec, sets, current: 0, untouched: vec![UNTOUCHED; spec.bytes()], send, recv })
    }

    /// As many as there are specs.
    pub(super) fn all(own: &Equipment, comm: &Communicator, specs: &[Spec]) -> Result<Vec<Self>, RankError> {
        specs.iter().map(|spec| Self::new(own, comm, *spec)).collect()
    }

    /// Puts the numbers of a step into the tensor, in stream order.
    pub(super) fn load(&mut self, stream: &Stream, step: usize) -> Result<(), RankError> {
        self.current = step % SETS;
        let input = &self.sets[self.current].input;
        if self.spec.in_place {
            // SAFETY: the sets live as long as the tensor, whose owner waits for the stream before it goes.
            unsafe { self.recv.write_async(0, input, stream)? };
            return Ok(());
        }
        // SAFETY: as above.
        unsafe {
            self.send.write_async(0, input, stream)?;
            self.recv.write_async(0, &self.untouched, stream)?;
        }
        Ok(())
    }

    pub(super) fn enqueue(
        &self,
        own: &Equipment,
        comm: &Communicator,
        stream: &Stream,
    ) -> Result<(), RankError> {
        let from = if self.spec.in_place { &self.recv } else { &self.send };
        let call = Call {
            form: self.spec.form,
            collective: Collective::AllReduce,
            send: from.at(0),
            recv: self.recv.at(0),
            count: self.spec.count,
            datatype: self.spec.datatype,
            op: RedOp::SUM,
            root: 0,
        };
        call.enqueue(&own.nccl, comm.raw(), stream.raw())
    }

    /// What came, once the work is done.
    pub(super) fn outcome(&self) -> Result<(Outcome, Vec<u8>), RankError> {
        let mut result = vec![0; self.spec.bytes()];
        self.recv.read(0, &mut result)?;
        let numbers = &self.sets[self.current];
        let outcome = match () {
            () if result == numbers.exact => Outcome::Exact,
            () if numbers.compressed.contains(&result) => Outcome::Compressed,
            () => Outcome::Wrong,
        };
        Ok((outcome, result))
    }

    /// Whether the input is as it was put in; in place there is none left.
    pub(super) fn input_is_kept(&self) -> Result<bool, RankError> {
        if self.spec.in_place {
            return Ok(true);
        }
        let mut input = vec![0; self.spec.bytes()];
        self.send.read(0, &mut input)?;
        Ok(input == self.sets[self.current].input)
    }

    pub(super) fn datatype_name(&self) -> &'static str {
        match self.spec.datatype {
            DataType::FLOAT16 => "float16",
            DataType::BFLOAT16 => "bfloat16",
            _ => "float32",
        }
    }
}
