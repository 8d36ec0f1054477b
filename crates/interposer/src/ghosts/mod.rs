//! Ghost kernels (`AIRAMP_ENABLE_GHOST_KERNELS=1`): in the gaps of a rhythm that is known, a thread of its own gives
//! the device tiny kernels, so that it is awake when the next call comes. `airamp_policy::ghosts` says when and
//! whether; here is what it takes on the device, and the thread. Touches no stream, memory or call of the application.
//!
//! All that can wait for the device is taken inside a communicator's creation. Any error ends it for good.

mod device;
mod leaving;
mod run;

use crate::rhythm::now_ns;
use crate::{log, startup, telemetry};
use airamp_control::without_signals;
use airamp_policy::ghosts::{Limits, Scheduler};
use airamp_settings::Settings;
use airamp_telemetry::{EventKind, Slot};
use device::Device;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread::Builder;

/// The driver and NVML are called on it, and other libraries' thread-local memory lies in it.
const STACK_BYTES: usize = 2 << 20;
/// What a thread had on the device stays there when it ends, so that a process does not begin anew for ever.
const MOST_STARTS: u32 = 8;
/// After a call that was captured there are none for so long, since the capture may go on.
const AFTER_CAPTURE_NS: u64 = 1_000_000_000;

static STARTED: AtomicBool = AtomicBool::new(false);
static STARTS: AtomicU32 = AtomicU32::new(0);
/// The slot of the communicator whose creation started the thread.
static STARTED_BY: AtomicU64 = AtomicU64::new(0);
static CAPTURED_AT: AtomicU64 = AtomicU64::new(0);

/// A communicator on that device was made, and the application does not have it yet. The first one whose device is
/// known starts the thread, which ends with it; other devices of the process have no ghosts.
pub(crate) fn prepare(slot: Slot, ordinal: i32) {
    let settings = &startup::ensure().settings;
    if !settings.enable_ghost_kernels || ordinal < 0 || STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    if STARTS.fetch_add(1, Ordering::Relaxed) >= MOST_STARTS {
        return;
    }
    STARTED_BY.store(slot.bits(), Ordering::Release);
    if let Err(reason) = start(settings, slot, ordinal) {
        say_off(&format!("there are no ghost kernels: {reason}"));
    }
}

/// That communicator has ended, and with it the application may end the device's context. Waits, bounded, until the
/// thread makes no GPU call, and it makes none from then on; the next communicator may start another one.
pub(crate) fn ended(slot: Slot) {
    let mine = slot.bits();
    if STARTED_BY.compare_exchange(mine, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
        leaving::end_thread();
        STARTED.store(false, Ordering::Release);
    }
}

/// A communicator's events were given up: waits, bounded, until the thread no longer asks about them.
pub(crate) fn step_aside() {
    if STARTED_BY.load(Ordering::Acquire) != 0 {
        leaving::wait();
    }
}

fn start(settings: &Settings, slot: Slot, ordinal: i32) -> Result<(), String> {
    let kind = startup::gpu_kind().ok_or("there is no GPU runtime")?;
    let device = Device::acquire(kind, ordinal, settings.kernel_dir.clone())?;
    let scheduler = Scheduler::new(limits(settings), device.kernel_ns());
    let interval_us = scheduler.interval_ns() / 1000;
    log::info(format_args!(
        "ghost kernels: {} ns each, at most one in {interval_us} us, on device {ordinal}",
        device.kernel_ns()
    ));
    let turn = leaving::watch();
    let body = move || run::until_the_end(device, scheduler, slot, turn);
    let thread =
        without_signals(|| Builder::new().name("airamp-ghosts".into()).stack_size(STACK_BYTES).spawn(body));
    thread.map(drop).map_err(|error| error.to_string())
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        interval_ns: settings.ghost_interval_us.saturating_mul(1_000),
        max_idle_ns: settings.ghost_max_idle_ms.saturating_mul(1_000_000),
        duty_milli_percent: (settings.ghost_duty_percent * 1000.0) as u64,
    }
}

/// A call went into a graph.
#[cold]
pub(crate) fn captured() {
    CAPTURED_AT.store(now_ns(), Ordering::Relaxed);
}

fn is_capture_under_way(now_ns: u64) -> bool {
    let at = CAPTURED_AT.load(Ordering::Relaxed);
    at != 0 && now_ns.saturating_sub(at) < AFTER_CAPTURE_NS
}

fn say_off(reason: &str) {
    log::warn(format_args!("{reason}"));
    if let Some(writer) = telemetry::writer() {
        writer.event(EventKind::GhostsOff, None, 0, 0, reason);
    }
}

/// A forked child: thread and device are its parent's. Only stores.
pub(crate) fn abandon() {
    STARTED.store(false, Ordering::Relaxed);
    STARTED_BY.store(0, Ordering::Relaxed);
    CAPTURED_AT.store(0, Ordering::Relaxed);
    leaving::abandon();
}
