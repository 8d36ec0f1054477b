//! `tuned-crossing`: two communicators that the ranks use in different orders, with a wait of the host between, at
//! every step. Rank 0 reduces on the first and then sends on the second; rank 1 receives on the second, waits for
//! it on the host, and only then reduces on the first. Bare NCCL runs it once both are connected, and a
//! library that let a host thread wait for its peers while it measures would hang it.

use std::time::Instant;

use super::super::messages::Messages;
use super::super::tracked::Tracked;
use super::super::{Job, Seen};
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
    let reducing = job.plain_communicator()?;
    let sending = job.communicator()?;
    report.created_since(began);
    let mut gradients = Gradient::all(job, &reducing, &arguments.specs())?;
    let done = walk(job, watchdog, arguments, &reducing, &sending, &mut gradients, report);
    report.ask(0, &reducing, &gradients.iter().collect::<Vec<_>>());
    sending.comm.destroy()?;
    end(job, reducing, done, report)
}

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    reducing: &Communicator,
    sending: &Tracked,
    gradients: &mut [Gradient],
    report: &mut Report,
) -> Result<(), RankError> {
    let (other, mut seen) = (job.gpu.stream(true)?, Seen::new());
    let messages = Messages::new(job, sending, 1)?;
    let exchange = |job: &Job| match job.world.rank {
        0 => messages.send_to(1, job, sending, &other),
        1 => messages.receive_from(0, job, sending, &other),
        _ => Ok(()),
    };
    exchange(job)?;
    other.synchronize()?;
    let mut word = Word::new(arguments);
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        if step % 8 == 0 && !word.go_on(job, reducing, gradients)? {
            break;
        }
        let began = Instant::now();
        gradients.iter_mut().try_for_each(|gradient| gradient.load(&job.stream, step))?;
        // The first step connects the first communicator, which may wait for the peers in the call.
        let waits_before = job.world.rank == 1 && step > 0;
        if waits_before {
            exchange(job)?;
            other.synchronize()?;
        }
        let mut all = gradients.iter();
        let called = all.try_for_each(|gradient| gradient.enqueue(job, reducing, &job.stream));
        if !accepted(called, report)? {
            return Ok(());
        }
        if !waits_before {
            exchange(job)?;
        }
        if !arrived(job, reducing, &job.stream)? {
            report.note(Outcome::Lost, &[]);
            return Ok(());
        }
        other.synchronize()?;
        gradients.iter().try_for_each(|gradient| report.judge(gradient).map(|_| ()))?;
        if job.world.rank == 1 {
            messages.judge_from(0, sending, &mut seen)?;
        }
        report.step_took(began.elapsed());
    }
    seen.mismatch.map_or(Ok(()), |mismatch| Err(RankError::Arguments(mismatch)))
}
