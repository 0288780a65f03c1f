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

/// Returns the rows under their headings, one per line.
pub(crate) fn table(columns: &[(&str, Side)], rows: Vec<Vec<String>>) -> String {
    let headings = columns.iter().map(|(heading, _)| style(heading).bold().to_string()).collect();
    let sides: Vec<Side> = columns.iter().map(|(_, side)| *side).collect();
    let all: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
    align(&all, &sides, "  ").into_iter().map(|line| line + "\n").collect()
}

/// Returns the rows in lines. Each column is as wide as its widest cell, with `between` between columns;
/// columns without a side are aligned on the left.
pub(crate) fn align(rows: &[Vec<String>], sides: &[Side], between: &str) -> Vec<String> {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width_of =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| measure_text_width(cell)).max();
    let widths: Vec<usize> = (0..n_columns).map(|at| width_of(at).unwrap_or_default()).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(at, (cell, width))| {
            let space = " ".repeat(width.saturating_sub(measure_text_width(cell)));
            match sides.get(at) {
                Some(Side::Right) => format!("{space}{cell}"),
                _ => format!("{cell}{space}"),
            }
        });
        cells.collect::<Vec<_>>().join(between).trim_end().to_owned()
    };
    rows.iter().map(line).collect()
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
        assert_eq!(table(&[("NAME", Side::Left), ("TOKENS", Side::Right)], rows.to_vec()), expected);
    }
}
