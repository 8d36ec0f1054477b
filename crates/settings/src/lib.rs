//! Settings: one table, three sources. The environment wins over the file, the file over the default.
//! Whatever the sources hold, `load` returns usable settings and says in warnings what it ignored and
//! why; it never panics, never blocks on a FIFO, never reads more than 64 KiB and prints nothing itself.
//! The interposer, the command line and the fuzz targets call it.
#![forbid(unsafe_code)]

mod document;
mod environment;
mod file;
mod kinds;
mod nearest;
mod resolve;
mod table;

pub use document::markdown;
pub use environment::{ENVIRONMENT_ONLY, Environment, nearest_variable};
pub use file::{FileError, MAX_FILE_BYTES};
pub use kinds::{LogLevel, Mode, PatternEffects, Plain, WireFormat};
pub use resolve::{Effective, Loaded, Source, Unknown, resolve};
pub use table::{Part, Setting, Settings, TABLE};

use std::path::Path;

/// The file that is read unless AIRAMP_CONFIG names another.
pub const DEFAULT_FILE: &str = "/etc/airamp.conf";

/// Where the daemon keeps evidence unless AIRAMP_EVIDENCE_DIR names another folder.
pub const DEFAULT_EVIDENCE_DIR: &str = "/var/lib/airamp/evidence";

/// The settings of this process: its environment over the settings file over the defaults.
pub fn load() -> Loaded {
    resolve(&Environment::of_this_process(), Path::new(DEFAULT_FILE))
}
