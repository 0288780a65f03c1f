//! Lines of calls that are no passages of their own, because the labels of the calls and of their results
//! tell them. Apart from the cutting into passages, which asks for one line after the other.

use std::collections::HashSet;

use serde_json::Value;

use super::label::SUBJECT_CHARS;
use crate::compaction::arguments::{QUERIES, patched_in};
use crate::compaction::findings::{Deed, is_look};
use crate::{ContextMessage, ToolCall};

/// The arguments, in small letters, by which an agent says what a change or a command is for. The outcome
/// tells more than the purpose.
const PURPOSES: [&str; 7] =
    ["description", "explanation", "instruction", "instructions", "purpose", "reason", "summary"];
/// From so many characters on, a piece of a purpose is known by itself.
const PIECE_CHARS: usize = 40;

/// Returns the numbers of such lines of a message.
pub(super) fn told_lines(message: &ContextMessage) -> HashSet<usize> {
    let mut calls = message.message().calls().iter().zip(&message.findings().deeds);
    let features = message.features();
    let mut told = HashSet::new();
    let mut label = Label::default();
    for (nth, line) in features.lines.iter().enumerate().filter(|(_, line)| line.is_call) {
        if line.begins_call {
            label = calls.next().map(|(call, deed)| Label::of(call, deed)).unwrap_or_default();
        }
        if label.tells(features.line(line)) {
            told.insert(nth);
        }
    }
    told
}

/// The parts of a call that labels have, or that tell no more than they do.
#[derive(Default)]
struct Label {
    /// True if that is all of it.
    is_all: bool,
    /// Its paths, its subject and its purpose, and the lines of these.
    texts: Vec<String>,
    lines: HashSet<String>,
}

impl Label {
    fn of(call: &ToolCall, deed: &Deed) -> Self {
        if only_asks(call, deed) {
            return Self { is_all: true, ..Self::default() };
        }
        let mut texts: Vec<String> = deed.touches.iter().map(|(path, _)| path.clone()).collect();
        let is_whole =
            |subject: &&String| !subject.contains('\n') && subject.chars().nth(SUBJECT_CHARS).is_none();
        texts.extend(deed.subject.iter().filter(is_whole).filter(|_| !deed.acts(call)).cloned());
        if deed.runs || deed.changes_files() {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
            let fields = arguments.as_object().into_iter().flatten();
            let purposes = fields.filter(|(name, _)| PURPOSES.contains(&name.to_lowercase().as_str()));
            texts.extend(purposes.filter_map(|(_, purpose)| purpose.as_str().map(str::to_owned)));
        }
        let lines = texts.iter().flat_map(|text| text.lines()).map(|line| line.trim().to_owned()).collect();
        Self { is_all: false, texts, lines }
    }

    /// Checks whether a line of the call is told.
    fn tells(&self, line: &str) -> bool {
        let is_long = || line.chars().nth(PIECE_CHARS - 1).is_some();
        let is_piece = || is_long() && self.texts.iter().any(|text| text.contains(line));
        self.is_all || patched_in(line).is_some() || self.lines.contains(line) || is_piece()
    }
}

/// Checks whether a call only looks something up: who reads its arguments without its result learns nothing.
fn only_asks(call: &ToolCall, deed: &Deed) -> bool {
    let does = deed.runs || deed.changes_files() || deed.acts(call);
    deed.only_looks || !does && (is_look(call.name.as_str()) || has_query(call))
}

/// Checks whether an argument of a call is a query.
fn has_query(call: &ToolCall) -> bool {
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    arguments.as_object().is_some_and(|fields| fields.keys().any(|name| QUERIES.contains(&name.as_str())))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::{Characters, tool_call};

    /// Returns the lines of a call that are passages, without the first.
    fn passages_of(tool: &str, arguments: &Value) -> Vec<String> {
        let calling = Message::calling(vec![tool_call(tool, arguments)]);
        let message = ContextMessage::count(calling, &Characters);
        let (features, told) = (message.features(), told_lines(&message));
        let lines = features.lines.iter().enumerate().skip(1).filter(|(nth, _)| !told.contains(nth));
        lines.map(|(_, line)| features.line(line).to_owned()).collect()
    }

    #[test]
    fn the_arguments_of_a_call_that_only_looks_are_no_passages() {
        let text = "which of the boats of the harbour leave at noon";
        let long = [text; 4].join(" ");
        let query = "select boat, hour\nfrom departures\nwhere hour = 12";
        for (tool, arguments, is_told) in [
            ("web_search", json!({ "q": text }), true),
            ("harbour__lookupBoats", json!({ "about": text }), true),
            ("departures", json!({ "query": query }), true),
            (
                "Bash",
                json!({ "command": "grep -rn 'leave at noon' boats\ngrep -rn 'come at noon' boats" }),
                true,
            ),
            ("Bash", json!({ "command": "make boats\nmake harbour at noon" }), false),
            ("write", json!({ "path": "boats.sql", "content": query }), false),
            ("create_document", json!({ "text": text }), false),
            ("think", json!({ "thought": long }), false),
            ("show_message", json!({ "text": long }), false),
        ] {
            assert_eq!(passages_of(tool, &arguments).is_empty(), is_told, "{tool} {arguments}");
        }
    }

    #[test]
    fn of_a_change_its_path_and_its_purpose_are_no_passages() {
        let purpose = "Write the sails so that the mill turns";
        let written = "pub fn turn_sails() { turn(1) }";
        let patch = format!(
            "*** Begin Patch\n*** Add File: sails.rs\n+{written}\n*** Update File: mill.rs\n+{purpose}\n*** End Patch"
        );
        for (tool, arguments, expected) in [
            (
                "write",
                json!({"content": written, "path": "src/sails.rs", "explanation": purpose}),
                vec![written],
            ),
            ("write", json!({"path": "sails.rs", "content": purpose}), vec![purpose]),
            (
                "Bash",
                json!({"command": "make sails\nmake mill of them", "description": purpose}),
                vec!["make sails", "make mill of them"],
            ),
            ("create_issue", json!({"title": "Sails", "summary": purpose}), vec![purpose]),
            ("extract", json!({"goal": purpose}), vec![]),
            ("apply_patch", json!({"input": patch}), vec![written, purpose]),
        ] {
            assert_eq!(passages_of(tool, &arguments), expected, "{tool} {arguments}");
        }
    }
}
