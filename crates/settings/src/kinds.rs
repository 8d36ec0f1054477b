//! The kinds of value that a setting can have: how each is read, what it expects, how it is shown.
//! A kind accepts or refuses; it knows nothing of names, files or warnings. Used by the table.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use serde::Serialize;

/// The longest path that Linux accepts, without the final NUL.
const MAX_PATH_BYTES: usize = 4095;

/// Job names are shown and sent around.
const MAX_NAME_BYTES: usize = 128;

/// A value as its source wrote it, before anyone knows whether it is right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Given {
    /// The environment knows only text, so every kind must read it from text.
    Environment(String),
    Text(String),
    Whole(i64),
    Decimal(f64),
    Switch(bool),
    /// A TOML value that no setting takes, by its name with an article.
    Other(&'static str),
}

impl Given {
    fn environment(&self) -> Option<&str> {
        match self {
            Self::Environment(text) => Some(text.trim()),
            _ => None,
        }
    }

    fn any_text(&self) -> Option<&str> {
        match self {
            Self::Environment(text) | Self::Text(text) => Some(text.trim()),
            _ => None,
        }
    }
}

/// A value as it is shown: text for people through `Display`, a typed value in JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Plain {
    Switch(bool),
    Whole(u64),
    Bytes(u64),
    Decimal(f64),
    Text(String),
    Unset,
}

impl fmt::Display for Plain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Switch(value) => write!(f, "{value}"),
            Self::Whole(value) => write!(f, "{value}"),
            Self::Bytes(value) => write_size(f, *value),
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Text(value) => write!(f, "{value}"),
            Self::Unset => write!(f, "(unset)"),
        }
    }
}

fn write_size(f: &mut fmt::Formatter<'_>, bytes: u64) -> fmt::Result {
    let unit =
        SIZE_UNITS.iter().find(|(_, factor)| bytes != 0 && *factor > 1 && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => write!(f, "{} {name}", bytes / factor),
        None => write!(f, "{bytes}"),
    }
}

/// What every kind of value can do.
pub(crate) trait Kind {
    type Value;

    fn read(&self, given: &Given) -> Option<Self::Value>;
    /// Completes the sentence "expected …".
    fn expects(&self) -> String;
    fn plain(&self, value: &Self::Value) -> Plain;
}

/// How far the library goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every call goes to the vendor; calls are only seen.
    Observe,
    /// As `Observe`, with dry trials that never touch user data.
    Shadow,
    /// Compress where the ranks agree on it and it pays.
    On,
}

/// Which 8-bit format travels on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireFormat {
    Auto,
    E4m3,
    E5m2,
    Int8,
}

/// How much is logged; each level includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

/// What a locked pattern is used for, each for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternEffects {
    /// How a compressed call is cut is looked up, not computed.
    pub plans: bool,
    /// Device times are also taken where a step begins.
    pub samples: bool,
    /// The leader is told which chunks fit the calls of the step, and may have them tried.
    pub chunks: bool,
}

impl PatternEffects {
    pub const ALL: Self = Self { plans: true, samples: true, chunks: true };
    pub const NONE: Self = Self { plans: false, samples: false, chunks: false };
}

/// One of a few words.
pub(crate) struct Choice<T: 'static>(pub(crate) &'static [(&'static str, T)]);

pub(crate) const MODES: Choice<Mode> =
    Choice(&[("observe", Mode::Observe), ("shadow", Mode::Shadow), ("on", Mode::On)]);

pub(crate) const WIRE_FORMATS: Choice<WireFormat> = Choice(&[
    ("auto", WireFormat::Auto),
    ("e4m3", WireFormat::E4m3),
    ("e5m2", WireFormat::E5m2),
    ("int8", WireFormat::Int8),
]);

pub(crate) const LOG_LEVELS: Choice<LogLevel> = Choice(&[
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
]);

impl<T: Copy + PartialEq> Kind for Choice<T> {
    type Value = T;

    fn read(&self, given: &Given) -> Option<T> {
        let text = given.any_text()?;
        self.0.iter().find(|(word, _)| word.eq_ignore_ascii_case(text)).map(|(_, value)| *value)
    }

    fn expects(&self) -> String {
        let words: Vec<String> = self.0.iter().map(|(word, _)| format!("`{word}`")).collect();
        match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            _ => words.concat(),
        }
    }

    fn plain(&self, value: &T) -> Plain {
        let word = self.0.iter().find(|(_, known)| known == value).map_or("", |(word, _)| word);
        Plain::Text(word.to_owned())
    }
}

/// A list of effects, separated by commas; or all of them, or none.
pub(crate) struct Effects;

impl Effects {
    const WORDS: [&str; 3] = ["plans", "samples", "chunks"];

    fn one<'a>(effects: &'a mut PatternEffects, word: &str) -> Option<&'a mut bool> {
        match word {
            "plans" => Some(&mut effects.plans),
            "samples" => Some(&mut effects.samples),
            "chunks" => Some(&mut effects.chunks),
            _ => None,
        }
    }
}

