//! Sessions of pi and OpenClaw: a tree of entries, one a line, of which the branch of the last entry counts.

use forge_domain::{Body, Content, Message, Part, Role};
use serde_json::Value;

use crate::any_blocks::{answer, messages_of, role_of, text_at};
use crate::codec::{Addition, EntryFormat, Evidence, Fields, Revision, Trace};
use crate::format::FormatFacts;
use crate::{RecordedCompaction, RewriteError};

/// The author of what pi itself adds.
const BY: &str = "pi";

/// The format of pi.
pub(super) struct Pi;

impl EntryFormat for Pi {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "pi",
        name: "pi and OpenClaw sessions",
        description: "JSONL that begins with {\"type\": \"session\", \"cwd\"}",
        protocol: None,
    };
    const COMPACTION: &'static str = "\"compaction\"";

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| {
            let kind = line.text("type");
            (kind == "session" && line.has(&["cwd", "id"]))
                || (kind == "message" && line.has(&["id", "message"]) && line.contains("parentId"))
        };
        evidence.lines().iter().chain(evidence.list()).any(is_own)
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let said = |at: &str| entry.pointer(at).unwrap_or(&Value::Null);
        match text_at(entry, "/type") {
            "message" => entry.get("message").map(role_messages).unwrap_or_default(),
            "compaction" | "branch_summary" => summary(said("/summary")),
            "custom_message" => note(said("/content")),
            _ => Vec::new(),
        }
    }

    fn session_id(entry: &Value) -> Option<String> {
        (text_at(entry, "/type") == "session").then(|| text_at(entry, "/id").to_owned())
    }

    fn write(revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        Err(revision.refuse_rewriting())
    }

    fn append(addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        super::pi_append::lines(addition)
    }

    fn trace(entry: &Value) -> Trace {
        let id = |key: &str| entry.get(key).and_then(Value::as_str).map(Box::from);
        // The first entry has a parent that is null; the header and old versions have none.
        let parent = entry.get("parentId").map(|_| id("parentId").unwrap_or_default());
        Trace { id: id("id").filter(|_| parent.is_some()), parent, ..Trace::default() }
    }

    fn compaction(entry: &Value) -> Option<RecordedCompaction> {
        let kept = entry.get("firstKeptEntryIndex").and_then(Value::as_u64);
        let compaction = RecordedCompaction {
            pre_tokens: entry.get("tokensBefore").and_then(Value::as_u64),
            kept_from: entry.get("firstKeptEntryId").and_then(Value::as_str).map(str::to_owned),
            kept_record: kept.and_then(|kept| usize::try_from(kept).ok()),
            ..RecordedCompaction::default()
        };
        (text_at(entry, "/type") == "compaction").then_some(compaction)
    }
}

fn role_messages(message: &Value) -> Vec<Message> {
    let said = |key: &str| message.get(key).unwrap_or(&Value::Null);
    match text_at(message, "/role") {
        "toolResult" => {
            let is_error = message.get("isError") == Some(&Value::Bool(true));
            vec![answer(text_at(message, "/toolCallId"), said("content"), is_error)]
        }
        "bashExecution" => {
            let (command, output) = (text_at(message, "/command"), text_at(message, "/output"));
            vec![Message::note(BY, format!("Ran `{command}`\n{output}"))]
        }
        "compactionSummary" | "branchSummary" => summary(said("summary")),
        "custom" | "hookMessage" => note(said("content")),
        // pi never sends a reply again that failed or was interrupted.
        "assistant" if matches!(text_at(message, "/stopReason"), "aborted" | "error") => Vec::new(),
        "user" => messages_of(Role::User, said("content")).into_iter().flat_map(with_command).collect(),
        role => role_of(role).map(|role| messages_of(role, said("content"))).unwrap_or_default(),
    }
}

/// The tags around a skill that the user invoked: pi puts it in place of the command.
const SKILL: [&str; 2] = ["<skill name=\"", "\n</skill>"];

/// Splits a message into the command by which the user invoked a skill, and the skill as a note; returns any
/// other message as it is.
fn with_command(message: Message) -> Vec<Message> {
    let Body::User(content) = &message.body else { return vec![message] };
    let (text, others): (&str, &[Part]) = match content {
        Content::Text(text) => (text.as_str(), &[]),
        Content::Parts(parts) => match parts.as_slice() {
            [Part::Text(text), others @ ..] => (text.as_str(), others),
            _ => return vec![message],
        },
    };
    let Some((command, skill)) = invocation(text) else { return vec![message] };
    let said = match others {
        [] => Content::Text(command),
        others => Content::Parts([&[Part::Text(command)][..], others].concat()),
    };
    vec![Message::user(said), Message::note(BY, skill)]
}

/// Returns the command that the user typed, with its arguments, and the skill in its place. That gets an end
/// of line: written as a message of its own and read again, it is no command.
fn invocation(text: &str) -> Option<(String, String)> {
    let (name, _) = text.strip_prefix(SKILL[0])?.split_once('"')?;
    let (skill, rest) = text.split_at(text.find(SKILL[1])? + SKILL[1].len());
    let arguments = if rest.is_empty() { rest } else { rest.strip_prefix("\n\n")?.trim() };
    Some((format!("/skill:{name} {arguments}").trim_end().to_owned(), format!("{skill}\n")))
}

fn summary(said: &Value) -> Vec<Message> {
    messages_of(Role::User, said).into_iter().map(Message::compacted).collect()
}

fn note(said: &Value) -> Vec<Message> {
    messages_of(Role::User, said).into_iter().map(|message| message.noted_by(BY)).collect()
}
