//! What this process decides once: its settings, its log, and whether to take part in calls.
//!
//! Nothing happens before the first NCCL call, so a program that makes none pays for a
//! mapped library only. No lock: threads that arrive together each compute the same, and
//! the first to publish speaks.

use crate::boundary::contain;
use crate::{errno, log};
use airamp_settings::{LogLevel, Mode, Settings};
use airamp_vendor::gpu::{Kind, Runtime, probe};
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

pub(crate) struct State {
    pub(crate) settings: Settings,
    /// A setting of compression whose value cannot be used: nothing is compressed then.
    pub(crate) rejected: Option<&'static str>,
    /// What is asked of compression; `None`: nothing.
    pub(crate) asked: Option<airamp_policy::Mode>,
}

/// What the operator, or a test, asks of compression. AIRAMP_TEST_PLAN stands above the mode.
fn asked(settings: &Settings, is_forced: bool) -> Option<airamp_policy::Mode> {
    match settings.mode {
        _ if is_forced => Some(airamp_policy::Mode::Forced),
        _ if settings.enable_fp8_allreduce => Some(airamp_policy::Mode::On),
        Mode::On => Some(airamp_policy::Mode::On),
        Mode::Shadow => Some(airamp_policy::Mode::Shadow),
        Mode::Observe => None,
    }
}

static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

const UNDECIDED: u8 = 0;
const TRACKING: u8 = 1;
const INERT: u8 = 2;
/// As `TRACKING`, and the GPU runtime is HIP.
const TRACKING_HIP: u8 = 3;
static ACTIVITY: AtomicU8 = AtomicU8::new(UNDECIDED);

/// Whether calls are looked at, or only passed on.
#[inline]
pub(crate) fn is_inert() -> bool {
    ACTIVITY.load(Ordering::Relaxed) == INERT
}

/// Evaporates: from here on every call goes straight to the vendor.
pub(crate) fn become_inert() {
    ACTIVITY.store(INERT, Ordering::Relaxed);
}

/// Why there is nothing to work with, where that was found at the start.
pub(crate) fn inert_because() -> Option<&'static str> {
    // SAFETY: null, or from a leaked box that is never changed.
    unsafe { INERT_BECAUSE.load(Ordering::Acquire).as_ref() }.map(String::as_str)
}

/// Null, or from a leaked box: a fork finds no lock here.
static INERT_BECAUSE: AtomicPtr<String> = AtomicPtr::new(std::ptr::null_mut());

/// Which GPU runtime there is.
pub(crate) fn gpu_kind() -> Option<Kind> {
    match ACTIVITY.load(Ordering::Relaxed) {
        TRACKING => Some(Kind::Cuda),
        TRACKING_HIP => Some(Kind::Hip),
        _ => None,
    }
}

pub(crate) fn state() -> Option<&'static State> {
    // SAFETY: once published, the state is never freed or changed.
    unsafe { STATE.load(Ordering::Acquire).as_ref() }
}

/// Reads the settings on first use.
pub(crate) fn ensure() -> &'static State {
    state().unwrap_or_else(start)
}

#[cold]
fn start() -> &'static State {
    // Should reading them fail in a way that nobody foresaw, the defaults still find the vendor.
    let loaded = contain("the settings", airamp_settings::load);
    let (settings, warnings, rejected) =
        loaded.map(|loaded| (loaded.settings, loaded.warnings, loaded.rejected)).unwrap_or_default();
    let is_forced = std::env::var_os("AIRAMP_TEST_PLAN").is_some_and(|value| !value.is_empty());
    let asked = asked(&settings, is_forced);
    let rejected = rejected.first().copied();
    let ours = Box::leak(Box::new(State { settings, rejected, asked }));
    let published = STATE.compare_exchange(std::ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire);
    if let Err(others) = published {
        // SAFETY: another thread published it first; it is never freed or changed.
        return unsafe { &*others };
    }
    start_log(&ours.settings);
    for warning in &warnings {
        log::warn(format_args!("{warning}"));
    }
    if ours.settings.disable {
        log::info(format_args!("disabled by AIRAMP_DISABLE: every call goes straight to the vendor"));
        become_inert();
    }
    ours
}

fn start_log(settings: &Settings) {
    log::set_rank(job_rank().unwrap_or(-1));
    log::set_level(match settings.log {
        LogLevel::Error => log::Level::Error,
        LogLevel::Warn => log::Level::Warn,
        LogLevel::Info => log::Level::Info,
        LogLevel::Debug => log::Level::Debug,
    });
    if let Some(path) = &settings.log_file {
        let path = path.to_string_lossy();
        if let Err(error) = log::open_file(&path) {
            log::warn(format_args!("cannot write the log to {path}: {error}; it stays on stderr"));
        }
    }
}

/// This process's rank in its job, as the usual launchers tell it.
fn job_rank() -> Option<i32> {
    ["RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"]
        .iter()
        .find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// Decides, at the first call that leads to a communicator, whether there is a GPU runtime to work with.
pub(crate) fn decide() {
    if ACTIVITY.load(Ordering::Relaxed) != UNDECIDED {
        return;
    }
    let _errno = errno::keep();
    ensure();
    let (verdict, message) = match probe() {
        Ok(Runtime::Cuda { library }) => (TRACKING, format!("GPU runtime: CUDA, {library}")),
        Ok(Runtime::Hip { library }) => (TRACKING_HIP, format!("GPU runtime: HIP, {library}")),
        Err(error) => (INERT, format!("interposer inert: {error}")),
    };
    let first = ACTIVITY.compare_exchange(UNDECIDED, verdict, Ordering::Relaxed, Ordering::Relaxed);
    match (first, verdict) {
        (Err(_), _) => {}
        (Ok(_), INERT) => {
            log::warn(format_args!("{message}"));
            INERT_BECAUSE.store(Box::into_raw(Box::new(message)), Ordering::Release);
        }
        (Ok(_), _) => log::info(format_args!("{message}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airamp_policy::Mode::{Forced, On, Shadow};

    #[test]
    fn nothing_is_asked_of_compression_unless_somebody_asks() {
        let settings =
            |mode, enable_fp8_allreduce| Settings { mode, enable_fp8_allreduce, ..Settings::default() };
        assert_eq!(asked(&Settings::default(), false), None);
        assert_eq!(asked(&settings(Mode::On, false), false), Some(On));
        assert_eq!(asked(&settings(Mode::Observe, true), false), Some(On));
        assert_eq!(asked(&settings(Mode::Shadow, false), false), Some(Shadow));
        assert_eq!(asked(&settings(Mode::Observe, false), true), Some(Forced));
    }
}
