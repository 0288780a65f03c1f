//! A message to and from its OpenAI form; what is read can be written again, key for key.

use forge_domain::{Body, Content, Message, Part, Role, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use super::form::{Form, peculiar};
use crate::WireError;

/// Returns `message` as an entry of `messages`. Foreign keys are included. Metadata is not, except what
/// [`read_message`] had to keep there of the message's own form. The tool's name in a result is not sent.
pub fn message_json(message: &Message) -> Value {
    let form = Form::of(message);
    let role = match (&form.role, message.role()) {
        (Some(word), Role::System) => word.as_str(),
        (_, role) => role.as_str(),
    };
    let mut fields = Map::new();
    fields.insert("role".into(), json!(role));
    if let Body::Tool(result) = &message.body {
        fields.insert("tool_call_id".into(), json!(result.call_id));
    }
    match message.content() {
        Some(content) => {
            fields.insert("content".into(), content_json(content, &form));
        }
        None if form.no_content => (),
        None => {
            fields.insert("content".into(), Value::Null);
        }
    }
    let calls = message.calls();
    if !calls.is_empty() {
        let spelt = calls.iter().enumerate().map(|(n, call)| form.call_json(call, n, calls.len()));
        fields.insert("tool_calls".into(), spelt.collect());
    }
    fields.extend(message.extra.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(fields)
}

/// Reads an entry of `messages`. Keys that the domain does not know become `extra`, in order; so does a
/// `name`, also that of a tool. `developer` is a system message.
///
/// # Errors
/// [`WireError::Shape`] with the key, where it is not a message of a role that the protocol has today.
pub fn read_message(value: Value) -> Result<Message, WireError> {
    let Value::Object(mut fields) = value else {
        return Err(WireError::shape("message", "must be an object"));
    };
    let mut form = Form::default();
    let role = take_text(&mut fields, "role")?;
    form.no_content = role == "assistant" && !fields.contains_key("content");
    let content = read_content(fields.shift_remove("content").unwrap_or_default(), &mut form)?;
    let body = match role.as_str() {
        "system" => Body::System(content.unwrap_or_else(|| "".into())),
        "developer" => {
            form.role = Some(role);
            Body::System(content.unwrap_or_else(|| "".into()))
        }
        "user" => Body::User(content.unwrap_or_else(|| "".into())),
        "assistant" => {
            let calls = read_calls(fields.shift_remove("tool_calls").unwrap_or_default(), &mut form)?;
            Body::Assistant { content, calls }
        }
        "tool" => Body::Tool(ToolResult {
            call_id: take_text(&mut fields, "tool_call_id")?,
            name: None,
            content: content.unwrap_or_else(|| "".into()),
            is_error: false,
        }),
        other => {
            let what = format!("is `{other}` (expected one of system, developer, user, assistant and tool)");
            return Err(WireError::shape("role", what));
        }
    };
    let mut message = Message::new(body);
    // Only `shift_remove` was used above: it leaves the order of the other keys as it was.
    message.extra = fields;
    form.keep(&mut message);
    Ok(message)
}

fn content_json(content: &Content, form: &Form) -> Value {
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts
            .iter()
            .enumerate()
            .map(|(n, part)| match part {
                Part::Media(raw) => raw.clone(),
                Part::Text(text) => {
                    let mut spelt =
                        Map::from_iter([("type".into(), json!("text")), ("text".into(), json!(text))]);
                    spelt.extend(form.part(n, parts.len()));
                    Value::Object(spelt)
                }
            })
            .collect(),
    }
}

fn read_content(value: Value, form: &mut Form) -> Result<Option<Content>, WireError> {
    let parts = match value {
        Value::Null => return Ok(None),
        Value::String(text) => return Ok(Some(Content::Text(text))),
        Value::Array(parts) => parts,
        _ => return Err(WireError::shape("content", "must be a string, a list of parts or null")),
    };
    let mut read = Vec::with_capacity(parts.len());
    let mut foreign = Vec::with_capacity(parts.len());
    for part in parts {
        let (part, keys) = read_part(part);
        read.push(part);
        foreign.push(keys);
    }
    if foreign.iter().any(|keys| !keys.is_empty()) {
        form.parts = foreign;
    }
    Ok(Some(Content::Parts(read)))
}

/// Reads one part and, if it is text, its foreign keys.
fn read_part(part: Value) -> (Part, Map<String, Value>) {
    match part {
        Value::Object(mut fields) if fields.get("type") == Some(&json!("text")) => {
            match fields.shift_remove("text") {
                Some(Value::String(text)) => {
                    fields.shift_remove("type");
                    (Part::Text(text), fields)
                }
                text => {
                    fields.extend(text.map(|text| ("text".into(), text)));
                    (Part::Media(Value::Object(fields)), Map::new())
                }
            }
        }
        other => (Part::Media(other), Map::new()),
    }
}

fn read_calls(value: Value, form: &mut Form) -> Result<Vec<ToolCall>, WireError> {
    let raw = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(raw) => raw,
        _ => return Err(WireError::shape("tool_calls", "must be a list")),
    };
    let calls = raw.iter().enumerate().map(|(n, call)| read_call(call, n)).collect::<Result<Vec<_>, _>>()?;
    let kept: Vec<Value> = raw.into_iter().map(peculiar).collect();
    if kept.iter().any(|call| !call.is_null()) {
        form.calls = kept;
    }
    Ok(calls)
}

