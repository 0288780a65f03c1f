//! The secret that a provider asks for, kept out of everything that is shown.

use std::fmt;

/// A text that is never shown: its `Debug` form hides it, and it has no other.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes in a secret, without the blanks and line ends that files and shells leave around it.
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(text.as_ref().trim().to_owned())
    }

    /// The secret itself, for the one header that carries it.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without the secret: some servers repeat it when they refuse it. A value of a few characters, such as the `none` that
    /// servers without keys are given, is no secret, and would tear holes into every text.
    pub(crate) fn hide_in(&self, text: String) -> String {
        match self.0.len() < LEAST_HIDDEN || !text.contains(&self.0) {
            true => text,
            false => text.replace(&self.0, "(key hidden)"),
        }
    }
}

/// Fewer bytes are hidden nowhere.
const LEAST_HIDDEN: usize = 6;

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// How a provider is told who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// It does not ask.
    None,
    /// By this key.
    Given(Secret),
    /// By a key that nobody gave.
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
        let key = Key::Given(Secret::new(" sk-123\n"));
        assert_eq!(format!("{key:?}"), "Given(Secret(hidden))");
        assert_eq!(Secret::new("sk-123").hide_in("bad key sk-123.".into()), "bad key (key hidden).");
        for short in ["", "k", "none"] {
            assert_eq!(Secret::new(short).hide_in("none knows".into()), "none knows", "{short}");
        }
    }
}
