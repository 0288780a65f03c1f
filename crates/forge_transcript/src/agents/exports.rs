//! Exports of goose, spans of OpenTelemetry, and the interchange format ATIF.

use forge_domain::compaction::recognize_written;
use forge_domain::{Body, Content, Message, NOTE_BY, Role};
use serde_json::{Value, json};

use crate::any_blocks::{answer, call, content_of, hidden_tokens, messages_of, reply, role_of, text_at};
use crate::codec::{Effect, EntryFormat, Evidence, Fields, Listing, Revision, Trace};
use crate::format::FormatFacts;
use crate::splice::list;
use crate::tools::openai_tools;
use crate::{RecordedCompaction, RewriteError, json_text};

/// The author of what an agent itself adds.
const BY: &str = "agent";

/// Exported sessions of goose.
pub(super) struct Goose;

impl EntryFormat for Goose {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "goose",
        name: "goose sessions",
        description: "{\"working_dir\", \"conversation\": [...]}",
        protocol: None,
    };
    const IS_LINES: bool = false;
    const COMPACTION: &'static str = "\"userVisible\"";
    const FOLDS: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.document().is_some_and(|file| file.has_list("conversation") && file.has(&["working_dir"]))
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        Ok(vec![Listing::of_keys(&file, &["conversation"]).named(file.text("id"))])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let Some(role) = role_of(text_at(entry, "/role")) else { return Vec::new() };
        let messages = messages_of(role, entry.get("content").unwrap_or(&Value::Null)).into_iter();
        let is_made = Self::is_summary(entry);
        messages.map(|message| if is_made { message.compacted() } else { message }).collect()
    }

    /// Returns the mark of a message that only the user still sees.
    fn trace(entry: &Value) -> Trace {
        Trace { is_folded: is_invisible(entry, "agentVisible"), ..Trace::default() }
    }

    fn compaction(entry: &Value) -> Option<RecordedCompaction> {
        let is_first = text_at(entry, "/role") == "user" && Self::is_summary(entry);
        is_first.then(RecordedCompaction::default)
    }

    /// Checks whether a message is for the model alone, as summaries are.
    fn is_summary(entry: &Value) -> bool {
        is_invisible(entry, "userVisible") && !is_invisible(entry, "agentVisible")
    }
}

fn is_invisible(entry: &Value, key: &str) -> bool {
    entry.get("metadata").and_then(|metadata| metadata.get(key)) == Some(&Value::Bool(false))
}

/// Spans of OpenTelemetry with the messages of a model's call as attributes.
pub(super) struct Spans;

impl EntryFormat for Spans {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "otel",
        name: "OpenTelemetry GenAI spans",
        description: "{\"resourceSpans\": [...]} with gen_ai.input.messages",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |file: &Fields<'_>| file.has_list("resourceSpans");
        evidence.lines().first().is_some_and(is_own) && evidence.text.contains("gen_ai.input.messages")
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let mut spans = Listing::lines(text);
        let files = if spans.skipped_lines > 0 { vec![text] } else { std::mem::take(&mut spans.entries) };
        let mut listing = Listing::default();
        for file in files {
            for resource in Fields::of(file).items("resourceSpans") {
                for scope in Fields::of(resource.get()).items("scopeSpans") {
                    listing.entries.extend(Listing::of_keys(&Fields::of(scope.get()), &["spans"]).entries);
                }
            }
        }
        Ok(vec![listing])
    }

    fn messages(span: &Value) -> Vec<Message> {
        let keys = ["gen_ai.system_instructions", "gen_ai.input.messages", "gen_ai.output.messages"];
        let lists = keys.into_iter().map(|key| (key, attribute(span, key)));
        let mut messages = Vec::new();
        for (key, list) in lists {
            if key == "gen_ai.system_instructions" {
                messages.extend(messages_of(Role::System, &list));
                continue;
            }
            for message in list.as_array().into_iter().flatten() {
                let parts = message.get("parts").or_else(|| message.get("content")).unwrap_or(&Value::Null);
                let role = role_of(text_at(message, "/role"));
                messages.extend(role.map(|role| messages_of(role, parts)).unwrap_or_default());
            }
        }
        messages
    }

    /// Returns the effect of a call: each has the whole conversation, so the last one counts.
    fn trace(span: &Value) -> Trace {
        let has_messages = attribute(span, "gen_ai.input.messages").is_array();
        let effect = if has_messages { Effect::Resets } else { Effect::None };
        Trace { effect, ..Trace::default() }
    }
}

/// Returns the value of an attribute, which is JSON in a text; null if there is none.
fn attribute(span: &Value, key: &str) -> Value {
    let attributes = span.get("attributes").and_then(Value::as_array).into_iter().flatten();
    let found = attributes.into_iter().find(|attribute| text_at(attribute, "/key") == key);
    let text = found.map(|found| text_at(found, "/value/stringValue")).unwrap_or_default();
    json_text::parse(text).unwrap_or_default()
}

