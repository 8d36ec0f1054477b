//! The parts of a job's view as lines of text, each at most as wide as there is room. The live view shows one at a
//! time, `--once` all of them.

use airamp_observer::view::{
    Communicator, CommunicatorState, Job, Member, Node, ProcessState, Rank, Severity,
};
use airamp_policy::explain::ClassName;
use serde::Serialize;

use super::keys::Section;
use super::overview;
use super::quantities::{bytes, clock, count, known, percent, rate, seconds};
use super::table::{Line, Table, Tone, number, word};
use crate::columns::time;
use crate::explain;

pub(super) fn of(section: Section, node: &Node, job: &Job, width: usize) -> Vec<Line> {
    match section {
        Section::Overview => overview::of(node, job, width),
        Section::Ranks => ranks(job, width),
        Section::Communicators => communicators(job, width),
        Section::Classes => classes(job, width),
        Section::Calls => calls(job, width),
        Section::Events => events(node, job, width),
    }
}

fn none(what: &str) -> Vec<Line> {
    vec![Line::new(Tone::Quiet, what)]
}

fn ranks(job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([
        number("rank", 0),
        word("state", 0),
        number("carries", 0),
        number("on the wire", 5),
        number("calls/s", 6),
        number("latency", 2),
        number("lag", 0),
        number("last", 1),
        number("step", 4),
        number("step time", 3),
        number("gpu", 7),
        word("nic", 9),
        number("pid", 8),
        word("program", 10),
    ]);
    for rank in &job.ranks {
        let rates = &rank.rates;
        let cells = [
            known(rank.rank, |rank| rank.to_string()),
            state(rank),
            rate(rates.logical_bytes_per_s),
            rate(rates.wire_bytes_per_s),
            format!("{:.0}", rates.calls_per_s),
            known(rates.mean_latency_s, seconds),
            known(rank.lag_s, seconds),
            known(rank.last_share, percent),
            known(rank.rhythm.step, |step| step.to_string()),
            known(rank.rhythm.step_s, seconds),
            known(rank.device, |device| device.to_string()),
            rank.nic.clone(),
            rank.pid.to_string(),
            rank.command.clone(),
        ];
        table.push(cells, tone_of(rank));
    }
    if table.rows.is_empty() { none("no rank of this job is seen here") } else { table.fitted(width) }
}

fn state(rank: &Rank) -> String {
    let process = match rank.process_state {
        ProcessState::Running | ProcessState::Foreign => rank.state.to_string(),
        other => spelled(&other),
    };
    if rank.late { format!("{process}, late") } else { process }
}

fn tone_of(rank: &Rank) -> Tone {
    match rank.process_state {
        ProcessState::Stopped | ProcessState::Blocked => Tone::Bad,
        ProcessState::Gone | ProcessState::Left => Tone::Quiet,
        _ if rank.late => Tone::Warning,
        _ => Tone::Plain,
    }
}

fn communicators(job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([
        word("communicator", 0),
        number("ranks", 2),
        word("state", 0),
        number("issued", 0),
        number("completed", 1),
        number("in flight", 3),
        word("agreement", 0),
        word("pattern", 4),
        number("compressed", 5),
        number("trials", 7),
        number("vNMSE", 6),
        number("arena", 8),
        word("why", 0),
    ]);
    for communicator in &job.communicators {
        table.push(row(communicator), tone_of_communicator(communicator));
    }
    if table.rows.is_empty() { none("no communicator is seen here") } else { table.fitted(width) }
}

