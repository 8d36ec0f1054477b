//! Puts the sources on top of each other: default, file, environment. A value that is wrong is ignored
//! with a warning that names where it stands, what is right, and what comes of it: the value that is used instead,
//! or for compression that there is none.

use std::ffi::OsStr;
use std::fmt::{self, Write as _};
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
    /// Settings of compression with a wrong value that no stronger source makes up for: who asked for one must not get
    /// another.
    pub rejected: Vec<&'static str>,
    /// The same for the daemon's settings: a token that cannot be used must not mean that none is asked for.
    pub rejected_of_daemon: Vec<&'static str>,
    /// Names that nothing reads; one of them may have been meant to protect.
    pub unknown: Vec<Unknown>,
    sources: Vec<Source>,
    wrong: Vec<Wrong>,
}

/// A key or a variable that is no setting.
#[derive(Debug)]
pub struct Unknown {
    /// As it was written.
    pub name: String,
    /// The setting's key or variable that was probably meant.
    pub meant: Option<&'static str>,
    /// Where it stands and what was meant, for people.
    pub said: String,
}

/// A value that cannot be taken. What comes of it is known when all sources have been.
#[derive(Debug)]
struct Wrong {
    setting: usize,
    source: Source,
    warning: usize,
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
        unknown: Vec::new(),
        wrong: Vec::new(),
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
    loaded.settle_wrong();
    loaded.settle_job(environment);
    loaded.settle_mode();
    loaded.shorten_warnings();
    loaded
}

impl Loaded {
    fn warn_of_file(&mut self, error: &FileError) {
        let path = one_line(&self.file.to_string_lossy(), MOST_PATH);
        let why = match error {
            FileError::Missing => format!("settings file {path}: {error}"),
            _ => format!("settings file {path} {error}"),
        };
        self.warnings.push(format!("{why}; it is ignored"));
        // What is not there holds nothing: the volume that it is in may be an optional one.
        self.file_ignored = (!matches!(error, FileError::Missing)).then_some(why);
    }

    fn take_entry(&mut self, Entry { key, line, given, inside }: Entry) {
        match TABLE.iter().position(|setting| setting.key == key) {
            Some(index) => {
                let place = format!("{}: {key}", self.describe(Source::File { line }));
                self.take(index, &given, Source::File { line }, &place);
            }
            None if inside.is_empty() => self.take_unknown(key, line),
            None => inside.into_iter().for_each(|(name, line)| self.take_unknown(name, line)),
        }
    }

    fn take_unknown(&mut self, key: String, line: usize) {
        let place = self.describe(Source::File { line });
        // A variable's name in the file is its key with a prefix too many.
        let bare = key.get(.."AIRAMP_".len()).filter(|start| start.eq_ignore_ascii_case("AIRAMP_"));
        let bare = bare.map_or(key.as_str(), |start| &key[start.len()..]);
        let meant = nearest(bare, TABLE.iter().map(|setting| setting.key));
        self.warn_of_unknown(key, meant, |name| format!("{place}: unknown key {name}"));
    }

    fn take_environment(&mut self, environment: &Environment) {
        for (index, setting) in TABLE.iter().enumerate() {
            let Some(value) = environment.get(setting.env) else { continue };
            let given = environment_value(value);
            self.take(index, &given, Source::Environment, &format!("{} in the environment", setting.env));
        }
        for (name, nearest) in environment.unknown() {
            self.warn_of_unknown(name, nearest, |name| format!("unknown variable {name}"));
        }
    }

    fn warn_of_unknown(&mut self, name: String, meant: Option<&'static str>, say: impl Fn(&str) -> String) {
        let mut said = say(&quoted(&name));
        if let Some(meant) = meant {
            let _ = write!(said, " (did you mean {meant}?)");
        }
        self.warnings.push(format!("{said}; it is ignored"));
        self.unknown.push(Unknown { name, meant, said });
    }

    fn take(&mut self, index: usize, given: &Given, source: Source, place: &str) {
        let setting = &TABLE[index];
        if (setting.store)(&mut self.settings, given) {
            self.sources[index] = source;
            return;
        }
        self.wrong.push(Wrong { setting: index, source, warning: self.warnings.len() });
        self.warnings.push(format!("{place}: expected {}, found {}", (setting.expects)(), found(given)));
    }

    /// A right value in a stronger source makes up for a wrong one.
    fn settle_wrong(&mut self) {
        for Wrong { setting: index, source, warning } in std::mem::take(&mut self.wrong) {
            let setting = &TABLE[index];
            let is_rejected = self.sources[index].strength() < source.strength();
            let rejected = match setting.part {
                Part::Compression => Some(&mut self.rejected),
                Part::Daemon => Some(&mut self.rejected_of_daemon),
                Part::Library | Part::GhostKernels => None,
            };
            if let Some(rejected) = rejected.filter(|names| is_rejected && !names.contains(&setting.env)) {
                rejected.push(setting.env);
            }
            let outcome = if is_rejected && setting.part == Part::Compression {
                "nothing is compressed until it is right".to_owned()
            } else {
                match (setting.value)(&self.settings) {
                    Plain::Unset => "it stays unset".to_owned(),
                    used => format!("using {used} ({})", self.describe(self.sources[index])),
                }
            };
            let _ = write!(self.warnings[warning], "; {outcome}");
        }
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
