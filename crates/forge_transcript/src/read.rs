//! Reading sessions, and telling their formats apart.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::foreign::Layout;
use crate::json_text::parse;
use crate::record::Shelf;
use crate::{Format, Session, TranscriptError, anthropic, claude_code, foreign, openai, tau_bench};

/// Reads the sessions in `bytes`, whatever their format. `origin` names the file in errors, and a session
/// that has no name of its own.
///
/// # Errors
/// [`TranscriptError`] with the fault and its place. A last line that is cut off is not an error: it is
/// counted.
pub fn read(bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    let text = text(bytes, origin)?;
    read_text(detect(text, origin)?, text, origin, Shelf::Small)
}

/// Reads the sessions in `file`, which are of `format`, or of the one that the content shows. The file is
/// held as it is, and its messages are read from it whenever they are asked for: for files that should be in
/// memory but once.
///
/// # Errors
/// As [`read`].
pub fn read_held(
    format: Option<Format>,
    file: &Arc<Vec<u8>>,
    origin: &str,
) -> Result<Vec<Session>, TranscriptError> {
    let text = text(file, origin)?;
    let format = match format {
        Some(format) => format,
        None => detect(text, origin)?,
    };
    read_text(format, text, origin, Shelf::Whole(file))
}

/// Reads the sessions in `bytes`, which are of `format`.
///
/// # Errors
/// As [`read`].
pub fn read_as(format: Format, bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    read_text(format, text(bytes, origin)?, origin, Shelf::Small)
}

fn read_text(
    format: Format,
    text: &str,
    origin: &str,
    shelf: Shelf<'_>,
) -> Result<Vec<Session>, TranscriptError> {
    match format {
        Format::Openai => openai::read(text, origin, shelf),
        Format::Anthropic => anthropic::read(text, origin, shelf),
        Format::TauBench => tau_bench::read(text, origin, shelf),
        Format::ClaudeCode => claude_code::read(text, origin, shelf),
    }
}

/// Reads `bytes` as text. Half a character at the very end is dropped: the file was cut there, which its
/// reader notices.
fn text<'a>(bytes: &'a [u8], origin: &str) -> Result<&'a str, TranscriptError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let binary = |byte| TranscriptError::Binary { origin: origin.to_owned(), byte };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.error_len().is_some() => return Err(binary(error.valid_up_to())),
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    };
    if text.trim().is_empty() {
        return Err(TranscriptError::Empty { origin: origin.to_owned() });
    }
    // JSON escapes it, and text has no use for it.
    text.find('\0').map_or(Ok(text), |byte| Err(binary(byte)))
}

fn detect(text: &str, origin: &str) -> Result<Format, TranscriptError> {
    if text.trim_start().starts_with('[') {
        let items: Vec<&RawValue> =
            serde_json::from_str(text).map_err(|source| TranscriptError::json(origin, source))?;
        let first: Option<Keys<'_>> = items.first().and_then(|item| serde_json::from_str(item.get()).ok());
        return match first {
            Some(keys) if keys.traj.is_some() => Ok(Format::TauBench),
            Some(keys) if keys.role.is_some() => Ok(messages_format(&items, false)),
            _ => Err(unrecognized(items.first().map_or("", |item| item.get()), Layout::List, origin)),
        };
    }
    match serde_json::from_str::<Keys<'_>>(text) {
        Ok(Keys { messages: Some(messages), system, .. }) => {
            let entries: Vec<&RawValue> = serde_json::from_str(messages.get()).unwrap_or_default();
            Ok(messages_format(&entries, system.is_some()))
        }
        Ok(keys) if keys.are_claude_code() => Ok(Format::ClaudeCode),
        Ok(_) => Err(unrecognized(text, Layout::One, origin)),
        Err(_) if lines_are_claude_code(text) => Ok(Format::ClaudeCode),
        Err(source) => match (first_json_line(text), foreign::of_text(text)) {
            (Some(first), _) => Err(unrecognized(first, Layout::Lines, origin)),
            (None, Some(foreign)) => Err(TranscriptError::foreign(origin, foreign, String::new())),
            (None, None) if source.is_data() => Err(TranscriptError::unknown(origin)),
            (None, None) => Err(TranscriptError::json(origin, source)),
        },
    }
}

/// Returns the error for a document whose first record is `first`: it names the format, if that is
/// recognized.
fn unrecognized(first: &str, layout: Layout, origin: &str) -> TranscriptError {
    let fields: Option<Map<String, Value>> = parse(first).ok();
    match fields.and_then(|fields| foreign::of_document(&fields, layout)) {
        Some(foreign) => TranscriptError::foreign(origin, foreign, String::new()),
        None => TranscriptError::unknown(origin),
    }
}

