//! When small kernels keep a device awake: in the gaps of a rhythm, at a bounded rate, until shortly before the next
//! call is expected, and only where it was measured that they help and that the job is not slower for them. Times come in, and what to do next goes out;
//! whoever asks does it and tells what came of it. No clock, no device. The interposer's thread for it calls this.

mod gain;

pub use gain::{Gain, Harm};

use gain::Trial;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// How often somebody looks while no rhythm is known.
const LOOK_WITHOUT_RHYTHM_NS: u64 = 100 * MS;
/// How often somebody looks for the beginning of a gap.
const LOOK_NS: u64 = 2 * MS;
/// Where nothing is foretold for longer, the rhythm is lost.
const LONGEST_BURST_NS: u64 = 2_000 * MS;
/// The device is left alone for so long before the earliest time at which the next call is expected.
const GUARD_NS: u64 = 200 * US;
/// The kernel that is timed at the end of a gap comes so long before the guard; a thread may wake up late by most of it.
const PROBE_LEAD_NS: u64 = 400 * US;
/// A device that is busy is asked again after so many intervals, then after twice as many, and so on up to this.
const MOST_BUSY_INTERVALS: u64 = 16;
/// After so many gaps in a row in which the device was busy, gaps of that length are left alone.
const MOST_BUSY_GAPS: u32 = 16;
/// Gaps are told apart by their length: below 2 ms, 8 ms, 32 ms, 128 ms, 512 ms, and longer.
const CLASSES: usize = 6;
const FIRST_CLASS_BELOW_NS: u64 = 2 * MS;

/// What the operator allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Between two kernels, at least.
    pub interval_ns: u64,
    /// So long after the last call the device is left to sleep.
    pub max_idle_ns: u64,
    /// The most of the device's time that kernels may take, in thousandths of a percent.
    pub duty_milli_percent: u64,
}

impl Limits {
    /// The time between two kernels that take `kernel_ns` each.
    fn interval_for(&self, kernel_ns: u64) -> u64 {
        let by_duty = kernel_ns.saturating_mul(100_000) / self.duty_milli_percent.max(1);
        self.interval_ns.max(by_duty)
    }
}

/// What is expected, as the process's rhythm tells it. All times are those of one clock, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    pub last_call_ns: u64,
    pub earliest_ns: u64,
    pub next_ns: u64,
    /// How many calls there have been: another number means another gap.
    pub calls: u64,
}

/// What somebody who is about to act sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now_ns: u64,
    /// `None`: no rhythm is known.
    pub outlook: Option<Outlook>,
    /// Something stands against kernels in this gap: the device is throttled or shared, or a capture is under way.
    pub hindered: bool,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing until then; look again.
    Sleep { until_ns: u64 },
    /// A kernel, unless the device is busy or a call has come.
    Launch,
    /// The same, and how long it took from the launch until its end was seen.
    Probe,
}

/// What was found out about gaps of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Shortest and longest gap, in nanoseconds; the longest has no bound.
    pub at_least_ns: u64,
    pub below_ns: Option<u64>,
    pub what: Finding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Kernels in the gap shorten what comes behind it, and the job is not slower for them.
    Helps(Gain),
    /// They do not: there are none in such gaps any more.
    NoGain(Gain),
    /// The job takes longer from one burst to the next with them: there are none any more.
    Slows(Harm),
    /// So many gaps do not tell whether it does, since its times vary too much: there are none any more.
    Untold { gaps: u64 },
    /// The device is at work in such gaps: there are none any more.
    Busy,
}

/// The gap under way.
#[derive(Clone, Copy, Debug)]
struct Gap {
    calls: u64,
    last_call_ns: u64,
    class: usize,
    /// Nothing is launched from here on.
    ends_ns: u64,
    /// Whether kernels run in it before the one that is timed.
    with: bool,
    /// Nothing is learnt from it: it was disturbed, or is too short.
    void: bool,
    /// There is no room for kernels in it.
    is_short: bool,
    probed: bool,
    launched: u32,
    /// When the next kernel is due.
    next_ns: u64,
    busy_intervals: u64,
}

