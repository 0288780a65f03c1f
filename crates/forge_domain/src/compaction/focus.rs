//! A compaction's focus: what to preserve, in words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Message;
use crate::compaction::features::{Features, Term};

/// A focus, in a user's words: what to preserve. A summarizer gets it as it is written; without a model,
/// lines with one of its words count more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"\S"))]
pub struct Focus(String);

/// A focus must say something and got a blank text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a focus must not be empty")]
pub struct FocusError;

/// Fewer characters before the end make no plural.
const LEAST_PLURAL: usize = 3;

impl Focus {
    /// Returns the words as they were written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its terms, as features have them, in singular and plural: a focus on findings means each
    /// finding.
    pub(crate) fn terms(&self) -> Vec<Term> {
        let both_numbers = |word: &str| {
            let lower = word.to_lowercase();
            let end = lower.trim_end_matches(|c: char| !c.is_alphanumeric()).len();
            let other = match lower[..end].strip_suffix('s') {
                Some(one) if end > LEAST_PLURAL && !one.ends_with('s') => one.to_owned(),
                None if end >= LEAST_PLURAL => format!("{}s", &lower[..end]),
                _ => return word.to_owned(),
            };
            format!("{word} {other}")
        };
        let words = self.0.split_whitespace().map(both_numbers).collect::<Vec<_>>().join(" ");
        Features::of(&Message::user(words)).terms
    }
}

impl TryFrom<String> for Focus {
    type Error = FocusError;
    fn try_from(words: String) -> Result<Self, Self::Error> {
        if words.trim().is_empty() { Err(FocusError) } else { Ok(Self(words)) }
    }
}

impl From<Focus> for String {
    fn from(focus: Focus) -> Self {
        focus.0
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, fit_again};
    use super::*;
    use crate::{Conversation, Role};

    #[test]
    fn a_focus_says_something() {
        assert_eq!(Focus::try_from(" \n".to_owned()), Err(FocusError));
        assert_eq!(Focus::try_from("security".to_owned()).map(String::from), Ok("security".to_owned()));
    }

    #[test]
    fn its_terms_are_words_in_their_usual_cases() {
        let terms =
            Focus::try_from("security findings, in src/auth.rs; secret process".to_owned()).unwrap().terms();
        for (word, expected) in [
            ("security", true),
            ("Security", true),
            ("SECURITY", true),
            ("findings", true),
            ("Finding", true),
            ("src/auth.rs", true),
            ("process", true),
            ("proces", false),
            ("secrets", true),
            ("in", false),
            ("other", false),
        ] {
            let named = Features::of(&Message::user(word)).terms;
            assert_eq!(
                named.iter().any(|term| terms.iter().any(|own| own.hash() == term.hash())),
                expected,
                "{word}"
            );
        }
    }

    #[test]
    fn lines_of_the_focus_stand_in_a_record_that_else_lacks_them() {
        let record = |focus: &str| {
            let mut log = Conversation::new();
            log.user("Look around and tell what you find");
            for n in 0..40 {
                log.agent(format!("the load_table_{n} of part_{n}.rs is as it should be"))
                    .agent(format!("another remark about weather and the harbour, number {n}"));
            }
            log.user("Go on with the work");
            let yaml = format!("{{ strategies: [extraction]{focus}, retention_window: 0 }}");
            let fit = fit_again(&yaml, 4_000, &mut log, &Script::new(Vec::new()));
            assert!(fit.result.is_ok(), "{:?}", fit.report);
            let view = log.view();
            let record =
                view.plain().find(|m| m.is_compacted && m.role() == Role::User).map(Message::to_text);
            record.unwrap_or_else(|| panic!("no record: {:?}", fit.report)).matches("harbour").count()
        };
        let (without, with) = (record(""), record(", focus: the harbour"));
        assert!(with > without + 1, "{without} lines without the focus, {with} with it");
    }
}
