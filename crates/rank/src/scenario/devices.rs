//! Several GPUs in one thread, on all ranks or on some: each process holds the ranks that the layout
//! gives it, one device for each.

use std::ptr;

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::{Comm, DataType};

use super::calls::SEVERAL_STEPS;
use super::expected::Spec;
use super::piece::Piece;
use super::streams::various;
use super::tracked::Tracked;
use super::{Case, Job, Seen};
use crate::error::RankError;
use crate::nccl::{Communicator, invoke};

const ROUNDS: usize = 4;
/// Streams of each rank, so that those of two ranks are more than one has in most programs.
const MANY: usize = 34;

/// One rank of this process.
pub(super) struct Member {
    pub(super) device: i32,
    pub(super) comm: Tracked,
    pub(super) stream: Stream,
}

pub(super) fn cases(job: &Job) -> Vec<Case> {
    let mut cases = vec![
        Case::new("devices/initialised_in_a_group", |job| {
            let members = initialised_in_a_group(job)?;
            use_them(job, &[members])
        }),
        Case::new("devices/two_communicators_in_one_group", |job| {
            let members = [initialised_in_a_group(job)?, initialised_in_a_group(job)?];
            use_them(job, &members)
        }),
        Case::new("devices/each_on_many_streams", |job| {
            let members = initialised_in_a_group(job)?;
            on_many_streams(job, &members)
        }),
    ];
    if job.layout.len() == 1 && job.layout[0] > 1 {
        cases.push(Case::new("devices/initialised_all_at_once", |job| {
            let members = initialised_all_at_once(job)?;
            use_them(job, &[members])
        }));
    }
    cases
}

fn member(job: &Job, device: i32, raw: Comm) -> Result<Member, RankError> {
    job.gpu.set_device(device)?;
    let comm = Tracked::new(Communicator::of(&job.nccl, raw)?, job.expectation);
    Ok(Member { device, comm, stream: job.gpu.stream(true)? })
}

pub(super) fn initialised_in_a_group(job: &mut Job) -> Result<Vec<Member>, RankError> {
    let id = job.new_id()?;
    let ranks: usize = job.layout.iter().sum();
    let first: usize = job.layout[..job.world.rank].iter().sum();
    let mut raw = vec![ptr::null_mut(); job.layout[job.world.rank]];
    job.group(|| {
        for (index, place) in raw.iter_mut().enumerate() {
            job.gpu.set_device(index as i32)?;
            let rank = (first + index) as i32;
            invoke!(job.nccl, ncclCommInitRank(ptr::from_mut(place), ranks as i32, id, rank))?;
        }
        Ok(())
    })?;
    raw.iter().enumerate().map(|(index, raw)| member(job, index as i32, *raw)).collect()
}

fn initialised_all_at_once(job: &mut Job) -> Result<Vec<Member>, RankError> {
    let devices: Vec<i32> = (0..job.layout[0] as i32).collect();
    let mut raw = vec![ptr::null_mut(); devices.len()];
    invoke!(job.nccl, ncclCommInitAll(raw.as_mut_ptr(), devices.len() as i32, devices.as_ptr()))?;
    devices.iter().zip(raw).map(|(device, raw)| member(job, *device, raw)).collect()
}

/// The calls of a round, the same on every rank.
fn specs(round: usize) -> Vec<Spec> {
    let mut specs = vec![various(round), various(round + 5)];
    if round == 2 {
        specs.push(Spec::sum(DataType::FLOAT16, SEVERAL_STEPS).seeded(round));
    }
    specs
}

/// Rounds of calls on all members of all communicators, each round one group. A process with a
/// single rank leaves the group away in some rounds, as it may.
fn use_them(job: &mut Job, communicators: &[Vec<Member>]) -> Result<Seen, RankError> {
    let mut seen = Seen::new();
    let members: Vec<&Member> = communicators.iter().flatten().collect();
    for round in 0..ROUNDS {
        let mut pieces = Vec::new();
        for member in &members {
            job.gpu.set_device(member.device)?;
            pieces.push(Piece::all(job, &member.comm, specs(round))?);
        }
        let post = || {
            for (member, pieces) in members.iter().zip(&pieces) {
                job.gpu.set_device(member.device)?;
                pieces.iter().try_for_each(|piece| piece.enqueue(job, &member.comm, &member.stream))?;
            }
            Ok(())
        };
        if members.len() == 1 && round % 2 == 1 {
            post()?
        } else {
            job.group(post)?
        }
        for (member, pieces) in members.iter().zip(&pieces) {
            job.gpu.set_device(member.device)?;
            member.stream.synchronize()?;
            // Ranks that share a process are compared with each other here, by their expectation.
            let mut apart = Seen::new();
            pieces.iter().try_for_each(|piece| piece.judge(&member.comm, &mut apart))?;
            seen.take_in(apart);
        }
    }
    members.iter().for_each(|member| member.comm.check(&mut seen));
    job.gpu.set_device(0)?;
    Ok(seen)
}

/// One group with a call on each of many streams of every member: one that is compressed, and small ones.
fn on_many_streams(job: &mut Job, members: &[Member]) -> Result<Seen, RankError> {
    let (mut seen, mut own) = (Seen::new(), Vec::new());
    for member in members {
        job.gpu.set_device(member.device)?;
        let specs =
            (0..MANY).map(|seed| if seed == 0 { various(0) } else { Spec { count: 100, ..various(seed) } });
        let pieces = Piece::all(job, &member.comm, specs)?;
        let streams = (0..MANY).map(|_| job.gpu.stream(true)).collect::<Result<Vec<_>, _>>()?;
        own.push((member, pieces, streams));
    }
    job.group(|| {
        for (member, pieces, streams) in &own {
            job.gpu.set_device(member.device)?;
            let mut placed = pieces.iter().zip(streams);
            placed.try_for_each(|(piece, stream)| piece.enqueue(job, &member.comm, stream))?;
        }
        Ok(())
    })?;
    for (member, pieces, streams) in &own {
        job.gpu.set_device(member.device)?;
        streams.iter().try_for_each(Stream::synchronize)?;
        let mut apart = Seen::new();
        pieces.iter().try_for_each(|piece| piece.judge(&member.comm, &mut apart))?;
        seen.take_in(apart);
    }
    members.iter().for_each(|member| member.comm.check(&mut seen));
    job.gpu.set_device(0)?;
    Ok(seen)
}
