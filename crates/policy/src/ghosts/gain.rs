//! Whether kernels in a gap shorten the first one behind it: gaps with and without take turns, and medians are
//! compared. So are the times that the job takes over the gap and the burst behind it: it must not be slower. Where they help, every sixteenth gap is still one without, so that it is known when they no longer do.

use super::Finding;

/// Of each kind, before anything is decided.
const ENOUGH: usize = 12;
/// Of each kind, the latest.
const KEPT: usize = 16;
const ONE_WITHOUT_OF: u32 = 16;
/// To count as help the median must be shorter by so much, and by this share of what it is without.
const LEAST_GAIN_NS: u64 = 3_000;
const LEAST_GAIN_SHARE: u64 = 10;
/// A job is slower by more than this share of its time.
const MOST_HARM_SHARE: u64 = 200;

/// Medians of the time of the first kernel behind a gap, with kernels in the gap and without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gain {
    pub with_ns: u64,
    pub without_ns: u64,
    /// How many gaps were measured.
    pub gaps: u64,
}

/// Medians of what the job takes over a gap and the burst behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Harm {
    pub with_ns: u64,
    pub without_ns: u64,
}

impl Gain {
    /// Whether that is so many hundredths of what is asked for.
    fn pays(&self, hundredths: u64) -> bool {
        let gained = self.without_ns.saturating_sub(self.with_ns);
        let needed = LEAST_GAIN_NS.max(self.without_ns / LEAST_GAIN_SHARE);
        gained.saturating_mul(100) >= needed.saturating_mul(hundredths)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Trying,
    On,
    Off,
}

/// The measurements of gaps of about one length.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    state: State,
    with: Samples,
    without: Samples,
    job_with: Samples,
    job_without: Samples,
    /// Gaps that began.
    begun: u32,
    measured: u64,
    busy: u32,
}

impl Trial {
    pub(super) const NEW: Self = Self {
        state: State::Trying,
        with: Samples::NEW,
        without: Samples::NEW,
        job_with: Samples::NEW,
        job_without: Samples::NEW,
        begun: 0,
        measured: 0,
        busy: 0,
    };

    pub(super) fn is_off(&self) -> bool {
        self.state == State::Off
    }

    /// Whether it was not off already.
    pub(super) fn switch_off(&mut self) -> bool {
        let was_on = !self.is_off();
        self.state = State::Off;
        was_on
    }

    /// Gaps in a row in which the device was busy.
    pub(super) fn was_busy(&mut self) -> u32 {
        self.busy = self.busy.saturating_add(1);
        self.busy
    }

    /// While trying, in pairs whose order is turned round each time: what drifts does not favour one of them.
    pub(super) fn next_is_with(&mut self) -> bool {
        let number = self.begun;
        self.begun = number.wrapping_add(1);
        match self.state {
            State::Trying => matches!(number % 4, 0 | 3),
            State::On => !number.is_multiple_of(ONE_WITHOUT_OF),
            State::Off => false,
        }
    }

    pub(super) fn take(&mut self, with: bool, latency_ns: u64) -> Option<Finding> {
        self.busy = 0;
        self.measured += 1;
        if with {
            self.with.push(latency_ns)
        } else {
            self.without.push(latency_ns)
        }
        let gain = self.gain()?;
        match self.state {
            State::Trying if gain.pays(100) => {
                self.state = State::On;
                Some(Finding::Helps(gain))
            }
            // What was enough at first may come out a little smaller the next time.
            State::On if gain.pays(50) => None,
            State::Trying | State::On => {
                self.state = State::Off;
                Some(Finding::NoGain(gain))
            }
            State::Off => None,
        }
    }

    /// The job's own time, from before the gap to behind the next burst. It is slower if the median is, by more than
    /// it may, and three quarters of the times without are shorter than that: else it is only uneven.
    pub(super) fn job_took(&mut self, with: bool, ns: u64) -> Option<Finding> {
        if with {
            self.job_with.push(ns)
        } else {
            self.job_without.push(ns)
        }
        if self.job_with.count < ENOUGH || self.job_without.count < ENOUGH || self.is_off() {
            return None;
        }
        let harm = Harm { with_ns: self.job_with.median(), without_ns: self.job_without.median() };
        let slower = harm.with_ns.saturating_sub(harm.without_ns) > harm.without_ns / MOST_HARM_SHARE;
        (slower && harm.with_ns > self.job_without.at(3, 4) && self.switch_off())
            .then_some(Finding::Slows(harm))
    }

    /// `None`: not enough is known.
    pub(super) fn gain(&self) -> Option<Gain> {
        let enough = self.with.count >= ENOUGH && self.without.count >= ENOUGH;
        enough.then(|| Gain {
            with_ns: self.with.median(),
            without_ns: self.without.median(),
            gaps: self.measured,
        })
    }
}

#[derive(Clone, Debug)]
struct Samples {
    values: [u64; KEPT],
    count: usize,
    next: usize,
}

impl Samples {
    const NEW: Self = Self { values: [0; KEPT], count: 0, next: 0 };

    fn push(&mut self, value: u64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % KEPT;
        self.count = (self.count + 1).min(KEPT);
    }

    fn median(&self) -> u64 {
        self.at(1, 2)
    }

    /// The value that so large a part of them does not reach.
    fn at(&self, part: usize, of: usize) -> u64 {
        let mut sorted = self.values;
        let kept = &mut sorted[..self.count];
        kept.sort_unstable();
        kept.get(kept.len() * part / of).copied().unwrap_or(0)
    }
}
