//! What is due when. The thread sleeps until the next of these, or for ever if there is none.

use airamp_agreement::{LeaderTimer, MemberTimer};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// A thread that sleeps longer than it asked for by this was stopped.
const STOPPED: Duration = Duration::from_secs(1);
/// Long enough for a leader that was stopped too to decide.
const A_MOMENT: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Alarm {
    Member(u64, MemberTimer),
    Leader(u64, LeaderTimer),
    /// The seat connects again.
    Redial(u64),
    /// The seat must have heard of a leader by now.
    Leaderless(u64),
    /// The seat is out and has had its time to say so.
    HangUp(u64),
    /// The seat's brain is asked again.
    Brain(u64),
    /// The connection must have said something by now.
    Silence(mio::Token),
    /// The listener tries to accept again.
    Accept(mio::Token),
}

#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Instant, u64), Alarm>,
    set: HashMap<Alarm, (Instant, u64)>,
    count: u64,
}

impl Timers {
    pub(crate) fn start(&mut self, alarm: Alarm, after: Duration) {
        self.stop(alarm);
        self.count += 1;
        let now = Instant::now();
        // A time-out beyond what the clock can tell is a year.
        let at = now.checked_add(after).unwrap_or(now + Duration::from_secs(365 * 86_400));
        self.due.insert((at, self.count), alarm);
        self.set.insert(alarm, (at, self.count));
    }

    pub(crate) fn stop(&mut self, alarm: Alarm) {
        if let Some(key) = self.set.remove(&alarm) {
            self.due.remove(&key);
        }
    }

    pub(crate) fn stop_all_of(&mut self, seat: u64) {
        let of_seat = |alarm: &Alarm| match alarm {
            Alarm::Member(of, _)
            | Alarm::Leader(of, _)
            | Alarm::Redial(of)
            | Alarm::Leaderless(of)
            | Alarm::HangUp(of)
            | Alarm::Brain(of) => *of == seat,
            Alarm::Silence(_) | Alarm::Accept(_) => false,
        };
        let alarms: Vec<Alarm> = self.set.keys().filter(|alarm| of_seat(alarm)).copied().collect();
        alarms.into_iter().for_each(|alarm| self.stop(alarm));
    }

    /// The thread slept `too_long`: the process was stopped, and perhaps its peers were too. A rank that has pledged
    /// returns an error when its patience ends, so that patience is not spent while nobody could speak, and lasts
    /// for what the leader has to say now.
    pub(crate) fn make_up_for(&mut self, too_long: Duration) {
        if too_long < STOPPED {
            return;
        }
        let in_doubt = |alarm: &&Alarm| matches!(alarm, Alarm::Member(_, MemberTimer::Doubt));
        let alarms: Vec<Alarm> = self.set.keys().filter(in_doubt).copied().collect();
        for alarm in alarms {
            let Some((at, _)) = self.set.get(&alarm) else { continue };
            let left =
                at.checked_add(too_long).map_or(A_MOMENT, |at| at.saturating_duration_since(Instant::now()));
            self.start(alarm, left.max(A_MOMENT));
        }
    }

    /// How long until the next one.
    pub(crate) fn sleep(&self) -> Option<Duration> {
        let ((at, _), _) = self.due.first_key_value()?;
        Some(at.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn next_due(&mut self) -> Option<Alarm> {
        let (key, alarm) = self.due.first_key_value()?;
        if key.0 > Instant::now() {
            return None;
        }
        let (key, alarm) = (*key, *alarm);
        self.due.remove(&key);
        self.set.remove(&alarm);
        Some(alarm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOUBT: Alarm = Alarm::Member(1, MemberTimer::Doubt);
    const PROPOSAL: Alarm = Alarm::Leader(1, LeaderTimer::Proposal(1));

    #[test]
    fn patience_is_not_spent_while_the_process_is_stopped() {
        let mut timers = Timers::default();
        timers.start(DOUBT, Duration::ZERO);
        timers.start(PROPOSAL, Duration::ZERO);
        timers.make_up_for(Duration::from_secs(600));
        assert_eq!(timers.next_due(), Some(PROPOSAL), "a leader decides at once");
        assert_eq!(timers.next_due(), None, "and a rank that has pledged hears of it");
        timers.stop(DOUBT);
        assert_eq!(timers.sleep(), None);
    }

    #[test]
    fn a_thread_that_is_merely_late_keeps_its_deadlines() {
        let mut timers = Timers::default();
        timers.start(DOUBT, Duration::ZERO);
        timers.make_up_for(Duration::from_millis(50));
        assert_eq!(timers.next_due(), Some(DOUBT));
    }
}
