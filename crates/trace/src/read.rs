//! Reads a trace that anybody may have written: every length and number has a bound, and what is refused is refused with
//! its line and the reason. Nothing is guessed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use airamp_telemetry::{Datatype, Kind};
use serde::Deserialize;

use crate::{Call, Communicator, MOST_CALLS, MOST_COMMUNICATORS, Trace, VERSION, bytes_of, write::COLUMNS};

const MOST_BYTES: u64 = 128 << 20;
const LONGEST_HEAD: usize = 64 << 10;
const LONGEST_LINE: usize = 256;
const LONGEST_SOURCE: usize = 512;
const MOST_RANKS: u32 = 1 << 20;
const MOST_ELEMENTS: u64 = 1 << 44;
/// About 100 days.
const LONGEST_NS: u64 = 1 << 53;

/// Why a file is no trace. Lines count from 1.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    #[error("line {line}: {reason}")]
    Line { line: usize, reason: String },
    #[error("larger than {MOST_BYTES} bytes")]
    TooLarge,
    #[error("more than {MOST_CALLS} calls")]
    TooManyCalls,
}

pub fn read_file(path: &Path) -> Result<Trace, TraceError> {
    let file = File::open(path)?;
    // A pipe or a device could give bytes for ever, or none.
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain file").into());
    }
    read(BufReader::new(file))
}

pub fn read(from: impl BufRead) -> Result<Trace, TraceError> {
    let mut lines = Lines { from: from.take(MOST_BYTES + 1), number: 0, text: Vec::new() };
    let head = lines.next(LONGEST_HEAD)?.ok_or_else(|| refused(1, "empty"))?;
    let mut trace = head_of(head).map_err(|reason| refused(1, reason))?;
    let mut at_ns = 0;
    while let Some(text) = lines.next(LONGEST_LINE)? {
        let call = call_of(text, at_ns, trace.communicators.len());
        let call = call.map_err(|reason| refused(lines.number, reason))?;
        if trace.calls.len() == MOST_CALLS {
            return Err(TraceError::TooManyCalls);
        }
        at_ns = call.at_ns;
        trace.calls.push(call);
    }
    Ok(trace)
}

fn refused(line: usize, reason: impl Into<String>) -> TraceError {
    TraceError::Line { line, reason: reason.into() }
}

struct Lines<R> {
    from: io::Take<R>,
    number: usize,
    text: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    /// The next line without its end; a longer one than `longest` is refused before it is in memory.
    fn next(&mut self, longest: usize) -> Result<Option<&[u8]>, TraceError> {
        self.number += 1;
        self.text.clear();
        let read = (&mut self.from).take(longest as u64 + 1).read_until(b'\n', &mut self.text)?;
        if self.from.limit() == 0 {
            return Err(TraceError::TooLarge);
        }
        match self.text.last() {
            None => Ok(None),
            Some(b'\n') => Ok(self.text.get(..read - 1)),
            Some(_) if read > longest => Err(refused(self.number, format!("longer than {longest} bytes"))),
            // What was cut off in the middle of a line is not taken for a shorter number.
            Some(_) => Err(refused(self.number, "does not end: the file is cut off")),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    airamp_trace: u32,
    source: String,
    lost: u64,
    communicators: Vec<Member>,
    columns: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    name: String,
    rank: u32,
    ranks: u32,
}

#[derive(Deserialize)]
struct OfAnyVersion {
    airamp_trace: u32,
}

/// An error may repeat what it was found in, however long that is.
fn short(error: &serde_json::Error) -> String {
    const LONGEST: usize = 200;
    let text = error.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn head_of(text: &[u8]) -> Result<Trace, String> {
    let version = serde_json::from_slice::<OfAnyVersion>(text)
        .map_err(|error| format!("no trace: {}", short(&error)))?;
    if version.airamp_trace != VERSION {
        return Err(format!("version {}; this program reads version {VERSION}", version.airamp_trace));
    }
    let head: Head = serde_json::from_slice(text).map_err(|error| short(&error))?;
    if head.source.chars().count() > LONGEST_SOURCE || head.source.chars().any(char::is_control) {
        return Err(format!(
            "the source is longer than {LONGEST_SOURCE} characters, or has control characters"
        ));
    }
    if head.communicators.len() > MOST_COMMUNICATORS {
        return Err(format!("more than {MOST_COMMUNICATORS} communicators"));
    }
    if head.columns != COLUMNS {
        return Err(format!("the columns are not {}", COLUMNS.join(", ")));
    }
    let communicators = head.communicators.iter().map(communicator).collect::<Result<_, _>>()?;
    let (version, calls) = (head.airamp_trace, Vec::new());
    Ok(Trace { version, source: head.source, communicators, calls, lost: head.lost })
}

fn communicator(member: &Member) -> Result<Communicator, String> {
    let Member { name, rank, ranks } = member;
    if *ranks == 0 || *ranks > MOST_RANKS || rank >= ranks {
        return Err(format!("rank {rank} of {ranks}"));
    }
    let is_hex = name.len() == 16 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    let name = u64::from_str_radix(name, 16).ok().filter(|_| is_hex);
    let name = name.ok_or("a communicator's name is not 16 hexadecimal digits")?;
    Ok(Communicator { ranks: *ranks, rank: *rank, name })
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Cells<'a> {
    Measured(u64, u16, &'a str, &'a str, u64, &'a str, u32),
    Flagged(u64, u16, &'a str, &'a str, u64, &'a str),
    Plain(u64, u16, &'a str, &'a str, u64),
}

fn call_of(text: &[u8], before_ns: u64, communicators: usize) -> Result<Call, String> {
    let cells = serde_json::from_slice(text)
        .map_err(|_| format!("not the cells of a call: {}", COLUMNS.join(", ")))?;
    let (after_ns, communicator, kind, datatype, count, flags, device_ns) = match cells {
        Cells::Measured(a, c, k, d, n, flags, device_ns) => (a, c, k, d, n, flags, Some(device_ns)),
        Cells::Flagged(a, c, k, d, n, flags) => (a, c, k, d, n, flags, None),
        Cells::Plain(a, c, k, d, n) => (a, c, k, d, n, "", None),
    };
    let at_ns = before_ns.checked_add(after_ns).filter(|at_ns| *at_ns <= LONGEST_NS);
    let kind = Kind::from_name(kind).ok_or("the kind of call is not known")?;
    let datatype = Datatype::all().find(|one| one.name() == datatype).ok_or("the datatype is not known")?;
    if usize::from(communicator) >= communicators {
        return Err(format!("communicator {communicator} of {communicators}"));
    }
    if count > MOST_ELEMENTS {
        return Err(format!("more than {MOST_ELEMENTS} elements"));
    }
    let (group, captured) = match flags {
        "" => (false, false),
        "g" => (true, false),
        "c" => (false, true),
        "gc" => (true, true),
        _ => return Err("the flags are not g, c or gc".into()),
    };
    Ok(Call {
        at_ns: at_ns.ok_or("too long after the first call")?,
        communicator,
        kind: kind as u8,
        datatype: datatype.0,
        count,
        bytes: bytes_of(datatype.0, count),
        group,
        captured,
        device_ns: device_ns.filter(|ns| *ns > 0),
    })
}
