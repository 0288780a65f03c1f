//! The entries of a record. Apart because the form of their lines keeps a record safe: no content can be
//! taken for anything else, and a later record takes them over byte for byte.

use super::{INDENT, ITEM};
use crate::compaction::features::is_line_break;

/// A part of a record: its lines as they are written there. The first begins where a line begins, the others
/// are indented, so that no content can be taken for anything else.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(pub(super) String);

impl Entry {
    /// Quotes the user's text.
    pub(crate) fn quote(text: &str) -> Self {
        Self(format!("{ITEM}{}", indented(text)))
    }

    /// Quotes the agent's question and the user's answer, each in one line.
    pub(crate) fn reply(question: &str, answer: &str) -> Self {
        Self::quote(&format!("{question} → {answer}"))
    }

    /// Quotes `text` behind its label: in the same line, or below it if it is `a_block`.
    pub(crate) fn labelled(label: &str, text: &str, a_block: bool) -> Self {
        let between = if a_block { format!("\n{INDENT}") } else { " ".to_owned() };
        Self(format!("{label}:{between}{}", indented(text)))
    }

    /// Takes over the lines of an entry of an earlier record.
    pub(crate) fn carry(lines: &str) -> Self {
        let is_as_now = lines.lines().skip(1).all(|line| line.starts_with(INDENT));
        Self(if is_as_now { lines.to_owned() } else { indented(lines) })
    }

    /// Returns its lines.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the number in the label at its start, by which entries are in order.
    pub(crate) fn number(&self) -> u64 {
        let digits = self.0.strip_prefix('m').unwrap_or_default();
        let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().unwrap_or(0)
    }
}

/// Returns `text` with every line but the first indented, however its lines end.
fn indented(text: &str) -> String {
    // Windows ends a line with two characters.
    let text = text.replace("\r\n", "\n");
    let mut indented = String::with_capacity(text.len() + 16);
    let mut was_blank = false;
    for (nth, line) in text.split(is_line_break).enumerate() {
        let line = line.trim_end();
        if nth == 0 {
            indented.push_str(line);
            continue;
        }
        // One blank line says as much as several.
        if line.is_empty() && was_blank {
            continue;
        }
        was_blank = line.is_empty();
        indented.push('\n');
        indented.push_str(INDENT);
        indented.push_str(line);
    }
    indented
}
