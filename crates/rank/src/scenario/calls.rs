//! One AllReduce after the other on one stream: every type and reduction that is compressed, counts
//! and alignments of all kinds, and between them calls that are not compressed.

use airamp_vendor_abi::nccl::DataType;

use super::expected::Spec;
use super::piece::Piece;
use super::{Case, Job, Seen};
use crate::collective::{Collective, Form};
use crate::error::RankError;
use crate::pattern::Reduction;

/// More elements than fit into one step of the arena that the tests give.
pub(super) const SEVERAL_STEPS: usize = 400_003;

/// Count, in place, and elements by which the buffers are shifted.
const SHAPES: [(usize, bool, usize); 9] = [
    (2048, false, 0),
    (2049, true, 1),
    (4096, true, 0),
    (4099, false, 3),
    (4099, true, 7),
    (65_537, false, 1),
    (65_536, true, 2),
    (SEVERAL_STEPS, false, 0),
    (SEVERAL_STEPS, true, 1),
];

const TYPES: [(DataType, &str); 3] =
    [(DataType::FLOAT16, "float16"), (DataType::BFLOAT16, "bfloat16"), (DataType::FLOAT32, "float32")];

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = Vec::new();
    for (datatype, name) in TYPES {
        for (reduction, how) in [(Reduction::Sum, "sum"), (Reduction::Avg, "avg")] {
            let specs = SHAPES.iter().enumerate().map(move |(seed, (count, in_place, shift))| Spec {
                reduction,
                in_place: *in_place,
                shift: *shift,
                ..Spec::sum(datatype, *count).seeded(seed)
            });
            let specs: Vec<Spec> = specs.collect();
            cases.push(in_turn(format!("calls/{name}/{how}"), specs));
        }
    }
    cases.push(in_turn("calls/empty_ones_between", with_empty_ones()));
    cases.push(in_turn("calls/too_small_ones_between", with_small_ones(job.expectation.min_bytes)));
    cases.push(in_turn("calls/other_reductions_and_types_between", with_others()));
    cases.push(Case::new("calls/a_call_reads_what_the_one_before_wrote", dependent));
    if Collective::AllReduce.is_in(&job.nccl, Form::Config) {
        let configured = Spec { form: Form::Config, ..Spec::sum(DataType::FLOAT16, 9001) };
        cases.push(in_turn("calls/with_a_configuration", vec![configured, configured.seeded(1)]));
    }
    // With the arena of the run: more steps than two chunks at a time have, and more than any plan has.
    let long = Spec::sum(DataType::FLOAT16, 20_000_001);
    cases.push(in_turn("long/one_chunk_at_a_time", vec![fp16(3), long, fp16(4), long.seeded(1)]));
    let too_long = Spec { passes_through: true, ..Spec::sum(DataType::FLOAT16, 40_000_001) };
    cases.push(in_turn("long/passes_through", vec![fp16(5), too_long, fp16(6)]));
    cases
}

/// All of the calls on one stream of one communicator, without a wait between them.
fn in_turn(name: impl Into<String>, specs: Vec<Spec>) -> Case {
    Case::new(name, move |job| {
        let comm = job.communicator()?;
        let mut seen = Seen::new();
        let pieces = Piece::all(job, &comm, specs.iter().copied())?;
        pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream))?;
        job.stream.synchronize()?;
        pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
        comm.check(&mut seen);
        comm.comm.destroy()?;
        Ok(seen)
    })
}

fn fp16(seed: usize) -> Spec {
    Spec::sum(DataType::FLOAT16, 5000 + 129 * seed).seeded(seed)
}

fn with_empty_ones() -> Vec<Spec> {
    let empty = |seed| Spec { count: 0, ..fp16(seed) };
    vec![empty(0), fp16(1), empty(2), empty(3), fp16(4), Spec { in_place: true, ..empty(5) }, fp16(6)]
}

fn with_small_ones(min_bytes: usize) -> Vec<Spec> {
    let small = |datatype: DataType, seed| {
        let size = datatype.size().unwrap_or(1);
        Spec::sum(datatype, min_bytes / size - 1).seeded(seed)
    };
    let just_enough = Spec::sum(DataType::FLOAT32, min_bytes / 4).seeded(3);
    vec![
        small(DataType::FLOAT16, 0),
        fp16(1),
        small(DataType::FLOAT32, 2),
        just_enough,
        Spec::sum(DataType::BFLOAT16, 1).seeded(4),
        fp16(5),
    ]
}

fn with_others() -> Vec<Spec> {
    let others = [
        (DataType::FLOAT32, Reduction::Max),
        (DataType::FLOAT16, Reduction::Min),
        (DataType::BFLOAT16, Reduction::Prod),
        (DataType::FLOAT32, Reduction::PreMulSum),
        (DataType::FLOAT16, Reduction::PreMulSum),
        (DataType::INT32, Reduction::Sum),
        (DataType::FLOAT64, Reduction::Sum),
        (DataType::FLOAT64, Reduction::Avg),
        (DataType::UINT8, Reduction::Sum),
        (DataType::FLOAT8_E4M3, Reduction::Sum),
        (DataType::FLOAT8_E5M2, Reduction::Sum),
    ];
    let other = |(seed, (datatype, reduction)): (usize, (DataType, Reduction))| {
        let spec = Spec::sum(datatype, 6007).seeded(seed);
        [Spec { reduction, in_place: seed % 2 == 0, ..spec }, fp16(seed)]
    };
    others.into_iter().enumerate().flat_map(other).collect()
}

/// The output of one call is the input of the next, in the same buffer.
fn dependent(job: &mut Job) -> Result<Seen, RankError> {
    let comm = job.communicator()?;
    let mut seen = Seen::new();
    let in_place = Spec { in_place: true, ..Spec::sum(DataType::FLOAT32, 70_001) };
    let first = Piece::new(job, &comm, in_place)?;
    let copy = job.gpu.alloc(in_place.bytes())?;
    first.enqueue(job, &comm, &job.stream)?;
    first.copy_result(&copy, &job.stream)?;
    first.enqueue(job, &comm, &job.stream)?;
    job.stream.synchronize()?;
    let mut once = vec![0; in_place.bytes()];
    copy.read(0, &mut once)?;
    first.judge_result(&comm.expectation, &once, &mut seen);
    let twice = first.result()?;
    let expected = comm.expectation.repeated(&in_place, comm.comm.size, &once);
    seen.expect(twice == expected, || "the second call did not see the first one's result".into());
    seen.results.add(&twice);
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}
