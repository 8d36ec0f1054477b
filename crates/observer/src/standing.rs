//! Where the ranks of a communicator stand to each other: who is behind, whether it hangs, and who is missing.
//! Pure: facts and the time in, a verdict out. Ranks on other nodes are unknown, never missing.

use airamp_telemetry::snapshot::Communicator;

use crate::arrivals::arrival_of;

/// For so long ranks wait for each other in any job.
const EVERYDAY_NS: u64 = 1_000_000_000;

/// A rank on this node.
pub(crate) struct Standing<'a> {
    pub(crate) communicator: &'a Communicator,
    /// Its process is gone, and it was not ended.
    pub(crate) dead: bool,
    /// It counts no further, wherever it came.
    pub(crate) inert: bool,
    /// Its process is stopped: it takes no part in what it has issued either.
    pub(crate) stopped: bool,
    /// Of one that is dead or stopped: when it was last seen to be neither.
    pub(crate) absent_since_ns: Option<u64>,
    /// Since when an event that was asked for has not come.
    pub(crate) in_flight_since_ns: Option<u64>,
    /// Since when it has been seen behind the others with what it has issued now.
    pub(crate) seen_behind_since_ns: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) hung: Option<Hung>,
    /// One for each member.
    pub(crate) behind: Vec<Option<Behind>>,
    /// Somebody is behind only since another died or was stopped.
    pub(crate) has_victims: bool,
}

/// That the others wait for a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Behind {
    pub(crate) for_ns: u64,
    /// What it has not issued; of a stopped one, what it does not complete.
    pub(crate) sequence: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hung {
    /// Places of the members that have not issued `sequence`; none: all of this node have.
    pub(crate) missing: Vec<usize>,
    pub(crate) sequence: u64,
    pub(crate) for_ns: u64,
    /// The place of the member whose host waits in what is no collective, if that is all.
    pub(crate) blocked: Option<usize>,
}

/// A collective in which one member is dead or stopped completes for some of the others and not for the rest, who then
/// issue nothing further: whoever fell behind only since is a victim of it, and is not named.
pub(crate) fn judge(members: &[Standing<'_>], now_ns: u64, hang_after_ns: u64) -> Verdict {
    let told = members.iter().filter(|member| !member.inert);
    let furthest = told.map(Standing::reach).max().unwrap_or(0);
    let absent_since = members.iter().filter_map(|member| member.absent_since_ns).min();
    let own_fault = |member: &Standing<'_>, behind: &Behind| {
        let began = now_ns.saturating_sub(behind.for_ns);
        member.absent_since_ns.is_some()
            || absent_since.is_none_or(|absent| began.saturating_add(EVERYDAY_NS) < absent)
    };
    let lies_behind = |member: &Standing<'_>| behind(member, members, furthest, now_ns);
    let is_victim =
        |member: &Standing<'_>| lies_behind(member).is_some_and(|behind| !own_fault(member, &behind));
    let judged = |member: &Standing<'_>| {
        let behind = lies_behind(member).filter(|behind| own_fault(member, behind));
        behind.or_else(|| stopped(member, members, now_ns))
    };
    let has_victims = members.iter().any(is_victim);
    let behind: Vec<Option<Behind>> = members.iter().map(judged).collect();
    let hung = missing(members, &behind, now_ns, hang_after_ns)
        .or_else(|| stuck(members, furthest, now_ns, hang_after_ns));
    Verdict { hung, behind, has_victims }
}

impl Standing<'_> {
    /// The sequence it has come to. A host inside the vendor's function has come to the next one: a call
    /// counts as issued when the function has returned. Messages and the end of a communicator have no sequence.
    fn reach(&self) -> u64 {
        let is_next = self.is_inside() && !self.communicator.inside_other;
        self.communicator.issued.saturating_add(u64::from(is_next))
    }

    fn is_inside(&self) -> bool {
        !self.dead && self.communicator.inside > 0 && self.communicator.inside_since_ns > 0
    }

    fn is_inside_other(&self) -> bool {
        self.is_inside() && self.communicator.inside_other
    }

    /// When it came to the sequence, if it has and that is known.
    fn came_at(&self, sequence: u64) -> Option<u64> {
        if self.communicator.issued >= sequence {
            return arrival_of(self.communicator, sequence);
        }
        (self.is_inside() && self.reach() == sequence).then_some(self.communicator.inside_since_ns)
    }
}

