//! The items of Codex's rollouts, and of the Responses API.

use forge_domain::{Message, Role};
use forge_wire::responses::message_items;
use serde_json::{Value, json};

use super::codex_script::called_in_script;
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
            messages_of(Role::Assistant, called_in_script(item).as_ref().unwrap_or(item))
        }
        (kind, _) if kind.ends_with("_call") => messages_of(Role::Assistant, item),
        (kind, _) if kind.ends_with("_output") => messages_of(Role::Tool, item),
        _ => Vec::new(),
    }
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
                join(&mut reply[0], &messages[0]);
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
    fn a_script_with_one_call_is_that_call() {
        for (code, expected) in [
            (
                "const r = await tools.exec_command({cmd:\"ls\"});\ntext(r.output);",
                "exec_command {\"cmd\":\"ls\"}",
            ),
            ("await tools.a(b + 1);", "exec {\"input\":\"await tools.a(b + 1);\"}"),
        ] {
            let item = json!({"type": "custom_tool_call", "call_id": "c", "name": "exec", "input": code});
            let messages = item_messages(&item);
            let call = &messages[0].calls()[0];
            assert_eq!(format!("{} {}", call.name, call.arguments), expected);
            assert_eq!(call.id, "c");
        }
    }
}