impl Kind for Effects {
    type Value = PatternEffects;

    fn read(&self, given: &Given) -> Option<PatternEffects> {
        let text = given.any_text()?.to_ascii_lowercase();
        let mut effects = PatternEffects::NONE;
        match text.as_str() {
            "all" => return Some(PatternEffects::ALL),
            "none" => return Some(effects),
            _ => {}
        }
        for word in text.split(',') {
            *Self::one(&mut effects, word.trim())? = true;
        }
        Some(effects)
    }

    fn expects(&self) -> String {
        let words = Self::WORDS.map(|word| format!("`{word}`")).join(", ");
        format!("`all`, `none`, or some of {words}, separated by commas")
    }

    fn plain(&self, value: &PatternEffects) -> Plain {
        let mut value = *value;
        let chosen: Vec<&str> = Self::WORDS
            .into_iter()
            .filter(|word| Self::one(&mut value, word).is_some_and(|one| *one))
            .collect();
        Plain::Text(match value {
            PatternEffects::ALL => "all".to_owned(),
            PatternEffects::NONE => "none".to_owned(),
            _ => chosen.join(","),
        })
    }
}

/// On or off.
pub(crate) struct Switch;

impl Kind for Switch {
    type Value = bool;

    fn read(&self, given: &Given) -> Option<bool> {
        if let Given::Switch(value) = given {
            return Some(*value);
        }
        let is_one_of = |words: &[&str], text: &str| words.iter().any(|word| word.eq_ignore_ascii_case(text));
        match given.environment()? {
            text if is_one_of(&["1", "true", "yes", "on"], text) => Some(true),
            text if is_one_of(&["0", "false", "no", "off"], text) => Some(false),
            _ => None,
        }
    }

    fn expects(&self) -> String {
        "`true` or `false` (in the environment also `1` or `0`)".to_owned()
    }

    fn plain(&self, value: &bool) -> Plain {
        Plain::Switch(*value)
    }
}

/// A whole number between two bounds, both included.
pub(crate) struct Whole<T> {
    pub(crate) least: T,
    pub(crate) most: T,
}

impl<T> Kind for Whole<T>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    type Value = T;

    fn read(&self, given: &Given) -> Option<T> {
        let number = match given {
            Given::Whole(value) => u64::try_from(*value).ok()?,
            other => other.environment()?.parse().ok()?,
        };
        within(number, self.least.into(), self.most.into()).and_then(|number| T::try_from(number).ok())
    }

    fn expects(&self) -> String {
        format!("a whole number from {} to {}", self.least.into(), self.most.into())
    }

    fn plain(&self, value: &T) -> Plain {
        Plain::Whole((*value).into())
    }
}

/// `auto`, which is no number, or a whole one between two bounds, both included.
pub(crate) struct AutoOr<T>(pub(crate) Whole<T>);

const AUTO: &str = "auto";

impl<T> Kind for AutoOr<T>
where
    T: Copy + Into<u64> + TryFrom<u64>,
{
    type Value = Option<T>;

    fn read(&self, given: &Given) -> Option<Option<T>> {
        let is_auto = given.any_text().is_some_and(|text| text.eq_ignore_ascii_case(AUTO));
        if is_auto { Some(None) } else { self.0.read(given).map(Some) }
    }

    fn expects(&self) -> String {
        format!("`{AUTO}` or {}", self.0.expects())
    }

    fn plain(&self, value: &Option<T>) -> Plain {
        value.map_or_else(|| Plain::Text(AUTO.to_owned()), |number| Plain::Whole(number.into()))
    }
}

fn within(number: u64, least: u64, most: u64) -> Option<u64> {
    (least..=most).contains(&number).then_some(number)
}

