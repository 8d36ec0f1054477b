//! The cache as text: TOML, and always the same text for the same cache.

use std::fmt::Write as _;

use serde::Deserialize;

use super::{Cache, CacheError, CachedClass, Figure, Hash, LONGEST_TEXT, MOST_TUNINGS, Tuning, VERSION};
use crate::class::Class;

const HEAD: &str =
    "# Kept by AIRAMP_TUNING_CACHE. It can be deleted at any time; the next job then tunes itself anew.\n";

#[derive(Deserialize)]
struct Versioned {
    version: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "version")]
    _version: i64,
    #[serde(rename = "check")]
    _check: String,
    #[serde(default)]
    tuning: Vec<FileTuning>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileTuning {
    key: String,
    class: Vec<FileClass>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileClass {
    datatype: String,
    from_bytes: u64,
    /// Absent: the vendor's.
    variant: Option<u8>,
    figure: Option<FileFigure>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileFigure {
    count: u64,
    ours_us: f64,
    vendor_us: f64,
    vnmse: f64,
}

pub(super) fn write(tunings: &[Tuning]) -> String {
    let mut body = String::new();
    for tuning in tunings {
        let _ = write!(body, "\n[[tuning]]\nkey = \"{:016x}\"\n", tuning.key);
        tuning.classes.iter().for_each(|class| write_class(&mut body, class));
    }
    seal(&body)
}

pub fn seal(body: &str) -> String {
    let mut sum = Hash::default();
    sum.add(body.as_bytes());
    format!("{HEAD}version = {VERSION}\ncheck = \"{:016x}\"\n{body}", sum.0)
}

/// A text that is whole says of its body what `seal` says. It shows a file that was cut short where a shorter one
/// could end.
fn is_whole(text: &str) -> bool {
    let body = text.match_indices('\n').nth(2).and_then(|(end, _)| text.get(end + 1..));
    body.is_some_and(|body| seal(body) == text)
}

fn write_class(text: &mut String, cached: &CachedClass) {
    let Some(class) = Class::from_place(cached.place) else { return };
    let _ = write!(
        text,
        "[[tuning.class]]\ndatatype = \"{}\"\nfrom_bytes = {}\n",
        class.datatype(),
        class.bytes().0
    );
    if let Some(variant) = cached.variant {
        let _ = writeln!(text, "variant = {variant}");
    }
    if let Some(Figure { count, ours_us, vendor_us, vnmse }) = cached.figure {
        let vnmse = if vnmse.is_finite() { format!("{vnmse:?}") } else { "inf".to_owned() };
        let _ = writeln!(
            text,
            "figure = {{ count = {count}, ours_us = {ours_us:?}, vendor_us = {vendor_us:?}, vnmse = {vnmse} }}"
        );
    }
}

pub(super) fn parse(text: &str) -> Result<Cache, CacheError> {
    if text.len() > LONGEST_TEXT {
        return Err(CacheError::TooLarge);
    }
    // The version first: what another version has written may look different everywhere else.
    let version = toml::from_str::<Versioned>(text).map_err(damaged)?.version;
    if version != VERSION {
        return Err(CacheError::Version(version));
    }
    if !is_whole(text) {
        return Err(CacheError::Damaged("it was changed or cut short after it was written".to_owned()));
    }
    let file: File = toml::from_str(text).map_err(damaged)?;
    if file.tuning.len() > MOST_TUNINGS {
        return Err(CacheError::Damaged(format!("more than {MOST_TUNINGS} tunings")));
    }
    let mut cache = Cache::default();
    for tuning in file.tuning {
        let tuning = read_tuning(tuning)?;
        if cache.get(tuning.key).is_some() {
            return Err(CacheError::Damaged(format!("the key {:016x} comes twice", tuning.key)));
        }
        cache.insert(tuning);
    }
    Ok(cache)
}

/// The parser's messages quote the line; the first says enough.
fn damaged(error: toml::de::Error) -> CacheError {
    CacheError::Damaged(error.message().chars().filter(|symbol| !symbol.is_control()).take(200).collect())
}

fn read_tuning(tuning: FileTuning) -> Result<Tuning, CacheError> {
    let wrong = |what: &str| CacheError::Damaged(what.to_owned());
    let digits =
        tuning.key.len() == 16 && tuning.key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let key = u64::from_str_radix(&tuning.key, 16).ok().filter(|_| digits);
    let key = key.ok_or_else(|| wrong("a key is not sixteen hexadecimal digits"))?;
    let classes = tuning.class.into_iter().map(read_class).collect::<Option<Vec<_>>>();
    let classes = classes.ok_or_else(|| wrong("a class that does not exist"))?;
    Tuning::new(key, classes).ok_or_else(|| wrong("classes out of order, or with numbers that make no sense"))
}

fn read_class(class: FileClass) -> Option<CachedClass> {
    let named =
        |candidate: &Class| candidate.datatype() == class.datatype && candidate.bytes().0 == class.from_bytes;
    let place = (0..).map_while(Class::from_place).find(named)?.place();
    let figure = class.figure.map(|figure| Figure {
        count: figure.count,
        ours_us: figure.ours_us,
        vendor_us: figure.vendor_us,
        vnmse: figure.vnmse,
    });
    Some(CachedClass { place, variant: class.variant, figure })
}