/// For how long the first of the others has waited at the sequence that this one has not come to.
fn behind(member: &Standing<'_>, all: &[Standing<'_>], furthest: u64, now_ns: u64) -> Option<Behind> {
    let reach = member.reach();
    if member.inert || reach >= furthest {
        return None;
    }
    let sequence = reach.saturating_add(1);
    let first = all.iter().filter_map(|other| other.came_at(sequence)).min();
    let since = first.or(member.seen_behind_since_ns)?;
    Some(Behind { for_ns: now_ns.saturating_sub(since), sequence })
}

/// A stopped process takes no part in the collective that it has issued, so that the others issue no other: they
/// have waited since the last thing that any of them did.
fn stopped(member: &Standing<'_>, all: &[Standing<'_>], now_ns: u64) -> Option<Behind> {
    let issued = member.communicator.issued;
    if !member.stopped || member.dead || issued == 0 || member.communicator.facts.ranks < 2 {
        return None;
    }
    let last =
        all.iter().map(|other| other.communicator.issued_ns.max(other.communicator.inside_since_ns)).max();
    Some(Behind { for_ns: now_ns.saturating_sub(last?), sequence: issued })
}

fn missing(
    members: &[Standing<'_>],
    behind: &[Option<Behind>],
    now_ns: u64,
    hang_after_ns: u64,
) -> Option<Hung> {
    let rests = |member: &Standing<'_>| {
        let own = now_ns.saturating_sub(member.communicator.issued_ns);
        member.dead || own > hang_after_ns
    };
    let waited_for = members.iter().zip(behind).enumerate().filter_map(|(place, (member, behind))| {
        let behind = behind.filter(|behind| behind.for_ns > hang_after_ns && rests(member))?;
        Some((place, behind))
    });
    let waited_for: Vec<(usize, Behind)> = waited_for.collect();
    let sequence = waited_for.iter().map(|(_, behind)| behind.sequence).min()?;
    let first = waited_for.into_iter().filter(|(_, behind)| behind.sequence == sequence);
    let (missing, waits): (Vec<usize>, Vec<u64>) =
        first.map(|(place, behind)| (place, behind.for_ns)).unzip();
    Some(Hung { missing, sequence, for_ns: waits.into_iter().max()?, blocked: None })
}

