//! Tables of Markdown: columns are as wide as needed, and narrower if the terminal is.

use super::spans::{Span, Tone, width_of, wrap_spans};

/// The width of the narrowest column.
const NARROWEST: usize = 3;
const BETWEEN: &str = " │ ";

/// Returns the rows, the first of which is the heading, in lines of at most `width` columns if possible.
pub(super) fn laid_out(rows: &[Vec<Vec<Span>>], width: usize) -> Vec<Vec<Span>> {
    let n_columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let natural = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| width_of(cell)).max();
    let mut widths: Vec<usize> = (0..n_columns).map(|at| natural(at).unwrap_or_default().max(1)).collect();
    let room = width.saturating_sub(3 * n_columns.saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        match widths.iter_mut().max() {
            Some(widest) if *widest > NARROWEST => *widest -= 1,
            _ => break,
        }
    }
    let mut lines = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let cells: Vec<Vec<Vec<Span>>> = widths
            .iter()
            .enumerate()
            .map(|(column, width)| wrap_spans(row.get(column).map_or(&[][..], |cell| cell), *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or_default();
        lines.extend((0..height).map(|line| join_cells(&cells, &widths, line, at == 0)));
        if at == 0 {
            let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
            lines.push(vec![Span::new(rules.join("─┼─"), Tone::QUIET)]);
        }
    }
    lines
}

/// Returns one line of a row.
fn join_cells(cells: &[Vec<Vec<Span>>], widths: &[usize], line: usize, is_heading: bool) -> Vec<Span> {
    let mut spans = Vec::new();
    for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            spans.push(Span::new(BETWEEN, Tone::QUIET));
        }
        let text = cell.get(line).cloned().unwrap_or_default();
        let space = width.saturating_sub(width_of(&text));
        spans.extend(text.into_iter().map(|span| {
            let tone = Tone { bold: is_heading || span.tone.bold, ..span.tone };
            Span { tone, ..span }
        }));
        spans.push(Span::new(" ".repeat(space), Tone::PLAIN));
    }
    spans
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::spans::{Paint, paint_spans};
    use super::*;

    #[test]
    fn columns_are_as_wide_as_the_terminal_lets_them() {
        let row = |cells: &[&str]| -> Vec<Vec<Span>> {
            cells.iter().map(|cell| vec![Span::new(*cell, Tone::PLAIN)]).collect()
        };
        let rows =
            [row(&["night", "what was seen"]), row(&["1", "a long cloud over the dome"]), row(&["22"])];
        for (width, expected) in [
            (
                80,
                &[
                    "night │ what was seen",
                    "──────┼───────────────────────────",
                    "1     │ a long cloud over the dome",
                    "22    │",
                ][..],
            ),
            (
                20,
                &[
                    "night │ what was",
                    "      │ seen",
                    "──────┼─────────────",
                    "1     │ a long cloud",
                    "      │ over the",
                    "      │ dome",
                    "22    │",
                ],
            ),
        ] {
            let actual: Vec<String> = laid_out(&rows, width)
                .iter()
                .map(|line| paint_spans(line, Paint::Bare).trim_end().to_owned())
                .collect();
            assert_eq!(actual, expected, "{width}");
        }
        assert_eq!(laid_out(&[], 20), Vec::<Vec<Span>>::new());
    }
}
