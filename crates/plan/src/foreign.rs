//! Text that stands in a file of somebody else: what of it a reason may repeat, and what may be shown as it is.

use std::fmt::Display;

const LONGEST_REPEATED: usize = 400;
const LONGEST_NAME: usize = 200;

/// A part of a reason: one line, and not long, whatever it repeats.
pub(crate) fn short(text: impl Display) -> String {
    let text = text.to_string();
    let harmless = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut shown: String = text.chars().take(LONGEST_REPEATED).map(harmless).collect();
    if text.chars().nth(LONGEST_REPEATED).is_some() {
        shown.push('…');
    }
    shown
}

/// Of a device, a link or a type.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars().count() <= LONGEST_NAME && is_line(text)
}

pub(crate) fn is_line(text: &str) -> bool {
    !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_reason_repeats_is_one_short_line() {
        assert_eq!(short("a\u{1b}[2J\nb"), "a [2J b");
        assert_eq!(short("é".repeat(LONGEST_REPEATED)), "é".repeat(LONGEST_REPEATED));
        assert_eq!(short("é".repeat(LONGEST_REPEATED + 1)), format!("{}…", "é".repeat(LONGEST_REPEATED)));
    }
}
