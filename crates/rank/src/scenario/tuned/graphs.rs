//! `tuned-graphs`: AllReduces captured before the library measures, while it does, and once it has decided, all
//! replayed to the end beside live calls of the same size. A replay must always give what the capture recorded. Each rank
//! throws away as many captures as its number says before it keeps one.

use std::time::Instant;

use airamp_vendor::gpu::GraphExec;

use super::super::Job;
use super::super::expected::Spec;
use super::super::tracked::trial_calls;
use super::Arguments;
use super::gradient::Gradient;
use super::library;
use super::report::{GraphLine, Outcome, Report};
use super::steps::{accepted, arrived, end};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::watchdog::Watchdog;

/// Steps between two looks at what the library does.
const LOOK_EVERY: usize = 4;
/// Steps after the last capture.
const REPLAYS: usize = 24;

/// When a graph is captured. The places of these are those of the tensors.
const MOMENTS: [&str; 3] = ["before", "during", "after"];

/// A captured AllReduce of a tensor of its own.
struct Captured {
    place: usize,
    gradient: Gradient,
    graph: GraphExec,
}

struct Program<'a> {
    comm: &'a Communicator,
    live: &'a mut Vec<Gradient>,
    captured: Vec<Captured>,
    /// Compressed calls in graphs that nobody kept.
    thrown_away: u64,
    lines: Vec<GraphLine>,
}

pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), RankError> {
    if arguments.tensors.len() < MOMENTS.len() {
        return Err(RankError::Arguments("three tensors are needed, one for each moment".into()));
    }
    let began = Instant::now();
    let comm = job.plain_communicator()?;
    report.created_since(began);
    let mut live = Gradient::all(job, &comm, &arguments.specs())?;
    let line = |captured| GraphLine { captured, replays: String::new() };
    let lines = MOMENTS.into_iter().map(line).collect();
    let mut program = Program { comm: &comm, live: &mut live, captured: Vec::new(), thrown_away: 0, lines };
    let done = walk(job, watchdog, arguments, &mut program, report);
    report.graphs = program.lines;
    let thrown_away = program.thrown_away;
    // A communicator outlives the graphs that use it.
    drop(program.captured);
    report.ask(0, &comm, &live.iter().collect::<Vec<_>>());
    report.without_thrown_away(thrown_away);
    end(job, comm, done, report)
}

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    program: &mut Program<'_>,
    report: &mut Report,
) -> Result<(), RankError> {
    let mut last = arguments.steps;
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        if step >= last {
            break;
        }
        let began = Instant::now();
        if !program.step(job, step, report)? {
            break;
        }
        report.step_took(began.elapsed());
        if step % LOOK_EVERY == 0 && program.captured.len() < MOMENTS.len() {
            program.capture_in_time(job, step, arguments.steps)?;
            if program.captured.len() == MOMENTS.len() {
                last = step + REPLAYS;
            }
        }
    }
    Ok(())
}

impl Program<'_> {
    fn step(&mut self, job: &Job, step: usize, report: &mut Report) -> Result<bool, RankError> {
        for gradient in self.live.iter_mut() {
            gradient.load(&job.stream, step)?;
            if !accepted(gradient.enqueue(job, self.comm, &job.stream), report)? {
                return Ok(false);
            }
        }
        for captured in &mut self.captured {
            captured.gradient.load(&job.stream, step)?;
            captured.graph.launch(&job.stream)?;
        }
        if !arrived(job, self.comm, &job.stream)? {
            report.note(Outcome::Lost, &[]);
            return Ok(false);
        }
        for gradient in self.live.iter() {
            report.judge(gradient)?;
        }
        for captured in &self.captured {
            let outcome = report.judge(&captured.gradient)?;
            self.lines[captured.place].add(outcome);
        }
        Ok(true)
    }

    /// Captures the next graph if its moment has come, by rank 0's word: all ranks capture at one place.
    fn capture_in_time(&mut self, job: &mut Job, step: usize, steps: usize) -> Result<(), RankError> {
        let place = self.captured.len();
        // A moment that never comes does not keep the graph from being captured.
        let late = step >= (place + 1) * steps / 4;
        let mut word = [u8::from(job.world.rank == 0 && (late || self.has_come(place)))];
        job.world.broadcast(&mut word)?;
        if word[0] == 1 {
            self.capture(job, place)?;
        }
        Ok(())
    }

    fn has_come(&self, place: usize) -> bool {
        let comm = self.comm.raw();
        match place {
            0 => true,
            1 => trial_calls(comm).unwrap_or(0) > 0,
            // In the plan it stands before its index is reached.
            _ => self.live[place].outcome().is_ok_and(|(outcome, _)| outcome == Outcome::Compressed),
        }
    }

    fn capture(&mut self, job: &Job, place: usize) -> Result<(), RankError> {
        let spec = Spec { in_place: false, ..self.live[place].spec };
        let gradient = Gradient::new(job, self.comm, spec.seeded(spec.seed + 17))?;
        let capture = || job.stream.capture(|| gradient.enqueue(job, self.comm, &job.stream));
        // How often a rank captures before it keeps a graph concerns nobody else: nothing is sent.
        let compressed = || library::compressed_calls(self.comm.raw()).unwrap_or(0);
        let before = compressed();
        (0..job.world.rank).try_for_each(|_| capture().map(drop))?;
        self.thrown_away += compressed() - before;
        let graph = capture()?;
        self.captured.push(Captured { place, gradient, graph });
        Ok(())
    }
}
