//! The messages in the records of a session.

use std::sync::Arc;

use forge_domain::compaction::recognize_written;
use forge_domain::{Body, Content, HIDDEN_TOKENS, Message, Part, Role, ToolCall, ToolName, ToolResult};
use forge_wire::anthropic::{Block, BlockContent, MessageBody};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::attachment;
use super::branch::{Kind, Node};
use super::queue::queued;
use super::shape::{Shape, file_stem, is_result_kind, node, reply_id};
use crate::codec::{Input, each_record};
use crate::flat_text::flat_value;
use crate::harness::{mark_user_words, split_notes};
use crate::json_text::{parse, repair_text};
use crate::record::Reader;
use crate::session::Names;
use crate::{Record, Session, TranscriptError};

/// Reads the one session in the file. Records that are run together on a line are read one by one. Lines that
/// do not parse are counted and left out, as their writer does.
pub(super) fn session(input: &Input<'_>) -> Result<Session, TranscriptError> {
    let origin = input.origin;
    let mut shape = Shape::default();
    let mut lines: Vec<&str> = Vec::new();
    for (n, line) in input.text()?.lines().enumerate() {
        let mut fault = None;
        shape.skipped_lines += each_record(line, &mut |record| match shape.look(record, n + 1, origin) {
            Ok(true) => lines.push(record),
            Ok(false) => {}
            Err(error) => fault = fault.take().or(Some(error)),
        });
        fault.map_or(Ok(()), Err)?;
    }
    if !shape.is_own {
        return Err(TranscriptError::unknown(origin));
    }
    let branch = shape.branch();
    let mut reader = Records::default();
    let mut records = Vec::with_capacity(lines.len());
    for place in branch.order() {
        let (line, active) = (lines[place], branch.active[place]);
        let read_again: Reader = if active { read_active } else { read_inactive };
        records.push(input.shelf.put(line, reader.read(line, shape.nodes[place], active), read_again));
    }
    let records = Arc::new(records);
    let id = shape.id.unwrap_or_else(|| file_stem(origin).to_owned());
    Ok(Session {
        skipped_lines: shape.skipped_lines,
        records_off_branch: branch.n_left,
        ..Session::new(id, input.format, records)
    })
}

/// A reader of the records, one by one.
#[derive(Default)]
pub(super) struct Records {
    names: Names,
    /// The id of the latest reply.
    reply: Option<Arc<str>>,
}

impl Records {
    /// Reads the record that `line` is; one that is not on the active branch has no messages.
    pub(super) fn read(&mut self, line: &str, node: Node, active: bool) -> Record {
        let fields: Map<String, Value> = parse(line).unwrap_or_default();
        let attachment = attachment::kind(&fields).map(Box::from);
        let reply = reply_id(&fields).map(|reply| self.shared(reply));
        let mut messages = if active { messages_of(line, fields, node.kind) } else { Vec::new() };
        self.names.name(&mut messages);
        Record::new(line, messages).part_of(reply, attachment)
    }

    /// Returns the id of a reply, which consecutive records share.
    fn shared(&mut self, reply: &str) -> Arc<str> {
        match &self.reply {
            Some(same) if **same == *reply => Arc::clone(same),
            _ => Arc::clone(self.reply.insert(reply.into())),
        }
    }
}

/// Reads the messages of a record on the active branch that was read before, without what the records before
/// it say.
fn read_active(line: &str) -> Vec<Message> {
    let fields: Map<String, Value> = parse(line).unwrap_or_default();
    let kind = node(&fields).kind;
    messages_of(line, fields, kind)
}

const fn read_inactive(_: &str) -> Vec<Message> {
    Vec::new()
}

fn messages_of(line: &str, mut fields: Map<String, Value>, kind: Kind) -> Vec<Message> {
    match kind {
        Kind::Attachment => attachment_messages(&fields),
        Kind::Queued => queued_messages(&fields),
        Kind::User | Kind::Assistant | Kind::Progress | Kind::Other => messages(line, &mut fields),
    }
}

/// Reads the messages of one record, which is `raw` and parsed `fields`.
fn messages(raw: &str, fields: &mut Map<String, Value>) -> Vec<Message> {
    if is_only_shown(fields) {
        return Vec::new();
    }
    let body = fields.get_mut("message").map(Value::take).and_then(|body| MessageBody::read(body).ok());
    let Some(body) = body else { return Vec::new() };
    let blocks = match body.content {
        BlockContent::Text(text) => vec![Block::Other(Value::String(text))],
        BlockContent::Blocks(blocks) => blocks,
        BlockContent::Other(_) => Vec::new(),
    };
    let is_summary = fields.get("isCompactSummary") == Some(&Value::Bool(true));
    let is_note = !is_summary && is_note(fields);
    let messages = match fields.get("type").and_then(Value::as_str) {
        Some("assistant") => assistant_message(raw, &blocks).into_iter().collect(),
        _ => user_messages(blocks),
    };
    let timestamp = fields.remove("timestamp").unwrap_or_default();
    let split = messages.into_iter().flat_map(|message| match message.role() {
        Role::User if is_note => vec![message.noted_by(attachment::BY)],
        Role::User if !is_summary => split_notes(message, attachment::BY),
        _ => vec![mark_user_words(message)],
    });
    let mut messages: Vec<Message> = split.map(with_joined_texts).collect();
    for message in &mut messages {
        message.timestamp = serde_json::from_value(timestamp.clone()).unwrap_or_default();
        message.is_compacted |= is_summary;
    }
    messages.into_iter().map(recognize_written).collect()
}