/// Largest first, so that a size is shown in the largest unit that divides it.
const SIZE_UNITS: &[(&str, u64)] = &[("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// A number of bytes between two bounds, both included.
pub(crate) struct Size {
    pub(crate) least: u64,
    pub(crate) most: u64,
}

impl Kind for Size {
    type Value = u64;

    fn read(&self, given: &Given) -> Option<u64> {
        let bytes = match given {
            Given::Whole(value) => u64::try_from(*value).ok()?,
            other => size_from_text(other.any_text()?)?,
        };
        within(bytes, self.least, self.most)
    }

    fn expects(&self) -> String {
        format!(
            "a number of bytes from {} to {}, as a whole number or with KiB, MiB or GiB (`\"16 MiB\"`)",
            Plain::Bytes(self.least),
            Plain::Bytes(self.most)
        )
    }

    fn plain(&self, value: &u64) -> Plain {
        Plain::Bytes(*value)
    }
}

fn size_from_text(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let factor =
        SIZE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim())).map(|(_, f)| *f)?;
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// A number with a fraction between two bounds, both included.
pub(crate) struct Decimal {
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Kind for Decimal {
    type Value = f64;

    fn read(&self, given: &Given) -> Option<f64> {
        let number = match given {
            Given::Decimal(value) => *value,
            Given::Whole(value) => *value as f64,
            other => other.environment()?.parse().ok()?,
        };
        (self.least..=self.most).contains(&number).then_some(number)
    }

    fn expects(&self) -> String {
        format!("a number from {} to {}", self.least, self.most)
    }

    fn plain(&self, value: &f64) -> Plain {
        Plain::Decimal(*value)
    }
}

/// A network address without a port. Names are refused: looking one up could block a job's start.
pub(crate) struct Address;

impl Kind for Address {
    type Value = IpAddr;

    fn read(&self, given: &Given) -> Option<IpAddr> {
        given.any_text()?.parse().ok()
    }

    fn expects(&self) -> String {
        "an IPv4 or IPv6 address (`127.0.0.1`, `::1`)".to_owned()
    }

    fn plain(&self, value: &IpAddr) -> Plain {
        Plain::Text(value.to_string())
    }
}

/// The path of a file, or nothing. Whether the file exists is for its user to find out.
pub(crate) struct FilePath;

impl Kind for FilePath {
    type Value = Option<PathBuf>;

    fn read(&self, given: &Given) -> Option<Option<PathBuf>> {
        // Not trimmed: a path may begin or end with a space.
        let (Given::Environment(text) | Given::Text(text)) = given else { return None };
        let usable = !text.is_empty() && text.len() <= MAX_PATH_BYTES && !text.contains('\0');
        usable.then(|| Some(PathBuf::from(text)))
    }

    fn expects(&self) -> String {
        format!("a path of 1 to {MAX_PATH_BYTES} bytes")
    }

    fn plain(&self, value: &Option<PathBuf>) -> Plain {
        value.as_ref().map_or(Plain::Unset, |path| Plain::Text(path.display().to_string()))
    }
}

/// The same where a path that depends on the current folder is of no use: it would mean another place to each process.
pub(crate) struct AbsolutePath;

impl Kind for AbsolutePath {
    type Value = Option<PathBuf>;

    fn read(&self, given: &Given) -> Option<Option<PathBuf>> {
        FilePath.read(given).filter(|path| path.as_ref().is_some_and(|path| path.is_absolute()))
    }

    fn expects(&self) -> String {
        format!("an absolute path of 1 to {MAX_PATH_BYTES} bytes")
    }

    fn plain(&self, value: &Option<PathBuf>) -> Plain {
        FilePath.plain(value)
    }
}

/// A word or two on one line, or nothing.
pub(crate) struct Name;

impl Kind for Name {
    type Value = Option<String>;

    fn read(&self, given: &Given) -> Option<Option<String>> {
        let text = given.any_text()?;
        let usable = (1..=MAX_NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control);
        usable.then(|| Some(text.to_owned()))
    }

    fn expects(&self) -> String {
        format!("1 to {MAX_NAME_BYTES} bytes of text on one line")
    }

    fn plain(&self, value: &Option<String>) -> Plain {
        value.as_ref().map_or(Plain::Unset, |name| Plain::Text(name.clone()))
    }
}
