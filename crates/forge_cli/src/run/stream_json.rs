//! The display of a run in the shape of Claude Code's `--output-format`: records that programs written for it
//! can read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forge_app::{CheckpointTally, DeniedCall, Restored, RunEvent, RunReport, StopReason};
use forge_domain::compaction::Outcome;
use forge_domain::{
    Body, Content, Cost, Discretion, Dollars, FinishReason, Message, Mode, Part, THINKING_BLOCKS, Tokens,
    ToolResult, Usage,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::answer_schema::Answer;
use super::view::{Break, RunStart, RunView};
use crate::failure::Exit;
use crate::output;

/// The variable with Anthropic's key.
const ANTHROPIC_KEY: &str = "ANTHROPIC_API_KEY";

/// The extent of what is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// Every record.
    All,
    /// The last record alone.
    Result,
}

/// A writer of records in Claude Code's shape, one JSON object per line.
pub(crate) struct StreamJsonWatcher {
    extent: Extent,
    began: Instant,
    state: Mutex<State>,
}

/// The facts that records need of the events before them.
#[derive(Default)]
struct State {
    session: String,
    model: String,
    window: Tokens,
    usage: Usage,
    stop_reason: &'static str,
    n_records: usize,
    /// The calls of the messages that were written. Those of sub-agents are not among them.
    calls: BTreeSet<String>,
    models: BTreeMap<String, ModelTotals>,
    answer: Option<Answer>,
    /// The time that models took for their replies.
    asked_for: Duration,
    /// The time at which the open request was sent.
    sent: Option<Instant>,
}

impl State {
    /// Counts the time since the request was sent, if one is open.
    fn end_request(&mut self) {
        self.asked_for += self.sent.take().map(|sent| sent.elapsed()).unwrap_or_default();
    }
}

/// The totals of one model.
#[derive(Default)]
struct ModelTotals {
    usage: Usage,
    cost: Cost,
    window: Tokens,
}

impl StreamJsonWatcher {
    /// Creates a writer of every record.
    pub(crate) fn of_all() -> Self {
        Self::new(Extent::All)
    }

    /// Creates a writer of the last record alone.
    pub(crate) fn of_result() -> Self {
        Self::new(Extent::Result)
    }

