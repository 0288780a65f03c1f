//! Histories of OpenHands: the events of its first version, as trajectories and in the results of
//! evaluations, and those of its SDK.

use forge_domain::{Content, Message, Role};
use serde_json::{Map, Value};

use crate::any_blocks::{
    answer, call, chat_messages, content_of, hidden_tokens, messages_of, reply, text_at,
};
use crate::codec::{Effect, EntryFormat, Evidence, Fields, Listing, Trace, Window};
use crate::flat_text::flat_value;
use crate::format::FormatFacts;
use crate::json_text::parse;
use crate::{Record, RecordedCompaction};

/// The author of what OpenHands itself adds.
const BY: &str = "openhands";
/// The kind of the SDK's event of a compaction.
const CONDENSATION_KIND: &str = "Condensation";
/// A part of the text of every event of a compaction: `Condensation`, or `condensation`.
const CONDENSATION: &str = "ondensation";

/// The events of the first version.
pub(super) struct Trajectories;

impl EntryFormat for Trajectories {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "openhands",
        name: "OpenHands trajectories and evaluation outputs",
        description: "[{\"action\" or \"observation\", \"source\"}], or JSONL of {\"history\": [...]}",
        protocol: None,
    };
    const IS_LINES: bool = false;
    const COMPACTION: &'static str = CONDENSATION;
    const FOLDS: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_event = |event: &Fields<'_>| {
            event.has(&["source"]) && (event.contains("action") || event.contains("observation"))
        };
        let is_output = |line: &Fields<'_>| {
            line.has_list("history") && (line.has(&["instruction"]) || line.has(&["instance_id"]))
        };
        evidence.list().first().is_some_and(is_event) || evidence.lines().iter().any(is_output)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        if text.trim_start().starts_with('[') {
            return Listing::of_list(text).map(|listing| vec![listing]);
        }
        let outputs = Listing::lines(text);
        let entries = outputs.entries.into_iter().enumerate();
        let mut listings: Vec<Listing<'_>> =
            entries.map(|(nth, output)| output_listing(nth, output)).collect();
        if let Some(last) = listings.last_mut() {
            last.skipped_lines = outputs.skipped_lines;
        }
        Ok(listings)
    }

    fn messages(event: &Value) -> Vec<Message> {
        match event {
            // Older outputs pair each action with its observation.
            Value::Array(pair) => pair.iter().flat_map(Self::messages).collect(),
            event if event.get("observation").is_some_and(Value::is_string) => observation(event),
            event => action(event),
        }
    }

    fn reply(event: &Value) -> Option<String> {
        Some(text_at(event, "/tool_call_metadata/model_response/id").to_owned()).filter(|id| !id.is_empty())
    }

    fn trace(event: &Value) -> Trace {
        let id = event.get("id").map(flat_value).map(String::into_boxed_str);
        let forgotten =
            if text_at(event, "/action") == "condensation" { forgotten(event) } else { Vec::new() };
        let effect = if forgotten.is_empty() { Effect::None } else { Effect::Forgets(forgotten) };
        Trace { id, effect, ..Trace::default() }
    }

    fn compaction(event: &Value) -> Option<RecordedCompaction> {
        (text_at(event, "/action") == "condensation").then(RecordedCompaction::default)
    }

    fn folded_window(records: &[Record], compactions: &[RecordedCompaction]) -> Window {
        condensed_window(records, compactions, "/args/summary_offset", |event| {
            let kind = ["/action", "/observation"].map(|at| text_at(event, at)).concat();
            let others = ["", "null", "change_agent_state", "agent_state_changed", "condensation"];
            !others.contains(&kind.as_str())
        })
    }
}

/// Returns what the model sees after the last of `condensations`. Its summary stands at the place that it
/// names among the events that count as `is_seen`, and takes the place of earlier summaries.
fn condensed_window(
    records: &[Record],
    condensations: &[RecordedCompaction],
    offset: &str,
    is_seen: fn(&Value) -> bool,
) -> Window {
    let Some((last, earlier)) = condensations.split_last() else { return Window::default() };
    let hidden: Vec<usize> = earlier.iter().map(|earlier| earlier.record).collect();
    let event = |place: usize| parse::<Value>(records[place].raw()).unwrap_or_default();
    let offset = event(last.record).pointer(offset).and_then(Value::as_u64);
    let Some(offset) = offset.and_then(|offset| usize::try_from(offset).ok()) else {
        return Window { hidden, ..Window::default() };
    };
    let places = (0..last.record).filter(|place| !records[*place].is_folded && !hidden.contains(place));
    let mut lead: Vec<usize> = places.filter(|place| is_seen(&event(*place))).take(offset).collect();
    lead.push(last.record);
    Window { lead, start: 0, hidden }
}

