//! Arguments of calls in a group that are the caller's again when the call has returned: reduction
//! operators, configurations and arrays of counts. What becomes of them later must not matter.

use std::ffi::c_void;

use airamp_vendor_abi::nccl::{API_MAGIC, DataType, RedOp, ScalarResidence};

use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::tracked::Tracked;
use super::{Case, Equipment, Job, Seen};
use crate::collective::{Call, Collective, Form};
use crate::error::RankError;
use crate::nccl::invoke;
use crate::pattern::{Reduction, input};

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![Case::new("arguments/operators_destroyed_before_the_end_of_the_group", operators)];
    if Collective::AllReduce.is_in(&job.nccl, Form::Config) {
        cases.push(Case::new("arguments/configurations_overwritten", configurations));
    }
    if job.nccl.functions.ncclAlltoAllv.is_some() {
        cases.push(Case::new("arguments/counts_overwritten", counts));
    }
    cases
}

/// The number of an operator that was destroyed is the next one's.
fn operators(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let scaled =
        |seed| Spec { reduction: Reduction::PreMulSum, ..Spec::sum(DataType::FLOAT32, 5003) }.seeded(seed);
    let specs = [scaled(0), various(1), scaled(2), various(3)];
    let pieces = Piece::all(job, &comm, specs)?;
    let mut others = Vec::new();
    job.group(|| {
        for piece in &pieces {
            piece.enqueue(job, &comm, &job.stream)?;
            if piece.spec.reduction == Reduction::PreMulSum {
                invoke!(job.nccl, ncclRedOpDestroy(piece.op, comm.comm.raw()))?;
                others.push(another_operator(job, &comm)?);
            }
        }
        Ok(())
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    for operator in others {
        invoke!(job.nccl, ncclRedOpDestroy(operator, comm.comm.raw()))?;
    }
    comm.comm.destroy()?;
    Ok(seen)
}

fn another_operator(own: &Equipment, comm: &Tracked) -> Result<RedOp, RankError> {
    let (mut operator, mut factor) = (RedOp::SUM, 1000f32);
    let (scalar, host) = ((&raw mut factor).cast(), ScalarResidence::HOST_IMMEDIATE);
    let datatype = DataType::FLOAT32;
    invoke!(own.nccl, ncclRedOpCreatePreMulSum(&raw mut operator, scalar, datatype, host, comm.comm.raw()))?;
    Ok(operator)
}

/// What an initialiser of `ncclCollConfig_t` writes, with room for its fields.
#[repr(C)]
struct Configuration {
    size: usize,
    magic: u32,
    version: u32,
    fields: [u8; 112],
}

impl Configuration {
    fn initialised() -> Self {
        Self { size: size_of::<Self>(), magic: API_MAGIC, version: 23203, fields: [0xff; 112] }
    }
}

fn configurations(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let specs = [Spec::sum(DataType::INT32, 5003), various(1), Spec::sum(DataType::INT32, 4001).seeded(2)];
    let pieces = Piece::all(job, &comm, specs)?;
    let mut configuration = Configuration::initialised();
    job.group(|| {
        for piece in &pieces {
            configuration = Configuration::initialised();
            enqueue_with(job, &comm, &piece.call(), (&raw const configuration).cast())?;
            comm.note(&piece.spec);
            configuration.size = 0;
            configuration.magic = 0;
        }
        Ok(())
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

/// An AllReduce with a configuration that is gone when it has returned.
pub(super) fn enqueue_configured(own: &Equipment, comm: &Tracked, piece: &Piece) -> Result<(), RankError> {
    let configuration = Configuration::initialised();
    enqueue_with(own, comm, &piece.call(), (&raw const configuration).cast())?;
    comm.note(&piece.spec);
    Ok(())
}

fn enqueue_with(
    own: &Equipment,
    comm: &Tracked,
    call: &Call,
    configuration: *const c_void,
) -> Result<(), RankError> {
    let Call { send, recv, count, datatype, op, .. } = *call;
    let (comm, stream) = (comm.comm.raw(), own.stream.raw());
    invoke!(own.nccl, ncclAllReduceConfig(send, recv, count, datatype, op, comm, stream, configuration))
}

/// So many bytes to and from each rank, in the order of the ranks.
const PART: usize = 1000;

/// The arrays of an AlltoAllv: counts and places.
struct Arrays {
    counts: Vec<usize>,
    places: Vec<usize>,
}

impl Arrays {
    fn of(ranks: usize) -> Self {
        Self { counts: vec![PART; ranks], places: (0..ranks).map(|rank| rank * PART).collect() }
    }

    fn overwrite(&mut self) {
        self.counts.fill(3);
        self.places.fill(0);
    }
}

fn counts(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (rank, ranks) = (comm.comm.rank, comm.comm.size);
    let pieces = Piece::all(job, &comm, [various(0), various(1)])?;
    let (sent, received) = (job.gpu.alloc(ranks * PART)?, job.gpu.alloc(ranks * PART)?);
    let content = |from: usize| input(DataType::UINT8, Reduction::Sum, ranks, from, 0, ranks * PART);
    sent.write(0, &content(rank))?;
    received.fill(0, ranks * PART, 0)?;
    job.gpu.synchronize()?;
    job.group(|| {
        pieces[0].enqueue(job, &comm, &job.stream)?;
        let mut arrays = Arrays::of(ranks);
        let (counts, places) = (arrays.counts.as_ptr(), arrays.places.as_ptr());
        let (from, into, bytes) = (sent.at(0), received.at(0), DataType::UINT8);
        let (raw, stream) = (comm.comm.raw(), job.stream.raw());
        invoke!(job.nccl, ncclAlltoAllv(from, counts, places, into, counts, places, bytes, raw, stream))?;
        arrays.overwrite();
        pieces[1].enqueue(job, &comm, &job.stream)
    })?;
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    let mut output = vec![0; ranks * PART];
    received.read(0, &mut output)?;
    let expected: Vec<u8> =
        (0..ranks).flat_map(|from| content(from)[rank * PART..][..PART].to_vec()).collect();
    seen.expect(output == expected, || "what the ranks sent each other is wrong".into());
    seen.others.add(&output);
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}
