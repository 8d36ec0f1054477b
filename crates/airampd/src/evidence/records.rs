//! A window as JSON lines: what was found, then each process, then its calls before and after. What would make
//! the file larger than it may be is left out, and the last line says so.

use std::io::{self, Write};

use airamp_observer::anomaly::{Call, Process, Window};
use airamp_observer::view::Finding;
use serde::Serialize;

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "snake_case")]
enum Line<'a> {
    Finding {
        schema: u32,
        node: &'a str,
        time_unix_ms: u64,
        processes: usize,
        #[serde(flatten)]
        finding: &'a Finding,
    },
    Process(About<'a>),
    Call {
        rank: Option<u32>,
        pid: u32,
        when: &'static str,
        #[serde(flatten)]
        call: &'a Call,
    },
    Cut {
        because: &'static str,
    },
}

/// A process without its calls.
#[derive(Serialize)]
struct About<'a> {
    rank: Option<u32>,
    pid: u32,
    device_uuid: &'a str,
    nic: &'a str,
    command: &'a str,
    version: &'a str,
    vendor: &'a str,
    calls: usize,
    lost: u64,
}

/// Writes at most so many bytes, and one line more where that cut something off.
pub(super) fn write(window: &Window, most: u64, to: &mut impl Write) -> io::Result<()> {
    let mut left = most;
    for line in lines(window) {
        let mut text = serde_json::to_vec(&line).map_err(io::Error::other)?;
        text.push(b'\n');
        let Some(after) = left.checked_sub(text.len() as u64) else {
            serde_json::to_writer(&mut *to, &Line::Cut { because: "the file would be too large" })?;
            return to.write_all(b"\n");
        };
        left = after;
        to.write_all(&text)?;
    }
    Ok(())
}

fn lines(window: &Window) -> impl Iterator<Item = Line<'_>> {
    let first = Line::Finding {
        schema: 1,
        node: &window.node,
        time_unix_ms: window.time_unix_ms,
        processes: window.processes.len(),
        finding: &window.finding,
    };
    let processes = window.processes.iter().map(|process| Line::Process(About::from(process)));
    std::iter::once(first).chain(processes).chain(window.processes.iter().flat_map(calls))
}

fn calls(process: &Process) -> impl Iterator<Item = Line<'_>> {
    let line = |when| {
        let (rank, pid) = (process.rank, process.pid);
        move |call| Line::Call { rank, pid, when, call }
    };
    process.before.iter().map(line("before")).chain(process.after.iter().map(line("after")))
}

impl<'a> From<&'a Process> for About<'a> {
    fn from(process: &'a Process) -> Self {
        Self {
            rank: process.rank,
            pid: process.pid,
            device_uuid: &process.device_uuid,
            nic: &process.nic,
            command: &process.command,
            version: &process.version,
            vendor: &process.vendor,
            calls: process.before.len() + process.after.len(),
            lost: process.lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let call = |sequence| Call { sequence, kind: "all_reduce".into(), ..Call::default() };
        let process = Process {
            rank: Some(3),
            pid: 77,
            before: vec![call(1), call(2)],
            after: vec![call(3)],
            ..Process::default()
        };
        Window { processes: vec![process], node: "n1".to_owned(), ..Window::default() }
    }

    fn written(most: u64) -> Vec<serde_json::Value> {
        let mut bytes = Vec::new();
        write(&window(), most, &mut bytes).expect("memory takes it");
        String::from_utf8(bytes)
            .expect("text")
            .lines()
            .map(|line| serde_json::from_str(line).expect("one JSON value per line"))
            .collect()
    }

    #[test]
    fn every_call_is_one_line_that_names_its_rank_and_its_side() {
        let lines = written(1 << 20);
        let kinds: Vec<_> = lines.iter().map(|line| line["record"].as_str().unwrap_or_default()).collect();
        assert_eq!(kinds, ["finding", "process", "call", "call", "call"]);
        assert_eq!((&lines[0]["node"], &lines[0]["kind"]), (&"n1".into(), &"late_rank".into()));
        assert_eq!(
            (&lines[2]["when"], &lines[2]["rank"], &lines[2]["sequence"]),
            (&"before".into(), &3.into(), &1.into())
        );
        assert_eq!((&lines[4]["when"], &lines[4]["sequence"]), (&"after".into(), &3.into()));
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_said_so() {
        let whole: usize = written(1 << 20).iter().map(|line| line.to_string().len() + 1).sum();
        let lines = written(whole as u64 - 10);
        assert_eq!(lines.last().map(|line| line["record"].clone()), Some("cut".into()));
        assert_eq!(lines.len(), 5);
    }
}
