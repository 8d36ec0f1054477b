//! A variant that is tried only because it fits the step that the class's calls repeat: after the others, or by itself
//! once they are done with. What it is measured to take decides, as for any other.

use super::{ClassState, Stage};
use crate::tuner::settled::{Choice, Settled};
use crate::tuner::{Budget, TunerConfig};

/// Times that a variant is taken up because it fits: whoever finds another rhythm every minute has none.
const MOST_FITS: u8 = 3;

impl ClassState {
    /// A variant fits the step that the calls repeat. It is tried after the others, or now if they are done with.
    pub(in crate::tuner) fn fits(
        &mut self,
        config: &TunerConfig,
        budget: &Budget,
        variant: u8,
        (calls, largest): (u32, u64),
    ) {
        let is_one = (config.variants..config.all_variants()).contains(&variant);
        if !is_one || self.fit == Some(variant) || self.fits == MOST_FITS || !self.class.holds(largest) {
            return;
        }
        self.fit = Some(variant);
        self.fits += 1;
        let is_tried_now = |settled: &Settled| settled.since.is_some() && settled.figure.is_some();
        if self.frozen || !budget.is_left() || !self.settled().is_some_and(is_tried_now) {
            return;
        }
        let Stage::Settled(settled) = std::mem::replace(&mut self.stage, Stage::Unseen) else { return };
        if let (Choice::Compressed { variant }, Some(figure), true) =
            (settled.choice, settled.figure, self.measured.is_empty())
        {
            // As the tuning cache has it.
            self.measured.push((variant, figure));
        }
        self.before = Some(settled);
        self.attempts = 0;
        let reason = format!(
            "its calls repeat, {calls} in a step of up to {largest} elements, which variant {variant} fits"
        );
        self.begin(config, variant, &reason, Vec::new());
    }

    /// The variant that fits, if its turn is still to come behind this one.
    pub(super) fn untried_fit(&self, variant: u8) -> Option<u8> {
        let is_measured = |fit: u8| self.measured.iter().any(|(measured, _)| *measured == fit);
        self.fit.filter(|fit| *fit != variant && !is_measured(*fit))
    }
}
