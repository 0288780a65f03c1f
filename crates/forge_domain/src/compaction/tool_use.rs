//! What a tool call is about: the file that it reads or changes, and the argument that says most of it.

use std::collections::HashMap;

use serde_json::Value;

use crate::{Body, ContextMessage, ToolCall};

/// A call that a result answers, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked<'a> {
    pub(super) caller: usize,
    /// Which of its message's calls.
    pub(super) nth: usize,
    pub(super) call: &'a ToolCall,
}

/// For each message the call that it answers; `None` where it is no result, or where its call is not there. A result
/// belongs to the nearest earlier call of its id that has none yet, so reused ids pair by position.
pub(super) fn asked(messages: &[ContextMessage]) -> Vec<Option<Asked<'_>>> {
    let mut unanswered: HashMap<&str, Vec<Asked<'_>>> = HashMap::new();
    let mut asked = vec![None; messages.len()];
    for (position, message) in messages.iter().enumerate() {
        for (nth, call) in message.message().calls().iter().enumerate() {
            unanswered.entry(&call.id).or_default().push(Asked { caller: position, nth, call });
        }
        if let Body::Tool(result) = &message.message().body {
            asked[position] = unanswered.get_mut(result.call_id.as_str()).and_then(Vec::pop);
        }
    }
    asked
}

/// What a call is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolUse {
    /// The file that it reads, and whether the whole of it.
    pub(super) reads: Option<(String, Extent)>,
    /// The files that it changes.
    pub(super) changes: Vec<String>,
    /// The argument that says most of what it is: a path, a command, a question.
    pub(super) subject: Option<String>,
}

/// How much of a file a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it: the call names nothing but the file.
    Whole,
    /// What its other arguments say.
    Part,
}

/// Arguments that name a file.
const PATHS: &[&str] = &["file_path", "path", "notebook_path", "filePath", "file", "filename"];
/// Arguments that say what a call is, where none names a file.
const SUBJECTS: &[&str] = &["command", "cmd", "query", "pattern", "url", "name", "id"];
/// Words in the name of a tool, or in what it is told to do, that change a file.
const CHANGES: &[&str] = &[
    "write", "create", "edit", "replace", "patch", "insert", "append", "update", "delete", "remove", "unlink",
];

impl ToolUse {
    pub(super) fn of(call: &ToolCall) -> Self {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let argument = |names: &[&str]| names.iter().find_map(|name| arguments.get(name)?.as_str());
        let path = argument(PATHS);
        let verb = path.and_then(|_| argument(&["command"])).unwrap_or(call.name.as_str()).to_lowercase();
        let mut tool_use =
            Self { subject: path.or_else(|| argument(SUBJECTS)).map(str::to_owned), ..Self::default() };
        match path.map(|path| path.strip_prefix("./").unwrap_or(path).to_owned()) {
            Some(path) if CHANGES.iter().any(|word| verb.contains(word)) => tool_use.changes.push(path),
            Some(path) => {
                // A tool that is told its verb has that beside the path.
                let n_others = arguments.as_object().map_or(0, serde_json::Map::len) - 1;
                let is_told = argument(&["command"]).is_some();
                let extent = if n_others > usize::from(is_told) { Extent::Part } else { Extent::Whole };
                tool_use.reads = Some((path, extent));
            }
            None => tool_use.changes = patched(&arguments),
        }
        tool_use
    }
}

/// The files that a patch among the arguments changes.
fn patched(arguments: &Value) -> Vec<String> {
    let texts =
        arguments.as_object().into_iter().flat_map(|fields| fields.values()).filter_map(Value::as_str);
    let patch = texts.into_iter().find(|text| text.contains("*** Begin Patch")).unwrap_or_default();
    let marks = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    let changed = patch.lines().filter_map(|line| marks.iter().find_map(|mark| line.strip_prefix(mark)));
    changed.map(|path| path.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ToolName;

    #[test]
    fn a_call_is_about_a_file_a_command_or_a_question() {
        let reads = |path: &str, extent| ToolUse {
            reads: Some((path.to_owned(), extent)),
            subject: Some(path.to_owned()),
            changes: Vec::new(),
        };
        let changes = |subject: Option<&str>, paths: &[&str]| ToolUse {
            reads: None,
            subject: subject.map(str::to_owned),
            changes: paths.iter().map(ToString::to_string).collect(),
        };
        for (name, arguments, expected) in [
            ("Read", r#"{"file_path":"a.rs"}"#, reads("a.rs", Extent::Whole)),
            ("Read", r#"{"file_path":"a.rs","limit":9}"#, reads("a.rs", Extent::Part)),
            ("editor", r#"{"command":"view","path":"a.rs"}"#, reads("a.rs", Extent::Whole)),
            ("editor", r#"{"command":"create","path":"a.rs"}"#, changes(Some("a.rs"), &["a.rs"])),
            ("Write", r#"{"path":"./a.rs","text":"x"}"#, changes(Some("./a.rs"), &["a.rs"])),
            ("Bash", r#"{"command":"ls -l"}"#, changes(Some("ls -l"), &[])),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Add File: n\n*** Update File: o\n"}"#,
                changes(None, &["n", "o"]),
            ),
            ("now", "{}", ToolUse::default()),
            ("broken", "{", ToolUse::default()),
        ] {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() };
            assert_eq!(ToolUse::of(&call), expected, "{name} {arguments}");
        }
    }
}
