//! A table for people: columns as wide as what they hold.

use std::fmt::Write;

/// The header and the lines below it; of the columns in `text` the cells begin, of the others they end,
/// in line.
pub(crate) fn aligned<const N: usize>(header: [&str; N], lines: Vec<[String; N]>, text: &[&str]) -> String {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = lines.iter().map(|line| line[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    });
    let cell = |column: usize, held: &str| {
        let width = widths[column];
        if text.contains(&header[column]) { format!("{held:<width$}") } else { format!("{held:>width$}") }
    };
    let mut table = String::new();
    for line in std::iter::once(header.map(str::to_owned)).chain(lines) {
        let cells: Vec<String> = line.iter().enumerate().map(|(column, held)| cell(column, held)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(table, "{}", cells.join("  ").trim_end());
    }
    table
}

pub(crate) fn time(us: f64) -> String {
    if us < 1e4 { format!("{us:.0} us") } else { format!("{:.1} ms", us / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_and_numbers_end_in_line() {
        let line = |name: &str, number: &str| [name.to_owned(), number.to_owned(), String::new()];
        let table = aligned(["name", "n", "x"], vec![line("a", "10"), line("longer", "9")], &["name"]);
        assert_eq!(table, "name     n  x\na       10\nlonger   9\n");
    }
}
