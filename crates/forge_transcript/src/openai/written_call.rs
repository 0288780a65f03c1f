//! Calls that an agent writes into its text, and whose results its harness sends as the user's: those of
//! SWE-agent, whose recorder keeps what it took from the text beside it, and of mini-SWE-agent. Calls in tags
//! are written here as well.

use forge_domain::{Body, Content, Message, Role, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use crate::fields::Fields;
use crate::tagged_call::{IN_TAGS, in_tags};

/// The keys in which SWE-agent keeps what an agent says before a call, and the command that it ran.
const THOUGHT: &str = "thought";
const ACTION: &str = "action";
/// The key in which mini-SWE-agent keeps the provider's answer, and the status of a command.
const EXTRA: &str = "extra";
/// The tool of a call that is nothing but a command.
const SHELL: &str = "bash";
const COMMAND: &str = "command";
/// The mark of a block of code, and the languages of a block that mini-SWE-agent runs.
const FENCE: &str = "```";
const RUN: [&str; 2] = ["bash", "mswea_bash_command"];

/// Checks whether a recorder kept the call that an assistant's text holds.
pub(super) fn holds_call(message: &Message) -> bool {
    message.extra.contains_key(ACTION) && message.extra.contains_key(THOUGHT)
}

/// Takes the call out of the text of an assistant, and gives it `id`. Returns the message unchanged if its
/// text holds none.
pub(super) fn take_call(message: Message, id: &str) -> (Message, Option<ToolCall>) {
    let Body::Assistant { content: Some(content), calls } = &message.body else { return (message, None) };
    if !calls.is_empty() {
        return (message, None);
    }
    let text = content.to_text();
    let taken = match message.extra.get(ACTION).and_then(Value::as_str) {
        Some(action) => kept(&text, message.extra.get(THOUGHT).and_then(Value::as_str), action),
        None if message.extra.get(EXTRA).is_some_and(Value::is_object) => fenced(&text),
        None => None,
    };
    let Some((said, name, arguments)) = taken else { return (message, None) };
    let Ok(name) = ToolName::new(name) else { return (message, None) };
    let call = ToolCall { id: id.to_owned(), name, arguments: Value::Object(arguments).to_string() };
    let content = (!said.is_empty()).then(|| Content::Text(said.to_owned()));
    let body = Body::Assistant { content, calls: vec![call.clone()] };
    (Message { body, ..message }, Some(call))
}

/// Makes a message of the user's the result of `call`.
pub(super) fn answer(message: Message, call: &ToolCall) -> Message {
    match message.body {
        Body::User(content) => Message { body: Body::Tool(ToolResult::answer(call, content)), ..message },
        body => Message { body, ..message },
    }
}

/// Returns a message in the form in which its agent reads it: a call in its text, a result as the user's.
pub(super) fn in_text(message: &Message) -> Message {
    if let Some(tagged) = in_tags(message) {
        return tagged;
    }
    let mut message = message.clone();
    match &message.body {
        Body::Tool(result) => message.body = Body::User(result.content.clone()),
        Body::Assistant { content, calls } => {
            let said = content.as_ref().map(Content::to_text).unwrap_or_default();
            let texts = std::iter::once(said.clone()).filter(|said| !said.is_empty());
            let text = texts.chain(calls.iter().map(write_call)).collect::<Vec<_>>().join("\n\n");
            if holds_call(&message) {
                let command = calls.first().and_then(command_of);
                message.extra.insert(THOUGHT.to_owned(), json!(said));
                // Of another tool, the command as it ran says more than one made up from what is left.
                message.extra.extend(command.map(|command| (ACTION.to_owned(), json!(command))));
            }
            message.body = Body::Assistant { content: Some(Content::Text(text)), calls: Vec::new() };
        }
        Body::System(_) | Body::User(_) => {}
    }
    message
}

/// Checks whether the entry that holds `message` has its calls in the text, or is the user's though it is a
/// result.
pub(super) fn is_in_text(entry: &str, message: &Message) -> bool {
    match &message.body {
        Body::Tool(_) => Fields::of(entry).text("role") == Role::User.as_str(),
        Body::Assistant { calls, .. } if !calls.is_empty() => {
            let fields = Fields::of(entry);
            let is_read = message.metadata.contains_key(IN_TAGS);
            (is_read || fields.contains(ACTION) || fields.contains(EXTRA))
                && fields.items("tool_calls").is_empty()
        }
        Body::Assistant { .. } | Body::System(_) | Body::User(_) => false,
    }
}

/// Returns what an agent says before a call, the tool, and its arguments, of a text whose call the recorder
/// kept as `action`.
fn kept<'t>(
    text: &'t str,
    thought: Option<&'t str>,
    action: &str,
) -> Option<(&'t str, &'t str, Map<String, Value>)> {
    if action.trim().is_empty() {
        return None;
    }
    in_function_tags(text).or_else(|| Some((thought.unwrap_or_default().trim(), SHELL, command(action))))
}

