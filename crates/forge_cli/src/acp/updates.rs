//! Everything that a session tells its editor: the agent's words, its tool calls, and its window.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use forge_domain::compaction::Outcome;
use forge_domain::{Body, Cost, Message, TaskStep, Tokens, ToolCall, ToolResult, Unanswered};
use serde_json::{Value, json};

use super::connection::Connection;
use super::plan;
use crate::failure::Exit;
use crate::output::exact;
use crate::run::{Break, RunView, call_text, change};

/// The lines of a running command that are shown, and the least time between two updates of them.
const OUTPUT_LINES: usize = 20;
const OUTPUT_PAUSE: Duration = Duration::from_millis(100);

/// The abilities of the editor that change what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct EditorAbilities {
    /// True if it shows compactions.
    pub(super) compactions: bool,
    /// True if it shows notices.
    pub(super) notices: bool,
    /// True if it can read the text of its open files.
    pub(super) reads_files: bool,
    /// True if it can write files.
    pub(super) writes_files: bool,
    /// True if commands can run in its terminals.
    pub(super) terminals: bool,
}

impl EditorAbilities {
    /// Reads the capabilities of `initialize`.
    pub(super) fn of(capabilities: &Value) -> Self {
        let has = |pointer: &str| {
            capabilities.pointer(pointer).is_some_and(|value| *value != json!(false) && !value.is_null())
        };
        Self {
            compactions: has("/session/compaction"),
            notices: has("/session/notices"),
            reads_files: has("/fs/readTextFile"),
            writes_files: has("/fs/writeTextFile"),
            terminals: has("/terminal"),
        }
    }
}

/// The updates of one session.
pub(super) struct Updates {
    connection: Arc<Connection>,
    abilities: EditorAbilities,
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The session's id; `None` until the editor knows it.
    session: Option<String>,
    /// Updates that wait for the id.
    waiting: Vec<Value>,
    /// The number of calls until now, and the ids of the current ones by those of the provider, which are
    /// unique only within a message.
    n_calls: usize,
    calls: HashMap<String, String>,
    /// The commands that run.
    commands: Vec<RunningCommand>,
    /// The steps that were shown last.
    steps: Vec<TaskStep>,
    n_compactions: usize,
    /// True while the last of them is in progress.
    is_compacting: bool,
    cost: Cost,
    window: Tokens,
}

/// A command that runs, and what it printed last.
struct RunningCommand {
    /// The provider's id of the call.
    call: String,
    line: String,
    is_in_terminal: bool,
    printed: VecDeque<String>,
    /// The time when its output was sent.
    sent: Option<Instant>,
}