/// Decides, gap by gap.
#[derive(Clone, Debug)]
pub struct Scheduler {
    interval_ns: u64,
    max_idle_ns: u64,
    /// The rate is kept whatever the outlook says.
    not_before_ns: u64,
    gap: Option<Gap>,
    /// The last one that was measured, until the burst behind it is over.
    before: Option<Gap>,
    /// When a gap was over and nothing more foretold; 0: not so.
    burst_since_ns: u64,
    trials: [Trial; CLASSES],
    /// Found out when a burst was over, and not told yet.
    of_job: Option<Verdict>,
}

impl Scheduler {
    /// For kernels that take `kernel_ns` on the device.
    pub fn new(limits: Limits, kernel_ns: u64) -> Self {
        Self {
            interval_ns: limits.interval_for(kernel_ns).max(1),
            max_idle_ns: limits.max_idle_ns,
            not_before_ns: 0,
            gap: None,
            before: None,
            burst_since_ns: 0,
            trials: [Trial::NEW; CLASSES],
            of_job: None,
        }
    }

    pub fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    pub fn act(&mut self, moment: &Moment) -> Act {
        let Moment { now_ns, outlook, hindered } = *moment;
        let Some(outlook) = outlook else {
            return Act::Sleep { until_ns: now_ns + self.look_again_in(now_ns) };
        };
        let gap = match &mut self.gap {
            Some(gap) if gap.is_of(&outlook) => gap,
            _ => {
                let mut gap = self.enter(&outlook, now_ns);
                self.leave(&gap);
                // By what the gap before has shown.
                gap.void |= self.trials[gap.class].is_off();
                self.gap.insert(gap)
            }
        };
        gap.void |= hindered;
        if gap.void || gap.probed || now_ns >= gap.ends_ns {
            // What comes much later than expected is looked for now and then.
            let expected_ns = outlook.next_ns.min(now_ns + LOOK_WITHOUT_RHYTHM_NS);
            return Act::Sleep { until_ns: expected_ns.max(now_ns + LOOK_NS) };
        }
        let probe_ns = gap.ends_ns - PROBE_LEAD_NS;
        if now_ns >= probe_ns {
            return Act::Probe;
        }
        if !gap.with {
            return Act::Sleep { until_ns: probe_ns.min(now_ns + LOOK_WITHOUT_RHYTHM_NS) };
        }
        if now_ns >= gap.next_ns {
            return Act::Launch;
        }
        Act::Sleep { until_ns: gap.next_ns.min(probe_ns) }
    }

    /// A kernel was launched as asked for.
    pub fn launched(&mut self, now_ns: u64) {
        self.not_before_ns = now_ns + self.interval_ns;
        if let Some(gap) = &mut self.gap {
            gap.launched += 1;
            gap.busy_intervals = 0;
            gap.next_ns = self.not_before_ns;
        }
    }

    /// The device was at work, so that nothing was launched.
    pub fn busy(&mut self, now_ns: u64) -> Option<Verdict> {
        let gap = self.gap.as_mut()?;
        gap.busy_intervals = (2 * gap.busy_intervals).clamp(1, MOST_BUSY_INTERVALS);
        gap.next_ns = now_ns + gap.busy_intervals * self.interval_ns;
        // Nobody waits for what would be timed.
        let is_end = now_ns >= gap.ends_ns - PROBE_LEAD_NS;
        if !is_end {
            return None;
        }
        gap.void = true;
        let class = gap.class;
        let given_up = self.trials[class].was_busy() >= MOST_BUSY_GAPS && self.trials[class].switch_off();
        given_up.then(|| verdict(class, Finding::Busy))
    }

    /// The kernel that was asked for was timed, and no call came meanwhile. A verdict: something is new.
    pub fn probed(&mut self, latency_ns: u64) -> Option<Verdict> {
        let gap = self.gap.as_mut().filter(|gap| !gap.probed)?;
        gap.probed = true;
        let (class, with) = (gap.class, gap.with);
        // A gap with kernels in which none could be launched is one without; it says nothing about either.
        if gap.void || (with && gap.launched == 0) {
            return None;
        }
        self.trials[class].take(with, latency_ns).map(|what| verdict(class, what))
    }

    /// A call came, or something failed, in the midst of an act.
    pub fn disturbed(&mut self) {
        if let Some(gap) = &mut self.gap {
            gap.void = true;
        }
    }