fn row(communicator: &Communicator) -> [String; 13] {
    let members = &communicator.ranks;
    let largest = |of: fn(&Member) -> Option<f64>| members.iter().filter_map(of).max_by(f64::total_cmp);
    let here = if communicator.elsewhere == 0 {
        communicator.size.to_string()
    } else {
        format!("{} of {}", members.len(), communicator.size)
    };
    [
        communicator.name.clone(),
        here,
        spelled(&communicator.state),
        span(members.iter().map(|member| member.issued)),
        span(members.iter().map(|member| member.completed)),
        known(largest(|member| member.oldest_in_flight_s), seconds),
        distinct(members.iter().map(|member| member.agreement.as_ref())),
        distinct(members.iter().map(|member| member.pattern.state.as_ref())),
        span(members.iter().map(|member| member.compressed_calls)),
        span(members.iter().map(|member| member.trial_calls)),
        known(largest(|member| member.vnmse), |error| format!("{error:.1e}")),
        members
            .iter()
            .map(|member| member.arena_bytes)
            .max()
            .filter(|&most| most > 0)
            .map(bytes)
            .unwrap_or_default(),
        why(communicator),
    ]
}

/// Ranks that are behind; else why the ranks did not agree.
fn why(communicator: &Communicator) -> String {
    if !communicator.missing.is_empty() {
        let sequence = known(communicator.behind_sequence, |at| format!(" at call {at}"));
        return format!("waits for {}{sequence}", explain::ranks(&communicator.missing));
    }
    distinct(
        communicator.ranks.iter().map(|member| member.reason.as_str()).filter(|reason| !reason.is_empty()),
    )
}

fn tone_of_communicator(communicator: &Communicator) -> Tone {
    match communicator.state {
        CommunicatorState::Running => Tone::Plain,
        CommunicatorState::Late => Tone::Warning,
        CommunicatorState::Hung | CommunicatorState::Poisoned => Tone::Bad,
        CommunicatorState::Ended => Tone::Quiet,
    }
}

/// `7`, or `5-7` where the ranks differ.
fn span(numbers: impl Iterator<Item = u64> + Clone) -> String {
    match (numbers.clone().min(), numbers.max()) {
        (Some(least), Some(most)) if least != most => format!("{least}-{most}"),
        (Some(same), _) => same.to_string(),
        _ => String::new(),
    }
}

fn distinct<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let mut all: Vec<&str> = Vec::new();
    for word in words {
        if !all.contains(&word) {
            all.push(word);
        }
    }
    all.join(", ")
}

fn classes(job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([
        word("calls", 0),
        word("decision", 0),
        number("speedup", 1),
        number("ours", 3),
        number("vendor", 4),
        number("vNMSE", 2),
        number("from call", 5),
        word("communicator", 6),
        word("why", 0),
    ]);
    for class in &job.classes {
        let name = ClassName {
            collective: class.collective.clone(),
            datatype: class.datatype.clone(),
            from_bytes: class.from_bytes,
            below_bytes: class.below_bytes,
        };
        let cells = [
            explain::class(&name),
            class.decision.to_string(),
            known(class.speedup, |speedup| format!("{speedup:.2}x")),
            known(class.ours_us, time),
            known(class.vendor_us, time),
            known(class.vnmse, |error| format!("{error:.1e}")),
            known(class.index, |index| index.to_string()),
            class.communicator.clone(),
            class.reason.clone(),
        ];
        let tone = if class.decision == "compressed" { Tone::Good } else { Tone::Plain };
        table.push(cells, tone);
    }
    match table.rows.is_empty() {
        true if job.mode == "observe" => {
            none("nothing is decided in mode observe; AIRAMP_MODE=shadow shows what compression would do")
        }
        true => none("nothing has been decided yet; `airamp explain --live` says what each rank said"),
        false => table.fitted(width),
    }
}

fn calls(job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([
        word("kind", 0),
        word("path", 0),
        word("datatype", 1),
        number("calls", 0),
        number("bytes", 0),
        number("on the wire", 2),
        number("saved", 3),
    ]);
    for row in &job.totals.calls {
        let cells = [
            row.kind.to_string(),
            row.path.to_string(),
            row.datatype.to_string(),
            count(row.calls),
            bytes(row.logical_bytes),
            bytes(row.wire_bytes),
            bytes(row.saved_bytes),
        ];
        table.push(cells, Tone::Plain);
    }
    let mut lines = if table.rows.is_empty() { none("no call yet") } else { table.fitted(width) };
    lines.extend(not_compressed(job, width));
    lines
}