fn output_listing(nth: usize, output: &str) -> Listing<'_> {
    let output = Fields::of(output);
    let id = output.text("instance_id");
    let id = if id.is_empty() { format!("line{}", nth + 1) } else { id };
    Listing::of_keys(&output, &["history"]).named(id)
}

/// Returns the ids of the events that a condensation forgot: a list, or the first and the last.
fn forgotten(event: &Value) -> Vec<Box<str>> {
    let number = |key: &str| event.get("args")?.get(key)?.as_u64();
    let listed = event.pointer("/args/forgotten_event_ids").or_else(|| event.get("forgotten_event_ids"));
    let ids = listed.and_then(Value::as_array).into_iter().flatten();
    let ids = ids.map(|id| flat_value(id).into_boxed_str());
    match (number("forgotten_events_start_id"), number("forgotten_events_end_id")) {
        (Some(first), Some(last)) if last.saturating_sub(first) < 1_000_000 => {
            (first..=last).map(|id| id.to_string().into_boxed_str()).collect()
        }
        _ => ids.collect(),
    }
}

fn action(event: &Value) -> Vec<Message> {
    let text = |key: &str| match text_at(event, &format!("/args/{key}")) {
        "" => text_at(event, &format!("/{key}")),
        text => text,
    };
    let said = Value::String(text("content").to_owned());
    let is_users = matches!(text_at(event, "/source"), "user" | "");
    match text_at(event, "/action") {
        "" | "recall" | "change_agent_state" | "condensation_request" | "null" => Vec::new(),
        "system" => messages_of(Role::System, &said),
        "message" => messages_of(if is_users { Role::User } else { Role::Assistant }, &said),
        "condensation" => messages_of(Role::User, &Value::String(text("summary").to_owned()))
            .into_iter()
            .map(Message::compacted)
            .collect(),
        // Nothing answers a `finish`, even if the model called it as a function.
        name @ ("finish" | "think")
            if name == "finish" || event.get("tool_call_metadata").is_none_or(Value::is_null) =>
        {
            let said = ["final_thought", "thought", "message"].map(text);
            let said = said.into_iter().find(|said| !said.is_empty()).unwrap_or_default();
            messages_of(Role::Assistant, &Value::String(said.to_owned()))
        }
        name => {
            let arguments = arguments(event);
            let id = call_id(event, "id");
            let name = match text_at(event, "/tool_call_metadata/function_name") {
                "" => name,
                function => function,
            };
            let thought = Content::Text(text("thought").to_owned());
            reply(thought, vec![call(&id, name, &arguments)], 0).into_iter().collect()
        }
    }
}

/// Returns the id of a call: that of the provider, or the number of the event under `key`.
fn call_id(event: &Value, key: &str) -> String {
    match text_at(event, "/tool_call_metadata/tool_call_id") {
        "" => event.get(key).map(flat_value).unwrap_or_default(),
        id => id.to_owned(),
    }
}

/// Returns the arguments of a call as the model wrote them, or as they were run.
fn arguments(event: &Value) -> Value {
    const FACTS: [&str; 13] = [
        "id",
        "timestamp",
        "source",
        "message",
        "action",
        "thought",
        "args",
        "cause",
        "keep_prompt",
        "is_confirmed",
        "confirmation_state",
        "action_risk",
        "security_risk",
    ];
    let id = text_at(event, "/tool_call_metadata/tool_call_id");
    let calls = event.pointer("/tool_call_metadata/model_response/choices/0/message/tool_calls");
    let calls = calls.and_then(Value::as_array).into_iter().flatten();
    let written =
        calls.filter(|call| text_at(call, "/id") == id).find_map(|call| call.pointer("/function/arguments"));
    let run = event.get("args").unwrap_or(event).as_object().cloned().unwrap_or_default();
    let run: Map<String, Value> = run.into_iter().filter(|(key, _)| !FACTS.contains(&key.as_str())).collect();
    written.cloned().unwrap_or(Value::Object(run))
}

fn observation(event: &Value) -> Vec<Message> {
    let said = event.get("content").unwrap_or(&Value::Null);
    let kind = text_at(event, "/observation");
    let is_answer = event.get("tool_call_metadata").is_some_and(Value::is_object);
    match kind {
        "agent_state_changed" | "null" => Vec::new(),
        "recall" => recalled(event).map(|text| Message::note(BY, text)).into_iter().collect(),
        // It answers no call, such as a reminder to go on.
        "error" | "user_rejected" if !is_answer && event.get("cause").is_none_or(Value::is_null) => {
            vec![Message::note(BY, content_of(said))]
        }
        kind => vec![answer(&call_id(event, "cause"), said, kind == "error")],
    }
}

