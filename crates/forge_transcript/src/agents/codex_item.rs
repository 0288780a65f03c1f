//! The items of Codex's rollouts, and of the Responses API.

use forge_domain::{Message, Role};
use forge_wire::responses::message_items;
use serde_json::{Value, json};

use crate::any_blocks::{messages_of, role_of, text_at};
use crate::reply_pieces::join;

/// The words for a summary that only its provider can read.
pub(crate) const SEALED: &str = "[summary of earlier messages, encrypted by the provider]";

/// Returns the messages of an item of the Responses API.
pub(super) fn item_messages(item: &Value) -> Vec<Message> {
    match (text_at(item, "/type"), role_of(text_at(item, "/role"))) {
        ("message" | "agent_message" | "", Some(role)) => {
            messages_of(role, item.get("content").unwrap_or(&Value::Null))
        }
        // The provider ran it, and its result is in no item.
        ("reasoning" | "web_search_call" | "image_generation_call" | "ghost_snapshot", _) => Vec::new(),
        ("compaction" | "compaction_summary" | "context_compaction", _) => {
            let sealed = text_at(item, "/encrypted_content");
            (!sealed.is_empty()).then(|| Message::user(SEALED).compacted()).into_iter().collect()
        }
        ("custom_tool_call", _) => {
            messages_of(Role::Assistant, called_in_code(item).as_ref().unwrap_or(item))
        }
        (kind, _) if kind.ends_with("_call") => messages_of(Role::Assistant, item),
        (kind, _) if kind.ends_with("_output") => messages_of(Role::Tool, item),
        _ => Vec::new(),
    }
}

/// The tool that runs code, in which newer versions call all others.
const CODE: &str = "exec";
/// The object whose functions are the tools.
const TOOLS: &str = "tools.";

/// Returns the one call in a piece of code as a call of its own; `None` if the code does anything else.
fn called_in_code(item: &Value) -> Option<Value> {
    let code = Some(text_at(item, "/input")).filter(|_| text_at(item, "/name") == CODE)?;
    let (before, rest) = code.split_once(TOOLS)?;
    let (name, rest) = rest.split_once('(')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let given = literal(rest).or_else(|| {
        let constant = rest.split(')').next()?.trim();
        literal(before.split_once(&format!("const {constant} ="))?.1.trim_start())
    });
    let (arguments, length) = given?;
    let goes_on = rest.get(length..).is_some_and(|rest| rest.contains(TOOLS));
    let arguments = if arguments.is_object() { arguments } else { json!({ "input": arguments }) };
    (is_name && !goes_on).then(
        || json!({"type": "function_call", "call_id": item["call_id"], "name": name, "arguments": arguments}),
    )
}

/// Returns the JSON value at the start of a piece of code, and its length.
fn literal(code: &str) -> Option<(Value, usize)> {
    let mut values = serde_json::Deserializer::from_str(code).into_iter::<Value>();
    let value = values.next()?.ok().filter(|value| value.is_object() || value.is_string())?;
    Some((value, values.byte_offset()))
}

/// Returns the items of each message, with its messages: the items of the assistant that follow each other
/// are one reply.
pub(super) fn reply_groups<'i>(
    items: impl Iterator<Item = &'i Value>,
) -> Vec<(Vec<&'i Value>, Vec<Message>)> {
    let mut groups: Vec<(Vec<&Value>, Vec<Message>)> = Vec::new();
    for item in items {
        let messages = item_messages(item);
        let is_piece = |messages: &[Message]| matches!(messages, [one] if one.role() == Role::Assistant);
        match groups.last_mut() {
            Some((pieces, reply)) if is_piece(reply) && is_piece(&messages) => {
                reply[0] = join(&reply[0], &messages[0]);
                pieces.push(item);
            }
            _ if messages.is_empty() => {}
            _ => groups.push((vec![item], messages)),
        }
    }
    groups
}

/// Returns the items of a message that is new in a rollout.
pub(crate) fn new_items(message: &Message) -> Vec<Value> {
    let mut items = message_items(message);
    for item in items.iter_mut().filter_map(Value::as_object_mut).filter(|item| item.contains_key("role")) {
        let kind = if item["role"] == "assistant" { "output_text" } else { "input_text" };
        if let Some(text) = item["content"].as_str() {
            item["content"] = json!([{ "type": kind, "text": text }]);
        }
        item.shift_insert(0, "type".to_owned(), json!("message"));
        item.shift_remove("id");
        item.shift_remove("status");
    }
    items
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_call_in_code_is_a_call_of_its_own() {
        for (code, expected) in [
            (
                "const r = await tools.exec_command({\"cmd\":\"ls\"});\ntext(r.output);",
                Some("exec_command {\"cmd\":\"ls\"}"),
            ),
            (
                "const patch = \"*** Begin Patch\\n+a\";\ntext(await tools.apply_patch(patch));",
                Some("apply_patch {\"input\":\"*** Begin Patch\\n+a\"}"),
            ),
            ("await tools.a({\"b\":\"tools.c(\"}); await tools.d({});", None),
            ("await tools.a({\"b\":\"tools.c(\"});", Some("a {\"b\":\"tools.c(\"}")),
            ("await tools.a(b + 1);", None),
            ("text(ALL_TOOLS);", None),
        ] {
            let item = json!({"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": code});
            let messages = item_messages(&item);
            let call = &messages[0].calls()[0];
            let expected = expected.map_or_else(|| format!("exec {}", json!({"input": code})), str::to_owned);
            assert_eq!(format!("{} {}", call.name, call.arguments), expected);
            assert_eq!(call.id, "c");
        }
    }
}
