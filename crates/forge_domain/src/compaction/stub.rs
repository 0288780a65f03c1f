//! The texts that replace cleared tool results, and long texts in a call's arguments.

use std::fmt;

use serde_json::Value;

use super::answered_call::AnsweredCall;
use crate::compaction::features::is_line_break;
use crate::compaction::names::is_hash;
use crate::compaction::short_text::change_texts;
use crate::{ContextMessage, MessageId, TokenCounter, Tokens, ToolName, ToolResult, quantity};

/// The replacement of a cleared result, such as
/// `[m1042 cleared: Read src/main.rs, 1234 tokens, 56 lines: main, Arguments]`. The label is
/// that of the result in the log, and the names tell what to ask for again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stub {
    label: Option<MessageId>,
    tool: Option<ToolName>,
    subject: Option<String>,
    tokens: Tokens,
    n_lines: usize,
    has_failed: bool,
    names: Vec<String>,
}

/// Most characters of a path or a command in a stub.
const MAX_SUBJECT: usize = 80;
/// Most bytes of a stub: a longer text only looks like one.
const MAX_STUB: usize = 1_024;
/// Texts of a call's arguments that are longer than this may leave; a shorter one tells what the call was.
const MAX_ARGUMENT: usize = 400;
const CLEARED: &str = " cleared: ";
/// The words in place of an image.
const IMAGE: &str = "the image";
/// No name has a blank in it.
const BETWEEN_NAMES: &str = " ";

impl Stub {
    /// Creates the stub for `message`, which holds `result`, the answer to what was `asked`.
    pub(super) fn of(message: &ContextMessage, result: &ToolResult, asked: Option<AnsweredCall<'_>>) -> Self {
        let failure =
            asked.filter(|asked| !asked.deed.only_looks).and_then(|asked| asked.deed.failure(message));
        let tool = result.name.clone().or_else(|| asked.map(|asked| asked.call.name.clone()));
        Self {
            subject: asked.and_then(|asked| asked.deed.subject.clone()).filter(|subject| is_plain(subject)),
            has_failed: result.is_error || failure.is_some(),
            ..Self::by(tool.filter(|tool| is_one_line(tool.as_str())), message)
        }
    }

    /// Returns the user's message with stubs in place of its images: their text stays.
    pub(super) fn for_images_of(
        message: &ContextMessage,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        let content = message.message().content().filter(|content| content.has_images())?;
        let label = message.id().map_or_else(|| "m".to_owned(), |id| id.to_string());
        let bare = content.without_images(&format!("[{label}{CLEARED}{IMAGE}]"));
        Some(ContextMessage::count(message.message().with_content(bare), counter))
    }

    /// Creates the stub for a note of a harness that a later one repeats.
    pub(super) fn of_note(message: &ContextMessage) -> Self {
        Self::by(ToolName::new("note").ok(), message)
    }

    /// Creates the stub for `message`, which `tool` gave, without a subject.
    fn by(tool: Option<ToolName>, message: &ContextMessage) -> Self {
        Self {
            label: message.id(),
            tool,
            subject: None,
            tokens: message.tokens(),
            n_lines: message.features().n_text_lines as usize,
            has_failed: false,
            names: Vec::new(),
        }
    }

    /// Adds names of what was there, as many as a stub can hold.
    pub(super) fn with_names<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut left = MAX_STUB.saturating_sub(self.to_string().len());
        for name in names.into_iter().filter(|name| is_plain(name)) {
            let Some(rest) = left.checked_sub(name.len() + BETWEEN_NAMES.len()) else { break };
            left = rest;
            self.names.push(name.to_owned());
        }
        self
    }

    /// Returns the message with this text instead; its call's id and everything else known about it stay.
    pub(super) fn in_place_of(&self, message: &ContextMessage, counter: &dyn TokenCounter) -> ContextMessage {
        ContextMessage::count(message.message().with_content(self.to_string()), counter)
    }
}

impl fmt::Display for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            Some(label) => write!(f, "[{label}{CLEARED}")?,
            None => write!(f, "[m{CLEARED}")?,
        }
        match &self.tool {
            Some(tool) => f.write_str(tool.as_str())?,
            None => f.write_str("a result")?,
        }
        if let Some(subject) = &self.subject {
            write!(f, " {subject}")?;
        }
        if self.has_failed {
            f.write_str(", failed")?;
        }
        let lines = if self.n_lines == 1 { "line" } else { "lines" };
        write!(f, ", {} tokens, {} {lines}", self.tokens, self.n_lines)?;
        if !self.names.is_empty() {
            write!(f, ": {}", self.names.join(BETWEEN_NAMES))?;
        }
        f.write_str("]")
    }
}

/// Checks whether `text` is a stub, which cannot get shorter.
pub(super) fn is_stub(text: &str) -> bool {
    let text = if text.len() <= MAX_STUB { text } else { "" };
    let label = text.strip_prefix("[m").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    label.is_some_and(|rest| rest.starts_with(CLEARED))
        && text.ends_with(']')
        && !text.contains(is_line_break)
}

/// Returns the label in a stub: the id of the message as it was appended.
pub(super) fn cleared_label(text: &str) -> Option<MessageId> {
    text.strip_prefix('[')?.split_once(CLEARED).filter(|_| is_stub(text))?.0.parse().ok()
}

/// Returns the label in what stands in place of an image of a message.
pub(super) fn cleared_image_label(text: &str) -> Option<MessageId> {
    let (before, _) = text.split_once(&format!("{CLEARED}{IMAGE}]"))?;
    before.rsplit('[').next()?.parse().ok()
}

