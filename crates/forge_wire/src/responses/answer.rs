//! A model's reply: a complete response, or the events of a stream that form one.

use std::collections::BTreeMap;

use forge_domain::{ChatCompletionMessage, FinishReason, Tokens, ToolCallPart, Usage};
use serde_json::Value;

use super::form;
use super::item::{call, drop_probabilities, is_message, text, texts, thoughts, without_notes};
use super::message::assistant;
use crate::error_body::{error_of, refused};
use crate::{Protocol, StreamEvent, WireError};

/// The separator between two parts of a reasoning.
const BETWEEN: &str = "\n\n";

/// Reads the body of a complete, unstreamed reply as one piece.
///
/// # Errors
/// [`WireError::Refused`] if the body is an error under a good status, or a response that failed;
/// [`WireError::Json`] and [`WireError::Shape`] if it is not a response.
pub fn read_answer(body: &[u8]) -> Result<ChatCompletionMessage, WireError> {
    let answer: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = refused(&answer) {
        return Err(WireError::refused(refused));
    }
    WireError::foreign(&answer, Protocol::Responses)?;
    if !answer.get("output").is_some_and(Value::is_array) {
        return Err(WireError::shape("output", "must be a list of items"));
    }
    let mut piece = ResponsesReplyReader::default().end(&answer);
    // A complete reply has ended, whether or not the server reports it.
    piece.finish_reason.get_or_insert(FinishReason::Stop);
    Ok(piece)
}

/// A reader of the events of one stream, in order. It collects the items, which the server wants back as they
/// came.
#[derive(Debug, Default)]
pub struct ResponsesReplyReader {
    /// Items by their place in the output. Their ids differ from event to event on some servers.
    items: BTreeMap<u64, Gathered>,
    n_calls: usize,
    /// True after the response has ended: whatever follows belongs to another one.
    is_over: bool,
}

/// An item on its way.
#[derive(Debug, Default)]
struct Gathered {
    item: Value,
    is_done: bool,
    /// The index of the call in the reply.
    call: Option<usize>,
    /// The text or the arguments that were passed on.
    said: String,
    /// The reasoning that was passed on.
    thought: String,
    /// The part to which the last piece of the reasoning belongs.
    part: Option<(bool, u64)>,
}

impl ResponsesReplyReader {
    /// Reads the data of one server-sent event. Its own `type` decides; the event's name is not needed.
    ///
    /// # Errors
    /// [`WireError::Refused`] if the event is the server's error; [`WireError::Json`] and
    /// [`WireError::Shape`] if it is not an event of this protocol.
    pub fn read(&mut self, data: &str) -> Result<StreamEvent, WireError> {
        if self.is_over || data.trim() == "[DONE]" {
            return Ok(StreamEvent::Done);
        }
        let event: Value = serde_json::from_str(data).map_err(WireError::json)?;
        if !event.is_object() {
            return Err(WireError::shape("event", "must be an object"));
        }
        if let Some(refused) = refused(&event) {
            return Err(WireError::refused(refused));
        }
        WireError::foreign(&event, Protocol::Responses)?;
        let at = self.place(&event);
        let delta = || text(&event, "delta");
        let mut piece = ChatCompletionMessage::default();
        match text(&event, "type") {
            "response.output_item.added" => self.begin(at, &event["item"], &mut piece),
            "response.output_text.delta" | "response.refusal.delta" => {
                self.items.entry(at).or_default().say(delta(), &mut piece);
            }
            "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta" => {
                self.items.entry(at).or_default().argue(delta(), &mut piece);
            }
            "response.reasoning_summary_text.delta" => {
                let part = (false, event["summary_index"].as_u64().unwrap_or_default());
                self.items.entry(at).or_default().think(part, delta(), &mut piece);
            }
            "response.reasoning_text.delta" => {
                let part = (true, event["content_index"].as_u64().unwrap_or_default());
                self.items.entry(at).or_default().think(part, delta(), &mut piece);
            }
            "response.output_item.done" => {
                self.finish(at, &event["item"], &mut piece);
                self.keep(&mut piece);
            }
            "response.completed" | "response.incomplete" | "response.cancelled" => {
                self.is_over = true;
                piece = self.end(&event["response"]);
            }
            "response.failed" => return Err(WireError::refused(error_of(&event))),
            // Texts once more, states, tools that the server runs, and anything added to the protocol.
            _ => {}
        }
        Ok(StreamEvent::Piece(piece))
    }

