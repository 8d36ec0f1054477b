//! This process's telemetry file: made when the first communicator is about to be, never at load and never in a child
//! that makes none. Where it cannot be made there is none, and the log says so once.

use super::{device, device_time, inside, tick_rate};
use crate::startup::{self, State};
use crate::{errno, log, rhythm};
use airamp_policy::Mode;
use airamp_telemetry::{EventKind, Identity, JobSource, Ticks, Writer, counter_now, create, is_counter, now};
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};

static WRITER: AtomicPtr<Writer> = AtomicPtr::new(std::ptr::null_mut());

const NOT_YET: u8 = 0;
const BEING_MADE: u8 = 1;
/// It is there, or never will be.
const SETTLED: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(NOT_YET);

/// How often a thread looks whether another one has made the file.
const MOST_LOOKS: usize = 100_000;

/// By which clock calls are timed: one load, where a file and its clock would be two.
static CLOCK: AtomicU32 = AtomicU32::new(NONE);
/// There is no file.
const NONE: u32 = 0;
const COUNTER: u32 = 1;
const OTHER: u32 = 2;

/// Whether there is a file.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    CLOCK.load(Ordering::Relaxed) != NONE
}

/// The time, where there is a file.
#[inline(always)]
pub(super) fn time() -> Option<Ticks> {
    let clock = CLOCK.load(Ordering::Relaxed);
    // One decision for most, and so no match.
    if clock == COUNTER {
        return Some(counter_now());
    }
    if clock == NONE { None } else { Some(now()) }
}

#[inline(always)]
pub(crate) fn writer() -> Option<&'static Writer> {
    // SAFETY: null, or from a leaked box that is never changed.
    unsafe { WRITER.load(Ordering::Acquire).as_ref() }
}

/// A communicator is about to be made.
pub(crate) fn begin() {
    match STATE.compare_exchange(NOT_YET, BEING_MADE, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            let _errno = errno::keep();
            make(startup::ensure());
            STATE.store(SETTLED, Ordering::Release);
        }
        // Bounded: should its maker be gone, this thread's communicator is not in the file.
        Err(BEING_MADE) => {
            let is_made = |_: &usize| STATE.load(Ordering::Acquire) == SETTLED;
            _ = (0..MOST_LOOKS).inspect(|_| std::thread::yield_now()).find(is_made);
        }
        Err(_) => {}
    }
}

fn make(state: &State) {
    if !state.settings.telemetry || state.settings.disable {
        return;
    }
    match create(state.settings.telemetry_dir.as_deref(), &identity(state)) {
        Ok(writer) => {
            writer.set_state(what_we_do(state));
            writer.event(EventKind::Started, None, 0, 0, "");
            if let Some(reason) = startup::inert_because() {
                writer.event(EventKind::Inert, None, 0, 0, reason);
            }
            tick_rate::begin();
            device::find_gpu();
            device_time::begin_timing(state.settings.device_timings);
            rhythm::begin(&state.settings);
            WRITER.store(Box::into_raw(Box::new(writer)), Ordering::Release);
            CLOCK.store(if is_counter() { COUNTER } else { OTHER }, Ordering::Release);
        }
        Err(error) => log::warn(format_args!("no telemetry from this process: {error}")),
    }
}

fn identity(state: &State) -> Identity {
    let mut identity = Identity::of_this_process(env!("CARGO_PKG_VERSION"), state.settings.mode as u8);
    // The settings file may name the job, too.
    if let Some(job) = state.settings.job.as_ref().filter(|job| **job != identity.job) {
        identity.job.clone_from(job);
        identity.job_source = JobSource::Given;
    }
    identity
}

fn what_we_do(state: &State) -> airamp_telemetry::State {
    match state.asked {
        _ if startup::is_inert() => airamp_telemetry::State::Inert,
        None => airamp_telemetry::State::Observing,
        Some(Mode::Shadow) => airamp_telemetry::State::Shadow,
        Some(Mode::On | Mode::Forced) => airamp_telemetry::State::On,
    }
}

/// From here on every call goes straight to the vendor, and nothing more is counted.
pub(crate) fn became_inert(reason: &str) {
    if let Some(writer) = writer() {
        writer.set_state(airamp_telemetry::State::Inert);
        writer.event(EventKind::Inert, None, 0, 0, reason);
    }
}

/// A forked child: the file is its parent's. Only stores.
pub(crate) fn abandon() {
    CLOCK.store(NONE, Ordering::Relaxed);
    WRITER.store(std::ptr::null_mut(), Ordering::Relaxed);
    STATE.store(NOT_YET, Ordering::Relaxed);
    airamp_telemetry::abandon_in_child();
    device_time::abandon();
    inside::abandon();
    rhythm::abandon();
    device::abandon();
}
