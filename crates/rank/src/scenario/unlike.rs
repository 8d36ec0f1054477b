//! Ranks that make the same calls in unlike ways: some in a group, the others one after the other. A
//! group is its collectives in the order of the program, one communicator after the other, and then its messages.

use airamp_vendor_abi::nccl::DataType;

use super::expected::Spec;
use super::messages::{Messages, spec};
use super::piece::Piece;
use super::tracked::Tracked;
use super::{Case, Job, Seen};
use crate::collective::{Collective, Form};
use crate::error::RankError;
use crate::nccl::{Communicator, Making};
use crate::pattern::Reduction;

/// Which rank makes its calls in a group; the sender is rank 0 and the receiver rank 1.
type IsGrouped = fn(rank: usize) -> bool;

const WHO: [(&str, IsGrouped); 3] =
    [("the_first_rank", |rank| rank == 0), ("the_second_rank", |rank| rank == 1), ("both", |rank| rank < 2)];

const ROUNDS: usize = 3;

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = Vec::new();
    let with_config = Collective::AllReduce.is_in(&job.nccl, Form::Config);
    for (who, is_grouped) in WHO {
        let case = |what: &str| format!("unlike/{what}_in_a_group_of_{who}");
        cases.push(Case::new(case("a_message"), move |job| message(job, is_grouped)));
        cases.push(Case::new(case("collectives"), move |job| collectives(job, is_grouped, Form::Plain)));
        cases.push(Case::new(case("communicators"), move |job| communicators(job, is_grouped, mixed())));
        let one_exact = case("communicators_one_with_exact_calls_alone");
        cases.push(Case::new(one_exact, move |job| communicators(job, is_grouped, first_exact())));
        if with_config {
            let configured = case("configured_collectives");
            cases.push(Case::new(configured, move |job| collectives(job, is_grouped, Form::Config)));
        }
    }
    // A single rank has no peer.
    cases.retain(|_| job.layout.iter().sum::<usize>() > 1);
    cases
}

/// The group names its message before its AllReduce, which has messages of the same size.
fn message(job: &mut Job, is_grouped: IsGrouped) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let rank = comm.comm.rank;
    let pieces = Piece::all(job, &comm, (0..ROUNDS).map(spec))?;
    let mut messages = Vec::new();
    for seed in 0..ROUNDS {
        messages.push(Messages::new(job, &comm, seed)?);
    }
    for (piece, messages) in pieces.iter().zip(&messages) {
        let exchange = || match rank {
            0 => messages.send_to(1, job, &comm, &job.stream),
            1 => messages.receive_from(0, job, &comm, &job.stream),
            _ => Ok(()),
        };
        let reduce = || piece.enqueue(job, &comm, &job.stream);
        if is_grouped(rank) {
            job.group(|| exchange().and_then(|()| reduce()))?;
        } else {
            reduce()?;
            exchange()?;
        }
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    if rank == 1 {
        messages.iter().try_for_each(|messages| messages.judge_from(0, &comm, &mut seen))?;
    }
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

/// What is compressed between what is not.
fn assorted(form: Form) -> Vec<Spec> {
    let of = |datatype, seed| Spec { form, ..Spec::sum(datatype, 5003).seeded(seed) };
    vec![
        of(DataType::INT32, 0),
        of(DataType::FLOAT32, 1),
        of(DataType::INT32, 2),
        of(DataType::FLOAT16, 3),
        of(DataType::BFLOAT16, 4),
        Spec { reduction: Reduction::Max, ..of(DataType::FLOAT16, 5) },
    ]
}

fn collectives(job: &mut Job, is_grouped: IsGrouped, form: Form) -> Result<Seen, RankError> {
    let (comm, mut seen) = (job.communicator()?, Seen::new());
    let pieces = Piece::all(job, &comm, assorted(form))?;
    let enqueue = || pieces.iter().try_for_each(|piece| piece.enqueue(job, &comm, &job.stream));
    for _ in 0..ROUNDS {
        if is_grouped(comm.comm.rank) {
            job.group(enqueue)?;
        } else {
            enqueue()?;
        }
    }
    job.stream.synchronize()?;
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    comm.comm.destroy()?;
    Ok(seen)
}

/// The calls of two communicators, each with some that are not compressed behind those that are.
fn mixed() -> [Vec<Spec>; 2] {
    let (exact, compressed) = (exact(), compressed());
    [vec![compressed, exact], vec![exact, compressed, compressed, exact]]
}

/// The first of them compresses, but none of these calls: it keeps its place before the second all the same.
fn first_exact() -> [Vec<Spec>; 2] {
    [vec![exact()], vec![compressed()]]
}

fn exact() -> Spec {
    Spec::sum(DataType::INT32, 5003)
}

fn compressed() -> Spec {
    Spec::sum(DataType::FLOAT16, 5003)
}

/// Two communicators on one stream. They are used in the order in which a group takes them, which depends on their ids
/// alone.
fn communicators(job: &mut Job, is_grouped: IsGrouped, calls: [Vec<Spec>; 2]) -> Result<Seen, RankError> {
    let mut ids = [job.new_id()?, job.new_id()?];
    ids.sort_by_key(|id| name(&id.internal));
    let (rank, size, mut seen) = (job.world.rank, job.world.size, Seen::new());
    let mut members = Vec::new();
    for (id, specs) in ids.into_iter().zip(calls) {
        let comm = Communicator::init(&job.nccl, Making::Plain, id, rank, size)?;
        let comm = Tracked::new(comm, job.expectation);
        let specs = specs.into_iter().enumerate().map(|(seed, spec)| spec.seeded(seed));
        let pieces = Piece::all(job, &comm, specs)?;
        members.push((comm, pieces));
    }
    let calls = || members.iter().flat_map(|(comm, pieces)| pieces.iter().map(move |piece| (comm, piece)));
    let enqueue = || calls().try_for_each(|(comm, piece)| piece.enqueue(job, comm, &job.stream));
    for _ in 0..ROUNDS {
        if is_grouped(rank) {
            job.group(enqueue)?;
        } else {
            enqueue()?;
        }
    }
    job.stream.synchronize()?;
    calls().try_for_each(|(comm, piece)| piece.judge(comm, &mut seen))?;
    members.iter().for_each(|(comm, _)| comm.check(&mut seen));
    members.into_iter().try_for_each(|(comm, _)| comm.comm.destroy())?;
    Ok(seen)
}

/// By which the library knows a communicator: FNV-1a of its id.
fn name(id: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    id.iter().fold(0xcbf2_9ce4_8422_2325, step)
}
