//! A message to and from its Ollama form.

use std::collections::VecDeque;

use forge_domain::{Body, Content, Message, Part, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use crate::WireError;
use crate::arguments::arguments_object;

/// The key of a message's `extra` that holds its reasoning.
pub(super) const THINKING: &str = "thinking";
/// The key of a message's metadata for its own form, if the domain cannot express it.
const KEPT: &str = "ollama";

/// Returns `message` as an entry of `messages`. The protocol's content is one text; images are beside it, and
/// anything else is named in words.
pub fn message_json(message: &Message) -> Value {
    let kept = message.metadata.get(KEPT);
    let is_same = |kept: &&Value| read(kept).is_ok_and(|read| read.body == message.body);
    kept.filter(is_same).cloned().unwrap_or_else(|| plain_json(message))
}

/// Reads the entries of `messages`. Their calls have no ids, and results follow in the order of the calls:
/// ids are generated (`call_0`, …), and results get those of the calls before them.
///
/// # Errors
/// [`WireError::Shape`] with the key, where one is not a message of the protocol.
pub fn read_messages(entries: &[Value]) -> Result<Vec<Message>, WireError> {
    let mut open: VecDeque<ToolCall> = VecDeque::new();
    let mut messages = Vec::with_capacity(entries.len());
    for entry in entries {
        let mut message = read(entry)?;
        if plain_json(&message) != *entry {
            message.metadata.insert(KEPT.to_owned(), entry.clone());
        }
        match &mut message.body {
            Body::Assistant { calls, .. } => open = calls.iter().cloned().collect(),
            Body::Tool(result) if result.call_id.is_empty() => {
                let named = open.iter().position(|call| result.name.as_ref() == Some(&call.name));
                if let Some(call) = open.remove(named.unwrap_or(0)) {
                    result.call_id = call.id;
                    // The kept form must not contain an id; it would no longer be the same.
                    if let Some(kept) = message.metadata.get_mut(KEPT) {
                        kept["tool_call_id"] = json!(result.call_id);
                    }
                }
            }
            Body::System(_) | Body::User(_) | Body::Tool(_) => {}
        }
        messages.push(message);
    }
    Ok(messages)
}

fn plain_json(message: &Message) -> Value {
    let mut fields = Map::new();
    fields.insert("role".into(), json!(message.role().as_str()));
    let (text, images) = message.content().map(text_and_images).unwrap_or_default();
    fields.insert("content".into(), json!(text));
    if let Some(thinking) = message.extra.get(THINKING) {
        fields.insert(THINKING.into(), thinking.clone());
    }
    if !images.is_empty() {
        fields.insert("images".into(), json!(images));
    }
    if !message.calls().is_empty() {
        fields.insert("tool_calls".into(), message.calls().iter().map(call_json).collect());
    }
    if let Body::Tool(ToolResult { name: Some(name), .. }) = &message.body {
        fields.insert("tool_name".into(), json!(name));
    }
    Value::Object(fields)
}

fn call_json(call: &ToolCall) -> Value {
    json!({"function": {"name": call.name, "arguments": arguments_object(&call.arguments)}})
}

/// Returns the text of `content` and its images, in base64.
fn text_and_images(content: &Content) -> (String, Vec<String>) {
    let Content::Parts(parts) = content else { return (content.to_text(), Vec::new()) };
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Part::Text(text) => texts.push(text.clone()),
            Part::Media(value) => match image(value) {
                Some(data) => images.push(data),
                None => texts.push("[a part was left out: this provider cannot read it]".to_owned()),
            },
        }
    }
    (texts.join("\n"), images)
}

/// Returns the data of an image in any protocol's form; addresses are not fetched.
fn image(part: &Value) -> Option<String> {
    let url = part.pointer("/image_url/url").or_else(|| part.get("image_url")).and_then(Value::as_str);
    let from_url =
        url.and_then(|url| url.strip_prefix("data:")?.split_once(";base64,")).map(|(_, data)| data);
    let block = part.get("source").filter(|source| source.get("type") == Some(&json!("base64")));
    let from_block = block.and_then(|source| source.get("data")).and_then(Value::as_str);
    from_url.or(from_block).map(str::to_owned)
}

