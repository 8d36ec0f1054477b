//! The tuner of one communicator, in its leader's process: reports of all ranks in, the next plan out.
//! It never compresses what was not measured on all ranks, and says why for everything it decides. No clock:
//! the time is what its caller says it is.

mod class_state;
mod guard;
mod ranks;
mod round;
mod settled;
mod telling;
mod watch;

use crate::cache::{CachedClass, Tuning};
use crate::class::{Class, PLACES};
use crate::entry::{Entry, PLAN_BYTES, Plan, VARIANTS};
use crate::explain::{Decision, Record};
use crate::report::{Report, ReportKind};
use class_state::ClassState;
use guard::Guard;
use round::{Disagreement, Measured, Trial};
use settled::Choice;
use telling::{Note, Records};

/// Proposals that failed one after the other before the next waits, and how long it then waits.
const AT_ONCE: u32 = 3;
const FIRST_PAUSE_US: u64 = 100_000;
const MOST_PAUSE_DOUBLINGS: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    On,
    /// Only trials, at a bounded rate, which tell what compression would gain and cost.
    Shadow,
    /// For tests: everything is compressed from the first call on.
    Forced,
}

/// An operator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Off,
    On,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TunerConfig {
    pub communicator: u64,
    /// Of the tuner's own process, for the records.
    pub rank: u32,
    pub ranks: u32,
    /// Ways to compress that are tried, from 1 to `VARIANTS`.
    pub variants: u8,
    /// Further ones, numbered behind them, that are tried only for a class of which rank 0 says that one fits.
    pub fitted: u8,
    pub mode: Mode,
    pub min_speedup: f64,
    pub max_vnmse: f64,
    /// The most time that dry runs may take in the life of the communicator; none begins after it.
    pub trial_budget_us: f64,
}

impl TunerConfig {
    fn all_variants(&self) -> u8 {
        self.variants.saturating_add(self.fitted)
    }
}

#[derive(Debug)]
pub struct Tuner {
    config: TunerConfig,
    budget: Budget,
    guard: Guard,
    classes: Vec<ClassState>,
    /// The plan that holds, as far as is known.
    plan: Plan,
    proposed: bool,
    failed_proposals: u32,
    /// After failed proposals: not before this time. `None` with failures: the time is yet to be set.
    resume_us: Option<u64>,
    ordered_off: bool,
    /// Everything to the vendor, for good.
    stopped: Option<String>,
    closed: bool,
    /// About all classes; told when their plan is agreed on.
    notes: Vec<Note>,
    records: Records,
}

/// What is left of the time for trials.
#[derive(Debug)]
struct Budget {
    left_us: f64,
}

impl Budget {
    fn is_left(&self) -> bool {
        self.left_us > 0.0
    }

    fn spend(&mut self, us: f64) {
        self.left_us -= us;
    }
}

impl Tuner {
    pub fn new(config: TunerConfig) -> Self {
        let variants = config.variants.clamp(1, VARIANTS);
        let config = TunerConfig { variants, fitted: config.fitted.min(VARIANTS - variants), ..config };
        Self {
            budget: Budget { left_us: config.trial_budget_us },
            guard: Guard::default(),
            classes: (0..PLACES).filter_map(Class::from_place).map(ClassState::new).collect(),
            plan: [0; PLAN_BYTES],
            proposed: false,
            failed_proposals: 0,
            resume_us: None,
            ordered_off: false,
            stopped: None,
            closed: false,
            notes: Vec::new(),
            records: Records::new(&config),
            config,
        }
    }

    /// The plan of the communicator's creation. `cached` is a tuning that all ranks hold alike.
    pub fn first(&mut self, cached: Option<&Tuning>) -> Plan {
        match self.config.mode {
            Mode::On => cached.into_iter().flat_map(Tuning::classes).for_each(|class| self.adopt(class)),
            Mode::Shadow => {}
            Mode::Forced => {
                let reason = "forced by AIRAMP_TEST_PLAN, without trials";
                self.notes.push(Note::new(Decision::Compressed, reason));
            }
        }
        let plan = self.wanted();
        self.hold(0, &plan);
        plan
    }

    fn adopt(&mut self, cached: &CachedClass) {
        let choice = match cached.variant {
            Some(variant) if variant < self.config.all_variants() => Choice::Compressed { variant },
            Some(_) => return,
            None => Choice::Refused,
        };
        if let Some(state) = self.classes.get_mut(cached.place) {
            state.adopt(&self.config, choice, cached.figure);
        }
    }

