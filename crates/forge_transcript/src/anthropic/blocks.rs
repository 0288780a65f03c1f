//! The blocks of a record, of which some stay byte for byte while others change or leave.

use forge_domain::{Body, Message};
use forge_wire::WireError;
use forge_wire::anthropic::{call_block, entry_blocks, is_result, result_block};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::splice::with_field;

/// The fate of one message of a record.
#[derive(Clone, Copy)]
pub(crate) enum Fate<'a> {
    Kept,
    Gone,
    Says(&'a Message),
}

/// Returns the blocks of `content`, the text of a JSON value; a text is a block.
pub(super) fn raw_blocks(content: &str) -> Vec<String> {
    match serde_json::from_str::<Vec<&RawValue>>(content) {
        Ok(blocks) => blocks.iter().map(|block| block.get().to_owned()).collect(),
        Err(_) if content.starts_with('"') => vec![format!("{{\"type\":\"text\",\"text\":{content}}}")],
        Err(_) => Vec::new(),
    }
}

/// Returns the blocks of a user's record, which holds `messages`, after these met their `fates`: one for each
/// result in order, and then the user's text, usually in one message.
pub(crate) fn user_blocks(
    content: &str,
    messages: &[Message],
    fates: &[Fate<'_>],
) -> Result<Vec<String>, WireError> {
    let read: Vec<(String, bool)> = raw_blocks(content)
        .into_iter()
        .map(|raw| (serde_json::from_str(&raw).is_ok_and(|block: Value| is_result(&block)), raw))
        .map(|(is_result, raw)| (raw, is_result))
        .collect();
    let n_results = read.iter().filter(|(_, is_result)| *is_result).count();
    let is_split = messages.len() > n_results + 1;
    let mut said = if is_split { Fate::Gone } else { fates.get(n_results).copied().unwrap_or(Fate::Kept) };
    let mut results = fates.iter();
    let mut blocks = Vec::with_capacity(read.len());
    for (raw, is_result) in read {
        let fate = if is_result { results.next().copied().unwrap_or(Fate::Kept) } else { said };
        match (fate, is_result) {
            (Fate::Kept, _) => blocks.push(raw),
            (Fate::Gone, _) => {}
            (Fate::Says(message), true) => blocks.push(shorter_result(&raw, message)?),
            (Fate::Says(message), false) => {
                blocks.extend(entry_blocks(message)?.1.iter().map(Value::to_string));
                said = Fate::Gone;
            }
        }
    }
    if is_split {
        blocks.extend(said_blocks(&messages[n_results..], fates.get(n_results..).unwrap_or_default())?);
    }
    Ok(blocks)
}

/// Returns the blocks of what is left of `messages` that were sent as one.
pub(super) fn said_blocks(messages: &[Message], fates: &[Fate<'_>]) -> Result<Vec<String>, WireError> {
    let mut blocks = Vec::new();
    for (message, fate) in messages.iter().zip(fates) {
        let left = match fate {
            Fate::Kept => message,
            Fate::Says(less) => less,
            Fate::Gone => continue,
        };
        blocks.extend(entry_blocks(left)?.1.iter().map(Value::to_string));
    }
    Ok(blocks)
}

fn shorter_result(raw: &str, message: &Message) -> Result<String, WireError> {
    let Body::Tool(result) = &message.body else { return Ok(raw.to_owned()) };
    let block = result_block(result)?;
    Ok(with_field(raw, "content", &block["content"].to_string()).unwrap_or_else(|| block.to_string()))
}

/// Returns the blocks of an assistant's records, whose contents are `contents`, if the message `was` is now
/// `message`: reasoning and unchanged calls stay the same.
pub(crate) fn assistant_blocks(
    contents: &[&str],
    was: &Message,
    message: &Message,
) -> Result<Vec<String>, WireError> {
    let says_the_same = was.content() == message.content();
    let plain = Message::new(Body::Assistant { content: message.content().cloned(), calls: Vec::new() });
    let mut texts: Vec<String> = entry_blocks(&plain)?.1.iter().map(Value::to_string).collect();
    let mut blocks = Vec::new();
    let mut n_calls = 0;
    for raw in contents.iter().flat_map(|content| raw_blocks(content)) {
        let block: Value = serde_json::from_str(&raw).unwrap_or_default();
        let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "thinking" | "redacted_thinking" => blocks.push(raw),
            "tool_use" | "server_tool_use" => {
                if !says_the_same {
                    blocks.append(&mut texts);
                }
                let (before, now) = (was.calls().get(n_calls), message.calls().get(n_calls));
                n_calls += 1;
                match now {
                    Some(call) if before.is_none_or(|before| before.arguments != call.arguments) => {
                        let input = call_block(call)["input"].to_string();
                        blocks.push(with_field(&raw, "input", &input).unwrap_or(raw));
                    }
                    Some(_) => blocks.push(raw),
                    None => {}
                }
            }
            _ if says_the_same => blocks.push(raw),
            _ => blocks.append(&mut texts),
        }
    }
    if !says_the_same {
        blocks.append(&mut texts);
    }
    Ok(blocks)
}

/// Returns blocks as the content of a message, which must not be empty.
pub(crate) fn content_json(blocks: &[String]) -> String {
    if blocks.is_empty() {
        return json!([{"type": "text", "text": "(nothing)"}]).to_string();
    }
    format!("[{}]", blocks.join(","))
}

#[cfg(test)]
mod tests {
    use forge_domain::{ToolCall, ToolName, ToolResult};
    use pretty_assertions::assert_eq;

    use super::*;

    fn result(text: &str) -> Message {
        Message::tool(ToolResult { call_id: "a".into(), name: None, content: text.into(), is_error: false })
    }

    #[test]
    fn each_message_of_a_users_record_meets_its_own_fate() {
        let record =
            r#"[{"type":"tool_result", "tool_use_id":"a","content":"long"},{"type":"text","text":"x"}]"#;
        let (short, said) = (result("s"), Message::user("y"));
        for (fates, expected) in [
            ([Fate::Kept, Fate::Kept], record.to_owned()),
            ([Fate::Gone, Fate::Kept], r#"[{"type":"text","text":"x"}]"#.to_owned()),
            (
                [Fate::Says(&short), Fate::Gone],
                r#"[{"type":"tool_result", "tool_use_id":"a","content":"s"}]"#.to_owned(),
            ),
            ([Fate::Kept, Fate::Says(&said)], record.replace("\"x\"", "\"y\"")),
        ] {
            assert_eq!(content_json(&user_blocks(record, &[], &fates).unwrap()), expected);
        }
        assert_eq!(
            content_json(&user_blocks("\"x\"", &[], &[Fate::Says(&said)]).unwrap()),
            r#"[{"type":"text","text":"y"}]"#
        );
    }

    #[test]
    fn reasoning_and_calls_stay_where_a_reply_says_less() {
        let call = ToolCall { id: "c".into(), name: ToolName::new("f").unwrap(), arguments: "{}".into() };
        let says = |text: &str| {
            Message::new(Body::Assistant { content: Some(text.into()), calls: vec![call.clone()] })
        };
        let (thinking, tool) = (
            r#"{"type":"thinking","thinking":"hm","signature":"s"}"#,
            r#"{"type":"tool_use","id":"c","name":"f", "input":{}}"#,
        );
        let first = format!("[{thinking},{{\"type\":\"text\",\"text\":\"long\"}}]");
        let second = format!("[{tool}]");
        let actual = assistant_blocks(&[&first, &second], &says("long"), &says("s")).unwrap();
        assert_eq!(actual, [thinking, r#"{"type":"text","text":"s"}"#, tool]);
        let mut other = says("long");
        if let Body::Assistant { calls, .. } = &mut other.body {
            calls[0].arguments = "{\"a\":1}".into();
        }
        let actual = assistant_blocks(&[&second], &says("long"), &other).unwrap();
        assert_eq!(actual, [r#"{"type":"tool_use","id":"c","name":"f", "input":{"a":1}}"#]);
    }
}
