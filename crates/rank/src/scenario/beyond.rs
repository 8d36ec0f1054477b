//! `scenario beyond`: one AllReduce of more than 2^31 elements, in place. It takes 4.3 GB of device memory on each rank,
//! and runs by its whole name alone. The same numbers come over and over, as the format rounds each block by itself, so
//! that every element is compared without a second copy of the tensor.

use std::time::Duration;

use airamp_vendor::gpu::Buffer;
use airamp_vendor_abi::nccl::{DataType, RedOp};

use super::expected::{Expectation, Spec};
use super::{Case, Job, Seen};
use crate::collective::{Call, Collective};
use crate::error::RankError;

pub(super) const NAME: &str = "beyond";
pub(super) const LIMIT: Duration = Duration::from_secs(900);

/// Whole blocks, and not a power of two: an index that wraps round meets other numbers.
const PERIOD: usize = 128 * 131_071;
const TURNS: usize = (1 << 31) / PERIOD + 1;
const TAIL: usize = 1001;
/// Bytes behind the tensor that nothing may touch.
const GUARD: usize = 256;
const UNTOUCHED: u8 = 0xa5;

pub(super) fn case() -> Case {
    Case::new("beyond/two_to_the_31_elements", run)
}

fn in_place(count: usize) -> Spec {
    Spec { in_place: true, ..Spec::sum(DataType::FLOAT16, count) }
}

fn run(job: &mut Job) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let (ranks, rank) = (comm.comm.size, comm.comm.rank);
    let (whole, turn, tail) = (in_place(TURNS * PERIOD + TAIL), in_place(PERIOD), in_place(TAIL).seeded(1));
    let buffer = job.gpu.alloc(whole.bytes() + GUARD)?;
    let places = || (0..TURNS).map(|number| number * turn.bytes());
    let input = turn.input(ranks, rank);
    places().try_for_each(|place| buffer.write(place, &input))?;
    buffer.write(TURNS * turn.bytes(), &tail.input(ranks, rank))?;
    buffer.fill(whole.bytes(), GUARD, UNTOUCHED)?;
    job.gpu.synchronize()?;
    call(&buffer, &whole).enqueue(&job.nccl, comm.comm.raw(), job.stream.raw())?;
    comm.note(&whole);
    job.stream.synchronize()?;
    let wanted = wanted(&comm.expectation, &whole, &turn, ranks);
    for place in places() {
        compare(&buffer, place, &wanted, &mut seen)?;
    }
    compare(
        &buffer,
        TURNS * turn.bytes(),
        &self::wanted(&comm.expectation, &whole, &tail, ranks),
        &mut seen,
    )?;
    compare(&buffer, whole.bytes(), &[UNTOUCHED; GUARD], &mut seen)?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

fn call(buffer: &Buffer, spec: &Spec) -> Call {
    let (send, recv) = (buffer.at(0), buffer.at(0));
    let (form, datatype, count) = (spec.form, spec.datatype, spec.count);
    Call { form, collective: Collective::AllReduce, send, recv, count, datatype, op: RedOp::SUM, root: 0 }
}

/// What a part must come to: compressed if the whole is.
fn wanted(expectation: &Expectation, whole: &Spec, part: &Spec, ranks: usize) -> Vec<u8> {
    let format = expectation.format.filter(|_| expectation.compresses(whole, ranks));
    format.and_then(|format| part.compressed(ranks, format)).unwrap_or_else(|| part.exact(ranks))
}

fn compare(buffer: &Buffer, place: usize, wanted: &[u8], seen: &mut Seen) -> Result<(), RankError> {
    let mut got = vec![0; wanted.len()];
    buffer.read(place, &mut got)?;
    let at = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
    seen.expect(at.is_none(), || format!("byte {} is another one", place + at.unwrap_or(0)));
    seen.results.add(&got);
    Ok(())
}