/// All have come to the same sequence and it does not complete, or a host is blocked in what is no collective.
fn stuck(members: &[Standing<'_>], furthest: u64, now_ns: u64, hang_after_ns: u64) -> Option<Hung> {
    if members.iter().any(|member| member.dead || member.reach() < furthest) {
        return None;
    }
    let waits = members.iter().enumerate();
    let waits = waits.filter_map(|(place, member)| Some((place, waits_for(member, now_ns)?)));
    let (place, (sequence, for_ns)) = waits.max_by_key(|(_, (_, for_ns))| *for_ns)?;
    let blocked = members.get(place).is_some_and(Standing::is_inside_other).then_some(place);
    (for_ns > hang_after_ns).then_some(Hung { missing: Vec::new(), sequence, for_ns, blocked })
}

/// What a member waits for, and for how long it has been seen to. A pending event that nobody asks for says
/// nothing: the program may have made no call since.
fn waits_for(member: &Standing<'_>, now_ns: u64) -> Option<(u64, u64)> {
    let own = member.communicator;
    if member.is_inside() {
        return Some((member.reach(), now_ns.saturating_sub(own.inside_since_ns)));
    }
    let asked = own.polled_ns;
    let since = member.in_flight_since_ns?;
    (asked > since).then(|| (own.completed.saturating_add(1), asked.saturating_sub(since)))
}

#[cfg(test)]
mod tests {
    use airamp_telemetry::snapshot::Arrival;

    use super::*;
    use crate::made_up::communicator;

    const S: u64 = 1_000_000_000;
    const LIMIT: u64 = 10 * S;

    fn at(issued: u64, issued_ns: u64) -> Communicator {
        let arrivals = vec![Arrival { sequence: issued, at_ns: issued_ns }];
        Communicator { issued, issued_ns, arrivals, ..communicator(7, 0, 4) }
    }

    fn standing(communicator: &Communicator) -> Standing<'_> {
        Standing {
            communicator,
            dead: false,
            inert: false,
            stopped: false,
            absent_since_ns: None,
            in_flight_since_ns: None,
            seen_behind_since_ns: None,
        }
    }

    #[test]
    fn a_rank_that_has_not_issued_what_the_others_wait_for_is_missing_after_the_limit() {
        let (ahead, behind) = (at(8, 20 * S), at(7, 19 * S));
        let members = [standing(&ahead), standing(&behind), standing(&ahead)];
        let early = judge(&members, 29 * S, LIMIT);
        assert_eq!((early.hung, early.behind[1]), (None, Some(Behind { for_ns: 9 * S, sequence: 8 })));
        let hung = judge(&members, 31 * S, LIMIT).hung.expect("a hang");
        assert_eq!((hung.missing, hung.sequence, hung.for_ns), (vec![1], 8, 11 * S));
    }

    #[test]
    fn a_rank_that_is_behind_but_goes_on_is_not_missing() {
        let (ahead, slow) = (at(900, 20 * S), at(700, 39 * S));
        let mut members = [standing(&ahead), standing(&slow)];
        members[1].seen_behind_since_ns = Some(5 * S);
        assert_eq!(judge(&members, 40 * S, LIMIT).hung, None);
    }

    #[test]
    fn a_host_inside_the_vendors_function_has_come_to_the_next_sequence() {
        let inside = Communicator { inside: 1, inside_since_ns: 20 * S, ..at(7, 19 * S) };
        let outside = at(7, 19 * S);
        let members = [standing(&inside), standing(&outside)];
        let hung = judge(&members, 31 * S, LIMIT).hung.expect("a hang");
        assert_eq!((hung.missing, hung.sequence), (vec![1], 8));
    }

    #[test]
    fn a_host_inside_a_message_or_the_end_waits_for_nobody_to_issue_a_collective() {
        let inside = Communicator { inside: 1, inside_since_ns: 20 * S, inside_other: true, ..at(7, 19 * S) };
        let outside = at(7, 19 * S);
        let members = [standing(&outside), standing(&inside), standing(&outside)];
        assert_eq!(judge(&members, 29 * S, LIMIT), Verdict { behind: vec![None; 3], ..Verdict::default() });
        let verdict = judge(&members, 31 * S, LIMIT);
        assert_eq!(verdict.behind, [None; 3]);
        let hung = verdict.hung.expect("a hang");
        assert_eq!((hung.missing, hung.for_ns, hung.blocked), (vec![], 11 * S, Some(1)));
    }

    #[test]
    fn who_is_inside_a_message_can_be_missing_in_a_collective() {
        let inside = Communicator { inside: 1, inside_since_ns: 20 * S, inside_other: true, ..at(7, 19 * S) };
        let ahead = at(8, 20 * S);
        let members = [standing(&ahead), standing(&inside)];
        let hung = judge(&members, 31 * S, LIMIT).hung.expect("a hang");
        assert_eq!((hung.missing, hung.sequence, hung.blocked), (vec![1], 8, None));
    }

    #[test]
    fn when_all_have_issued_and_it_does_not_complete_nobody_is_missing() {
        let waiting = Communicator { pending: 7, pending_ns: 20 * S, polled_ns: 31 * S, ..at(7, 20 * S) };
        let mut members = [standing(&waiting), standing(&waiting)];
        members[0].in_flight_since_ns = Some(20 * S);
        let hung = judge(&members, 31 * S, LIMIT).hung.expect("a hang");
        assert_eq!((hung.missing, hung.sequence, hung.for_ns), (vec![], 1, 11 * S));
    }

    #[test]
    fn a_pending_event_that_nobody_has_asked_for_is_no_hang() {
        let idle = Communicator { pending: 7, pending_ns: 20 * S, ..at(7, 20 * S) };
        let mut members = [standing(&idle), standing(&idle)];
        members[0].in_flight_since_ns = Some(20 * S);
        assert_eq!(judge(&members, 90 * S, LIMIT).hung, None);
    }

    #[test]
    fn a_stopped_rank_holds_up_what_all_have_issued() {
        let all = at(7, 20 * S);
        let mut members = [standing(&all), standing(&all), standing(&all)];
        assert_eq!(judge(&members, 22 * S, LIMIT).behind, [None; 3]);
        members[1].stopped = true;
        let verdict = judge(&members, 22 * S, LIMIT);
        assert_eq!(verdict.behind, [None, Some(Behind { for_ns: 2 * S, sequence: 7 }), None]);
        assert_eq!(judge(&members, 31 * S, LIMIT).hung.map(|hung| hung.missing), Some(vec![1]));
    }

    #[test]
    fn a_dead_rank_that_the_others_wait_for_is_missing() {
        let (ahead, dead) = (at(8, 20 * S), at(7, 19 * S));
        let mut members = [standing(&ahead), standing(&dead)];
        members[1].dead = true;
        assert_eq!(judge(&members, 31 * S, LIMIT).hung.map(|hung| hung.missing), Some(vec![1]));
    }

    #[test]
    fn a_dead_rank_that_was_inert_is_behind_nobody_and_nobody_behind_it() {
        for (told, stale) in [(8, 7), (7, 8)] {
            let (told, stale) = (at(told, 19 * S), at(stale, 20 * S));
            let mut members = [standing(&told), standing(&stale)];
            (members[1].dead, members[1].inert) = (true, true);
            let nobody = Verdict { behind: vec![None; 2], ..Verdict::default() };
            assert_eq!(judge(&members, 31 * S, LIMIT), nobody);
        }
    }

    /// Rank 2 is dead in a collective that completed for the first rank and not for the second.
    fn behind_a_dead_one(absent_since_ns: u64) -> Verdict {
        let (ahead, waits) = (at(8, 20 * S), at(7, 19 * S));
        let mut members = [standing(&ahead), standing(&waits), standing(&ahead)];
        (members[2].dead, members[2].absent_since_ns) = (true, Some(absent_since_ns));
        judge(&members, 31 * S, LIMIT)
    }

    #[test]
    fn a_rank_that_has_been_behind_only_since_another_died_is_not_missing() {
        let not_named = Verdict { hung: None, behind: vec![None; 3], has_victims: true };
        assert_eq!(behind_a_dead_one(20 * S), not_named);
        assert_eq!(
            behind_a_dead_one(20 * S + S / 2).hung,
            None,
            "it was hardly behind when the other was alive"
        );
    }

    #[test]
    fn a_rank_that_the_others_waited_for_before_another_died_stays_missing() {
        let verdict = behind_a_dead_one(25 * S);
        assert_eq!((verdict.hung.map(|hung| hung.missing), verdict.has_victims), (Some(vec![1]), false));
    }

    #[test]
    fn a_rank_that_has_been_behind_only_since_another_was_stopped_is_not_late() {
        let (ahead, waits) = (at(8, 20 * S), at(7, 19 * S));
        let mut members = [standing(&ahead), standing(&waits), standing(&ahead)];
        (members[2].stopped, members[2].absent_since_ns) = (true, Some(20 * S));
        let behind = judge(&members, 22 * S, LIMIT).behind;
        assert_eq!(behind, [None, None, Some(Behind { for_ns: 2 * S, sequence: 8 })]);
    }

    #[test]
    fn a_sequence_that_left_the_ring_is_dated_by_when_it_was_first_seen_behind() {
        let (ahead, behind) = (at(5000, 20 * S), at(7, 19 * S));
        let mut members = [standing(&ahead), standing(&behind)];
        assert_eq!(judge(&members, 40 * S, LIMIT).hung, None);
        members[1].seen_behind_since_ns = Some(21 * S);
        assert_eq!(judge(&members, 40 * S, LIMIT).hung.map(|hung| hung.missing), Some(vec![1]));
    }

    #[test]
    fn hostile_numbers_give_a_verdict() {
        let most = Communicator { inside: u32::MAX, inside_since_ns: u64::MAX, ..at(u64::MAX, u64::MAX) };
        let none = at(0, 0);
        let members = [standing(&most), standing(&none)];
        assert_eq!(judge(&members, 0, LIMIT).behind.len(), 2);
        assert_eq!(judge(&[], 0, LIMIT), Verdict::default());
    }
}
