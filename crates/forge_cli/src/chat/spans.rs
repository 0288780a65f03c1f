//! Styled words, wrapped into lines of a width.

use std::ops::Range;

use console::{Style, measure_text_width};

use crate::output::line_wrap::line_ranges;

/// The look of a piece of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tone {
    pub(super) bold: bool,
    pub(super) italic: bool,
    pub(super) struck: bool,
    pub(super) code: bool,
    pub(super) quiet: bool,
    pub(super) heading: bool,
}

impl Tone {
    pub(super) const PLAIN: Self =
        Self { bold: false, italic: false, struck: false, code: false, quiet: false, heading: false };
    pub(super) const QUIET: Self = Self { quiet: true, ..Self::PLAIN };
    pub(super) const CODE: Self = Self { code: true, ..Self::PLAIN };
    pub(super) const HEADING: Self = Self { heading: true, ..Self::PLAIN };
}

/// A piece of text with one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) tone: Tone,
}

impl Span {
    pub(super) fn new(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }
}

/// The use of looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// Looks are shown by colours and other attributes.
    Colours,
    /// Looks are not shown.
    Bare,
}

/// Returns the columns of the spans.
pub(super) fn width_of(spans: &[Span]) -> usize {
    spans.iter().map(|span| measure_text_width(&span.text)).sum()
}

/// Returns the spans as text with escape sequences.
pub(super) fn paint_spans(spans: &[Span], paint: Paint) -> String {
    let one = |Span { text, tone }: &Span| {
        if paint == Paint::Bare || *tone == Tone::PLAIN || text.is_empty() {
            return text.clone();
        }
        let mut style = Style::new().force_styling(true);
        for (is_so, look) in [
            (tone.bold || tone.heading, Style::bold as fn(Style) -> Style),
            (tone.italic, Style::italic),
            (tone.struck, Style::strikethrough),
            (tone.quiet, Style::dim),
            (tone.code || tone.heading, Style::cyan),
        ] {
            style = if is_so { look(style) } else { style };
        }
        style.apply_to(text).to_string()
    };
    spans.iter().map(one).collect()
}

/// Returns the spans in lines of at most `width` columns, broken between words; a longer word is broken
/// itself. A line end in a text ends the line.
pub(super) fn wrap_spans(spans: &[Span], width: usize) -> Vec<Vec<Span>> {
    let letters = letters(spans);
    let lines = letters.split(|(c, _)| *c == '\n').flat_map(|line| {
        let text: String = line.iter().map(|(c, _)| *c).collect();
        let spans_at = |range: Range<usize>| {
            let mut spans: Vec<Span> = Vec::new();
            let before = text[..range.start].chars().count();
            for (c, tone) in line.iter().skip(before).take(text[range].chars().count()) {
                match spans.last_mut() {
                    Some(last) if last.tone == *tone => last.text.push(*c),
                    _ => spans.push(Span::new(*c, *tone)),
                }
            }
            spans
        };
        line_ranges(&text, width).into_iter().map(spans_at).collect::<Vec<_>>()
    });
    lines.collect()
}

/// Returns the characters with their looks, without the blanks at the ends of a line; several blanks are one.
fn letters(spans: &[Span]) -> Vec<(char, Tone)> {
    let mut letters: Vec<(char, Tone)> = Vec::new();
    for (c, tone) in spans.iter().flat_map(|span| span.text.chars().map(|c| (c, span.tone))) {
        let last = letters.last().map_or('\n', |(last, _)| *last);
        // A blank that keeps words together is a letter.
        let is_blank = c.is_whitespace() && c != '\n' && c != '\u{a0}';
        if c == '\n' && last == ' ' {
            letters.pop();
        }
        if !is_blank {
            letters.push((c, tone));
        } else if last != ' ' && last != '\n' {
            letters.push((' ', tone));
        }
    }
    let end = letters.iter().rposition(|(c, _)| *c != ' ').map_or(0, |last| last + 1);
    letters.truncate(end);
    if letters.last().is_some_and(|(c, _)| *c == '\n') {
        letters.pop();
    }
    letters
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::output::line_wrap::cut;

    #[test]
    fn words_are_broken_into_lines() {
        for (text, width, expected) in [
            ("", 5, &[""][..]),
            ("one two three", 7, &["one two", "three"]),
            ("one  two", 20, &["one two"]),
            ("abcdefgh ij", 3, &["abc", "def", "gh", "ij"]),
            ("a\nb\n\nc", 9, &["a", "b", "", "c"]),
            ("言葉言葉", 5, &["言葉", "言葉"]),
            ("x y", 0, &["x", "y"]),
        ] {
            let actual: Vec<String> = wrap_spans(&[Span::new(text, Tone::PLAIN)], width)
                .iter()
                .map(|line| paint_spans(line, Paint::Bare))
                .collect();
            assert_eq!(actual, expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn a_word_of_several_looks_stays_together() {
        let spans =
            [Span::new("see ", Tone::PLAIN), Span::new("main", Tone::CODE), Span::new(".", Tone::PLAIN)];
        let lines = wrap_spans(&spans, 8);
        assert_eq!(
            lines,
            [
                vec![spans[0].clone()].into_iter().map(|_| Span::new("see", Tone::PLAIN)).collect::<Vec<_>>(),
                vec![spans[1].clone(), spans[2].clone()]
            ]
        );
        assert_eq!(paint_spans(&spans, Paint::Colours), "see \u{1b}[36mmain\u{1b}[0m.");
        assert_eq!(paint_spans(&spans, Paint::Bare), "see main.");
    }

    #[test]
    fn what_is_too_long_is_cut_with_a_mark() {
        for (text, width, expected) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("言葉", 3, "言…"), ("abc", 1, "…"), ("abc", 0, "")]
        {
            assert_eq!(cut(text, width), expected, "{text} in {width}");
        }
    }
}
