//! Compactions that Forge appended to a file, and the way back.

use forge_domain::Replacement;
use jiff::Timestamp;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::codec::{Addition, Revision, is_packed};
use crate::formats::codec;
use crate::mark::{MARK, Mark, mark_of};
use crate::{Draft, RewriteError};

/// The reasons why a compaction cannot be taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing was appended.
    #[error("the file has no compaction that `forge compact --in-place` appended")]
    Nothing,
    /// There are lines after those that were appended.
    #[error(
        "its agent has continued the session and wrote {lines} after the compaction, which undoing would lose"
    )]
    Continued {
        /// The number of lines, in words.
        lines: String,
        /// The length of the file before the compaction.
        bytes: usize,
    },
    /// The file differs before the lines that were appended.
    #[error("the lines before the compaction were changed since, so the earlier file cannot be restored")]
    Changed,
}

impl Draft<'_> {
    /// Returns the bytes to append to `bytes`, the file that the session was read from: a compaction in its
    /// agent's own form. If there is nothing to replace, there are none.
    ///
    /// # Errors
    /// [`RewriteError`] if the format has no such record, the file is compressed, or a message has no form in
    /// that format.
    pub fn addition(
        &self,
        bytes: &[u8],
        replacements: &[Replacement],
        pre_tokens: u64,
        now: Timestamp,
    ) -> Result<Vec<u8>, RewriteError> {
        if is_packed(bytes) {
            return Err(RewriteError::Append(
                "the file is compressed; unpack it first with `zstd -d` or `gunzip`",
            ));
        }
        let addition = Addition { revision: self.revision(bytes, replacements), now, pre_tokens };
        let lines = codec(self.format()).append(&addition)?;
        if bytes.trim_ascii_start().starts_with(b"[") {
            return Err(RewriteError::Append(
                "the file is one list, which its agent does not read; `jq -c '.[]' FILE` makes lines of it",
            ));
        }
        if replacements.is_empty() {
            return Ok(Vec::new());
        }
        let mut out = Vec::new();
        if !bytes.ends_with(b"\n") {
            out.push(b'\n');
        }
        let mark = json!({ "lines": lines.len(), "bytes": bytes.len(), "sha256": sha256(bytes) });
        for (place, line) in lines.iter().enumerate() {
            let Some(open) = line.strip_suffix('}') else { return Err(RewriteError::OtherFile) };
            let mark = if place == 0 { mark.to_string() } else { "null".to_owned() };
            out.extend_from_slice(format!("{open},{MARK}{mark}}}}}\n").as_bytes());
        }
        Ok(out)
    }

    fn revision<'l>(&'l self, bytes: &'l [u8], replacements: &'l [Replacement]) -> Revision<'l> {
        Revision {
            session: self.session,
            nth: self.nth,
            start: self.start,
            items: &self.items,
            lines: self.lines(replacements),
            bytes,
            to: self.format(),
        }
    }
}

/// Returns the file as it was before the compaction that was appended to it last.
///
/// # Errors
/// [`UndoError`] if there is none, or more than its lines would be lost.
pub fn undo_appended(bytes: &[u8]) -> Result<&[u8], UndoError> {
    let mut end = bytes.len();
    let mut after = 0;
    while end > 0 {
        let start = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = std::str::from_utf8(&bytes[start..end]).unwrap_or_default();
        if let Some(Some(mark)) = mark_of(line) {
            return before(bytes, start, after, &mark);
        }
        after += 1;
        end = start;
    }
    Err(UndoError::Nothing)
}

