//! A class about which there is a decision, and whether what is measured since still bears it out.

use super::TunerConfig;
use super::watch::Watch;
use crate::Element;
use crate::cache::Figure;
use crate::explain::Decision;

/// A time that differs by this factor has changed.
const CHANGED: f64 = 1.5;
/// Two measurements of an unchanged thing differ by less.
const SAME: f64 = 1.25;
/// From here on a gain may be that of the links.
const NOTICED: f64 = 1.1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Compressed {
        variant: u8,
    },
    /// Measured, and it does not pay or is not exact enough.
    Refused,
    /// The vendor's because nothing is known.
    Left,
}

#[derive(Debug)]
pub(super) struct Settled {
    pub(super) choice: Choice,
    pub(super) figure: Option<Figure>,
    pub(super) since: Option<u64>,
    pub(super) watch: Watch,
    /// Count and time of a call under the conditions of the choice.
    expected: Option<(u64, f64)>,
}

/// Why a class should be tried again.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) reason: String,
    /// To go on as it is would be slower than the vendor.
    pub(super) harmful: bool,
}

impl Settled {
    /// `before`: what was settled when the class was last watched.
    pub(super) fn new(choice: Choice, figure: Option<Figure>, before: Option<&Self>) -> Self {
        let expected = figure.map(|figure| {
            let promised = (figure.count, choice.time_of(&figure));
            // A dry run and a live call differ a little. Where a second measurement gave the same as the first, the
            // watched calls did not change either, and are what to expect.
            before.and_then(|before| before.confirmed_by(choice, &figure)).unwrap_or(promised)
        });
        Self { choice, figure, since: None, watch: Watch::default(), expected }
    }

    /// Nothing that was watched before counts any more.
    pub(super) fn restart(&mut self) {
        self.since = None;
        self.watch = Watch::default();
    }

    fn confirmed_by(&self, choice: Choice, figure: &Figure) -> Option<(u64, f64)> {
        let same_path = self.choice.is_compressed() == choice.is_compressed();
        let ratio = choice.time_of(figure) / choice.time_of(self.figure.as_ref()?)
            * (self.figure?.count as f64 / figure.count as f64);
        let same = same_path && ratio < SAME && ratio > 1.0 / SAME;
        self.watch.quickest().filter(|_| same)
    }

    /// What a full window of watched calls says.
    pub(super) fn judge(&mut self, config: &TunerConfig, element: Element) -> Option<Change> {
        if self.choice == Choice::Left {
            return Some(Change {
                reason: "calls go on, and may be measurable now".to_owned(),
                harmful: false,
            });
        }
        if self.choice.is_compressed() && self.figure.is_none() {
            // Whether it pays here nobody can tell: the tuning is of a job whose numbers another rank has.
            let reason = "the tuning cache of rank 0 has no numbers of it".to_owned();
            return Some(Change { reason, harmful: false });
        }
        self.loses(config).or_else(|| self.changed(config, element))
    }

    fn loses(&self, config: &TunerConfig) -> Option<Change> {
        let figure = self.figure.filter(|_| self.choice.is_compressed())?;
        let best_us = self.watch.best(figure.count)?.at_least_us;
        (best_us > figure.vendor_us / config.min_speedup).then(|| Change {
            reason: format!(
                "compressed calls take {best_us:.0} us and no longer pay: the vendor's took {:.0} us",
                figure.vendor_us
            ),
            harmful: true,
        })
    }

    fn changed(&mut self, config: &TunerConfig, element: Element) -> Option<Change> {
        let Some((count, expected_us)) = self.expected else {
            self.expected = self.watch.quickest();
            return None;
        };
        let best = self.watch.best(count)?;
        let is_overtaken = || self.is_overtaken(config, element, (count, expected_us), best.at_most_us);
        let now_us = if best.at_most_us < expected_us / CHANGED || is_overtaken() {
            best.at_most_us
        } else if best.at_least_us > expected_us * CHANGED && !self.choice.is_compressed() {
            best.at_least_us
        } else {
            return None;
        };
        let reason = format!("conditions changed: calls take {now_us:.0} us and took {expected_us:.0} us");
        Some(Change { reason, harmful: false })
    }

    /// Whether the vendor may be ahead by now, though compressed calls became faster: if by faster links, it has gained as much for
    /// each byte of an element, of which ours moves one.
    fn is_overtaken(
        &self,
        config: &TunerConfig,
        element: Element,
        (count, expected_us): (u64, f64),
        now_us: f64,
    ) -> bool {
        let Some(figure) = self.figure.filter(|_| self.choice.is_compressed()) else { return false };
        let vendor_us = figure.vendor_us * (count as f64 / figure.count as f64);
        let gained_us = element.bytes() as f64 * (expected_us - now_us);
        now_us < expected_us / NOTICED && vendor_us - gained_us < now_us * config.min_speedup
    }
}

impl Choice {
    pub(super) fn decision(self) -> Decision {
        if self.is_compressed() { Decision::Compressed } else { Decision::Vendor }
    }

    pub(super) fn is_compressed(self) -> bool {
        matches!(self, Self::Compressed { .. })
    }

    /// Of the path that the choice takes.
    fn time_of(self, figure: &Figure) -> f64 {
        if self.is_compressed() { figure.ours_us } else { figure.vendor_us }
    }
}