    /// Returns the place of the item that `event` is about.
    fn place(&self, event: &Value) -> u64 {
        let of_id = || {
            let id = event.get("item_id")?.as_str()?;
            self.items.iter().find(|(_, known)| text(&known.item, "id") == id).map(|(at, _)| *at)
        };
        let last = || self.items.keys().next_back().copied();
        event.get("output_index").and_then(Value::as_u64).or_else(of_id).or_else(last).unwrap_or_default()
    }

    /// Returns the place of an item that the end repeats at `at`: servers leave out items there, and some
    /// give them other ids.
    fn place_at_end(&self, at: u64, item: &Value) -> u64 {
        let is_same = |known: &Value| {
            ["call_id", "id"]
                .iter()
                .any(|key| !text(item, key).is_empty() && text(item, key) == text(known, key))
        };
        let same = self.items.iter().find(|(_, known)| is_same(&known.item)).map(|(at, _)| *at);
        let is_of_kind =
            |known: &Gathered| known.item.is_null() || text(&known.item, "type") == text(item, "type");
        let here = || self.items.get(&at).filter(|known| is_of_kind(known)).map(|_| at);
        same.or_else(here).unwrap_or_else(|| self.items.keys().next_back().map_or(0, |last| last + 1))
    }

    fn begin(&mut self, at: u64, item: &Value, piece: &mut ChatCompletionMessage) {
        let gathered = self.items.entry(at).or_default();
        gathered.item = item.clone();
        if let Some(call) = call(item).filter(|_| gathered.call.is_none()) {
            let index = self.n_calls;
            self.n_calls += 1;
            gathered.call = Some(index);
            let id = Some(call.id).filter(|id| !id.is_empty());
            let opening =
                ToolCallPart { index, id, name: Some(call.name.to_string()), arguments: String::new() };
            piece.tool_calls.push(opening);
        }
    }

    /// Takes in a whole item, and passes on what was not yet passed on of it.
    fn finish(&mut self, at: u64, item: &Value, piece: &mut ChatCompletionMessage) {
        if !item.is_object() || self.items.get(&at).is_some_and(|known| known.is_done) {
            return;
        }
        self.begin(at, item, piece);
        let Some(gathered) = self.items.get_mut(&at) else { return };
        gathered.is_done = true;
        drop_probabilities(&mut gathered.item);
        if is_message(item) {
            let rest = rest(&texts(item).concat(), &gathered.said);
            gathered.say(&rest, piece);
        } else if let Some(call) = call(item) {
            let rest = rest(&call.arguments, &gathered.said);
            gathered.argue(&rest, piece);
        } else {
            let rest = rest(&thoughts(item).join(BETWEEN), &gathered.thought);
            let part = gathered.part.unwrap_or_default();
            gathered.think(part, &rest, piece);
        }
    }

    /// Reads the response at its end.
    fn end(&mut self, response: &Value) -> ChatCompletionMessage {
        let mut piece = ChatCompletionMessage::default();
        for (at, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            self.finish(self.place_at_end(at as u64, item), item, &mut piece);
        }
        self.keep(&mut piece);
        piece.model = response.get("model").and_then(Value::as_str).map(str::to_owned);
        piece.usage = usage(&response["usage"]);
        piece.finish_reason = Some(self.finish_reason(response));
        piece
    }

