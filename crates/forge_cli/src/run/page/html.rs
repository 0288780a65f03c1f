//! The HTML of a run's page.

use std::collections::HashMap;
use std::fmt::Write as _;

use forge_app::{CheckpointReport, CompactionLayer, LayerState, report, title};
use forge_domain::{
    Body, Checkpoint, CompactionEntry, Content, ContextMessage, Conversation, Entry, EntryId, MessageId,
    Part, Replacement, RunId, Spent, Tokens, ToolCall, ToolResult, quantity,
};

use super::escape::escape_html;
use super::markdown::markdown;
use crate::output::with_separators;
use crate::run::tool_line::call_text;

const STYLE: &str = include_str!("../../../../../templates/export.css");
/// The line of a page that says who wrote it.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"forge\">";
/// Lines of a result that are shown without unfolding it.
const SHOWN_LINES: usize = 12;

/// Returns the page of a run, from the latest checkpoint of each of its agents.
pub(super) fn page(run: &RunId, agents: &[Checkpoint]) -> String {
    let name = agents.iter().find_map(|agent| title(&agent.snapshot.conversation));
    let name = escape_html(&name.unwrap_or_else(|| run.to_string()));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n{GENERATOR}\n<title>{name}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>{name}</h1>\n"
    );
    page += &facts(run, agents);
    for agent in agents {
        if agents.len() > 1 {
            let _ = writeln!(page, "<h2>{}</h2>", escape_html(agent.info.agent.as_str()));
        }
        page += &conversation(agent);
    }
    page + "</body>\n</html>\n"
}

/// Returns the figures of the run.
fn facts(run: &RunId, agents: &[Checkpoint]) -> String {
    let of_configuration = |key: &str| {
        let value = agents.iter().find_map(|agent| agent.snapshot.configuration.0.get(key)?.as_str());
        value.map(str::to_owned)
    };
    let n_messages: usize = agents.iter().map(|agent| agent.snapshot.conversation.messages().count()).sum();
    let n_compactions: usize = agents.iter().map(|agent| agent.snapshot.conversation.n_compactions()).sum();
    let mut spent = Spent::default();
    agents.iter().for_each(|agent| spent += agent.snapshot.progress.spent);
    let last = agents.iter().map(|agent| agent.info.created_at).max();
    let rows = [
        ("run", Some(run.to_string())),
        ("folder", of_configuration("folder")),
        ("model", of_configuration("model")),
        ("saved", last.map(|last| format!("{last:.0}"))),
        ("messages", Some(format!("{n_messages}, {}", quantity(n_compactions, "compaction")))),
        ("spent", Some(format!("{} tokens, {}", with_separators(spent.tokens), spent.cost))),
    ];
    let rows = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let rows: String =
        rows.map(|(name, value)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape_html(&value))).collect();
    format!("<dl>\n{rows}</dl>\n")
}

/// The compaction in force that took a message out of the view.
type Gone = HashMap<MessageId, EntryId>;

/// Returns the whole conversation of an agent, with its compactions where they happened.
fn conversation(agent: &Checkpoint) -> String {
    let log = &agent.snapshot.conversation;
    let CheckpointReport { compactions: layers, .. } = report(agent);
    let mut gone = Gone::new();
    for entry in log.live_entries() {
        let left = entry.replacements().iter().flat_map(|replacement| &replacement.replaces);
        gone.extend(left.map(|id| (*id, entry.id())));
    }
    let mut html = String::new();
    for entry in log.entries() {
        html += &match entry {
            Entry::Message(message) => message_card(message, &gone, Place::Own),
            Entry::Compaction(entry) => {
                let layer = layers.iter().find(|layer| layer.id == entry.id().to_string());
                compaction_card(entry, layer, log)
            }
            Entry::Undo(id) => format!(
                "<article class=\"compaction\"><header><b>undone</b><span>compaction {id}: what it replaced is \
                 in the view again</span></header></article>\n"
            ),
        };
    }
    html
}

/// The place of a message on the page.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Its own.
    Own,
    /// Below a compaction.
    Unfolded,
}

fn message_card(message: &ContextMessage, gone: &Gone, place: Place) -> String {
    let plain = message.message();
    let id = message.id();
    let label = id.map(|id| id.to_string()).unwrap_or_default();
    let anchor = match place {
        Place::Own => format!(" id=\"{}\"", escape_html(&label)),
        Place::Unfolded => String::new(),
    };
    let left = id.and_then(|id| gone.get(&id)).filter(|_| place == Place::Own);
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

/// Returns a compaction, which unfolds into what replaced and what was replaced.
fn compaction_card(entry: &CompactionEntry, layer: Option<&CompactionLayer>, log: &Conversation) -> String {
    let sizes = layer.map(|layer| {
        format!(
            "<span>{} → {} messages, {} → {} tokens</span><span>{}</span>",
            layer.before.messages,
            layer.after.messages,
            with_separators(layer.before.tokens),
            with_separators(layer.after.tokens),
            match layer.state {
                LayerState::InForce => "in force",
                LayerState::Absorbed => "taken over by a later one",
                LayerState::Undone => "undone",
            }
        )
    });
    let sizes = sizes.unwrap_or_default();
    let body: String =
        entry.replacements().iter().map(|replacement| replaced_part(replacement, log)).collect();
    format!(
        "<article class=\"compaction\"><header><b>compaction {}</b>{sizes}</header>\n{body}</article>\n",
        entry.id()
    )
}

fn replaced_part(replacement: &Replacement, log: &Conversation) -> String {
    let originals: Vec<&ContextMessage> =
        replacement.replaces.iter().filter_map(|id| log.message(*id)).collect();
    let tokens: Tokens = originals.iter().map(|message| message.tokens()).sum();
    let names = match (replacement.replaces.first(), replacement.replaces.last()) {
        (Some(first), Some(last)) if first != last => format!("{first} to {last}"),
        (Some(only), _) => only.to_string(),
        _ => String::new(),
    };
    let mut html = String::new();
    for message in &replacement.with {
        html += &message_card(message, &Gone::new(), Place::Unfolded);
    }
    if replacement.with.is_empty() {
        html += "<p>Nothing stands in their place.</p>\n";
    }
    let count = quantity(originals.len(), "message");
    let size = quantity(with_separators(tokens), "token");
    let _ = writeln!(
        html,
        "<details class=\"replaced\"><summary>unfold <b>{count}</b> that this replaced ({names}, {size})</summary>"
    );
    for original in originals {
        html += &message_card(original, &Gone::new(), Place::Unfolded);
    }
    html + "</details>\n"
}
