//! The life of one class: unseen, then tried in each variant, then settled and watched, and tried again when its
//! conditions changed, a bounded number of times. It says what the plan should hold for the class; the tuner sees to
//! it that the ranks agree.

mod fitting;

use super::round::{Disagreement, Outcome, Round, Trial};
use super::settled::{Choice, Settled};
use super::watch::WINDOW;
use super::{Budget, Mode, Note, TunerConfig};
use crate::cache::Figure;
use crate::class::Class;
use crate::entry::{Entry, ROUNDS};
use crate::explain::Decision;

/// Rounds of a variant that could not be measured before it is given up.
const MOST_ATTEMPTS: u8 = 3;
/// Times that a settled class is tried again.
const MOST_RETRIES: u8 = 5;
/// A first variant slower than this share of the threshold ends the search.
const HOPELESS: f64 = 0.5;
/// In shadow mode, the time from one measurement of a class to the next; it doubles up to an hour or so.
const REST_US: u64 = 60_000_000;
const MOST_DOUBLINGS: u8 = 6;
/// Once a rank has reported a whole round, the others have this long to do so.
const PATIENCE_US: u64 = 60_000_000;
/// Decisions that wait for their plan; orders that follow each other in haste make no more.
const MOST_NOTES: usize = 4;

#[derive(Debug)]
pub(super) struct ClassState {
    pub(super) class: Class,
    pub(super) frozen: bool,
    /// Told when the plan that carries them out is agreed on.
    pub(super) notes: Vec<Note>,
    /// Told at once.
    pub(super) told: Vec<Note>,
    stage: Stage,
    round_number: u8,
    attempts: u8,
    retries: u8,
    measured: Vec<(u8, Figure)>,
    /// The variant that fits the step, if somebody knows it.
    fit: Option<u8>,
    fits: u8,
    /// What was settled before the class is tried again.
    before: Option<Settled>,
}

#[derive(Debug)]
enum Stage {
    Unseen,
    Trying(Round),
    Settled(Settled),
    /// Shadow mode, between two measurements.
    Resting {
        until_us: Option<u64>,
    },
}

impl ClassState {
    pub(super) fn new(class: Class) -> Self {
        Self {
            class,
            frozen: false,
            notes: Vec::new(),
            told: Vec::new(),
            stage: Stage::Unseen,
            round_number: 0,
            attempts: 0,
            retries: 0,
            measured: Vec::new(),
            fit: None,
            fits: 0,
            before: None,
        }
    }

    /// What the plan should hold.
    pub(super) fn entry(&self) -> Entry {
        match &self.stage {
            Stage::Unseen | Stage::Resting { .. } => Entry::Vendor { settled: false },
            Stage::Trying(round) => Entry::Trial { variant: round.variant, round: self.round_number },
            Stage::Settled(settled) => match settled.choice {
                Choice::Compressed { variant } => Entry::Compressed { variant },
                Choice::Refused => Entry::Vendor { settled: true },
                Choice::Left => Entry::Vendor { settled: false },
            },
        }
    }

    pub(super) fn settled(&self) -> Option<&Settled> {
        match &self.stage {
            Stage::Settled(settled) => Some(settled),
            _ => None,
        }
    }

    /// Whether the passing of time can change something.
    pub(super) fn waits_for_time(&self) -> bool {
        matches!(self.stage, Stage::Trying(_) | Stage::Resting { .. })
    }

    pub(super) fn tried(&self, index: u64) -> Option<u32> {
        match &self.stage {
            Stage::Trying(round) => round.tried(index),
            _ => None,
        }
    }

    /// What the ranks have agreed on holds for this class from here on.
    pub(super) fn in_force(&mut self, at: u64) {
        let since = match &mut self.stage {
            Stage::Trying(round) => &mut round.since,
            Stage::Settled(settled) => &mut settled.since,
            Stage::Unseen | Stage::Resting { .. } => return,
        };
        since.get_or_insert(at);
    }

    /// The plan leaves everything to the vendor for a while: what is under way begins anew after it.
    pub(super) fn interrupt(&mut self, config: &TunerConfig) {
        self.notes.clear();
        match &mut self.stage {
            // A round that no rank has heard of yet keeps its number.
            Stage::Trying(round) if round.since.is_some() => {
                self.round_number = (self.round_number + 1) % ROUNDS;
                *round = Round::new(round.variant, config.ranks);
            }
            Stage::Settled(settled) => settled.restart(),
            Stage::Unseen | Stage::Trying(_) | Stage::Resting { .. } => {}
        }
    }