/// The keys by which the formats differ. Their values stay text, which is cheap for files of many megabytes.
#[derive(Deserialize)]
struct Keys<'a> {
    #[serde(rename = "type", borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(rename = "sessionId")]
    session: Option<IgnoredAny>,
    #[serde(rename = "leafUuid")]
    leaf: Option<IgnoredAny>,
    #[serde(borrow)]
    messages: Option<&'a RawValue>,
    system: Option<IgnoredAny>,
    traj: Option<IgnoredAny>,
    role: Option<IgnoredAny>,
}

impl Keys<'_> {
    fn are_claude_code(&self) -> bool {
        let kind = self.kind.and_then(|kind| serde_json::from_str::<&str>(kind.get()).ok());
        let has_message = self.message.is_some_and(|message| message.get().starts_with('{'));
        kind.is_some_and(|kind| {
            claude_code::is_own_record(kind, has_message, self.session.is_some(), self.leaf.is_some())
        })
    }
}

/// Recognizes which protocol's messages `entries` are. What fits both counts as OpenAI's.
fn messages_format(entries: &[&RawValue], has_system: bool) -> Format {
    let mut signs = Signs::default();
    entries.iter().for_each(|entry| signs.look(entry.get()));
    signs.format(has_system)
}

/// The evidence in a list's entries for the protocol of its messages.
#[derive(Default)]
pub(crate) struct Signs {
    /// True if one is not a message of Anthropic's.
    is_openais: bool,
    /// True if one has a block that only Anthropic's messages have.
    has_peculiar_block: bool,
}

impl Signs {
    /// Looks at the next entry.
    pub(crate) fn look(&mut self, entry: &str) {
        #[derive(Deserialize)]
        struct Entry<'a> {
            #[serde(borrow)]
            role: Option<&'a RawValue>,
            tool_calls: Option<IgnoredAny>,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        if self.is_openais {
            return;
        }
        let entry: Option<Entry<'_>> = serde_json::from_str(entry).ok();
        let role = entry.as_ref().and_then(|entry| entry.role).map(RawValue::get);
        let has_calls = entry.as_ref().is_some_and(|entry| entry.tool_calls.is_some());
        self.is_openais = has_calls || !matches!(role, Some(r#""user""# | r#""assistant""#));
        let content = entry.and_then(|entry| entry.content).map_or("", RawValue::get);
        if !self.has_peculiar_block && content.starts_with('[') {
            let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
            self.has_peculiar_block = blocks.iter().any(|block| is_anthropics(block.get()));
        }
    }

    /// Returns the protocol; `has_system` tells whether there is a system prompt beside the messages.
    pub(crate) fn format(&self, has_system: bool) -> Format {
        let is_anthropics = !self.is_openais && (has_system || self.has_peculiar_block);
        if is_anthropics { Format::Anthropic } else { Format::Openai }
    }
}

/// Checks whether a block of a content is one that only Anthropic's messages have.
fn is_anthropics(block: &str) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a RawValue>,
        source: Option<IgnoredAny>,
    }
    let typed: Option<Typed<'_>> = serde_json::from_str(block).ok();
    let has_source = typed.as_ref().is_some_and(|typed| typed.source.is_some());
    match typed.and_then(|typed| typed.kind).map_or("", RawValue::get) {
        r#""image""# | r#""document""# => has_source,
        r#""tool_use""#
        | r#""tool_result""#
        | r#""thinking""#
        | r#""redacted_thinking""#
        | r#""server_tool_use""# => true,
        _ => false,
    }
}

fn lines_are_claude_code(text: &str) -> bool {
    let keys = |line| serde_json::from_str::<Keys<'_>>(line).ok();
    text.lines().filter_map(keys).any(|keys| keys.are_claude_code())
}

