//! Log lines: plain, one each, to stderr, where systemd and container runtimes collect them.
//! Text from outside cannot break a line. Who repeats himself is for the caller to silence.

use std::fmt::Display;
use std::io::Write;

const MOST_CHARACTERS: usize = 1000;

pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stderr().lock(), "airampd: {}", one_line(&line.to_string()));
}

fn one_line(text: &str) -> String {
    text.chars().take(MOST_CHARACTERS).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_in_a_name_does_not_begin_a_line_of_its_own() {
        assert_eq!(one_line("a\nairampd: all is well"), "a\u{fffd}airampd: all is well");
        assert_eq!(one_line(&"x".repeat(5000)).len(), MOST_CHARACTERS);
    }
}