fn read(entry: &Value) -> Result<Message, WireError> {
    let fields = entry.as_object().ok_or_else(|| WireError::shape("message", "must be an object"))?;
    let text = |key: &str| match fields.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(WireError::shape(key, "must be a string")),
    };
    let content = with_images(text("content")?, fields.get("images"));
    let name = || fields.get("tool_name").or_else(|| fields.get("name")).and_then(Value::as_str);
    let mut message = Message::new(match text("role")?.as_str() {
        "system" => Body::System(content),
        "user" => Body::User(content),
        "assistant" => {
            let calls = fields.get("tool_calls").and_then(Value::as_array);
            let calls = calls.into_iter().flatten().enumerate();
            Body::Assistant {
                content: (!content.is_empty()).then_some(content),
                calls: calls.map(|(n, call)| read_call(call, n)).collect::<Result<_, _>>()?,
            }
        }
        "tool" => Body::Tool(ToolResult {
            call_id: text("tool_call_id")?,
            name: name().and_then(|name| ToolName::new(name).ok()),
            content,
            is_error: false,
        }),
        other => {
            let what = format!("is `{other}` (expected one of system, user, assistant and tool)");
            return Err(WireError::shape("role", what));
        }
    });
    if let Some(thinking @ Value::String(_)) = fields.get(THINKING) {
        message.extra.insert(THINKING.to_owned(), thinking.clone());
    }
    Ok(message)
}

fn read_call(call: &Value, n: usize) -> Result<ToolCall, WireError> {
    let name =
        call.pointer("/function/name").and_then(Value::as_str).and_then(|name| ToolName::new(name).ok());
    let at = format!("tool_calls[{n}].function.name");
    let arguments = match call.pointer("/function/arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
    };
    Ok(ToolCall {
        id: call.get("id").and_then(Value::as_str).map_or_else(|| format!("call_{n}"), str::to_owned),
        name: name.ok_or_else(|| WireError::shape(at, "must be a string that is not blank"))?,
        arguments,
    })
}

/// Returns the text, followed by the images as parts that all of our protocols know.
fn with_images(text: String, images: Option<&Value>) -> Content {
    let images: Vec<&str> =
        images.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    if images.is_empty() {
        return Content::Text(text);
    }
    let text = (!text.is_empty()).then_some(Part::Text(text));
    let parts = images.iter().map(|data| {
        let url = format!("data:{};base64,{data}", kind_of_image(data));
        Part::Media(json!({"type": "image_url", "image_url": {"url": url}}))
    });
    Content::Parts(text.into_iter().chain(parts).collect())
}

/// Returns the type of an image by the first bytes of its data in base64.
fn kind_of_image(data: &str) -> &'static str {
    const STARTS: [(&str, &str); 3] = [("/9j/", "image/jpeg"), ("R0lG", "image/gif"), ("UklG", "image/webp")];
    STARTS.iter().find(|(start, _)| data.starts_with(start)).map_or("image/png", |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_message_is_written_as_it_was_read() {
        let entries = [
            json!({"role": "system", "content": "be brief"}),
            json!({"role": "user", "content": "see", "images": ["/9j/AA", "iVBOR"]}),
            json!({"role": "user", "content": "", "images": ["UklGAA"], "new": 1.5}),
            json!({"role": "assistant", "content": "so", "thinking": "hm", "tool_calls": [
                {"function": {"name": "read", "arguments": {"b": 1, "a": []}}},
                {"id": "x", "function": {"index": 1, "name": "list", "arguments": {}}}]}),
            json!({"role": "tool", "content": "out", "tool_name": "list"}),
            json!({"role": "tool", "content": "out", "tool_name": "read"}),
            json!({"role": "assistant", "content": "done"}),
        ];
        let messages = read_messages(&entries).unwrap();
        let written: Vec<Value> = messages.iter().map(message_json).collect();
        // The second call's id came from the server, and its result contains it.
        assert_eq!(written, entries);
        let answered: Vec<_> = messages
            .iter()
            .filter_map(|message| match &message.body {
                Body::Tool(result) => Some(result.call_id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(answered, ["x", "call_0"]);
    }

    #[test]
    fn what_the_protocol_lacks_is_named() {
        let far = json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}});
        let block =
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}});
        let message = Message::user(Content::Parts(vec![
            Part::Text("see".into()),
            Part::Media(far),
            Part::Media(block),
        ]));
        assert_eq!(
            message_json(&message),
            json!({"role": "user", "content": "see\n[a part was left out: this provider cannot read it]",
                "images": ["AA"]})
        );
    }

    #[test]
    fn an_error_names_the_key() {
        for (entry, expected) in [
            (json!(1), "`message` must be an object"),
            (
                json!({"role": "robot"}),
                "`role` is `robot` (expected one of system, user, assistant and tool)",
            ),
            (json!({"role": "user", "content": []}), "`content` must be a string"),
            (
                json!({"role": "assistant", "tool_calls": [{}]}),
                "`tool_calls[0].function.name` must be a string that is not blank",
            ),
        ] {
            assert_eq!(read_messages(&[entry]).unwrap_err().to_string(), expected);
        }
    }
}