    /// After an interruption what was settled holds again, and what was tried is tried again.
    pub(super) fn resume(&mut self) {
        let (decision, figure) = match &self.stage {
            Stage::Settled(settled) => (settled.choice.decision(), settled.figure),
            Stage::Trying(_) => (Decision::Trial, None),
            Stage::Unseen | Stage::Resting { .. } => return,
        };
        self.note(decision, "an operator's order: as it was before", figure, Vec::new());
    }

    pub(super) fn adopt(&mut self, config: &TunerConfig, choice: Choice, figure: Option<Figure>) {
        self.settle(
            config,
            choice,
            figure,
            "as the tuning cache says, which all ranks hold alike",
            Vec::new(),
        );
    }

    pub(super) fn seen(&mut self, config: &TunerConfig, budget: &Budget) {
        if matches!(self.stage, Stage::Unseen) {
            self.start_over(config, budget, "its first call was seen");
        }
    }

    pub(super) fn trial(
        &mut self,
        config: &TunerConfig,
        budget: &mut Budget,
        rank: u32,
        trial: &Trial,
    ) -> Result<(), Disagreement> {
        let Stage::Trying(round) = &mut self.stage else { return Ok(()) };
        round.take(rank, trial)?;
        let (variant, outcome, cost) = (round.variant, round.outcome(), round.cost_us());
        match outcome {
            Outcome::Incomplete => {}
            Outcome::Unmeasured { who } => {
                budget.spend(cost);
                self.try_again(config, budget, "a trial could not be measured", who);
            }
            Outcome::Measured(figure) => {
                budget.spend(cost);
                self.measured.push((variant, figure));
                let hopeless = figure.speedup() < HOPELESS * config.min_speedup;
                self.advance(config, budget, variant, hopeless);
            }
        }
        Ok(())
    }

    pub(super) fn unsuitable(&mut self, config: &TunerConfig, budget: &Budget, variant: u8) {
        if matches!(&self.stage, Stage::Trying(round) if round.variant == variant && round.since.is_some()) {
            self.advance(config, budget, variant, false);
        }
    }

    pub(super) fn captured(&mut self, compressed: bool) {
        if let Stage::Trying(_) = self.stage {
            let held = |before: &mut Settled| compressed && before.choice.is_compressed();
            let Some(mut before) = self.before.take_if(held) else { return };
            let (choice, figure) = (before.choice, before.figure);
            before.restart();
            self.stage = Stage::Settled(before);
            self.note(choice.decision(), "a graph took it up before it was tried again", figure, Vec::new());
        }
        let Stage::Settled(settled) = &self.stage else { return };
        let as_decided = match settled.choice {
            Choice::Compressed { .. } => compressed,
            Choice::Refused => !compressed,
            Choice::Left => false,
        };
        if as_decided && !self.frozen {
            self.frozen = true;
            let reason = "a graph holds calls of this class, so it stays as it is".to_owned();
            let figure = settled.figure;
            self.told.push(Note { decision: Decision::Frozen, reason, figure, who: Vec::new() });
        }
    }

    pub(super) fn watched(
        &mut self,
        config: &TunerConfig,
        budget: &Budget,
        rank: u32,
        (index, compressed, count, us): (u64, bool, u64, f64),
    ) {
        let Stage::Settled(settled) = &mut self.stage else { return };
        let path = settled.choice.is_compressed();
        if self.frozen || compressed != path || settled.since.is_none_or(|since| index < since) {
            return;
        }
        let complete = settled.watch.take(rank, config.ranks, index, count, us);
        if !complete || settled.watch.complete() < (WINDOW as u64) << self.retries {
            return;
        }
        let Some(change) = settled.judge(config, self.class.element()) else { return };
        if self.retries < MOST_RETRIES && budget.is_left() {
            self.retries += 1;
            let Stage::Settled(settled) = std::mem::replace(&mut self.stage, Stage::Unseen) else { return };
            self.before = Some(settled);
            self.start_over(config, budget, &change.reason);
        } else if change.harmful {
            let figure = settled.figure;
            let reason = format!("{}, and it is not tried again", change.reason);
            self.settle(config, Choice::Refused, figure, &reason, Vec::new());
        }
    }

    pub(super) fn pass_time(&mut self, config: &TunerConfig, budget: &Budget, now_us: u64) {
        match &mut self.stage {
            Stage::Trying(round) => {
                if !round.is_stalled() {
                    return;
                }
                let since = *round.stalled_us.get_or_insert(now_us);
                if now_us.saturating_sub(since) >= PATIENCE_US {
                    let who = round.missing();
                    self.try_again(config, budget, "a rank did not report its trials", who);
                }
            }
            Stage::Resting { until_us } => {
                let rest = REST_US << self.retries.min(MOST_DOUBLINGS);
                let until = *until_us.get_or_insert(now_us.saturating_add(rest));
                if now_us >= until && budget.is_left() {
                    self.retries = self.retries.saturating_add(1);
                    self.start_over(config, budget, "shadow mode measures again from time to time");
                }
            }
            Stage::Unseen | Stage::Settled(_) => {}
        }
    }

