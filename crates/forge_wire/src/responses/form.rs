//! The items of a message, kept beside it without what the message itself has: their order, their kinds, and
//! all fields that the domain does not know.

use forge_domain::{Content, HIDDEN_TOKENS, Message, Part, REASONING_ITEMS, Role, ToolCall};
use serde_json::{Map, Value, json};

use super::item::{
    Author, assistant_item, call, call_item, is_message, is_reasoning, kind, opaque_tokens, payload,
    text_key, texts,
};
use super::plain::{media_json, plain_content, plain_items};

/// The key of a message's metadata under which they are kept.
const KEY: &str = "responses";

/// Keeps with `message` the items that it came as, unless it alone gives them again: byte for byte, or as
/// `is_same` compares them with the plain ones.
pub(super) fn keep(message: &mut Message, items: &[Value], is_same: impl Fn(&[Value], &[Value]) -> bool) {
    let reasoning: Vec<&Value> = items.iter().filter(|item| is_reasoning(item)).collect();
    if !reasoning.is_empty() {
        message.extra.insert(REASONING_ITEMS.into(), json!(reasoning));
    } else if is_same(items, &plain_items(message)) {
        return;
    }
    let kept: Vec<Value> = items.iter().map(hollow).collect();
    message.metadata.insert(KEY.into(), json!({"items": kept}));
    let hidden: u64 = items.iter().filter(|item| is_opaque(item)).map(opaque_tokens).sum();
    if hidden > 0 {
        message.metadata.insert(HIDDEN_TOKENS.into(), json!(hidden));
    }
}

/// Returns the items that `message` came as, with what it has by now; `None` if nothing was kept.
pub(super) fn items(message: &Message) -> Option<Vec<Value>> {
    let kept = message.metadata.get(KEY)?.get("items")?.as_array()?;
    match (message.role(), kept.as_slice()) {
        (Role::Assistant, kept) => Some(assistant_items(message, kept)),
        (_, [Value::Null]) => match message.content() {
            Some(Content::Parts(parts)) => match parts.as_slice() {
                [Part::Media(raw)] => Some(vec![raw.clone()]),
                _ => None,
            },
            _ => None,
        },
        (_, [slot]) => Some(vec![fill(slot, message)]),
        _ => None,
    }
}

/// Returns the kinds of the calls of `message` that are not functions, by the calls' ids.
pub(super) fn foreign_calls(message: &Message) -> Vec<(String, String)> {
    let kept = message.metadata.get(KEY).and_then(|kept| kept.get("items")?.as_array());
    let foreign =
        kept.into_iter().flatten().filter(|item| !matches!(kind(item), "function_call" | "message"));
    let ids = foreign.filter_map(|item| Some((item.get("call_id")?.as_str()?, kind(item))));
    ids.map(|(id, kind)| (id.to_owned(), kind.to_owned())).collect()
}

/// Checks whether the domain knows nothing of an item.
fn is_opaque(item: &Value) -> bool {
    !is_message(item) && !is_reasoning(item) && call(item).is_none() && Author::of(item) != Author::Tool
}

/// Returns `item` without what its message has. Texts of the model leave their lengths, since a message has
/// them as one; null stands for an item that the message has whole.
fn hollow(item: &Value) -> Value {
    let author = Author::of(item);
    let mut slot = item.clone();
    match author {
        _ if is_reasoning(item) => Value::Null,
        Author::Assistant if is_message(item) => {
            match &mut slot["content"] {
                content @ Value::String(_) => *content = json!(content.as_str().map(str::len)),
                Value::Array(parts) => parts.iter_mut().for_each(hollow_text),
                _ => {}
            }
            slot
        }
        Author::System | Author::User if is_message(item) => {
            slot["content"] = hollow_content(&item["content"]);
            slot
        }
        Author::System | Author::User => Value::Null,
        Author::Tool => {
            if let Some(key) = payload(item, author) {
                slot[key] = hollow_content(&item[key]);
            }
            slot
        }
        Author::Assistant => {
            if let Some(key) = payload(item, author).filter(|_| call(item).is_some()) {
                slot[key] = if item[key].is_string() { Value::Null } else { json!({}) };
            }
            slot
        }
    }
}

fn hollow_text(part: &mut Value) {
    if let Some(key) = text_key(part) {
        part[key] = json!(part[key].as_str().map(str::len));
    }
}

/// Returns the form of a content: each part with its text or its image left out, null for other parts.
fn hollow_content(content: &Value) -> Value {
    let hollow_part = |part: &Value| {
        let key = text_key(part).or_else(|| image_key(part));
        let Some(key) = key.filter(|key| part[*key].is_string()) else { return Value::Null };
        let mut slot = part.clone();
        slot[key] = json!("");
        slot
    };
    match content {
        Value::String(_) => json!(""),
        Value::Array(parts) => parts.iter().map(hollow_part).collect(),
        _ => Value::Null,
    }
}

fn image_key(part: &Value) -> Option<&'static str> {
    (kind(part) == "input_image").then_some("image_url")
}

/// Returns a system message, a user message or a result in its form.
fn fill(slot: &Value, message: &Message) -> Value {
    let mut item = slot.clone();
    let author = Author::of(slot);
    let key = if author == Author::Tool { payload(slot, author).unwrap_or("output") } else { "content" };
    if let Some(content) = message.content() {
        item[key] = filled_content(&slot[key], content);
    }
    item
}

