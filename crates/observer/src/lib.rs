//! Finds the telemetry files of a node, reads them, adds them up so that no counter goes backwards, and says
//! what is wrong. It writes nothing, opens no socket and knows no metric's name; `airampd` and `airamp status`
//! show what it returns.
#![forbid(unsafe_code)]

pub mod anomaly;
mod arrivals;
mod conditions;
mod decisions;
mod events;
mod files;
mod findings;
mod first_calls;
mod gain;
mod groups;
#[cfg(test)]
mod inert_tests;
mod jobs;
mod lags;
#[cfg(test)]
mod made_up;
#[cfg(test)]
mod membership_tests;
#[cfg(test)]
mod mixed_programs_tests;
mod name;
mod open_file;
mod proc;
mod process;
#[cfg(test)]
mod programs_tests;
mod rates;
mod reading;
mod recent;
mod rhythm;
mod rhythm_conditions;
#[cfg(test)]
mod rhythm_tests;
mod sentences;
mod shares;
mod show;
mod spikes;
mod standing;
mod storms;
mod tally;
mod timings;
pub mod view;
#[cfg(test)]
mod waiting_tests;
mod world;
#[cfg(test)]
mod world_tests;

use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use conditions::Limits;
use files::Files;
use reading::Now;
use world::World;

#[derive(Clone, Debug)]
pub struct Options {
    /// Base folders; none: as the library itself chooses.
    pub bases: Vec<PathBuf>,
    pub hang_after: Duration,
    pub late_after: Duration,
}

impl Default for Options {
    fn default() -> Self {
        let (hang_after, late_after) = (Duration::from_secs(10), Duration::from_secs(1));
        Self { bases: Vec::new(), hang_after, late_after }
    }
}

pub struct Observer {
    files: Files,
    world: World,
    windows: anomaly::Windows,
    began: Instant,
}

impl Observer {
    pub fn new(options: Options) -> Self {
        let world = World::new(proc::host_name(), limits(options.hang_after, options.late_after));
        let windows = anomaly::Windows::default();
        Self { files: Files::new(options.bases), world, windows, began: Instant::now() }
    }

    /// Other limits, from the next look on; all else is remembered.
    pub fn judge_by(&mut self, hang_after: Duration, late_after: Duration) {
        self.world.judge_by(limits(hang_after, late_after));
    }

    /// Reads what is there now. Rates and lags are those since the last look.
    pub fn look(&mut self) -> view::Node {
        let began = Instant::now();
        let now = now();
        let found = self.files.look();
        self.world.lose(&found.lost, now);
        let mut looked = self.world.look(found.readings, now);
        self.files.keep_last_calls(|id| self.world.process(id).is_some());
        self.windows.follow(&looked.began, &self.world, &self.files, now);
        looked.node.unreadable = found.unreadable;
        looked.node.unreadable_count = found.unreadable_count;
        looked.node.uptime_s = self.began.elapsed().as_secs_f64();
        looked.node.look_s = began.elapsed().as_secs_f64();
        looked.node
    }

    /// The windows that are complete since this was last asked; each is handed out once.
    pub fn windows(&mut self) -> Vec<anomaly::Window> {
        self.windows.complete()
    }

    /// How many findings since this was last asked have no window, for want of room.
    pub fn windows_dropped(&mut self) -> u64 {
        self.windows.dropped()
    }
}

fn limits(hang_after: Duration, late_after: Duration) -> Limits {
    let ns = |limit: Duration| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    Limits { hang_after_ns: ns(hang_after), late_after_ns: ns(late_after) }
}

/// A base folder as a command line gives it. Jobs are told of it by AIRAMP_TELEMETRY_DIR, which takes no relative one.
pub fn base_folder(text: &str) -> Result<PathBuf, String> {
    let folder = PathBuf::from(text);
    if folder.is_absolute() {
        return Ok(folder);
    }
    Err("give the folder that AIRAMP_TELEMETRY_DIR names in the jobs, an absolute path".to_owned())
}

fn now() -> Now {
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let ns = (monotonic.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(monotonic.tv_nsec as u64);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now { ns, unix_ms: unix.as_millis() as u64 }
}