/// The Agent Trajectory Interchange Format of Harbor.
pub(super) struct Atif;

impl EntryFormat for Atif {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "atif",
        name: "ATIF trajectories",
        description: "{\"schema_version\": \"ATIF-...\", \"steps\": [...]}",
        protocol: None,
    };
    const IS_LINES: bool = false;
    const IS_TARGET: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own =
            |file: &Fields<'_>| file.text("schema_version").starts_with("ATIF") && file.has_list("steps");
        evidence.document().is_some_and(is_own)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        Ok(vec![Listing::of_keys(&file, &["steps"]).named(file.text("session_id"))])
    }

    fn messages(step: &Value) -> Vec<Message> {
        let said = step.get("message").unwrap_or(&Value::Null);
        let results = step.pointer("/observation/results").and_then(Value::as_array).into_iter().flatten();
        let results: Vec<Message> = results
            .map(|result| {
                let content = result.get("content").unwrap_or(&Value::Null);
                match text_at(result, "/source_call_id") {
                    // It answers no call, such as the state of a terminal.
                    "" => Message::note(BY, content_of(content)),
                    id => answer(id, content, false),
                }
            })
            .collect();
        let mut messages = match text_at(step, "/source") {
            "system" => messages_of(Role::System, said),
            "user" => messages_of(Role::User, said),
            _ => {
                let calls = step.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
                let calls = calls.map(|made| {
                    let arguments = made.get("arguments").unwrap_or(&Value::Null);
                    call(text_at(made, "/tool_call_id"), text_at(made, "/function_name"), arguments)
                });
                let hidden = hidden_tokens(&json!({"text": step.get("reasoning_content")}));
                reply(content_of(said), calls.collect(), hidden).into_iter().collect()
            }
        };
        messages = messages.into_iter().map(|message| by_its_author(step, message)).collect();
        messages.extend(results);
        messages
    }

    /// Writes the messages as steps; the results of calls belong to the step that made them.
    fn write(revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        let mut steps: Vec<Value> = Vec::new();
        for line in &revision.lines {
            let message = line.message();
            if let (Body::Tool(result), Some(step)) = (&message.body, steps.last_mut()) {
                let said = json!({"source_call_id": result.call_id, "content": message.to_text()});
                match step.pointer_mut("/observation/results").and_then(Value::as_array_mut) {
                    Some(results) => results.push(said),
                    None => step["observation"] = json!({"results": [said]}),
                }
                continue;
            }
            steps.push(step(steps.len() + 1, &message));
        }
        let steps: Vec<String> = steps.iter().map(Value::to_string).collect();
        let mut agent = json!({"name": "forge", "version": env!("CARGO_PKG_VERSION")});
        if let Some(tools) = revision.tools() {
            agent["tool_definitions"] = openai_tools(&tools);
        }
        let head = json!({"schema_version": "ATIF-v1.5", "session_id": revision.session.id, "agent": agent});
        let head = head.to_string();
        let head = head.trim_end_matches('}');
        // The head's last value is an object, whose brace was cut off as well.
        Ok(format!("{head}}},\"steps\":{}}}\n", list(&steps)).into_bytes())
    }
}

/// The key of a step's `extra` for a message that stands for earlier ones.
const IS_COMPACTED: &str = "is_compacted";

/// Returns the message marked as a note or a compaction's, if its step says so. The name of a note's author
/// is not taken from a file: Forge's own notes have a meaning.
fn by_its_author(step: &Value, message: Message) -> Message {
    let extra = |key: &str| step.get("extra").and_then(|extra| extra.get(key));
    if extra(NOTE_BY).is_some_and(Value::is_string) && message.role() == Role::User {
        return message.noted_by(BY);
    }
    let is_compacted = extra(IS_COMPACTED) == Some(&Value::Bool(true));
    if is_compacted { recognize_written(message.compacted()) } else { message }
}

fn step(number: usize, message: &Message) -> Value {
    let source = match message.role() {
        Role::System => "system",
        Role::User | Role::Tool => "user",
        Role::Assistant => "agent",
    };
    let text = message.content().map(Content::to_text).unwrap_or_default();
    let mut step = json!({"step_id": number, "source": source, "message": text});
    if let Some(at) = message.timestamp {
        step["timestamp"] = json!(at);
    }
    let calls: Vec<Value> = message
        .calls()
        .iter()
        .map(|call| {
            let arguments: Value = json_text::parse(&call.arguments).unwrap_or_else(|_| json!({}));
            json!({"tool_call_id": call.id, "function_name": call.name, "arguments": arguments})
        })
        .collect();
    if !calls.is_empty() {
        step["tool_calls"] = Value::Array(calls);
    }
    if let Some(by) = message.note_by() {
        step["extra"] = json!({NOTE_BY: by});
    } else if message.is_compacted {
        step["extra"] = json!({IS_COMPACTED: true});
    }
    step
}
