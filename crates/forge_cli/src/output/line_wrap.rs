//! Lines wrapped between words, before a terminal breaks them within one.

use std::ops::Range;

use console::measure_text_width;
use textwrap::WordSeparator;
use textwrap::core::{Fragment, Word, break_words};
use textwrap::wrap_algorithms::wrap_first_fit;

use super::hidden_characters::visible;

/// The beginning of every line of a frame, in which nothing is left out or moved.
pub(crate) const FRAME: &str = "  │ ";

/// Returns the text with its lines wrapped between words, so that none is wider than `columns`. A continued
/// line keeps its indentation, and stands below the words after a mark; one in a frame is broken anywhere,
/// because each of its blanks counts.
pub(crate) fn wrap(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| {
        if measure_text_width(line) <= columns {
            return line.to_owned();
        }
        if let Some(framed) = line.strip_prefix(FRAME) {
            return frame(framed, columns);
        }
        let words = line.trim_start_matches(' ');
        // Where hardly a word fits, an indentation would only be in the way.
        let indent = (line.len() - words.len()).min(columns / 4);
        let hang = (indent + mark_width(words)).min(columns / 4);
        let lines = line_ranges(words, columns - hang).into_iter().enumerate();
        let line = |(at, range): (usize, Range<usize>)| {
            format!("{}{}", " ".repeat(if at == 0 { indent } else { hang }), &words[range])
        };
        lines.map(line).collect::<Vec<_>>().join("\n")
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the columns of the mark before a line's words, such as `→ `: continued lines stand below the
/// words.
fn mark_width(words: &str) -> usize {
    let plain = console::strip_ansi_codes(words);
    let mut chars = plain.chars();
    let has_mark =
        chars.next().is_some_and(|c| !c.is_alphanumeric() && c != '`') && chars.next() == Some(' ');
    if has_mark { 2 } else { 0 }
}

/// Returns the parts of a line, broken between words, so that none is wider than `width`; a longer word is
/// broken itself. The blanks between two parts are in neither.
pub(crate) fn line_ranges(line: &str, width: usize) -> Vec<Range<usize>> {
    let width = width.max(1);
    let words = break_words(WordSeparator::AsciiSpace.find_words(line), width);
    let words: Vec<MeasuredWord<'_>> = words.into_iter().map(MeasuredWord).collect();
    let mut end = 0;
    let range = |words: &[MeasuredWord<'_>]| {
        let start = end;
        end += words.iter().map(|MeasuredWord(word)| word.len() + word.whitespace.len()).sum::<usize>();
        start..end - words.last().map_or(0, |MeasuredWord(last)| last.whitespace.len())
    };
    wrap_first_fit(&words, &[width as f64]).into_iter().map(range).collect()
}

/// A word that is measured whole: `textwrap` adds up the columns of its characters, and a heart with the mark
/// for an emoji takes one more than that.
#[derive(Debug)]
struct MeasuredWord<'a>(Word<'a>);

impl Fragment for MeasuredWord<'_> {
    fn width(&self) -> f64 {
        measure_text_width(self.0.word) as f64
    }

    fn whitespace_width(&self) -> f64 {
        self.0.whitespace.len() as f64
    }

    fn penalty_width(&self) -> f64 {
        0.0
    }
}

/// Returns a line in a frame, in as many lines as it needs.
fn frame(line: &str, columns: usize) -> String {
    let width = columns.saturating_sub(measure_text_width(FRAME)).max(2);
    let mut lines = vec![String::new()];
    let mut filled = 0;
    for c in line.chars() {
        // A tab takes as many columns as it may.
        let n = if c == '\t' { 8 } else { measure_text_width(c.encode_utf8(&mut [0; 4])) };
        if filled > 0 && filled + n > width {
            lines.push(String::new());
            filled = 0;
        }
        if let Some(last) = lines.last_mut() {
            last.push(c);
        }
        filled += n;
    }
    lines.iter().map(|line| format!("{FRAME}{line}")).collect::<Vec<_>>().join("\n")
}

/// A wrapper for a model's text that arrives in pieces, which also makes it harmless.
///
/// A word is held back until it is complete. Lines of code between fences are left as they are: a break would
/// be copied with them.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// The columns that the line has.
    filled: usize,
    /// The blanks before the incomplete word.
    blanks: String,
    word: String,
    /// The beginning of the line, as far as it may be a fence.
    beginning: String,
    is_code: bool,
}

