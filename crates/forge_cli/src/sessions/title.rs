//! The title of a session.

use crate::output::beginning;

/// The most characters of a title.
const MOST_OF_A_TITLE: usize = 200;

/// Returns the beginning of a text in one line; `None` if it is blank.
pub(super) fn title(text: &str) -> Option<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = beginning(&words.join(" "), MOST_OF_A_TITLE);
    (!line.is_empty()).then_some(line)
}
