//! Whatever the ranks report: nothing is compressed that was not measured on all of them, and proposals end.

use std::collections::{BTreeMap, BTreeSet};

use airamp_policy::{Class, Entry, Mode, Order, PLACES, Plan, Report, ReportKind, Tuner, TunerConfig};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::bench::{SECOND, config};

const RANKS: u32 = 2;

#[derive(Clone, Debug)]
enum Event {
    Report(u32, Report),
    /// An honest trial of a class that is being tried, with these numbers.
    Honest {
        rank: u32,
        class: usize,
        iteration: u8,
        numbers: [f64; 4],
        measured: bool,
    },
    Agree(bool),
    Order(Order),
    Time(u64),
}

fn a_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        6 => 1.0..1e6_f64,
        1 => any::<f64>(),
        1 => prop::sample::select(vec![0.0, -1.0, f64::NAN, f64::INFINITY, 1e300]),
    ]
}

/// Few classes, so that rounds become complete now and then.
fn a_place() -> impl Strategy<Value = u8> {
    prop_oneof![8 => prop::sample::select(vec![6_u8, 38]), 1 => any::<u8>()]
}

fn a_kind() -> impl Strategy<Value = ReportKind> {
    let count = prop_oneof![Just(1_u64 << 20), any::<u64>()];
    let index = 0..2000_u64;
    prop_oneof![
        2 => Just(ReportKind::Seen),
        1 => any::<bool>().prop_map(|compressed| ReportKind::Captured { compressed }),
        1 => (0..3_u8).prop_map(|variant| ReportKind::Unsuitable { variant }),
        1 => (0..4_u8, count.clone())
            .prop_map(|(variant, largest)| ReportKind::Fits { variant, calls: 2, largest }),
        4 => (index.clone(), any::<bool>(), count.clone(), a_number())
            .prop_map(|(index, compressed, count, us)| ReportKind::Watch { index, compressed, count, us }),
        1 => (a_number(), a_number(), 0..2_u64).prop_map(|(squared_error, signal, dry_runs)| ReportKind::Counters {
            squared_error: squared_error * 1e-6, signal, saturated: 0, non_finite_blocks: 0, foreign: 0, dry_runs }),
        1 => (index, any::<u8>(), 0..3_u8, count, [a_number(), a_number(), a_number(), a_number()], any::<bool>())
            .prop_map(|(index, iteration, variant, count, [ours_us, vendor_us, squared_error, signal], measured)| {
                ReportKind::Trial {
                    index, iteration, variant, count, ours_us, vendor_us, squared_error, signal, measured }
            }),
    ]
}

fn an_event() -> impl Strategy<Value = Event> {
    let numbers = [a_number(), a_number(), a_number(), a_number()];
    prop_oneof![
        3 => (0..RANKS + 1, a_place(), a_kind()).prop_map(|(rank, place, kind)| Event::Report(rank, Report { place, kind })),
        12 => (0..RANKS, prop::sample::select(vec![6_usize, 38]), 0..2_u8, numbers, prop::bool::weighted(0.9))
            .prop_map(|(rank, class, iteration, numbers, measured)| Event::Honest { rank, class, iteration, numbers, measured }),
        6 => prop::bool::weighted(0.9).prop_map(Event::Agree),
        1 => prop::sample::select(vec![Order::Off, Order::On, Order::On]).prop_map(Event::Order),
        1 => (0..100 * SECOND).prop_map(Event::Time),
    ]
}

/// Numbers by iteration and rank, where they were measured.
type Reported = BTreeMap<(u8, u32), Option<[f64; 4]>>;

/// What an observer knows who only sees what goes in and out.
struct Observer {
    tuner: Tuner,
    config: TunerConfig,
    plan: Plan,
    since: [u64; PLACES],
    proposed: Option<Plan>,
    index: u64,
    now_us: u64,
    proposals: usize,
    /// By class, variant and round begin: what was reported, by iteration and rank.
    rounds: BTreeMap<(usize, u8, u64), Reported>,
    /// Classes and variants that were earned by a full round.
    earned: BTreeSet<(usize, u8)>,
}

