//! A page of Markdown as text for a terminal, block by block: headings, paragraphs, lists, tables, code. It knows what
//! the pages of this project use. Called by `help`; inline marks are `inline`'s, tables `grid`'s.

use super::grid;
use super::inline::{self, Reading};

#[derive(Clone, Copy)]
pub(super) struct Look {
    pub(super) width: usize,
    pub(super) is_bold: bool,
}

const CODE_INDENT: &str = "    ";

/// The page as text, and below it the topics that it points to.
pub(super) fn page(markdown: &str, path: &str, look: Look) -> String {
    let reading = Reading { page: path, is_bold: look.is_bold };
    let lines: Vec<&str> = markdown.lines().collect();
    let mut out: Vec<String> = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        at += block(&lines[at..], look.width, reading, &mut out);
    }
    let named = inline::topics_named(markdown, path);
    if !named.is_empty() {
        let list = named.iter().map(|name| format!("`airamp help {name}`")).collect::<Vec<_>>().join(", ");
        out.push(String::new());
        out.extend(inline::wrapped(&inline::shown(&format!("See also: {list}"), reading), look.width));
    }
    out.dedup_by(|line, before| line.is_empty() && before.is_empty());
    format!("{}\n", out.join("\n").trim_matches('\n'))
}

/// Writes the block at the head of `lines`, and says how many lines it has.
fn block(lines: &[&str], width: usize, reading: Reading<'_>, out: &mut Vec<String>) -> usize {
    let first = lines[0];
    if first.trim().is_empty() {
        out.push(String::new());
        return 1;
    }
    if let Some(fence) = fence(first) {
        return fenced(lines, fence, out);
    }
    if first.starts_with('#') {
        heading(first, reading, out);
        return 1;
    }
    if first.starts_with('|') {
        let rows = lines.iter().take_while(|line| line.starts_with('|')).count();
        out.extend(grid::drawn(&lines[..rows], width, reading));
        return rows;
    }
    if first.starts_with(CODE_INDENT) {
        out.push(first.to_owned());
        return 1;
    }
    words(lines, width, reading, out)
}

fn fence(line: &str) -> Option<&str> {
    let marks = line.len() - line.trim_start_matches('`').len();
    (marks >= 3).then(|| &line[..marks])
}

fn fenced(lines: &[&str], fence: &str, out: &mut Vec<String>) -> usize {
    let held = lines[1..].iter().take_while(|line| !line.starts_with(fence)).count();
    out.extend(lines[1..=held].iter().map(|line| format!("{CODE_INDENT}{line}").trim_end().to_owned()));
    held + 2
}

fn heading(line: &str, reading: Reading<'_>, out: &mut Vec<String>) {
    let text = inline::shown(line.trim_start_matches('#').trim(), Reading { is_bold: false, ..reading });
    let level = line.len() - line.trim_start_matches('#').len();
    out.push(String::new());
    out.push(inline::bold(&text, reading));
    if !reading.is_bold && level <= 2 {
        let mark = if level == 1 { "=" } else { "-" };
        out.push(mark.repeat(inline::room(&text)));
    }
}

/// A paragraph or one item of a list, with the lines that continue it.
fn words(lines: &[&str], width: usize, reading: Reading<'_>, out: &mut Vec<String>) -> usize {
    let (indent, mark) = item(lines[0]);
    let held = 1 + lines[1..].iter().take_while(|line| continues(line)).count();
    let text = lines[..held].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    let text = inline::shown(&text[mark.len()..], reading);
    let hanging = " ".repeat(indent + mark.chars().count());
    let room = width.saturating_sub(hanging.len());
    for (number, line) in inline::wrapped(&text, room).into_iter().enumerate() {
        let before = if number == 0 { format!("{}{mark}", " ".repeat(indent)) } else { hanging.clone() };
        out.push(format!("{before}{line}"));
    }
    held
}

fn continues(line: &str) -> bool {
    let is_block = line.starts_with('|') || line.starts_with('#') || fence(line).is_some();
    !line.trim().is_empty() && !is_block && item(line).1.is_empty()
}

/// How far a line is indented, and the mark with which an item of a list begins.
fn item(line: &str) -> (usize, &str) {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let mark = if text.starts_with("- ") {
        2
    } else if digits > 0 && text[digits..].starts_with(". ") {
        digits + 2
    } else {
        0
    };
    if mark == 0 { (0, "") } else { (indent, &text[..mark]) }
}
