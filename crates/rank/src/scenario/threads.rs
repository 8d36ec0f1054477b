//! Threads of one process, each with a communicator and a stream of its own, at once.

use std::sync::Barrier;
use std::thread;

use airamp_vendor::gpu::Kind;
use airamp_vendor_abi::nccl::UniqueId;

use super::expected::Expectation;
use super::piece::Piece;
use super::streams::various;
use super::tracked::Tracked;
use super::{Case, Equipment, Job, Seen};
use crate::error::RankError;
use crate::nccl::{Communicator, Making};

const THREADS: usize = 3;
const CALLS: usize = 12;
/// How often all threads of all processes wait for each other.
const TURNS: usize = 3;

pub(super) fn cases() -> Vec<Case> {
    vec![Case::new("threads/each_with_its_communicator_and_stream", each_its_own)]
}

fn each_its_own(job: &mut Job) -> Result<Seen, RankError> {
    let ids: Vec<UniqueId> = (0..THREADS).map(|_| job.new_id()).collect::<Result<_, _>>()?;
    let (kind, expectation) = (job.kind, job.expectation);
    let (rank, size) = (job.world.rank, job.world.size);
    let turn = Barrier::new(THREADS + 1);
    thread::scope(|scope| {
        let begin = |(index, id): (usize, UniqueId)| {
            let turn = &turn;
            let work = move || work(kind, expectation, (rank, size), id, index, turn);
            // The others wait for one that failed: what it was must be told at once.
            scope.spawn(move || work().inspect_err(|error| eprintln!("airamp-rank: thread {index}: {error}")))
        };
        let started: Vec<_> = ids.into_iter().enumerate().map(begin).collect();
        // A wait for the whole device, as filling a buffer has, must not meet a call of another
        // thread whose peer is in the same kind of wait.
        for _ in 0..TURNS {
            turn.wait();
            job.wait_for_everyone()?;
            turn.wait();
        }
        let mut seen = Seen::new();
        for thread in started {
            let done = thread.join().map_err(|_| RankError::Arguments("a thread panicked".into()))?;
            seen.take_in(done?);
        }
        Ok(seen)
    })
}

fn work(
    kind: Kind,
    expectation: Expectation,
    (rank, size): (usize, usize),
    id: UniqueId,
    index: usize,
    turn: &Barrier,
) -> Result<Seen, RankError> {
    let everyone = || {
        turn.wait();
        turn.wait();
    };
    let own = Equipment::open(kind, expectation)?;
    let comm = Communicator::init(&own.nccl, Making::Plain, id, rank, size)?;
    let comm = Tracked::new(comm, expectation);
    everyone();
    let pieces = Piece::all(&own, &comm, (0..CALLS).map(|call| various(11 * index + call)))?;
    everyone();
    pieces.iter().try_for_each(|piece| piece.enqueue(&own, &comm, &own.stream))?;
    own.stream.synchronize()?;
    everyone();
    let mut seen = Seen::new();
    pieces.iter().try_for_each(|piece| piece.judge(&comm, &mut seen))?;
    comm.check(&mut seen);
    Ok(seen)
}