impl Updates {
    pub(super) fn new(connection: Arc<Connection>, abilities: EditorAbilities, folder: PathBuf) -> Self {
        Self { connection, abilities, folder, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends what waited for the session's id, and everything later at once.
    pub(super) fn begin(&self, session: &str) {
        let waiting = {
            let mut state = self.state();
            state.session = Some(session.to_owned());
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(|update| self.send(update));
    }

    /// Returns the session's id; empty until the editor knows it.
    pub(super) fn session(&self) -> String {
        self.state().session.clone().unwrap_or_default()
    }

    /// Sends an update.
    pub(super) fn send(&self, update: Value) {
        let session = {
            let mut state = self.state();
            match &state.session {
                Some(session) => session.clone(),
                None => {
                    state.waiting.push(update);
                    return;
                }
            }
        };
        self.connection.notify("session/update", &json!({"sessionId": session, "update": update}));
    }

    /// Sends a text of the agent.
    pub(super) fn say(&self, text: &str) {
        self.send(json!({"sessionUpdate": "agent_message_chunk", "content": text_block(text)}));
    }

    /// Sends a note of Forge's own.
    pub(super) fn note(&self, text: &str) {
        if self.abilities.notices {
            self.send(json!({"sessionUpdate": "notice", "severity": "info", "title": text}));
        } else {
            let content = text_block(&format!("{text}\n"));
            self.send(json!({"sessionUpdate": "agent_thought_chunk", "content": content}));
        }
    }

    /// Asks the user for one of `options`, and returns its id; `None` if the question was withdrawn.
    ///
    /// # Errors
    /// Fails if the editor cannot ask.
    pub(super) async fn choose(&self, call: &Value, options: &[Value]) -> Result<Option<String>, Unanswered> {
        let options: Vec<Value> = options.iter().map(readable).collect();
        let params = json!({"sessionId": self.session(), "toolCall": readable(call), "options": options});
        let answer = self.connection.request("session/request_permission", &params).await;
        let outcome = answer.map_err(|_| Unanswered::Nobody)?["outcome"].clone();
        Ok(outcome["optionId"].as_str().map(str::to_owned).filter(|_| outcome["outcome"] == "selected"))
    }

    /// Shows these steps as the plan.
    pub(super) fn show_steps(&self, steps: Vec<TaskStep>) {
        self.send(plan::update(&steps));
        self.state().steps = steps;
    }

    /// Returns the steps that were shown last.
    pub(super) fn steps(&self) -> Vec<TaskStep> {
        self.state().steps.clone()
    }

    /// Shows the terminal in which a command runs.
    pub(super) fn show_terminal(&self, line: &str, terminal: &str) {
        let call = {
            let mut state = self.state();
            let mut commands = state.commands.iter_mut();
            let command = commands.find(|command| command.line == line && !command.is_in_terminal);
            command.map(|command| {
                command.is_in_terminal = true;
                command.call.clone()
            })
        };
        if let Some(call) = call {
            let content = json!([{"type": "terminal", "terminalId": terminal}]);
            self.send(json!({
                "sessionUpdate": "tool_call_update", "toolCallId": self.call_id(&call), "content": content,
            }));
        }
    }

    /// Shows the last lines of a command that runs, a few times a second.
    fn show_output(&self, call: &ToolCall, line: &str) {
        let text = {
            let mut state = self.state();
            let Some(command) = state.commands.iter_mut().find(|command| command.call == call.id) else {
                return;
            };
            command.printed.push_back(line.to_owned());
            if command.printed.len() > OUTPUT_LINES {
                command.printed.pop_front();
            }
            if command.sent.is_some_and(|sent| sent.elapsed() < OUTPUT_PAUSE) {
                return;
            }
            command.sent = Some(Instant::now());
            command.printed.iter().map(|line| format!("{line}\n")).collect::<String>()
        };
        self.send(json!({
            "sessionUpdate": "tool_call_update", "toolCallId": self.call_id(&call.id), "status": "in_progress",
            "content": [{"type": "content", "content": text_block(&text)}],
        }));
    }

    /// Returns the editor's form of a call, without its status.
    pub(super) fn call_json(&self, call: &ToolCall) -> Value {
        let arguments: Value =
            serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!(call.arguments));
        let path = arguments["path"].as_str().map(|path| self.folder.join(path));
        let line = arguments["offset"].as_u64();
        let locations: Vec<Value> = path.iter().map(|path| json!({"path": path, "line": line})).collect();
        let mut json = json!({
            "toolCallId": self.call_id(&call.id),
            "title": exact(&call_text(call)),
            "kind": kind(call.name.as_str()),
            "rawInput": arguments,
        });
        if !locations.is_empty() && matches!(kind(call.name.as_str()), "read" | "edit") {
            json["locations"] = locations.into();
        }
        if let Some(path) = path {
            let diffs = diffs(call.name.as_str(), &path, &arguments);
            if !diffs.is_empty() {
                json["content"] = diffs.into();
            }
        }
        json
    }

    /// Returns the diff of a change to a file.
    pub(super) fn diff(&self, change: &forge_domain::FileChange) -> Value {
        let path = self.folder.join(&change.path);
        json!({"type": "diff", "path": path, "oldText": change.before, "newText": change.after})
    }

    /// Returns the id under which the editor knows a call.
    fn call_id(&self, theirs: &str) -> String {
        let mut state = self.state();
        if let Some(known) = state.calls.get(theirs) {
            return known.clone();
        }
        state.n_calls += 1;
        let id = format!("call_{}", state.n_calls);
        state.calls.insert(theirs.to_owned(), id.clone());
        id
    }

    fn show_call(&self, call: &ToolCall, status: &str) {
        if call.name.as_str() == TaskStep::TOOL
            && let Some(steps) = TaskStep::of_call(&call.arguments)
        {
            self.show_steps(steps);
            return;
        }
        if kind(call.name.as_str()) == "execute" {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            self.state().commands.push(RunningCommand {
                call: call.id.clone(),
                line: arguments["command"].as_str().unwrap_or_default().to_owned(),
                is_in_terminal: false,
                printed: VecDeque::new(),
                sent: None,
            });
        }
        let mut update = self.call_json(call);
        update["sessionUpdate"] = "tool_call".into();
        update["status"] = status.into();
        self.send(update);
    }

    /// Shows that a call starts, unless it is shown as the plan.
    fn show_begin(&self, call: &ToolCall) {
        if call.name.as_str() != TaskStep::TOOL || TaskStep::of_call(&call.arguments).is_none() {
            let id = self.call_id(&call.id);
            self.send(json!({
                "sessionUpdate": "tool_call_update", "toolCallId": id, "status": "in_progress",
            }));
        }
    }

    fn show_result(&self, result: &ToolResult) {
        // The plan is shown already.
        if result.name.as_ref().is_some_and(|name| name.as_str() == TaskStep::TOOL) && !result.is_error {
            return;
        }
        let id = self.call_id(&result.call_id);
        let is_in_terminal = {
            let mut state = self.state();
            state.calls.remove(&result.call_id);
            let ended = state.commands.iter().position(|command| command.call == result.call_id);
            ended.is_some_and(|at| state.commands.swap_remove(at).is_in_terminal)
        };
        let status = if result.is_error { "failed" } else { "completed" };
        let text = result.content.to_text();
        let is_edit = result.name.as_ref().is_some_and(|name| kind(name.as_str()) == "edit");
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": id, "status": status, "rawOutput": {"text": text},
        });
        // The diff of an edit stays to be seen, and so does a terminal; the text says no more.
        if !is_in_terminal && (!is_edit || result.is_error) {
            update["content"] = json!([{"type": "content", "content": text_block(&text)}]);
        }
        self.send(update);
    }

