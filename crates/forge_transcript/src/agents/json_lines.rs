//! Files with a message, a conversation or a request of chat completions on each line.

use forge_wire::Protocol;

use crate::codec::{Evidence, Fields, Listing};
use crate::foreign::is_role;
use crate::format::FormatFacts;
use crate::openai::{MessageLists, NamedList};
use crate::request_tools;

/// The format of such files.
pub(super) const JSON_LINES: MessageLists = MessageLists {
    facts: &FormatFacts {
        id: "openai-lines",
        name: "OpenAI messages in lines",
        description: "JSONL of messages, of {\"messages\"} or of {\"custom_id\", \"body\"}",
        protocol: Some(Protocol::OpenAi),
    },
    detect,
    keeps_form: false,
    lists,
};

fn detect(evidence: &Evidence<'_>) -> bool {
    let is_own = |line: &Fields<'_>| {
        let has_words = ["content", "tool_calls", "function_call"].iter().any(|key| line.contains(key));
        let is_message = is_role(&line.text("role")) && has_words && !line.contains("parts");
        is_message || line.has_list("messages") || has_body(line)
    };
    // A line that is not valid has no fields.
    let is_read = |line: &&Fields<'_>| !line.0.is_empty() && !is_header(line) && !is_mark(line);
    let first = evidence.lines().iter().find(is_read);
    evidence.document().is_none() && first.is_some_and(is_own)
}

/// Checks for the line about the whole session that some agents, such as nanobot, write before its messages.
fn is_header(line: &Fields<'_>) -> bool {
    line.text("_type") == "metadata" && !line.contains("role")
}

/// Checks for a line that Kimi CLI writes between its messages: a place to go back to, or a count of tokens.
fn is_mark(line: &Fields<'_>) -> bool {
    matches!(line.text("role").as_str(), "_checkpoint" | "_usage")
}

fn has_body(line: &Fields<'_>) -> bool {
    line.has(&["custom_id"]) && Fields::of(line.get("body")).has_list("messages")
}

fn lists(text: &str) -> Result<Vec<NamedList<'_>>, serde_json::Error> {
    let header = text.lines().next().filter(|line| is_header(&Fields::of(line)));
    let text = header.map_or(text, |header| text[header.len()..].trim_start());
    let Listing { mut entries, skipped_lines, .. } = Listing::lines(text);
    entries.retain(|line| !line.contains("\"_") || !is_mark(&Fields::of(line)));
    let first = entries.first().map(|first| Fields::of(first)).unwrap_or_default();
    if !first.has_list("messages") && !has_body(&first) {
        return Ok(vec![NamedList::of_lines(text, &entries, skipped_lines)?]);
    }
    let lists = entries.into_iter().enumerate().map(|(n, line)| conversation(n, line));
    lists.map(|list| list.map(|list| list.skipping(skipped_lines))).collect()
}

fn conversation(n: usize, line: &str) -> Result<NamedList<'_>, serde_json::Error> {
    let fields = Fields::of(line);
    let text = if fields.has_list("messages") { line } else { fields.get("body") };
    let body = Fields::of(text);
    let messages = if body.has_list("messages") { body.get("messages") } else { "[]" };
    let list =
        NamedList::of(Some(format!("line{}", n + 1)), format!("messages of line {}", n + 1), messages)?;
    Ok(list.with_tools(request_tools(text.as_bytes())))
}
