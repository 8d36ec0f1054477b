//! A communicator around a tuner: the ranks' ledgers, a plan that is agreed on at once, and reports.

use airamp_policy::explain::Decision;
use airamp_policy::{
    Class, Element, Entry, Mode, Order, PLACES, Plan, Record, Report, ReportKind, Tuner, TunerConfig,
};

pub(crate) const COUNT: u64 = 1 << 20;
pub(crate) const SECOND: u64 = 1_000_000;

pub(crate) fn config() -> TunerConfig {
    TunerConfig {
        communicator: 0xabcd,
        rank: 0,
        ranks: 3,
        variants: 1,
        fitted: 0,
        mode: Mode::On,
        min_speedup: 1.05,
        max_vnmse: 2e-3,
        trial_budget_us: 1e7,
    }
}

pub(crate) fn class() -> Class {
    Class::of(Element::F32, COUNT)
}

/// What one rank says about one trial.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    pub(crate) ours_us: f64,
    pub(crate) vendor_us: f64,
    /// Of a signal of 10.
    pub(crate) squared_error: f64,
    pub(crate) signal: f64,
    pub(crate) count: u64,
    pub(crate) measured: bool,
}

pub(crate) const FAST: Said = Said {
    ours_us: 100.0,
    vendor_us: 200.0,
    squared_error: 1e-3,
    signal: 10.0,
    count: COUNT,
    measured: true,
};
pub(crate) const SLOW: Said = Said {
    ours_us: 200.0,
    vendor_us: 100.0,
    squared_error: 1e-3,
    signal: 10.0,
    count: COUNT,
    measured: true,
};

/// The tuner, the plan that holds, and the next free index.
pub(crate) struct Bench {
    pub(crate) tuner: Tuner,
    pub(crate) config: TunerConfig,
    pub(crate) plan: Plan,
    pub(crate) index: u64,
    pub(crate) now_us: u64,
    pub(crate) proposals: usize,
}

impl Bench {
    pub(crate) fn new(config: TunerConfig) -> Self {
        let mut tuner = Tuner::new(config.clone());
        let plan = tuner.first(None);
        Self { tuner, config, plan, index: 0, now_us: 0, proposals: 0 }
    }

    /// On which the first call of the class was seen and the trial is agreed on.
    pub(crate) fn trying(config: TunerConfig) -> Self {
        let mut bench = Self::new(config);
        bench.report(0, ReportKind::Seen);
        assert!(bench.agree());
        assert!(matches!(bench.entry(), Entry::Trial { .. }), "{:?}", bench.entry());
        bench
    }

    /// On which the class is compressed.
    pub(crate) fn compressing(config: TunerConfig) -> Self {
        let mut bench = Self::trying(config);
        bench.round(|_, _| FAST);
        assert!(bench.agree());
        assert_eq!(bench.entry(), Entry::Compressed { variant: 0 });
        bench
    }

    pub(crate) fn report(&mut self, rank: u32, kind: ReportKind) {
        self.tuner.report(rank, &Report { place: class().place() as u8, kind });
    }

    /// The first call of another class, of float16.
    pub(crate) fn seen_another(&mut self) -> u8 {
        let place = Class::of(Element::F16, COUNT).place() as u8;
        self.tuner.report(0, &Report { place, kind: ReportKind::Seen });
        place
    }

    /// Lets the ranks agree on what the tuner proposes, if it does.
    pub(crate) fn agree(&mut self) -> bool {
        let Some(plan) = self.tuner.next(self.now_us) else { return false };
        self.proposals += 1;
        self.index += 10;
        self.plan = plan;
        self.tuner.decided(self.index, &plan, true);
        true
    }

    pub(crate) fn entry(&self) -> Entry {
        Entry::from_byte(self.plan[class().place()])
    }

    pub(crate) fn trial(&mut self, rank: u32, iteration: u8, said: Said) {
        let kind = self.trial_of(iteration, said);
        self.report(rank, kind);
    }

    pub(crate) fn trial_of(&self, iteration: u8, said: Said) -> ReportKind {
        let Entry::Trial { variant, .. } = self.entry() else { panic!("{:?}", self.entry()) };
        ReportKind::Trial {
            index: self.index + u64::from(iteration),
            iteration,
            variant,
            count: said.count,
            ours_us: said.ours_us,
            vendor_us: said.vendor_us,
            squared_error: said.squared_error,
            signal: said.signal,
            measured: said.measured,
        }
    }

    /// A whole round: what each rank says about each iteration.
    pub(crate) fn round(&mut self, said: impl Fn(u32, u8) -> Said) {
        for iteration in 0..2 {
            for rank in 0..self.config.ranks {
                self.trial(rank, iteration, said(rank, iteration));
            }
        }
    }

    /// So many watched calls that took this long on every rank; ends when the tuner wants a change.
    pub(crate) fn watch(&mut self, samples: usize, us: f64) -> bool {
        for _ in 0..samples {
            let compressed = matches!(self.entry(), Entry::Compressed { .. });
            self.index += 64;
            for rank in 0..self.config.ranks {
                let index = self.index;
                self.report(rank, ReportKind::Watch { index, compressed, count: COUNT, us });
            }
            if self.agree() {
                return true;
            }
        }
        false
    }

    pub(crate) fn records(&mut self) -> Vec<Record> {
        self.tuner.drain_records().collect()
    }

    pub(crate) fn last_record(&mut self) -> Record {
        self.records().pop().expect("a record")
    }

    #[track_caller]
    pub(crate) fn expect_record(&mut self, decision: Decision, part: &str) -> Record {
        let record = self.last_record();
        assert_eq!(record.decision, decision, "{record:?}");
        assert!(record.reason.contains(part), "{part:?} is not in {record:?}");
        record
    }

    pub(crate) fn order(&mut self, order: Order) {
        self.tuner.order(order);
    }
}

pub(crate) fn compressed_places(plan: &Plan) -> Vec<usize> {
    (0..PLACES).filter(|place| matches!(Entry::from_byte(plan[*place]), Entry::Compressed { .. })).collect()
}
