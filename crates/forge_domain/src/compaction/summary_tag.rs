//! The tag that encloses a summary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of an XML-like tag: a letter, then letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = "^[A-Za-z][A-Za-z0-9_-]*$"))]
pub struct SummaryTag(String);

/// A text that cannot name a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid tag name '{0}' (expected a letter, then letters, digits, `_` and `-`)")]
pub struct SummaryTagError(String);

impl SummaryTag {
    /// Returns the tag's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SummaryTag {
    fn default() -> Self {
        Self("forge_context_summary".to_owned())
    }
}

impl TryFrom<String> for SummaryTag {
    type Error = SummaryTagError;
    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if is_name { Ok(Self(name)) } else { Err(SummaryTagError(name)) }
    }
}

impl From<SummaryTag> for String {
    fn from(tag: SummaryTag) -> Self {
        tag.0
    }
}
