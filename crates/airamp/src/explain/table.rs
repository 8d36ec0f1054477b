//! Decisions as text for people: a heading for each communicator, what was said about all its calls, and a
//! table of its classes.

use airamp_policy::explain::{ClassName, Decision, Record};

use super::communicators::{Communicator, Said};
use crate::columns::{aligned, time};
use crate::config::without_control_characters;

const HEADER: [&str; 8] = ["calls", "decision", "from call", "speedup", "ours", "vendor", "vNMSE", "why"];

pub(super) fn of(communicators: &[Communicator], all: bool) -> String {
    communicators.iter().map(|communicator| section(communicator, all)).collect::<Vec<_>>().join("\n")
}

fn section(communicator: &Communicator, all: bool) -> String {
    let name = without_control_characters(&communicator.name);
    let mut text = format!("communicator {name}, {} ranks\n", communicator.ranks);
    for said in communicator.said() {
        text.push_str(&sentence(&said));
    }
    let records = if all { communicator.records.iter().collect() } else { communicator.latest() };
    let lines: Vec<[String; 8]> =
        records.into_iter().filter(|record| all || record.class.is_some()).map(line).collect();
    if !lines.is_empty() {
        text.push_str(&aligned(HEADER, lines, &["calls", "decision", "why"]));
    }
    for record in communicator.latest() {
        text.push_str(&format!("- {}\n", super::sentences::of(record)));
    }
    text
}

fn sentence(said: &Said<'_>) -> String {
    let since = said.index.map(|index| format!(" from call {index} on")).unwrap_or_default();
    let who = if said.who.is_empty() { String::new() } else { format!("; because of {}", ranks(said.who)) };
    let reason = without_control_characters(said.reason);
    format!(
        "all calls: {}{since}: {reason}{who} (logged by {})\n",
        name(said.decision),
        ranks(&said.logged_by)
    )
}

fn line(record: &Record) -> [String; 8] {
    let number = |value: Option<f64>, show: fn(f64) -> String| value.map(show).unwrap_or_default();
    let who = if record.who.is_empty() { String::new() } else { format!(" ({})", ranks(&record.who)) };
    [
        record.class.as_ref().map_or_else(|| "all".to_owned(), class),
        name(record.decision),
        record.index.map(|index| index.to_string()).unwrap_or_default(),
        number(record.speedup, |speedup| format!("{speedup:.2}x")),
        number(record.ours_us, time),
        number(record.vendor_us, time),
        number(record.vnmse, |error| format!("{error:.1e}")),
        format!("{}{who}", without_control_characters(&record.reason)),
    ]
}

pub(crate) fn class(class: &ClassName) -> String {
    let kind = without_control_characters(&format!("{} {}", class.collective, class.datatype));
    match class.below_bytes {
        Some(below) => format!("{kind} {} to {}", size(class.from_bytes), size(below)),
        None => format!("{kind} from {}", size(class.from_bytes)),
    }
}

fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{bytes} B"), |(unit, name)| format!("{} {name}", bytes / unit))
}

pub(crate) fn ranks(numbers: &[u32]) -> String {
    let listed: Vec<String> = numbers.iter().map(u32::to_string).collect();
    format!("rank{} {}", if numbers.len() == 1 { "" } else { "s" }, listed.join(", "))
}

/// As it stands in the log.
fn name(decision: Decision) -> String {
    serde_json::to_value(decision)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::communicators::{gathered, tests::record};
    use super::*;

    #[test]
    fn a_class_has_its_numbers_and_its_reason_in_one_line() {
        let mut compressed = record(0, 65_536, Decision::Compressed, "1.8 times as fast");
        (compressed.speedup, compressed.ours_us, compressed.vendor_us) =
            (Some(1.8), Some(100.0), Some(180.0));
        compressed.vnmse = Some(8.6e-5);
        let text = of(&gathered(vec![compressed]), false);
        let line = text.lines().nth(2).expect("a line");
        for part in
            ["64 KiB to 256 KiB", "compressed", "12", "1.80x", "100 us", "180 us", "8.6e-5", "as fast"]
        {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn what_a_log_holds_cannot_drive_a_terminal() {
        let text = of(&gathered(vec![record(0, 1024, Decision::Vendor, "\u{1b}[2J\nx")]), false);
        assert!(!text.contains('\u{1b}'), "{text}");
        assert_eq!(text.lines().count(), 4, "{text}");
    }
}
