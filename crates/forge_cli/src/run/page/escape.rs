//! Text in HTML.

use crate::output::{hide_secrets, visible_lines};

/// Returns `text` for a place between tags or in quotes: escaped, with hidden characters shown and secrets of
/// this process hidden.
pub(super) fn escape_html(text: &str) -> String {
    let text = visible_lines(&hide_secrets(text));
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}
