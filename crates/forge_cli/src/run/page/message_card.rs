//! A message on a run's page.

use std::collections::HashMap;

use forge_domain::{Body, Content, ContextMessage, EntryId, MessageId, Part, ToolCall, ToolResult, quantity};

use super::escape::escape_html;
use super::markdown::markdown;
use crate::output::with_separators;
use crate::run::tool_line::call_text;

/// Lines of a result that are shown without unfolding it.
const SHOWN_LINES: usize = 12;

/// The compaction in force that took a message out of the view.
pub(super) type Gone = HashMap<MessageId, EntryId>;

/// The place of a message on the page.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    /// Its own, with an anchor that begins with `prefix`.
    Own { gone: &'a Gone, prefix: &'a str },
    /// Below a compaction.
    Unfolded,
}

/// Returns a message with all of its text.
pub(super) fn message_card(message: &ContextMessage, place: Place<'_>) -> String {
    let plain = message.message();
    let id = message.id();
    let label = id.map(|id| id.to_string()).unwrap_or_default();
    let (anchor, left) = match place {
        Place::Own { gone, prefix } => {
            (format!(" id=\"{prefix}{}\"", escape_html(&label)), id.and_then(|id| gone.get(&id)))
        }
        Place::Unfolded => (String::new(), None),
    };
    let left_class = if left.is_some() { " left" } else { "" };
    let left = left.map(|entry| format!(" data-left=\"left the view by {entry}\"")).unwrap_or_default();
    let (class, who) = match &plain.body {
        Body::Tool(result) if result.is_error => ("failed", format!("{} failed", tool_name(result))),
        Body::Tool(result) => ("tool", tool_name(result)),
        Body::User(_) if plain.is_compacted => ("compaction", "record".to_owned()),
        Body::User(_) => {
            ("user", plain.note_by().map_or_else(|| "user".to_owned(), |by| format!("note by {by}")))
        }
        Body::Assistant { .. } => ("assistant", "assistant".to_owned()),
        Body::System(_) => ("system", "system".to_owned()),
    };
    let time = plain.timestamp.map(|time| format!("<span>{time:.0}</span>")).unwrap_or_default();
    let size = quantity(with_separators(message.tokens()), "token");
    let body = match &plain.body {
        Body::System(content) => details("the system message", &content.to_text()),
        Body::User(content) => user_text(content),
        Body::Assistant { content, calls } => {
            let text = content.as_ref().map(Content::to_text).unwrap_or_default();
            markdown(&text) + &calls.iter().map(call_html).collect::<String>()
        }
        Body::Tool(result) => details("the result", &result.content.to_text()),
    };
    format!(
        "<article class=\"{class}{left_class}\"{anchor}><header{left}><b>{}</b><span>{}</span><span>{size}</span>{time}\
         </header>\n{body}</article>\n",
        escape_html(&who),
        escape_html(&label),
    )
}

fn tool_name(result: &ToolResult) -> String {
    result.name.as_ref().map_or_else(|| "tool".to_owned(), ToString::to_string)
}

fn user_text(content: &Content) -> String {
    let media = match content {
        Content::Text(_) => 0,
        Content::Parts(parts) => parts.iter().filter(|part| matches!(part, Part::Media(_))).count(),
    };
    let media = match media {
        0 => String::new(),
        n => format!("<p class=\"url\">[{} that is not text]</p>\n", quantity(n, "part")),
    };
    format!("<div class=\"text\">{}</div>\n{media}", escape_html(&content.to_text()))
}

/// Returns a call with all of its arguments folded away.
fn call_html(call: &ToolCall) -> String {
    format!(
        "<details><summary><b>{}</b></summary><pre>{}</pre></details>\n",
        escape_html(&call_text(call)),
        escape_html(&call.arguments)
    )
}

/// Returns a text that is folded away if it is long.
fn details(what: &str, text: &str) -> String {
    let n_lines = text.lines().count();
    let whole = format!("<pre>{}</pre>", escape_html(text));
    if n_lines <= SHOWN_LINES {
        return whole + "\n";
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let first: String = first.chars().take(120).collect();
    let n_lines = quantity(n_lines, "line");
    format!("<details><summary>{what}, {n_lines}: {}</summary>{whole}</details>\n", escape_html(&first))
}
