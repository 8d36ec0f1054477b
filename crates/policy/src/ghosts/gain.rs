//! Whether kernels in a gap shorten the first one behind it: gaps with and without take turns, and medians are
//! compared. So are the times that the job takes over the gap and the burst behind it: they go on only where these show that it is not slower, and not
//! where they only fail to show that it is. Every sixteenth gap is still one without then, so that it is known when that is no longer so.

use super::Finding;

/// Of each kind, before anything is decided.
const ENOUGH: usize = 12;
/// Of each kind, the latest: of the first kernel's times, and of the job's, which differ by less than they vary.
const KEPT: usize = 16;
const JOB_KEPT: usize = 64;
/// Gaps of both kinds after which it is over, where it cannot be told whether the job is slower: so many that were measured, or that began.
const MOST_TRIED: u64 = 2 * JOB_KEPT as u64;
const MOST_BEGUN: u32 = 4 * MOST_TRIED as u32;
const ONE_WITHOUT_OF: u32 = 16;
/// To count as help the median must be shorter by so much, and by this share of what it is without.
const LEAST_GAIN_NS: u64 = 3_000;
const LEAST_GAIN_SHARE: u64 = 10;
/// A job must not be slower by more than this share of its time.
const MOST_HARM_SHARE: f64 = 1.0 / 200.0;
/// So many standard errors, since it is looked at after every gap.
const STANDARD_ERRORS: f64 = 3.0;
/// The standard error of a median, as of normal numbers: so many times their middle half's width over the root of their number.
const OF_MIDDLE_HALF: f64 = 1.253 / 1.349;

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
    with: Samples<KEPT>,
    without: Samples<KEPT>,
    job_with: Samples<JOB_KEPT>,
    job_without: Samples<JOB_KEPT>,
    /// Gaps that began.
    begun: u32,
    measured: u64,
    busy: u32,
    /// Whether the job's last time that counted was one without.
    last_was_without: bool,
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
        last_was_without: false,
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
            State::Trying if gain.pays(100) => self.settle(),
            // What was enough at first may come out a little smaller the next time.
            State::On if gain.pays(50) => None,
            State::Trying | State::On => {
                self.state = State::Off;
                Some(Finding::NoGain(gain))
            }
            State::Off => None,
        }
    }

    /// The job's own time, from before the gap to behind the next burst.
    pub(super) fn job_took(&mut self, with: bool, ns: u64) -> Option<Finding> {
        // Of many in a row with kernels the first counts: a job whose times grow would else look slower by those that came later.
        if with && self.state == State::On && !self.last_was_without {
            return None;
        }
        self.last_was_without = !with;
        if with {
            self.job_with.push(ns)
        } else {
            self.job_without.push(ns)
        }
        match self.state {
            State::Trying => self.settle(),
            State::On => {
                let slower = self.job()?;
                (slower.is_shown() && self.switch_off()).then_some(Finding::Slows(slower.harm))
            }
            State::Off => None,
        }
    }

    /// Over without an answer, since gap after gap was disturbed before it was measured.
    pub(super) fn gives_up(&mut self) -> Option<Finding> {
        let overdue = self.state == State::Trying && self.begun >= MOST_BEGUN;
        (overdue && self.switch_off()).then_some(Finding::Untold { gaps: self.measured })
    }

    /// Whether both the gain and the job's times are known well enough to go on or to end it.
    fn settle(&mut self) -> Option<Finding> {
        let gain = self.gain().filter(|gain| gain.pays(100))?;
        let slower = self.job();
        let found = match slower {
            Some(slower) if slower.is_refuted() => Finding::Helps(gain),
            Some(slower) if slower.is_shown() => Finding::Slows(slower.harm),
            _ if self.measured >= MOST_TRIED => Finding::Untold { gaps: self.measured },
            _ => return None,
        };
        let helps = matches!(found, Finding::Helps(_));
        self.state = if helps { State::On } else { State::Off };
        // What is compared from now on is of one time.
        (self.job_with, self.job_without) = (Samples::NEW, Samples::NEW);
        Some(found)
    }

    fn job(&self) -> Option<Slower> {
        let (with, without) = (&self.job_with, &self.job_without);
        (with.count >= ENOUGH && without.count >= ENOUGH).then(|| {
            let harm = Harm { with_ns: with.median(), without_ns: without.median() };
            Slower { harm, doubt_ns: STANDARD_ERRORS * (with.variance() + without.variance()).sqrt() }
        })
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

/// By how much the job is slower with kernels, and how well that is known.
struct Slower {
    harm: Harm,
    doubt_ns: f64,
}

impl Slower {
    fn by_ns(&self) -> f64 {
        self.harm.with_ns as f64 - self.harm.without_ns as f64
    }

    fn allowed_ns(&self) -> f64 {
        self.harm.without_ns as f64 * MOST_HARM_SHARE
    }

    /// It is not, by more than it may.
    fn is_refuted(&self) -> bool {
        self.by_ns() + self.doubt_ns <= self.allowed_ns()
    }

    /// It is, by more than it may, and that is no chance.
    fn is_shown(&self) -> bool {
        self.by_ns() > self.allowed_ns().max(self.doubt_ns)
    }
}

#[derive(Clone, Debug)]
struct Samples<const N: usize> {
    values: [u64; N],
    count: usize,
    next: usize,
}

impl<const N: usize> Samples<N> {
    const NEW: Self = Self { values: [0; N], count: 0, next: 0 };

    fn push(&mut self, value: u64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % N;
        self.count = (self.count + 1).min(N);
    }

    fn median(&self) -> u64 {
        self.at(1, 2)
    }

    /// Of the median: its standard error, squared.
    fn variance(&self) -> f64 {
        let middle_half = self.at(3, 4).saturating_sub(self.at(1, 4)) as f64;
        (OF_MIDDLE_HALF * middle_half).powi(2) / self.count.max(1) as f64
    }

    /// The value that so large a part of them does not reach.
    fn at(&self, part: usize, of: usize) -> u64 {
        let mut sorted = self.values;
        let kept = &mut sorted[..self.count];
        kept.sort_unstable();
        kept.get(kept.len() * part / of).copied().unwrap_or(0)
    }
}