/// The tags in which OpenHands tells the model of its workspace, each with the facts in it, and the tag
/// around what it knows of a word that the user said.
const WORKSPACE: [(&str, &[&str]); 3] = [
    ("REPOSITORY_INFO", &["repo_name", "repo_directory"]),
    ("REPOSITORY_INSTRUCTIONS", &["repo_instructions", "conversation_instructions"]),
    (
        "RUNTIME_INFORMATION",
        &["runtime_hosts", "additional_agent_instructions", "date", "custom_secrets_descriptions"],
    ),
];
const KNOWLEDGE: &str = "EXTRA_INFO";

/// Returns what a recall tells the model: its content only names it for the user. Returns nothing if there is
/// nothing to tell.
fn recalled(event: &Value) -> Option<String> {
    let told = |(tag, keys): &(&str, &[&str])| {
        let facts = keys.iter().filter_map(|key| event.pointer(&format!("/extras/{key}")));
        let facts = facts.filter(|fact| fact.as_object().is_none_or(|fields| !fields.is_empty()));
        tagged(tag, &facts.map(flat_value).collect::<Vec<_>>())
    };
    let knowledge = event.pointer("/extras/microagent_knowledge").and_then(Value::as_array);
    let knowledge = knowledge.into_iter().flatten();
    let knowledge = knowledge.filter_map(|known| tagged(KNOWLEDGE, &[text_at(known, "/content").to_owned()]));
    let texts: Vec<String> = WORKSPACE.iter().filter_map(told).chain(knowledge).collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

/// Returns texts between tags, a line each; nothing if all are empty.
fn tagged(tag: &str, texts: &[String]) -> Option<String> {
    let texts = texts.iter().map(String::as_str).map(str::trim);
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| format!("<{tag}>\n{}\n</{tag}>", texts.join("\n")))
}

/// The events of the SDK.
pub(super) struct Events;

impl EntryFormat for Events {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "openhands-events",
        name: "OpenHands SDK events",
        description: "a list or JSONL of {\"kind\": \"MessageEvent\", ...}",
        protocol: None,
    };
    const COMPACTION: &'static str = CONDENSATION;
    const FOLDS: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |event: &Fields<'_>| {
            let kind = event.text("kind");
            event.has(&["id", "source"]) && (kind.ends_with("Event") || kind == "Condensation")
        };
        evidence.lines().iter().chain(evidence.list()).any(is_own)
    }

    fn messages(event: &Value) -> Vec<Message> {
        let said = |at: &str| event.pointer(at).unwrap_or(&Value::Null);
        let id = text_at(event, "/tool_call_id");
        match text_at(event, "/kind") {
            "SystemPromptEvent" => messages_of(Role::System, said("/system_prompt")),
            "MessageEvent" => {
                let mut messages = chat_messages(said("/llm_message"));
                let added = messages_of(Role::User, said("/extended_content"));
                messages.extend(added.into_iter().map(|message| message.noted_by(BY)));
                messages
            }
            "ActionEvent" => {
                let made = call(id, text_at(event, "/tool_name"), said("/tool_call/arguments"));
                let hidden = hidden_tokens(&Value::Array(vec![said("/thinking_blocks").clone()]));
                reply(content_of(said("/thought")), vec![made], hidden).into_iter().collect()
            }
            "ObservationEvent" => {
                let is_error = said("/observation/is_error") == &Value::Bool(true);
                let output = match said("/observation/content") {
                    Value::Null => said("/observation"),
                    content => content,
                };
                vec![answer(id, output, is_error)]
            }
            "UserRejectObservation" => vec![answer(id, said("/rejection_reason"), true)],
            "AgentErrorEvent" => vec![answer(id, said("/error"), true)],
            "Condensation" | "CondensationSummaryEvent" => {
                messages_of(Role::User, said("/summary")).into_iter().map(Message::compacted).collect()
            }
            _ => Vec::new(),
        }
    }

    fn reply(event: &Value) -> Option<String> {
        Some(text_at(event, "/llm_response_id").to_owned()).filter(|id| !id.is_empty())
    }

    fn trace(event: &Value) -> Trace {
        let id = event.get("id").and_then(Value::as_str).map(Box::from);
        let forgotten = forgotten(event);
        let effect = if forgotten.is_empty() { Effect::None } else { Effect::Forgets(forgotten) };
        Trace { id, effect, ..Trace::default() }
    }

    fn compaction(event: &Value) -> Option<RecordedCompaction> {
        (text_at(event, "/kind") == CONDENSATION_KIND).then(RecordedCompaction::default)
    }

    fn folded_window(records: &[Record], compactions: &[RecordedCompaction]) -> Window {
        condensed_window(records, compactions, "/summary_offset", |event| {
            const SEEN: [&str; 6] = [
                "SystemPromptEvent",
                "MessageEvent",
                "ActionEvent",
                "ObservationEvent",
                "UserRejectObservation",
                "AgentErrorEvent",
            ];
            SEEN.contains(&text_at(event, "/kind"))
        })
    }
}
