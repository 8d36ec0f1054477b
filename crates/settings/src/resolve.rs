//! Puts the sources on top of each other: default, file, environment. A value that is wrong is ignored
//! with a warning that names where it stands, what is right, and what is used instead.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::file::{self, Entry, FileError};
use crate::kinds::{Given, Mode, Plain};
use crate::nearest::nearest;
use crate::table::{Part, Setting, Settings, TABLE};

/// A file of noise must not flood a job's log.
const MOST_WARNINGS: usize = 20;

/// Longer values are cut in warnings.
const MOST_QUOTED: usize = 60;
const MOST_PATH: usize = 300;

/// Where the value of a setting comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Default,
    /// The settings file, at this line.
    File {
        line: usize,
    },
    Environment,
}

impl Source {
    /// Of two sources the one of greater strength holds.
    fn strength(self) -> u8 {
        match self {
            Self::Default => 0,
            Self::File { .. } => 1,
            Self::Environment => 2,
        }
    }
}

/// One setting with its value and where that came from.
pub struct Effective {
    pub setting: &'static Setting,
    pub value: Plain,
    pub source: Source,
}

/// The settings of a process and what there is to say about them.
#[derive(Debug)]
pub struct Loaded {
    pub settings: Settings,
    /// One line each, without control characters.
    pub warnings: Vec<String>,
    /// The file that was looked for.
    pub file: PathBuf,
    /// Whether that file was read as a whole.
    pub file_read: bool,
    /// It should have been, and was not: why.
    pub file_ignored: Option<String>,
    /// Settings of compression whose value was wrong somewhere: who asked for one must not get another.
    pub rejected: Vec<&'static str>,
    /// The same for the daemon's settings: a token that cannot be used must not mean that none is asked for.
    pub rejected_of_daemon: Vec<&'static str>,
    sources: Vec<Source>,
}

impl Loaded {
    /// Every setting in the table's order.
    pub fn effective(&self) -> impl Iterator<Item = Effective> {
        TABLE.iter().zip(&self.sources).map(|(setting, source)| Effective {
            setting,
            value: (setting.value)(&self.settings),
            source: *source,
        })
    }

    /// How a source is written for people.
    pub fn describe(&self, source: Source) -> String {
        match source {
            Source::Default => "default".to_owned(),
            Source::File { line } => {
                format!("{}:{line}", one_line(&self.file.to_string_lossy(), MOST_PATH))
            }
            Source::Environment => "environment".to_owned(),
        }
    }
}

/// Computes the settings from these variables and the file at `default_file`, unless AIRAMP_CONFIG names
/// another.
pub fn resolve(environment: &Environment, default_file: &Path) -> Loaded {
    let named = environment.get("AIRAMP_CONFIG").map(Path::new);
    let file = named.unwrap_or(default_file).to_path_buf();
    let mut loaded = Loaded {
        settings: Settings::default(),
        warnings: Vec::new(),
        file,
        file_read: false,
        file_ignored: None,
        rejected: Vec::new(),
        rejected_of_daemon: Vec::new(),
        sources: vec![Source::Default; TABLE.len()],
    };
    match file::read(&loaded.file) {
        Ok(entries) => {
            loaded.file_read = true;
            entries.into_iter().for_each(|entry| loaded.take_entry(entry));
        }
        Err(FileError::Missing) if named.is_none() => {}
        Err(error) => loaded.warn_of_file(&error),
    }
    loaded.take_environment(environment);
    loaded.settle_job(environment);
    loaded.settle_mode();
    loaded.shorten_warnings();
    loaded
}

impl Loaded {
    fn warn_of_file(&mut self, error: &FileError) {
        let path = one_line(&self.file.to_string_lossy(), MOST_PATH);
        let why = format!("settings file {path} {error}");
        self.warnings.push(format!("{why}; it is ignored"));
        // What is not there holds nothing: the volume that it is in may be an optional one.
        self.file_ignored = (!matches!(error, FileError::Missing)).then_some(why);
    }

