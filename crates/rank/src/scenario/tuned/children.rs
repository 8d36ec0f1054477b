//! `tuned-children`: a communicator and the children that it was split into, used side by side. Each is measured
//! and switched for itself.

use std::time::Instant;

use super::super::Job;
use super::Arguments;
use super::gradient::Gradient;
use super::report::{Outcome, Report};
use super::steps::{Word, accepted, arrived, end};
use crate::error::RankError;
use crate::nccl::Communicator;
use crate::watchdog::Watchdog;

pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), RankError> {
    let began = Instant::now();
    let parent = job.plain_communicator()?;
    let rank = job.world.rank as i32;
    let child = parent.split(rank / 2, -rank)?;
    let child = child.ok_or_else(|| RankError::Arguments("the split gave no communicator".into()))?;
    report.created_since(began);
    let mut of_parent = Gradient::all(job, &parent, &arguments.specs())?;
    let mut of_child = Gradient::all(job, &child, &arguments.specs())?;
    let mut sides = [(&parent, of_parent.as_mut_slice()), (&child, of_child.as_mut_slice())];
    let done = walk(job, watchdog, arguments, &mut sides, report);
    report.ask(0, &parent, &of_parent.iter().collect::<Vec<_>>());
    report.ask_apart(1, &child, &of_child.iter().collect::<Vec<_>>());
    child.destroy()?;
    end(job, parent, done, report)
}

type Side<'a> = (&'a Communicator, &'a mut [Gradient]);

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    sides: &mut [Side<'_>; 2],
    report: &mut Report,
) -> Result<(), RankError> {
    let other = job.gpu.stream(true)?;
    let mut word = Word::new(arguments);
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        if step % 8 == 0 && !word.go_on(job, sides[0].0, sides[0].1)? {
            break;
        }
        let began = Instant::now();
        let streams = [&job.stream, &other];
        for ((comm, gradients), stream) in sides.iter_mut().zip(streams) {
            for gradient in gradients.iter_mut() {
                gradient.load(stream, step)?;
                if !accepted(gradient.enqueue(job, comm, stream), report)? {
                    return Ok(());
                }
            }
        }
        for (number, ((comm, gradients), stream)) in sides.iter().zip(streams).enumerate() {
            if !arrived(job, comm, stream)? {
                report.note(Outcome::Lost, &[]);
                return Ok(());
            }
            for gradient in gradients.iter() {
                // The children of different ranks have different results.
                match number {
                    0 => report.judge(gradient).map(|_| ())?,
                    _ => report.note_apart(gradient.outcome()?.0),
                }
            }
        }
        report.step_took(began.elapsed());
    }
    Ok(())
}
