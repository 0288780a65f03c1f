//! Reading sessions, of a given format or of the one that the content shows.

use std::sync::Arc;

use crate::archive::{is_archive, unpack_archive, with_attachments};
use crate::codec::{
    Evidence, Input, LineCheck, SOME_ENTRIES, document_below, is_packed, readable_lines, unpack,
};
use crate::formats::{codec, formats};
use crate::looks::described;
use crate::mixture::Mixture;
use crate::record::{HeldFile, Shelf};
use crate::{Format, Session, TranscriptError};

/// Reads the sessions in `bytes`, whatever their format. `origin` names the file in errors, and a session
/// that has no name of its own.
///
/// # Errors
/// [`TranscriptError`] with the fault and its place. In a file of lines, one that is cut off or not text is
/// not an error: it is counted.
pub fn read(bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    read_input(None, bytes, origin, Shelf::Small)
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
    read_input(format, file, origin, Shelf::Whole(&HeldFile::new(file)))
}

/// Reads the sessions in `bytes`, which are of `format`.
///
/// # Errors
/// As [`read`].
pub fn read_as(format: Format, bytes: &[u8], origin: &str) -> Result<Vec<Session>, TranscriptError> {
    read_input(Some(format), bytes, origin, Shelf::Small)
}

fn read_input(
    format: Option<Format>,
    bytes: &[u8],
    origin: &str,
    shelf: Shelf<'_>,
) -> Result<Vec<Session>, TranscriptError> {
    let unpacked = match bytes {
        packed if is_packed(packed) => Some(unpack(packed, origin)?),
        archive if is_archive(archive) => Some(unpack_archive(archive, origin)?),
        // What refers to nothing stays so: the log that comes of it has no attachments beside its messages.
        log => with_attachments(log)
            .or_else(|| readable_lines(log).map(String::into_bytes))
            .or_else(|| document_below(log).map(<[u8]>::to_vec)),
    };
    if let Some(file) = unpacked {
        // A file may be made so that it unpacks to itself, without an end.
        if is_packed(bytes) && is_packed(&file) {
            return Err(TranscriptError::Binary { origin: origin.to_owned(), byte: 1, is_zero: false });
        }
        let file = Arc::new(file);
        let is_small = matches!(shelf, Shelf::Small);
        let held = HeldFile::new(&file);
        return read_input(format, &file, origin, if is_small { shelf } else { Shelf::Whole(&held) });
    }
    let said = format;
    let format = format.map_or_else(|| detect(bytes, origin), Ok);
    let sessions = format.and_then(|format| {
        let input = Input { format, bytes, origin, shelf };
        let sessions = codec(format).read(&input)?;
        check_voice(&sessions, origin)?;
        check_mixture(&input)?;
        Ok(sessions)
    });
    sessions.map_err(|error| match (&error, said) {
        (
            TranscriptError::UnknownFormat { .. }
            | TranscriptError::Foreign { .. }
            | TranscriptError::Json { .. }
            | TranscriptError::Shape { .. },
            Some(said),
        ) => other_format(said, bytes, origin, error),
        _ => described(error, bytes),
    })
}

/// Names the format that a file has, if it is another than the one it is said to be.
fn other_format(said: Format, bytes: &[u8], origin: &str, error: TranscriptError) -> TranscriptError {
    match detect(bytes, origin) {
        Ok(other) if other != said => TranscriptError::OtherFormat {
            origin: origin.to_owned(),
            said: said.id(),
            name: other.0.name,
            id: other.id(),
        },
        _ => described(error, bytes),
    }
}

/// Checks that no other format begins in the lines of a file.
fn check_mixture(input: &Input<'_>) -> Result<(), TranscriptError> {
    /// The length from which on a file of one line is a document, in bytes.
    const DOCUMENT: usize = 1 << 20;
    let text = input.text()?;
    if text.len() > DOCUMENT && !text.trim().contains('\n') {
        return Ok(());
    }
    let mut mixture = Mixture::new(codec(input.format));
    let _ = text.lines().all(|line| mixture.look(line));
    mixture.result(input.origin)
}

