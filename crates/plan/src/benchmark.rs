//! What `airamp bench --json` printed, read without trust: a file of bounded size, as it stands or as gzip packed it, with
//! names that may be shown and times, sizes and ranks that can be. `measured` makes points of it.

use std::io::Read;
use std::ops::RangeInclusive;
use std::path::Path;

use flate2::read::GzDecoder;
use serde::Deserialize;

use crate::foreign::{is_name, short};
use crate::numbers::{LARGEST, version};

const LARGEST_FILE: u64 = 64 << 20;
/// What a call can take: a nanosecond to eleven days.
const TIMES_US: RangeInclusive<f64> = 1e-3..=1e12;
const RANKS: RangeInclusive<usize> = 2..=1 << 20;
/// How a file begins that gzip packed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[derive(Deserialize)]
pub(crate) struct File {
    pub(crate) airamp: String,
    pub(crate) date: String,
    pub(crate) complete: bool,
    pub(crate) emulated: bool,
    environment: Option<Environment>,
    pub(crate) settings: Settings,
    pub(crate) results: Vec<Row>,
}

#[derive(Deserialize)]
struct Environment {
    vendor: String,
    version: i32,
    device: String,
}

#[derive(Deserialize)]
pub(crate) struct Settings {
    pub(crate) arena_bytes: usize,
}

#[derive(Deserialize)]
pub(crate) struct Row {
    pub(crate) ranks: usize,
    pub(crate) link: String,
    pub(crate) datatype: String,
    pub(crate) bytes: usize,
    pub(crate) format: String,
    pub(crate) is_ours: bool,
    pub(crate) vendor_us: Option<f64>,
    pub(crate) time_us: Option<f64>,
    #[serde(default)]
    pub(crate) wire_bytes_per_element: Option<f64>,
}

impl Row {
    fn is_possible(&self) -> bool {
        let is_time = |time: Option<f64>| time.is_none_or(|time| TIMES_US.contains(&time));
        is_time(self.vendor_us)
            && is_time(self.time_us)
            && RANKS.contains(&self.ranks)
            && (1..=LARGEST).contains(&self.bytes)
    }
}

impl File {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|error| {
            format!("not the output of `airamp bench --json` (nor a saved fit): {}", short(error))
        })?;
        let heads = file.environment.iter().flat_map(|found| [&found.vendor, &found.device]);
        if !heads.chain([&file.airamp, &file.date]).all(|name| is_name(name)) {
            return Err("a name that is too long or has control characters".into());
        }
        if !(1..=LARGEST).contains(&file.settings.arena_bytes) {
            return Err("settings.arena_bytes: an arena that cannot be".into());
        }
        for (place, row) in file.results.iter().enumerate() {
            if !row.is_possible() {
                return Err(format!("results[{place}]: a time, a size or a number of ranks that cannot be"));
            }
            if ![&row.link, &row.datatype, &row.format].into_iter().all(|name| is_name(name)) {
                return Err(format!("results[{place}]: a name that is too long or has control characters"));
            }
        }
        Ok(file)
    }

    /// What was measured: files of two such devices are not joined.
    pub(crate) fn device(&self) -> String {
        self.environment.as_ref().map_or_else(
            || "unknown device".into(),
            |found| format!("{}, {} {}", found.device, found.vendor, version(found.version)),
        )
    }
}

/// As it stands, or as gzip packed it.
pub fn text_of(path: &Path) -> Result<String, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !found.is_file() {
        return Err("not a plain file".into());
    }
    if found.len() > LARGEST_FILE {
        return Err(format!("larger than {LARGEST_FILE} bytes"));
    }
    text_in(std::fs::read(path).map_err(|error| error.to_string())?)
}

pub fn text_in(bytes: Vec<u8>) -> Result<String, String> {
    let bytes = if bytes.starts_with(&GZIP) { unpacked(&bytes, LARGEST_FILE)? } else { bytes };
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// Few bytes can stand for very many, so that the limit holds for both.
fn unpacked(packed: &[u8], most: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = GzDecoder::new(packed).take(most + 1).read_to_end(&mut bytes);
    let length = read.map_err(|error| format!("not what gzip packed: {error}"))?;
    if length as u64 > most {
        return Err(format!("larger than {most} bytes when unpacked"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn what_gzip_packed_is_read_as_it_was() {
        let text = include_str!("../../../tests/bench/emulator-1gbit.json");
        let mut stored = tempfile::NamedTempFile::new().unwrap();
        stored.write_all(&packed(text)).unwrap();
        assert_eq!(text_of(stored.path()).unwrap(), text);
        assert!(File::parse(text).is_ok());
    }

    #[test]
    fn what_is_too_large_when_unpacked_or_broken_off_is_refused() {
        let whole = packed(&"a".repeat(1000));
        assert_eq!(unpacked(&whole, 1000).unwrap().len(), 1000);
        assert!(unpacked(&whole, 999).unwrap_err().contains("larger than 999 bytes"));
        assert!(unpacked(&whole[..whole.len() - 1], 1000).unwrap_err().contains("not what gzip packed"));
    }

    #[test]
    fn few_bytes_that_stand_for_very_many_are_refused() {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        for _ in 0..=LARGEST_FILE >> 20 {
            packed.write_all(&[b' '; 1 << 20]).unwrap();
        }
        let packed = packed.finish().unwrap();
        assert!(packed.len() < 1 << 20, "{}", packed.len());
        assert_eq!(text_in(packed).unwrap_err(), "larger than 67108864 bytes when unpacked");
    }
}
