//! Sessions of VS Code's chat: a document, or a log whose first line is one and whose others change it.

use std::borrow::Cow;

use forge_domain::{Message, Role};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::vscode_response::{is_call, response_messages, shown_text};
use crate::any_blocks::{answer, call, content_of, hidden_tokens, items, messages_of, reply, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::flat_text::IMAGE;
use crate::format::FormatFacts;
use crate::json_text::parse;

/// The author of the files and other context that the chat puts before what the user said.
const BY: &str = "vscode";
/// The tags before the user's own words, which are the last of what the chat sends for a request.
const OWN: [&str; 2] = ["<userRequest>", "<user_query>"];
/// The first words of the result of a call that failed.
const FAILURE: &str = "ERROR while calling tool";
/// The most keys on the way to a value that a line of a log changes. VS Code writes up to five; without a
/// limit, a log could nest values until the stack overflows.
const LONGEST_WAY: usize = 32;

/// The format of VS Code's chat, which Copilot answers.
pub(super) struct VsCode;

impl EntryFormat for VsCode {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "vscode-chat",
        name: "VS Code chat sessions",
        description: "{\"responderUsername\", \"requests\": [{\"message\", \"response\"}]}, or JSONL",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |file: &Fields<'_>| file.has_list("requests") && file.contains("responderUsername");
        evidence.document().is_some_and(is_own) || evidence.lines().first().is_some_and(is_whole)
    }

    fn document(text: &str) -> (Cow<'_, str>, usize) {
        let log = Listing::lines(text);
        if !log.entries.first().is_some_and(|first| is_whole(&Fields::of(first))) {
            return (Cow::Borrowed(text), 0);
        }
        let mut session = Value::Null;
        for change in log.entries.into_iter().filter_map(|line| parse::<Change>(line).ok()) {
            change.apply(&mut session);
        }
        (Cow::Owned(session.to_string()), log.skipped_lines)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        let listing = Listing::of_keys(&file, &["requests"]);
        let id = file.text("sessionId");
        Ok(vec![if id.is_empty() { listing } else { listing.named(id) }])
    }

    fn messages(request: &Value) -> Vec<Message> {
        // VS Code no longer sends a request that the user took back. It still sends one if only its edits
        // were undone.
        let undo = request.get("shouldBeRemovedOnSend").and_then(Value::as_object);
        if undo.is_some_and(|undo| !undo.contains_key("afterUndoStop")) {
            return Vec::new();
        }
        let metadata = request.pointer("/result/metadata").unwrap_or(&Value::Null);
        let rounds = items(metadata, "toolCallRounds");
        let parts = items(request, "response");
        let mut messages = request_messages(request, metadata);
        let Some(last) = rounds.last() else {
            messages.extend(response_messages(parts));
            return messages;
        };
        for round in rounds {
            messages.extend(with_time(round, round_messages(round, metadata)));
        }
        let shown = shown_text(parts_after(parts, last));
        messages.extend(reply(content_of(&json!(shown)), Vec::new(), 0));
        messages
    }
}

/// Checks whether a line is the first of a log: the whole session.
fn is_whole(line: &Fields<'_>) -> bool {
    line.get("kind") == "0" && Fields::of(line.get("v")).has_list("requests")
}

/// A line of a log.
#[derive(Deserialize)]
struct Change {
    /// 0 for the whole session; 1 sets a value, 2 adds items to a list, and 3 removes a value.
    kind: u8,
    /// The way from the session to the value: names of fields and places in lists.
    #[serde(default)]
    k: Vec<Value>,
    #[serde(default)]
    v: Value,
    /// The length that a list is cut to before items are added.
    i: Option<usize>,
}

impl Change {
    /// Makes the change to `session`, if it has that place.
    fn apply(self, session: &mut Value) {
        if self.k.len() > LONGEST_WAY {
            return;
        }
        let Some(value) = self.k.iter().try_fold(session, value_at) else { return };
        match (self.kind, value, self.v) {
            (2, Value::Array(list), added) => {
                list.truncate(self.i.unwrap_or(list.len()));
                list.extend(Vec::deserialize(added).unwrap_or_default());
            }
            (0..=3, value, new) => *value = new,
            _ => {}
        }
    }
}

/// Returns the value of a field, which may be new, or of a place in a list.
fn value_at<'v>(value: &'v mut Value, key: &Value) -> Option<&'v mut Value> {
    match (value, key) {
        (Value::Object(fields), Value::String(name)) => Some(fields.entry(name).or_insert(Value::Null)),
        (Value::Array(list), key) => list.get_mut(usize::try_from(key.as_u64()?).ok()?),
        _ => None,
    }
}

