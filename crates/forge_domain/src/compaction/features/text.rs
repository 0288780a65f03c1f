//! The text that the features of a message are of: what is said in it, then each call with the values of its
//! arguments. Apart because it is needed alone where nothing is asked about its lines.

use std::ops::Range;

use serde_json::Value;

use super::is_line_break;
use crate::compaction::arguments::{
    ASIDE, COMMANDS, DESCRIPTION, FOLDERS, PATCH_END, PATCH_START, PATHS, is_of_old, tells_what,
};
use crate::compaction::envelope::unwrapped;
use crate::{Body, Message, ToolCall};

/// Returns the text of a message's features alone, where nothing else of them is needed.
pub(crate) fn text_of(message: &Message) -> String {
    Written::of(message).text
}

/// The text of a message's features, as far as it is written.
pub(super) struct Written {
    pub(super) text: String,
    /// The parts of it that hold what other parts replace.
    pub(super) old: Vec<Range<usize>>,
    /// The start of each call in it.
    pub(super) calls: Vec<usize>,
    /// The end of the last argument of several lines.
    block_end: Option<usize>,
}

impl Written {
    pub(super) fn of(message: &Message) -> Self {
        let text = match &message.body {
            Body::Tool(result) => unwrapped(result.content.text()).into_owned(),
            _ => message.to_text(),
        };
        let mut written = Self { text, old: Vec::new(), calls: Vec::new(), block_end: None };
        if let Body::Assistant { calls, .. } = &message.body {
            calls.iter().for_each(|call| written.push_call(call));
        }
        written
    }

    fn push_call(&mut self, call: &ToolCall) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.calls.push(self.text.len());
        self.text.push_str(call.name.as_str());
        match serde_json::from_str::<Value>(&call.arguments) {
            Ok(arguments) => self.push_values(&arguments),
            Err(_) => self.push_value(&call.arguments, call.arguments.contains(is_line_break)),
        }
    }

    fn push_values(&mut self, value: &Value) {
        let is_behind_block = self.block_end == Some(self.text.len());
        match value {
            // Behind a text, a number is a limit or another option, and a dot the folder.
            Value::Number(_) if is_behind_block => {}
            Value::String(dot) if is_behind_block && dot == "." => {}
            Value::String(value) => self.push_value(value, value.contains(is_line_break)),
            Value::Number(number) => self.push_value(&number.to_string(), false),
            Value::Array(values) => values.iter().for_each(|value| self.push_values(value)),
            Value::Object(fields) => {
                let has = |names: &[&str]| fields.keys().any(|name| names.contains(&name.as_str()));
                let runs = has(COMMANDS) && !has(PATHS);
                for (name, value) in fields {
                    // Beside a command, its folder and its limits are options: labels have what matters of
                    // them.
                    let is_option = runs && (value.is_number() || FOLDERS.contains(&name.as_str()));
                    if is_option || ASIDE.contains(&name.as_str()) {
                        continue;
                    }
                    if is_of_old(name) {
                        // Replaced text gets lines of its own.
                        self.text.push('\n');
                        let start = self.text.len();
                        self.push_values(value);
                        self.old.push(start..self.text.len());
                    } else if let Some(text) = value.as_str().filter(|text| *text != "." && !tells_what(name))
                    {
                        self.push_value(text, text.contains(is_line_break) || is_content(text));
                    } else if let Some(text) = value.as_str().filter(|_| runs && name == DESCRIPTION) {
                        // The purpose of a command is a sentence, on a line of its own.
                        self.push_value(text, true);
                    } else {
                        self.push_values(value);
                    }
                }
            }
            Value::Bool(_) | Value::Null => {}
        }
    }

    /// Appends a value: it continues the line, or, as a block, starts a new one and stands apart from what
    /// follows it.
    fn push_value(&mut self, value: &str, is_block: bool) {
        let is_behind = |end: Option<usize>| end == Some(self.text.len());
        let is_apart = is_behind(self.old.last().map(|old| old.end)) || is_behind(self.block_end);
        self.text.push_str(match (is_apart, is_block) {
            (true, _) => "\n\n",
            (false, true) => "\n",
            (false, false) => " ",
        });
        match value.split_once(PATCH_START) {
            Some((before, patch)) => {
                self.text.push_str(before);
                self.push_patch(patch);
            }
            None => self.text.push_str(value),
        }
        if is_block {
            self.block_end = Some(self.text.len());
        }
    }

    /// Appends what follows the first mark of a patch, without the marks: the lines as they are in the file,
    /// and those that leave it as old ones.
    fn push_patch(&mut self, patch: &str) {
        let (changes, after) = patch.split_once(PATCH_END).unwrap_or((patch, ""));
        for line in changes.lines() {
            let start = self.text.len();
            let is_old = line.starts_with('-');
            self.text.push_str(match line.strip_prefix(['-', '+', ' ']) {
                Some(rest) => rest,
                None if line.trim() == HUNK => "",
                None => line,
            });
            self.text.push('\n');
            match self.old.last_mut().filter(|old| is_old && old.end == start) {
                Some(old) => old.end = self.text.len(),
                None if is_old => self.old.push(start..self.text.len()),
                None => (),
            }
        }
        // A single word behind the patch ends the here-document that holds it.
        if after.split_whitespace().nth(1).is_some() {
            self.text.push_str(after);
        }
    }
}

