//! The HTML of a run's page.

use std::fmt::Write as _;

use forge_app::{CheckpointReport, CompactionLayer, report, title};
use forge_domain::{Checkpoint, CheckpointKey, Conversation, Entry, RunId, Spent, quantity};

use super::compactions::Compactions;
use super::escape::escape_html;
use super::message_card::{Gone, Place, message_card};
use crate::output::with_separators;

const STYLE: &str = include_str!("../../../../../templates/export.css");
/// The line of a page that says who wrote it.
pub(super) const GENERATOR: &str = "<meta name=\"generator\" content=\"forge\">";

/// Returns the page of a run, from a checkpoint of each of its agents: the latest, or the latest `until` one.
pub(super) fn page(run: &RunId, until: Option<CheckpointKey>, agents: &[Checkpoint]) -> String {
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
    page += &facts(run, until, agents);
    for (nth, agent) in agents.iter().enumerate() {
        if agents.len() > 1 {
            let _ = writeln!(page, "<h2>{}</h2>", escape_html(agent.info.agent.as_str()));
        }
        // The agents of a run number their messages independently.
        let prefix = if nth == 0 { String::new() } else { format!("a{}-", nth + 1) };
        page += &conversation(agent, &prefix);
    }
    page + "</body>\n</html>\n"
}

/// Returns the figures of the run.
fn facts(run: &RunId, until: Option<CheckpointKey>, agents: &[Checkpoint]) -> String {
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
        ("checkpoint", until.map(|key| format!("{key}, not the latest state"))),
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

/// Returns the whole conversation of an agent, with its compactions where they happened.
fn conversation(agent: &Checkpoint, prefix: &str) -> String {
    let CheckpointReport { compactions: layers, .. } = report(agent);
    log_html(&agent.snapshot.conversation, &layers, prefix)
}

/// Returns the lines of a log, with anchors that begin with `prefix`.
fn log_html(log: &Conversation, layers: &[CompactionLayer], prefix: &str) -> String {
    let mut gone = Gone::new();
    for entry in log.live_entries() {
        let left = entry.replacements().iter().flat_map(|replacement| &replacement.replaces);
        gone.extend(left.map(|id| (*id, entry.id())));
    }
    let mut compactions = Compactions::new(log, layers, prefix);
    let mut html = String::new();
    for entry in log.entries() {
        html += &match entry {
            Entry::Message(message) => message_card(message, Place::Own { gone: &gone, prefix }),
            Entry::Compaction(entry) => compactions.card(entry),
            Entry::Undo(id) => compactions.undone_card(*id),
        };
    }
    html
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use forge_domain::{CompactionEntry, ContextMessage, EntryId, Message, MessageId, Replacement, Tokens};
    use pretty_assertions::assert_eq;

    use super::*;

    fn message(id: u64, message: Message) -> ContextMessage {
        ContextMessage::restored(MessageId::new(id), Tokens::new(10), message)
    }

    /// Returns a log in which the `n`-th compaction, after ten messages each, absorbs the one before it.
    fn log(n: u64) -> Conversation {
        let mut entries = Vec::new();
        let mut replaces: Vec<MessageId> = Vec::new();
        for nth in 0..n {
            let ids: Range<u64> = nth * 11..nth * 11 + 10;
            replaces.extend(ids.clone().map(MessageId::new));
            entries
                .extend(ids.map(|id| Entry::Message(message(id, Message::user(format!("text of {id}."))))));
            let record = Message::user(format!("record {nth}.")).compacted();
            let replacement =
                Replacement { replaces: replaces.clone(), with: vec![message(nth * 11 + 10, record)] };
            let absorbs = nth.checked_sub(1).map(EntryId::nth).into_iter().collect();
            let entry = CompactionEntry::restored(EntryId::nth(nth), vec![replacement], absorbs);
            entries.push(Entry::Compaction(entry));
        }
        Conversation::restore(entries).unwrap()
    }

    #[test]
    fn a_page_grows_with_its_log_and_unfolds_each_message_once() {
        let html = log_html(&log(30), &[], "");
        for id in [0, 5, 200, 327] {
            assert_eq!(html.matches(&format!("text of {id}.")).count(), 2, "{id}");
        }
        assert_eq!(html.matches("record 7.").count(), 1);
        assert!(html.contains("unfold <b>10 messages</b> that this replaced (m33 to m42, 100 tokens)"));
        assert!(html.contains("It also stands for <b>30 messages</b> that <a href=\"#c2\">c2</a> replaced."));
        assert!(html.contains("<article class=\"compaction\" id=\"c2\">"));
        let (once, twice) = (log_html(&log(100), &[], "").len(), log_html(&log(200), &[], "").len());
        assert!(twice < once * 21 / 10, "{once} {twice}");
    }

    #[test]
    fn what_an_undone_compaction_replaced_is_linked_to() {
        let mut log = log(2);
        let undone = log.undo().unwrap();
        assert_eq!(undone, EntryId::nth(1));
        let mut entries = log.entries().to_vec();
        let replaces = (0..10).chain(11..21).map(MessageId::new).collect();
        let replacement = Replacement { replaces, with: Vec::new() };
        let again = CompactionEntry::restored(EntryId::nth(2), vec![replacement], vec![EntryId::nth(0)]);
        entries.push(Entry::Compaction(again));
        let html = log_html(&Conversation::restore(entries).unwrap(), &[], "a2-");
        assert!(html.contains("compaction <a href=\"#a2-c1\">c1</a>: what it replaced is in the view again"));
        assert!(html.contains(
            "It also stands for <b>20 messages</b> that <a href=\"#a2-c0\">c0</a>, <a href=\"#a2-c1\">c1</a> replaced."
        ));
        assert_eq!(html.matches("text of 12.").count(), 2, "{html}");
        assert_eq!(html.matches("<article class=\"user left\" id=\"a2-m12\">").count(), 1, "{html}");
    }
}
