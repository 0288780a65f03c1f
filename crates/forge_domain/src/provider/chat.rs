//! The pieces that a provider streams, and the reply that they form.

use serde_json::{Map, Value, json};

use crate::{
    BOUND_REASONING, Body, Content, Message, ProviderError, Tokens, ToolCall, ToolName, Usage, split_thoughts,
};

/// One piece of a streamed reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatCompletionMessage {
    /// Text that follows.
    pub content: Option<String>,
    /// Reasoning that follows, if the provider shows it.
    pub reasoning: Option<String>,
    /// Pieces of tool calls.
    pub tool_calls: Vec<ToolCallPart>,
    /// The usage of the call, once known; a later figure replaces an earlier one.
    pub usage: Option<Usage>,
    /// The reason the model stopped, in the piece that ends the reply.
    pub finish_reason: Option<FinishReason>,
    /// The model that replies, in the server's words, in one of the pieces: a name may be an alias.
    pub model: Option<String>,
    /// Keys for the message's `extra`: values that the provider wants back with it, such as signed reasoning.
    /// A later value of a key replaces an earlier one.
    pub extra: Map<String, Value>,
    /// Keys for the message's metadata, by the same rule.
    pub metadata: Map<String, Value>,
}

/// A piece of one tool call. Pieces of one call share their index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallPart {
    /// Which call of the reply.
    pub index: usize,
    /// Its id, in the piece that opens it.
    pub id: Option<String>,
    /// The tool, in the piece that opens it.
    pub name: Option<String>,
    /// More of the arguments' text.
    pub arguments: String,
}

impl ToolCallPart {
    /// Returns the one of `calls` that this piece continues; `None` if it opens another call.
    pub fn continues(&self, calls: &[Self]) -> Option<usize> {
        let of_index = || calls.iter().enumerate().filter(|(_, call)| call.index == self.index);
        // Pieces of calls that share an index may alternate: the id distinguishes them.
        let same_id = of_index().find(|(_, call)| visible_text(&self.id).is_some() && call.id == self.id);
        let (at, call) = same_id.or_else(|| of_index().next_back())?;
        (!self.opens_another_than(call)).then_some(at)
    }

    /// Appends a piece that continues this call.
    pub fn append(&mut self, more: Self) {
        self.id = self.id.take().or(more.id);
        self.name = self.name.take().or(more.name);
        self.arguments.push_str(&more.arguments);
    }

    /// Checks whether the call cannot be run, because the reply was cut off in it. Only the `last` call of a
    /// reply can have been about to get its arguments: an earlier one without any has none.
    fn is_cut_off(&self, is_last: bool) -> bool {
        if self.arguments.is_empty() {
            return is_last;
        }
        // The beginning of an object is never an object, so what parses is complete. Some servers send `{}`
        // first.
        match serde_json::from_str::<Map<String, Value>>(&self.arguments) {
            Ok(arguments) => is_last && arguments.is_empty(),
            Err(_) => true,
        }
    }

    /// Checks whether it starts another call than `call`, whose index it has: some servers give every call of
    /// a reply the same index, and some of these no id.
    fn opens_another_than(&self, call: &Self) -> bool {
        match (visible_text(&call.id), visible_text(&self.id)) {
            (Some(known), Some(new)) => known != new,
            // Without ids, a name after complete arguments starts a new call; otherwise it is a repetition.
            _ => {
                visible_text(&self.name).is_some()
                    && visible_text(&call.name).is_some()
                    && !(self.name == call.name && self.arguments.is_empty())
                    && serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok()
            }
        }
    }
}

/// Returns a text that is not empty.
fn visible_text(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.is_empty())
}

/// The reason a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// The model called tools.
    ToolCalls,
    /// It reached the limit of its output.
    Length,
    /// Prompt and answer together filled the context window before the answer was done.
    Window,
    /// The provider withheld the rest.
    ContentFilter,
    /// Another word of the provider's.
    Other(String),
}

impl FinishReason {
    /// Returns the word for it, in OpenAI's terms if it is one of these.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
            Self::Length => "length",
            Self::Window => "context_window",
            Self::ContentFilter => "content_filter",
            Self::Other(word) => word,
        }
    }

    /// Checks whether the model was stopped during its reply, so that its last call may be incomplete.
    pub const fn is_cut_off(&self) -> bool {
        matches!(self, Self::Length | Self::Window)
    }
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The assistant message. Reasoning is in its metadata, under `reasoning`.
    pub message: Message,
    /// The usage of the call, if the provider reported it.
    pub usage: Option<Usage>,
    /// The reason the model stopped.
    pub finish_reason: FinishReason,
}

