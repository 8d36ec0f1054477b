//! The newest events of the node, numbered in the order in which they were seen.

use std::collections::VecDeque;

use airamp_telemetry::EventKind;
use airamp_telemetry::snapshot::{Communicator, Event as Told};

use crate::name;
use crate::process::Process;
use crate::reading::Now;
use crate::sentences::sentence;
use crate::view::{Event, Finding, Severity};

const KEPT: usize = 512;

#[derive(Default)]
pub(crate) struct Events {
    newest: VecDeque<Event>,
    /// The number of the last one. The last of the first look is numbered by the time in milliseconds, so that
    /// whoever followed an observer before this one need not begin anew: fewer than a thousand come in a second, but for
    /// that look, which tells all that processes still hold.
    seen: u64,
    waiting: Vec<Event>,
}

impl Events {
    pub(crate) fn told(&mut self, told: Told, process: &Process, job: &str, node: &str, now: Now) {
        let communicators = &process.snapshot.communicators;
        let about = told.slot.and_then(|slot| communicators.iter().find(|one| one.slot == slot));
        let device = about.or(communicators.first());
        self.waiting.push(Event {
            seq: 0,
            time_unix_ms: now.unix_ms_of(told.at_ns),
            kind: told.kind.name().into(),
            severity: severity(&told),
            job: job.to_owned(),
            node: node.to_owned(),
            rank: process.rank,
            device_uuid: device.map(|one| name::device(&one.facts.device_uuid)).unwrap_or_default(),
            nic: device.map(|one| name::padded(&one.facts.nic)).unwrap_or_default(),
            communicator: about.map(|one| name::communicator(one.facts.name)).unwrap_or_default(),
            step: if told.step > 0 { Some(told.step) } else { about.and_then(step) },
            text: sentence(told),
        });
    }

    /// A finding that began or ended, with what is known of the rank it names first.
    pub(crate) fn found(
        &mut self,
        kind: &'static str,
        finding: &Finding,
        whose: Option<&Process>,
        node: &str,
        now: Now,
    ) {
        let device = whose.and_then(|process| process.snapshot.communicators.first());
        self.waiting.push(Event {
            seq: 0,
            time_unix_ms: now.unix_ms,
            kind: kind.into(),
            severity: if kind == "finding_ended" { Severity::Info } else { finding.severity },
            job: finding.job.clone(),
            node: node.to_owned(),
            rank: finding.ranks.first().copied(),
            device_uuid: device.map(|one| name::device(&one.facts.device_uuid)).unwrap_or_default(),
            nic: device.map(|one| name::padded(&one.facts.nic)).unwrap_or_default(),
            communicator: finding.communicator.clone(),
            step: device.and_then(step),
            text: format!("{}: {}", finding.kind.name(), finding.text),
        });
    }

    /// Numbers what came in this look, oldest first.
    pub(crate) fn settle(&mut self, now: Now) {
        if self.seen == 0 {
            self.seen = now.unix_ms.saturating_sub(self.waiting.len() as u64);
        }
        self.waiting.sort_by_key(|event| event.time_unix_ms);
        for mut event in self.waiting.drain(..) {
            self.seen += 1;
            event.seq = self.seen;
            if self.newest.len() == KEPT {
                self.newest.pop_front();
            }
            self.newest.push_back(event);
        }
    }

    pub(crate) fn view(&self) -> Vec<Event> {
        self.newest.iter().cloned().collect()
    }
}

fn step(communicator: &Communicator) -> Option<u64> {
    (communicator.pattern.step > 0).then_some(communicator.pattern.step)
}

fn severity(told: &Told) -> Severity {
    match told.kind {
        EventKind::Poisoned | EventKind::Error => Severity::Error,
        EventKind::Inert | EventKind::OrderOff | EventKind::Anomaly | EventKind::Warning => Severity::Warning,
        EventKind::PaceChanged if told.b > told.a => Severity::Warning,
        _ => Severity::Info,
    }
}
