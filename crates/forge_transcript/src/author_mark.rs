//! Marks in the text of messages for formats that have no place for their author: by these a note, or a
//! summary that an agent made, is told from the words of the user and the model when it is read again.

use std::borrow::Cow;

use forge_domain::compaction::SummaryTag;
use forge_domain::{Body, Content, Message, Part, Role, speaker};

use crate::harness::{NOTE_TAGS, SUMMARIES};
use crate::written::split;

/// Returns the message with its author marked in its text, if it is a note or a summary. One that is known by
/// its text stays. The tags around a note are around its images and files as well.
pub(crate) fn with_author(message: Cow<'_, Message>) -> Cow<'_, Message> {
    if message.note_by().is_none() && !message.is_compacted || is_known_by_text(&message) {
        return message;
    }
    let marked = message.content().and_then(|content| {
        let forms = marks(&message).into_iter();
        forms
            .map(|(before, after)| match content {
                Content::Parts(parts) if has_media(content) && !message.is_compacted => {
                    message.with_content(enclose_all(parts, &before, &after))
                }
                content => message.with_content(enclose(content, &before, &after)),
            })
            .find(is_known_by_text)
    });
    marked.map_or(message, Cow::Owned)
}

/// Checks whether several people write as the user, whom only their names tell apart.
pub(crate) fn are_several_people(mut messages: impl Iterator<Item = Message>) -> bool {
    let name = |message: Message| {
        let name = speaker(&message).filter(|_| message.starts_turn());
        name.map(str::to_owned)
    };
    let first = messages.by_ref().find_map(name);
    first.is_some_and(|first| messages.filter_map(name).any(|name| name != first))
}

/// Returns a message of the user's with the name of its author in its text, for a format that has no place
/// for it.
pub(crate) fn with_name(message: Cow<'_, Message>) -> Cow<'_, Message> {
    let name = speaker(&message).filter(|_| message.starts_turn());
    let (Some(name), Some(content)) = (name, message.content()) else { return message };
    let content = match content {
        Content::Text(text) => Content::Text(format!("{name}: {text}")),
        Content::Parts(parts) => {
            let mut parts = parts.clone();
            match parts.first_mut() {
                Some(Part::Text(first)) => first.insert_str(0, &format!("{name}: ")),
                _ => parts.insert(0, Part::Text(format!("{name}:"))),
            }
            Content::Parts(parts)
        }
    };
    Cow::Owned(message.with_content(content))
}

/// Returns a system message as a note, for a format that has none in mid-conversation.
pub(crate) fn without_system_role(message: Cow<'_, Message>) -> Cow<'_, Message> {
    let Body::System(content) = &message.body else { return message };
    let note = Message::note(Role::System.as_str(), content.clone());
    Cow::Owned(Message { timestamp: message.timestamp, ..note })
}

/// Checks whether the text of a note or a summary is enough to read it as one.
fn is_known_by_text(message: &Message) -> bool {
    let text_alone = Message { is_compacted: false, ..message.clone().said_by_user() };
    let is_as_before = |piece: &Message| match message.is_compacted {
        true => piece.is_compacted,
        false => piece.note_by().is_some(),
    };
    // An image has no text to mark, and a summary no end in which one could stand.
    let is_blank = |piece: &Message| {
        piece.to_text().is_empty() && (message.is_compacted || !piece.content().is_some_and(has_media))
    };
    split(text_alone).iter().all(|piece| is_as_before(piece) || is_blank(piece))
}

fn has_media(content: &Content) -> bool {
    matches!(content, Content::Parts(parts) if parts.iter().any(|part| matches!(part, Part::Media(_))))
}

/// Returns the texts before and after a message that could mark it, the best first.
fn marks(message: &Message) -> Vec<(String, String)> {
    let tag = |tag: &str| (format!("<{tag}>\n"), format!("\n</{tag}>"));
    match message.role() {
        Role::User if message.is_compacted => vec![(format!("{}\n\n", SUMMARIES[0]), String::new())],
        Role::User => NOTE_TAGS.map(tag).to_vec(),
        // What a summary stands for calls nothing.
        Role::Assistant if message.calls().is_empty() => vec![tag(SummaryTag::default().as_str())],
        Role::Assistant | Role::System | Role::Tool => Vec::new(),
    }
}

/// Returns the parts between one pair of marks: a part that is no text cannot have its own.
fn enclose_all(parts: &[Part], before: &str, after: &str) -> Content {
    let mut parts = parts.to_vec();
    match parts.first_mut() {
        Some(Part::Text(first)) => first.insert_str(0, before),
        _ => parts.insert(0, Part::Text(before.trim_end().to_owned())),
    }
    match parts.last_mut() {
        Some(Part::Text(last)) => last.push_str(after),
        _ => parts.push(Part::Text(after.trim_start().to_owned())),
    }
    Content::Parts(parts)
}

fn enclose(content: &Content, before: &str, after: &str) -> Content {
    let enclosed = |text: &str| format!("{before}{text}{after}");
    match content {
        Content::Text(text) => Content::Text(enclosed(text)),
        Content::Parts(parts) => {
            let enclosed = parts.iter().map(|part| match part {
                Part::Text(text) => Part::Text(enclosed(text)),
                Part::Media(_) => part.clone(),
            });
            Content::Parts(enclosed.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::said_by;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_author_is_known_by_the_text_that_is_written() {
        let note = |text: &str| Message::note("hook", text);
        let image = Part::Media(json!({"type": "image", "source": {}}));
        let with_image = Content::Parts(vec![Part::Text("It is noon.".into()), image.clone()]);
        for (message, expected) in [
            (Message::user("It is noon."), "It is noon."),
            (note("It is noon."), "<system-reminder>\nIt is noon.\n</system-reminder>"),
            (
                note("a\n<system-reminder>\nb\n</system-reminder>\nc"),
                "<system_reminder>\na\n<system-reminder>\nb\n</system-reminder>\nc\n</system_reminder>",
            ),
            (
                note("<environment_context>x</environment_context>"),
                "<environment_context>x</environment_context>",
            ),
            (note("Stop hook feedback: run the tests"), "Stop hook feedback: run the tests"),
            (note(""), ""),
            (Message::note("hook", with_image), "<system-reminder>\nIt is noon.\n</system-reminder>"),
            (Message::note("hook", Content::Parts(vec![image])), "<system-reminder>\n</system-reminder>"),
            (
                Message::user("The goal is b.").compacted(),
                "This session is being continued from a previous conversation that ran out of context.\n\n\
                 The goal is b.",
            ),
            (Message::user("[... 3 messages omitted ...]").compacted(), "[... 3 messages omitted ...]"),
            (
                Message::assistant("It was sought.").compacted(),
                "<forge_context_summary>\nIt was sought.\n</forge_context_summary>",
            ),
            (Message::system("Be brief.").compacted(), "Be brief."),
        ] {
            let written = with_author(Cow::Borrowed(&message)).into_owned();
            assert_eq!(written.to_text(), expected, "{message:?}");
            // An image of a note is not the user's when it is read again.
            if message.note_by().is_some() && !expected.is_empty() {
                let read = split(written.said_by_user());
                assert!(read.iter().all(|piece| piece.note_by().is_some()), "{read:?}");
            }
        }
    }

    #[test]
    fn a_system_message_becomes_a_note() {
        for (message, expected) in [
            (Message::system("Be brief."), "<system-reminder>\nBe brief.\n</system-reminder>"),
            (Message::user("Be brief."), "Be brief."),
        ] {
            let written = with_author(without_system_role(Cow::Owned(message)));
            assert_eq!((written.role(), written.to_text().as_str()), (Role::User, expected));
        }
    }

    #[test]
    fn the_name_of_one_of_several_people_stands_in_the_text() {
        let named = |name: &str| said_by(Message::user("It is noon."), name);
        for (messages, expected) in [
            (vec![named("Ana"), named("Ben")], true),
            (vec![named("Ana"), named("Ana"), Message::user("Yes.")], false),
            (vec![named("Ana"), said_by(Message::assistant("Yes."), "bot")], false),
        ] {
            assert_eq!(are_several_people(messages.into_iter()), expected);
        }
        let image = Part::Media(json!({"type": "image", "source": {}}));
        for (message, expected) in [
            (named("Ana"), Content::Text("Ana: It is noon.".into())),
            (
                said_by(Message::user(Content::Parts(vec![image.clone()])), "Ana"),
                Content::Parts(vec![Part::Text("Ana:".into()), image]),
            ),
            (Message::user("It is noon."), Content::Text("It is noon.".into())),
            (said_by(Message::assistant("Yes."), "bot"), Content::Text("Yes.".into())),
        ] {
            assert_eq!(with_name(Cow::Owned(message)).content(), Some(&expected));
        }
    }

    #[test]
    fn a_mark_is_written_once() {
        let once = with_author(Cow::Owned(Message::note("hook", "It is noon."))).into_owned();
        assert_eq!(with_author(Cow::Borrowed(&once)).into_owned(), once);
    }
}
