//! The thread: asks what to do, does it, and tells what came of it. It sleeps in between, and whatever it finds in the
//! way (a call, a capture, a device at work, throttled or shared) ends the gap.

use super::device::Device;
use super::leaving::{Inside, is_over, stay_if_leaving};
use super::{is_capture_under_way, say_off};
use crate::{log, rhythm, startup, telemetry};
use airamp_policy::ghosts::{Act, Finding, Moment, Outlook, Scheduler, Verdict};
use airamp_telemetry::{EventKind, Slot};
use airamp_vendor::gpu::{GpuError, Hindrance, Watch};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

const LONGEST_SLEEP_NS: u64 = 100_000_000;
const SHORTEST_SLEEP_NS: u64 = 20_000;
/// A kernel whose end was not seen by then is not timed.
const MOST_TIMED_NS: u64 = 10_000_000;
/// So long somebody looks without a pause whether the device has passed something.
const SPIN_NS: u64 = 300_000;
/// NVML is asked at most so often.
const WATCH_NS: u64 = 1_000_000_000;
/// `PR_SET_TIMERSLACK`, in nanoseconds: without it a short sleep is 50 us longer.
const TIMER_SLACK_NS: libc::c_ulong = 1_000;

pub(super) fn until_the_end(device: Device, scheduler: Scheduler, slot: Slot, turn: u32) {
    // SAFETY: concerns this thread alone.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, TIMER_SLACK_NS) };
    // Not the boundary's: no call of the application depends on this thread.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        let watch = Inside::enter(turn).and_then(|_inside| device.watch());
        Ghosts { device: &device, scheduler, slot, turn, watch, watched_at: 0, hindrance: None }.run()
    }));
    match ended {
        Ok(Err(error)) => say_off(&format!("there are no ghost kernels any more: {error}")),
        Err(payload) => {
            std::mem::forget(payload);
            say_off("there are no ghost kernels any more: an internal error");
        }
        Ok(Ok(())) => {}
    }
    // Its end would call a driver or a context that may be gone.
    std::mem::forget(device);
    stay_if_leaving();
}

struct Ghosts<'a> {
    device: &'a Device,
    scheduler: Scheduler,
    slot: Slot,
    turn: u32,
    watch: Option<Watch>,
    watched_at: u64,
    hindrance: Option<Hindrance>,
}

/// What became of an attempt to launch.
enum Tried {
    Launched {
        began_ns: u64,
    },
    Busy,
    /// A call came.
    Disturbed,
}

impl Ghosts<'_> {
    /// Until the process leaves, an error, or one of the library's: who goes out of the way hears of no call's end any more.
    fn run(mut self) -> Result<(), GpuError> {
        let entered = {
            let Some(_inside) = Inside::enter(self.turn) else { return Ok(()) };
            self.device.enter()?
        };
        // The thread ends with the process: nothing is to be restored.
        std::mem::forget(entered);
        while !is_over(self.turn) && !startup::is_inert() {
            let now_ns = rhythm::now_ns();
            let outlook = self.outlook();
            let hindered = outlook.is_some() && self.is_hindered(now_ns);
            let act = self.scheduler.act(&Moment { now_ns, outlook, hindered });
            self.scheduler.of_job().into_iter().for_each(|verdict| self.tell(verdict));
            match act {
                Act::Sleep { until_ns } => sleep(until_ns.saturating_sub(now_ns)),
                act => {
                    let Some(inside) = Inside::enter(self.turn) else { return Ok(()) };
                    let verdict = self.attempt(act == Act::Probe, outlook)?;
                    drop(inside);
                    verdict.into_iter().for_each(|verdict| self.tell(verdict));
                }
            }
        }
        Ok(())
    }

    fn outlook(&self) -> Option<Outlook> {
        let rhythm::Outlook { device, last_call_ns, next_ns, earliest_ns, calls } = rhythm::outlook()?;
        (device == self.device.ordinal).then_some(Outlook { last_call_ns, earliest_ns, next_ns, calls })
    }

    fn attempt(&mut self, probe: bool, outlook: Option<Outlook>) -> Result<Option<Verdict>, GpuError> {
        let Some(Outlook { calls, .. }) = outlook else { return Ok(None) };
        let verdict = match self.launch(calls)? {
            Tried::Disturbed => {
                self.scheduler.disturbed();
                None
            }
            Tried::Busy => self.scheduler.busy(rhythm::now_ns()),
            Tried::Launched { began_ns } => {
                self.slot.ghosts(1);
                if probe {
                    self.timed(calls, began_ns)?
                } else {
                    self.scheduler.launched(rhythm::now_ns());
                    None
                }
            }
        };
        Ok(verdict)
    }

    /// A kernel, unless the device is at work as far as we know, or a call has come.
    fn launch(&self, calls: u64) -> Result<Tried, GpuError> {
        if !self.device.is_done()? || telemetry::is_call_under_way() {
            return Ok(Tried::Busy);
        }
        if rhythm::calls() != calls {
            return Ok(Tried::Disturbed);
        }
        let began_ns = rhythm::now_ns();
        self.device.launch()?;
        Ok(Tried::Launched { began_ns })
    }

    /// How long it took since its launch began: what the first work behind a gap takes.
    fn timed(&mut self, calls: u64, began_ns: u64) -> Result<Option<Verdict>, GpuError> {
        let wait = Wait { began_ns, at_most_ns: MOST_TIMED_NS, calls };
        if !wait.until(|| self.device.is_done())? {
            self.scheduler.disturbed();
            return Ok(None);
        }
        let verdict = self.scheduler.probed(rhythm::now_ns().saturating_sub(began_ns));
        if let (Some(gain), Some(writer)) = (self.scheduler.gain(), telemetry::writer()) {
            writer.ghosts_measured(gain.without_ns, gain.with_ns);
        }
        Ok(verdict)
    }

    fn is_hindered(&mut self, now_ns: u64) -> bool {
        if is_capture_under_way(now_ns) {
            return true;
        }
        if now_ns.saturating_sub(self.watched_at) >= WATCH_NS {
            self.watched_at = now_ns;
            let before = self.hindrance;
            self.hindrance = Inside::enter(self.turn).and_then(|_inside| self.watch.as_ref()?.hindrance());
            if self.hindrance != before {
                tell_hindrance(self.hindrance);
            }
        }
        self.hindrance.is_some()
    }

    fn tell(&self, verdict: Verdict) {
        let text = in_words(&verdict);
        log::info(format_args!("{text}"));
        let off = !matches!(verdict.what, Finding::Helps(_));
        if let Some(writer) = telemetry::writer().filter(|_| off) {
            writer.event(EventKind::GhostsOff, Some(self.slot), 0, 0, &text);
        }
    }
}