/// Returns what stands before the last call in tags, its tool and its arguments.
fn in_function_tags(text: &str) -> Option<(&str, &str, Map<String, Value>)> {
    let start = text.rfind("<function=")?;
    let (name, mut rest) = text[start..].strip_prefix("<function=")?.split_once('>')?;
    let mut arguments = Map::new();
    while let Some((_, named)) = rest.split_once("<parameter=") {
        let (key, value) = named.split_once('>')?;
        let (value, after) = value.split_once("</parameter>")?;
        let value = value.strip_prefix('\n').unwrap_or(value);
        arguments.insert(key.to_owned(), json!(value.strip_suffix('\n').unwrap_or(value)));
        rest = after;
    }
    Some((text[..start].trim(), name, arguments))
}

/// Returns what stands before the one block of code that mini-SWE-agent runs, and that as a command.
fn fenced(text: &str) -> Option<(&str, &'static str, Map<String, Value>)> {
    let mut parts = text.split(FENCE);
    let (before, block, after) = (parts.next()?, parts.next()?, parts.next()?);
    let (language, code) = block.split_once('\n')?;
    let is_run = RUN.contains(&language.trim()) && after.trim().is_empty() && parts.next().is_none();
    is_run.then(|| (before.trim(), SHELL, command(code)))
}

/// Returns the arguments of a call that is nothing but a command.
fn command(command: &str) -> Map<String, Value> {
    Map::from_iter([(COMMAND.to_owned(), json!(command.trim_end()))])
}

/// Returns the command of a call that is nothing else.
fn command_of(call: &ToolCall) -> Option<String> {
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).ok()?;
    let command = arguments.get(COMMAND).filter(|_| call.name.as_str() == SHELL && arguments.len() == 1)?;
    command.as_str().map(str::to_owned)
}

/// Writes a call as text: a command in a block of code, others in tags.
fn write_call(call: &ToolCall) -> String {
    if let Some(command) = command_of(call) {
        return format!("{FENCE}{SHELL}\n{command}\n{FENCE}");
    }
    let arguments: Map<String, Value> = serde_json::from_str(&call.arguments).unwrap_or_default();
    let parameters = arguments.iter().map(|(key, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        format!("<parameter={key}>{value}</parameter>\n")
    });
    format!("<function={}>\n{}</function>", call.name, parameters.collect::<String>())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Takes the call from a recorded message; returns the text before it, the tool and the arguments.
    fn taken(entry: &Value) -> Option<(String, String, Value)> {
        let mut message = Message::assistant(entry["content"].as_str().unwrap());
        message.extra = entry.as_object().unwrap().clone();
        message.extra.shift_remove("content");
        let (message, call) = take_call(message, "call_2");
        let call = call?;
        assert_eq!((call.id.as_str(), message.calls()), ("call_2", std::slice::from_ref(&call)));
        let arguments = serde_json::from_str(&call.arguments).unwrap();
        Some((text_of(&message), call.name.to_string(), arguments))
    }

    fn text_of(message: &Message) -> String {
        message.content().map(Content::to_text).unwrap_or_default()
    }

    #[test]
    fn a_call_in_the_text_is_taken_out_of_it() {
        let tags = "Look.\n\n<function=edit>\n<parameter=path>a.py</parameter>\n<parameter=new>\nx\n  y\n</parameter>\n</function>";
        for (entry, expected) in [
            (
                json!({"content": tags, "thought": "Look.", "action": "edit a.py"}),
                Some(("Look.", "edit", json!({"path": "a.py", "new": "x\n  y"}))),
            ),
            (
                json!({"content": "Look.\n```\nls\n```", "thought": "Look.\n", "action": "ls\n"}),
                Some(("Look.", "bash", json!({"command": "ls"}))),
            ),
            (
                json!({"content": "```\nls\n```", "thought": "", "action": "ls"}),
                Some(("", "bash", json!({"command": "ls"}))),
            ),
            (json!({"content": "Nothing to do.", "thought": "Nothing to do.", "action": ""}), None),
            (
                json!({"content": "THOUGHT: Look.\n\n```bash\nls\n```\n", "extra": {"response": {}}}),
                Some(("THOUGHT: Look.", "bash", json!({"command": "ls"}))),
            ),
            (json!({"content": "So:\n```bash\nls\n```\nor\n```bash\npwd\n```", "extra": {}}), None),
            (json!({"content": "So:\n```python\n1\n```", "extra": {}}), None),
            (json!({"content": "So:\n```bash\nls\n```"}), None),
        ] {
            let expected =
                expected.map(|(said, name, arguments)| (said.to_owned(), name.to_owned(), arguments));
            assert_eq!(taken(&entry), expected, "{entry}");
        }
    }

    #[test]
    fn a_call_that_is_written_as_text_is_read_as_the_same() {
        for arguments in [json!({"command": "ls\npwd"}), json!({"path": "a.py", "new": "x\n  y"})] {
            let name = if arguments.get("path").is_some() { "edit" } else { "bash" };
            let call = ToolCall {
                id: "a".into(),
                name: ToolName::new(name).unwrap(),
                arguments: arguments.to_string(),
            };
            let mut message = Message::calling(vec![call.clone()]).with_content("Look.");
            message.extra =
                Map::from_iter([(THOUGHT.to_owned(), json!("Look.")), (ACTION.to_owned(), json!("old"))]);
            let written = in_text(&message);
            assert_eq!(written.calls(), []);
            let (again, _) = take_call(written, "a");
            assert_eq!((text_of(&again), again.calls()), (text_of(&message), message.calls()));
        }
    }
}
