//! The parts of a response of VS Code's chat, as the user saw them: texts, calls and edits. A request that
//! was stopped has no rounds of the model, so they are made of the parts.

use forge_domain::Message;
use serde_json::{Value, json};

use super::exit_code::with_exit_code;
use crate::any_blocks::{answer, call, content_of, items, reply, text_at, word};
use crate::codec::file_name;
use crate::flat_text::NO_RESULT;

/// The kinds of parts that show a call, and the changes of a file.
const CALL: &str = "toolInvocationSerialized";
const EDIT: &str = "textEditGroup";
/// The line around an edit, which is the chat's.
const FENCE: &str = "```";
/// The first characters of the names of the chat's own tools.
const OWN: &str = "copilot_";
/// The name of the call that is made of an edit for which none is shown.
const EDIT_TOOL: &str = "edit_file";
/// The argument that gets the new text of a file, or of its lines that were changed.
const NEW_TEXT: &str = "newString";
/// The places of a command: as the user changed it, as the model wrote it, and in older versions.
const COMMANDS: [&str; 3] = ["/commandLine/userEdited", "/commandLine/original", "/command"];
/// The numbers by which a call is marked as cancelled, and as skipped by the user.
const REFUSED: [u64; 2] = [0, 5];
/// The result of such a call.
const WAS_REFUSED: &str = "The call was declined or cancelled.";
/// The first characters of a message that is a hint for the user, in place of what was done.
const HINT: &str = "$(";
/// The characters before the address of a file in a message.
const LINK: &str = "[](";

/// Checks whether a part shows a call.
pub(super) fn is_call(part: &Value) -> bool {
    text_at(part, "/kind") == CALL
}

fn is_deed(part: &Value) -> bool {
    is_call(part) || text_at(part, "/kind") == EDIT
}

/// Returns the texts of parts. They have a line break between them if something else was shown there.
pub(super) fn shown_text(parts: &[Value]) -> String {
    let mut shown = String::new();
    let mut is_apart = false;
    for part in parts {
        let Some(text) = text_of(part).filter(|text| !is_fence(text)) else {
            is_apart = true;
            continue;
        };
        if is_apart && !shown.is_empty() && !shown.ends_with('\n') && !text.starts_with('\n') {
            shown.push('\n');
        }
        shown.push_str(text);
        is_apart = false;
    }
    shown
}

/// Returns the text of a part; `None` if it is of another kind.
fn text_of(part: &Value) -> Option<&str> {
    match text_at(part, "/kind") {
        "" => Some(part.as_str().unwrap_or(text_at(part, "/value"))),
        "markdownContent" | "markdownVuln" => Some(text_at(part, "/content/value")),
        "inlineReference" => Some(file_name(word(
            part,
            &["/name", "/inlineReference/name", "/inlineReference/path", "/inlineReference/uri/path"],
        ))),
        _ => None,
    }
}

fn is_fence(text: &str) -> bool {
    let mut words = text.split_whitespace().peekable();
    words.peek().is_some() && words.all(|word| word == FENCE)
}

/// Returns the replies and the results of which a response tells.
pub(super) fn response_messages(parts: &[Value]) -> Vec<Message> {
    let says = |part: &Value| text_of(part).is_some_and(|text| !text.trim().is_empty() && !is_fence(text));
    let mut messages = Vec::new();
    let mut rest = parts;
    while let Some(first) = rest.iter().position(is_deed) {
        let (said, after) = rest.split_at(first);
        let (done, next) = after.split_at(after.iter().position(says).unwrap_or(after.len()));
        messages.extend(round(said, done));
        rest = next;
    }
    messages.extend(reply(content_of(&json!(shown_text(rest))), Vec::new(), 0));
    messages
}

/// Returns the reply that consists of those texts and of calls for what was `done`, and the results.
fn round(said: &[Value], done: &[Value]) -> Vec<Message> {
    let mut deeds: Vec<Deed> = Vec::new();
    for part in done {
        if is_call(part) {
            deeds.push(Deed::of_call(part));
        } else if text_at(part, "/kind") == EDIT {
            let path = path_of(part.get("uri").unwrap_or(&Value::Null));
            match deeds.iter_mut().rev().find(|deed| deed.may_edit(&path)) {
                Some(deed) => deed.take_edit(part),
                None => deeds.push(Deed::of_edit(&path, part)),
            }
        }
    }
    let calls = deeds.iter().map(|deed| call(&deed.id, &deed.name, &deed.arguments)).collect();
    let results = deeds.iter().map(|deed| answer(&deed.id, &json!(deed.result), deed.is_failed));
    let said = reply(content_of(&json!(shown_text(said))), calls, 0);
    said.into_iter().chain(results).collect()
}

