//! Calls that a model writes into its text, in tags named after the tool and its parameters, as Cline and Roo
//! tell it to: `<read_file><path>a.rs</path></read_file>`. What came of one is in the user's next message,
//! behind a line that names the tool: `[read_file for 'a.rs'] Result:`.

use std::iter::once;

use forge_domain::{Body, Content, Message, Part, Role, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use crate::harness::{RESULT, announced_result, is_announced_result};

/// The key of a message's metadata that marks a call that was read from tags, and its result: there it is the
/// line that announced it.
pub(crate) const IN_TAGS: &str = "in_tags";
/// The tools of Cline and Roo that do something.
const TOOLS: [&str; 21] = [
    "access_mcp_resource",
    "apply_diff",
    "browser_action",
    "codebase_search",
    "edit_file",
    "execute_command",
    "fetch_instructions",
    "insert_content",
    "list_code_definition_names",
    "list_files",
    "load_mcp_documentation",
    "new_task",
    "read_file",
    "replace_in_file",
    "search_and_replace",
    "search_files",
    "switch_mode",
    "update_todo_list",
    "use_mcp_tool",
    "web_fetch",
    "write_to_file",
];
/// The tools by which their models speak to the user: what stands in them is said.
const SPEAKING: [&str; 4] =
    ["attempt_completion", "ask_followup_question", "plan_mode_respond", "plan_mode_response"];
/// The parameter that is a whole file, in which its own end may stand, and those that may follow it.
const CONTENT: &str = "content";
const AFTER_CONTENT: [&str; 2] = ["<line_count>", "<task_progress>"];
/// The parameters whose blanks count.
const LITERAL: [&str; 4] = [CONTENT, "diff", "search", "replace"];
/// The parameter in which newer versions of Roo name the files to read.
const FILES: &str = "args";
/// Words of the system prompt that explains the tags, and the tag around what Cline and Roo add to each of
/// the user's messages.
const EXPLAINED: &str = "formatted using XML-style tags";
const DETAILS: &str = "<environment_details>";

/// A call in a text.
struct Block<'t> {
    before: &'t str,
    arguments: Map<String, Value>,
    after: &'t str,
    /// True unless the text was cut off in it.
    is_closed: bool,
}

impl<'t> Block<'t> {
    /// Finds the first call of `tool` in `text`.
    fn find(text: &'t str, tool: &str) -> Option<Self> {
        let (open, close) = (format!("<{tool}>"), format!("</{tool}>"));
        let mut from = 0;
        while let Some(at) = text[from..].find(&open).map(|at| from + at) {
            match arguments(&text[at + open.len()..], &close) {
                Ok((arguments, after)) => {
                    let (before, is_closed) = (text[..at].trim(), after.is_some());
                    let after = after.unwrap_or_default().trim();
                    return Some(Self { before, arguments, after, is_closed });
                }
                // A tag within what was read in vain begins no call: each part of a text is read once.
                Err(rest) => from = text.len() - rest.len(),
            }
        }
        None
    }

    /// Checks whether it is complete, and the last of its text.
    const fn is_last(&self) -> bool {
        self.is_closed && self.after.is_empty()
    }
}

/// Checks whether a message shows that calls are written in tags: the system prompt explains them, or a note
/// is one that only such agents send.
pub(crate) fn shows_tags(message: &Message) -> bool {
    match message.role() {
        Role::System => message.to_text().contains(EXPLAINED),
        Role::User if message.note_by().is_some() => {
            is_announced_result(message) || message.to_text().contains(DETAILS)
        }
        Role::User | Role::Assistant | Role::Tool => false,
    }
}

/// Returns the tool whose result a note announces.
pub(crate) fn announced_tool(note: &Message) -> Option<String> {
    let text = note.to_text();
    let name = text.trim_start().strip_prefix('[')?.split([' ', ']']).next()?;
    is_announced_result(note).then(|| name.to_owned())
}

