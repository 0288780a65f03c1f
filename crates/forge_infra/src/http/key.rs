//! The secret that a provider requires, kept out of everything that is shown.

use std::collections::BTreeSet;
use std::fmt;

/// A text that is never shown: its `Debug` form hides it, and it has no other.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from `text`, without the blanks and line ends that files and shells leave around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// Returns the secret itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Returns `text` without the secret, for errors, logs and everything else that users see: some servers
    /// repeat the key that they refuse. Never call it on data, such as a reply, a result or a file: what is
    /// hidden there is destroyed. Placeholders and common words are left alone, see [`Self::is_distinctive`].
    #[must_use]
    pub fn hide_in(&self, text: String) -> String {
        match self.is_in(&text) {
            true => text.replace(&self.0, HIDDEN),
            false => text,
        }
    }

    /// Checks whether the secret occurs in `text`. Placeholders and common words never do.
    pub fn is_in(&self, text: &str) -> bool {
        text.contains(&self.0) && self.is_distinctive()
    }

    /// Checks whether the text differs clearly from ordinary words. Servers without keys are given
    /// placeholders such as `ollama` or `not-needed`: hiding those would tear holes into every text and
    /// protect nothing.
    pub fn is_distinctive(&self) -> bool {
        let letters: String =
            self.0.chars().filter(|c| c.is_alphanumeric()).collect::<String>().to_lowercase();
        let n_kinds = letters.chars().collect::<BTreeSet<_>>().len();
        let is_word = |c: char| c.is_lowercase() || matches!(c, '-' | '_' | '.' | ' ');
        // A capital at the beginning does not make a word a key.
        let is_short_word = self.0.len() < SHORTEST_PHRASE
            && (self.0.chars().skip(1).all(is_word) || self.0 == self.0.to_uppercase())
            && !self.0.contains(|c: char| c.is_ascii_digit());
        self.0.len() >= LEAST_SECRET
            && n_kinds >= LEAST_KINDS
            && !is_short_word
            && !PLACEHOLDERS.contains(&letters.trim_start_matches("sk"))
    }
}

/// The replacement for a hidden secret.
const HIDDEN: &str = "(key hidden)";
/// The least bytes of a secret: fewer make a word.
const LEAST_SECRET: usize = 8;
/// The least number of different letters and digits: fewer are a pattern such as `sk-xxxxxxxx`.
const LEAST_KINDS: usize = 5;
/// The length from which words without a digit or a capital count as a secret, such as a passphrase.
const SHORTEST_PHRASE: usize = 16;
/// Longer placeholders from the documentation of servers and clients: letters and digits alone, without a
/// leading `sk`.
const PLACEHOLDERS: [&str; 16] = [
    "nokeyrequired",
    "noapikeyrequired",
    "noapikeyneeded",
    "notneededforlocal",
    "placeholderapikey",
    "dummyapikey",
    "yourapikey",
    "yourapikeyhere",
    "yourkeyhere",
    "youropenaiapikey",
    "youropenaiapikeyhere",
    "insertyourapikeyhere",
    "replacewithyourapikey",
    "12345678",
    "123456789",
    "1234567890",
];

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// The authentication of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// The provider needs no key.
    None,
    /// The provider gets this key.
    Given(Secret),
    /// The provider needs a key that was not given.
    Missing {
        /// The environment variable that would hold it.
        variable: String,
    },
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_secret_is_trimmed_and_never_shown() {
        let key = Key::Given(Secret::new(" sk-1234567\n"));
        assert_eq!(format!("{key:?}"), "Given(Secret(hidden))");
        assert_eq!(Secret::new("sk-1234567").hide_in("bad key sk-1234567.".into()), "bad key (key hidden).");
    }

    #[test]
    fn placeholders_and_words_are_no_secrets() {
        for (key, expected) in [
            ("", false),
            ("k", false),
            ("none", false),
            ("EMPTY", false),
            ("ollama", false),
            ("lm-studio", false),
            ("LM_STUDIO", false),
            ("not-needed", false),
            ("Anonymous", false),
            ("no-key-required", false),
            ("sk-no-key-required", false),
            ("sk-xxxxxxxxxxxxxxxxxxxxxxxx", false),
            ("00000000", false),
            ("1234567890", false),
            ("your-openai-api-key-here", false),
            ("YOUR_API_KEY_HERE", false),
            ("sk-1234567", true),
            ("hunter2hunter", true),
            ("gsk_8fQ2mZr", true),
            ("AbCdEfGhIj", true),
            ("correct-horse-battery-staple", true),
            ("2f1d9c0a77e34b5c", true),
        ] {
            assert_eq!(Secret::new(key).is_distinctive(), expected, "{key}");
            let text = format!("we use {key} here");
            assert_eq!(Secret::new(key).hide_in(text.clone()) != text, expected, "{key}");
        }
    }
}
