//! A session for another agent: its messages, what cannot come along, and the files of agents that begin with
//! it.

mod claude;
mod codex;
mod new_session;
mod pi;
mod successor;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use forge_domain::compaction::recognize_written;
use forge_domain::{Body, Content, Message, NOTE_BY, Part, Role, ToolCall, ToolName, ToolResult, tool_twin};
use serde_json::Value;

pub use self::new_session::NewSession;
pub use self::successor::Successor;

use crate::agents::SEALED;
use crate::arguments::normal_arguments;
use crate::flat_text::flat_text;
use crate::loss::{Census, Loss, LossKind};
use crate::{Draft, Repair};

/// The author of the notes that are added.
const BY: &str = "forge";
/// The most characters of a tool's name that all providers accept.
const MOST_OF_A_NAME: usize = 64;

/// A session for another agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Handover {
    /// The messages: texts, calls and results, in the form in which any agent can continue with them. What a
    /// harness wrote is still a note, and a summary is still marked.
    pub messages: Vec<Message>,
    /// The parts that cannot come along.
    pub losses: Vec<Loss>,
    /// The tools that were called, each with the number of its calls.
    pub tools: BTreeMap<String, usize>,
}

impl Draft<'_> {
    /// Returns the session for another agent. The calls stay as they were recorded.
    pub fn hand_over(&self) -> Handover {
        let mut census = Census::default();
        let records = &self.session.records;
        self.session.window().places(records.len()).for_each(|place| census.count(records[place].raw()));
        for repair in self.repairs() {
            match repair {
                Repair::MissingResult { .. } => census.add(LossKind::MissingResult),
                Repair::OrphanResult { .. } => census.add(LossKind::OrphanResult),
                Repair::NamedResult { .. } | Repair::MovedResult { .. } | Repair::Form { .. } => {}
            }
        }
        let mut handover = hand_over_messages(self.messages(), census);
        handover.losses.sort_by_key(|loss| loss.kind);
        handover
    }
}

impl Handover {
    /// Returns the messages of a run of Forge for another agent.
    pub fn of_messages(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut census = Census::default();
        let messages: Vec<Message> = messages.into_iter().collect();
        for message in &messages {
            census.count_value(&Value::Object(message.extra.clone()));
        }
        hand_over_messages(messages.into_iter(), census)
    }

    /// Returns a note to the model that continues: the agent before it was called `agent`, and its tools had
    /// other names. `tools` are those of the model; empty if they are unknown.
    pub fn note(&self, agent: &str, tools: &BTreeSet<String>) -> Message {
        let mut text = format!(
            "This conversation began with {agent}, and you continue it. The tool calls of {agent} are history: \
             files may have changed since."
        );
        if tools.is_empty() {
            text += " Your tools may have other names.";
            return Message::note(BY, format!("<system-reminder>\n{text}\n</system-reminder>"));
        }
        let foreign: Vec<&String> = self.tools.keys().filter(|name| !tools.contains(*name)).collect();
        let twin = |name: &str| tool_twin(name).filter(|twin| tools.contains(*twin));
        let twins: Vec<String> =
            foreign.iter().filter_map(|name| Some(format!("{name} → {}", twin(name)?))).collect();
        let others: Vec<&str> =
            foreign.iter().filter(|name| twin(name).is_none()).map(|name| name.as_str()).collect();
        if !twins.is_empty() {
            text += &format!(" Your tools have other names: {}.", twins.join(", "));
        }
        if !others.is_empty() {
            text += &format!(" You do not have these tools: {}.", others.join(", "));
        }
        Message::note(BY, format!("<system-reminder>\n{text}\n</system-reminder>"))
    }
}

fn hand_over_messages(messages: impl Iterator<Item = Message>, mut census: Census) -> Handover {
    let mut carried = Vec::new();
    let mut tools = BTreeMap::new();
    for message in messages {
        if message.role() == Role::System {
            census.add(LossKind::Instructions);
            continue;
        }
        if message.is_compacted && message.to_text() == SEALED {
            census.add(LossKind::SealedSummary);
        }
        for call in message.calls() {
            *tools.entry(call.name.to_string()).or_default() += 1;
        }
        carried.push(carry(&message, &mut census));
    }
    with_unique_ids(&mut carried);
    // Every provider wants the user to speak first.
    if carried.first().is_some_and(|first| first.role() != Role::User) {
        carried.insert(0, Message::note(BY, "[The conversation began before these messages.]"));
    }
    Handover { messages: carried, losses: census.losses(), tools }
}