/// Takes the call of `tool` out of the text of an assistant, and gives it `id`. Returns the message unchanged
/// if its text holds none.
pub(crate) fn take_tagged_call(message: Message, tool: &str, id: &str) -> (Message, Option<ToolCall>) {
    let text = plain_text(&message).filter(|_| !SPEAKING.contains(&tool));
    let block = text.as_deref().and_then(|text| Block::find(text, tool));
    let (Some(block), Ok(name)) = (block, ToolName::new(tool)) else { return (message, None) };
    let said: Vec<&str> = [block.before, block.after].into_iter().filter(|said| !said.is_empty()).collect();
    let content = (!said.is_empty()).then(|| Content::Text(said.join("\n\n")));
    let call = ToolCall { id: id.to_owned(), name, arguments: Value::Object(block.arguments).to_string() };
    let body = Body::Assistant { content, calls: vec![call.clone()] };
    let mut message = Message { body, ..message };
    message.metadata.insert(IN_TAGS.to_owned(), json!(true));
    (message, Some(call))
}

/// Makes the first of `notes`, which announces the result of `call`, that result.
pub(crate) fn answer_tagged_call(notes: Vec<Message>, call: &ToolCall) -> Vec<Message> {
    let mut notes = notes.into_iter();
    let Some(note) = notes.next() else { return Vec::new() };
    let text = note.to_text();
    let announcement = text.trim_start().split_inclusive(RESULT).next().unwrap_or_default();
    let body = Body::Tool(ToolResult::answer(call, announced_result(&note)));
    let mut result = Message { body, ..note.said_by_user() };
    result.metadata.insert(IN_TAGS.to_owned(), json!(announcement));
    once(result).chain(notes).collect()
}

/// Returns the message of an assistant without the tags around what it says to the user.
pub(crate) fn without_speaking_tags(message: Message) -> Message {
    match plain_text(&message).and_then(|text| spoken(&text)) {
        Some(said) => message.with_content(said),
        None => message,
    }
}

/// Reads the tags in a message of an agent that is known to write its calls so: of a call, the caller sets
/// the id.
pub(crate) fn read_tags(message: Message) -> Message {
    let text = plain_text(&message);
    let tool = text.as_deref().and_then(|text| {
        let found = TOOLS.into_iter().filter_map(|tool| Some((tool, Block::find(text, tool)?)));
        let first = found.min_by_key(|(_, block)| block.before.len());
        first.filter(|(_, block)| block.is_last()).map(|(tool, _)| tool)
    });
    match tool {
        Some(tool) => take_tagged_call(message, tool, "").0,
        None => without_speaking_tags(message),
    }
}

/// Returns a message that was read from tags in the form in which its agent reads it; `None` if it was not.
pub(crate) fn in_tags(message: &Message) -> Option<Message> {
    let mark = message.metadata.get(IN_TAGS)?;
    let body = match &message.body {
        Body::Tool(result) => Body::User(announced_as(mark.as_str().unwrap_or_default(), &result.content)),
        Body::Assistant { content, calls } => {
            let said = content.as_ref().map(Content::to_text).filter(|said| !said.is_empty());
            let texts: Vec<String> = said.into_iter().chain(calls.iter().map(write_call)).collect();
            Body::Assistant { content: Some(Content::Text(texts.join("\n\n"))), calls: Vec::new() }
        }
        Body::System(_) | Body::User(_) => return None,
    };
    Some(Message { body, ..message.clone() })
}

/// Returns the text of an assistant that calls nothing.
fn plain_text(message: &Message) -> Option<String> {
    match &message.body {
        Body::Assistant { content: Some(content), calls } if calls.is_empty() => Some(content.to_text()),
        _ => None,
    }
}

/// Returns what a text says without the tags around what is said to the user; `None` if there are none.
fn spoken(text: &str) -> Option<String> {
    let block = SPEAKING.iter().find_map(|tool| Block::find(text, tool)).filter(Block::is_last)?;
    // Other parameters are switches.
    let is_said = |value: &&str| !matches!(*value, "" | "true" | "false");
    let values = block.arguments.values().filter_map(Value::as_str);
    let said: Vec<&str> = once(block.before).chain(values).filter(is_said).collect();
    (!said.is_empty()).then(|| said.join("\n\n"))
}

