//! Lines of calls that are no passages of their own, because the labels of the calls and of their results tell
//! them. Apart from the cutting into passages, which asks for one line after the other.

use std::collections::HashSet;

use serde_json::Value;

use crate::compaction::arguments::QUERIES;
use crate::compaction::findings::{Deed, is_look};
use crate::{ContextMessage, ToolCall};

/// Returns the numbers of such lines of a message.
pub(super) fn told_lines(message: &ContextMessage) -> HashSet<usize> {
    let mut calls = message.message().calls().iter().zip(&message.findings().deeds);
    let mut told = HashSet::new();
    let mut looks_up = false;
    let lines = message.features().lines.iter().enumerate();
    for (nth, line) in lines.filter(|(_, line)| line.is_call) {
        if line.begins_call {
            looks_up = calls.next().is_some_and(|(call, deed)| only_asks(call, deed));
        }
        if looks_up {
            told.insert(nth);
        }
    }
    told
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
    use serde_json::{Value, json};

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
        let query = "select boat, hour\nfrom departures\nwhere hour = 12";
        for (tool, arguments, is_told) in [
            ("web_search", json!({ "q": text }), true),
            ("harbour__lookupBoats", json!({ "about": text }), true),
            ("sql", json!({ "query": query }), true),
            ("Bash", json!({ "command": "grep -rn 'leave at noon' boats\ngrep -rn 'come at noon' boats" }), true),
            ("Bash", json!({ "command": "make boats\nmake harbour at noon" }), false),
            ("write", json!({ "path": "boats.sql", "content": query }), false),
            ("create_document", json!({ "text": text }), false),
            ("think", json!({ "thought": text }), false),
            ("show_message", json!({ "text": text }), false),
        ] {
            assert_eq!(passages_of(tool, &arguments).is_empty(), is_told, "{tool} {arguments}");
        }
    }
}