    /// Sends a message of the past.
    pub(super) fn replay(&self, message: &Message) {
        match &message.body {
            Body::User(content) if message.note_by().is_none() => {
                let content = text_block(&content.to_text());
                self.send(json!({"sessionUpdate": "user_message_chunk", "content": content}));
            }
            Body::Assistant { content, calls } => {
                let text = content.as_ref().map(forge_domain::Content::to_text).unwrap_or_default();
                if !text.is_empty() {
                    self.say(&text);
                }
                calls.iter().for_each(|call| self.show_call(call, "in_progress"));
            }
            Body::Tool(result) => self.show_result(result),
            Body::System(_) | Body::User(_) => {}
        }
    }

    fn show_compaction(&self, status: &str, summary: Option<&str>) {
        let mut state = self.state();
        let begins = status == "in_progress";
        let was_compacting = std::mem::replace(&mut state.is_compacting, begins);
        if begins {
            state.n_compactions += 1;
        } else if !was_compacting {
            return;
        }
        let id = format!("compaction_{}", state.n_compactions);
        drop(state);
        let mut update = json!({"sessionUpdate": "compaction_update", "compactionId": id, "status": status});
        if let Some(summary) = summary {
            update["summary"] = json!([text_block(summary)]);
        }
        self.send(update);
    }
}