impl Reply {
    /// Returns the tools of the calls that were cut off. These calls are not in the message: nothing of them
    /// can be run or answered.
    pub fn cut_calls(&self) -> Vec<ToolName> {
        let names = self.message.metadata.get(CUT_CALLS).and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).filter_map(|name| ToolName::new(name).ok()).collect()
    }
}

/// The key of a message's metadata that names the tools of calls that were cut off.
pub const CUT_CALLS: &str = "cut_calls";

/// A reply under construction, from its pieces.
#[derive(Clone, Debug, Default)]
pub struct ReplyParts {
    content: String,
    reasoning: String,
    calls: Vec<ToolCallPart>,
    usage: Option<Usage>,
    finish_reason: Option<FinishReason>,
    extra: Map<String, Value>,
    metadata: Map<String, Value>,
}

impl ReplyParts {
    /// Takes in the next piece.
    pub fn push(&mut self, piece: ChatCompletionMessage) {
        self.content.push_str(piece.content.as_deref().unwrap_or_default());
        self.reasoning.push_str(piece.reasoning.as_deref().unwrap_or_default());
        for part in piece.tool_calls {
            match part.continues(&self.calls) {
                Some(at) => self.calls[at].append(part),
                None => self.calls.push(part),
            }
        }
        self.usage = piece.usage.or(self.usage);
        self.finish_reason = piece.finish_reason.or(self.finish_reason.take());
        self.extra.extend(piece.extra);
        self.metadata.extend(piece.metadata);
    }

    /// Checks whether the last call has incomplete arguments.
    pub fn ends_in_half_a_call(&self) -> bool {
        self.calls.last().is_some_and(|call| {
            !call.arguments.is_empty() && serde_json::from_str::<Value>(&call.arguments).is_err()
        })
    }

    /// Returns the tokens of the reply, as far as the provider has reported them.
    pub fn completion_tokens(&self) -> Option<Tokens> {
        self.usage.map(|usage| usage.completion_tokens)
    }

    /// Returns the complete parts of a reply that broke off, as a reply: the text so far and every call whose
    /// arguments are a complete JSON object. Returns `None` if no call is complete: half a text alone would
    /// pass for an answer.
    pub fn salvage(mut self) -> Option<Reply> {
        // The beginning of an object is never an object, so what parses is whole.
        self.calls.retain(|call| {
            serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok()
                && call.name.as_ref().is_some_and(|name| !name.is_empty())
        });
        if self.calls.is_empty() {
            return None;
        }
        self.finish_reason = Some(FinishReason::Other(BROKE_OFF.to_owned()));
        self.finish().ok()
    }

    /// Returns the reason the model stopped, once a piece has it.
    pub const fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish_reason.as_ref()
    }

    /// Returns the whole reply, without the calls that were cut off. Thoughts at the beginning of its text
    /// are its reasoning.
    ///
    /// # Errors
    /// [`ProviderError::Truncated`] if no piece ended the reply.
    pub fn finish(self) -> Result<Reply, ProviderError> {
        let finish_reason = self.finish_reason.ok_or(ProviderError::Truncated)?;
        let mut calls: Vec<ToolCall> = Vec::with_capacity(self.calls.len());
        let mut cut_calls = Vec::new();
        let n_calls = self.calls.len();
        for (at, part) in self.calls.into_iter().enumerate() {
            if finish_reason.is_cut_off() && part.is_cut_off(at + 1 == n_calls) {
                cut_calls.push(tool_name(part.name)?);
                continue;
            }
            if is_repeated(&part, &calls) {
                continue;
            }
            let id = unique_id(&part, &calls);
            calls.push(whole_call(part, id)?);
        }
        let (content, reasoning) = (self.content, self.reasoning);
        let (reasoning, content) = match split_thoughts(&content) {
            // A text beside signed reasoning goes back as it came.
            Some((thoughts, said)) if BOUND_REASONING.iter().all(|key| !self.extra.contains_key(*key)) => {
                (reasoning + thoughts, said.to_owned())
            }
            _ => (reasoning, content),
        };
        let content = (!content.is_empty()).then_some(Content::Text(content));
        let mut message = Message::new(Body::Assistant { content, calls });
        message.extra = self.extra;
        message.metadata = self.metadata;
        if !reasoning.is_empty() {
            message.metadata.insert("reasoning".into(), json!(reasoning));
        }
        if !cut_calls.is_empty() {
            message.metadata.insert(CUT_CALLS.into(), json!(cut_calls));
        }
        Ok(Reply { message, usage: self.usage, finish_reason })
    }
}

