//! A Markdown table in a terminal: columns as wide as their longest cell where that fits, else the widest give way and
//! their cells are broken into lines. Called by `render`.

use super::inline::{self, Reading};

const GAP: usize = 2;
/// A column gives way down to its longest word, or to this where the word is a whole path.
const LONGEST_WORD: usize = 30;

/// The table's lines; `rows` are its source lines, the second of them the rule below the header.
pub(super) fn drawn(rows: &[&str], width: usize, reading: Reading<'_>) -> Vec<String> {
    let mut table: Vec<Vec<String>> = rows
        .iter()
        .filter(|row| !is_rule(row))
        .map(|row| cells(row).into_iter().map(|cell| inline::shown(cell.trim(), reading)).collect())
        .collect();
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    table.iter_mut().for_each(|row| row.resize(columns, String::new()));
    let widths = widths(&table, columns, width);
    let has_header = table.first().is_some_and(|header| header.iter().any(|cell| !cell.is_empty()));
    let mut lines = Vec::new();
    for (number, row) in table.iter().enumerate().skip(usize::from(!has_header)) {
        lines.extend(row_lines(row, &widths));
        if number == 0 {
            lines.push(widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  "));
        }
    }
    lines
}

fn is_rule(row: &str) -> bool {
    row.chars().all(|c| "|-: ".contains(c))
}

/// The cells of a row. A bar inside code, or behind a backslash, is no border.
fn cells(row: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let (mut in_code, mut is_escaped) = (false, false);
    for letter in row.trim().trim_start_matches('|').trim_end_matches('|').chars() {
        in_code ^= letter == '`';
        if letter == '|' && !in_code && !is_escaped {
            cells.push(String::new());
        } else if let Some(cell) = cells.last_mut() {
            cell.push(letter);
        }
        is_escaped = letter == '\\';
    }
    cells
}

fn widths(table: &[Vec<String>], columns: usize, width: usize) -> Vec<usize> {
    let widest = |column: usize, measure: fn(&str) -> usize| {
        table.iter().map(|row| measure(&row[column])).max().unwrap_or(0).max(1)
    };
    let mut widths: Vec<usize> = (0..columns).map(|column| widest(column, inline::room)).collect();
    let least: Vec<usize> =
        (0..columns).map(|column| widest(column, longest_word).min(LONGEST_WORD)).collect();
    while widths.iter().sum::<usize>() + GAP * columns.saturating_sub(1) > width {
        let can_give = (0..columns).filter(|column| widths[*column] > least[*column]);
        let Some(column) = can_give.max_by_key(|column| widths[*column]) else { break };
        widths[column] -= 1;
    }
    widths
}

fn longest_word(cell: &str) -> usize {
    cell.split_whitespace().map(inline::room).max().unwrap_or(0)
}

fn row_lines(row: &[String], widths: &[usize]) -> Vec<String> {
    let broken: Vec<Vec<String>> =
        row.iter().zip(widths).map(|(cell, width)| inline::wrapped(cell, *width)).collect();
    let height = broken.iter().map(Vec::len).max().unwrap_or(0).max(1);
    (0..height).map(|line| one_line(&broken, widths, line)).collect()
}

fn one_line(broken: &[Vec<String>], widths: &[usize], line: usize) -> String {
    let mut text = String::new();
    for (cell, width) in broken.iter().zip(widths) {
        let held = cell.get(line).map_or("", String::as_str);
        text.push_str(held);
        text.push_str(&" ".repeat(width.saturating_sub(inline::room(held)) + GAP));
    }
    text.trim_end().to_owned()
}