/// Returns the first line, if it is a JSON value of its own and others follow.
fn first_json_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().filter(|line| serde_json::from_str::<IgnoredAny>(line).is_ok());
    lines.next().and(first)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    const USER: &str =
        r#"{"type":"user","uuid":"u1","parentUuid":null,"message":{"role":"user","content":"hi"}}"#;

    #[test]
    fn the_format_is_told_by_the_content() {
        for (text, expected) in [
            (r#"{"messages": []}"#.to_owned(), Format::Openai),
            ("{\n \"model\": \"m\",\n \"messages\": [\n]}\n".to_owned(), Format::Openai),
            (r#"[{"role": "user", "content": "cut \ud83d"}]"#.to_owned(), Format::Openai),
            (
                r#"{"system": "s", "messages": [{"role": "user", "content": "hi"}]}"#.to_owned(),
                Format::Anthropic,
            ),
            (
                r#"[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]"#.to_owned(),
                Format::Anthropic,
            ),
            (r#"[{"task_id": 1, "trial": 0, "traj": []}]"#.to_owned(), Format::TauBench),
            (USER.to_owned(), Format::ClaudeCode),
            (format!("{USER}\n{USER}"), Format::ClaudeCode),
            (format!("{USER}{USER}\n{USER}\n{{\"type\":"), Format::ClaudeCode),
            (format!("\u{feff}{{\"type\":\"mode\"}}\r\n{USER}\r\n"), Format::ClaudeCode),
            (r#"{"type":"summary","summary":"s","leafUuid":"x"}"#.to_owned(), Format::ClaudeCode),
            ("{\"type\":\"mode\",\"sessionId\":\"s\"}\n{}".to_owned(), Format::ClaudeCode),
        ] {
            let actual: Vec<Format> =
                read(text.as_bytes(), "file").unwrap().iter().map(|session| session.format).collect();
            assert_eq!(actual, [expected], "{text}");
        }
    }

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let known = "(known: OpenAI messages ({\"messages\": [...]} or the bare list); Anthropic \
            messages ({\"system\", \"messages\": [...]} or the bare list); tau-bench results \
            ([{\"task_id\", \"trial\", \"traj\"}]); Claude Code sessions (JSONL)); convert it to one of these";
        let unknown = format!("f has an unknown format {known}");
        for (bytes, expected) in [
            (&b""[..], "f is empty; was the session written to another file?"),
            (b" \n", "f is empty; was the session written to another file?"),
            (
                b"\x28\xb5\x2f\xfd",
                "f is not text: byte 1 is not UTF-8; sessions are JSON, so unpack or export it first",
            ),
            (b"{}\0", "f is not text: byte 2 is not UTF-8; sessions are JSON, so unpack or export it first"),
            (
                b"{\"messages\": [\n{\"role\": \"us",
                "f is cut off at line 2, column 12: the JSON does not end; copy the whole file",
            ),
            (
                b"[{\"role\": ",
                "f is cut off at line 1, column 10: the JSON does not end; copy the whole file",
            ),
            (
                b"# Notes",
                "f is not JSON at line 1, column 1: expected value at line 1 column 1; fix it there, or export the session again",
            ),
            (b"{\"a\": 1}", &unknown),
            (b"[]", &unknown),
            (b"7", &unknown),
            (b"{\"a\": 1}\n{\"b\": 1}\n", &unknown),
            (
                br#"{"messages": [{"role": "user", "content": "hi"}, {"content": "hi"}]}"#,
                "f: entry 1 of `messages` is not a message: `role` is missing; fix that entry, or read the file as another format",
            ),
            (
                br#"[{"task_id": 3, "trial": 0, "traj": [{"role": "user", "content": 5}]}]"#,
                "f: entry 0 of `task3.trial0.traj` is not a message: `content` must be a string, a list of parts or null; fix that entry, or read the file as another format",
            ),
            (
                br#"{"messages": 5}"#,
                "f violates its format at line 1, column 14: invalid type: integer `5`, expected a sequence at \
                line 1 column 14; fix it there, or read it as another format",
            ),
        ] {
            let actual = read(bytes, "f").unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_format_that_is_named_is_not_guessed() {
        for (format, text, expected) in [
            (Format::ClaudeCode, "[]\n5", TranscriptError::unknown("f").to_string()),
            (
                Format::Openai,
                "{}",
                "f violates its format at line 1, column 2: missing field `messages` at line 1 column 2; fix it there, or read it as another format".into(),
            ),
            (
                Format::Openai,
                r#"{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}"#,
                "f: entry 0 of `messages` is not a message: `content[0].type` is `tool_result`, a block of Anthropic's \
                messages; read them as those; fix that entry, or read the file as another format"
                    .into(),
            ),
            (
                Format::Anthropic,
                r#"{"messages": [{"role": "tool", "content": "x"}]}"#,
                "f: entry 0 of `messages` is not a message: `role` is `tool` (expected one of user and assistant); fix that entry, or read the file as another format".into(),
            ),
        ] {
            let actual = read_as(format, text.as_bytes(), "f").unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }
}
