//! The text that an earlier compaction wrote into a file, recognized when the file is read again.

use super::SummaryTag;
use super::omission::{MOST, NO_RECORD, marked, parse};
use super::strategies::{Record, record_length};
use crate::{Message, MessageId, Role};

/// The separator between two texts that were sent as one.
const BETWEEN: &str = "\n\n";

/// Marks the message as made by compaction if it contains only what a compaction writes: a user's record,
/// omission marker or [`NO_RECORD`], or an assistant's summary in the default tag. Without the mark it would
/// pass for the user's or the model's own text, and the next compaction would put a record into a record.
#[must_use]
pub fn recognize_written(message: Message) -> Message {
    let is_written = || message.calls().is_empty() && is_written_text(message.role(), &message.text());
    if message.is_compacted || is_written() { marked(message.compacted()) } else { message }
}

/// Checks whether `text`, in a message of `role`, is written by a compaction from beginning to end.
pub fn is_written_text(role: Role, text: &str) -> bool {
    written_length(role, text) == Some(text.len())
}

/// Returns the highest label in what a compaction wrote into `messages`: in the labels of a record's lines,
/// in markers, and in what stands in place of a result or of its middle.
pub fn highest_label<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Option<MessageId> {
    let of_message = |message: &Message| {
        let text = message.text();
        let labels = text.lines().filter_map(|line| labels_of(message, line));
        let words = labels.flat_map(|labels| labels.split(|c: char| !c.is_alphanumeric()));
        words.filter_map(|word| word.parse().ok()).filter(|id: &MessageId| id.as_u64() <= MOST).max()
    };
    messages.into_iter().filter_map(of_message).max()
}

/// Returns the part of a line that holds labels, if a compaction wrote it.
fn labels_of<'a>(message: &Message, line: &'a str) -> Option<&'a str> {
    match message.role() {
        Role::Tool => line.strip_prefix("[m").and_then(|_| line.split(' ').next()),
        _ if !message.is_compacted => None,
        _ if parse(line).is_some() => Some(line),
        // The text after the colon is a quotation.
        _ => line.split(':').next().filter(|label| label.starts_with('m')),
    }
}

/// Checks whether `text` is a record that keeps nothing of the messages it stands for: at most it lists them.
pub fn is_bare_record(text: &str) -> bool {
    Record::parse(text)
        .is_some_and(|record| Record { left_out: Vec::new(), folder: None, ..record } == Record::default())
}

/// Splits a text in a message of `role` into what a compaction wrote, and the text before, between and after
/// it. If adjacent messages of one role are sent as one text, an empty line is between them. Returns one
/// piece if no part is from a compaction.
pub fn pieces_around_written(role: Role, text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < text.len() {
        let written = written_length(role, &text[at..]);
        if let Some(length) = written.filter(|length| !is_embedded(&text[..at], &text[at + length..])) {
            let before = text[start..at].trim_end_matches('\n');
            pieces.extend((!before.is_empty()).then_some(before));
            pieces.push(&text[at..at + length]);
            at = (at + length + BETWEEN.len()).min(text.len());
            start = at;
        } else {
            at = text[at..].find(BETWEEN).map_or(text.len(), |found| at + found + BETWEEN.len());
        }
    }
    pieces.extend((start < text.len() || pieces.is_empty()).then(|| &text[start..]));
    pieces
}

