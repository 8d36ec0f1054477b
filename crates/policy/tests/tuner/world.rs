//! A small world: ranks that call, links that are slow or fast, noise, reports that come late. Shows where the tuner
//! ends up.

use airamp_policy::{
    Class, Element, Entry, Mode, PLACES, Plan, Report, ReportKind, TrialLedger, Tuner, TunerConfig,
};

use crate::bench::{COUNT, compressed_places, config};

const RANKS: u32 = 4;

/// Time of a call: what has to be moved at this rate, and what each call costs anyhow.
#[derive(Clone, Copy)]
struct Link {
    bytes_per_us: f64,
}

const SLOW_LINK: Link = Link { bytes_per_us: 125.0 };
const FAST_LINK: Link = Link { bytes_per_us: 100_000.0 };

impl Link {
    fn vendor_us(self, bytes: f64) -> f64 {
        20.0 + bytes / self.bytes_per_us
    }

    /// A quarter of the bytes of float32, half of those of float16, and the work of the kernels.
    fn ours_us(self, bytes: f64, element: Element, variant: u8) -> f64 {
        let share = element.bytes() as f64;
        let kernels = bytes / 20_000.0;
        60.0 + kernels + bytes / share / self.bytes_per_us * (1.0 + 0.2 * f64::from(variant))
    }
}

struct World {
    tuner: Tuner,
    config: TunerConfig,
    ledgers: Vec<TrialLedger>,
    plan: Plan,
    pending: Option<(u64, Plan)>,
    seen: [bool; PLACES],
    calls: [u64; PLACES],
    late: Vec<(u32, Report)>,
    index: u64,
    random: u64,
    switches: usize,
}

impl World {
    fn new(config: TunerConfig) -> Self {
        let mut tuner = Tuner::new(config.clone());
        let plan = tuner.first(None);
        let ledgers = (0..config.ranks).map(|_| TrialLedger::new()).collect();
        let (seen, calls) = ([false; PLACES], [0; PLACES]);
        Self {
            tuner,
            config,
            ledgers,
            plan,
            pending: None,
            seen,
            calls,
            late: Vec::new(),
            index: 0,
            random: 1,
            switches: 0,
        }
    }

    fn noise(&mut self) -> f64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1.0 + (self.random >> 40) as f64 / (1_u64 << 24) as f64
    }

    /// So many steps of a program that reduces two tensors in each.
    fn run(&mut self, steps: usize, link: Link) {
        for _ in 0..steps {
            self.call(Element::F32, COUNT, link);
            self.call(Element::F16, COUNT * 2, link);
        }
    }

    fn call(&mut self, element: Element, count: u64, link: Link) {
        if let Some((_, plan)) = self.pending.take_if(|(at, _)| *at <= self.index) {
            self.plan = plan;
        }
        let class = Class::of(element, count);
        let place = class.place();
        if !std::mem::replace(&mut self.seen[place], true) {
            self.late.push((0, Report { place: place as u8, kind: ReportKind::Seen }));
        }
        let entry = Entry::from_byte(self.plan[place]);
        for rank in 0..self.config.ranks {
            if let Some(kind) = self.measure(rank, entry, class, count, link) {
                self.late.push((rank, Report { place: place as u8, kind }));
            }
        }
        self.calls[place] += 1;
        self.index += 1;
        self.deliver();
    }

    /// What a rank measures of the call: its own share of waiting comes on top.
    fn measure(
        &mut self,
        rank: u32,
        entry: Entry,
        class: Class,
        count: u64,
        link: Link,
    ) -> Option<ReportKind> {
        let (bytes, index) = ((count * class.element().bytes()) as f64, self.index);
        let waiting = if rank == 0 { 1.0 } else { self.noise() * 10.0 } * (1.0 + 0.02 * (self.noise() - 1.0));
        let ours = |variant| link.ours_us(bytes, class.element(), variant) * waiting;
        let vendor = link.vendor_us(bytes) * waiting;
        self.ledgers[rank as usize].forget_from(index);
        if let Entry::Trial { variant, round } = entry
            && let Some(iteration) = self.ledgers[rank as usize].take(class, round, index)
        {
            let (ours_us, vendor_us) = (ours(variant), vendor);
            let (squared_error, signal, measured) = (1e-4, 1.0, true);
            return Some(ReportKind::Trial {
                index,
                iteration,
                variant,
                count,
                ours_us,
                vendor_us,
                squared_error,
                signal,
                measured,
            });
        }
        let us = match entry {
            Entry::Compressed { variant } => ours(variant),
            _ => vendor,
        };
        let compressed = matches!(entry, Entry::Compressed { .. });
        self.calls[class.place()].is_multiple_of(64).then_some(ReportKind::Watch {
            index,
            compressed,
            count,
            us,
        })
    }

    /// Half of the reports that wait arrive, and a plan is agreed on for a little later.
    fn deliver(&mut self) {
        let arrive = self.late.len().div_ceil(2);
        for (rank, report) in self.late.drain(..arrive).collect::<Vec<_>>() {
            self.tuner.report(rank, &report);
        }
        if self.pending.is_some() {
            return;
        }
        if let Some(plan) = self.tuner.next(self.index * 1000) {
            let at = self.index + 4;
            self.switches += 1;
            self.pending = Some((at, plan));
            self.tuner.decided(at, &plan, true);
        }
    }

    fn compressed(&self) -> usize {
        compressed_places(&self.plan).len()
    }
}