/// The finish reason of a reply of which only a part arrived.
pub const BROKE_OFF: &str = "broke_off";

/// The name of a tool that the model did not name, or whose call its provider could not read.
pub const UNNAMED_TOOL: &str = "unnamed_tool";

/// Checks whether `part` is one of the `calls` before it again, with its id: some parsers of servers report a
/// call twice, which is to be made once.
fn is_repeated(part: &ToolCallPart, calls: &[ToolCall]) -> bool {
    let Some(id) = visible_text(&part.id) else { return false };
    let arguments = if part.arguments.is_empty() { "{}" } else { &part.arguments };
    calls.iter().any(|call| {
        call.id == id && call.arguments == arguments && part.name.as_deref() == Some(call.name.as_str())
    })
}

/// Returns the id of a call: its own, with a number behind it if a call before it has the same, as servers
/// refuse a history in which two calls of a reply have one id; or a made-up one.
fn unique_id(part: &ToolCallPart, calls: &[ToolCall]) -> String {
    let is_new = |id: &String| calls.iter().all(|call| call.id != *id);
    let found = match visible_text(&part.id) {
        Some(id) => {
            let numbered = (2..).map(|n: usize| format!("{id}_{n}"));
            std::iter::once(id.to_owned()).chain(numbered).find(is_new)
        }
        None => (part.index..).map(|n| format!("call_{n}")).find(is_new),
    };
    found.unwrap_or_default()
}

fn whole_call(part: ToolCallPart, id: String) -> Result<ToolCall, ProviderError> {
    let name = tool_name(part.name)?;
    let arguments = if part.arguments.is_empty() { "{}".to_owned() } else { part.arguments };
    Ok(ToolCall { id, name, arguments })
}