/// Returns what precedes the line at `start`, which `mark` marks and `after` lines follow.
fn before<'b>(bytes: &'b [u8], start: usize, after: usize, mark: &Mark) -> Result<&'b [u8], UndoError> {
    let earlier = bytes.get(..mark.bytes).filter(|_| mark.bytes <= start).ok_or(UndoError::Changed)?;
    if bytes[mark.bytes..start].iter().any(|byte| *byte != b'\n') || sha256(earlier) != mark.sha256 {
        return Err(UndoError::Changed);
    }
    match (after + 1).saturating_sub(mark.lines) {
        0 => Ok(earlier),
        more => {
            let lines = forge_domain::quantity(more, "line");
            Err(UndoError::Continued { lines, bytes: mark.bytes })
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use forge_domain::{ContextMessage, Message, MessageId, TokenCounter, Tokens};
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::read::read;

    const CLAUDE: &str = r#"{"type":"user","uuid":"u1","parentUuid":null,"sessionId":"s","cwd":"/w","message":{"role":"user","content":"task"}}
{"type":"assistant","uuid":"u2","parentUuid":"u1","sessionId":"s","message":{"role":"assistant","id":"m","content":[{"type":"tool_use","id":"c","name":"t","input":{"a":1}}],"usage":{"input_tokens":90000}}}
{"type":"user","uuid":"u3","parentUuid":"u2","sessionId":"s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"out"}]}}
"#;
    const CODEX: &str = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"s","cwd":"/w","base_instructions":{"text":"rules"}}}
{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"task"}]}}
{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"custom_tool_call","call_id":"c","id":"x","name":"t","input":"a"}}
{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c","output":"out"}}
"#;
    const PI: &str = r#"{"type":"session","version":3,"id":"s","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}
{"type":"message","id":"a1","parentId":null,"timestamp":"2026-01-01T00:00:00Z","message":{"role":"user","content":[{"type":"text","text":"task"}]}}
{"type":"message","id":"a2","parentId":"a1","timestamp":"2026-01-01T00:00:00Z","message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"t","arguments":{"a":1}}]}}
{"type":"message","id":"a3","parentId":"a2","timestamp":"2026-01-01T00:00:00Z","message":{"role":"toolResult","toolCallId":"c","toolName":"t","content":[{"type":"text","text":"out"}]}}
"#;

    struct OneEach;

    impl TokenCounter for OneEach {
        fn count(&self, _text: &str) -> Tokens {
            Tokens::new(1)
        }
    }

    /// Appends a record in place of the user's first message, and shortens the result if `shortened`.
    fn append(bytes: &[u8], shortened: bool) -> Vec<u8> {
        let session = read(bytes, "f").unwrap().remove(0);
        let draft = Draft::open(&session, 0);
        let messages: Vec<Message> = draft.messages().collect();
        let counted = |message: Message| ContextMessage::count(message, &OneEach);
        let id = |wanted: &dyn Fn(&Message) -> bool| {
            MessageId::new(messages.iter().position(wanted).unwrap() as u64)
        };
        let user = id(&|message| message.role() == forge_domain::Role::User);
        let record = Message::user("the record").compacted();
        let mut replacements = vec![Replacement { replaces: vec![user], with: vec![counted(record)] }];
        if shortened {
            let result = id(&|message| message.role() == forge_domain::Role::Tool);
            let less = messages[result.as_u64() as usize].with_content("[cleared]");
            replacements.push(Replacement { replaces: vec![result], with: vec![counted(less)] });
        }
        [bytes, &draft.addition(bytes, &replacements, 7, Timestamp::UNIX_EPOCH).unwrap()].concat()
    }

    fn texts(bytes: &[u8]) -> Vec<String> {
        let session = read(bytes, "f").unwrap().remove(0);
        let draft = Draft::open(&session, 0);
        assert_eq!(draft.repairs(), []);
        let said = |message: Message| {
            let calls: Vec<String> = message.calls().iter().map(|call| call.name.to_string()).collect();
            format!("{}:{}{}", message.role().as_str(), message.to_text(), calls.concat())
        };
        draft.messages().filter(|message| message.role().as_str() != "system").map(said).collect()
    }

    #[test]
    fn what_was_appended_is_read_as_the_compacted_session() {
        for file in [CLAUDE, CODEX, PI] {
            for (shortened, result) in [(false, "tool:out"), (true, "tool:[cleared]")] {
                let after = append(file.as_bytes(), shortened);
                assert!(after.starts_with(file.as_bytes()));
                assert_eq!(texts(&after), ["user:the record", "assistant:t", result], "{file}");
                assert_eq!(undo_appended(&after).unwrap(), file.as_bytes());
            }
        }
    }

    #[test]
    fn the_session_before_the_compaction_is_still_there() {
        for file in [CLAUDE, CODEX, PI] {
            let before = read(file.as_bytes(), "f").unwrap().remove(0);
            let after = read(&append(file.as_bytes(), true), "f").unwrap().remove(0).before_compaction();
            assert_eq!(Draft::messages_of(&after), Draft::messages_of(&before), "{file}");
        }
    }

    #[test]
    fn each_compaction_is_taken_back_by_itself() {
        for file in [CLAUDE, CODEX, PI] {
            // An end of line that was missing is missing again.
            let file = file.trim_end().as_bytes();
            let once = append(file, true);
            let twice = append(&once, false);
            assert_eq!(texts(&twice), ["user:the record", "assistant:t", "tool:[cleared]"]);
            assert_eq!(undo_appended(&twice).unwrap(), once);
            assert_eq!(undo_appended(&once).unwrap(), file);
        }
    }

    #[test]
    fn nothing_is_appended_to_a_list_of_records() {
        let records: Vec<&str> = CODEX.lines().collect();
        let list = format!("[{}]", records.join(","));
        let session = read(list.as_bytes(), "f").unwrap().remove(0);
        let added = Draft::open(&session, 0).addition(list.as_bytes(), &[], 7, Timestamp::UNIX_EPOCH);
        let error = added.unwrap_err().to_string();
        assert!(error.contains("the file is one list"), "{error}");
    }

    #[test]
    fn a_compaction_is_not_taken_back_where_something_would_be_lost() {
        for file in [CLAUDE, CODEX, PI] {
            let after = append(file.as_bytes(), false);
            let more = [&after[..], b"{\"type\":\"mode\"}\n"].concat();
            let changed = [b" ", &after[..]].concat();
            for (bytes, expected) in [
                (file.as_bytes(), "the file has no compaction that `forge compact --in-place` appended"),
                (
                    &more,
                    "its agent has continued the session and wrote 1 line after the compaction, which undoing would lose",
                ),
                (
                    &changed,
                    "the lines before the compaction were changed since, so the earlier file cannot be restored",
                ),
            ] {
                assert_eq!(undo_appended(bytes).unwrap_err().to_string(), expected);
            }
        }
    }
}