fn world() -> World {
    World::new(TunerConfig { ranks: RANKS, variants: 2, ..config() })
}

#[test]
fn a_slow_link_switches_on_and_stays_on() {
    let mut world = world();
    world.run(40, SLOW_LINK);
    assert_eq!(world.compressed(), 2);
    let switches = world.switches;
    world.run(20_000, SLOW_LINK);
    assert_eq!(
        (world.compressed(), world.switches),
        (2, switches),
        "nothing changed, so nothing was tried again"
    );
    assert!(switches <= 8, "{switches}");
}

#[test]
fn a_fast_link_switches_off_and_stays_off() {
    let mut world = world();
    world.run(20_000, FAST_LINK);
    assert_eq!(world.compressed(), 0);
    assert!(world.switches <= 6, "{}", world.switches);
    assert_eq!(world.tuner.tuning(1).expect("a tuning").classes().len(), 2, "both are decided");
}

#[test]
fn a_link_that_becomes_fast_switches_off_again_and_one_that_becomes_slow_on() {
    let mut world = world();
    world.run(1000, SLOW_LINK);
    assert_eq!(world.compressed(), 2);
    world.run(2000, FAST_LINK);
    assert_eq!(world.compressed(), 0);
    world.run(4000, SLOW_LINK);
    assert_eq!(world.compressed(), 2);
}

#[test]
fn a_link_of_which_the_vendor_gains_more_switches_off_though_ours_gains_too() {
    let busy = Link { bytes_per_us: 10_000.0 };
    let mut world = world();
    world.run(1000, busy);
    assert_eq!(world.compressed(), 1, "375 us beside 440 us, and another class that does not pay");
    world.run(2000, Link { bytes_per_us: 2.0 * busy.bytes_per_us });
    assert_eq!(world.compressed(), 0, "322 us beside 230 us");
}

#[test]
fn a_link_that_flaps_is_followed_a_bounded_number_of_times() {
    let mut world = world();
    for _ in 0..30 {
        world.run(3000, SLOW_LINK);
        world.run(3000, FAST_LINK);
    }
    // Per class: six searches of two variants, and a decision after each.
    assert!(world.switches <= 2 * 6 * 3 + 2, "{}", world.switches);
    let switches = world.switches;
    world.run(10_000, FAST_LINK);
    world.run(10_000, SLOW_LINK);
    assert!(world.switches <= switches + 2, "it has come to rest");
}

#[test]
fn a_small_budget_bounds_what_trials_cost() {
    let mut world = World::new(TunerConfig { ranks: RANKS, variants: 2, trial_budget_us: 1.0, ..config() });
    world.run(5000, SLOW_LINK);
    assert!(world.switches <= 4, "{}", world.switches);
}

#[test]
fn shadow_mode_in_the_same_world_never_compresses() {
    let mut world = World::new(TunerConfig { ranks: RANKS, mode: Mode::Shadow, ..config() });
    for _ in 0..500 {
        world.run(100, SLOW_LINK);
        assert_eq!(world.compressed(), 0);
    }
    let would =
        world.tuner.drain_records().filter(|record| record.speedup.is_some_and(|times| times > 1.5)).count();
    assert!((2..12).contains(&would), "{would} in a hundred seconds");
}