impl Flow {
    /// Adds a piece; returns what can be shown.
    pub(crate) fn push(&mut self, piece: &str, columns: usize) -> String {
        let mut out = String::new();
        for c in piece.chars() {
            if self.beginning.len() < 3 && c != '\n' && !(self.beginning.is_empty() && c == ' ') {
                self.beginning.push(c);
            }
            match c {
                '\n' => {
                    self.put(&mut out, columns);
                    out.push_str(&std::mem::take(&mut self.blanks));
                    out.push('\n');
                    self.is_code ^= matches!(self.beginning.as_str(), "```" | "~~~");
                    self.beginning.clear();
                    self.filled = 0;
                }
                ' ' | '\t' => {
                    self.put(&mut out, columns);
                    self.blanks.push(c);
                }
                c => self.word.push(c),
            }
        }
        out
    }

    /// Returns the held-back text, because the text ends or other output follows.
    pub(crate) fn finish(&mut self, columns: usize) -> String {
        let mut out = String::new();
        self.put(&mut out, columns);
        out.push_str(&self.blanks);
        *self = Self::default();
        out
    }

    /// Adds the complete word, on a line of its own if it does not fit.
    fn put(&mut self, out: &mut String, columns: usize) {
        if self.word.is_empty() {
            return;
        }
        let (word, blanks) = (visible(&std::mem::take(&mut self.word)), std::mem::take(&mut self.blanks));
        let (n, n_blanks) =
            (measure_text_width(&word), blanks.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum::<usize>());
        let is_broken =
            !self.is_code && self.filled > 0 && n <= columns && self.filled + n_blanks + n > columns;
        if is_broken {
            out.push('\n');
            self.filled = 0;
        } else {
            out.push_str(&blanks);
            self.filled += n_blanks;
        }
        out.push_str(&word);
        self.filled += n;
    }
}

/// Returns as much of `text` as `width` columns hold, with a mark if something is left out.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let (mut kept, mut filled) = (String::new(), 0);
    for c in text.chars() {
        let n = measure_text_width(c.encode_utf8(&mut [0; 4]));
        if filled + n + 1 > width {
            break;
        }
        kept.push(c);
        filled += n;
    }
    if width > 0 { kept + "…" } else { kept }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        for (text, columns, expected) in [
            ("one two three", 20, "one two three"),
            ("one two three", 9, "one two\nthree"),
            ("  help: one two", 11, "  help: one\n  two"),
            ("\u{1b}[31merror:\u{1b}[0m one two", 10, "\u{1b}[31merror:\u{1b}[0m one\ntwo"),
            ("言葉 言葉", 5, "言葉\n言葉"),
            ("❤️ ❤️ ❤️", 5, "❤️ ❤️\n❤️"),
            ("✗ one two", 8, "✗ one\n  two"),
            ("  \u{1b}[2m←\u{1b}[0m one two", 16, "  \u{1b}[2m←\u{1b}[0m one two"),
            ("  \u{1b}[2m←\u{1b}[0m one two three", 16, "  \u{1b}[2m←\u{1b}[0m one two\n    three"),
            ("a\n\nbcd ef", 4, "a\n\nbcd\nef"),
            ("abcdefgh", 4, "abcd\nefgh"),
            ("  │ ab  cd", 8, "  │ ab  \n  │ cd"),
        ] {
            assert_eq!(wrap(text, columns), expected, "{text:?} in {columns}");
        }
    }

    #[test]
    fn a_text_that_comes_in_pieces_is_broken_between_words() {
        for (pieces, expected) in [
            (&["one two ", "thr", "ee fo", "ur\n"][..], "one two\nthree four\n"),
            (&["one two three"], "one two\nthree"),
            (&["- abc defghijkl", "\n  x"], "- abc\ndefghijkl\n  x"),
            (&["```\nlet a = b + c;\n``", "`\nlet a = b + c;"], "```\nlet a = b + c;\n```\nlet a = b\n+ c;"),
            (&["abcdefghijklmnop q"], "abcdefghijklmnop\nq"),
            (&["言葉言 葉言葉"], "言葉言\n葉言葉"),
            (&["a \nb  "], "a \nb  "),
            (&["👩", "\u{200d}", "🚀 a\u{1b}", "[2J"], "👩\u{200d}🚀\na\\u{1b}[2J"),
        ] {
            let mut flow = Flow::default();
            let mut actual: String = pieces.iter().map(|piece| flow.push(piece, 10)).collect();
            actual += &flow.finish(10);
            assert_eq!(actual, expected, "{pieces:?}");
        }
    }
}