    /// Keeps the items so far with the message, as far as it alone could not give them again.
    fn keep(&self, piece: &mut ChatCompletionMessage) {
        let items: Vec<Value> =
            self.items.values().filter(|known| known.is_done).map(|known| known.item.clone()).collect();
        let mut message = assistant(&items);
        form::keep(&mut message, &items, |items, plain| {
            items.iter().map(without_notes).collect::<Vec<_>>() == plain
        });
        piece.extra = message.extra;
        piece.metadata = message.metadata;
    }

    fn finish_reason(&self, response: &Value) -> FinishReason {
        let reason = response.pointer("/incomplete_details/reason").and_then(Value::as_str);
        match (text(response, "status"), reason) {
            ("incomplete", Some("max_output_tokens") | None) => FinishReason::Length,
            ("incomplete", Some("content_filter")) => FinishReason::ContentFilter,
            ("incomplete", Some(reason)) => FinishReason::Other(reason.to_owned()),
            ("cancelled", _) => FinishReason::Other("cancelled".to_owned()),
            _ if self.n_calls > 0 => FinishReason::ToolCalls,
            _ => FinishReason::Stop,
        }
    }
}

impl Gathered {
    fn say(&mut self, more: &str, piece: &mut ChatCompletionMessage) {
        self.said.push_str(more);
        push(&mut piece.content, more);
    }

    fn argue(&mut self, more: &str, piece: &mut ChatCompletionMessage) {
        let Some(index) = self.call.filter(|_| !more.is_empty()) else { return };
        self.said.push_str(more);
        match piece.tool_calls.iter_mut().find(|call| call.index == index) {
            Some(call) => call.arguments.push_str(more),
            None => piece.tool_calls.push(ToolCallPart {
                index,
                arguments: more.to_owned(),
                ..ToolCallPart::default()
            }),
        }
    }

    fn think(&mut self, part: (bool, u64), more: &str, piece: &mut ChatCompletionMessage) {
        if more.is_empty() {
            return;
        }
        if self.part.is_some_and(|last| last != part) {
            self.thought.push_str(BETWEEN);
            push(&mut piece.reasoning, BETWEEN);
        }
        self.part = Some(part);
        self.thought.push_str(more);
        push(&mut piece.reasoning, more);
    }
}

fn push(text: &mut Option<String>, more: &str) {
    if !more.is_empty() {
        text.get_or_insert_default().push_str(more);
    }
}

/// Returns what `whole` has after `said`; nothing if it begins otherwise, as it was passed on already.
fn rest(whole: &str, said: &str) -> String {
    whole.strip_prefix(said).unwrap_or_default().to_owned()
}

/// Returns the usage of a call. Reasoning is part of the reply.
fn usage(usage: &Value) -> Option<Usage> {
    let tokens = |place: &str| usage.pointer(place).and_then(Value::as_u64).map(Tokens::new);
    Some(Usage {
        prompt_tokens: tokens("/input_tokens")?,
        completion_tokens: tokens("/output_tokens").unwrap_or(Tokens::ZERO),
        cached_tokens: tokens("/input_tokens_details/cached_tokens").unwrap_or(Tokens::ZERO),
        cache_written_tokens: tokens("/input_tokens_details/cache_write_tokens").unwrap_or(Tokens::ZERO),
        dropped_reasoning: 0,
    })
}

#[cfg(test)]
mod tests {
    use forge_domain::{REASONING_ITEMS, Reply, ReplyParts};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::message_items;
    use super::*;

    fn reply(events: &[Value]) -> Result<Reply, String> {
        let (mut reader, mut parts) = (ResponsesReplyReader::default(), ReplyParts::default());
        for event in events {
            match reader.read(&event.to_string()).map_err(|error| error.to_string())? {
                StreamEvent::Piece(piece) => parts.push(piece),
                StreamEvent::Done => break,
            }
        }
        parts.finish().map_err(|error| error.to_string())
    }

    fn done_event(at: u64, item: &Value) -> Value {
        json!({"type": "response.output_item.done", "output_index": at, "item": item})
    }

