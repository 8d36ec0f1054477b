//! A table that fits the space it is given: columns that do not fit are left out, the least important first, and
//! the last column is cut. The live view and the printed one are made from the same tables.

use ratatui::text::Span;

/// How a line is meant; where there is colour it shows, and never in colour alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Heading,
    Quiet,
    Good,
    Warning,
    Bad,
}

/// A line of text as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Line {
    pub(super) fn new(tone: Tone, text: impl Into<String>) -> Self {
        Self { text: text.into(), tone }
    }

    pub(super) fn plain(text: impl Into<String>) -> Self {
        Self::new(Tone::Plain, text)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    /// Numbers end in line, words begin in line.
    pub(super) is_number: bool,
    /// Columns with smaller numbers are left out later; 0 never.
    pub(super) spare: u8,
}

pub(super) const fn word(name: &'static str, spare: u8) -> Column {
    Column { name, is_number: false, spare }
}

pub(super) const fn number(name: &'static str, spare: u8) -> Column {
    Column { name, is_number: true, spare }
}

#[derive(Debug)]
pub(super) struct Table<const N: usize> {
    pub(super) columns: [Column; N],
    pub(super) rows: Vec<([String; N], Tone)>,
}

const GAP: usize = 2;

impl<const N: usize> Table<N> {
    pub(super) fn new(columns: [Column; N]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    pub(super) fn push(&mut self, cells: [String; N], tone: Tone) {
        self.rows.push((cells.map(|cell| crate::config::without_control_characters(&cell)), tone));
    }

    /// The header and the rows, none wider than `width`.
    pub(super) fn fitted(&self, width: usize) -> Vec<Line> {
        let widths = self.widths();
        let shown = self.that_fit(&widths, width);
        let header = self.columns.map(|column| column.name.to_owned());
        let mut lines = vec![Line::new(Tone::Heading, self.line(&header, &widths, &shown, width))];
        let row =
            |(cells, tone): &([String; N], Tone)| Line::new(*tone, self.line(cells, &widths, &shown, width));
        lines.extend(self.rows.iter().map(row));
        lines
    }

    fn widths(&self) -> [usize; N] {
        std::array::from_fn(|column| {
            let cells = self.rows.iter().map(|(cells, _)| wide(&cells[column]));
            cells.chain([wide(self.columns[column].name)]).max().unwrap_or(0)
        })
    }

    /// A last column of words may be cut down to this; so it counts as no wider.
    const LEAST_LAST: usize = 12;

    fn that_fit(&self, widths: &[usize; N], width: usize) -> Vec<usize> {
        let mut shown: Vec<usize> = (0..N).collect();
        let needed = |shown: &[usize]| -> usize {
            let one = |&column: &usize| {
                let is_cut = column + 1 == N && !self.columns[column].is_number;
                if is_cut { widths[column].min(Self::LEAST_LAST) } else { widths[column] }
            };
            shown.iter().map(one).sum::<usize>() + GAP * shown.len().saturating_sub(1)
        };
        while needed(&shown) > width {
            let least = shown.iter().copied().max_by_key(|column| self.columns[*column].spare);
            match least.filter(|column| self.columns[*column].spare > 0) {
                Some(least) => shown.retain(|column| *column != least),
                None => break,
            }
        }
        shown
    }

    fn line(&self, cells: &[String; N], widths: &[usize; N], shown: &[usize], width: usize) -> String {
        let cell = |&column: &usize| {
            let held = &cells[column];
            let room = " ".repeat(widths[column].saturating_sub(wide(held)));
            if self.columns[column].is_number { format!("{room}{held}") } else { format!("{held}{room}") }
        };
        let joined = shown.iter().map(cell).collect::<Vec<_>>().join(&" ".repeat(GAP));
        cut(joined.trim_end(), width)
    }
}

/// How many columns of a terminal it takes.
pub(super) fn wide(text: &str) -> usize {
    Span::raw(text).width()
}

/// At most so wide; what was longer ends in an ellipsis.
pub(super) fn cut(text: &str, width: usize) -> String {
    if wide(text) <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for letter in text.chars() {
        used += wide(letter.encode_utf8(&mut [0; 4]));
        if used > width {
            break;
        }
        kept.push(letter);
    }
    if width > 0 {
        kept.push('…');
    }
    kept
}

/// The text in lines of at most this width, broken between words.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if wide(line) + 1 + wide(part) <= width => {
                line.push(' ');
                line.push_str(part);
            }
            _ => lines.push(cut(part, width)),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table<4> {
        let mut table = Table::new([number("rank", 0), word("state", 1), number("lag", 2), word("why", 0)]);
        let row = |rank: &str, why: &str| [rank, "running", "1.2 ms", why].map(str::to_owned);
        table.push(row("0", "because it was the last to come"), Tone::Plain);
        table.push(row("11", "no"), Tone::Bad);
        table
    }

    fn texts(width: usize) -> Vec<String> {
        table().fitted(width).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn with_room_all_columns_are_shown_in_line() {
        assert_eq!(
            texts(200),
            [
                "rank  state       lag  why",
                "   0  running  1.2 ms  because it was the last to come",
                "  11  running  1.2 ms  no"
            ]
        );
    }

    #[test]
    fn the_least_important_columns_go_first_and_the_last_is_cut() {
        assert_eq!(texts(30)[1], "   0  running  because it was…");
        assert_eq!(texts(20)[1], "   0  because it wa…");
        assert!((1..60).all(|width| texts(width).iter().all(|line| wide(line) <= width)));
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let mut table = Table::new([word("text", 0)]);
        table.push(["\u{1b}[2J\n".to_owned()], Tone::Plain);
        assert!(table.fitted(80).iter().all(|line| !line.text.contains(char::is_control)));
    }

    #[test]
    fn text_is_broken_between_words_and_words_that_are_too_long_are_cut() {
        assert_eq!(wrapped("one two three", 7), ["one two", "three"]);
        assert_eq!(wrapped("incomprehensible", 7), ["incomp…"]);
        assert_eq!(wide(&cut("日本語日本語", 5)), 5);
    }
}