/// Checks whether Claude Code shows a record to the user and never sends it: failures of the provider, such
/// as a limit that was reached, are written as replies of no model.
fn is_only_shown(fields: &Map<String, Value>) -> bool {
    let is_true = |key: &str| fields.get(key) == Some(&Value::Bool(true));
    let message = |path: &str| fields.get("message")?.pointer(path)?.as_str();
    let is_of_no_model = || message("/model") == Some("<synthetic>");
    let says_nothing = || message("/content/0/text") == Some(NO_RESPONSE);
    is_true("isVirtual") || is_of_no_model() && (is_true("isApiErrorMessage") || says_nothing())
}

/// The reply that Claude Code writes itself, so that the user's next message does not follow another one.
const NO_RESPONSE: &str = "No response requested.";

/// Checks whether Claude Code made a user's record itself: skills, caveats, notifications of tasks, messages
/// of other agents.
fn is_note(fields: &Map<String, Value>) -> bool {
    let is_true = |key: &str| fields.get(key) == Some(&Value::Bool(true));
    is_true("isMeta")
        || is_true("isVisibleInTranscriptOnly")
        || fields.contains_key("sourceToolUseID")
        || attachment::is_foreign(fields.get("origin"))
}

/// Returns the words that a record put into the queue.
fn queued_messages(fields: &Map<String, Value>) -> Vec<Message> {
    let said = queued(fields).map(Message::user);
    at_time_of(fields, said.into_iter().flat_map(|message| split_notes(message, attachment::BY)))
}

/// Returns messages with the time of their record.
fn at_time_of(fields: &Map<String, Value>, messages: impl Iterator<Item = Message>) -> Vec<Message> {
    let timestamp = fields.get("timestamp").cloned().unwrap_or_default();
    messages
        .map(|message| Message {
            timestamp: serde_json::from_value(timestamp.clone()).unwrap_or_default(),
            ..message
        })
        .collect()
}

/// Returns what the model sees of the attachment in a record.
fn attachment_messages(fields: &Map<String, Value>) -> Vec<Message> {
    let said = attachment::message(fields);
    at_time_of(fields, said.into_iter().flat_map(|message| split_notes(message, attachment::BY)))
}

/// Reads the texts and calls of an assistant's record. What the provider ran itself is left to the raw text.
/// So is reasoning, which is sent back unchanged and is therefore counted.
fn assistant_message(raw: &str, blocks: &[Block]) -> Option<Message> {
    let inputs = inputs(raw);
    let mut texts: Vec<&str> = Vec::new();
    let mut calls = Vec::new();
    for (n, block) in blocks.iter().enumerate() {
        let input = inputs.get(n).and_then(Option::as_deref);
        match block {
            Block::Text(block) => texts.push(&block.text),
            Block::ToolUse(call) | Block::ServerToolUse(call) => {
                calls.extend(tool_call(Some(&call.id), Some(&call.name), input));
            }
            Block::Other(Value::String(text)) => texts.push(text),
            Block::Other(value) if matches!(kind(value), "tool_use" | "server_tool_use") => {
                let text = |key: &str| value.get(key).and_then(Value::as_str);
                calls.extend(tool_call(text("id"), text("name"), input));
            }
            _ => (),
        }
    }
    let text = texts.join("\n");
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = (!text.is_empty()).then_some(Content::Text(text));
    let mut message = Message::new(Body::Assistant { content, calls });
    let hidden: usize = blocks.iter().map(reasoning_tokens).sum();
    if hidden > 0 {
        message.metadata.insert(HIDDEN_TOKENS.into(), json!(hidden));
    }
    Some(message)
}

/// Estimates the tokens of a block's reasoning, or of anything else in it that is not text or a call: one
/// token for four bytes of its text. If the text is hidden, the signature contains it sealed: recordings that
/// have both show about eight characters per token, and six are used.
fn reasoning_tokens(block: &Block) -> usize {
    let value = match block {
        Block::Thinking(_) | Block::RedactedThinking(_) => serde_json::to_value(block).unwrap_or_default(),
        Block::Other(value) if matches!(kind(value), "thinking" | "redacted_thinking") => value.clone(),
        // What the provider ran itself is sent back as well.
        Block::Other(value)
            if value.is_object() && !matches!(kind(value), "tool_use" | "server_tool_use") =>
        {
            return flat_value(value.get("content").unwrap_or(value)).len().div_ceil(4);
        }
        _ => return 0,
    };
    let length = |key: &str| value.get(key).and_then(Value::as_str).map_or(0, str::len);
    match length("thinking") {
        0 => (length("signature") + length("data")).div_ceil(6),
        shown => shown.div_ceil(4),
    }
}

