//! A line of Markdown as words for a terminal: emphasis, code and links. It knows what the pages of this project use
//! and leaves everything else as it stands. Called by `render` and `grid`.

use std::path::{Component, Path, PathBuf};

use super::topics;

const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// What a line is read with: the page that it stands on, for its links, and whether bold is to be had.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub(super) page: &'a str,
    pub(super) is_bold: bool,
}

/// The line without its marks. In a terminal code is bold, elsewhere it keeps its quotes.
pub(super) fn shown(line: &str, reading: Reading<'_>) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (piece, after) = next(rest, first, reading, text.chars().next_back());
        text.push_str(&piece);
        rest = after;
    }
    text
}

fn next<'l>(rest: &'l str, first: char, reading: Reading<'_>, before: Option<char>) -> (String, &'l str) {
    let quoted = match first {
        '`' => between(rest, "`", "`").map(|(code, after)| (code_span(code, reading), after)),
        '*' if rest.starts_with("**") => {
            between(rest, "**", "**").map(|(text, after)| (bold(&shown(text, reading), reading), after))
        }
        '*' if before.is_none_or(|c| !c.is_alphanumeric()) => between(rest, "*", "*")
            .filter(|(text, _)| !text.starts_with(' '))
            .map(|(text, after)| (shown(text, reading), after)),
        '[' | '!' => link(rest, reading),
        '\\' => rest[1..].chars().next().map(|c| (c.to_string(), &rest[1 + c.len_utf8()..])),
        _ => None,
    };
    quoted.unwrap_or_else(|| (first.to_string(), &rest[first.len_utf8()..]))
}

fn between<'l>(text: &'l str, open: &str, close: &str) -> Option<(&'l str, &'l str)> {
    let inner = text.strip_prefix(open)?;
    inner.split_once(close).filter(|(held, _)| !held.is_empty())
}

fn code_span(code: &str, reading: Reading<'_>) -> String {
    if reading.is_bold { bold(code, reading) } else { format!("`{code}`") }
}

pub(super) fn bold(text: &str, reading: Reading<'_>) -> String {
    if reading.is_bold { format!("{BOLD}{text}{PLAIN}") } else { text.to_owned() }
}

/// `[text](target)`: the text, and where to find it if that is no topic of its own (those are named at the page's end).
fn link<'l>(rest: &'l str, reading: Reading<'_>) -> Option<(String, &'l str)> {
    let is_picture = rest.starts_with("![");
    let (text, behind) = between(rest.trim_start_matches('!'), "[", "](")?;
    let (target, after) = behind.split_once(')')?;
    let text = shown(text, reading);
    if is_picture {
        return Some((format!("[{text}: {}]", resolved(reading.page, target)), after));
    }
    let is_here = target.starts_with('#') || topic_of(reading.page, target).is_some();
    let shown = if is_here { text } else { format!("{text} <{}>", resolved(reading.page, target)) };
    Some((shown, after))
}

/// The topics that a page points to, each once, in order.
pub(super) fn topics_named(text: &str, page: &str) -> Vec<&'static str> {
    let mut names = Vec::new();
    for target in text.split("](").skip(1).filter_map(|behind| behind.split(')').next()) {
        if let Some(name) = topic_of(page, target).filter(|name| !names.contains(name)) {
            names.push(name);
        }
    }
    names
}

fn topic_of(page: &str, target: &str) -> Option<&'static str> {
    let path = resolved(page, target);
    topics::ALL.iter().find(|topic| topic.path == path && path != page).map(|topic| topic.name)
}

/// A relative target as a path in the repository; anything else as it is.
fn resolved(page: &str, target: &str) -> String {
    if target.contains("://") || target.starts_with('#') {
        return target.to_owned();
    }
    let file = target.split('#').next().unwrap_or(target);
    let mut path = PathBuf::new();
    for part in Path::new(page).parent().unwrap_or(Path::new("")).join(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            other => path.push(other),
        }
    }
    path.to_string_lossy().into_owned()
}

/// Letters that take room on the screen: escape sequences do not.
pub(super) fn room(text: &str) -> usize {
    let mut count = 0;
    let mut in_escape = false;
    for letter in text.chars() {
        match (in_escape, letter) {
            (true, 'm') => in_escape = false,
            (true, _) => {}
            (false, '\x1b') => in_escape = true,
            (false, _) => count += 1,
        }
    }
    count
}

/// Words in lines of at most `width`; a word that is longer has a line of its own.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if room(line) + 1 + room(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