/// Checks whether what is between two texts stands inside of something that was quoted: an element that opens
/// before it and ends after it, such as a file that was attached, or a block of code. No compaction wrote it
/// there.
fn is_embedded(before: &str, after: &str) -> bool {
    const FENCE: &str = "```";
    let mut opens = before.match_indices('<').filter_map(|(at, _)| {
        let rest = &before[at + 1..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_' | ':'))?;
        (end > 0 && rest[end..].starts_with(['>', ' ', '\n'])).then(|| &rest[..end])
    });
    let is_open = |name: &str| {
        let close = format!("</{name}>");
        let opening = format!("<{name}");
        before.matches(&opening).count() > before.matches(&close).count() && after.contains(&close)
    };
    let n_fences = before.lines().filter(|line| line.trim_start().starts_with(FENCE)).count();
    n_fences % 2 == 1 && after.contains(FENCE) || opens.any(is_open)
}

/// Returns the length of what a compaction wrote at the start of `text`; nothing else is in its last line.
fn written_length(role: Role, text: &str) -> Option<usize> {
    let length = match role {
        Role::User => record_length(text).or_else(|| {
            let line = text.split('\n').next()?;
            (line == NO_RECORD || parse(line).is_some()).then_some(line.len())
        }),
        Role::Assistant => summary_length(text),
        Role::System | Role::Tool => None,
    };
    length.filter(|length| text.len() == *length || text[*length..].starts_with(BETWEEN))
}

fn summary_length(text: &str) -> Option<usize> {
    let tag = SummaryTag::default();
    let rest = text.strip_prefix('<')?.strip_prefix(tag.as_str())?.strip_prefix(">\n")?;
    let close = format!("\n</{}>", tag.as_str());
    let end = rest.find(&close)?;
    Some(text.len() - rest.len() + end + close.len())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::tool_call;
    use super::super::n_omitted;
    use super::super::strategies::{Entry, Record};
    use super::*;
    use crate::{Body, Content, Part, ToolResult};

    #[test]
    fn a_record_without_a_word_of_the_messages_is_bare() {
        let mut record = Record::default();
        for (entry, expected) in [("m1 Read a: 900 tokens", true), ("m2: It is done.", false)] {
            let place = if expected { &mut record.left_out } else { &mut record.story };
            place.push(Entry::carry(entry));
            assert_eq!(is_bare_record(&record.to_text()), expected, "{}", record.to_text());
        }
        assert!(!is_bare_record("Notes of mine"));
    }

    #[test]
    fn a_record_inside_of_something_quoted_is_none_of_ours() {
        let mut record = Record::default();
        record.story.push(Entry::carry("m2: It is done."));
        let record = record.to_text();
        for (before, after, expected) in [
            ("Look at it.", "Go on.", 3),
            ("<file name=\"a.md\">\nRules", "More.\n</file>", 1),
            ("# Rules\n<INSTRUCTIONS>\nx", "y\n</INSTRUCTIONS>", 1),
            ("```\nx", "y\n```", 1),
            ("Is a < b, or <T> a type?", "Go on.", 3),
        ] {
            let text = format!("{before}\n\n{record}\n\n{after}");
            assert_eq!(pieces_around_written(Role::User, &text).len(), expected, "{text}");
        }
    }

    #[test]
    fn what_compaction_wrote_is_recognized_and_nothing_else() {
        let record = Record { said: vec![Entry::quote("fix it")], ..Record::default() }.to_text();
        let summary = "<forge_context_summary>\nDone.\n</forge_context_summary>";
        let calls = vec![tool_call("f", "{}")];
        let calling = Message::new(Body::Assistant { content: Some(summary.into()), calls });
        for (message, expected) in [
            (Message::user(record.as_str()), true),
            (Message::user(NO_RECORD), true),
            (Message::user(format!("{NO_RECORD} Really?")), false),
            (Message::user(Content::Parts(vec![Part::Text(record.clone())])), true),
            (Message::user("[... 47 messages omitted ...]"), true),
            (Message::user("[... 47 messages omitted: m3–m49 ...]"), true),
            (Message::user("[... 1 messages omitted: m3 ...]"), true),
            (Message::assistant(summary), true),
            (Message::user(format!("{record}\nAnd now?")), false),
            (Message::user(format!("See {record}")), false),
            (Message::user("<record>\nmy own\n</record>"), false),
            (Message::assistant(record.as_str()), false),
            (Message::user("[... 47 messages omitted ...] and more"), false),
            (Message::user("[... many messages omitted ...]"), false),
            (Message::user("[... 47 messages omitted: of mine ...]"), false),
            (Message::user(summary), false),
            (Message::assistant(format!("{summary} and more")), false),
            (Message::assistant("<note>\nDone.\n</note>"), false),
            (calling, false),
            (Message::system(record.as_str()), false),
        ] {
            let actual = recognize_written(message.clone());
            assert_eq!(actual.is_compacted, expected, "{message:?}");
            assert_eq!(actual.starts_turn(), !expected && actual.role() == Role::User, "{message:?}");
        }
        let marker = recognize_written(Message::user("[... 47 messages omitted ...]"));
        assert_eq!(n_omitted(&marker), Some(47));
    }

    #[test]
    fn the_highest_label_is_of_lines_that_a_compaction_wrote() {
        let entries = ["m7 agent: Then m900 came.", "m8, m12 run: done", "m9 agent:\n    m800: no label"];
        let story = entries.map(Entry::carry).to_vec();
        let record = Message::user(Record { story, ..Record::default() }.to_text());
        let marker = Message::user("[... 47 messages omitted: m3–m49 ...]");
        let call = tool_call("f", "{}");
        let result = |text: &str| Message::tool(ToolResult::answer(&call, text));
        for (message, expected) in [
            (record.clone().compacted(), Some(12)),
            (record, None),
            (marker.compacted(), Some(49)),
            (result("[m5 cleared: read a.rs, 900 tokens, 40 lines]"), Some(5)),
            (
                result("a\n[m6 shortened: of 41000 tokens in 1900 lines, line 380 to line 1700 left out]\nb"),
                Some(6),
            ),
            (result("m60 is a motorway"), None),
            (Message::assistant("m70: mine"), None),
        ] {
            let actual = highest_label([&message]).map(MessageId::as_u64);
            assert_eq!(actual, expected, "{message:?}");
        }
    }

    #[test]
    fn texts_that_were_sent_as_one_come_apart() {
        let record = Record { said: vec![Entry::quote("a\n\nb")], ..Record::default() }.to_text();
        let marker = "[... 2 messages omitted ...]";
        let summary = "<forge_context_summary>\nDone.\n\nAll.\n</forge_context_summary>";
        for (role, pieces) in [
            (Role::User, vec![""]),
            (Role::User, vec!["one\n\ntwo"]),
            (Role::User, vec![record.as_str()]),
            (Role::User, vec!["do it\n\nwell", record.as_str(), "go on"]),
            (Role::User, vec![record.as_str(), marker, "go\n\non"]),
            (Role::Assistant, vec![summary, "I look"]),
            (Role::Assistant, vec!["I look", summary]),
            (Role::System, vec![record.as_str()]),
        ] {
            let text = pieces.join("\n\n");
            assert_eq!(pieces_around_written(role, &text), pieces, "{text}");
        }
        for text in [format!("say {marker}"), format!("{marker}\nand more"), format!("{record} again")] {
            assert_eq!(pieces_around_written(Role::User, &text), [text.as_str()]);
        }
    }
}
