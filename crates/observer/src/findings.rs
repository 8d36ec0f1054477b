//! Findings begin once and end once: a condition that flickers stays one finding, and its end comes only when it
//! has been quiet for a while. Pure; the time is given. Bounded in number.

use std::collections::BTreeMap;

use crate::view::{Finding, FindingKind, Severity};

/// More findings than anybody reads.
pub(crate) const MOST: usize = 256;

/// What makes a finding the same one at the next look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: FindingKind,
    pub(crate) job: String,
    /// A communicator, a rank or nothing, as the kind needs it.
    pub(crate) about: String,
}

pub(crate) struct Condition {
    pub(crate) key: Key,
    pub(crate) finding: Finding,
}

#[derive(Default)]
pub(crate) struct Findings {
    current: BTreeMap<Key, Current>,
}

struct Current {
    finding: Finding,
    last_seen_ns: u64,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    pub(crate) began: Vec<Finding>,
    pub(crate) ended: Vec<Finding>,
}

impl Findings {
    /// The conditions that hold at this look.
    pub(crate) fn update(&mut self, conditions: Vec<Condition>, now_ns: u64, now_unix_ms: u64) -> Changes {
        let mut changes = Changes::default();
        for Condition { key, mut finding } in conditions {
            let room = self.current.len() < MOST;
            match self.current.get_mut(&key) {
                Some(current) => {
                    finding.since_unix_ms = current.finding.since_unix_ms;
                    *current = Current { finding, last_seen_ns: now_ns };
                }
                None if room => {
                    finding.since_unix_ms = now_unix_ms;
                    changes.began.push(finding.clone());
                    self.current.insert(key, Current { finding, last_seen_ns: now_ns });
                }
                None => {}
            }
        }
        self.current.retain(|key, current| {
            let over = now_ns.saturating_sub(current.last_seen_ns) > quiet_ns(key.kind);
            if over {
                changes.ended.push(current.finding.clone());
            }
            !over
        });
        changes
    }

    /// The worst first, then the oldest.
    pub(crate) fn view(&self) -> Vec<Finding> {
        let mut findings: Vec<Finding> =
            self.current.values().map(|current| current.finding.clone()).collect();
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.severity), finding.since_unix_ms));
        findings
    }
}

/// For how long the condition must not have held.
fn quiet_ns(kind: FindingKind) -> u64 {
    let seconds = match kind {
        FindingKind::Hang | FindingKind::DeadProcess | FindingKind::SlowerPace => 2,
        FindingKind::LateRank | FindingKind::RhythmBroken => 5,
        FindingKind::LatencySpike | FindingKind::ErrorBurst | FindingKind::LateCall => 15,
        FindingKind::Accuracy | FindingKind::FallbackStorm => 30,
    };
    seconds * 1_000_000_000
}

pub(crate) fn severity(kind: FindingKind) -> Severity {
    match kind {
        FindingKind::Hang | FindingKind::DeadProcess | FindingKind::ErrorBurst => Severity::Error,
        FindingKind::LateRank
        | FindingKind::LatencySpike
        | FindingKind::Accuracy
        | FindingKind::FallbackStorm
        | FindingKind::RhythmBroken
        | FindingKind::LateCall
        | FindingKind::SlowerPace => Severity::Warning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn late(rank: u32) -> Condition {
        let kind = FindingKind::LateRank;
        let key = Key { kind, job: "j".to_owned(), about: rank.to_string() };
        Condition { key, finding: Finding { kind, ranks: vec![rank], ..Finding::default() } }
    }

    #[test]
    fn a_condition_that_flickers_begins_once_and_ends_once() {
        let mut findings = Findings::default();
        let (mut began, mut ended) = (0, 0);
        for second in 0..20 {
            let conditions = if second < 9 && second % 3 == 0 { vec![late(3)] } else { Vec::new() };
            let changes = findings.update(conditions, second * S, second * 1000);
            (began, ended) = (began + changes.began.len(), ended + changes.ended.len());
        }
        assert_eq!((began, ended), (1, 1));
        assert!(findings.view().is_empty());
    }

    #[test]
    fn its_beginning_is_kept_while_its_text_follows() {
        let mut findings = Findings::default();
        findings.update(vec![late(3)], S, 1000);
        let mut again = late(3);
        again.finding.text = "worse".to_owned();
        findings.update(vec![again], 2 * S, 2000);
        let view = findings.view();
        assert_eq!((view[0].since_unix_ms, view[0].text.as_str()), (1000, "worse"));
    }

    #[test]
    fn thousands_of_conditions_stay_bounded() {
        let mut findings = Findings::default();
        let changes = findings.update((0..5000).map(late).collect(), S, 1000);
        assert_eq!((changes.began.len(), findings.view().len()), (MOST, MOST));
    }
}
