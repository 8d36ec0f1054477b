//! What this process decides once: its settings, its log, and whether to take part in calls.
//!
//! Nothing happens before the first NCCL call, so a program that makes none pays for a
//! mapped library only. No lock: threads that arrive together each compute the same, and
//! the first to publish speaks.

use crate::boundary::contain;
use crate::{errno, log};
use airamp_settings::{LogLevel, Settings};
use airamp_vendor::gpu::{Kind, Runtime, probe};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

pub(crate) struct State {
    pub(crate) settings: Settings,
    /// A setting of compression whose value cannot be used: nothing is compressed then.
    pub(crate) rejected: Option<&'static str>,
    /// Whether a communicator whose configuration does not say so is blocking.
    pub(crate) blocks_by_default: bool,
    /// The folder of a test harness through which the ranks agree on compression.
    pub(crate) test_plan: Option<PathBuf>,
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
    let blocks_by_default = std::env::var("NCCL_COMM_BLOCKING").map_or(true, |value| value.trim() != "0");
    let test_plan = std::env::var_os("AIRAMP_TEST_PLAN").filter(|name| !name.is_empty()).map(PathBuf::from);
    let ours = Box::leak(Box::new(State {
        settings,
        rejected: rejected.first().copied(),
        blocks_by_default,
        test_plan,
    }));
    let published = STATE.compare_exchange(std::ptr::null_mut(), ours, Ordering::AcqRel, Ordering::Acquire);
    if let Err(others) = published {
        // SAFETY: another thread published it first; it is never freed or changed.
        return unsafe { &*others };
    }
    start_log(&ours.settings);
    for warning in &warnings {
        log::warn(format_args!("{warning}"));
    }
    if let Some(folder) = ours.test_plan.as_deref().filter(|folder| !folder.is_dir()) {
        log::warn(format_args!("AIRAMP_TEST_PLAN: {} is no folder; compression stays off", folder.display()));
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
        (Ok(_), INERT) => log::warn(format_args!("{message}")),
        (Ok(_), _) => log::info(format_args!("{message}")),
    }
}
