//! A man page as it grows: titles, paragraphs, items, and lines that stay as they are. It escapes what roff would take for
//! its own, and knows nothing of what a page is about. `commands` and `settings` write with it.

use std::fmt::Write as _;

pub(super) struct Page {
    text: String,
}

impl Page {
    /// `name(section)`; the date is empty where nobody gave one.
    pub(super) fn new(name: &str, section: u8, date: &str, about: &str) -> Self {
        let version = env!("CARGO_PKG_VERSION");
        let title = name.to_uppercase();
        let mut text = format!(".TH {title} {section} \"{date}\" \"airamp {version}\" AIRamp-Accel\n");
        // Neither names nor options are to be broken, and words not spread.
        text.push_str(".nh\n.ad l\n");
        let _ = write!(text, ".SH NAME\n{} \\- {}\n", escaped(name), escaped(&uncapitalized(about)));
        Self { text }
    }

    pub(super) fn text(self) -> String {
        self.text
    }

    pub(super) fn section(&mut self, title: &str) {
        let _ = writeln!(self.text, ".SH {title}");
    }

    pub(super) fn subsection(&mut self, title: &str) {
        let _ = writeln!(self.text, ".SS {}", escaped(title));
    }

    pub(super) fn paragraph(&mut self, text: &str) {
        self.raw(&marked(text));
    }

    /// What is roff already.
    pub(super) fn raw(&mut self, text: &str) {
        let _ = write!(self.text, ".PP\n{text}\n");
    }

    /// A head, which is roff already, and what is said of it.
    pub(super) fn item(&mut self, head: &str, body: &str) {
        let _ = write!(self.text, ".TP\n{head}\n{}\n", marked(body));
    }

    /// Lines that are aligned or to be copied.
    pub(super) fn as_it_stands<'a>(&mut self, lines: impl IntoIterator<Item = &'a str>) {
        self.text.push_str(".PP\n.nf\n");
        for line in lines {
            let _ = writeln!(self.text, "{}", escaped(line));
        }
        self.text.push_str(".fi\n");
    }
}

pub(super) fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

pub(super) fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// Another page, as it is written in running text: its name bold, its section not.
pub(super) fn reference(name: &str, section: u8) -> String {
    format!("{}({section})", bold(name))
}

/// What stands between two backquotes is bold.
fn marked(text: &str) -> String {
    let parts: Vec<_> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return escaped(text);
    }
    // A part in the middle of a line needs no guard, and does no harm with one.
    parts.iter().enumerate().map(|(at, part)| if at % 2 == 1 { bold(part) } else { escaped(part) }).collect()
}

/// Each sign as itself: a hyphen that can be copied, quotes that a shell takes, no line that is a request.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut begins = true;
    for sign in text.chars() {
        match sign {
            '.' if begins => out.push_str("\\&."),
            '\\' => out.push_str("\\e"),
            '-' => out.push_str("\\-"),
            '\'' => out.push_str("\\(aq"),
            '`' => out.push_str("\\(ga"),
            '^' => out.push_str("\\(ha"),
            '~' => out.push_str("\\(ti"),
            sign if sign.is_ascii() => out.push(sign),
            sign => {
                let _ = write!(out, "\\[u{:04X}]", u32::from(sign));
            }
        }
        begins = sign == '\n';
    }
    out
}

/// "Start a program" as it stands after a name and a dash; "GPUs" stays.
fn uncapitalized(text: &str) -> String {
    let mut signs = text.chars();
    match (signs.next(), signs.next()) {
        (Some(first), Some(second)) if !second.is_uppercase() => {
            first.to_lowercase().chain(text.chars().skip(1)).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_roff_would_take_for_its_own_stands_for_itself() {
        assert_eq!(escaped(".x\n.y it's a\\b --c …"), "\\&.x\n\\&.y it\\(aqs a\\eb \\-\\-c \\[u2026]");
    }

    #[test]
    fn backquotes_make_bold_and_a_lonely_one_stays() {
        assert_eq!(marked("see `airamp run` too"), "see \\fBairamp run\\fR too");
        assert_eq!(marked("a ` alone"), "a \\(ga alone");
    }

    #[test]
    fn a_name_is_followed_by_a_small_letter_but_for_an_abbreviation() {
        assert_eq!(uncapitalized("Start a job"), "start a job");
        assert_eq!(uncapitalized("GPUs and more"), "GPUs and more");
    }
}