    fn new(extent: Extent) -> Self {
        Self { extent, began: Instant::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints `record` with the session's id and an id of its own.
    fn print(&self, state: &mut State, mut record: Value) {
        state.n_records += 1;
        record["session_id"] = state.session.as_str().into();
        record["uuid"] = uuid(&state.session, state.n_records, self.began.elapsed()).into();
        if self.extent == Extent::All || record["type"] == "result" {
            output::print_or_note(&format!("{record}\n"));
        }
    }

    fn print_message(&self, message: &Message) {
        let Body::Assistant { content, calls } = &message.body else { return };
        let mut state = self.state();
        state.calls.extend(calls.iter().map(|call| call.id.clone()));
        let thinking = message.extra.get(THINKING_BLOCKS).and_then(Value::as_array);
        let mut blocks: Vec<Value> = thinking.into_iter().flatten().cloned().collect();
        blocks.extend(
            content
                .iter()
                .map(Content::to_text)
                .filter(|text| !text.is_empty())
                .map(|text| text_block(&text)),
        );
        blocks.extend(calls.iter().map(|call| {
            json!({
                "type": "tool_use", "id": call.id, "name": call.name, "input": input(&call.arguments),
            })
        }));
        let record = json!({
            "type": "assistant",
            "message": {
                "id": format!("msg_{}_{}", state.session, state.n_records + 1),
                "type": "message",
                "role": "assistant",
                "model": state.model,
                "content": blocks,
                "stop_reason": state.stop_reason,
                "stop_sequence": null,
                "usage": usage_json(&state.usage),
            },
            "parent_tool_use_id": null,
        });
        self.print(&mut state, record);
    }

    fn print_result(&self, result: &ToolResult) {
        let mut state = self.state();
        if !state.calls.remove(&result.call_id) {
            return;
        }
        let record = json!({
            "type": "user",
            "message": {
                "role": "user",
                "content": [{
                    "type": "tool_result",
                    "tool_use_id": result.call_id,
                    "content": content_json(&result.content),
                    "is_error": result.is_error,
                }],
            },
            "parent_tool_use_id": null,
        });
        self.print(&mut state, record);
    }

    /// Prints the last record.
    fn print_end(&self, subtype: &str, mut record: Value) {
        let mut state = self.state();
        record["type"] = "result".into();
        record["subtype"] = subtype.into();
        record["duration_ms"] = (self.began.elapsed().as_millis() as u64).into();
        state.end_request();
        record["duration_api_ms"] = (state.asked_for.as_millis() as u64).into();
        record["modelUsage"] =
            state.models.iter().map(|(name, totals)| (name.clone(), totals.to_json())).collect();
        if let Some(Ok(value)) = &state.answer {
            record["structured_output"] = value.clone();
        }
        self.print(&mut state, record);
    }
}

impl RunView for StreamJsonWatcher {
    fn show_start(&self, start: &RunStart) {
        let mut state = self.state();
        state.session = start.run.as_ref().map_or_else(|| "unsaved".to_owned(), ToString::to_string);
        let first = start.agents.first();
        state.model =
            first.and_then(|agent| agent.model.as_ref()).map(ToString::to_string).unwrap_or_default();
        let record = json!({
            "type": "system",
            "subtype": "init",
            "cwd": start.folder,
            "model": state.model,
            "tools": first.map(|agent| &agent.tools),
            "mcp_servers": [],
            "permissionMode": permission_mode(&start.discretion),
            "slash_commands": [],
            "agents": start.agents.iter().map(|agent| &agent.id).collect::<Vec<_>>(),
            "skills": [],
            "plugins": [],
            "apiKeySource": key_source(start.key.as_deref()),
            "output_style": "default",
            "forge_version": start.version,
        });
        self.print(&mut state, record);
    }

    fn tell(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Sending(prompt) => {
                let mut state = self.state();
                state.model = prompt.options().model.model.to_string();
                state.window = prompt.window();
                state.end_request();
                state.sent = Some(Instant::now());
            }
            RunEvent::Replied { usage, cost, finish_reason, .. } => {
                let mut state = self.state();
                state.end_request();
                state.usage = usage.unwrap_or_default();
                state.stop_reason = stop_reason(finish_reason);
                let (model, window, usage) = (state.model.clone(), state.window, state.usage);
                let totals = state.models.entry(model).or_default();
                totals.usage += usage;
                totals.cost += *cost;
                totals.window = window;
            }
            RunEvent::Message(message) => self.print_message(message),
            RunEvent::ToolResult(result) => self.print_result(result),
            RunEvent::Fitted { report, .. } if matches!(report.outcome, Outcome::Applied { .. }) => {
                let metadata = json!({"trigger": "auto", "pre_tokens": report.before.tokens});
                let record =
                    json!({"type": "system", "subtype": "compact_boundary", "compact_metadata": metadata});
                self.print(&mut self.state(), record);
            }
            RunEvent::Notice(notice) => output::note(&output::visible_lines(notice)),
            _ => {}
        }
    }

    fn show_resume(&self, _: &Restored, _: bool) {}

    fn show_answer(&self, answer: &Answer) {
        self.state().answer = Some(answer.clone());
    }

    fn show_end(&self, report: &RunReport, _: Option<&CheckpointTally>, exit: Exit) {
        let subtype = match (&report.stop, exit) {
            (_, Exit::Mismatch) => "error_max_structured_output_retries",
            (StopReason::Done, _) => "success",
            (StopReason::MaxIterations(_) | StopReason::MaxTurns(_) | StopReason::MaxEvents(_), _) => {
                "error_max_turns"
            }
            (StopReason::BudgetSpent(_), _) => "error_max_budget_usd",
            _ => "error_during_execution",
        };
        let is_done = subtype == "success";
        let mut cost = report.cost;
        cost += report.summary_cost;
        let mut record = json!({
            "is_error": !is_done,
            "num_turns": report.iterations,
            "result": report.response,
            "stop_reason": self.state().stop_reason,
            "total_cost_usd": dollars(cost),
            "usage": usage_json(&report.usage),
            "permission_denials": denials(&report.denials),
            "exit_code": exit.code(),
        });
        if !is_done {
            let faults = match &self.state().answer {
                Some(Err(faults)) => faults.clone(),
                _ => vec![report.stop.to_string()],
            };
            record["errors"] = faults.into();
        }
        self.print_end(subtype, record);
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, _: &str) {
        let json = why.to_json(checkpoints);
        let (mut usage, mut cost) = (Usage::default(), Cost::default());
        for totals in self.state().models.values() {
            usage += totals.usage;
            cost += totals.cost;
        }
        let record = json!({
            "is_error": true,
            "num_turns": 0,
            "errors": [json["why"]],
            "total_cost_usd": dollars(cost),
            "usage": usage_json(&usage),
            "permission_denials": [],
            "exit_code": json["exit_code"],
        });
        self.print_end("error_during_execution", record);
    }

    fn end(&self) {}
}

impl ModelTotals {
    fn to_json(&self) -> Value {
        let usage = &self.usage;
        json!({
            "inputTokens": uncached(usage),
            "outputTokens": usage.completion_tokens,
            "cacheReadInputTokens": usage.cached_tokens,
            "cacheCreationInputTokens": usage.cache_written_tokens,
            "webSearchRequests": 0,
            "costUSD": dollars(self.cost),
            "contextWindow": self.window,
        })
    }
}

/// Returns the cost; `None` if the price of a call is not known.
fn dollars(cost: Cost) -> Option<Dollars> {
    (cost.unpriced_calls == 0).then_some(cost.dollars)
}

/// Returns Claude Code's word for the mode, or for the consent to everything.
fn permission_mode(discretion: &Discretion) -> &'static str {
    let is_everything = discretion.allowed.tools().any(|tool| tool == "*");
    match discretion.mode {
        Mode::Plan => "plan",
        _ if is_everything => "bypassPermissions",
        Mode::Ask => "default",
        Mode::Edits => "acceptEdits",
        Mode::Auto => "bypassPermissions",
    }
}