fn read_call(call: &Value, n: usize) -> Result<ToolCall, WireError> {
    let at = |key: &str| format!("tool_calls[{n}].{key}");
    let id = match call.get("id") {
        Some(Value::String(id)) => id.clone(),
        None | Some(Value::Null) => String::new(),
        Some(_) => return Err(WireError::shape(at("id"), "must be a string")),
    };
    let (inner, text) =
        if call.get("custom").is_some() { ("custom", "input") } else { ("function", "arguments") };
    let fields = call.get(inner).ok_or_else(|| WireError::shape(at(inner), "is missing"))?;
    let name =
        fields.get("name").and_then(Value::as_str).and_then(|name| ToolName::new(name).ok()).ok_or_else(
            || WireError::shape(at(&format!("{inner}.name")), "must be a string that is not blank"),
        )?;
    let arguments = arguments_text(fields.get(text))
        .ok_or_else(|| WireError::shape(at(&format!("{inner}.{text}")), "must be a string or an object"))?;
    Ok(ToolCall { id, name, arguments })
}

/// Arguments as text: some servers and many recordings hold the object itself.
pub(super) fn arguments_text(arguments: Option<&Value>) -> Option<String> {
    match arguments {
        None | Some(Value::Null) => Some("{}".to_owned()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(object @ Value::Object(_)) => Some(object.to_string()),
        Some(_) => None,
    }
}

fn take_text(fields: &mut Map<String, Value>, key: &str) -> Result<String, WireError> {
    match fields.shift_remove(key) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(WireError::shape(key, "must be a string")),
        None => Err(WireError::shape(key, "is missing")),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_legal_message_is_written_as_it_was_read() {
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"a\": 1}"}});
        let signed = json!({"index": 0, "id": "c2", "type": "function",
            "function": {"name": "read", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}});
        let custom = json!({"id": "c3", "type": "custom", "custom": {"name": "sh", "input": "ls"}});
        for message in [
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "developer", "content": "be brief"}),
            json!({"role": "user", "content": "hi", "name": "bob"}),
            json!({"role": "user", "content": ""}),
            json!({"role": "user", "content": []}),
            json!({"role": "user", "content": [
                {"type": "text", "text": "see"},
                {"type": "text", "text": "this", "cache_control": {"type": "ephemeral"}},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
                {"type": "text", "text": null},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            ]}),
            json!({"role": "assistant", "content": "done"}),
            json!({"role": "assistant", "content": null, "tool_calls": [call]}),
            json!({"role": "assistant", "tool_calls": [call, signed, custom]}),
            json!({"role": "assistant", "content": "", "tool_calls": [custom], "refusal": null}),
            json!({"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]}),
            json!({"role": "assistant", "content": "x", "zeta": 1, "reasoning_content": "hm", "alpha": [1.5, null]}),
            json!({"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": ""}}),
            json!({"role": "tool", "tool_call_id": "c1", "content": "out", "name": "read"}),
            json!({"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "out"}]}),
        ] {
            let actual = message_json(&read_message(message.clone()).unwrap());
            assert_eq!(actual, message);
        }
    }

    #[test]
    fn a_message_is_read_into_the_domain() {
        let call = |arguments: &str| ToolCall {
            id: "c1".into(),
            name: ToolName::new("read").unwrap(),
            arguments: arguments.into(),
        };
        let mut named = Message::user("hi");
        named.extra.insert("name".into(), json!("bob"));
        let result = ToolResult { call_id: "c1".into(), name: None, content: "".into(), is_error: false };
        for (name, value, expected) in [
            ("foreign key", json!({"role": "user", "name": "bob", "content": "hi"}), named),
            (
                "arguments as an object",
                json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": {"b": 1, "a": "é"}}}]}),
                Message::calling(vec![call("{\"b\":1,\"a\":\"é\"}")]),
            ),
            (
                "no arguments",
                json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read"}}]}),
                Message::calling(vec![call("{}")]),
            ),
            (
                "no output",
                json!({"role": "tool", "tool_call_id": "c1", "content": null}),
                Message::tool(result),
            ),
        ] {
            let actual = read_message(value).unwrap();
            assert_eq!(actual, expected, "{name}");
        }
    }

    #[test]
    fn an_error_names_the_key() {
        for (value, expected) in [
            (json!("hi"), "`message` must be an object"),
            (json!({"content": "hi"}), "`role` is missing"),
            (json!({"role": 1}), "`role` must be a string"),
            (
                json!({"role": "robot", "content": "hi"}),
                "`role` is `robot` (expected one of system, developer, user, assistant and tool)",
            ),
            (json!({"role": "user", "content": 1}), "`content` must be a string, a list of parts or null"),
            (json!({"role": "tool", "content": "x"}), "`tool_call_id` is missing"),
            (json!({"role": "assistant", "tool_calls": 1}), "`tool_calls` must be a list"),
            (json!({"role": "assistant", "tool_calls": [{}]}), "`tool_calls[0].function` is missing"),
            (
                json!({"role": "assistant", "tool_calls": [{"function": {"name": " "}}]}),
                "`tool_calls[0].function.name` must be a string that is not blank",
            ),
            (
                json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}),
                "`tool_calls[0].function.arguments` must be a string or an object",
            ),
        ] {
            let actual = read_message(value).unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_rewritten_message_keeps_nothing_of_parts_that_are_gone() {
        let marked = read_message(json!({"role": "developer", "content": [
            {"type": "text", "text": "a", "cache_control": {}}, {"type": "text", "text": "b"}]}))
        .unwrap();
        let actual = message_json(&marked.with_content("stub"));
        assert_eq!(actual, json!({"role": "developer", "content": "stub"}));
    }

    #[test]
    fn our_own_facts_are_not_sent() {
        let call = ToolCall { id: "c1".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
        let mut message = Message::tool(ToolResult::answer(&call, "out"));
        message.metadata.insert("reasoning".into(), json!("hm"));
        let actual = message_json(&message);
        assert_eq!(actual, json!({"role": "tool", "tool_call_id": "c1", "content": "out"}));
    }
}