    fn end_event(status: &str, reason: &Value, output: &[Value]) -> Value {
        json!({"type": format!("response.{status}"), "response": {"object": "response", "status": status,
            "model": "gpt-x", "incomplete_details": reason, "output": output, "error": null,
            "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
                "output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 16}}})
    }

    fn words(at: u64, kind: &str, delta: &str) -> Value {
        json!({"type": format!("response.{kind}.delta"), "output_index": at, "delta": delta})
    }

    fn begin_event(at: u64, item: &Value) -> Value {
        json!({"type": "response.output_item.added", "output_index": at, "item": item})
    }

    #[test]
    fn the_items_of_a_stream_are_a_message_and_sent_back_in_their_order() {
        let thought = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "AA==",
            "summary": [{"type": "summary_text", "text": "I look"}, {"type": "summary_text", "text": "twice"}]});
        let comment = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "phase": "commentary", "content": [{"type": "output_text", "text": "Reading ü.", "annotations": []}]});
        let search = json!({"id": "ws_1", "type": "web_search_call", "action": {"query": "q"}});
        let read = json!({"id": "fc_1", "type": "function_call", "status": "completed", "namespace": "files",
            "call_id": "c1", "name": "read", "arguments": "{\"path\": \"a\"}"});
        let patch = json!({"id": "ct_1", "type": "custom_tool_call", "call_id": "c2", "name": "patch",
            "input": "*** Begin"});
        let items = [thought.clone(), comment.clone(), search.clone(), read.clone(), patch.clone()];
        let streamed = [
            json!({"type": "response.created", "response": {"status": "in_progress", "error": null}}),
            begin_event(0, &json!({"id": "rs_1", "type": "reasoning", "summary": []})),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0,
                "delta": "I look"}),
            json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1,
                "delta": "twi"}),
            done_event(0, &thought),
            begin_event(1, &json!({"id": "other", "type": "message", "role": "assistant", "content": []})),
            words(1, "output_text", "Read"),
            words(1, "output_text", "ing"),
            done_event(1, &comment),
            done_event(2, &search),
            begin_event(
                3,
                &json!({"type": "function_call", "call_id": "c1", "name": "read", "arguments": ""}),
            ),
            // Parallel calls may alternate.
            begin_event(
                4,
                &json!({"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": ""}),
            ),
            words(3, "function_call_arguments", "{\"path\""),
            words(4, "custom_tool_call_input", "*** Be"),
            words(3, "function_call_arguments", ": \"a\"}"),
            done_event(3, &read),
            done_event(4, &patch),
            end_event("completed", &Value::Null, &items),
        ];
        let at_once = [end_event("completed", &Value::Null, &items)];
        let whole = {
            let mut parts = ReplyParts::default();
            parts.push(read_answer(at_once[0]["response"].to_string().as_bytes()).unwrap());
            parts.finish().unwrap()
        };
        for reply in [reply(&streamed).unwrap(), reply(&at_once).unwrap(), whole] {
            let message = &reply.message;
            let calls: Vec<_> = message.calls().iter().map(|call| (&*call.id, &*call.arguments)).collect();
            assert_eq!(calls, [("c1", "{\"path\": \"a\"}"), ("c2", "*** Begin")]);
            assert_eq!(message.to_text(), "Reading ü.");
            assert_eq!(message.metadata["reasoning"], json!("I look\n\ntwice"));
            assert_eq!(message.extra[REASONING_ITEMS], json!([thought]));
            assert_eq!(message_items(message), items);
            assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
            let usage = reply.usage.unwrap();
            let figures = [
                usage.prompt_tokens,
                usage.completion_tokens,
                usage.cached_tokens,
                usage.cache_written_tokens,
            ];
            assert_eq!(figures.map(Tokens::as_u64), [9, 7, 4, 2]);
            // Without its reasoning it has no ids either: a server would demand what led to them.
            let mut bare = message.clone();
            bare.extra.clear();
            let mut expected = items[1..].to_vec();
            for item in [0, 2, 3] {
                expected[item].as_object_mut().unwrap().shift_remove("id");
            }
            assert_eq!(message_items(&bare), expected);
        }
    }

    #[test]
    fn a_reply_with_nothing_special_about_it_is_plain() {
        let message = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": "hi", "annotations": [], "logprobs": [{"token": "hi"}]}]});
        let call = json!({"id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1",
            "name": "read", "arguments": "{}"});
        let reply = reply(&[end_event("completed", &Value::Null, &[message, call])]).unwrap();
        assert_eq!((reply.message.metadata.len(), reply.message.extra.len()), (0, 0));
        let expected = json!([{"role": "assistant", "content": "hi"},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}]);
        assert_eq!(json!(message_items(&reply.message)), expected);
    }

    #[test]
    fn a_reply_ends_in_one_of_many_ways() {
        let refusal = json!({"type": "message", "role": "assistant",
            "content": [{"type": "refusal", "refusal": "I will not."}]});
        let half = json!({"type": "function_call", "call_id": "c1", "name": "read", "status": "incomplete",
            "arguments": "{\"pa"});
        let reason = |reason: &str| json!({"reason": reason});
        for (events, expected) in [
            (vec![end_event("completed", &Value::Null, std::slice::from_ref(&refusal))], "stop: I will not."),
            (
                vec![words(0, "refusal", "I will"), end_event("completed", &Value::Null, &[refusal])],
                "stop: I will not.",
            ),
            (vec![end_event("incomplete", &reason("max_output_tokens"), &[half])], "length:  without read"),
            (vec![end_event("incomplete", &reason("content_filter"), &[])], "content_filter: "),
            (vec![end_event("incomplete", &reason("max_tool_calls"), &[])], "max_tool_calls: "),
            (vec![end_event("cancelled", &Value::Null, &[])], "cancelled: "),
            (vec![words(0, "output_text", "half")], "the reply was interrupted before its end"),
            (
                vec![json!({"type": "error", "code": "server_error", "message": "Broken.", "param": null})],
                "the server answers with an error: Broken.",
            ),
            (
                vec![json!({"type": "error", "error": {"code": "rate_limit_exceeded", "message": "Slow."}})],
                "the server answers with an error: Slow.",
            ),
            (
                vec![json!({"type": "response.failed", "response": {"status": "failed", "output": [],
                    "error": {"code": "context_length_exceeded", "message": "Too long."}}})],
                "the server answers with an error: Too long.",
            ),
        ] {
            let actual = match reply(&events) {
                Err(error) => error,
                Ok(reply) => {
                    let cut: String =
                        reply.cut_calls().iter().map(|name| format!(" without {name}")).collect();
                    format!("{}: {}{cut}", reply.finish_reason.as_str(), reply.message.to_text())
                }
            };
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_stream_that_breaks_off_after_a_call_keeps_its_reasoning() {
        let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AA=="});
        let call = json!({"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"});
        let (mut reader, mut parts) = (ResponsesReplyReader::default(), ReplyParts::default());
        for event in [done_event(0, &thought), done_event(1, &call)] {
            let StreamEvent::Piece(piece) = reader.read(&event.to_string()).unwrap() else {
                panic!("{event}")
            };
            parts.push(piece);
        }
        assert_eq!(message_items(&parts.salvage().unwrap().message), [thought, call]);
    }

    #[test]
    fn what_is_no_event_is_told() {
        for (data, expected) in [
            ("[1]", "`event` must be an object"),
            ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
            (r#"{"choices": []}"#, "it is an answer in OpenAI's chat protocol"),
        ] {
            assert_eq!(
                ResponsesReplyReader::default().read(data).unwrap_err().to_string(),
                expected,
                "{data}"
            );
        }
        let answer = r#"{"object": "response", "status": "queued"}"#;
        assert_eq!(
            read_answer(answer.as_bytes()).unwrap_err().to_string(),
            "`output` must be a list of items"
        );
    }
}
