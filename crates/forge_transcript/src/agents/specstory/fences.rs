//! Texts between fences, and characters that a history writes as entities.

use super::parts::FENCE;

/// The entities that a history has in place of characters.
const ENTITIES: [(&str, char); 7] = [
    ("&lt;", '<'),
    ("&gt;", '>'),
    ("&quot;", '"'),
    ("&#39;", '\''),
    ("&#x27;", '\''),
    ("&#96;", '`'),
    ("&amp;", '&'),
];

/// A text between two fences.
pub(super) struct Fenced<'a> {
    pub(super) language: &'a str,
    pub(super) text: &'a str,
    /// The text after it.
    pub(super) rest: &'a str,
}

impl<'a> Fenced<'a> {
    /// Finds the first fence of a text.
    pub(super) fn first(text: &'a str) -> Option<Self> {
        let start = line_with(text, FENCE)? + FENCE.len();
        let (language, below) = text[start..].split_once('\n')?;
        let language = language.trim();
        let mut at = 0;
        for line in below.split_inclusive('\n') {
            if line.trim_end() == FENCE {
                let text = below[..at].strip_suffix('\n').unwrap_or(&below[..at]);
                return Some(Self { language, text, rest: &below[at + line.len()..] });
            }
            at += line.len();
        }
        Some(Self { language, text: below, rest: "" })
    }

    /// Checks whether the fence names the language of a program.
    pub(super) fn is_code(&self) -> bool {
        !matches!(self.language, "" | "text" | "json" | "diff")
    }
}

/// Returns the place of the first line of a text that begins with such words.
pub(super) fn line_with(text: &str, words: &str) -> Option<usize> {
    let is_first = |at: &usize| *at == 0 || text[..*at].ends_with('\n');
    text.match_indices(words).map(|(at, _)| at).find(is_first)
}

/// Returns what a fence is around; the text itself if it is not in one.
pub(super) fn without_fence(text: &str) -> &str {
    let fenced = text.strip_prefix(FENCE).and_then(|rest| rest.split_once('\n'));
    fenced.and_then(|(_, fenced)| fenced.strip_suffix(FENCE)).unwrap_or(text).trim_end()
}

/// Returns a text with the characters that its entities stand for. What they spell together stays: `&amp;lt;`
/// is `&lt;`.
pub(super) fn decoded(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        plain.push_str(&rest[..at]);
        rest = &rest[at..];
        let found = ENTITIES.iter().find(|(entity, _)| rest.starts_with(*entity));
        let (length, character) = found.map_or((1, '&'), |(entity, character)| (entity.len(), *character));
        plain.push(character);
        rest = &rest[length..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn entities_are_decoded_once() {
        for (text, expected) in [
            ("Map&lt;A, B&gt; =&gt; a &amp;&amp; b", "Map<A, B> => a && b"),
            ("&#39;A&#39; &#96;b&#96; &quot;c&quot;", "'A' `b` \"c\""),
            ("&amp;lt; &amp;amp;", "&lt; &amp;"),
            ("a & b &nbsp; &", "a & b &nbsp; &"),
        ] {
            assert_eq!(decoded(text), expected);
        }
    }
}
