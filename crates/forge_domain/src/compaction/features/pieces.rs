//! The pieces of a long line. Apart from the terms in it because a line is cut before it is read.

use super::SENTENCE_ENDS;

/// Most characters of a line; a longer one is several.
const LINE_CHARS: usize = 220;
/// A piece of a line ends with a sentence that takes at least this part of it.
const LEAST_SENTENCE: usize = 3;

/// The marks between the number of a line and the line: a blank only in a column of numbers.
const NUMBER_ENDS: [char; 5] = [' ', '→', '\t', '|', ':'];

/// Splits a line into the number in front of it and the rest, as the tools that read files write it.
pub(crate) fn split_number(line: &str) -> Option<(u64, &str)> {
    // If the numbers are aligned, a blank may follow each of them in place of a mark.
    let marks = if line.starts_with("  ") { &NUMBER_ENDS[..] } else { &NUMBER_ENDS[1..] };
    let line = line.trim_start_matches(' ');
    let end = line.find(|c: char| !c.is_ascii_digit()).filter(|end| *end > 0 && !line.starts_with('0'))?;
    let rest = &line[end..];
    let rest = marks.iter().find_map(|mark| rest.strip_prefix(*mark))?;
    Some((line[..end].parse().ok()?, rest))
}

/// Returns the ranges of a line's pieces, without blanks around them. A piece of JSON ends with a field if it
/// has the end of one, any other with a sentence, else at a blank if there is one. A line of a file that has
/// only brackets after its number has none.
pub(super) fn pieces(line: &str) -> Vec<(usize, usize)> {
    if split_number(line).is_some_and(|(_, rest)| !rest.contains(char::is_alphanumeric)) {
        return Vec::new();
    }
    let trimmed = line.trim();
    let from = line.len() - line.trim_start().len();
    let mut pieces = Vec::new();
    let (mut start, end) = (from, from + trimmed.len());
    let is_json = trimmed.starts_with("{\"") || trimmed.starts_with("[{");
    while start < end {
        let rest = &line[start..end];
        let too_long = (rest.len() > LINE_CHARS).then(|| rest.char_indices().nth(LINE_CHARS)).flatten();
        let cut = match too_long {
            None => rest.len(),
            Some((at, _)) => is_json
                .then(|| end_of_field(&rest[..at]))
                .flatten()
                .or_else(|| end_of_sentence(&rest[..at]))
                .unwrap_or_else(|| match rest[..at].rfind([' ', ',', ';']) {
                    Some(blank) if blank > at / 2 => blank + 1,
                    _ => at,
                }),
        };
        let piece = rest[..cut].trim_end();
        if !piece.is_empty() {
            pieces.push((start, start + piece.len()));
        }
        start += cut;
        start += line[start..end].len() - line[start..end].trim_start().len();
    }
    pieces
}

/// Returns the end of the last field of an object that ends in `text`, unless it is short.
fn end_of_field(text: &str) -> Option<usize> {
    let last = text.rfind(",\"")? + 1;
    (last > text.len() / LEAST_SENTENCE).then_some(last)
}

/// Returns the end of the last sentence that ends in `text`, unless it is short.
fn end_of_sentence(text: &str) -> Option<usize> {
    let ends = |(at, end): (usize, &str)| {
        let after = at + end.len();
        let is_wide = end.len() > 1;
        (is_wide || text[after..].starts_with(' ')).then_some(after)
    };
    let last = text.rmatch_indices(SENTENCE_ENDS).find_map(ends)?;
    (last > text.len() / LEAST_SENTENCE).then_some(last)
}

#[cfg(test)]
mod tests {
    use super::super::Features;
    use super::*;
    use crate::Message;

    #[test]
    fn a_long_line_is_several() {
        let features = Features::of(&Message::user("words and words ".repeat(60)));
        assert!(features.lines.len() > 3);
        assert!(features.lines.iter().all(|line| features.line(line).chars().count() <= LINE_CHARS));
        // Of JSON, field by field.
        let fields = (0..20).map(|nth| format!("\"field_{nth}\":\"One sentence. And {nth} more words\""));
        let json = format!("{{{}}}", fields.collect::<Vec<_>>().join(","));
        let features = Features::of(&Message::user(json));
        let pieces: Vec<&str> = features.lines.iter().map(|line| features.line(line)).collect();
        assert!(
            pieces.len() > 3 && pieces[1..].iter().all(|piece| piece.starts_with("\"field_")),
            "{pieces:?}"
        );
    }
}