/// Reads a call with its arguments as they were written; `input` is the text of a JSON value.
fn tool_call(id: Option<&str>, name: Option<&str>, input: Option<&str>) -> Option<ToolCall> {
    let name = name.and_then(|name| ToolName::new(name).ok()).or_else(|| ToolName::new("tool").ok())?;
    let arguments = match input {
        None | Some("null") => "{}".to_owned(),
        Some(object) if object.starts_with('{') => object.to_owned(),
        Some(text) if text.starts_with('"') => serde_json::from_str(text).unwrap_or_default(),
        Some(other) => format!("{{\"input\": {other}}}"),
    };
    Some(ToolCall { id: id.unwrap_or_default().to_owned(), name, arguments })
}

/// Returns the text of each block's `input`, byte for byte: a parsed value would lose the digits of long
/// numbers.
fn inputs(raw: &str) -> Vec<Option<String>> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        message: Body<'a>,
    }
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        input: Option<&'a RawValue>,
    }
    let text = repair_text(raw);
    let line: Result<Line<'_>, _> = serde_json::from_str(&text);
    let blocks = line.map(|line| line.message.content).unwrap_or_default();
    let input = |block: &&RawValue| {
        let block: Input<'_> = serde_json::from_str(block.get()).ok()?;
        block.input.map(|input| input.get().to_owned())
    };
    blocks.iter().map(input).collect()
}

/// Reads the results in a user's record, followed by the user's text.
fn user_messages(blocks: Vec<Block>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut said: Vec<Part> = Vec::new();
    for block in blocks {
        match block {
            Block::Text(block) => said.push(Part::Text(block.text)),
            Block::Image(_) | Block::Document(_) => {
                said.extend(serde_json::to_value(block).ok().map(Part::Media));
            }
            Block::ToolResult(result) => {
                let content = result.content.map_or_else(|| "".into(), result_content);
                messages.push(tool_message(result.tool_use_id, content, result.is_error == Some(true)));
            }
            Block::Other(value) => match kind(&value) {
                result if is_result_kind(result) => messages.push(foreign_result(&value)),
                "image" | "document" => said.push(Part::Media(value)),
                "text" => said.push(Part::Text(flat_value(&value))),
                _ if !value.is_object() => said.push(Part::Text(flat_value(&value))),
                _ => said.push(Part::Media(value)),
            },
            Block::Thinking(_) | Block::RedactedThinking(_) | Block::ToolUse(_) | Block::ServerToolUse(_) => {
            }
        }
    }
    let content = Content::Parts(said);
    messages.extend((!content.is_empty()).then(|| Message::user(content)));
    messages
}

/// Returns a user message with texts that follow each other as lines of one.
fn with_joined_texts(message: Message) -> Message {
    let Body::User(Content::Parts(parts)) = &message.body else { return message };
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match (joined.last_mut(), part) {
            (Some(Part::Text(last)), Part::Text(text)) => {
                last.push('\n');
                last.push_str(text);
            }
            _ => joined.push(part.clone()),
        }
    }
    match joined.as_slice() {
        [Part::Text(text)] => message.with_content(text.as_str()),
        _ => message.with_content(Content::Parts(joined)),
    }
}

fn tool_message(call_id: String, content: Content, is_error: bool) -> Message {
    Message::tool(ToolResult { call_id, name: None, content, is_error })
}

fn result_content(content: BlockContent) -> Content {
    match content {
        BlockContent::Text(text) => Content::Text(text),
        BlockContent::Blocks(blocks) => Content::Parts(
            blocks
                .into_iter()
                .filter_map(|block| match block {
                    Block::Text(text) => Some(Part::Text(text.text)),
                    // A tool that was found, by its name alone.
                    Block::Other(value) if kind(&value) == "tool_reference" => {
                        let name = value.get("tool_name").map(flat_value).unwrap_or_default();
                        Some(Part::Text(format!("[tool {name}]")))
                    }
                    block => serde_json::to_value(block).ok().map(Part::Media),
                })
                .collect(),
        ),
        BlockContent::Other(value) => Content::Text(flat_value(&value)),
    }
}

/// Reads a result of a kind that the protocol does not know, or that lacks a part.
fn foreign_result(value: &Value) -> Message {
    let call_id = value.get("tool_use_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let content = value.get("content").map(flat_value).unwrap_or_default();
    tool_message(call_id, content.into(), value.get("is_error") == Some(&Value::Bool(true)))
}

fn kind(block: &Value) -> &str {
    block.get("type").and_then(Value::as_str).unwrap_or_default()
}
