use super::*;
use proptest::prelude::*;

const LIMITS: Limits = Limits { interval_ns: 2 * MS, max_idle_ns: 2_000 * MS, duty_milli_percent: 500 };

/// A job whose calls come every `gap_ns`, in a world in which a kernel takes as long as `latency` says: with the time
/// since the device last did something.
struct World {
    scheduler: Scheduler,
    now_ns: u64,
    calls: u64,
    last_call_ns: u64,
    gap_ns: u64,
    /// When the device last did something.
    awake_ns: u64,
    latency: fn(u64) -> u64,
    hindered: bool,
    busy: bool,
    /// What each kernel in a gap costs the burst behind it.
    harm_ns: u64,
    launches: Vec<u64>,
    verdicts: Vec<Verdict>,
}

impl World {
    fn new(gap_ns: u64, latency: fn(u64) -> u64) -> Self {
        Self {
            scheduler: Scheduler::new(LIMITS, 2 * US),
            now_ns: 1_000 * MS,
            calls: 1,
            last_call_ns: 1_000 * MS,
            gap_ns,
            awake_ns: 1_000 * MS,
            latency,
            hindered: false,
            busy: false,
            harm_ns: 0,
            launches: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    fn outlook(&self) -> Outlook {
        let next_ns = self.last_call_ns + self.gap_ns;
        let earliest_ns = next_ns - self.gap_ns / 20;
        Outlook { last_call_ns: self.last_call_ns, earliest_ns, next_ns, calls: self.calls }
    }

    /// Launches in one gap, as offsets from its beginning; the last is the one that was timed.
    fn gap(&mut self) -> Vec<u64> {
        let ends_ns = self.last_call_ns + self.gap_ns;
        self.launches.clear();
        while self.now_ns < ends_ns {
            let moment =
                Moment { now_ns: self.now_ns, outlook: Some(self.outlook()), hindered: self.hindered };
            let act = self.scheduler.act(&moment);
            self.verdicts.extend(self.scheduler.of_job());
            match act {
                Act::Sleep { until_ns } => {
                    assert!(until_ns > self.now_ns, "it must get on");
                    self.now_ns = until_ns;
                }
                _ if self.busy => {
                    let verdict = self.scheduler.busy(self.now_ns);
                    self.verdicts.extend(verdict);
                    self.now_ns += US;
                }
                Act::Launch => {
                    self.launch();
                    self.scheduler.launched(self.now_ns);
                }
                Act::Probe => {
                    let took = self.launch();
                    let verdict = self.scheduler.probed(took);
                    self.verdicts.extend(verdict);
                }
            }
        }
        self.call(ends_ns + self.harm_ns * (self.launches.len() as u64).saturating_sub(1));
        self.launches.clone()
    }

    fn launch(&mut self) -> u64 {
        let took = (self.latency)(self.now_ns - self.awake_ns);
        self.launches.push(self.now_ns - self.last_call_ns);
        self.now_ns += took;
        self.awake_ns = self.now_ns;
        took
    }

    fn call(&mut self, at_ns: u64) {
        self.now_ns = self.now_ns.max(at_ns);
        (self.last_call_ns, self.awake_ns) = (at_ns, self.now_ns);
        self.calls += 1;
    }
}

/// A device that is slow to wake once it has been idle for 5 ms.
fn sleepy(idle_ns: u64) -> u64 {
    if idle_ns > 5 * MS { 160 * US } else { 50 * US }
}

fn always_awake(_: u64) -> u64 {
    50 * US
}

#[test]
fn where_kernels_help_they_go_on_and_a_few_gaps_stay_without() {
    let mut world = World::new(100 * MS, sleepy);
    let counts: Vec<usize> = (0..200).map(|_| world.gap().len()).collect();
    let [verdict] = world.verdicts[..] else { panic!("{:?}", world.verdicts) };
    let Finding::Helps(gain) = verdict.what else { panic!("{verdict:?}") };
    assert_eq!((gain.with_ns, gain.without_ns), (50 * US, 160 * US));
    assert_eq!((verdict.at_least_ns, verdict.below_ns), (32 * MS, Some(128 * MS)));
    let late = &counts[40..];
    assert!(late.iter().all(|count| *count == 1 || *count > 40), "{late:?}");
    let without = late.iter().filter(|count| **count == 1).count();
    assert_eq!(without, late.len() / 16);
}

#[test]
fn where_kernels_do_not_help_there_are_none_any_more() {
    let mut world = World::new(100 * MS, always_awake);
    let counts: Vec<usize> = (0..60).map(|_| world.gap().len()).collect();
    assert!(matches!(world.verdicts[..], [Verdict { what: Finding::NoGain(_), .. }]), "{:?}", world.verdicts);
    assert!(counts[..20].iter().any(|count| *count > 40), "they were tried");
    assert!(counts[30..].iter().all(|count| *count == 0), "{counts:?}");
}

#[test]
fn what_helped_once_and_no_longer_does_ends_too() {
    let mut world = World::new(100 * MS, sleepy);
    (0..40).for_each(|_| _ = world.gap());
    world.latency = always_awake;
    (0..400).for_each(|_| _ = world.gap());
    assert!(matches!(
        world.verdicts[..],
        [Verdict { what: Finding::Helps(_), .. }, Verdict { what: Finding::NoGain(_), .. }]
    ));
    assert!(world.gap().is_empty());
}

#[test]
fn a_job_that_is_slower_for_them_is_rid_of_them_whatever_they_gain() {
    let mut world = World::new(100 * MS, sleepy);
    // Some forty kernels in a gap: one percent.
    world.harm_ns = 25 * US;
    let counts: Vec<usize> = (0..80).map(|_| world.gap().len()).collect();
    let slows =
        |verdict: &Verdict| matches!(verdict.what, Finding::Slows(harm) if harm.with_ns > harm.without_ns);
    assert_eq!(world.verdicts.iter().filter(|verdict| slows(verdict)).count(), 1, "{:?}", world.verdicts);
    assert!(counts[40..].iter().all(|launches| *launches == 0), "{counts:?}");
}

#[test]
fn a_job_that_becomes_slower_for_them_later_is_rid_of_them_then() {
    let mut world = World::new(100 * MS, sleepy);
    (0..40).for_each(|_| _ = world.gap());
    assert!(matches!(world.verdicts[..], [Verdict { what: Finding::Helps(_), .. }]), "{:?}", world.verdicts);
    world.harm_ns = 25 * US;
    (0..300).for_each(|_| _ = world.gap());
    assert!(matches!(world.verdicts[1..], [Verdict { what: Finding::Slows(_), .. }]), "{:?}", world.verdicts);
    assert!(world.gap().is_empty());
}

#[test]
fn a_job_whose_steps_grow_longer_keeps_them() {
    let mut world = World::new(60 * MS, sleepy);
    (0..40).for_each(|_| _ = world.gap());
    // Twice as long in the end, by 0.1% and less from one to the next.
    for _ in 0..1_000 {
        world.gap_ns += 60 * US;
        world.gap();
    }
    assert!(matches!(world.verdicts[..], [Verdict { what: Finding::Helps(_), .. }]), "{:?}", world.verdicts);
}

#[test]
fn gaps_that_are_all_disturbed_end_them_too() {
    let mut world = World::new(100 * MS, sleepy);
    for _ in 0..520 {
        let moment =
            Moment { now_ns: world.now_ns + 5 * MS, outlook: Some(world.outlook()), hindered: false };
        if world.scheduler.act(&moment) == Act::Launch {
            world.scheduler.launched(moment.now_ns);
        }
        world.scheduler.disturbed();
        world.verdicts.extend(world.scheduler.of_job());
        world.call(world.last_call_ns + world.gap_ns);
    }
    assert!(
        matches!(world.verdicts[..], [Verdict { what: Finding::Untold { gaps: 0 }, .. }]),
        "{:?}",
        world.verdicts
    );
    assert!(world.gap().is_empty());
}

/// What comes of gaps that vary by up to so many microseconds, the same with kernels and without.
fn verdicts_of_an_uneven_job(by_us: u64, gaps: u64) -> Vec<Finding> {
    let mut world = World::new(100 * MS, sleepy);
    for number in 0..gaps {
        world.gap_ns = 100 * MS + number * 7 % 13 * by_us * US / 12;
        world.gap();
    }
    world.verdicts.iter().map(|verdict| verdict.what).collect()
}

#[test]
fn a_job_that_is_a_little_uneven_keeps_them() {
    for by_us in [0, 200, 1_000] {
        let found = verdicts_of_an_uneven_job(by_us, 120);
        assert!(matches!(found[..], [Finding::Helps(_)]), "{by_us} us: {found:?}");
    }
}

#[test]
fn a_job_that_is_so_uneven_that_no_harm_would_be_seen_is_rid_of_them() {
    let found = verdicts_of_an_uneven_job(6_000, 140);
    assert!(matches!(found[..], [Finding::Untold { gaps: 128 }]), "{found:?}");
}

#[test]
fn a_harm_too_small_to_be_told_from_chance_at_once_is_told_in_the_end() {
    // 0.7% more in gaps that vary by 2%: after a dozen of each it may be chance.
    let mut world = World::new(100 * MS, sleepy);
    world.harm_ns = 15 * US;
    for number in 0..140 {
        world.gap_ns = 100 * MS + number * 7 % 13 * 2 * MS / 12;
        world.gap();
    }
    let found: Vec<_> = world.verdicts.iter().map(|verdict| verdict.what).collect();
    assert!(matches!(found[..], [Finding::Slows(_) | Finding::Untold { .. }]), "{found:?}");
}

#[test]
fn bursts_that_are_never_seen_to_end_tell_nothing_about_the_job() {
    let mut world = World::new(100 * MS, sleepy);
    for _ in 0..140 {
        world.gap();
        // The rhythm is lost behind every gap.
        burst_without_outlook(&mut world, 3_000 * MS);
    }
    assert!(
        matches!(world.verdicts[..], [Verdict { what: Finding::Untold { .. }, .. }]),
        "{:?}",
        world.verdicts
    );
    assert!(world.gap().is_empty());
}

#[test]
fn a_burst_is_over_with_its_last_call_whenever_somebody_looks() {
    let mut world = World::new(100 * MS, sleepy);
    for _ in 0..80 {
        let before_ns = world.last_call_ns;
        let without = world.gap().len() == 1;
        // Behind gaps without kernels somebody looks at once, when a call is counted but not heard of, and between two calls.
        let looks = [before_ns, world.last_call_ns].into_iter().filter(|_| without);
        for last_call_ns in looks {
            let outlook = Outlook {
                last_call_ns,
                earliest_ns: last_call_ns + 190 * US,
                next_ns: last_call_ns + 200 * US,
                calls: world.calls,
            };
            world.scheduler.act(&Moment { now_ns: world.now_ns, outlook: Some(outlook), hindered: false });
            world.verdicts.extend(world.scheduler.of_job());
        }
        world.call(world.last_call_ns + 1_000 * US);
    }
    let helps = |verdict: &Verdict| matches!(verdict.what, Finding::Helps(_));
    assert!(!world.verdicts.is_empty() && world.verdicts.iter().all(helps), "{:?}", world.verdicts);
}

/// As `outlook` is where the rhythm foretells nothing inside a burst, of so long.
fn burst_without_outlook(world: &mut World, burst_ns: u64) {
    let ends_ns = world.last_call_ns + burst_ns;
    while world.now_ns < ends_ns {
        let moment = Moment { now_ns: world.now_ns, outlook: None, hindered: false };
        let Act::Sleep { until_ns } = world.scheduler.act(&moment) else { panic!("nothing is foretold") };
        assert!(until_ns - world.now_ns <= LOOK_WITHOUT_RHYTHM_NS, "the gap behind it must be seen");
        world.now_ns = until_ns;
    }
    world.call(ends_ns);
}

#[test]
fn a_job_that_is_slower_is_seen_to_be_so_through_bursts_in_which_nothing_is_foretold() {
    let mut world = World::new(100 * MS, sleepy);
    world.harm_ns = 50 * US;
    for _ in 0..80 {
        world.gap();
        burst_without_outlook(&mut world, 40 * MS);
    }
    let slows = |verdict: &Verdict| matches!(verdict.what, Finding::Slows(_));
    assert_eq!(world.verdicts.iter().filter(|verdict| slows(verdict)).count(), 1, "{:?}", world.verdicts);
    // What was decided holds from the next gap on.
    assert!(world.gap().is_empty());
}

#[test]
fn a_gap_behind_a_burst_in_which_nothing_is_foretold_is_used() {
    let mut world = World::new(100 * MS, sleepy);
    for _ in 0..60 {
        world.gap();
        burst_without_outlook(&mut world, 40 * MS);
    }
    assert!(matches!(world.verdicts[..], [Verdict { what: Finding::Helps(_), .. }]), "{:?}", world.verdicts);
    assert!(world.gap().len() > 30);
}

#[test]
fn gaps_of_one_length_say_nothing_about_those_of_another() {
    let mut world = World::new(100 * MS, |idle| if idle > 50 * MS { 160 * US } else { 50 * US });
    for _ in 0..60 {
        world.gap_ns = 100 * MS;
        world.gap();
        world.gap_ns = 20 * MS;
        world.gap();
    }
    assert_eq!(world.verdicts.len(), 2, "{:?}", world.verdicts);
    assert!(
        world.verdicts.iter().any(|one| matches!(one.what, Finding::Helps(_)) && one.at_least_ns == 32 * MS)
    );
    assert!(
        world.verdicts.iter().any(|one| matches!(one.what, Finding::NoGain(_)) && one.at_least_ns == 8 * MS)
    );
}

#[test]
fn nothing_is_launched_close_to_the_next_call_or_in_a_gap_without_room() {
    let mut world = World::new(100 * MS, sleepy);
    let launches = world.gap();
    assert!(launches[0] >= LIMITS.interval_ns);
    assert!(*launches.last().unwrap() <= 95 * MS - GUARD_NS, "{launches:?}");
    let mut world = World::new(4 * MS, sleepy);
    assert!(world.gap().is_empty());
}

#[test]
fn a_device_that_is_idle_for_too_long_is_left_to_sleep() {
    let mut world = World::new(10_000 * MS, sleepy);
    let launches = world.gap();
    assert!(launches.len() > 500 && *launches.last().unwrap() <= LIMITS.max_idle_ns, "{}", launches.len());
}

#[test]
fn no_duty_above_the_limit_whatever_the_interval() {
    let scheduler = Scheduler::new(Limits { interval_ns: 1, ..LIMITS }, 5 * US);
    assert_eq!(scheduler.interval_ns(), 1_000 * US);
    assert_eq!(Scheduler::new(LIMITS, 5 * US).interval_ns(), 2 * MS);
}

#[test]
fn a_call_before_its_time_ends_the_gap() {
    let mut world = World::new(100 * MS, sleepy);
    let outlook = world.outlook();
    let at = |now_ns, outlook| Moment { now_ns, outlook: Some(outlook), hindered: false };
    let due = outlook.last_call_ns + 3 * MS;
    assert_eq!(world.scheduler.act(&at(due, outlook)), Act::Launch);
    let early = Outlook {
        calls: outlook.calls + 1,
        last_call_ns: due,
        next_ns: due + 100 * MS,
        earliest_ns: due + 95 * MS,
    };
    assert!(matches!(world.scheduler.act(&at(due, early)), Act::Sleep { until_ns } if until_ns > due));
}

#[test]
fn a_call_that_is_not_heard_of_yet_does_not_cost_the_gap_behind_it() {
    let mut world = World::new(100 * MS, sleepy);
    for _ in 0..3 {
        // The number of calls has gone up; the times are still those before.
        let stale = Outlook {
            calls: world.calls,
            ..World { last_call_ns: world.last_call_ns - 100 * MS, ..World::new(100 * MS, sleepy) }.outlook()
        };
        let moment = Moment { now_ns: world.now_ns, outlook: Some(stale), hindered: false };
        assert!(matches!(world.scheduler.act(&moment), Act::Sleep { .. }));
        assert!(!world.gap().is_empty());
    }
    // With, without, without: the stale outlooks did not count.
    assert!(world.gap().len() > 40);
}

#[test]
fn what_stands_against_it_ends_the_gap_and_is_not_learnt_from() {
    let mut world = World::new(100 * MS, always_awake);
    world.hindered = true;
    (0..100).for_each(|_| assert!(world.gap().is_empty()));
    assert!(world.verdicts.is_empty());
    world.hindered = false;
    assert!((0..4).map(|_| world.gap().len()).any(|count| count > 40));
}

#[test]
fn a_device_that_is_always_at_work_is_left_alone_for_good() {
    let mut world = World::new(100 * MS, sleepy);
    world.busy = true;
    (0..60).for_each(|_| assert!(world.gap().is_empty()));
    assert!(matches!(world.verdicts[..], [Verdict { what: Finding::Busy, .. }]), "{:?}", world.verdicts);
    world.busy = false;
    (0..4).for_each(|_| assert!(world.gap().is_empty()));
}

#[test]
fn a_gap_that_was_disturbed_is_over() {
    let mut world = World::new(100 * MS, sleepy);
    let moment = Moment { now_ns: world.now_ns + 5 * MS, outlook: Some(world.outlook()), hindered: false };
    assert_eq!(world.scheduler.act(&moment), Act::Launch);
    world.scheduler.disturbed();
    assert!(matches!(world.scheduler.act(&moment), Act::Sleep { .. }));
}

#[test]
fn without_a_rhythm_there_is_nothing_to_do() {
    let mut scheduler = Scheduler::new(LIMITS, US);
    let moment = Moment { now_ns: 5, outlook: None, hindered: false };
    assert_eq!(scheduler.act(&moment), Act::Sleep { until_ns: 5 + LOOK_WITHOUT_RHYTHM_NS });
    assert_eq!(scheduler.gain(), None);
}

proptest! {
    #[test]
    fn whatever_the_outlook_it_gets_on_and_keeps_the_rate(
        steps in prop::collection::vec((0u64..5_000_000_000, 0u64..5_000_000_000, 0u64..5_000_000_000, any::<bool>(), 0u64..3), 1..200)
    ) {
        let mut scheduler = Scheduler::new(LIMITS, 2 * US);
        let (mut now_ns, mut last) = (1u64, None::<u64>);
        for (last_call_ns, earliest_ns, next_ns, hindered, calls) in steps {
            let outlook = Some(Outlook { last_call_ns, earliest_ns, next_ns, calls });
            match scheduler.act(&Moment { now_ns, outlook, hindered }) {
                Act::Sleep { until_ns } => {
                    prop_assert!(until_ns > now_ns);
                    now_ns = until_ns;
                }
                Act::Launch => {
                    prop_assert!(!hindered);
                    prop_assert!(last.is_none_or(|at| now_ns >= at + LIMITS.interval_ns));
                    last = Some(now_ns);
                    scheduler.launched(now_ns);
                }
                Act::Probe => {
                    scheduler.probed(now_ns % 200_000);
                }
            }
        }
    }
}
