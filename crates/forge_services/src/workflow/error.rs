//! The reasons why a workflow cannot be loaded: the place, the fault, and what to do about it.

use std::fmt;

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
            let number = position.line.to_string();
            let margin = " ".repeat(number.len());
            let (line, column) = around(line, position.column);
            write!(f, "\n{margin} |\n{number} | {line}\n{margin} | {}^", blank(&line, column))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\nhelp: {hint}"),
            None => Ok(()),
        }
    }
}

/// Returns the visible part of a line that is wider than a terminal, such as a prompt's: the text around
/// `column`, and the column in it.
fn around(line: &str, column: usize) -> (String, usize) {
    const BEFORE: usize = 80;
    const WIDEST: usize = 160;
    if line.chars().count() <= WIDEST {
        return (line.to_owned(), column);
    }
    let left_out = column.saturating_sub(BEFORE);
    let cut = |is_cut: bool| if is_cut { "…" } else { "" };
    let rest = line.chars().skip(left_out);
    let more = cut(rest.clone().count() > WIDEST);
    let shown: String = rest.take(WIDEST).collect();
    (format!("{}{shown}{more}", cut(left_out > 0)), column - left_out + usize::from(left_out > 0))
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

/// Returns the blanks that put the caret below `column`: tabs stay tabs, since they are as wide here as in
/// the line above.
fn blank(line: &str, column: usize) -> String {
    let written = line.chars().map(|c| if c == '\t' { '\t' } else { ' ' });
    written.chain(std::iter::repeat(' ')).take(column.saturating_sub(1)).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn of_a_long_line_is_shown_what_stands_around_the_place() {
        let long = "ä".repeat(100) + "X" + &"b".repeat(300);
        for (line, column, expected) in [
            ("short".to_owned(), 3, ("short".to_owned(), 3)),
            (long.clone(), 101, (format!("…{}X{}…", "ä".repeat(79), "b".repeat(80)), 81)),
            (long.clone(), 1, (format!("{}X{}…", "ä".repeat(100), "b".repeat(59)), 1)),
            (long, 401, (format!("…{}", "b".repeat(80)), 81)),
        ] {
            let (shown, at) = around(&line, column);
            let same = |text: &str, at: usize| text.chars().nth(at - 1);
            assert_eq!((shown.as_str(), at), (expected.0.as_str(), expected.1));
            assert_eq!(same(&shown, at), same(&line, column));
        }
    }
}
