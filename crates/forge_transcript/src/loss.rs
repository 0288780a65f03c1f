//! The parts of a session that cannot come along to another agent, or into another format.

use std::collections::BTreeMap;
use std::fmt;

use forge_domain::{Body, Content, Message, Part};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::flat_text::{IMAGE, flat_value};
use crate::json_text::parse;
use crate::tools::n_nameless;

/// A kind of what cannot come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Reasoning that only its model may be sent.
    Thinking,
    /// An image; `[image]` stands for it.
    Image,
    /// A document, a sound or another file; `[file]` stands for it.
    File,
    /// A call of a tool that the provider ran itself, such as a web search.
    HostedTool,
    /// Standing instructions of the agent; its successor has its own.
    Instructions,
    /// A summary that only its provider can read.
    SealedSummary,
    /// A call without a result; it gets one that tells so.
    MissingResult,
    /// A result that answers no call.
    OrphanResult,
    /// The name of a tool that not every provider accepts; `_` stands for some of its characters.
    ToolName,
    /// The schema of a tool without a name, which the provider runs itself.
    ProviderTool,
}

/// A kind of what cannot come along, and the number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// The kind.
    pub kind: LossKind,
    /// The number of them.
    pub count: usize,
}

impl Loss {
    /// Returns what is lost, such as `2 images`.
    pub fn what(&self) -> String {
        let (one, many, of) = match self.kind {
            LossKind::Thinking => ("piece", "pieces", " of thinking"),
            LossKind::Image => ("image", "images", ""),
            LossKind::File => ("file", "files", ""),
            LossKind::HostedTool => ("call", "calls", " of tools that the provider ran itself"),
            LossKind::Instructions => ("message", "messages", " with the agent's own instructions"),
            LossKind::SealedSummary => ("summary", "summaries", " that the provider encrypted"),
            LossKind::MissingResult => ("call", "calls", " without a recorded result"),
            LossKind::OrphanResult => ("result", "results", " without a call"),
            LossKind::ToolName => ("call", "calls", " of a name that not every provider accepts"),
            LossKind::ProviderTool => ("tool", "tools", " that the provider runs itself"),
        };
        format!("{} {}{of}", self.count, if self.count == 1 { one } else { many })
    }
}

/// Says what is lost, and what becomes of it.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let becomes = match self.kind {
            LossKind::Thinking => ", which only its own model may be sent",
            LossKind::Image => " (replaced by `[image]`)",
            LossKind::File => " (replaced by `[file]`)",
            LossKind::MissingResult => " (a text says so)",
            LossKind::ToolName => " (`_` for some characters)",
            LossKind::HostedTool
            | LossKind::Instructions
            | LossKind::SealedSummary
            | LossKind::OrphanResult
            | LossKind::ProviderTool => "",
        };
        write!(f, "{}{becomes}", self.what())
    }
}

/// Kinds of blocks and items that hold reasoning.
const THINKING: [&str; 5] = ["think", "thinking", "redacted_thinking", "reasoning", "redacted-reasoning"];
/// Keys of a message that hold reasoning.
const THINKING_KEYS: [&str; 6] =
    ["reasoning_content", "reasoning", "reasoning_details", "thinking_blocks", "thoughts", "reasoning_items"];
/// Kinds of blocks and items of tools that the provider runs.
const HOSTED: [&str; 9] = [
    "server_tool_use",
    "mcp_tool_use",
    "web_search_call",
    "image_generation_call",
    "code_interpreter_call",
    "file_search_call",
    "computer_call",
    "mcp_call",
    "tool_search_call",
];
/// The text that stands for a file other than an image.
const FILE: &str = "[file]";
/// Kinds of blocks that hold such a file.
const FILES: [&str; 10] = [
    "document",
    "document_url",
    "file",
    "input_file",
    "container_upload",
    "audio",
    "audio_url",
    "input_audio",
    "video",
    "video_url",
];
/// Keys whose values are such a file in blocks without a kind.
const FILE_KEYS: [&str; 4] = ["inlineData", "fileData", "inline_data", "file_data"];
/// Keys whose values are others' data, in which any word may stand.
const DATA: [&str; 9] = [
    "input",
    "arguments",
    "args",
    "output",
    "result",
    "toolUseResult",
    "functionResponse",
    "metadata",
    "snapshot",
];