/// Reads the parameters with which a call begins, up to its end `close`. Returns what follows that, too;
/// `None` for it if the text ends first.
///
/// # Errors
///
/// Returns the rest of the text that is neither a parameter nor the end.
fn arguments<'t>(text: &'t str, close: &str) -> Result<(Map<String, Value>, Option<&'t str>), &'t str> {
    let mut arguments = Map::new();
    let mut rest = text.trim_start();
    while !rest.starts_with(close) {
        if rest.is_empty() && !arguments.is_empty() {
            return Ok((with_path(arguments), None));
        }
        let is_name = |key: &str| key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let Some((key, behind)) = named.filter(|(key, _)| is_name(key)) else { return Err(rest) };
        let (value, after) = value(key, behind, close);
        arguments.insert(key.to_owned(), json!(value));
        rest = after.trim_start();
    }
    Ok((with_path(arguments), rest.strip_prefix(close)))
}

/// Returns the value of the parameter `key`, which `text` begins with, and what follows its end. One that was
/// cut off ends with the text.
fn value<'t>(key: &str, text: &'t str, close: &str) -> (&'t str, &'t str) {
    let end = format!("</{key}>");
    let is_end = |at: &usize| {
        let after = text[at + end.len()..].trim_start();
        let is_next = AFTER_CONTENT.iter().any(|tag| after.starts_with(tag));
        key != CONTENT || is_next || after.is_empty() || after.starts_with(close)
    };
    let at = text.match_indices(end.as_str()).map(|(at, _)| at).find(is_end);
    let (value, after) = match at.or_else(|| text.rfind(end.as_str())) {
        Some(at) => (&text[..at], &text[at + end.len()..]),
        None => (text, ""),
    };
    if !LITERAL.contains(&key) {
        return (value.trim(), after);
    }
    let value = value.strip_prefix('\n').unwrap_or(value);
    (value.strip_suffix('\n').unwrap_or(value), after)
}

/// Returns the arguments of a call that reads one file in the form of one that names no more.
fn with_path(arguments: Map<String, Value>) -> Map<String, Value> {
    let files = arguments.get(FILES).and_then(Value::as_str).filter(|_| arguments.len() == 1);
    let path = files.and_then(|files| {
        let path = files.strip_prefix("<file>")?.strip_suffix("</file>")?.trim();
        path.strip_prefix("<path>")?.strip_suffix("</path>").filter(|path| !path.contains('<'))
    });
    match path {
        Some(path) => Map::from_iter([("path".to_owned(), json!(path.trim()))]),
        None => arguments,
    }
}

/// Writes a call in tags.
fn write_call(call: &ToolCall) -> String {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let parameters = arguments.iter().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let line_end = if value.contains('\n') || LITERAL.contains(&key.as_str()) { "\n" } else { "" };
        format!("<{key}>{line_end}{value}{line_end}</{key}>\n")
    });
    format!("<{0}>\n{1}</{0}>", call.name, parameters.collect::<String>())
}

