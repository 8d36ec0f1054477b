//! `tuned-devices`: a thread that drives several GPUs, on some ranks only (`--layout 2,1`). Where it has several it
//! calls in a group; where it has one it leaves the group away at every other step, as it may.

use std::time::Instant;

use super::super::Job;
use super::super::devices::{Member, initialised_in_a_group};
use super::Arguments;
use super::gradient::Gradient;
use super::report::{Outcome, Report};
use super::steps::{accepted, arrived};
use crate::error::RankError;
use crate::watchdog::Watchdog;

pub(super) fn run(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    report: &mut Report,
) -> Result<(), RankError> {
    let began = Instant::now();
    let members = initialised_in_a_group(job)?;
    report.created_since(began);
    let mut gradients = Vec::new();
    for member in &members {
        job.gpu.set_device(member.device)?;
        gradients.push(Gradient::all(job, &member.comm.comm, &arguments.specs())?);
    }
    let done = walk(job, watchdog, arguments, &members, &mut gradients, report);
    for (number, (member, gradients)) in members.iter().zip(&gradients).enumerate() {
        let gradients: Vec<&Gradient> = gradients.iter().collect();
        match number {
            0 => report.ask(number, &member.comm.comm, &gradients),
            _ => report.ask_apart(number, &member.comm.comm, &gradients),
        }
    }
    job.gpu.set_device(0)?;
    done
}

fn walk(
    job: &mut Job,
    watchdog: &Watchdog,
    arguments: &Arguments,
    members: &[Member],
    gradients: &mut [Vec<Gradient>],
    report: &mut Report,
) -> Result<(), RankError> {
    for step in 0..arguments.steps {
        watchdog.enter("a step");
        let began = Instant::now();
        for (member, gradients) in members.iter().zip(gradients.iter_mut()) {
            job.gpu.set_device(member.device)?;
            gradients.iter_mut().try_for_each(|gradient| gradient.load(&member.stream, step))?;
        }
        let post = || {
            for (member, gradients) in members.iter().zip(gradients.iter()) {
                job.gpu.set_device(member.device)?;
                let mut all = gradients.iter();
                all.try_for_each(|gradient| gradient.enqueue(job, &member.comm.comm, &member.stream))?;
            }
            Ok(())
        };
        let alone = members.len() == 1 && step % 2 == 1;
        if !accepted(if alone { post() } else { job.group(post) }, report)? {
            return Ok(());
        }
        for (number, (member, gradients)) in members.iter().zip(gradients.iter()).enumerate() {
            job.gpu.set_device(member.device)?;
            if !arrived(job, &member.comm.comm, &member.stream)? {
                report.note(Outcome::Lost, &[]);
                return Ok(());
            }
            for gradient in gradients {
                let outcome = gradient.outcome()?;
                // Of a process with several ranks, those of its first are compared with the others'.
                match number {
                    0 => report.note(outcome.0, &outcome.1),
                    _ => report.note_apart(outcome.0),
                }
            }
        }
        report.step_took(began.elapsed());
    }
    Ok(())
}
