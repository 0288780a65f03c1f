//! Files that the user mentions in a message, as `@PATH`, `@"PATH WITH BLANKS"` or, as terminals write a file
//! that is dragged into them, `@PATH\ WITH\ BLANKS`.

use std::borrow::Cow;

/// The characters that may stand before a mention and end one, besides blanks.
const AROUND: [char; 8] = ['(', '[', '"', '\'', '`', '<', ',', ';'];

/// A blank that does not end a word.
const ESCAPED: &str = "\\ ";

/// Returns what stands after each `@` at the beginning of a word: to its end, with punctuation, or what is
/// between quotation marks.
pub(crate) fn mentions(message: &str) -> Vec<Cow<'_, str>> {
    let is_around = |c: char| c.is_whitespace() || AROUND.contains(&c);
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in message.char_indices() {
        let is_word = is_around(before);
        before = c;
        if c != '@' || !is_word {
            continue;
        }
        let rest = &message[at + 1..];
        let quoted = rest.strip_prefix('"').and_then(|quoted| quoted.split_once('"'));
        let word = || {
            // A quotation mark without another one is a letter.
            let start = rest.len() - rest.strip_prefix('"').unwrap_or(rest).len();
            let mut is_escaped = false;
            let is_end = |c: char| {
                let is_end = is_around(c) && !(is_escaped && c == ' ');
                is_escaped = c == '\\';
                is_end
            };
            let word = &rest[..rest[start..].find(is_end).map_or(rest.len(), |end| start + end)];
            if word.contains(ESCAPED) { Cow::Owned(word.replace(ESCAPED, " ")) } else { Cow::Borrowed(word) }
        };
        let name = quoted.map_or_else(word, |(name, _)| Cow::Borrowed(name));
        found.extend(Some(name).filter(|name| !name.is_empty()));
    }
    found
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_mention_begins_a_word() {
        for (message, expected) in [
            ("mail me@home.org", &[][..]),
            ("@ alone", &[]),
            ("see @a.rs, (@b/c.rs) and \"@d\".", &["a.rs", "b/c.rs)", "d"]),
            ("@\"my notes.txt\" and @\"open", &["my notes.txt", "\"open"]),
            ("@one,@two", &["one", "two"]),
            (r"@my\ own\ notes.txt and @a\b", &["my own notes.txt", r"a\b"]),
        ] {
            assert_eq!(mentions(message), expected, "{message}");
        }
    }
}
