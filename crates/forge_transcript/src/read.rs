//! Reading sessions, and telling their formats apart.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::{Format, Session, TranscriptError, anthropic, claude_code, openai, tau_bench};

/// Reads the sessions in `bytes`, whatever their format. `origin` names the file in errors, and a session that has no
/// name of its own.
///
/// # Errors
/// [`TranscriptError`] with what is wrong and where. A last line that is cut off is none: it is counted.
pub fn read(bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    let text = text(bytes, origin)?;
    read_text(detect(text, origin)?, text, origin)
}

/// Reads the sessions in `bytes`, which are of `format`.
///
/// # Errors
/// As [`read`].
pub fn read_as(format: Format, bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    read_text(format, text(bytes, origin)?, origin)
}

fn read_text(format: Format, text: &str, origin: &str) -> Result<Vec<Session>, TranscriptError> {
    match format {
        Format::Openai => openai::read(text, origin),
        Format::Anthropic => anthropic::read(text, origin),
        Format::TauBench => tau_bench::read(text, origin),
        Format::ClaudeCode => claude_code::read(text, origin),
    }
}

/// `bytes` as text. Half a character at the very end is dropped: the file was cut there, which its reader notices.
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
            _ => Err(TranscriptError::unknown(origin)),
        };
    }
    match serde_json::from_str::<Keys<'_>>(text) {
        Ok(Keys { messages: Some(messages), system, .. }) => {
            let entries: Vec<&RawValue> = serde_json::from_str(messages.get()).unwrap_or_default();
            Ok(messages_format(&entries, system.is_some()))
        }
        Ok(keys) if keys.are_claude_code() => Ok(Format::ClaudeCode),
        Ok(_) => Err(TranscriptError::unknown(origin)),
        Err(_) if lines_are_claude_code(text) => Ok(Format::ClaudeCode),
        Err(source) if source.is_data() || has_json_lines(text) => Err(TranscriptError::unknown(origin)),
        Err(source) => Err(TranscriptError::json(origin, source)),
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
        match self.kind.map(RawValue::get) {
            Some(r#""user""# | r#""assistant""#) => {
                self.message.is_some_and(|message| message.get().starts_with('{'))
            }
            Some(r#""summary""#) => self.leaf.is_some(),
            Some(_) => self.session.is_some(),
            None => false,
        }
    }
}

/// Which protocol's messages `entries` are. What both could have said counts as OpenAI's.
fn messages_format(entries: &[&RawValue], has_system: bool) -> Format {
    #[derive(Deserialize)]
    struct Entry<'a> {
        #[serde(borrow)]
        role: Option<&'a RawValue>,
        tool_calls: Option<IgnoredAny>,
        #[serde(borrow)]
        content: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a RawValue>,
    }
    let is_exchange = |block: &&RawValue| {
        let typed: Option<Typed<'_>> = serde_json::from_str(block.get()).ok();
        let kind = typed.and_then(|typed| typed.kind).map(RawValue::get);
        matches!(kind, Some(r#""tool_use""# | r#""tool_result""# | r#""thinking""#))
    };
    let mut has_exchange = false;
    for entry in entries {
        let Ok(entry) = serde_json::from_str::<Entry<'_>>(entry.get()) else { return Format::Openai };
        let role = entry.role.map(RawValue::get);
        if entry.tool_calls.is_some() || !matches!(role, Some(r#""user""# | r#""assistant""#)) {
            return Format::Openai;
        }
        let content = entry.content.map_or("", RawValue::get);
        if !has_exchange && content.starts_with('[') {
            let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
            has_exchange = blocks.iter().any(is_exchange);
        }
    }
    if has_system || has_exchange { Format::Anthropic } else { Format::Openai }
}

fn lines_are_claude_code(text: &str) -> bool {
    let keys = |line| serde_json::from_str::<Keys<'_>>(line).ok();
    text.lines().filter_map(keys).any(|keys| keys.are_claude_code())
}

/// Whether the first line is a JSON value of its own, and others follow.
fn has_json_lines(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().is_some_and(|line| serde_json::from_str::<IgnoredAny>(line).is_ok());
    first && lines.next().is_some()
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
        let known = "known are: OpenAI messages ({\"messages\": [...]} or the bare list); Anthropic \
            messages ({\"system\", \"messages\": [...]} or the bare list); tau-bench results \
            ([{\"task_id\", \"trial\", \"traj\"}]); Claude Code sessions (JSONL); convert it to one of these";
        let unknown = format!("f is of no format known here; {known}");
        for (bytes, expected) in [
            (&b""[..], "f is empty; was the session written to another file?"),
            (b" \n", "f is empty; was the session written to another file?"),
            (
                b"\x28\xb5\x2f\xfd",
                "f is no text: byte 1 is not UTF-8; sessions are JSON, so unpack or export it first",
            ),
            (b"{}\0", "f is no text: byte 2 is not UTF-8; sessions are JSON, so unpack or export it first"),
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
                "f is not JSON at line 1, column 1: expected value at line 1 column 1; mend it there, or export the session again",
            ),
            (b"{\"a\": 1}", &unknown),
            (b"[]", &unknown),
            (b"7", &unknown),
            (b"{\"timestamp\":\"t\",\"type\":\"session_meta\",\"payload\":{}}\n{}\n", &unknown),
            (
                br#"{"messages": [{"role": "user", "content": "hi"}, {"content": "hi"}]}"#,
                "f: entry 1 of `messages` is no message: `role` is missing; mend that entry, or read the file as another format",
            ),
            (
                br#"[{"task_id": 3, "trial": 0, "traj": [{"role": "user", "content": 5}]}]"#,
                "f: entry 0 of `task3.trial0.traj` is no message: `content` must be a string, a list of parts or null; mend that entry, or read the file as another format",
            ),
            (
                br#"{"messages": 5}"#,
                "f is not what its format has at line 1, column 14: invalid type: integer `5`, expected a sequence at \
                line 1 column 14; mend it there, or read it as another format",
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
                "f is not what its format has at line 1, column 2: missing field `messages` at line 1 column 2; mend it there, or read it as another format".into(),
            ),
            (
                Format::Openai,
                r#"{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}"#,
                "f: entry 0 of `messages` is no message: `content[0].type` is `tool_result`, a block of Anthropic's \
                messages; read them as those; mend that entry, or read the file as another format"
                    .into(),
            ),
            (
                Format::Anthropic,
                r#"{"messages": [{"role": "tool", "content": "x"}]}"#,
                "f: entry 0 of `messages` is no message: `role` is `tool`; known are user and assistant; mend that entry, or read the file as another format".into(),
            ),
        ] {
            let actual = read_as(format, text.as_bytes(), "f").unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }
}