/// Checks that a file of many records says something: read as another format, it would lose all its messages
/// without a word.
fn check_voice(sessions: &[Session], origin: &str) -> Result<(), TranscriptError> {
    let records = || sessions.iter().flat_map(|session| session.records.iter());
    let entries = records().count();
    match sessions {
        [first, ..] if entries >= SOME_ENTRIES && records().all(|record| record.n_messages() == 0) => {
            let name = first.format.0.name;
            Err(TranscriptError::Mute { origin: origin.to_owned(), name, entries })
        }
        _ => Ok(()),
    }
}

fn detect(bytes: &[u8], origin: &str) -> Result<Format, TranscriptError> {
    let evidence = Evidence::of(bytes);
    match formats().rev().find(|codec| codec.detect(&evidence)) {
        Some(codec) => Ok(codec.format()),
        None => Err(evidence.into_error(origin)),
    }
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
            (r#"{"messages": []}"#.to_owned(), "openai"),
            ("{\n \"model\": \"m\",\n \"messages\": [\n]}\n".to_owned(), "openai"),
            (r#"[{"role": "user", "content": "cut \ud83d"}]"#.to_owned(), "openai"),
            (r#"{"system": "s", "messages": [{"role": "user", "content": "hi"}]}"#.to_owned(), "anthropic"),
            (
                r#"[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}]"#.to_owned(),
                "anthropic",
            ),
            (r#"[{"task_id": 1, "trial": 0, "traj": []}]"#.to_owned(), "tau-bench"),
            (USER.to_owned(), "claude-code"),
            (format!("{USER}\n{USER}"), "claude-code"),
            (format!("{USER}{USER}\n{USER}\n{{\"type\":"), "claude-code"),
            (format!("\u{feff}{{\"type\":\"mode\"}}\r\n{USER}\r\n"), "claude-code"),
            (r#"{"type":"summary","summary":"s","leafUuid":"x"}"#.to_owned(), "claude-code"),
            ("{\"type\":\"mode\",\"sessionId\":\"s\"}\n{}".to_owned(), "claude-code"),
        ] {
            let sessions = read(text.as_bytes(), "file").unwrap();
            let actual: Vec<&str> = sessions.iter().map(|session| session.format.id()).collect();
            assert_eq!(actual, [expected], "{text}");
        }
    }

    #[test]
    fn an_error_says_what_where_and_what_to_do() {
        let way = "write it as {\"messages\": [...]} (`openai`); `forge inspect --help` lists all formats";
        let unknown = |looks: &str| {
            format!("f has an unknown format: it is {looks}\n  help: if it is a session, {way}")
        };
        let prose = "f is text for people, not a session that is read\n  help: take the file in which the agent itself \
            keeps the session, which is JSON; `forge sessions` lists those of this machine";
        for (bytes, expected) in [
            (&b""[..], "f is empty; was the session written to another file?"),
            (b" \n", "f is empty; was the session written to another file?"),
            (b"\x28\xb5\x2f\xfd", "f cannot be unpacked: incomplete frame; copy the whole file"),
            (
                b"\x89PNG",
                "f is not text: byte 0 is not UTF-8; sessions are JSON, so unpack or export it first",
            ),
            (b"{\0\"\0a\0", "f is UTF-16, as PowerShell 5 writes it with `>`; save it as UTF-8"),
            (
                b"{\"messages\": [\n{\"role\": \"user\", \"content\": \"caf\xe9\"}\n]}",
                "f is not text: byte 47 is not UTF-8; sessions are JSON, so unpack or export it first",
            ),
            (b"\xff\xfe{\0}\0", "f is UTF-16, as PowerShell 5 writes it with `>`; save it as UTF-8"),
            (b"{}\0{}", "f is not text: byte 2 is zero; sessions are JSON, so unpack or export it first"),
            (
                b"{\"messages\": [\n{\"role\": \"us",
                "f is cut off at line 2, column 12: the JSON does not end; copy the whole file",
            ),
            (
                b"[{\"role\": ",
                "f is cut off at line 1, column 10: the JSON does not end; copy the whole file",
            ),
            (
                b"{\"messages\": [,]}",
                "f is not JSON at line 1, column 15: expected value; fix it there, or export the session again",
            ),
            (b"# Notes", prose),
            (b"<!-- Written by a tool -->\n\n# Fix it", prose),
            (b"Fix it.", prose),
            (
                b"{\"choices\": []}",
                &format!("f looks like an answer of chat completions, which is not a session\n  help: {way}"),
            ),
            (b"{\"a\": 1}", &unknown("one object with the key `a`")),
            (b"{}", &unknown("an empty object")),
            (b"[]", &unknown("a list without objects")),
            (b"[{\"a\": 1, \"b\": 2}]", &unknown("a list of objects with the keys `a`, `b`")),
            (b"7", &unknown("JSON, and neither an object nor a list")),
            (b"{\"a\": 1}\n{\"b\": 1}\n", &unknown("JSON lines with the key `a`")),
            (
                br#"{"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7}"#,
                &unknown("one object with the keys `a`, `b`, `c`, `d`, `e` and 2 more"),
            ),
            (
                br#"{"question": "q", "history": []}"#,
                &unknown(
                    "one object with the keys `question`, `history`\n  nearest: `who-and-when`, \
                    {\"question\", \"history\": [{\"role\", \"content\"}], \"mistake_agent\"}",
                ),
            ),
            (
                br#"{"messages": [{"role": "user", "content": "hi"}, {"content": "hi"}]}"#,
                "f: entry 1 of `messages` is not a message: `role` is missing; fix that entry, or name another format with `--from`",
            ),
            (
                br#"[{"task_id": 3, "trial": 0, "traj": [{"role": "user", "content": 5}]}]"#,
                "f: entry 0 of `task3.trial0.traj` is not a message: `content` must be a string, a list of parts or null; fix that entry, or name another format with `--from`",
            ),
            (
                br#"{"messages": 5}"#,
                "f violates its format at line 1, column 14: invalid type: integer `5`, expected a \
                sequence; fix it there, or name another format with `--from`",
            ),
        ] {
            let actual = read(bytes, "f").unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_file_that_was_compressed_twice_is_not_read() {
        let session = br#"{"messages": [{"role": "user", "content": "hi"}]}"#;
        let once = zstd::encode_all(session.as_slice(), 3).unwrap();
        assert_eq!(read(&once, "f").unwrap().len(), 1);
        let twice = zstd::encode_all(once.as_slice(), 3).unwrap();
        let error = read(&twice, "f").unwrap_err().to_string();
        assert!(error.starts_with("f is not text: byte 1 is not UTF-8"), "{error}");
    }

    #[test]
    fn a_format_that_is_named_is_not_guessed() {
        let unknown = described(TranscriptError::unknown("f"), b"[]\n5").to_string();
        for (format, text, expected) in [
            ("claude-code", "[]\n5", unknown),
            (
                "codex",
                USER,
                "f is not of the format `codex`: it looks like Claude Code sessions (`claude-code`)\n  help: read it with \
                `--from claude-code`, or omit --from"
                    .into(),
            ),
            (
                "anthropic-lines",
                "{\"role\": \"user\", \"content\": \"a\"}\n{\"role\": \"user\", \"content\": \"b\"}",
                "f is not of the format `anthropic-lines`: it looks like OpenAI messages in lines (`openai-lines`)\n  help: \
                read it with `--from openai-lines`, or omit --from"
                    .into(),
            ),
            (
                "openai",
                USER,
                "f is not of the format `openai`: it looks like Claude Code sessions (`claude-code`)\n  help: read it with \
                `--from claude-code`, or omit --from"
                    .into(),
            ),
            (
                "openai",
                "{}",
                "f violates its format at line 1, column 2: missing field `messages`; fix it there, or name another format with `--from`".into(),
            ),
            (
                "openai",
                r#"{"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}"#,
                "f: entry 0 of `messages` is not a message: `content[0].type` is `tool_result`, a block of Anthropic's \
                messages; fix that entry, or name another format with `--from`"
                    .into(),
            ),
            (
                "anthropic",
                r#"{"messages": [{"role": "tool", "content": "x"}]}"#,
                "f: entry 0 of `messages` is not a message: `role` is `tool` (expected one of user and assistant); fix that entry, or name another format with `--from`".into(),
            ),
        ] {
            let actual = read_as(Format::named(format).unwrap(), text.as_bytes(), "f").unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }
}
