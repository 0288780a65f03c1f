//! A text with its origin, and the position of a key in it.

use std::fmt;

use super::outline::Outline;

/// A YAML text and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name in errors: a file's path as the user knows it.
    pub name: String,
    /// The text.
    pub text: String,
}

impl Source {
    /// Creates a text of that name.
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Returns the position of the key of `path`, such as `agents.researcher.compact.max_tokens` or
/// `agents.researcher.tools[1]`: its value if that starts in the key's line, else the key. Agents are
/// addressed by id in both of their forms. For a missing key it is its nearest parent; `None` if not even the
/// first key is there.
pub fn locate(source: &Source, path: &str) -> Option<Position> {
    Outline::of(&source.text).nearest(path).map(|place| place.position)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const MAP: &str = "\
models:
  gpt-4.1: { window: 9 }
agents:
  researcher:
    model: m
    tools: [read, shell]
    compact: { max_tokens: 5 }
    system_prompt: |
      hi
  writer: {}
";
    const LIST: &str = "\
agents:
  - model: m
    id: researcher
    compact:
      max_tokens: 5
      strategies:
        - sliding_window:
            keep_first: 2
        - truncation
  - { id: writer }
";

    #[test]
    fn a_path_leads_to_where_its_key_stands() {
        for (text, path, expected) in [
            (MAP, "models.gpt-4.1.window", Some((2, 22))),
            (MAP, "agents", Some((3, 1))),
            (MAP, "agents.researcher", Some((4, 3))),
            (MAP, "agents.researcher.model", Some((5, 12))),
            (MAP, "agents.researcher.tools", Some((6, 12))),
            (MAP, "agents.researcher.tools[1]", Some((6, 19))),
            (MAP, "agents.researcher.compact.max_tokens", Some((7, 28))),
            (MAP, "agents.researcher.system_prompt", Some((8, 5))),
            (MAP, "agents.writer", Some((10, 11))),
            (MAP, "agents.researcher.compact.token_threshold", Some((7, 14))),
            (MAP, "agents.writer.compact.max_tokens", Some((10, 11))),
            (MAP, "agents.nobody.model", Some((3, 1))),
            (MAP, "providers.x", None),
            (LIST, "agents.researcher", Some((2, 5))),
            (LIST, "agents.researcher.compact", Some((4, 5))),
            (LIST, "agents.researcher.compact.max_tokens", Some((5, 19))),
            (LIST, "agents.researcher.compact.strategies[0].sliding_window.keep_first", Some((8, 25))),
            (LIST, "agents.researcher.compact.strategies[1]", Some((9, 11))),
            (LIST, "agents.writer.id", Some((10, 11))),
            (LIST, "agents[1].id", Some((10, 11))),
            ("", "agents", None),
            ("- a\n", "agents", None),
            ("agents: {a: {model: b\n", "agents.a.model", Some((1, 21))),
        ] {
            let actual = locate(&Source::new("forge.yaml", text), path);
            assert_eq!(actual, expected.map(|(line, column)| Position { line, column }), "{path}");
        }
    }
}
