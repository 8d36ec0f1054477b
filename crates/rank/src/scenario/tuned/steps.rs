//! `tuned-loop`: every step reduces each tensor once, waits, and looks at the results. Rank 0 says to all when
//! to stop, so that every rank makes the same calls.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use airamp_vendor::gpu::Stream;

use super::super::{Equipment, Job};
use super::Arguments;
use super::gradient::Gradient;
use super::library::{self, PlannedEntry};
use super::report::{Outcome, Report};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::watchdog::Watchdog;

/// Steps between two words of rank 0's.
const WORD_EVERY: usize = 8;
/// Bounds a hang; a peer that is lost shows in a fraction of it.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), RankError> {
    let began = Instant::now();
    let comm = job.plain_communicator()?;
    report.created_since(began);
    let mut gradients = Gradient::all(job, &comm, &arguments.specs())?;
    let done = walk(job, watchdog, arguments, &comm, &mut gradients, report);
    report.ask(0, &comm, &gradients.iter().collect::<Vec<_>>());
    end(job, comm, done, report)
}

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    comm: &Communicator,
    gradients: &mut [Gradient],
    report: &mut Report,
) -> Result<(), RankError> {
    let mut word = Word::new(arguments);
    let mut progress = Progress::new(arguments.progress.as_deref().filter(|_| job.world.rank == 0));
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        if step % WORD_EVERY == 0 && !word.go_on(job, comm, gradients)? {
            break;
        }
        let began = Instant::now();
        if !step_through(job, arguments.one_by_one, comm, gradients, step, report)? {
            break;
        }
        report.step_took(began.elapsed());
        progress.show(step, gradients)?;
    }
    Ok(())
}

/// One step; false where the communicator is lost.
fn step_through(
    job: &Job,
    one_by_one: bool,
    comm: &Communicator,
    gradients: &mut [Gradient],
    step: usize,
    report: &mut Report,
) -> Result<bool, RankError> {
    for gradient in gradients.iter_mut() {
        gradient.load(&job.stream, step)?;
        let call = || gradient.enqueue(job, comm, &job.stream);
        let called = if one_by_one { job.group(call) } else { call() };
        if !accepted(called, report)? {
            return Ok(false);
        }
    }
    if !arrived(job, comm, &job.stream)? {
        report.note(Outcome::Lost, &[]);
        return Ok(false);
    }
    for gradient in gradients.iter() {
        report.judge(gradient)?;
    }
    Ok(true)
}

/// Whether the call was accepted. A refusal is noted, other failures are errors.
pub(super) fn accepted(called: Result<(), RankError>, report: &mut Report) -> Result<bool, RankError> {
    match called {
        Ok(()) => Ok(true),
        Err(error) => {
            report.refused_with = Some(error.nccl_code().ok_or(error)?);
            report.note(Outcome::Refused, &[]);
            Ok(false)
        }
    }
}

/// Waits for the stream; false if the communicator has an error before it has passed.
pub(super) fn arrived(own: &Equipment, comm: &Communicator, stream: &Stream) -> Result<bool, RankError> {
    let done = own.gpu.untimed_event()?;
    done.record(stream)?;
    let deadline = Instant::now() + PATIENCE;
    for look in 0.. {
        let reached = done.is_reached()?;
        if own.nccl.async_error(comm.raw())? != 0 {
            return Ok(false);
        }
        if reached {
            return Ok(true);
        }
        if Instant::now() > deadline {
            return Err(RankError::Arguments("neither a result nor an error".into()));
        }
        if look > 20 {
            std::thread::sleep(Duration::from_micros(50));
        } else {
            std::thread::yield_now();
        }
    }
    Ok(false)
}

/// Ends a communicator as its state asks for.
pub(super) fn end(
    job: &Job,
    comm: Communicator,
    done: Result<(), RankError>,
    report: &mut Report,
) -> Result<(), RankError> {
    report.async_error = job.nccl.async_error(comm.raw())?;
    let well = done.is_ok() && report.async_error == 0 && report.refused_with.is_none();
    let ended = if well { comm.destroy() } else { comm.abort() };
    done.and(ended)
}

/// Rank 0's word on whether the job goes on.
pub(super) struct Word {
    after_decided: Option<usize>,
    stop_file: Option<std::path::PathBuf>,
    looks_decided: usize,
}

impl Word {
    pub(super) fn new(arguments: &Arguments) -> Self {
        let (after_decided, stop_file) = (arguments.after_decided, arguments.stop_file.clone());
        Self { after_decided, stop_file, looks_decided: 0 }
    }

    pub(super) fn go_on(
        &mut self,
        job: &mut Job,
        comm: &Communicator,
        gradients: &[Gradient],
    ) -> Result<bool, RankError> {
        let mut word = [u8::from(job.world.rank != 0 || !self.is_enough(comm, gradients))];
        job.world.broadcast(&mut word)?;
        Ok(word[0] == 1)
    }

    fn is_enough(&mut self, comm: &Communicator, gradients: &[Gradient]) -> bool {
        if all_decided(comm, gradients) {
            self.looks_decided += 1;
        } else {
            self.looks_decided = 0;
        }
        let long_decided = self.after_decided.is_some_and(|steps| self.looks_decided * WORD_EVERY > steps);
        long_decided || self.stop_file.as_deref().is_some_and(Path::exists)
    }
}

fn all_decided(comm: &Communicator, gradients: &[Gradient]) -> bool {
    let plan = library::plan(comm.raw());
    gradients.iter().all(|gradient| PlannedEntry::of(plan.as_ref(), &gradient.spec).is_decided())
}

/// A line of letters, one for each tensor, whenever it changes.
struct Progress<'a> {
    file: Option<&'a Path>,
    last: String,
}

impl<'a> Progress<'a> {
    fn new(file: Option<&'a Path>) -> Self {
        Self { file, last: String::new() }
    }

    fn show(&mut self, step: usize, gradients: &[Gradient]) -> Result<(), RankError> {
        let Some(file) = self.file else { return Ok(()) };
        let mut now = String::new();
        for gradient in gradients {
            now.push(if gradient.outcome()?.0 == Outcome::Compressed { 'c' } else { 'e' });
        }
        if now == self.last {
            return Ok(());
        }
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let written = opened.and_then(|mut file| writeln!(file, "{step} {now}"));
        written.map_err(|error| RankError::Arguments(format!("{}: {error}", file.display())))?;
        self.last = now;
        Ok(())
    }
}