/// Returns the tool that a call names. A call without a name is the model's fault and is reported to it, like
/// the name of an unknown tool.
fn tool_name(name: Option<String>) -> Result<ToolName, ProviderError> {
    let named =
        name.and_then(|name| ToolName::new(name).ok()).map_or_else(|| ToolName::new(UNNAMED_TOOL), Ok);
    named.map_err(|_| ProviderError::Malformed { what: "a tool call names no tool".to_owned() })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn part(index: usize, id: Option<&str>, name: Option<&str>, arguments: &str) -> ToolCallPart {
        ToolCallPart {
            index,
            id: id.map(Into::into),
            name: name.map(Into::into),
            arguments: arguments.into(),
        }
    }

    #[test]
    fn pieces_of_calls_add_up() {
        for (what, parts, expected) in [
            (
                "pieces of two calls by index",
                vec![
                    part(0, Some("a"), Some("read"), "{\"p\":"),
                    part(1, Some("b"), Some("list"), "{}"),
                    part(0, None, None, "1}"),
                ],
                vec![("a", "read", "{\"p\":1}"), ("b", "list", "{}")],
            ),
            (
                "two calls of the same index",
                vec![part(0, Some("a"), Some("read"), "{}"), part(0, Some("b"), Some("list"), "{}")],
                vec![("a", "read", "{}"), ("b", "list", "{}")],
            ),
            (
                "the id again",
                vec![part(0, Some("a"), Some("read"), "{"), part(0, Some("a"), None, "}")],
                vec![("a", "read", "{}")],
            ),
            (
                "two calls of the same index in turns",
                vec![
                    part(0, Some("a"), Some("read"), "{"),
                    part(0, Some("b"), Some("list"), "{"),
                    part(0, Some("a"), None, "}"),
                    part(0, Some("b"), None, "}"),
                ],
                vec![("a", "read", "{}"), ("b", "list", "{}")],
            ),
            (
                "whole calls of the same index without ids",
                vec![part(0, None, Some("read"), "{\"p\":1}"), part(0, None, Some("read"), "{\"p\":2}")],
                vec![("call_0", "read", "{\"p\":1}"), ("call_1", "read", "{\"p\":2}")],
            ),
            (
                "a name that is said with every piece",
                vec![
                    part(0, Some("a"), Some("read"), "{\"p\""),
                    part(0, None, Some("read"), ":1}"),
                    part(0, None, Some("read"), ""),
                ],
                vec![("a", "read", "{\"p\":1}")],
            ),
            (
                "the id of another call",
                vec![part(0, Some("a"), Some("read"), "{}"), part(1, Some("a"), Some("list"), "{}")],
                vec![("a", "read", "{}"), ("a_2", "list", "{}")],
            ),
            ("no id, no arguments", vec![part(3, None, Some("read"), "")], vec![("call_3", "read", "{}")]),
            ("no name", vec![part(0, Some("a"), Some(""), "{}")], vec![("a", "unnamed_tool", "{}")]),
        ] {
            let mut reply = ReplyParts::default();
            for part in parts {
                reply.push(ChatCompletionMessage { tool_calls: vec![part], ..Default::default() });
            }
            reply.push(ChatCompletionMessage {
                finish_reason: Some(FinishReason::ToolCalls),
                ..Default::default()
            });
            let message = reply.finish().unwrap().message;
            let actual: Vec<_> = message
                .calls()
                .iter()
                .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
                .collect();
            assert_eq!(actual, expected, "{what}");
        }
    }

    #[test]
    fn a_call_that_comes_twice_with_its_id_is_made_once() {
        let read = |index: usize, id: &str, arguments: &str| part(index, Some(id), Some("read"), arguments);
        for (what, parts, expected) in [
            ("the same", vec![read(0, "a", "{\"p\":1}"), read(1, "a", "{\"p\":1}")], "a {\"p\":1}"),
            ("without arguments", vec![read(0, "a", ""), read(1, "a", "{}")], "a {}"),
            (
                "other arguments",
                vec![read(0, "a", "{\"p\":1}"), read(1, "a", "{\"p\":2}")],
                "a {\"p\":1}, a_2 {\"p\":2}",
            ),
            ("another id", vec![read(0, "a", "{}"), read(1, "b", "{}")], "a {}, b {}"),
            ("no id", vec![read(0, "", "{}"), read(1, "", "{}")], "call_0 {}, call_1 {}"),
        ] {
            let mut reply = ReplyParts::default();
            let finish_reason = Some(FinishReason::ToolCalls);
            reply.push(ChatCompletionMessage { tool_calls: parts, finish_reason, ..Default::default() });
            let message = reply.finish().unwrap().message;
            let calls = message.calls().iter().map(|call| format!("{} {}", call.id, call.arguments));
            assert_eq!(calls.collect::<Vec<_>>().join(", "), expected, "{what}");
        }
    }

    #[test]
    fn a_call_that_the_output_limit_cut_off_is_no_call() {
        let whole = || part(0, Some("a"), Some("read"), "{\"p\":1}");
        for (what, parts, reason, calls, cut) in [
            (
                "half of its arguments",
                vec![part(0, Some("a"), Some("write"), "{\"p\":")],
                FinishReason::Length,
                "",
                "write",
            ),
            (
                "nothing of its arguments",
                vec![part(0, Some("a"), Some("write"), "")],
                FinishReason::Length,
                "",
                "write",
            ),
            (
                "the empty object of a server",
                vec![part(0, Some("a"), Some("write"), "{}")],
                FinishReason::Length,
                "",
                "write",
            ),
            (
                "a text of the server",
                vec![part(0, Some("a"), Some("write"), "\"{\"")],
                FinishReason::Length,
                "",
                "write",
            ),
            (
                "a complete call and half of another",
                vec![whole(), part(1, Some("b"), Some("write"), "{\"p")],
                FinishReason::Length,
                "a {\"p\":1}",
                "write",
            ),
            (
                "a call without arguments before another",
                vec![part(0, Some("a"), Some("list"), ""), part(1, Some("b"), Some("write"), "{\"p")],
                FinishReason::Length,
                "a {}",
                "write",
            ),
            ("complete calls", vec![whole()], FinishReason::Length, "a {\"p\":1}", ""),
            ("no name yet", vec![part(0, Some("a"), None, "")], FinishReason::Length, "", "unnamed_tool"),
            // A reply that ended normally: faults of its calls are the model's, and reported to it.
            ("no arguments", vec![part(0, Some("a"), Some("list"), "")], FinishReason::ToolCalls, "a {}", ""),
            ("no JSON", vec![part(0, Some("a"), Some("list"), "{\"p")], FinishReason::Stop, "a {\"p", ""),
        ] {
            let mut reply = ReplyParts::default();
            for part in parts {
                reply.push(ChatCompletionMessage { tool_calls: vec![part], ..Default::default() });
            }
            reply.push(ChatCompletionMessage { finish_reason: Some(reason), ..Default::default() });
            let reply = reply.finish().unwrap();
            let (message, cut_calls) = (&reply.message, reply.cut_calls());
            let actual: Vec<_> =
                message.calls().iter().map(|call| format!("{} {}", call.id, call.arguments)).collect();
            let actual_cut: Vec<_> = cut_calls.iter().map(ToolName::as_str).collect();
            assert_eq!((actual.join(", ").as_str(), actual_cut.join(", ").as_str()), (calls, cut), "{what}");
        }
    }

    #[test]
    fn whole_calls_of_a_broken_reply_are_kept() {
        for (what, parts, expected) in [
            ("nothing", vec![], None),
            ("half a call", vec![part(0, Some("a"), Some("read"), "{\"p\":")], None),
            ("a call without arguments yet", vec![part(0, Some("a"), Some("read"), "")], None),
            (
                "one whole call and a half",
                vec![
                    part(0, Some("a"), Some("read"), "{\"p\":"),
                    part(0, None, None, "1}"),
                    part(1, Some("b"), Some("list"), "{\"q"),
                ],
                Some(vec!["a"]),
            ),
        ] {
            let mut reply = ReplyParts::default();
            reply.push(ChatCompletionMessage { content: Some("so".into()), ..Default::default() });
            for part in parts {
                reply.push(ChatCompletionMessage { tool_calls: vec![part], ..Default::default() });
            }
            let kept = reply.salvage();
            let actual = kept
                .as_ref()
                .map(|reply| reply.message.calls().iter().map(|call| call.id.as_str()).collect::<Vec<_>>());
            assert_eq!(actual, expected, "{what}");
            assert!(kept.is_none_or(|reply| reply.message.to_text() == "so"));
        }
    }

    #[test]
    fn what_the_provider_wants_back_goes_with_the_message() {
        let mut reply = ReplyParts::default();
        for n in [1, 2] {
            let extra = Map::from_iter([("signed".to_owned(), json!(n))]);
            let metadata = Map::from_iter([("form".to_owned(), json!(n))]);
            reply.push(ChatCompletionMessage { extra, metadata, ..Default::default() });
        }
        reply.push(ChatCompletionMessage { finish_reason: Some(FinishReason::Stop), ..Default::default() });
        let message = reply.finish().unwrap().message;
        assert_eq!(
            (json!(message.extra), json!(message.metadata)),
            (json!({"signed": 2}), json!({"form": 2}))
        );
    }

    #[test]
    fn thoughts_at_the_beginning_of_a_text_are_reasoning() {
        for (pieces, key, reasoning, text) in [
            (["hm\n</th", "ink>\n\nFour."], "form", Some("hm"), "Four."),
            (["<think>hm", " hm"], "form", Some("hm hm"), ""),
            (["<think>\n\n</think>", "\n\nFour."], "form", None, "Four."),
            (["It says ", "`</think>`."], "form", None, "It says `</think>`."),
            (["<think>hm</think>", "Four."], crate::THINKING_BLOCKS, None, "<think>hm</think>Four."),
        ] {
            let mut reply = ReplyParts::default();
            for piece in pieces {
                reply.push(ChatCompletionMessage { content: Some(piece.into()), ..Default::default() });
            }
            let extra = Map::from_iter([(key.to_owned(), json!([1]))]);
            let finish_reason = Some(FinishReason::Stop);
            reply.push(ChatCompletionMessage { finish_reason, extra, ..Default::default() });
            let message = reply.finish().unwrap().message;
            let actual = message.metadata.get("reasoning").and_then(Value::as_str);
            assert_eq!((actual, message.to_text().as_str()), (reasoning, text), "{pieces:?}");
            assert_eq!(message.content().is_none(), text.is_empty(), "{pieces:?}");
        }
    }

    #[test]
    fn a_reply_without_its_end_is_truncated() {
        let mut reply = ReplyParts::default();
        reply.push(ChatCompletionMessage { content: Some("half".into()), ..Default::default() });
        assert!(matches!(reply.finish(), Err(ProviderError::Truncated)));
    }
}