    fn take_entry(&mut self, Entry { key, line, given }: Entry) {
        let place = format!("{}:{line}", one_line(&self.file.to_string_lossy(), MOST_PATH));
        let Some(index) = TABLE.iter().position(|setting| setting.key == key) else {
            let meant = meant(nearest(&key, TABLE.iter().map(|setting| setting.key)));
            self.warnings.push(format!("{place}: unknown key {}{meant}; it is ignored", quoted(&key)));
            return;
        };
        self.take(index, &given, Source::File { line }, &format!("{place}: {key}"));
    }

    fn take_environment(&mut self, environment: &Environment) {
        for (index, setting) in TABLE.iter().enumerate() {
            let Some(value) = environment.get(setting.env) else { continue };
            let given = environment_value(value);
            self.take(index, &given, Source::Environment, &format!("{} in the environment", setting.env));
        }
        for (name, nearest) in environment.unknown() {
            let meant = meant(nearest);
            self.warnings.push(format!("unknown variable {}{meant}; it is ignored", quoted(&name)));
        }
    }

    fn take(&mut self, index: usize, given: &Given, source: Source, place: &str) {
        let setting = &TABLE[index];
        if (setting.store)(&mut self.settings, given) {
            self.sources[index] = source;
            return;
        }
        match setting.part {
            Part::Compression => self.rejected.push(setting.env),
            Part::Daemon => self.rejected_of_daemon.push(setting.env),
            Part::Library | Part::GhostKernels => {}
        }
        let used = (setting.value)(&self.settings);
        let whence = self.describe(self.sources[index]);
        self.warnings.push(format!(
            "{place}: expected {}, found {}; using {used} ({whence})",
            (setting.expects)(),
            found(given)
        ));
    }

    /// AIRAMP_ENABLE_FP8_ALLREDUCE=1 is mode `on`, unless a stronger source names a mode.
    fn settle_mode(&mut self) {
        let index_of = |key| TABLE.iter().position(|setting| setting.key == key);
        let (Some(mode), Some(switch)) = (index_of("mode"), index_of("enable_fp8_allreduce")) else { return };
        let named = self.sources[mode];
        if self.settings.enable_fp8_allreduce && self.sources[switch].strength() >= named.strength() {
            let contradicts = self.settings.mode != Mode::On && named != Source::Default;
            if contradicts {
                self.warnings.push(
                    "AIRAMP_MODE and AIRAMP_ENABLE_FP8_ALLREDUCE=1 contradict each other; the mode is on"
                        .into(),
                );
            }
            self.settings.mode = Mode::On;
            self.sources[mode] = self.sources[switch];
        }
    }

    /// What the scheduler calls the job is its name, unless somebody gave it another. What does not suit is left
    /// out in silence: it is not ours.
    fn settle_job(&mut self, environment: &Environment) {
        let Some(index) = TABLE.iter().position(|setting| setting.key == "job") else { return };
        let Some(name) = environment.job().filter(|_| self.sources[index] == Source::Default) else { return };
        if (TABLE[index].store)(&mut self.settings, &environment_value(name)) {
            self.sources[index] = Source::Environment;
        }
    }

    fn shorten_warnings(&mut self) {
        let more = self.warnings.len().saturating_sub(MOST_WARNINGS);
        if more > 0 {
            self.warnings.truncate(MOST_WARNINGS);
            self.warnings.push(format!("… and {more} more warnings about settings"));
        }
    }
}

fn environment_value(value: &OsStr) -> Given {
    value
        .to_str()
        .map_or(Given::Other("bytes that are not UTF-8"), |text| Given::Environment(text.to_owned()))
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map(|name| format!(" (did you mean {name}?)")).unwrap_or_default()
}

fn found(given: &Given) -> String {
    match given {
        Given::Environment(text) => quoted(text),
        Given::Text(text) => format!("the string {}", quoted(text)),
        Given::Whole(number) => format!("the whole number {number}"),
        Given::Decimal(number) => format!("the number {number:?}"),
        Given::Switch(value) => format!("the truth value {value}"),
        Given::Other(name) => (*name).to_owned(),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", one_line(text, MOST_QUOTED))
}

/// Text from outside as it may appear in a log: one line, at most so long, without control characters.
fn one_line(text: &str, most: usize) -> String {
    let mut shown: String = text.chars().take(most).flat_map(char::escape_debug).collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

impl fmt::Debug for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({:?})", self.setting.key, self.value, self.source)
    }
}
