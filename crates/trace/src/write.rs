//! Writes a trace: a line that says what it is, then a line for each call. What a call has not is left out at its end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use airamp_telemetry::{Datatype, Kind};
use serde::Serialize;

use crate::{Call, Communicator, Trace, VERSION};

#[derive(Serialize)]
struct Head<'a> {
    airamp_trace: u32,
    source: &'a str,
    lost: u64,
    communicators: Vec<Member>,
    columns: [&'static str; 7],
}

#[derive(Serialize)]
struct Member {
    name: String,
    rank: u32,
    ranks: u32,
}

/// The cells of a call's line, in their order.
pub(crate) const COLUMNS: [&str; 7] =
    ["after_ns", "communicator", "kind", "datatype", "count", "flags", "device_ns"];

pub fn write(trace: &Trace, to: &mut dyn Write) -> io::Result<()> {
    let head = Head {
        airamp_trace: VERSION,
        source: &trace.source,
        lost: trace.lost,
        communicators: trace.communicators.iter().map(member).collect(),
        columns: COLUMNS,
    };
    serde_json::to_writer(&mut *to, &head)?;
    to.write_all(b"\n")?;
    let mut before_ns = 0;
    for call in &trace.calls {
        to.write_all(line(call, before_ns).as_bytes())?;
        before_ns = call.at_ns;
    }
    to.flush()
}

/// The file is whole or not there: it gets its name last.
pub fn write_file(trace: &Trace, path: &Path) -> io::Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".new");
    let written = File::create(&unfinished)
        .and_then(|file| write(trace, &mut BufWriter::new(file)))
        .and_then(|()| std::fs::rename(&unfinished, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    written
}

fn member(communicator: &Communicator) -> Member {
    let Communicator { ranks, rank, name } = *communicator;
    Member { name: format!("{name:016x}"), rank, ranks }
}

/// All its words are of this program's own lists: nothing in them needs quoting.
fn line(call: &Call, before_ns: u64) -> String {
    let kind = Kind::from_number(call.kind.into()).map_or("all_reduce", Kind::name);
    let datatype = Datatype::of(call.datatype.into()).name();
    let after_ns = call.at_ns.saturating_sub(before_ns);
    let mut line = format!("[{after_ns},{},\"{kind}\",\"{datatype}\",{}", call.communicator, call.count);
    if call.group || call.captured || call.device_ns.is_some() {
        let (group, captured) = (if call.group { "g" } else { "" }, if call.captured { "c" } else { "" });
        line.push_str(&format!(",\"{group}{captured}\""));
    }
    if let Some(ns) = call.device_ns {
        line.push_str(&format!(",{ns}"));
    }
    line.push_str("]\n");
    line
}
