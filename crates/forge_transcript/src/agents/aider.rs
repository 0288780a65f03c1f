//! Chat histories of aider: Markdown, with a mark at the lines of the user and of the tools.

use forge_domain::{Message, Role};
use serde_json::Value;

use crate::any_blocks::messages_of;
use crate::codec::{EntryFormat, Evidence, Listing};
use crate::format::FormatFacts;

/// The author of what aider itself prints.
const BY: &str = "aider";
/// The first line of a chat.
const START: &str = "# aider chat started at ";

/// The format of aider.
pub(super) struct Aider;

impl EntryFormat for Aider {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "aider",
        name: "aider chat histories",
        description: "Markdown with \"# aider chat started at\"",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_markdown = !evidence.text.starts_with(['{', '[']);
        is_markdown && evidence.text.lines().take(2_000).any(|line| line.starts_with(START))
    }

    /// Lists the chats, named by the times at which they started. Chats without a word are left out.
    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let mut chats: Vec<Listing<'_>> = Vec::new();
        let mut start = 0;
        let mut last = None;
        let mut at = 0;
        // The place of the line before, if it is empty.
        let mut blank = 0;
        let are_ended = are_ended(text);
        let speaker_of = |line: &str| match Speaker::of(line) {
            // A heading in what the model says.
            Some(Speaker::User) if are_ended && !is_ended(line) => Some(Speaker::Model),
            speaker => speaker,
        };
        for line in text.split_inclusive('\n') {
            let end = at + line.len();
            if let Some(title) = line.strip_prefix(START) {
                close(&text[start..at], &mut last, &mut chats);
                chats.push(Listing::default().named(title.trim()));
                start = end;
            } else if let Some(speaker) = speaker_of(line).filter(|speaker| last != Some(*speaker)) {
                let begin = if speaker == Speaker::Model { blank } else { at };
                close(&text[start..begin], &mut last, &mut chats);
                last = Some(speaker);
                start = begin;
            }
            blank = if line.trim().is_empty() { at } else { end };
            at = end;
        }
        close(&text[start..], &mut last, &mut chats);
        chats.retain(|chat| !chat.entries.is_empty());
        Ok(chats)
    }

    fn messages(_: &Value) -> Vec<Message> {
        Vec::new()
    }

    fn text_messages(passage: &str) -> Vec<Message> {
        let is_headed = passage.lines().next().is_some_and(|line| line.trim().is_empty());
        let speaker = passage.lines().find_map(Speaker::of);
        // The user's passage begins with its mark; before a heading of the model's there is an empty line.
        let speaker = speaker.map(|speaker| if is_headed { Speaker::Model } else { speaker });
        let mark = match speaker {
            Some(Speaker::User) => "####",
            Some(Speaker::Tool) => ">",
            Some(Speaker::Model) | None => "",
        };
        let line = |line: &str| {
            let line = line.strip_prefix(mark).unwrap_or(line).trim_end();
            if mark.is_empty() { line.to_owned() } else { line.strip_prefix(' ').unwrap_or(line).to_owned() }
        };
        let text = passage.lines().map(line).collect::<Vec<String>>().join("\n");
        let text = Value::String(text.trim_matches('\n').to_owned());
        match speaker {
            Some(Speaker::User) => messages_of(Role::User, &text),
            Some(Speaker::Tool) => {
                messages_of(Role::User, &text).into_iter().map(|said| said.noted_by(BY)).collect()
            }
            Some(Speaker::Model) => messages_of(Role::Assistant, &text),
            None => Vec::new(),
        }
    }
}

/// The speaker of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Tool,
    Model,
}

impl Speaker {
    /// Returns the speaker of `line`; none if it is empty.
    fn of(line: &str) -> Option<Self> {
        match line.trim() {
            "" => None,
            // Formatters strip the blanks of an empty line.
            "####" if line.starts_with('#') => Some(Self::User),
            _ if line.starts_with("#### ") => Some(Self::User),
            ">" if line.starts_with('>') => Some(Self::Tool),
            _ if line.starts_with("> ") => Some(Self::Tool),
            _ => Some(Self::Model),
        }
    }
}

/// Checks whether most lines with the user's mark end as aider ends them: other tools strip the blanks.
fn are_ended(text: &str) -> bool {
    let marked = || text.lines().filter(|line| Speaker::of(line) == Some(Speaker::User));
    marked().filter(|line| is_ended(line)).count() * 2 > marked().count()
}

/// Checks whether a line ends with the two blanks that aider writes after each line of the user's.
fn is_ended(line: &str) -> bool {
    line.trim_end_matches(['\r', '\n']).ends_with("  ")
}

/// Adds a passage to the last chat.
fn close<'a>(passage: &'a str, last: &mut Option<Speaker>, chats: &mut Vec<Listing<'a>>) {
    if last.take().is_none() {
        return;
    }
    if chats.is_empty() {
        chats.push(Listing::default());
    }
    if let Some(chat) = chats.last_mut() {
        chat.entries.push(passage);
    }
}
