//! Any text as a line of a log: no record, or one that is written and read again as the same.
#![no_main]

use airamp_policy::explain::{WORD, parse_line};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As `airamp explain` reads a line.
    let text = String::from_utf8_lossy(bytes);
    check(&text);
    check(&format!("{WORD}{text}"));
});

fn check(line: &str) {
    let Some(record) = parse_line(line) else { return };
    assert_eq!(parse_line(&record.to_line()).as_ref(), Some(&record));
    let class = record.class.iter().flat_map(|class| [&class.collective, &class.datatype]);
    for text in [&record.communicator, &record.reason].into_iter().chain(class) {
        assert!(!text.contains(char::is_control), "{text:?}");
    }
}