/// Returns a message without what belongs to its provider.
fn carry(message: &Message, census: &mut Census) -> Message {
    let body = match &message.body {
        Body::System(content) => Body::System(plain(content, census)),
        Body::User(content) => Body::User(plain(content, census)),
        Body::Assistant { content, calls } => Body::Assistant {
            content: content.as_ref().map(|content| plain(content, census)),
            calls: calls.iter().map(|call| carry_call(call, census)).collect(),
        },
        Body::Tool(result) => Body::Tool(ToolResult {
            content: plain(&result.content, census),
            name: result.name.as_ref().map(legal_name),
            ..result.clone()
        }),
    };
    let mut carried =
        Message { timestamp: message.timestamp, is_compacted: message.is_compacted, ..Message::new(body) };
    carried.metadata.extend(message.metadata.get(NOTE_BY).map(|by| (NOTE_BY.to_owned(), by.clone())));
    let is_users = carried.role() == Role::User && !carried.is_compacted;
    if is_users { recognize_written(carried) } else { carried }
}

/// Returns the texts of a content; images and files are named.
fn plain(content: &Content, census: &mut Census) -> Content {
    let Content::Parts(parts) = content else { return content.clone() };
    let plain = parts.iter().map(|part| match part {
        Part::Text(_) => part.clone(),
        Part::Media(value) => Part::Text(census.stand_in(value)),
    });
    Content::Text(flat_text(&Content::Parts(plain.collect())))
}

fn carry_call(call: &ToolCall, census: &mut Census) -> ToolCall {
    let name = legal_name(&call.name);
    if name != call.name {
        census.add(LossKind::ToolName);
    }
    let is_object = call.arguments.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok();
    let arguments = if is_object { call.arguments.clone() } else { normal_arguments(&call.arguments) };
    ToolCall { id: call.id.clone(), name, arguments }
}

/// Returns the name with `_` in place of what some provider refuses.
fn legal_name(name: &ToolName) -> ToolName {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.as_str().chars().all(is_legal) && name.as_str().len() <= MOST_OF_A_NAME {
        return name.clone();
    }
    let legal = name.as_str().chars().take(MOST_OF_A_NAME).map(|c| if is_legal(c) { c } else { '_' });
    ToolName::new(legal.collect::<String>()).unwrap_or_else(|_| name.clone())
}

/// Gives calls ids that are unique in the session and of characters that every provider accepts. Results
/// directly follow their calls.
fn with_unique_ids(messages: &mut [Message]) {
    let mut used: BTreeSet<String> = BTreeSet::new();
    let mut renamed: HashMap<String, String> = HashMap::new();
    for message in messages {
        match &mut message.body {
            Body::Assistant { calls, .. } => {
                renamed.clear();
                for call in calls {
                    let id = unique_id(&call.id, &used);
                    used.insert(id.clone());
                    renamed.insert(std::mem::replace(&mut call.id, id.clone()), id);
                }
            }
            Body::Tool(result) => {
                if let Some(id) = renamed.get(&result.call_id) {
                    result.call_id.clone_from(id);
                }
            }
            Body::System(_) | Body::User(_) => {}
        }
    }
}

