//! Questions, known by the marks at their ends. Apart because a text alone shows them, whatever it is worth.

use crate::compaction::features::SENTENCE_ENDS;

/// Checks whether a text ends with a question.
pub(in super::super) fn asks(text: &str) -> bool {
    without_question_mark(text).is_some()
}

/// Returns a text without the question mark at its end; `None` if it has none.
pub(super) fn without_question_mark(text: &str) -> Option<&str> {
    text.trim_end_matches(|mark: char| mark.is_whitespace() || CLOSING.contains(&mark))
        .strip_suffix(QUESTION_MARKS)
}

/// Checks whether a sentence ends within a text: at a mark before a blank, or at a mark of a script that has
/// no blanks.
pub(super) fn ends_a_sentence(text: &str) -> bool {
    text.match_indices(SENTENCE_ENDS).any(|(at, mark)| {
        let after = text[at + mark.len()..].chars().next();
        !mark.is_ascii() || after.is_some_and(char::is_whitespace)
    })
}

const QUESTION_MARKS: [char; 3] = ['?', '？', '؟'];
/// Marks that may close a text after its last sentence.
const CLOSING: [char; 6] = ['*', '_', ')', '"', '”', '」'];