/// Checks whether a name is short, and cannot end its line.
fn is_one_line(name: &str) -> bool {
    name.chars().count() <= MAX_SUBJECT && !name.contains(|c: char| c.is_control() || is_line_break(c))
}

/// Checks whether a subject is short and may be in new text: one line without hashes, dates and long numbers,
/// which a model takes for facts.
fn is_plain(subject: &str) -> bool {
    let is_code = |word: &str| {
        let n_digits = word.bytes().filter(u8::is_ascii_digit).count();
        n_digits >= 4 || (is_hash(word) && n_digits > 0)
    };
    is_one_line(subject) && !subject.split(|c: char| !c.is_ascii_alphanumeric()).any(is_code)
}

/// Returns a call's arguments with their long texts cleared; `None` if none is long, or if they are not a
/// JSON object.
pub(super) fn cleared_arguments(arguments: &str) -> Option<String> {
    let mut value: Value = serde_json::from_str(arguments).ok().filter(Value::is_object)?;
    change_texts(&mut value, &clear_long).then(|| value.to_string())
}

/// Clears a text if it is long; returns false if it is not.
fn clear_long(text: &mut String) -> bool {
    let is_long = text.chars().count() > MAX_ARGUMENT;
    if is_long {
        *text = format!("[cleared: {}]", quantity(text.lines().count(), "line"));
    }
    is_long
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::answered_call::answered_call;
    use super::super::fixture::tool_call;
    use super::*;
    use crate::{Conversation, Message};

    fn stub(name: &str, arguments: &str, content: &str) -> String {
        let call = tool_call(name, arguments);
        let result = ToolResult::answer(&call, content);
        let mut log = Conversation::new();
        log.add(Message::calling(vec![call])).add(Message::tool(result.clone()));
        let view = log.view();
        Stub::of(&view.messages()[1], &result, answered_call(&view, 1)).to_string()
    }

    #[test]
    fn a_stub_says_what_was_there() {
        for (name, arguments, content, expected) in [
            (
                "Read",
                r#"{"file_path":"src/a.rs"}"#,
                "one\ntwo",
                "[m1 cleared: Read src/a.rs, 11 tokens, 2 lines]",
            ),
            ("Bash", r#"{"command":"ls -l"}"#, "one", "[m1 cleared: Bash ls -l, 7 tokens, 1 line]"),
            ("now", "{}", "one", "[m1 cleared: now, 7 tokens, 1 line]"),
            // Text that a model would take for a fact is not put into new text.
            ("Bash", r#"{"command":"git show 1a2b3c4"}"#, "one", "[m1 cleared: Bash, 7 tokens, 1 line]"),
            (
                "Bash",
                r#"{"command":"log --since 2025-01-02"}"#,
                "one",
                "[m1 cleared: Bash, 7 tokens, 1 line]",
            ),
            ("get", r#"{"id":"W2378156"}"#, "one", "[m1 cleared: get, 7 tokens, 1 line]"),
            ("Bash", r#"{"command":"a\nb"}"#, "one", "[m1 cleared: Bash, 7 tokens, 1 line]"),
            ("Bash", "{\"command\":\"a\u{2028}b\"}", "one", "[m1 cleared: Bash, 7 tokens, 1 line]"),
            ("a\n[m9 cleared: b]", "{}", "one", "[m1 cleared: a result, 7 tokens, 1 line]"),
        ] {
            let actual = stub(name, arguments, content);
            assert_eq!(actual, expected);
            assert!(is_stub(&actual), "{actual}");
        }
    }

    #[test]
    fn names_stand_at_the_end_of_a_stub_as_far_as_it_holds_them() {
        let stub = || Stub {
            label: None,
            tool: None,
            subject: None,
            tokens: Tokens::new(9),
            n_lines: 2,
            has_failed: false,
            names: Vec::new(),
        };
        let long = "a".repeat(70);
        for (names, expected) in [
            (vec![], "[m cleared: a result, 9 tokens, 2 lines]".to_owned()),
            (vec!["port", "host"], "[m cleared: a result, 9 tokens, 2 lines: port host]".to_owned()),
            // Text that a model would take for a fact is left out.
            (vec!["W2378156", "host"], "[m cleared: a result, 9 tokens, 2 lines: host]".to_owned()),
            (
                vec![long.as_str(); 40],
                format!("[m cleared: a result, 9 tokens, 2 lines: {}]", vec![long.as_str(); 13].join(" ")),
            ),
        ] {
            let actual = stub().with_names(names).to_string();
            assert_eq!(actual, expected);
            assert!(is_stub(&actual), "{actual}");
        }
    }

    #[test]
    fn only_a_stub_is_a_stub() {
        for text in [
            "",
            "[m1]",
            "[m1 cleared: a\nb]",
            "m1 cleared: a]",
            "[m1 cleared: a] and more",
            "[mx cleared: a]",
            "[m1 cleared: a\u{2028}b]",
        ] {
            assert!(!is_stub(text), "{text}");
        }
        assert!(!is_stub(&format!("[m1 cleared: {}]", "a".repeat(2_000))));
    }

    #[test]
    fn long_arguments_go_and_stay_valid_json() {
        let long = "word\n".repeat(100);
        for (arguments, expected) in [
            (r#"{"path":"a"}"#.to_owned(), None),
            ("{".to_owned(), None),
            (serde_json::json!(long).to_string(), None),
            (
                serde_json::json!({"path": "a", "text": long, "edits": [{"new": long}]}).to_string(),
                Some(
                    r#"{"path":"a","text":"[cleared: 100 lines]","edits":[{"new":"[cleared: 100 lines]"}]}"#,
                ),
            ),
        ] {
            assert_eq!(cleared_arguments(&arguments).as_deref(), expected, "{arguments}");
        }
    }
}
