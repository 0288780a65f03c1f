//! Patterns of what tools write about their work.

use std::sync::LazyLock;

use regex::Regex;

/// A pattern that is compiled when it is first needed.
pub(super) type Pattern = LazyLock<Option<Regex>>;

/// Classes as they are written in patterns, and what they stand for.
const CLASSES: [(&str, &str); 6] = [
    (r"\b", r"(?-u:\b)"),
    (r"\w", "[0-9A-Za-z_]"),
    (r"\W", "[^0-9A-Za-z_]"),
    (r"\d", "[0-9]"),
    (r"\s", r"[ \t\r\n]"),
    (r"\S", r"[^ \t\r\n]"),
];

/// Compiles the pattern of a text that one of `forms` matches, under flags such as `(?i)`. The classes in it
/// are those of ASCII: tools write about themselves in those letters, and such patterns take a fraction of
/// the time.
pub(super) fn any_of(flags: &str, forms: &[&str]) -> Option<Regex> {
    let forms = forms.join("|");
    let forms = CLASSES.iter().fold(forms, |forms, (class, stands_for)| forms.replace(class, stands_for));
    Regex::new(&format!("{flags}{forms}")).ok()
}

pub(super) fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}
