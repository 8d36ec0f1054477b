//! What the scenarios play on: a session with lanes, and tensors at places of their own in its
//! buffers, so that calls that disturb each other show.

use std::cell::Cell;
use std::sync::Arc;

use airamp_codec::{Element, Format};
use airamp_fast_path::{Call, Lane, Post};
use airamp_kernels::KernelSet;
use airamp_vendor::gpu::{Kind, Stream};
use airamp_vendor_abi::nccl::DataType;

use crate::bench::data::{Distribution, Inputs, Samples};
use crate::digest::Digest;
use crate::error::RankError;
use crate::lane::{self, acquire, refused};
use crate::nccl::{Communicator, Making};
use crate::numbers::encode;
use crate::session::Session;

/// What an output holds before it is written.
const UNTOUCHED: u8 = 0x5a;
/// Bytes of each buffer that a tensor may take.
pub(super) const PLACE: usize = 2 << 20;
pub(super) const PLACES: usize = 8;

/// In the order of the elements.
const DATATYPES: [DataType; 3] = [DataType::FLOAT16, DataType::BFLOAT16, DataType::FLOAT32];

/// One AllReduce of a scenario.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tensor {
    pub(super) place: usize,
    pub(super) datatype: DataType,
    pub(super) element: Element,
    pub(super) count: usize,
    pub(super) in_place: bool,
}

impl Tensor {
    /// Half precision, out of place, off the alignment that vector accesses like.
    pub(super) fn new(place: usize, count: usize) -> Self {
        Self { place, datatype: DataType::FLOAT16, element: Element::F16, count, in_place: false }
    }

    pub(super) fn offset(&self) -> usize {
        self.place * PLACE + self.place * self.element.size()
    }

    pub(super) fn bytes(&self) -> usize {
        self.count * self.element.size()
    }
}

pub(super) struct Stage {
    pub(super) lane: Lane,
    pub(super) kernels: Arc<KernelSet>,
    index: Cell<u64>,
    /// Everybody's numbers in the element's type.
    inputs: [Inputs; 3],
    pub(super) session: Session,
    pub(super) arena_bytes: usize,
}

impl Stage {
    pub(super) fn set(kind: Kind, arena_bytes: usize) -> Result<Self, RankError> {
        let (session, kernels) = begin(kind)?;
        let lane = acquire(&session, &session.comm, &kernels, arena_bytes, Format::Auto)?;
        Lane::connect(&[&lane]).map_err(refused)?;
        let samples = Samples::draw(Distribution::Normal, session.comm.size);
        let inputs = DATATYPES.map(|datatype| samples.rounded(datatype));
        Ok(Self { lane, kernels, index: Cell::new(0), inputs, session, arena_bytes })
    }

    /// A further lane on a communicator of its own.
    pub(super) fn another_lane(&mut self) -> Result<(Lane, Communicator), RankError> {
        let comm = self.session.another_communicator(Making::Plain)?;
        let lane = acquire(&self.session, &comm, &self.kernels, self.arena_bytes, Format::Auto)?;
        Ok((lane, comm))
    }

    pub(super) fn input(&self, tensor: &Tensor) -> Vec<u8> {
        self.input_of(self.session.comm.rank, tensor)
    }

    pub(super) fn input_of(&self, rank: usize, tensor: &Tensor) -> Vec<u8> {
        let write = |value, out: &mut Vec<u8>| encode(tensor.datatype, value, out);
        self.inputs[tensor.element as usize].tensor(rank, tensor.count, write)
    }

    /// Puts the inputs into their places.
    pub(super) fn prepare(&self, tensors: &[Tensor]) -> Result<(), RankError> {
        for tensor in tensors {
            self.session.recv.fill(tensor.offset(), tensor.bytes(), UNTOUCHED)?;
            let into = if tensor.in_place { &self.session.recv } else { &self.session.send };
            into.write(tensor.offset(), &self.input(tensor))?;
        }
        Ok(self.session.gpu.synchronize()?)
    }

    pub(super) fn spoil(&self, tensor: &Tensor, stream: &Stream) -> Result<(), RankError> {
        Ok(self.session.recv.fill_async(tensor.offset(), tensor.bytes(), UNTOUCHED, stream)?)
    }

    pub(super) fn post<'l>(
        &self,
        lane: &'l Lane,
        tensor: &Tensor,
        stream: &Stream,
    ) -> Result<Post<'l>, RankError> {
        let from = if tensor.in_place { &self.session.recv } else { &self.session.send };
        let call = Call {
            input: from.at(tensor.offset()) as u64,
            output: self.session.recv.at(tensor.offset()) as u64,
            element: tensor.element,
            average: false,
        };
        let plan = lane.plan(tensor.count, lane.shapes()[0]).map_err(refused)?;
        let index = self.index.replace(self.index.get() + 1);
        Ok(Post { lane, plan, call, stream: stream.raw(), index, dry: None })
    }

    /// Each tensor by a call of its own, one after the other has ended.
    pub(super) fn one_by_one(&self, tensors: &[Tensor]) -> Result<String, RankError> {
        self.prepare(tensors)?;
        for tensor in tensors {
            enqueue(&[self.post(&self.lane, tensor, &self.session.stream)?])?;
            self.session.stream.synchronize()?;
        }
        self.digest(tensors)
    }

    pub(super) fn digest(&self, tensors: &[Tensor]) -> Result<String, RankError> {
        let mut digest = Digest::new();
        for tensor in tensors {
            digest.add(&self.output(tensor)?);
        }
        Ok(digest.hex())
    }

    pub(super) fn output(&self, tensor: &Tensor) -> Result<Vec<u8>, RankError> {
        let mut output = vec![0; tensor.bytes()];
        self.session.recv.read(tensor.offset(), &mut output)?;
        Ok(output)
    }
}

pub(super) fn begin(kind: Kind) -> Result<(Session, Arc<KernelSet>), RankError> {
    let session = Session::start(kind, PLACES * PLACE)?;
    let kernels = lane::kernels(&session.gpu)?;
    Ok((session, kernels))
}

pub(super) fn enqueue(posts: &[Post<'_>]) -> Result<(), RankError> {
    // SAFETY: the session's buffers hold every tensor, and live until all work has ended.
    unsafe { airamp_fast_path::enqueue(posts) }.map_err(refused)
}

/// The same with streams of one lane that wait for each other before and behind it.
pub(super) fn enqueue_meeting(posts: &[Post<'_>], lane: &Lane, streams: &[&Stream]) -> Result<(), RankError> {
    let streams: Vec<_> = streams.iter().map(|stream| stream.raw()).collect();
    // SAFETY: the streams are the session's.
    let meet = || unsafe { airamp_fast_path::meet(lane, &streams) }.map_err(refused);
    meet()?;
    enqueue(posts)?;
    meet()
}
