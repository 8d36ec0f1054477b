//! The gate as the steps that are atomic in it, so that the checker can put anything between them. The crate's own
//! gate is checked against this one, step by step, in `gate_agrees.rs`.

const KEPT: usize = 7;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gate {
    pub(crate) pledge: Option<u64>,
    /// From which index on which plan holds.
    pub(crate) switches: Vec<(u64, u8)>,
    /// No verdict came for the pledge: from this index on every call fails.
    pub(crate) lost: Option<u64>,
}

pub(crate) enum Pass {
    Go,
    Wait,
    Fail,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { pledge: None, switches: vec![(0, 0)], lost: None }
    }

    pub(crate) fn start(&mut self, plan: u8) {
        self.switches.push((0, plan));
    }

    pub(crate) fn store_pledge(&mut self, at: u64) {
        self.pledge = Some(at);
    }

    /// After the store: the pledge holds, or is withdrawn because a call at or above it is reserved, a later switch is
    /// agreed, or too many switches lie ahead.
    pub(crate) fn compare(&mut self, at: u64, reserved: u64) -> Result<(), u64> {
        let newest = self.switches.last().map_or(0, |switch| switch.0);
        if reserved > at || at < newest || !self.has_place(reserved) {
            self.pledge = None;
            return Err(reserved);
        }
        Ok(())
    }

    /// With one switch more, the plan of the call that was reserved last is still among those that are kept.
    fn has_place(&self, reserved: u64) -> bool {
        let forgotten = (self.switches.len() + 1).checked_sub(KEPT);
        forgotten.is_none_or(|oldest_kept| self.switches[oldest_kept].0 < reserved.max(1))
    }

    pub(crate) fn pass(&self, index: u64) -> Pass {
        if self.lost.is_some_and(|lost| index >= lost) {
            Pass::Fail
        } else if self.pledge.is_some_and(|pledge| index >= pledge) {
            Pass::Wait
        } else {
            Pass::Go
        }
    }

    pub(crate) fn plan(&self, index: u64) -> u8 {
        self.switches.iter().rev().find(|switch| switch.0 <= index).map_or(0, |switch| switch.1)
    }

    pub(crate) fn commit(&mut self, at: u64, plan: u8) {
        self.switches.push((at, plan));
        self.pledge = None;
    }

    pub(crate) fn abort(&mut self) {
        self.pledge = None;
    }

    pub(crate) fn lose(&mut self) {
        self.lost = Some(self.pledge.unwrap_or(0));
        self.pledge = None;
    }
}
