//! Which tools something is about, by their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ToolName, is_star_match};

/// A tool's name in which `*` matches any text, even none: `shell`, `files__*`, `*`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = r"\S"))]
pub struct ToolPattern(String);

/// A pattern must say something and got a blank text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a tool's name must not be empty; `*` stands for every tool")]
pub struct ToolPatternError;

impl ToolPattern {
    /// Checks whether it matches more than one name.
    pub fn is_wild(&self) -> bool {
        self.0.contains('*')
    }

    /// Checks whether it matches `tool`.
    pub fn matches(&self, tool: &ToolName) -> bool {
        is_star_match(&self.0, tool.as_str())
    }
}

impl TryFrom<String> for ToolPattern {
    type Error = ToolPatternError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() { Err(ToolPatternError) } else { Ok(Self(text)) }
    }
}

impl From<ToolPattern> for String {
    fn from(pattern: ToolPattern) -> Self {
        pattern.0
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, tool, expected) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("*", "read", true),
            ("files__*", "files__read", true),
            ("files__*", "files__", true),
            ("files__*", "other__read", false),
            ("*_file", "read_file", true),
            ("*_file", "read_files", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("**", "x", true),
        ] {
            let matcher = ToolPattern::try_from(pattern.to_owned()).unwrap();
            assert_eq!(matcher.matches(&ToolName::new(tool).unwrap()), expected, "{pattern} {tool}");
        }
        assert_eq!(ToolPattern::try_from(" ".to_owned()), Err(ToolPatternError));
    }
}