    /// What a rank reports. It comes from another machine: what makes no sense is left out.
    pub fn report(&mut self, rank: u32, report: &Report) {
        if rank >= self.config.ranks || self.config.mode == Mode::Forced || self.stopped.is_some() {
            return;
        }
        if let ReportKind::Counters { squared_error, signal, dry_runs, .. } = report.kind {
            return self.take_counters(rank, (squared_error, signal), dry_runs);
        }
        let (config, budget) = (&self.config, &mut self.budget);
        let Some(state) = self.classes.get_mut(usize::from(report.place)) else { return };
        match report.kind {
            ReportKind::Seen if rank == 0 => state.seen(config, budget),
            ReportKind::Captured { compressed } => state.captured(compressed),
            ReportKind::Unsuitable { variant } => state.unsuitable(config, budget, variant),
            // One rank's rhythm is enough to try something, and the others' may differ.
            ReportKind::Fits { variant, calls, largest } if rank == 0 && !self.ordered_off => {
                state.fits(config, budget, variant, (calls, largest));
            }
            ReportKind::Watch { index, compressed, count, us } => {
                // Should the word of its first call have been lost, this one will do.
                if rank == 0 {
                    state.seen(config, budget);
                }
                if !self.ordered_off && state.class.holds(count) {
                    state.watched(config, budget, rank, (index, compressed, count, us));
                }
            }
            ReportKind::Trial { count, .. } if state.class.holds(count) => self.take_trial(rank, report),
            _ => {}
        }
        self.tell_at_once();
    }

    fn take_trial(&mut self, rank: u32, report: &Report) {
        let place = usize::from(report.place);
        let ReportKind::Trial { index, iteration, variant, count, .. } = report.kind else { return };
        let trial = Trial { index, iteration, variant, count, measured: measured(&report.kind) };
        let elsewhere = self.classes.iter().enumerate().filter(|(other, _)| *other != place);
        if let Some(other) = elsewhere.filter_map(|(_, state)| state.tried(index)).next() {
            let what = format!("call {index} was of one class on one, and of another on the other");
            return self.disagree(&Disagreement { ranks: [other, rank], what });
        }
        let Some(state) = self.classes.get_mut(place) else { return };
        if let Err(disagreement) = state.trial(&self.config, &mut self.budget, rank, &trial) {
            self.disagree(&disagreement);
        }
    }

    fn disagree(&mut self, Disagreement { ranks: [one, other], what }: &Disagreement) {
        let reason = format!("ranks {one} and {other} disagree: {what}");
        self.stop(Note { who: vec![*one, *other], ..Note::new(Decision::Vendor, &reason) });
    }

    fn take_counters(&mut self, rank: u32, totals: (f64, f64), dry_runs: u64) {
        let Some(error) = self.guard.take(rank, totals, dry_runs) else { return };
        if self.config.mode == Mode::On && error > self.config.max_vnmse {
            let bound = self.config.max_vnmse;
            let reason =
                format!("the error of compressed calls is {error:.2e}, above {bound} (AIRAMP_MAX_VNMSE)");
            self.stop(Note { who: vec![rank], ..Note::new(Decision::Vendor, &reason) });
        }
    }

    fn stop(&mut self, note: Note) {
        self.interrupt();
        self.stopped = Some(note.reason.clone());
        self.notes.push(self.with_graphs(note));
    }

    /// The ranks do not believe each other any more: everything goes to the vendor, whatever an operator orders.
    pub fn distrust(&mut self, reason: &str) {
        self.stop(Note::new(Decision::Vendor, reason));
        // Where nothing is compressed there is no change to wait for.
        if self.plan == self.wanted() {
            self.notes.drain(..).for_each(|note| self.records.push(None, None, note));
        }
    }

    /// Whether nothing but the vendor's plan comes any more.
    pub fn has_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    pub fn order(&mut self, order: Order) {
        let off = order == Order::Off;
        if std::mem::replace(&mut self.ordered_off, off) == off {
            return;
        }
        self.interrupt();
        if off {
            let note = Note::new(Decision::Vendor, "an operator's order");
            self.notes.push(self.with_graphs(note));
            return;
        }
        let note = match &self.stopped {
            Some(reason) => {
                Note::new(Decision::Vendor, &format!("an operator's order to go on, but {reason}"))
            }
            None => Note::new(Decision::Resumed, "an operator's order"),
        };
        self.notes.push(note);
        if self.stopped.is_none() {
            self.classes.iter_mut().for_each(ClassState::resume);
        }
    }

    fn interrupt(&mut self) {
        self.notes.clear();
        self.classes.iter_mut().for_each(|state| state.interrupt(&self.config));
    }

    /// A graph repeats what it captured, whatever is decided.
    fn with_graphs(&self, mut note: Note) -> Note {
        let held = |state: &&ClassState| state.frozen && matches!(state.entry(), Entry::Compressed { .. });
        if self.classes.iter().any(|state| held(&state)) {
            note.reason.push_str("; graphs that captured compressed calls must be captured again");
        }
        note
    }