/// Returns what was sent for a request: the chat's context as notes, and what the user said.
fn request_messages(request: &Value, metadata: &Value) -> Vec<Message> {
    let context = ["renderedGlobalContext", "renderedUserMessage"].map(|key| {
        let texts = items(metadata, key).iter().map(|part| text_at(part, "/text"));
        texts.collect::<String>()
    });
    let message = request.get("message").unwrap_or(&Value::Null);
    let said = messages_of(Role::User, message.get("text").unwrap_or(message));
    let own = said.first().map(Message::to_text).unwrap_or_default();
    let notes = context.iter().map(|text| context_of(text, &own)).filter(|text| !text.is_empty());
    let notes = notes.map(|text| Message::note(BY, text));
    // A button that was pressed, or a command that ended, speaks in the user's place.
    let is_made = request.get("confirmation").is_some_and(Value::is_string)
        || request.get("isSystemInitiated") == Some(&Value::Bool(true));
    let said = said.into_iter().map(|said| if is_made { said.noted_by(BY) } else { said });
    with_time(request, notes.chain(said).collect()).collect()
}

/// Returns what the chat added to the user's `own` words, which are the last of `text`.
fn context_of<'t>(text: &'t str, own: &str) -> &'t str {
    let tag = OWN.iter().find_map(|tag| text.rfind(tag));
    let text = tag.map_or(text, |tag| &text[..tag]).trim_end();
    text.strip_suffix(own.trim()).unwrap_or(text).trim_end()
}

/// Returns the reply of a round, and the results of its calls.
fn round_messages(round: &Value, metadata: &Value) -> Vec<Message> {
    let made = items(round, "toolCalls");
    let calls = made.iter().map(|made| {
        let arguments = made.get("arguments").unwrap_or(&Value::Null);
        call(text_at(made, "/id"), text_at(made, "/name"), arguments)
    });
    let content = content_of(round.get("response").unwrap_or(&Value::Null));
    let hidden = round.get("thinking").map_or(0, hidden_tokens);
    let results = made.iter().filter_map(|made| {
        let id = text_at(made, "/id");
        let result = metadata.get("toolCallResults")?.get(id)?;
        let printed: Vec<Value> = items(result, "content").iter().map(part_text).collect();
        let is_failed = printed.first().and_then(Value::as_str).is_some_and(|text| text.starts_with(FAILURE));
        Some(answer(id, &Value::Array(printed), is_failed))
    });
    reply(content, calls.collect(), hidden).into_iter().chain(results).collect()
}

/// Returns a part of a result as text: it may be a tree of a prompt's elements.
fn part_text(part: &Value) -> Value {
    match (part.pointer("/value/node"), part.get("value")) {
        (Some(tree), _) => {
            let mut text = String::new();
            add_texts(tree, false, &mut text);
            Value::String(text)
        }
        (None, Some(value)) => value.clone(),
        (None, None) => json!(IMAGE),
    }
}

/// Adds the texts of a tree as they are sent, in reading order. A text begins a line if it says so, or if it
/// is the first of an element that follows no text.
fn add_texts(node: &Value, mut follows_text: bool, text: &mut String) {
    for (place, child) in items(node, "children").iter().enumerate() {
        let Some(said) = child.get("text").and_then(Value::as_str) else {
            add_texts(child, follows_text, text);
            follows_text = false;
            continue;
        };
        let says_so = child.get("lineBreakBefore") == Some(&Value::Bool(true));
        let begins_line = says_so || (place == 0 && !follows_text);
        if begins_line && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(said);
        follows_text = true;
    }
}

/// Returns the parts that the user saw last, unless the last round has them: what follows the last call, if
/// the model was interrupted.
fn parts_after<'v>(parts: &'v [Value], last: &Value) -> &'v [Value] {
    if items(last, "toolCalls").is_empty() && !text_at(last, "/response").is_empty() {
        return &[];
    }
    parts.rsplit(is_call).next().unwrap_or_default()
}

/// Returns messages with the time of `entry`, which is in milliseconds.
fn with_time(entry: &Value, messages: Vec<Message>) -> impl Iterator<Item = Message> {
    let at = entry.get("timestamp").and_then(Value::as_i64);
    let timestamp = at.and_then(|at| Timestamp::from_millisecond(at).ok());
    messages.into_iter().map(move |message| Message { timestamp, ..message })
}
