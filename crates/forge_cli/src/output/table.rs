//! Tables for users.

use console::{measure_text_width, style};

/// The alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Left, for words.
    Left,
    /// Right, for numbers.
    Right,
}

/// Returns the rows under their headings, one per line. Each column is as wide as its widest cell, with two
/// spaces between columns.
pub(crate) fn table(columns: &[(&str, Side)], rows: &[Vec<String>]) -> String {
    let headings: Vec<String> =
        columns.iter().map(|(heading, _)| style(heading).bold().to_string()).collect();
    let all = || std::iter::once(&headings).chain(rows);
    let widths: Vec<usize> = (0..columns.len())
        .map(|at| all().filter_map(|row| row.get(at)).map(|cell| measure_text_width(cell)).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in all() {
        let cells = row.iter().zip(columns).zip(&widths).map(|((cell, (_, side)), width)| {
            let space = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            match side {
                Side::Left => format!("{cell}{space}"),
                Side::Right => format!("{space}{cell}"),
            }
        });
        text += cells.collect::<Vec<_>>().join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        console::set_colors_enabled(false);
        let rows = [["a", "1"], ["言葉", "1,000"]].map(|row| row.map(str::to_owned).to_vec());
        let expected = "NAME  TOKENS\na          1\n言葉   1,000\n";
        assert_eq!(table(&[("NAME", Side::Left), ("TOKENS", Side::Right)], &rows), expected);
    }
}
