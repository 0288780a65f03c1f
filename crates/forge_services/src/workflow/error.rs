//! The reasons why a workflow cannot be loaded: the place, the fault, and what to do about it.

use std::fmt;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::key_forms::hide_keys;
use super::{Position, Source};

/// A fault in one layer of a workflow. Its texts are boxed, so that a result with it stays small. Displays as
/// several lines of plain text, without a line end at the last:
///
/// ```text
/// invalid limit 'lots' (expected a number of tokens, or a percentage from 1% to 100%)
///   --> forge.yaml:4:24: agents.researcher.compact.token_threshold
///   |
/// 4 |       token_threshold: lots
///   |                        ^
/// help: for example `token_threshold: 80%`
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct WorkflowError {
    /// Which layer: a file's name, or words such as `environment variable FORGE_MODEL`.
    pub source_name: Box<str>,
    /// The position in the source, if that is a text and the position is known.
    pub position: Option<Position>,
    /// The key's path, such as `agents.researcher.compact.token_threshold`; empty if the fault is not in a
    /// key.
    pub path: Box<str>,
    /// The fault.
    pub what: Box<str>,
    /// The way to fix it.
    pub hint: Option<Box<str>>,
    /// The line at fault, as it is written.
    pub snippet: Option<Box<str>>,
}

impl WorkflowError {
    /// Creates a fault at a position of `source`.
    pub(super) fn at(source: &Source, position: Option<Position>, path: &str, what: &str) -> Self {
        let snippet = position.and_then(|position| line_of(&source.text, position.line));
        Self {
            source_name: source.name.as_str().into(),
            position,
            path: path.into(),
            what: hide_keys(what).into(),
            hint: None,
            snippet,
        }
    }

    /// Creates a fault in a layer that is not a text.
    pub(super) fn in_layer(source_name: &str, what: &str) -> Self {
        Self {
            source_name: source_name.into(),
            position: None,
            path: "".into(),
            what: what.into(),
            hint: None,
            snippet: None,
        }
    }

    pub(super) fn with_hint(self, hint: Option<&str>) -> Self {
        Self { hint: hint.map(Into::into), ..self }
    }
}

impl fmt::Display for WorkflowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  --> {}", self.what, self.source_name)?;
        if let Some(position) = self.position {
            write!(f, ":{position}")?;
        }
        if !self.path.is_empty() {
            write!(f, ": {}", self.path)?;
        }
        if let (Some(position), Some(line)) = (self.position, &self.snippet) {
            write!(f, "\n{}", draw(line, position))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhelp: {hint}"),
            None => Ok(()),
        }
    }
}

/// Draws a line with a caret below the position; of one that is wider than a terminal, such as a prompt's,
/// the part around it.
fn draw(line: &str, position: Position) -> String {
    const WIDEST: usize = 160;
    let at = line.char_indices().nth(position.column.saturating_sub(1)).map_or(line.len(), |(at, _)| at);
    let end = at + line[at..].chars().next().map_or(0, char::len_utf8);
    let snippet = Snippet::source(line).line_start(position.line);
    let snippet = snippet.annotation(AnnotationKind::Primary.span(at..end));
    Renderer::plain().term_width(WIDEST).render(&[Group::with_level(Level::ERROR).element(snippet)])
}

fn line_of(text: &str, line: usize) -> Option<Box<str>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    lines_of(text).nth(line.checked_sub(1)?).map(without_secret)
}

/// Returns the lines as YAML counts them: a carriage return alone ends one too.
pub(super) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    text.split("\r\n").flat_map(|lines| lines.split(['\r', '\n']))
}

/// Returns the line without the value of a key whose name marks it as secret, and without what may be a
/// password in an address: errors end up in logs.
fn without_secret(line: &str) -> Box<str> {
    const SECRET: [&str; 4] = ["api_key:", "secret:", "token:", "password:"];
    match SECRET.iter().filter_map(|name| line.find(name).map(|at| at + name.len())).min() {
        Some(end) if !line[end..].trim().is_empty() => format!("{} (hidden)", &line[..end]).into(),
        _ => hide_keys(line).into(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_caret_stands_below_its_character() {
        let long = "ä".repeat(100) + "X" + &"b".repeat(300);
        for (line, column, expected) in [
            ("short", 3, "  |\n7 | short\n  |   ^"),
            ("short", 9, "  |\n7 | short\n  |      ^"),
            ("", 1, "  |\n7 |\n  | ^"),
            // Two columns wide each.
            ("日本: x", 5, "  |\n7 | 日本: x\n  |       ^"),
            ("\ta: b", 2, "  |\n7 |     a: b\n  |     ^"),
        ] {
            assert_eq!(draw(line, Position { line: 7, column }), expected, "{line}");
        }
        let drawn = draw(&long, Position { line: 7, column: 101 });
        let lines: Vec<&str> = drawn.lines().collect();
        assert!(lines[1].chars().count() <= 165, "{drawn}");
        let at = lines[2].chars().position(|c| c == '^').unwrap();
        assert_eq!(lines[1].chars().nth(at), Some('X'), "{drawn}");
    }
}