/// A count of what cannot come along.
#[derive(Debug, Default)]
pub(crate) struct Census(BTreeMap<LossKind, usize>);

impl Census {
    pub(crate) fn add(&mut self, kind: LossKind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Counts the tools without a name among the schemas.
    pub(crate) fn count_tools(&mut self, tools: Option<&str>) {
        (0..tools.map_or(0, n_nameless)).for_each(|_| self.add(LossKind::ProviderTool));
    }

    /// Returns the text in place of a part that is not text, and counts it if it is lost.
    pub(crate) fn stand_in(&mut self, part: &Value) -> String {
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        let (lost, mark) = match kind {
            "refusal" => return flat_value(part.get("refusal").unwrap_or(&Value::Null)),
            kind if THINKING.contains(&kind) => return String::new(),
            kind if kind.contains("image") => (LossKind::Image, IMAGE),
            kind if FILES.contains(&kind) => (LossKind::File, FILE),
            _ if FILE_KEYS.iter().any(|key| part.get(key).is_some()) => (LossKind::File, FILE),
            _ => return flat_value(part),
        };
        self.add(lost);
        mark.to_owned()
    }

    /// Counts the reasoning and the calls of hosted tools in the text of a record.
    pub(crate) fn count(&mut self, raw: &str) {
        let may_have = |word: &&str| raw.contains(*word);
        let words = THINKING.iter().chain(&THINKING_KEYS).chain(&HOSTED).chain(&["thought"]);
        if words.into_iter().any(may_have) {
            self.count_value(&parse(raw).unwrap_or_default());
        }
    }

    /// Counts them in a value.
    pub(crate) fn count_value(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.count_value(item)),
            Value::Object(fields) => {
                let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
                if THINKING.contains(&kind) || fields.get("thought") == Some(&Value::Bool(true)) {
                    return self.add(LossKind::Thinking);
                }
                if HOSTED.contains(&kind) {
                    return self.add(LossKind::HostedTool);
                }
                if THINKING_KEYS.iter().any(|key| fields.get(*key).is_some_and(has_something)) {
                    self.add(LossKind::Thinking);
                }
                let own = fields.iter().filter(|(key, _)| {
                    !DATA.contains(&key.as_str()) && !THINKING_KEYS.contains(&key.as_str())
                });
                let is_result = kind.ends_with("tool_result") || kind.ends_with("_output");
                own.filter(|_| !is_result).for_each(|(_, value)| self.count_value(value));
            }
            _ => {}
        }
    }

    /// Counts the images and files in a message.
    pub(crate) fn count_media(&mut self, message: &Message) {
        let content = match &message.body {
            Body::System(content) | Body::User(content) => Some(content),
            Body::Assistant { content, .. } => content.as_ref(),
            Body::Tool(result) => Some(&result.content),
        };
        let Some(Content::Parts(parts)) = content else { return };
        for part in parts {
            if let Part::Media(value) = part {
                self.stand_in(value);
            }
        }
    }

    /// Returns what this one counted and `other` did not, by kind.
    pub(crate) fn beyond(&self, other: &Self) -> Vec<Loss> {
        let beyond = self.losses().into_iter().filter_map(|Loss { kind, count }| {
            let missing = count.saturating_sub(other.0.get(&kind).copied().unwrap_or_default());
            (missing > 0).then_some(Loss { kind, count: missing })
        });
        beyond.collect()
    }

    /// Returns the counts, by kind.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        self.0.iter().map(|(kind, count)| Loss { kind: *kind, count: *count }).collect()
    }
}

fn has_something(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => false,
    }
}