    /// The verdict on the plan that `next` gave.
    pub fn decided(&mut self, at: u64, plan: &Plan, committed: bool) {
        self.proposed = false;
        self.resume_us = None;
        if committed {
            self.failed_proposals = 0;
            self.hold(at, plan);
            return;
        }
        self.failed_proposals = self.failed_proposals.saturating_add(1);
        if self.failed_proposals.is_power_of_two() {
            let reason = format!("no agreement on a change at attempt {}", self.failed_proposals);
            self.records.push(Some(at), None, Note::new(Decision::Withdrawn, &reason));
        }
    }

    /// This plan holds from that index on.
    fn hold(&mut self, at: u64, plan: &Plan) {
        self.plan = *plan;
        let wanted = self.wanted();
        if *plan == wanted {
            self.notes.drain(..).for_each(|note| self.records.push(Some(at), None, note));
        }
        if self.ordered_off || self.stopped.is_some() {
            return self.withdraw(at, plan);
        }
        for (state, (held, wanted)) in self.classes.iter_mut().zip(plan.iter().zip(&wanted)) {
            if held == wanted {
                state.in_force(at);
                let class = Some(state.class);
                state.notes.drain(..).for_each(|note| self.records.push(Some(at), class, note));
            }
        }
    }

    /// Everything was called off while the ranks agreed on this plan: until the next one they try what it says, and use
    /// the rounds in it up. When all goes on, these begin anew.
    fn withdraw(&mut self, at: u64, plan: &Plan) {
        let tried = |state: &ClassState, held: u8| {
            matches!(state.entry(), Entry::Trial { .. }) && state.entry().byte() == held
        };
        for (state, held) in self.classes.iter_mut().zip(plan) {
            if tried(state, *held) {
                state.in_force(at);
                state.interrupt(&self.config);
            }
        }
    }

    /// No change can be agreed on any more; plans end.
    pub fn closed(&mut self, reason: &str) {
        if std::mem::replace(&mut self.closed, true) {
            return;
        }
        let reason = format!("everything stays as it is: {reason}");
        self.records.push(None, None, Note::new(Decision::Frozen, &reason));
    }

    /// The plan to propose now, if any; one at a time, the next after `decided`. `now_us` grows, from any origin.
    pub fn next(&mut self, now_us: u64) -> Option<Plan> {
        if self.closed || self.proposed {
            return None;
        }
        if !self.ordered_off && self.stopped.is_none() {
            self.classes.iter_mut().for_each(|state| state.pass_time(&self.config, &self.budget, now_us));
            self.tell_at_once();
        }
        let wanted = self.wanted();
        if wanted == self.plan || self.pauses(now_us) {
            return None;
        }
        self.proposed = true;
        Some(wanted)
    }

    /// Proposals that fail again and again are made less and less often.
    fn pauses(&mut self, now_us: u64) -> bool {
        let Some(more) = self.failed_proposals.checked_sub(AT_ONCE) else { return false };
        let pause = FIRST_PAUSE_US << more.min(MOST_PAUSE_DOUBLINGS);
        now_us < *self.resume_us.get_or_insert(now_us.saturating_add(pause))
    }

    /// Whether time alone could make `next` give a plan: if not, only another event does.
    pub fn waits_for_time(&self) -> bool {
        let failed = self.failed_proposals > 0 && !self.proposed;
        !self.closed && (failed || self.classes.iter().any(ClassState::waits_for_time))
    }

    /// What is decided so far, with its numbers, to be kept under this key.
    pub fn tuning(&self, key: u64) -> Option<Tuning> {
        let cached = |(place, state): (usize, &ClassState)| {
            let settled = state.settled()?;
            let variant = match settled.choice {
                Choice::Compressed { variant } => Some(variant),
                Choice::Refused => None,
                Choice::Left => return None,
            };
            Some(CachedClass { place, variant, figure: settled.figure })
        };
        let usable = self.config.mode == Mode::On && self.stopped.is_none();
        Tuning::new(key, self.classes.iter().enumerate().filter(|_| usable).filter_map(cached).collect())
    }

    pub fn drain_records(&mut self) -> impl Iterator<Item = Record> {
        self.records.drain()
    }

    fn wanted(&self) -> Plan {
        let mut plan = [0; PLAN_BYTES];
        if self.ordered_off || self.stopped.is_some() {
            return plan;
        }
        for (byte, state) in plan.iter_mut().zip(&self.classes) {
            let forced = self.config.mode == Mode::Forced;
            *byte = if forced { Entry::Compressed { variant: 0 } } else { state.entry() }.byte();
        }
        plan
    }

    fn tell_at_once(&mut self) {
        for state in &mut self.classes {
            let class = Some(state.class);
            state.told.drain(..).for_each(|note| self.records.push(None, class, note));
        }
    }
}

fn measured(trial: &ReportKind) -> Option<Measured> {
    match *trial {
        ReportKind::Trial { ours_us, vendor_us, squared_error, signal, measured: true, .. } => {
            Measured::new(ours_us, vendor_us, squared_error, signal)
        }
        _ => None,
    }
}
