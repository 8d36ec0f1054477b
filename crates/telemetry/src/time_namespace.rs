//! How far CLOCK_MONOTONIC of this process's time namespace is ahead of the machine's. Asked where a file is made or opened,
//! never on a call's path.

use std::os::unix::fs::MetadataExt;

/// 0 without such a namespace, and where it cannot be told.
pub(crate) fn ahead_ns() -> i64 {
    if !is_that_of_children() {
        return 0;
    }
    std::fs::read_to_string("/proc/self/timens_offsets").ok().and_then(|text| parse(&text)).unwrap_or(0)
}

/// The file tells of the namespace of this process's children, which it may have made and not entered.
fn is_that_of_children() -> bool {
    let namespace = |name: &str| std::fs::metadata(name).map(|found| found.ino()).ok();
    namespace("/proc/self/ns/time") == namespace("/proc/self/ns/time_for_children")
}

/// Lines of a clock, seconds and nanoseconds. Before Linux 5.7 the clock is a number.
fn parse(text: &str) -> Option<i64> {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let mut monotonic =
        lines.find_map(|mut words| matches!(words.next()?, "monotonic" | "1").then_some(words))?;
    let [seconds, ns]: [i64; 2] = [monotonic.next()?.parse().ok()?, monotonic.next()?.parse().ok()?];
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_nanoseconds_are_added_up_and_may_be_behind() {
        assert_eq!(parse("monotonic     100000     7\nboottime      3  0\n"), Some(100_000_000_000_007));
        assert_eq!(parse("1 -2 500000000\n7 0 0\n"), Some(-1_500_000_000));
    }

    #[test]
    fn what_is_no_offset_is_none() {
        for text in [
            "",
            "boottime 3 0",
            "monotonic",
            "monotonic 3",
            "monotonic 9223372036854775807 0",
            "monotonic x 0",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