fn filled_content(slot: &Value, content: &Content) -> Value {
    match (slot, content) {
        (Value::Null, Content::Text(text)) => match serde_json::from_str(text) {
            Ok(value @ (Value::Object(_) | Value::Null)) => value,
            _ => json!(text),
        },
        (Value::Array(slots), Content::Parts(parts)) if slots.len() == parts.len() => {
            let filled = slots.iter().zip(parts).map(|(slot, part)| filled_part(slot, part));
            filled.collect::<Option<_>>().unwrap_or_else(|| plain_content(content))
        }
        _ => plain_content(content),
    }
}

/// Returns a part in its form; `None` if it is of another kind by now.
fn filled_part(slot: &Value, part: &Part) -> Option<Value> {
    let mut item = slot.clone();
    match part {
        Part::Text(text) => item[text_key(slot)?] = json!(text),
        Part::Media(raw) if slot.is_null() => return Some(raw.clone()),
        Part::Media(raw) => {
            let key = image_key(slot)?;
            item[key] = media_json(raw).get(key)?.clone();
        }
    }
    Some(item)
}

/// The texts of an assistant message, as its items divide them.
struct Texts<'a> {
    rest: &'a str,
    /// False if the text was rewritten since, so that the lengths of its parts say nothing.
    are_known: bool,
}

impl<'a> Texts<'a> {
    fn of(text: &'a str, kept: &[Value]) -> Self {
        let lengths = kept.iter().filter(|slot| is_message(slot)).flat_map(lengths);
        let mut at = 0;
        let are_known = lengths.into_iter().all(|length| {
            at += length;
            text.is_char_boundary(at)
        });
        Self { rest: text, are_known: are_known && at == text.len() }
    }

    /// Returns the message that has the next texts.
    fn fill(&mut self, slot: &Value) -> Value {
        let mut item = slot.clone();
        match &mut item["content"] {
            Value::Array(parts) => {
                for part in parts {
                    if let Some(key) = text_key(part) {
                        part[key] = json!(self.next(&part[key]));
                    }
                }
            }
            content if content.is_u64() => *content = json!(self.next(content)),
            _ => {}
        }
        item
    }

    fn next(&mut self, length: &Value) -> &'a str {
        let length = length.as_u64().unwrap_or_default() as usize;
        let (text, rest) = self.rest.split_at_checked(length).unwrap_or((self.rest, ""));
        self.rest = rest;
        text
    }
}

/// Returns the lengths of the texts that a message had.
fn lengths(slot: &Value) -> Vec<usize> {
    let length = |value: &Value| value.as_u64().map(|length| length as usize);
    match &slot["content"] {
        Value::Array(parts) => parts.iter().filter_map(|part| length(&part[text_key(part)?])).collect(),
        content => length(content).into_iter().collect(),
    }
}

fn assistant_items(message: &Message, kept: &[Value]) -> Vec<Value> {
    let text = message.to_text();
    let mut texts = Texts::of(&text, kept);
    let mut unsaid = (!texts.are_known && !text.is_empty()).then_some(text.as_str());
    let mut calls: Vec<Option<&ToolCall>> = message.calls().iter().map(Some).collect();
    let mut reasoning = message.extra.get(REASONING_ITEMS).and_then(Value::as_array).into_iter().flatten();
    let mut lacks_reasoning = false;
    let mut items = Vec::with_capacity(kept.len());
    for slot in kept {
        if slot.is_null() {
            match reasoning.next() {
                Some(item) => items.push(item.clone()),
                None => lacks_reasoning = true,
            }
        } else if is_message(slot) {
            if texts.are_known {
                items.push(texts.fill(slot));
            } else {
                items.extend(unsaid.take().map(assistant_item));
            }
        } else if let Some(of_slot) = call(slot) {
            items.extend(unsaid.take().map(assistant_item));
            let at = calls.iter().position(|call| call.is_some_and(|call| call.id == of_slot.id));
            items.extend(at.and_then(|at| calls[at].take()).map(|call| filled_call(slot, call)));
        } else {
            items.push(slot.clone());
        }
    }
    items.extend(unsaid.map(assistant_item));
    items.extend(calls.into_iter().flatten().map(call_item));
    if lacks_reasoning {
        // Servers that know an item by its id demand the reasoning that led to it.
        items.iter_mut().filter_map(Value::as_object_mut).for_each(forget_id);
    }
    items
}

fn forget_id(item: &mut Map<String, Value>) {
    if item.contains_key("call_id") || item.contains_key("role") {
        item.shift_remove("id");
    }
}

fn filled_call(slot: &Value, call: &ToolCall) -> Value {
    let mut item = slot.clone();
    if item.get("name").is_some() {
        item["name"] = json!(call.name);
    }
    if let Some(key) = payload(slot, Author::Assistant) {
        item[key] = match &slot[key] {
            Value::Object(_) => {
                serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments))
            }
            _ => json!(call.arguments),
        };
    }
    item
}

/// Returns the text of the messages among `items`, as one: a streamed reply does not tell where one ends.
pub(super) fn joined_text(items: &[Value]) -> String {
    items.iter().filter(|item| is_message(item)).flat_map(texts).collect()
}