impl Observer {
    fn new(config: TunerConfig) -> Self {
        let mut tuner = Tuner::new(config.clone());
        let plan = tuner.first(None);
        let (since, index, now_us, proposals) = ([0; PLACES], 0, 0, 0);
        let (rounds, earned) = (BTreeMap::new(), BTreeSet::new());
        Self { tuner, config, plan, since, proposed: None, index, now_us, proposals, rounds, earned }
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Report(rank, report) => self.report(rank, &report),
            Event::Honest { rank, class, iteration, numbers, measured } => {
                let Entry::Trial { variant, .. } = Entry::from_byte(self.plan[class]) else { return };
                let element = Class::from_place(class).expect("a class").element();
                let count = (4 << 20) / element.bytes();
                let [ours_us, vendor_us, error, signal] = numbers;
                let squared_error = error * 1e-6;
                let index = self.since[class] + 2 * class as u64 + u64::from(iteration);
                let kind = ReportKind::Trial {
                    index,
                    iteration,
                    variant,
                    count,
                    ours_us,
                    vendor_us,
                    squared_error,
                    signal,
                    measured,
                };
                self.report(rank, &Report { place: class as u8, kind });
            }
            Event::Agree(committed) => self.agree(committed),
            Event::Order(order) => self.tuner.order(order),
            Event::Time(us) => self.now_us += us,
        }
    }

    fn report(&mut self, rank: u32, report: &Report) {
        self.tuner.report(rank, report);
        let place = usize::from(report.place);
        let ReportKind::Trial {
            index,
            iteration,
            variant,
            ours_us,
            vendor_us,
            squared_error,
            signal,
            measured,
            ..
        } = report.kind
        else {
            return;
        };
        // A round has two iterations, whatever a rank says.
        if rank >= RANKS || place >= PLACES || index < self.since[place] || iteration > 1 {
            return;
        }
        let numbers = measured.then_some([ours_us, vendor_us, squared_error, signal]);
        let round = self.rounds.entry((place, variant, self.since[place])).or_default();
        round.entry((iteration, rank)).or_insert(numbers);
        if self.config.ranks as usize * 2 == round.len() && pays(round, &self.config) {
            self.earned.insert((place, variant));
        }
    }

    fn agree(&mut self, committed: bool) {
        if self.proposed.is_none() {
            self.proposed = self.tuner.next(self.now_us);
            self.proposals += usize::from(self.proposed.is_some());
            return;
        }
        let Some(plan) = self.proposed.take() else { return };
        self.index += 100;
        if committed {
            for (place, since) in self.since.iter_mut().enumerate() {
                if self.plan[place] != plan[place] {
                    *since = self.index;
                }
            }
            self.plan = plan;
        }
        self.tuner.decided(self.index, &plan, committed);
    }
}

/// Every iteration was measured by every rank in numbers that are some, and by them it pays.
fn pays(round: &Reported, config: &TunerConfig) -> bool {
    let sound = |numbers: &[f64; 4]| numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
    let all: Option<Vec<[f64; 4]>> = round.values().map(|numbers| numbers.filter(sound)).collect();
    let Some(all) = all else { return false };
    let least = |path: usize| all.iter().map(|numbers| numbers[path]).fold(f64::INFINITY, f64::min);
    least(0) >= 0.01 && least(1) / least(0) >= config.min_speedup
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_is_compressed_without_a_full_round_that_pays(events in vec(an_event(), 0..400), variants in 1..3_u8) {
        let mut observer = Observer::new(TunerConfig { ranks: RANKS, variants, fitted: 1, ..config() });
        for event in &events {
            observer.happen(event);
            for (place, byte) in observer.plan.iter().enumerate() {
                match Entry::from_byte(*byte) {
                    Entry::Compressed { variant } => {
                        prop_assert!(observer.earned.contains(&(place, variant)), "{place}, {variant}, {event:?}");
                    }
                    Entry::Trial { variant, .. } => prop_assert!(variant <= variants && place < PLACES),
                    Entry::Vendor { .. } => {}
                }
            }
        }
        for record in observer.tuner.drain_records() {
            let line = record.to_line();
            prop_assert!(line.len() < 900, "{} bytes: {line}", line.len());
            prop_assert_eq!(airamp_policy::explain::parse_line(&line), Some(record));
        }
    }

    #[test]
    fn shadow_mode_compresses_nothing_whatever_is_reported(events in vec(an_event(), 0..300)) {
        let mut observer = Observer::new(TunerConfig { ranks: RANKS, mode: Mode::Shadow, ..config() });
        for event in &events {
            observer.happen(event);
            prop_assert!(crate::bench::compressed_places(&observer.plan).is_empty());
        }
    }

    #[test]
    fn classes_that_nobody_has_seen_are_left_alone(events in vec(an_event(), 0..300)) {
        let mut observer = Observer::new(TunerConfig { ranks: RANKS, ..config() });
        let mut seen = BTreeSet::new();
        for event in &events {
            if let Event::Report(0, Report { place, kind: ReportKind::Seen | ReportKind::Watch { .. } }) = event {
                seen.insert(usize::from(*place));
            }
            observer.happen(event);
            for (place, byte) in observer.plan.iter().enumerate() {
                prop_assert!(*byte == 0 || seen.contains(&place), "{place}");
            }
        }
    }

    #[test]
    fn proposals_are_few_however_often_it_is_asked(kinds in vec((0..RANKS, a_place(), a_kind()), 0..300)) {
        let mut observer = Observer::new(TunerConfig { ranks: RANKS, ..config() });
        for (rank, place, kind) in kinds {
            observer.report(rank, &Report { place, kind });
            for _ in 0..8 {
                observer.agree(true);
            }
        }
        // Each class: six times (once, and five retries) three attempts and their decision, and a last word.
        let classes = 3 + PLACES;
        prop_assert!(observer.proposals <= classes * (6 * 4 + 2), "{}", observer.proposals);
    }

    #[test]
    fn the_same_events_give_the_same_plans(events in vec(an_event(), 0..200)) {
        let mut one = Observer::new(TunerConfig { ranks: RANKS, ..config() });
        let mut other = Observer::new(TunerConfig { ranks: RANKS, ..config() });
        for event in &events {
            one.happen(event);
            other.happen(event);
            prop_assert_eq!(one.plan, other.plan);
        }
        prop_assert_eq!(one.tuner.drain_records().collect::<Vec<_>>(), other.tuner.drain_records().collect::<Vec<_>>());
    }
}