/// Returns a result below the line that announces it.
fn announced_as(announcement: &str, content: &Content) -> Content {
    match content {
        Content::Text(text) => Content::Text(format!("{announcement}\n{text}")),
        Content::Parts(parts) => {
            Content::Parts(once(Part::Text(announcement.to_owned())).chain(parts.iter().cloned()).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_call_in_tags_is_taken_out_of_the_text() {
        let file = "<write_to_file>\n<path>a.xml</path>\n<content>\n<content>\n  x\n</content>\n</content>";
        let long = format!("{file}\n<line_count>3</line_count>\n</write_to_file>");
        let written = json!({"path": "a.xml", "content": "<content>\n  x\n</content>", "line_count": "3"});
        for (text, tool, expected) in [
            (
                "I look.\n\n<read_file>\n<path>a.rs</path>\n</read_file>",
                "read_file",
                Some(("I look.", json!({"path": "a.rs"}))),
            ),
            (
                "By <read_file>:<read_file><path>\na.rs\n</path></read_file>\nSo.",
                "read_file",
                Some(("By <read_file>:\n\nSo.", json!({"path": "a.rs"}))),
            ),
            (long.as_str(), "write_to_file", Some(("", written))),
            (
                "<write_to_file><path>a</path><content>\nx\n  y",
                "write_to_file",
                Some(("", json!({"path": "a", "content": "x\n  y"}))),
            ),
            (
                "<read_file><args><file><path>a.rs</path></file></args></read_file>",
                "read_file",
                Some(("", json!({"path": "a.rs"}))),
            ),
            ("<load_docs>\n</load_docs>", "load_docs", Some(("", json!({})))),
            ("<read_file>\n<path>a.rs</path>\n</read_file>", "list_files", None),
            ("`<read_file>` reads a file.", "read_file", None),
            ("<result>All is well.</result>", "result", None),
            ("<attempt_completion><result>So.</result></attempt_completion>", "attempt_completion", None),
        ] {
            let (message, call) = take_tagged_call(Message::assistant(text), tool, "call_2");
            let arguments = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).unwrap();
            let said = message.content().map(Content::to_text).unwrap_or_default();
            let taken = call.as_ref().map(|call| (said.as_str(), arguments(call)));
            assert_eq!(taken, expected, "{text}");
            let Some(call) = call else { continue };
            assert_eq!(message.calls(), std::slice::from_ref(&call));
            // Written again, it is read as the same.
            let again = take_tagged_call(in_tags(&message).unwrap(), tool, "call_2");
            assert_eq!(again.1, Some(call), "{text}");
        }
    }

    /// Read again for each tag, these texts would take minutes.
    #[test]
    fn a_text_of_many_tags_is_read_once() {
        const N: usize = 100_000;
        let closed = |tag: &str| format!("{}</{tag}>.", format!("<read_file><{tag}>").repeat(N));
        let contents = format!("{}</content>.", "<read_file><content>x</content>".repeat(N));
        let mentions = format!("{}<read_file><path>a.rs</path></read_file>", "<read_file>:".repeat(N));
        for (text, expected) in [
            ("<read_file>.".repeat(N), None),
            (closed("path"), None),
            (closed("content"), None),
            (closed("read_file"), None),
            (contents, None),
            (mentions, Some("read_file")),
        ] {
            let message = read_tags(Message::assistant(text.clone()));
            let name = message.calls().first().map(|call| call.name.as_str());
            assert_eq!(name, expected, "{}", &text[..40]);
        }
    }

    #[test]
    fn what_is_said_in_tags_is_said() {
        for (text, expected) in [
            ("<attempt_completion>\n<result>\nDone.\n</result>\n</attempt_completion>", "Done."),
            (
                "So:\n<ask_followup_question><question>One or two?</question><options>[1, 2]</options></ask_followup_question>",
                "So:\n\nOne or two?\n\n[1, 2]",
            ),
            (
                "<plan_mode_respond><response>First.</response><needs_more_exploration>false</needs_more_exploration></plan_mode_respond>",
                "First.",
            ),
            ("End with <attempt_completion>.", "End with <attempt_completion>."),
            ("<ul>\n<li>One.</li>\n</ul>", "<ul>\n<li>One.</li>\n</ul>"),
        ] {
            assert_eq!(read_tags(Message::assistant(text)).to_text(), expected);
            assert_eq!(without_speaking_tags(Message::assistant(text)).to_text(), expected);
        }
    }

    #[test]
    fn a_call_is_found_where_calls_are_known_to_be_in_tags() {
        for (text, expected) in [
            ("<read_file><path>a.rs</path></read_file>", Some("read_file")),
            (
                "<write_to_file><path>a</path><content><read_file><path>b</path></read_file></content></write_to_file>",
                Some("write_to_file"),
            ),
            // It is cut off, and may not have run.
            ("<execute_command><command>ls", None),
            ("<read_file><path>a.rs</path></read_file> reads a.rs.", None),
        ] {
            let message = read_tags(Message::assistant(text));
            assert_eq!(message.calls().first().map(|call| call.name.as_str()), expected, "{text}");
        }
    }
}
