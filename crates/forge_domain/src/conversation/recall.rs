//! Finding messages by words: what a word is, and what is shown of a message that has it. Every store does it
//! the same way.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use crate::{AgentId, Body, ContextMessage, Conversation, Message, MessageId};

/// Longest word that is distinguished, in characters; of a longer one the beginning counts.
const WORD_CHARS: usize = 64;
/// Most bytes of the distinct words of one message.
const WORDS_BYTES: usize = 200_000;
/// Characters of an excerpt on either side of the word.
const EXCERPT_CHARS: usize = 120;

/// A search in a run's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchQuery {
    words: BTreeSet<String>,
    /// Only in this agent's conversation. Unset: in every one.
    pub agent: Option<AgentId>,
    /// At most so many messages.
    pub limit: usize,
}

impl SearchQuery {
    /// Creates a search for messages that contain every word of `text`; `None` if it contains no word. A word
    /// is a run of letters and digits, in any case; a character of a script that does not separate words is a
    /// word.
    pub fn new(text: &str, limit: usize) -> Option<Self> {
        let words: BTreeSet<String> = words(text).map(|(_, word)| word).collect();
        (!words.is_empty()).then_some(Self { words, agent: None, limit })
    }

    /// Returns the words, each once, in lower case.
    pub const fn words(&self) -> &BTreeSet<String> {
        &self.words
    }

    /// Returns the text around the place in `text` where most of the words are closest together; its
    /// beginning if it contains none.
    pub fn excerpt(&self, text: &str) -> String {
        let found: Vec<_> = words(text).filter(|(_, word)| self.words.contains(word)).collect();
        // The number of the words from there on, and how far they reach.
        let together = |from: &usize| {
            let (start, most) = (found[*from].0.start, found[*from].0.end + EXCERPT_CHARS);
            let (mut known, mut reach) = (BTreeSet::new(), 0);
            for (at, word) in found[*from..].iter().take_while(|(at, _)| at.end <= most) {
                if known.insert(word) {
                    reach = at.end - start;
                }
            }
            (known.len(), Reverse(reach))
        };
        // Of equals the last one wins, which is the first in the text.
        let best = (0..found.len()).rev().max_by_key(together);
        let at = best.map_or(0..0, |best| found[best].0.clone());
        let start =
            text[..at.start].char_indices().rev().take(EXCERPT_CHARS).last().map_or(at.start, |(i, _)| i);
        let after = text[at.end..].char_indices().nth(EXCERPT_CHARS).map_or(text.len(), |(i, _)| at.end + i);
        let (before_it, after_it) =
            (if start > 0 { "…" } else { "" }, if after < text.len() { "…" } else { "" });
        format!("{before_it}{}{after_it}", &text[start..after])
    }
}

impl Conversation {
    /// Finds the messages ever appended that contain every word of `query`, the newest first.
    pub fn find<'a>(&'a self, query: &'a SearchQuery) -> impl Iterator<Item = (MessageId, String)> + use<'a> {
        let newest_first = self.entries().iter().rev().filter_map(|entry| match entry {
            crate::Entry::Message(message) => Some(message),
            crate::Entry::Compaction(_) | crate::Entry::Undo(_) => None,
        });
        newest_first.filter_map(|message: &ContextMessage| {
            let text = searched_text(message.message());
            let has = distinct_words(&text);
            let id = message.id()?;
            query.words.is_subset(&has).then(|| (id, query.excerpt(&text)))
        })
    }
}

/// Returns the searched text of a message: its content, then its calls.
pub fn searched_text(message: &Message) -> String {
    let mut text = message.to_text();
    if let Body::Assistant { calls, .. } = &message.body {
        for call in calls {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(call.name.as_str());
            text.push(' ');
            text.push_str(&call.arguments);
        }
    }
    text
}

/// Returns the words of `text`, each once, in lower case. For an enormous text, those of its beginning.
pub fn distinct_words(text: &str) -> BTreeSet<String> {
    let (mut all, mut bytes) = (BTreeSet::new(), 0);
    for (_, word) in words(text) {
        bytes += if all.contains(&word) { 0 } else { word.len() };
        if bytes > WORDS_BYTES {
            break;
        }
        all.insert(word);
    }
    all
}

/// Iterates over the words of `text` and their places.
fn words(text: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    let mut rest = text.char_indices().peekable();
    std::iter::from_fn(move || {
        let (start, first) = rest.by_ref().find(|(_, character)| character.is_alphanumeric())?;
        let mut end = start + first.len_utf8();
        if !is_word_by_itself(first) {
            while let Some((at, character)) =
                rest.next_if(|(_, character)| character.is_alphanumeric() && !is_word_by_itself(*character))
            {
                end = at + character.len_utf8();
            }
        }
        let word = text[start..end].chars().take(WORD_CHARS).flat_map(char::to_lowercase);
        // Lower case may bring marks that are no letters; they would part the word in an index.
        Some((start..end, word.filter(|character| character.is_alphanumeric()).collect()))
    })
}

/// Checks whether the character belongs to a script that writes words without spaces.
pub(crate) const fn is_word_by_itself(character: char) -> bool {
    matches!(character, '\u{e00}'..='\u{e7f}' | '\u{2e80}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn words_are_runs_of_letters_and_digits_in_lower_case() {
        for (text, expected) in [
            ("", vec![]),
            ("Read src/Main.rs, twice: read!", vec!["main", "read", "rs", "src", "twice"]),
            ("ÉTÉ 42x", vec!["42x", "été"]),
            ("読む file", vec!["file", "む", "読"]),
            ("İ", vec!["i"]),
        ] {
            assert_eq!(distinct_words(text), expected.into_iter().map(str::to_owned).collect(), "{text}");
        }
    }

    #[test]
    fn an_excerpt_is_the_text_around_the_word() {
        let query = SearchQuery::new("NEEDLE", 5).unwrap();
        let long = format!("{}needle{}", "é ".repeat(100), " ü".repeat(100));
        let expected = format!("…{}needle{}…", "é ".repeat(60), " ü".repeat(60));
        for (text, expected) in
            [("a needle here", "a needle here"), ("nothing", "nothing"), (&long, expected.as_str())]
        {
            assert_eq!(query.excerpt(text), expected);
        }
        let query = SearchQuery::new("the gauge at Karvo", 5).unwrap();
        let noise = "the ferry is at the pier, ".repeat(20);
        let text = format!("{noise}the gauge at Karvo was built in May; {noise}");
        assert!(
            query.excerpt(&text).contains("pier, the gauge at Karvo was built in May"),
            "{}",
            query.excerpt(&text)
        );
        assert_eq!(SearchQuery::new(" ,;", 5), None);
    }
}
