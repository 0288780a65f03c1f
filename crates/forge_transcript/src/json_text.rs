//! JSON text as other programs write it: with halves of surrogate pairs, which are no characters.

use std::borrow::Cow;

use serde::de::DeserializeOwned;

/// Parses `text`. An escape of a lone surrogate, left by programs that cut a text inside a character, is read
/// as U+FFFD.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(&repair_text(text))
}

/// Replaces every escape of a lone surrogate in `text` by that of U+FFFD. Both are six bytes, so positions in
/// the text stay the same.
pub(crate) fn repair_text(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let mut lone = Vec::new();
    let mut at = 0;
    while let Some(found) = text[at..].find('\\') {
        at += found;
        match surrogate(bytes, at) {
            Some(Half::High) if surrogate(bytes, at + 6) == Some(Half::Low) => at += 12,
            Some(_) => {
                lone.push(at);
                at += 6;
            }
            // The character after a backslash belongs to it: `\\ud800` is a backslash and four letters.
            None => at += 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        }
    }
    if lone.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut mended = text.to_owned();
    for at in lone {
        mended.replace_range(at..at + 6, "\\ufffd");
    }
    Cow::Owned(mended)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    High,
    Low,
}

/// Returns which half of a pair is escaped at `at`, if any.
fn surrogate(bytes: &[u8], at: usize) -> Option<Half> {
    match bytes.get(at..at + 6)? {
        [b'\\', b'u', b'd' | b'D', third, rest @ ..] if rest.iter().all(u8::is_ascii_hexdigit) => match third
        {
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(Half::High),
            b'c'..=b'f' | b'C'..=b'F' => Some(Half::Low),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lone_surrogates_are_mended_and_pairs_are_left() {
        for (text, expected) in [
            (r#""plain""#, "plain"),
            (r#""\ud83d\ude00""#, "😀"),
            (r#""a\ud83dz""#, "a\u{fffd}z"),
            (r#""a\uDE00""#, "a\u{fffd}"),
            (r#""\ud83d\ud83d\ude00""#, "\u{fffd}😀"),
            (r#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
            (r#""\\ud800""#, r"\ud800"),
            (r#""\\\ud800""#, "\\\u{fffd}"),
            (r#""é\n\ud8ff\"""#, "é\n\u{fffd}\""),
            (r#""\ud7ff""#, "\u{d7ff}"),
        ] {
            let actual: String = parse(text).unwrap();
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn broken_escapes_are_left_to_the_parser() {
        for text in [r#""\ud8"#, "\"\\", r#""\ud8zz""#, "\"\\é"] {
            assert_eq!(repair_text(text), text);
            assert!(parse::<String>(text).is_err());
        }
    }
}
