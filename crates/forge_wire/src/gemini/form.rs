//! Parts that the domain cannot express, kept beside their message so that they can be sent back unchanged,
//! and the signatures of thoughts, each for the part that it came with.

use forge_domain::{Body, Content, Message, Part, Role, THOUGHT_SIGNATURES};
use serde_json::{Map, Value, json};

use super::part::{assistant, is_thought, plain_parts, user};

/// The key of a message's metadata under which the parts are kept.
const KEY: &str = "gemini";
/// The key of a part's signature.
pub(super) const SIGNATURE: &str = "thoughtSignature";

/// Returns the metadata of a message that came as `parts`, which have no thoughts and signatures; empty if
/// the message alone reproduces them.
pub(super) fn metadata(parts: &[Value], message: &Message) -> Map<String, Value> {
    match plain_parts(message) {
        Ok(again) if again == parts => Map::new(),
        _ => Map::from_iter([(KEY.to_owned(), json!({"parts": parts}))]),
    }
}

/// Returns the message that the domain makes of the `parts` of a stream: its text is one.
pub(super) fn as_streamed(parts: &[Value]) -> Message {
    let read = assistant(parts);
    let text = texts(&read);
    let content = (!text.is_empty()).then_some(Content::Text(text));
    Message::new(Body::Assistant { content, calls: read.calls().to_vec() })
}

/// Separates the parts from what binds them to the model's thoughts. The second list, empty if there is
/// nothing of that, has an entry for each part: null; the part's signature, which goes back in the very same
/// part; or a whole part which is a thought, or only carries a signature.
pub(super) fn split(parts: &[Value]) -> (Vec<Value>, Vec<Value>) {
    let (mut plain, mut thoughts) = (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    for part in parts {
        let is_bare = part.get("text").and_then(Value::as_str) == Some("")
            || part.as_object().is_some_and(|part| part.len() == 1);
        let mut part = part.clone();
        let signature = match part.as_object_mut() {
            Some(fields) if !is_thought(&Value::Object(fields.clone())) => fields.shift_remove(SIGNATURE),
            _ => None,
        };
        match signature {
            None if is_thought(&part) => thoughts.push(part),
            None => {
                thoughts.push(Value::Null);
                plain.push(part);
            }
            // A part needs content of some kind.
            Some(signature) if is_bare => thoughts.push(json!({"text": "", SIGNATURE: signature})),
            Some(signature) => {
                thoughts.push(json!({SIGNATURE: signature}));
                plain.push(part);
            }
        }
    }
    if thoughts.iter().all(Value::is_null) {
        thoughts.clear();
    }
    (plain, thoughts)
}

/// Puts the thoughts of a message back into its `parts`. If the message has other parts by now, it is sent
/// without them: a signature in another part is refused.
fn join(parts: Vec<Value>, thoughts: &[Value]) -> Vec<Value> {
    let is_whole = |entry: &&Value| entry.as_object().is_some_and(|entry| entry.len() > 1);
    let n_whole = thoughts.iter().filter(is_whole).count();
    if thoughts.len() - n_whole != parts.len() {
        return parts;
    }
    let mut parts = parts.into_iter();
    let joined = thoughts.iter().filter_map(|entry| {
        if is_whole(&entry) {
            return Some(entry.clone());
        }
        let mut part = parts.next()?;
        if let (Some(fields), Some(signature)) = (part.as_object_mut(), entry.get(SIGNATURE)) {
            fields.insert(SIGNATURE.to_owned(), signature.clone());
        }
        Some(part)
    });
    joined.collect()
}

/// Returns the parts of `message`: as they were kept, if they still match it; with its thoughts.
pub(super) fn parts(message: &Message) -> Option<Vec<Value>> {
    let parts = kept_parts(message).or_else(|| plain_parts(message).ok())?;
    let thoughts = message.extra.get(THOUGHT_SIGNATURES).and_then(Value::as_array);
    Some(match thoughts.filter(|_| message.role() == Role::Assistant) {
        Some(thoughts) => join(parts, thoughts),
        None => parts,
    })
}

fn kept_parts(message: &Message) -> Option<Vec<Value>> {
    let kept = message.metadata.get(KEY)?.get("parts")?.as_array()?;
    let read = match &message.body {
        Body::Assistant { .. } => assistant(kept),
        Body::Tool(_) | Body::User(_) | Body::System(_) => user(kept, &mut Vec::new()).pop()?,
    };
    let is_same =
        texts(&read) == texts(message) && calls(&read) == calls(message) && read.role() == message.role();
    is_same.then(|| kept.clone())
}

/// Returns the texts joined: a streamed reply does not tell where one ends.
fn texts(message: &Message) -> String {
    match message.content() {
        None => String::new(),
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(parts)) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Media(_) => None,
            })
            .collect(),
    }
}

fn calls(message: &Message) -> Vec<(&str, Value)> {
    let input = |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
    message.calls().iter().map(|call| (call.name.as_str(), input(&call.arguments))).collect()
}
