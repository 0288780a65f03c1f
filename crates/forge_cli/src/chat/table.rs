//! Tables of Markdown: columns are as wide as needed, and narrower if the terminal is.

use super::spans::{Paint, Span, Tone, paint_spans, width_of, wrap_spans};
use crate::output::table::align;

/// The width of the narrowest column.
const NARROWEST: usize = 3;

/// Returns the rows, the first of which is the heading, in lines of at most `width` columns if possible.
pub(super) fn table_lines(rows: &[Vec<Vec<Span>>], width: usize, paint: Paint) -> Vec<Vec<Span>> {
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
    let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut cells = Vec::new();
    let mut rule_at = 0;
    for (at, row) in rows.iter().enumerate() {
        cells.extend(row_lines(row, &widths, at == 0, paint));
        if at == 0 {
            rule_at = cells.len();
            cells.push(rules.clone());
        }
    }
    let quiet = |text: &str| paint_spans(&[Span::new(text, Tone::QUIET)], paint);
    let mut lines = align(&cells, &[], &quiet(" │ "));
    if let Some(line) = lines.get_mut(rule_at) {
        *line = quiet(&rules.join("─┼─"));
    }
    lines.into_iter().map(|line| vec![Span::new(line, Tone::PLAIN)]).collect()
}

/// Returns the lines of a row, each with the painted text of every column.
fn row_lines(row: &[Vec<Span>], widths: &[usize], is_heading: bool, paint: Paint) -> Vec<Vec<String>> {
    let cells: Vec<Vec<Vec<Span>>> = widths
        .iter()
        .enumerate()
        .map(|(column, width)| wrap_spans(row.get(column).map_or(&[][..], |cell| cell), *width))
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or_default();
    let painted = |line: &Vec<Span>| {
        let bold = |span: &Span| Span {
            tone: Tone { bold: is_heading || span.tone.bold, ..span.tone },
            text: span.text.clone(),
        };
        paint_spans(&line.iter().map(bold).collect::<Vec<_>>(), paint)
    };
    let line = |at: usize| cells.iter().map(|cell| cell.get(at).map(painted).unwrap_or_default()).collect();
    (0..height).map(line).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

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
            let actual: Vec<String> = table_lines(&rows, width, Paint::Bare)
                .iter()
                .map(|line| paint_spans(line, Paint::Bare).trim_end().to_owned())
                .collect();
            assert_eq!(actual, expected, "{width}");
        }
        assert_eq!(table_lines(&[], 20, Paint::Bare), Vec::<Vec<Span>>::new());
    }
}