/// An argument of one line with at least this many words is text that the call writes, not an option.
const LEAST_CONTENT: usize = 5;

fn is_content(line: &str) -> bool {
    line.split_whitespace().nth(LEAST_CONTENT - 1).is_some()
}

/// The mark of a part of a patch.
const HUNK: &str = "@@";

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::Features;
    use super::*;
    use crate::compaction::fixture::tool_call;

    #[test]
    fn what_a_call_replaces_stands_on_lines_of_its_own() {
        let edit = json!({"path": "a.rs", "old_string": "open_one()", "new_string": "open_two()"});
        let edits = json!({"path": "a.rs", "edits": [
            {"oldText": "open_one()\nshut_one()", "newText": "shut_one()"},
            {"oldText": "read_one()", "newText": "read_two()"},
        ]});
        let found = json!({"content": "open_two()\nshut_two()", "path": "a.rs", "search": "open_one()", "findings": "shut_three()"});
        for (arguments, old, new) in [
            (edit, &["open_one()"][..], &["Edit a.rs", "open_two()"][..]),
            (found, &["open_one()"], &["Edit", "open_two()", "shut_two()", "a.rs", "shut_three()"]),
            (edits, &["open_one()", "shut_one()", "read_one()"], &["Edit a.rs", "shut_one()", "read_two()"]),
            (
                json!({"command": "insert", "path": "a.rs", "line": 9, "text": "if is_open(door) { close_it(door) }",
                    "task_progress": "- [x] Open it\n- [ ] Close it"}),
                &[],
                &["Edit insert a.rs 9", "if is_open(door) { close_it(door) }"],
            ),
        ] {
            let features = Features::of(&Message::calling(vec![tool_call("Edit", &arguments)]));
            for (is_old, expected) in [(true, old), (false, new)] {
                let lines = features.lines.iter().filter(|line| line.is_old == is_old);
                let mut actual: Vec<&str> = lines.map(|line| features.line(line)).collect();
                actual.sort_unstable();
                let mut expected = expected.to_vec();
                expected.sort_unstable();
                assert_eq!(actual, expected, "{arguments}");
            }
        }
    }

    #[test]
    fn a_patch_is_read_as_the_lines_of_its_files() {
        let patch = "*** Begin Patch\n*** Update File: a.rs\n@@\n fn open() {\n-    turn_key(left);\n-    push(door);\n\
                     +    lift(gate);\n }\n*** End Patch\n";
        let shell = format!("apply_patch <<'PATCH'\n{patch}PATCH");
        for arguments in [
            json!({"input": patch}),
            json!({"command": ["bash", "-lc", shell], "workdir": ".", "timeout": 120_000}),
            json!({"cmd": shell, "workdir": "/home/me/w", "yield_time": 120_000}),
        ] {
            let features = Features::of(&Message::calling(vec![tool_call("shell", &arguments)]));
            let told = |is_old: bool| {
                let lines = features.lines.iter().filter(|line| line.is_old == is_old);
                lines.map(|line| features.line(line)).collect::<Vec<_>>()
            };
            assert_eq!(told(true), ["turn_key(left);", "push(door);"]);
            let new = told(false);
            assert_eq!(new[new.len() - 3..], ["*** Update File: a.rs", "fn open() {", "lift(gate);"]);
            for left_out in ["@@", "120000", "/home/me"] {
                assert!(!features.text.contains(left_out), "{}", features.text);
            }
        }
    }
}