impl RunView for Updates {
    fn tell(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Text(text) => self.say(text),
            RunEvent::Reasoning(text) if !text.is_empty() => {
                self.send(json!({"sessionUpdate": "agent_thought_chunk", "content": text_block(text)}));
            }
            RunEvent::Restarted { why } => {
                self.say(&format!("\n\n[The reply broke off ({why}) and starts again:]\n\n"));
            }
            RunEvent::ToolCall(call) => self.show_call(call, "pending"),
            RunEvent::ToolStarted(call) => self.show_begin(call),
            RunEvent::ToolResult(result) => self.show_result(result),
            RunEvent::ToolOutput { call, line } => self.show_output(call, line),
            RunEvent::Compacting { .. } if self.abilities.compactions => {
                self.show_compaction("in_progress", None);
            }
            RunEvent::Fitted { report, .. } => {
                let is_applied = matches!(report.outcome, Outcome::Applied { .. });
                let text = format!("compacted: {}", change(report.before, report.after));
                match (self.abilities.compactions, is_applied) {
                    (true, true) => self.show_compaction("completed", Some(&text)),
                    (true, false) => self.show_compaction("failed", None),
                    (false, true) => self.note(&text),
                    (false, false) => {}
                }
            }
            RunEvent::Sending(prompt) => self.state().window = prompt.window(),
            RunEvent::Replied { usage: Some(usage), cost, .. } => {
                let (window, cost) = {
                    let mut state = self.state();
                    state.cost += *cost;
                    (state.window, state.cost)
                };
                let used = usage.prompt_tokens + usage.completion_tokens;
                let mut update = json!({"sessionUpdate": "usage_update", "used": used, "size": window});
                // A part of the cost would pass for the whole.
                if cost.unpriced_calls == 0 {
                    update["cost"] = json!({"amount": cost.dollars, "currency": "USD"});
                }
                self.send(update);
            }
            RunEvent::Notice(notice) => self.note(notice),
            RunEvent::HookDenied { hook, reason, .. } => {
                self.note(&format!("denied by the hook `{hook}`: {reason}"));
            }
            RunEvent::HookFailed { hook, error } => self.note(&format!("the hook `{hook}` failed: {error}")),
            RunEvent::CheckpointFailed(error) => self.note(&format!("not saved: {error}")),
            _ => {}
        }
    }

    fn show_resume(&self, _: &Restored, _: bool) {}

    fn show_end(&self, _: &RunReport, _: Option<&CheckpointTally>, _: Exit) {}

    fn show_break(&self, _: &Break<'_>, _: Option<&CheckpointTally>, _: &str) {}

    fn end(&self) {}
}

/// Returns a text as a block of content.
pub(super) fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns the value with the hidden characters of all its texts escaped: editors show them as they are.
fn readable(value: &Value) -> Value {
    match value {
        Value::String(text) => readable_text(text).into(),
        Value::Array(items) => items.iter().map(readable).collect(),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (readable_text(name), readable(value))).collect()
        }
        other => other.clone(),
    }
}

/// Returns the text with its hidden characters escaped, except ends of lines and tabs.
fn readable_text(text: &str) -> String {
    let line = |line: &str| {
        let (line, end) = line.strip_suffix('\r').map_or((line, ""), |line| (line, "\r"));
        line.split('\t').map(exact).collect::<Vec<_>>().join("\t") + end
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the text as a block of code in Markdown, which nothing in it can end.
pub(super) fn fenced(text: &str) -> String {
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

/// Returns the protocol's word for what a tool does.
fn kind(tool: &str) -> &'static str {
    match tool {
        "read" | "list" | "recall" => "read",
        "search" => "search",
        "write" | "patch" => "edit",
        "shell" => "execute",
        "fetch" | "web_search" => "fetch",
        _ => "other",
    }
}

/// Returns the changes that a call of an editing tool names.
fn diffs(tool: &str, path: &std::path::Path, arguments: &Value) -> Vec<Value> {
    let diff =
        |old: &Value, new: &Value| json!({"type": "diff", "path": path, "oldText": old, "newText": new});
    match tool {
        "write" => vec![diff(&Value::Null, &arguments["content"])],
        "patch" => {
            let edits = arguments["edits"].as_array().into_iter().flatten();
            edits.map(|edit| diff(&edit["old_text"], &edit["new_text"])).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_permission_shows_hidden_characters() {
        let call =
            json!({"title": "Shell(ls\u{202e}\u{200b})", "rawInput": {"n": 1, "a\u{1b}": ["b\r\n\tc\u{7}"]}});
        let expected = json!({"title": "Shell(ls\\u{202e}\\u{200b})", "rawInput": {"n": 1, "a\\u{1b}": ["b\r\n\tc\\u{7}"]}});
        assert_eq!(readable(&call), expected);
    }

    #[test]
    fn no_text_ends_its_block_of_code() {
        for (text, expected) in [("ls `x`", "```\nls `x`\n```"), ("```\nYes", "````\n```\nYes\n````")] {
            assert_eq!(fenced(text), expected);
        }
    }
}