    fn start_over(&mut self, config: &TunerConfig, budget: &Budget, reason: &str) {
        self.measured.clear();
        self.attempts = 0;
        if budget.is_left() {
            self.begin(config, 0, reason, Vec::new());
        } else {
            self.leave(config, "the time for trials (AIRAMP_TRIAL_MS) is spent", Vec::new());
        }
    }

    fn begin(&mut self, config: &TunerConfig, variant: u8, reason: &str, who: Vec<u32>) {
        self.round_number = (self.round_number + 1) % ROUNDS;
        self.stage = Stage::Trying(Round::new(variant, config.ranks));
        self.note(Decision::Trial, reason, None, who);
    }

    fn try_again(&mut self, config: &TunerConfig, budget: &Budget, why: &str, who: Vec<u32>) {
        let Stage::Trying(round) = &self.stage else { return };
        let variant = round.variant;
        self.attempts += 1;
        if self.attempts < MOST_ATTEMPTS && budget.is_left() {
            let reason = format!("{why}; attempt {} of {MOST_ATTEMPTS}", self.attempts + 1);
            self.begin(config, variant, &reason, who);
        } else if self.measured.is_empty() {
            self.leave(config, &format!("{why}, in {} attempts", self.attempts), who);
        } else {
            self.conclude(config);
        }
    }

    fn advance(&mut self, config: &TunerConfig, budget: &Budget, variant: u8, hopeless: bool) {
        let usual = variant.checked_add(1).filter(|next| *next < config.variants);
        let next = usual.or_else(|| self.untried_fit(variant));
        if let Some(next) = next.filter(|_| !hopeless && budget.is_left()) {
            self.attempts = 0;
            self.begin(config, next, &format!("variant {next} is tried too"), Vec::new());
        } else if self.measured.is_empty() {
            self.leave(config, "its calls need more steps than one call may have", Vec::new());
        } else {
            self.conclude(config);
        }
    }

    /// Of the variants that pay and are exact enough the quickest; else the one that came nearest says why not.
    fn conclude(&mut self, config: &TunerConfig) {
        let pays = |figure: &Figure| figure.speedup() >= config.min_speedup;
        let exact = |figure: &Figure| figure.vnmse <= config.max_vnmse;
        let per_element = |figure: &Figure| figure.ours_us / figure.count as f64;
        let measured = std::mem::take(&mut self.measured);
        let best = measured
            .iter()
            .filter(|(_, figure)| pays(figure) && exact(figure))
            .min_by(|(_, one), (_, other)| per_element(one).total_cmp(&per_element(other)));
        if let Some(&(variant, figure)) = best {
            let reason = format!("it pays in variant {variant}, and its error is within the bound");
            return self.settle(config, Choice::Compressed { variant }, Some(figure), &reason, Vec::new());
        }
        let nearest =
            measured.iter().max_by(|(_, one), (_, other)| one.speedup().total_cmp(&other.speedup()));
        let Some(&(_, figure)) = nearest else { return };
        let reason = match pays(&figure) {
            true => format!("its error is above {} (AIRAMP_MAX_VNMSE)", config.max_vnmse),
            false => format!("it is less than {} times as fast (AIRAMP_MIN_SPEEDUP)", config.min_speedup),
        };
        self.settle(config, Choice::Refused, Some(figure), &reason, Vec::new());
    }

    fn leave(&mut self, config: &TunerConfig, reason: &str, who: Vec<u32>) {
        self.settle(config, Choice::Left, None, reason, who);
    }

    fn settle(
        &mut self,
        config: &TunerConfig,
        choice: Choice,
        figure: Option<Figure>,
        reason: &str,
        who: Vec<u32>,
    ) {
        if config.mode == Mode::Shadow {
            let decision = if choice.is_compressed() { Decision::Would } else { Decision::WouldNot };
            self.told.push(Note { decision, reason: reason.to_owned(), figure, who });
            self.stage = Stage::Resting { until_us: None };
            return;
        }
        let before = self.before.take();
        self.stage = Stage::Settled(Settled::new(choice, figure, before.as_ref()));
        self.note(choice.decision(), reason, figure, who);
    }

    fn note(&mut self, decision: Decision, reason: &str, figure: Option<Figure>, who: Vec<u32>) {
        if self.notes.len() == MOST_NOTES {
            self.notes.remove(0);
        }
        self.notes.push(Note { decision, reason: reason.to_owned(), figure, who });
    }
}