/// A wait for the device, which a call ends.
struct Wait {
    began_ns: u64,
    at_most_ns: u64,
    calls: u64,
}

impl Wait {
    /// Whether `reached` became true in time, and before a call came.
    fn until(self, reached: impl Fn() -> Result<bool, GpuError>) -> Result<bool, GpuError> {
        loop {
            if reached()? {
                return Ok(true);
            }
            let waited_ns = rhythm::now_ns().saturating_sub(self.began_ns);
            if waited_ns >= self.at_most_ns || rhythm::calls() != self.calls {
                return Ok(false);
            }
            if waited_ns >= SPIN_NS { sleep(SHORTEST_SLEEP_NS) } else { std::hint::spin_loop() }
        }
    }
}

fn sleep(ns: u64) {
    std::thread::sleep(Duration::from_nanos(ns.clamp(SHORTEST_SLEEP_NS, LONGEST_SLEEP_NS)));
}

fn tell_hindrance(hindrance: Option<Hindrance>) {
    match hindrance {
        None => log::info(format_args!("ghost kernels: the device can be kept awake again")),
        Some(Hindrance::Throttled(reasons)) => {
            log::info(format_args!(
                "ghost kernels wait: the device is throttled (NVML's reasons {reasons:#x})"
            ));
        }
        Some(Hindrance::AtWork) => {
            log::info(format_args!("ghost kernels wait: the device is at work nearly all the time"))
        }
        Some(Hindrance::Shared) => {
            log::info(format_args!("ghost kernels wait: other processes use the device"))
        }
    }
}

fn in_words(verdict: &Verdict) -> String {
    let ms = |ns: u64| ns / 1_000_000;
    let gaps = match (verdict.at_least_ns, verdict.below_ns) {
        (least, None) => format!("gaps of {} ms and more", ms(least)),
        (least, Some(most)) => format!("gaps of {} to {} ms", ms(least), ms(most)),
    };
    match verdict.what {
        Finding::Busy => format!("ghost kernels are off in {gaps}: the device is at work in them"),
        Finding::Helps(gain) => format!(
            "ghost kernels are on in {gaps}: the first kernel takes {} us with them and {} us without",
            gain.with_ns / 1000,
            gain.without_ns / 1000
        ),
        Finding::Slows(harm) => format!(
            "ghost kernels are off in {gaps}: from one burst to the next the job takes {} us with them and {} us without",
            harm.with_ns / 1000,
            harm.without_ns / 1000
        ),
        Finding::Untold { gaps: measured } => format!(
            "ghost kernels are off in {gaps}: {measured} of them do not tell whether the job is slower with them"
        ),
        Finding::NoGain(gain) => format!(
            "ghost kernels are off in {gaps}: the first kernel takes {} us with them and {} us without",
            gain.with_ns / 1000,
            gain.without_ns / 1000
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::ghosts::Gain;

    #[test]
    fn a_verdict_names_the_gaps_and_both_times() {
        let gain = Gain { with_ns: 31_400, without_ns: 32_000, gaps: 24 };
        let ms = 1_000_000;
        let verdict = Verdict { at_least_ns: 8 * ms, below_ns: Some(32 * ms), what: Finding::NoGain(gain) };
        assert_eq!(
            in_words(&verdict),
            "ghost kernels are off in gaps of 8 to 32 ms: the first kernel takes 31 us with them and 32 us without"
        );
        let verdict = Verdict { at_least_ns: 512 * ms, below_ns: None, what: Finding::Busy };
        assert!(in_words(&verdict).contains("gaps of 512 ms and more: the device is at work"));
    }
}
