//! Lines that say nothing: names, fields and numbers without a word between them. Apart because that shows in
//! the lines alone, whoever wrote them.

use crate::compaction::features::{SENTENCE_ENDS, split_number};

/// Fewer lines are no listing.
const LEAST_LISTING: usize = 4;

/// Checks whether three of four lines pass `is_such`, as those of a list of files do.
pub(super) fn is_listing(text: &str, is_such: impl Fn(&str) -> bool) -> bool {
    let (mut n_lines, mut n_such) = (0, 0);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        n_lines += 1;
        n_such += usize::from(is_such(line));
    }
    n_lines >= LEAST_LISTING && n_such * 4 >= n_lines * 3
}

/// Checks whether a line has no blank, and is of a script that has blanks.
pub(super) fn is_bare(line: &str) -> bool {
    line.is_ascii() && !line.contains(char::is_whitespace)
}

/// Checks whether a line is one word, not a sentence.
pub(super) fn is_word(line: &str) -> bool {
    is_bare(line) && !line.ends_with(SENTENCE_ENDS)
}

/// Checks whether a line is a field of JSON, or a bracket of it, which is no sentence.
pub(super) fn is_field(line: &str) -> bool {
    line.starts_with('"') && line.contains("\":") || !line.contains(char::is_alphanumeric)
}

/// Checks whether a line is one name, with marks or a link around it at most. A key with its value, and a row
/// of a table, are no name; nor is a sentence in a script without blanks.
pub(super) fn is_name(line: &str) -> bool {
    let line = split_number(line).map_or(line, |(_, rest)| rest);
    let line = line.split_once("](").filter(|(_, link)| link.ends_with(')')).map_or(line, |(text, _)| text);
    let has_any = |word: &&str| word.contains(char::is_alphanumeric);
    // Git and archives name what they did with each: `create mode 100644 a.js`.
    let line = DONE_WITH.iter().find_map(|done| line.strip_prefix(done)).unwrap_or(line);
    let mut words = line.split_whitespace().filter(has_any);
    let Some(word) = words.next().filter(|_| words.next().is_none()) else { return false };
    let name = word.trim_matches(|c: char| !c.is_alphanumeric());
    name.is_ascii() && !name.contains([',', '=', ':', ';', '(', '|'])
}

/// The words before the names of files in lists of what was done with them.
const DONE_WITH: [&str; 6] = [
    "create mode 100644 ",
    "create mode 100755 ",
    "delete mode 100644 ",
    "delete mode 100755 ",
    "extracting: ",
    "inflating: ",
];

/// Most characters of a text that may have no words at all, and of how many bytes one at least is of a word.
const WORDLESS_CHARS: usize = 80;
const BYTES_TO_WORD: usize = 10;
/// The fewest bytes of a word. One character has as many in a script that writes words without blanks.
const WORD_BYTES: usize = 3;

/// Checks whether hardly anything of a text is words, as in the coordinates of a drawing.
pub(super) fn has_hardly_a_word(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic()).map(str::len);
    let n_bytes: usize = words.filter(|n_bytes| *n_bytes >= WORD_BYTES).sum();
    text.chars().nth(WORDLESS_CHARS).is_some() && n_bytes * BYTES_TO_WORD < text.len()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn hardly_a_word_is_in_a_text_of_numbers() {
        for (text, expected) in [
            ("12.5 80.2 L ".repeat(9), true),
            (format!("{} door", "12.5 80.2 ".repeat(9)), true),
            ("The door 12 ".repeat(9), false),
            ("東京 12, 北京 13, ".repeat(6), false),
            ("12.5 80.2".to_owned(), false),
        ] {
            assert_eq!(has_hardly_a_word(&text), expected, "{text}");
        }
    }
}