/// A call, and what came of it.
struct Deed {
    /// Empty if it was not recorded.
    id: String,
    name: String,
    arguments: Value,
    /// The file that its message names.
    path: Option<String>,
    result: String,
    is_failed: bool,
}

impl Deed {
    /// Returns the call that a part shows.
    fn of_call(part: &Value) -> Self {
        let data = part.get("toolSpecificData").unwrap_or(&Value::Null);
        let (asked, path) = shown_message(part, "invocationMessage");
        let (done, _) = shown_message(part, "pastTenseMessage");
        let shown = Some(done).filter(|done| !done.is_empty() && !done.starts_with(HINT));
        let details = part.get("resultDetails").unwrap_or(&Value::Null);
        let arguments = match text_at(data, "/kind") {
            "terminal" => json!({"command": word(data, &COMMANDS)}),
            "subagent" => json!({"description": data.get("description"), "prompt": data.get("prompt")}),
            "todoList" => json!({"todoList": data.get("todoList")}),
            "input" => data.get("rawInput").cloned().unwrap_or_default(),
            _ if details.get("input").is_some() => details["input"].clone(),
            // Such a message tells more than the path, such as the lines.
            _ => match &path {
                Some(path) => json!({"filePath": path, "explanation": asked}),
                None => json!({"explanation": asked}),
            },
        };
        let is_refused = part.get("isConfirmed") == Some(&Value::Bool(false))
            || part
                .pointer("/isConfirmed/type")
                .and_then(Value::as_u64)
                .is_some_and(|is| REFUSED.contains(&is));
        let result = if is_refused { Some(WAS_REFUSED.to_owned()) } else { printed(data, details).or(shown) };
        Self {
            id: text_at(part, "/toolCallId").to_owned(),
            name: tool_name(text_at(part, "/toolId")),
            arguments,
            path,
            result: result.unwrap_or_else(|| NO_RESULT.to_owned()),
            is_failed: is_refused || details.get("isError") == Some(&Value::Bool(true)),
        }
    }

    /// Returns the call that must have made an edit of the file at `path`.
    fn of_edit(path: &str, edit: &Value) -> Self {
        let mut deed = Self {
            id: String::new(),
            name: EDIT_TOOL.to_owned(),
            arguments: json!({"filePath": path}),
            path: Some(path.to_owned()),
            result: NO_RESULT.to_owned(),
            is_failed: false,
        };
        deed.take_edit(edit);
        deed
    }

    /// Checks whether it may have made an edit of the file at `path` that is not told yet.
    fn may_edit(&self, path: &str) -> bool {
        let is_reading =
            ["read", "list", "find", "search", "get"].iter().any(|word| self.name.contains(word));
        !self.is_failed
            && !is_reading
            && self.path.as_deref() == Some(path)
            && self.arguments.as_object().is_some_and(|given| !given.contains_key(NEW_TEXT))
    }

    /// Adds the new texts of an edit that it made.
    fn take_edit(&mut self, edit: &Value) {
        let groups = items(edit, "edits").iter().filter_map(Value::as_array);
        let texts: Vec<&str> = groups.flatten().map(|change| text_at(change, "/text")).collect();
        self.arguments[NEW_TEXT] = texts.join("\n").into();
        if self.result == NO_RESULT && edit.get("done") == Some(&Value::Bool(true)) {
            let path = self.path.as_deref().unwrap_or_default();
            self.result = format!("The following files were successfully edited:\n{path}");
        }
    }
}

/// Returns what a call printed or answered, if that is kept.
fn printed(data: &Value, details: &Value) -> Option<String> {
    let output = data.pointer("/terminalCommandOutput/text").and_then(Value::as_str);
    if let Some(code) = data.pointer("/terminalCommandState/exitCode").and_then(Value::as_i64) {
        return Some(with_exit_code(code, output.unwrap_or_default()));
    }
    let answered = data.get("result").and_then(Value::as_str).or(output).map(str::to_owned);
    let texts = || items(details, "output").iter().map(|part| text_at(part, "/value"));
    answered.or_else(|| details.get("output").map(|_| texts().collect::<Vec<_>>().join("\n")))
}