    /// What the gap before this one has shown about the job itself; each is told once.
    pub fn of_job(&mut self) -> Option<Verdict> {
        self.of_job.take()
    }

    /// Nothing is foretold: inside a burst, whose end is looked for the less often the longer it takes, or for want of a rhythm.
    fn look_again_in(&mut self, now_ns: u64) -> u64 {
        if let Some(gap) = self.gap.take() {
            self.burst_since_ns = now_ns;
            self.before = Some(gap).filter(Gap::tells).or(self.before.take());
        }
        let since_ns = now_ns.saturating_sub(self.burst_since_ns);
        if self.burst_since_ns == 0 || since_ns > LONGEST_BURST_NS {
            (self.before, self.burst_since_ns) = (None, 0);
            return LOOK_WITHOUT_RHYTHM_NS;
        }
        (since_ns / 8).clamp(LOOK_NS, LOOK_WITHOUT_RHYTHM_NS)
    }

    /// Another gap begins: between two calls of a burst, or behind its last one.
    fn leave(&mut self, next: &Gap) {
        self.before = self.gap.take().filter(Gap::tells).or(self.before.take());
        // Not over as long as calls follow each other; nor where a call is counted and not heard of yet.
        let is_over = |gap: &mut Gap| !next.is_short && next.last_call_ns > gap.last_call_ns;
        let Some(gap) = self.before.take_if(is_over) else { return };
        let found = self.trials[gap.class].job_took(gap.with, next.last_call_ns - gap.last_call_ns);
        self.of_job = found.map(|what| verdict(gap.class, what)).or(self.of_job.take());
    }

    /// What was measured last in gaps of any length.
    pub fn gain(&self) -> Option<Gain> {
        self.trials.iter().filter_map(Trial::gain).max_by_key(|gain| gain.gaps)
    }

    fn enter(&mut self, outlook: &Outlook, now_ns: u64) -> Gap {
        let Outlook { last_call_ns, earliest_ns, next_ns, calls } = *outlook;
        let class = class_of(next_ns.saturating_sub(last_call_ns));
        let allowed_until = last_call_ns.saturating_add(self.max_idle_ns);
        let ends_ns = earliest_ns.saturating_sub(GUARD_NS).min(allowed_until);
        // Until then the device is awake by itself.
        let first_ns = last_call_ns.saturating_add(self.interval_ns).max(self.not_before_ns);
        // Room for two kernels and the one that is timed, or the gap brings less than it costs.
        let too_short = ends_ns < first_ns.saturating_add(self.interval_ns + PROBE_LEAD_NS);
        let trial = &mut self.trials[class];
        let given_up = trial.gives_up().map(|what| verdict(class, what));
        self.of_job = given_up.or(self.of_job.take());
        // A call that has come but has not been heard of yet leaves the outlook of the gap before.
        let void = too_short || now_ns >= ends_ns || trial.is_off();
        let with = !void && trial.next_is_with();
        Gap {
            calls,
            last_call_ns,
            class,
            ends_ns: ends_ns.max(PROBE_LEAD_NS),
            with,
            void,
            is_short: too_short,
            probed: false,
            launched: 0,
            next_ns: first_ns,
            busy_intervals: 0,
        }
    }
}

impl Gap {
    /// Whether it says something about the job: measured, and undisturbed.
    fn tells(&self) -> bool {
        !self.void && self.probed && !(self.with && self.launched == 0)
    }

    fn is_of(&self, outlook: &Outlook) -> bool {
        (self.calls, self.last_call_ns) == (outlook.calls, outlook.last_call_ns)
    }
}

fn class_of(gap_ns: u64) -> usize {
    let mut below = FIRST_CLASS_BELOW_NS;
    for class in 0..CLASSES - 1 {
        if gap_ns < below {
            return class;
        }
        below *= 4;
    }
    CLASSES - 1
}

fn verdict(class: usize, what: Finding) -> Verdict {
    let bound = |class: usize| FIRST_CLASS_BELOW_NS << (2 * class);
    let at_least_ns = if class == 0 { 0 } else { bound(class - 1) };
    let below_ns = (class < CLASSES - 1).then(|| bound(class));
    Verdict { at_least_ns, below_ns, what }
}

#[cfg(test)]
mod tests;
