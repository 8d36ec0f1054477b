//! `tuned-pipeline`: what a pipeline-parallel trainer does. Four communicators, each with a stream of its own: one
//! over all ranks for gradients, another over all for smaller sums, one for activations that go from rank to
//! rank, and pairs that were split off. In which order a rank calls them changes from rank to rank and from step
//! to step, hosts wait for what they receive, and everybody is late by chance.

use std::thread::sleep;
use std::time::{Duration, Instant};

use airamp_vendor::gpu::Stream;
use airamp_vendor_abi::nccl::DataType;

use super::super::expected::Spec;
use super::super::messages::Messages;
use super::super::tracked::Tracked;
use super::super::{Job, Seen};
use super::Arguments;
use super::gradient::Gradient;
use super::report::{Outcome, Report};
use super::steps::{accepted, arrived, end};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::watchdog::Watchdog;

/// The most that a rank is late before a call, in microseconds.
const MOST_SKEW: u64 = 400;

/// What a rank does in a step; where in the step is chance.
const PARTS: [Part; 4] = [Part::Gradients, Part::Sums, Part::Pairs, Part::Activations];

#[derive(Clone, Copy)]
enum Part {
    Gradients,
    Sums,
    Pairs,
    Activations,
}

struct Lane {
    comm: Communicator,
    stream: Stream,
    gradient: Gradient,
}

/// One process's part of the pipeline: gradients, sums and pairs, in this order.
struct Stage {
    lanes: [Lane; 3],
    activations: Tracked,
    moving: Stream,
    messages: Messages,
    chance: Chance,
}

pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), RankError> {
    let began = Instant::now();
    let mut stage = Stage::new(job)?;
    report.created_since(began);
    let done = walk(job, watchdog, arguments, &mut stage, report);
    let [gradients, sums, pairs] = stage.lanes;
    report.ask(0, &gradients.comm, &[&gradients.gradient]);
    report.ask(1, &sums.comm, &[&sums.gradient]);
    report.ask_apart(2, &pairs.comm, &[&pairs.gradient]);
    stage.activations.comm.destroy()?;
    pairs.comm.destroy()?;
    sums.comm.destroy()?;
    end(job, gradients.comm, done, report)
}

impl Stage {
    fn new(job: &mut Job) -> Result<Self, RankError> {
        let (gradients, sums, activations) =
            (job.plain_communicator()?, job.plain_communicator()?, job.communicator()?);
        let rank = job.world.rank as i32;
        let pairs = gradients.split(rank / 2, rank)?;
        let pairs = pairs.ok_or_else(|| RankError::Arguments("the split gave no communicator".into()))?;
        let messages = Messages::new(job, &activations, 3)?;
        let lanes = [
            Lane::new(job, gradients, Spec::sum(DataType::FLOAT32, 16_001))?,
            Lane::new(job, sums, Spec::sum(DataType::FLOAT16, 5_003).seeded(5))?,
            Lane::new(job, pairs, Spec::sum(DataType::BFLOAT16, 9_007).seeded(9))?,
        ];
        let chance = Chance(0x9e37_79b9_7f4a_7c15 ^ (job.world.rank as u64 + 1) << 20);
        Ok(Self { lanes, activations, moving: job.gpu.stream(true)?, messages, chance })
    }

    /// False where a communicator is lost.
    fn step(&mut self, job: &Job, step: usize, report: &mut Report) -> Result<bool, RankError> {
        for lane in &mut self.lanes {
            lane.gradient.load(&lane.stream, step)?;
        }
        // First uses may wait for the peers inside the call: all ranks in one order.
        let order = if step == 0 { PARTS } else { self.chance.shuffled(PARTS) };
        for part in order {
            if step > 0 {
                sleep(Duration::from_micros(self.chance.below(MOST_SKEW)));
            }
            let called = match part {
                Part::Gradients => self.lanes[0].call(job),
                Part::Sums => self.lanes[1].call(job),
                Part::Pairs => self.lanes[2].call(job),
                Part::Activations => self.pass_on(job),
            };
            if !accepted(called, report)? {
                return Ok(false);
            }
        }
        for lane in &self.lanes {
            if !arrived(job, &lane.comm, &lane.stream)? {
                report.note(Outcome::Lost, &[]);
                return Ok(false);
            }
        }
        self.moving.synchronize()?;
        Ok(true)
    }

    /// Receives from the rank before, waits for it on the host, and sends to the rank behind.
    fn pass_on(&self, job: &Job) -> Result<(), RankError> {
        let (rank, last) = (job.world.rank, job.world.size - 1);
        if rank > 0 {
            self.messages.receive_from(rank - 1, job, &self.activations, &self.moving)?;
            self.moving.synchronize()?;
        }
        if rank < last {
            self.messages.send_to(rank + 1, job, &self.activations, &self.moving)?;
        }
        Ok(())
    }

    fn judge(&self, job: &Job, seen: &mut Seen, report: &mut Report) -> Result<(), RankError> {
        report.judge(&self.lanes[0].gradient)?;
        report.judge(&self.lanes[1].gradient)?;
        report.note_apart(self.lanes[2].gradient.outcome()?.0);
        match job.world.rank {
            0 => Ok(()),
            rank => self.messages.judge_from(rank - 1, &self.activations, seen),
        }
    }
}

impl Lane {
    fn new(job: &Job, comm: Communicator, spec: Spec) -> Result<Self, RankError> {
        let gradient = Gradient::new(job, &comm, spec)?;
        Ok(Self { comm, stream: job.gpu.stream(true)?, gradient })
    }

    fn call(&self, job: &Job) -> Result<(), RankError> {
        self.gradient.enqueue(job, &self.comm, &self.stream)
    }
}

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    stage: &mut Stage,
    report: &mut Report,
) -> Result<(), RankError> {
    let mut seen = Seen::new();
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        let began = Instant::now();
        if !stage.step(job, step, report)? {
            break;
        }
        stage.judge(job, &mut seen, report)?;
        report.step_took(began.elapsed());
    }
    seen.mismatch.map_or(Ok(()), |mismatch| Err(RankError::Arguments(mismatch)))
}

/// Another sequence on each rank, the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    fn shuffled(&mut self, mut parts: [Part; 4]) -> [Part; 4] {
        for last in (1..parts.len()).rev() {
            parts.swap(last, self.below(last as u64 + 1) as usize);
        }
        parts
    }
}