/// Returns a message about a call, with the path of each file in place of the link to it, and the first path.
fn shown_message(part: &Value, key: &str) -> (String, Option<String>) {
    let message = part.get(key).unwrap_or(&Value::Null);
    let mut rest = message.as_str().unwrap_or(text_at(message, "/value"));
    let (mut plain, mut first) = (String::new(), None);
    while let Some((before, after)) = rest.split_once(LINK) {
        let Some((address, after)) = after.split_once(')') else { break };
        let file = message.get("uris").and_then(|uris| uris.get(address)).map(path_of);
        let path = file.filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| address.strip_prefix("file://").unwrap_or(address).to_owned());
        plain.push_str(before);
        plain.push_str(&path);
        first.get_or_insert(path);
        rest = after;
    }
    plain.push_str(rest);
    (plain, first)
}

/// Returns the path of a file. That of one on Windows is a path below the root in its address.
fn path_of(uri: &Value) -> String {
    let path = word(uri, &["/path", "/fsPath"]);
    match path.strip_prefix('/').filter(|rest| rest.chars().nth(1) == Some(':')) {
        Some(of_drive) => of_drive.replace('/', "\\"),
        None => path.to_owned(),
    }
}

/// Returns the name of a tool in the form that the chat's model has: `read_file` for `copilot_readFile`.
fn tool_name(id: &str) -> String {
    let Some(own) = id.strip_prefix(OWN) else { return id.to_owned() };
    let mut name = String::with_capacity(own.len() + 4);
    for c in own.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_call_has_the_arguments_that_are_shown_of_it() {
        let file = json!({"value": "Reading [](file:///c%3A/w/a.js#2-2), lines 2 to 5",
            "uris": {"file:///c%3A/w/a.js#2-2": {"path": "/c:/w/a.js", "fragment": "2-2"}}});
        let command = |line: Value| json!({"toolId": "f", "toolSpecificData": {"kind": "terminal", "commandLine": line}});
        for (part, arguments, result) in [
            (
                json!({"toolId": "copilot_readFile", "invocationMessage": file}),
                json!({"filePath": "c:\\w\\a.js", "explanation": "Reading c:\\w\\a.js, lines 2 to 5"}),
                NO_RESULT,
            ),
            (
                json!({"toolId": "f", "invocationMessage": "Looking", "pastTenseMessage": {"value": "Saw [](file:///w/a)"}}),
                json!({"explanation": "Looking"}),
                "Saw /w/a",
            ),
            (
                json!({"toolId": "f", "pastTenseMessage": "$(info) Enable it", "invocationMessage": "[](cut off"}),
                json!({"explanation": "[](cut off"}),
                NO_RESULT,
            ),
            (
                command(json!({"original": "cd /w ; make", "toolEdited": "make"})),
                json!({"command": "cd /w ; make"}),
                NO_RESULT,
            ),
            (
                command(json!({"original": "make", "userEdited": "make -k"})),
                json!({"command": "make -k"}),
                NO_RESULT,
            ),
            (
                json!({"toolId": "f", "toolSpecificData": {"kind": "input", "rawInput": {"q": 1}},
                    "resultDetails": {"input": "{}", "output": [{"isText": true, "value": "a"}, {"value": "b"}]}}),
                json!({"q": 1}),
                "a\nb",
            ),
            (
                json!({"toolId": "f", "toolSpecificData": {"kind": "subagent", "description": "d", "prompt": "p", "result": "r"}}),
                json!({"description": "d", "prompt": "p"}),
                "r",
            ),
        ] {
            let deed = Deed::of_call(&part);
            assert_eq!((&deed.arguments, deed.result.as_str()), (&arguments, result), "{part}");
        }
        assert_eq!(tool_name("copilot_readFile"), "read_file");
        assert_eq!(tool_name("mcp_A_b"), "mcp_A_b");
    }

    #[test]
    fn an_edit_belongs_to_the_call_that_may_have_made_it() {
        let edit =
            json!({"kind": EDIT, "uri": {"path": "/w/a"}, "edits": [[{"text": "one"}], [{"text": "two"}]]});
        let of_file =
            |id: &str| json!({"kind": CALL, "toolId": id, "invocationMessage": "At [](file:///w/a)"});
        for (before, expected) in [
            (json!([of_file("copilot_createFile")]), "create_file"),
            (json!([of_file("copilot_readFile")]), "read_file edit_file"),
            (json!([of_file("copilot_createFile"), edit]), "create_file edit_file"),
            (json!([{"kind": CALL, "toolId": "f", "resultDetails": {"input": "[]"}}]), "f edit_file"),
        ] {
            let parts =
                [before.as_array().map(Vec::as_slice).unwrap_or_default(), std::slice::from_ref(&edit)]
                    .concat();
            let messages = response_messages(&parts);
            let calls = messages[0].calls();
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            assert_eq!(names.join(" "), expected);
            assert!(calls.iter().any(|call| call.arguments.contains("one\\ntwo")), "{before}");
        }
    }
}