fn not_compressed(job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([word("not compressed because of", 0), number("calls", 0)]);
    for fallback in &job.totals.fallbacks {
        table.push([fallback.reason.to_string(), count(fallback.calls)], Tone::Plain);
    }
    for error in &job.totals.errors {
        table.push([format!("error: the call returned {}", error.result), count(error.calls)], Tone::Bad);
    }
    if table.rows.is_empty() {
        return Vec::new();
    }
    [vec![Line::plain("")], table.fitted(width)].concat()
}

fn events(node: &Node, job: &Job, width: usize) -> Vec<Line> {
    let mut table = Table::new([
        word("time", 0),
        word("severity", 1),
        number("rank", 0),
        word("communicator", 3),
        number("step", 4),
        word("event", 0),
        word("text", 0),
    ]);
    for event in node.events.iter().rev().filter(|event| event.job == job.label) {
        let cells = [
            clock(event.time_unix_ms),
            spelled(&event.severity),
            known(event.rank, |rank| rank.to_string()),
            event.communicator.clone(),
            known(event.step, |step| step.to_string()),
            event.kind.to_string(),
            event.text.clone(),
        ];
        table.push(cells, tone_of_severity(event.severity));
    }
    if table.rows.is_empty() { none("nothing has happened yet") } else { table.fitted(width) }
}

pub(super) fn tone_of_severity(severity: Severity) -> Tone {
    match severity {
        Severity::Info => Tone::Plain,
        Severity::Warning => Tone::Warning,
        Severity::Error => Tone::Bad,
    }
}

/// As it stands in the JSON.
pub(super) fn spelled(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).ok();
    value.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::table::wide;

    fn texts(section: Section, width: usize) -> String {
        let node = Node::example();
        let lines = of(section, &node, &node.jobs[0], width);
        lines.into_iter().map(|line| line.text + "\n").collect()
    }

    #[test]
    fn each_section_shows_what_the_node_holds() {
        let expected: [(Section, &[&str]); 6] = [
            (
                Section::Overview,
                &[
                    "80.0 Gbit/s",
                    "60.8 Gbit/s",
                    "straggler",
                    "1.91x",
                    "1.4 TiB",
                    "Rank 3 (pid 41203)",
                    "512.0 ms a step",
                    "16 late",
                ],
            ),
            (Section::Ranks, &["on, late", "87.4 ms", "20.0 Gbit/s", "41203", "1169"]),
            (Section::Communicators, &["9f1c03a7be5522d0", "9648", "8.7e-5", "locked"]),
            (Section::Classes, &["16 MiB to 64 MiB", "compressed", "1.72x", "below 1.05"]),
            (Section::Calls, &["all_reduce", "32,000", "2.0 TiB", "datatype", "1,200"]),
            (Section::Events, &["communicator made", "rank 0 of 4"]),
        ];
        for (section, parts) in expected {
            let text = texts(section, 400).replace("communicator_made", "communicator made");
            for part in parts {
                assert!(text.contains(part), "{part} is not in {}:\n{text}", section.name());
            }
        }
    }

    #[test]
    fn no_section_is_wider_than_there_is_room() {
        for section in Section::ALL {
            for width in [20, 40, 80, 120] {
                let text = texts(section, width);
                assert!(text.lines().all(|line| wide(line) <= width), "{width} {}:\n{text}", section.name());
            }
        }
    }

    #[test]
    fn what_matters_of_a_rank_is_there_at_eighty_columns() {
        let text = texts(Section::Ranks, 80);
        let header = text.lines().next().expect("a header");
        assert!(
            ["rank", "state", "carries", "lag", "last"].iter().all(|name| header.contains(name)),
            "{text}"
        );
    }

    #[test]
    fn a_communicator_that_waits_says_for_whom() {
        let mut communicator = Node::example().jobs[0].communicators[0].clone();
        (communicator.missing, communicator.behind_sequence) = (vec![3], Some(9648));
        assert_eq!(why(&communicator), "waits for rank 3 at call 9648");
        assert_eq!(span([5, 7, 6].into_iter()), "5-7");
    }
}