fn unique_id(id: &str, used: &BTreeSet<String>) -> String {
    const MOST_OF_AN_ID: usize = 40;
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let legal: String = id.chars().take(MOST_OF_AN_ID).map(|c| if is_legal(c) { c } else { '_' }).collect();
    if !legal.is_empty() && !used.contains(&legal) {
        return legal;
    }
    let stem: String = legal.chars().take(MOST_OF_AN_ID - 8).collect();
    (2..).map(|n| format!("{stem}_{n}")).find(|id| !used.contains(id)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::read::read;

    /// A session of Codex with thinking, an image, a hosted tool, a call without a result, and ids used
    /// twice.
    fn session() -> String {
        let line = |kind: &str, payload: Value| {
            json!({"timestamp": "2026-01-01T00:00:00Z", "type": kind, "payload": payload}).to_string()
        };
        let item = |payload: Value| line("response_item", payload);
        let said = |role: &str, kind: &str, text: &str| {
            item(json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]}))
        };
        [
            line("session_meta", json!({"id": "s", "cwd": "/w", "base_instructions": {"text": "You are Codex."}})),
            said("user", "input_text", "<environment_context>x</environment_context>"),
            item(json!({"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "Fix it."},
                {"type": "input_image", "image_url": "data:image/png;base64,aaaa"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aaaa"}]})),
            item(json!({"type": "reasoning", "summary": [], "encrypted_content": "sealed"})),
            item(json!({"type": "web_search_call", "action": {"query": "q"}})),
            item(json!({"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\": \"ls\"}", "call_id": "c|1"})),
            item(json!({"type": "function_call_output", "call_id": "c|1", "output": "a.rs"})),
            item(json!({"type": "function_call", "name": "ns.look", "arguments": "{half", "call_id": "c|1"})),
            said("assistant", "output_text", "Done."),
        ]
        .join("\n")
    }

    fn handover(text: &str) -> Handover {
        let session = read(text.as_bytes(), "f").unwrap().remove(0);
        Draft::open(&session, 0).hand_over()
    }

    #[test]
    fn what_cannot_come_along_is_listed() {
        let handover = handover(&session());
        let told: Vec<(LossKind, usize)> =
            handover.losses.iter().map(|loss| (loss.kind, loss.count)).collect();
        let expected = [
            (LossKind::Thinking, 1),
            (LossKind::Image, 1),
            (LossKind::File, 1),
            (LossKind::HostedTool, 1),
            (LossKind::Instructions, 1),
            (LossKind::MissingResult, 1),
            (LossKind::ToolName, 1),
        ];
        assert_eq!(told, expected);
        assert!(handover.messages.iter().all(|message| message.extra.is_empty()));
        assert_eq!(handover.messages[1].to_text(), "Fix it.\n[image]\n[file]");
        assert_eq!(handover.messages[0].note_by(), Some("harness"));
        let tools: Vec<&str> = handover.tools.keys().map(String::as_str).collect();
        assert_eq!(tools, ["exec_command", "ns.look"]);
    }

    #[test]
    fn calls_stay_calls_with_ids_of_their_own() {
        let handover = handover(&session());
        let calls: Vec<(&str, &str, &str)> = handover
            .messages
            .iter()
            .flat_map(Message::calls)
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        let expected =
            [("c_1", "exec_command", "{\"cmd\": \"ls\"}"), ("c_1_2", "ns_look", "{\"input\":\"{half\"}")];
        assert_eq!(calls, expected);
        let answered: Vec<&str> = handover
            .messages
            .iter()
            .filter_map(|message| match &message.body {
                Body::Tool(result) => Some(result.call_id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(answered, ["c_1", "c_1_2"]);
    }

    #[test]
    fn a_note_names_the_twins_of_tools() {
        let own = BTreeSet::from(["shell".to_owned(), "read".to_owned()]);
        let text = handover(&session()).note("Codex", &own).to_text();
        assert!(text.contains("exec_command → shell") && text.contains("do not have these tools: ns.look"));
    }

    fn new_session(messages: &[Message]) -> NewSession<'_> {
        NewSession {
            id: "11111111-2222-4333-8444-555555555555".to_owned(),
            folder: "/home/ada/w".to_owned(),
            now: "2026-02-03T04:05:06.789Z".parse().unwrap(),
            model: None,
            messages,
        }
    }

    #[test]
    fn a_note_is_no_word_of_the_user_for_any_agent() {
        let messages =
            [Message::user("Fix it."), Message::note("hook", "It is noon."), Message::assistant("Done.")];
        for successor in Successor::ALL {
            let bytes = successor.write(&new_session(&messages)).unwrap();
            let session = read(&bytes, "f").unwrap().remove(0);
            let read: Vec<Message> = Draft::open(&session, 0).messages().collect();
            let turns: Vec<bool> = read.iter().map(Message::starts_turn).collect();
            assert_eq!(turns, [true, false, false], "{successor:?}");
            assert!(read[1].to_text().contains("It is noon."), "{successor:?}");
        }
    }

    #[test]
    fn a_file_of_each_agent_holds_the_same_calls() {
        let handover = handover(&session());
        let calls = |messages: &[Message]| -> Vec<(String, Value)> {
            let calls = messages.iter().flat_map(Message::calls);
            calls
                .map(|call| (call.name.to_string(), serde_json::from_str(&call.arguments).unwrap()))
                .collect()
        };
        for successor in Successor::ALL {
            let new = new_session(&handover.messages);
            let bytes = successor.write(&new).unwrap();
            let read = read(&bytes, "f").unwrap().remove(0);
            assert_eq!((read.id.as_str(), read.skipped_lines), (new.id.as_str(), 0), "{successor:?}");
            let draft = Draft::open(&read, 0);
            assert_eq!(draft.repairs(), [], "{successor:?}");
            let again = draft.hand_over();
            assert_eq!(calls(&again.messages), calls(&handover.messages), "{successor:?}");
            let texts = |messages: &[Message]| messages.iter().map(Message::to_text).collect::<Vec<_>>();
            assert_eq!(texts(&again.messages), texts(&handover.messages), "{successor:?}");
            assert_eq!(again.losses, [], "{successor:?}");
        }
    }
}