/// Returns Claude Code's word for the source of the key; `variable` is the one that holds it.
fn key_source(variable: Option<&str>) -> &'static str {
    match variable {
        Some(ANTHROPIC_KEY) => ANTHROPIC_KEY,
        Some(_) => "user",
        None => "none",
    }
}

/// Returns the calls that were denied.
fn denials(denied: &[DeniedCall]) -> Vec<Value> {
    let denial = |denied: &DeniedCall| {
        json!({
            "tool_name": denied.tool,
            "tool_use_id": denied.call_id,
            "tool_input": input(&denied.arguments),
            "denied_by": denied.by,
        })
    };
    denied.iter().map(denial).collect()
}

/// Returns the arguments of a call; an empty object if they cannot be parsed.
fn input(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| json!({}))
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns a content as the protocol has it in results: one text, or blocks.
fn content_json(content: &Content) -> Value {
    match content {
        Content::Text(text) => text.as_str().into(),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => text_block(text),
                Part::Media(media) => media_block(media),
            })
            .collect(),
    }
}

/// Returns an image in the protocol's form; other media as they are.
fn media_block(media: &Value) -> Value {
    let url = media["image_url"]["url"].as_str().and_then(|url| url.strip_prefix("data:"));
    match url.and_then(|url| url.split_once(";base64,")) {
        Some((kind, data)) => {
            json!({"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}})
        }
        None => media.clone(),
    }
}

/// Returns the prompt tokens that were neither read from the cache nor written to it.
fn uncached(usage: &Usage) -> Tokens {
    usage.prompt_tokens.saturating_sub(usage.cached_tokens).saturating_sub(usage.cache_written_tokens)
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "input_tokens": uncached(usage),
        "cache_creation_input_tokens": usage.cache_written_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
    })
}

/// Returns Anthropic's word for the reason why a reply ended.
const fn stop_reason(reason: &FinishReason) -> &'static str {
    match reason {
        FinishReason::ToolCalls => "tool_use",
        FinishReason::Length | FinishReason::Window => "max_tokens",
        FinishReason::ContentFilter => "refusal",
        FinishReason::Stop | FinishReason::Other(_) => "end_turn",
    }
}

/// Returns the id of a record in the form of a UUID: programs may check that form.
fn uuid(session: &str, n: usize, elapsed: Duration) -> String {
    let digest = Sha256::digest(format!("{session}/{n}/{}/{}", std::process::id(), elapsed.as_nanos()));
    let mut bytes: [u8; 16] = std::array::from_fn(|at| digest[at]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
