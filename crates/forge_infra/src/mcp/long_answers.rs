//! Answers that are too long to be read: each is followed by an error, so that its call ends at once.

use std::io;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};

/// The words of the error after an answer that is too long.
pub(super) const TOO_LONG: &str = "its answer has more than 16 MiB";
/// The most bytes of a line; its reader discards a longer one, and its call would wait for the answer.
pub(super) const MOST_OF_A_LINE: usize = rmcp::transport::async_rw::DEFAULT_MAX_LINE_LENGTH;
/// The most bytes of an id, and of a key that is compared.
const MOST_OF_A_WORD: usize = 256;

/// Passes the lines of a server on, and after an answer of more than `most` bytes an error with its id.
///
/// # Errors
/// That of either end.
pub(super) async fn pass_lines(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    most: usize,
) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let (mut length, mut outline) = (0, Outline::default());
    loop {
        let read = from.fill_buf().await?;
        if read.is_empty() {
            return Ok(());
        }
        let end = read.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
        let piece = &read[..end.unwrap_or(read.len())];
        piece.iter().for_each(|byte| outline.look(*byte));
        to.write_all(piece).await?;
        let n_bytes = piece.len();
        from.consume(n_bytes);
        length += n_bytes;
        if end.is_some() {
            let id = std::mem::take(&mut outline).answered_id();
            if let Some(id) = id.filter(|_| length > most) {
                let error = json!({"code": -32603, "message": TOO_LONG});
                let line = format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error}));
                to.write_all(line.as_bytes()).await?;
            }
            length = 0;
        }
    }
}

/// The outer keys of a JSON object whose bytes pass, as far as they tell which request it answers.
#[derive(Default)]
struct Outline {
    depth: usize,
    is_in_text: bool,
    is_escaped: bool,
    /// The outer key whose value passes.
    key: Vec<u8>,
    /// The beginning of the next key, or of the value.
    word: Vec<u8>,
    id: Vec<u8>,
    /// True if it is a request, or a notice.
    is_request: bool,
}

impl Outline {
    /// Looks at the next byte.
    fn look(&mut self, byte: u8) {
        if self.is_in_text {
            self.keep(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_in_text = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    self.end_value();
                }
            }
            b':' if self.depth == 1 => self.key = std::mem::take(&mut self.word),
            b',' if self.depth == 1 => self.end_value(),
            byte if !byte.is_ascii_whitespace() => {
                self.is_in_text = byte == b'"';
                self.keep(byte);
            }
            _ => {}
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.word.len() < MOST_OF_A_WORD {
            self.word.push(byte);
        }
    }

    fn end_value(&mut self) {
        match self.key.as_slice() {
            b"\"id\"" => self.id = std::mem::take(&mut self.word),
            b"\"method\"" => self.is_request = true,
            _ => {}
        }
        self.word.clear();
        self.key.clear();
    }

    /// Returns the id of the request that the object answers; `None` if it is no answer.
    fn answered_id(self) -> Option<Value> {
        let id: Value = serde_json::from_slice(&self.id).ok()?;
        (!self.is_request && !id.is_null()).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_followed_by_an_error() {
        let long = "x".repeat(100);
        let nested = r#"{"id": 9, "text": "\",\"id\":8}"}"#;
        for (line, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#.to_owned(), None),
            (format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{long}"}}}}"#), Some(json!(1))),
            (format!(r#" {{ "result" : [{nested}, "{long}"] , "id" : "a\"b" }} "#), Some(json!("a\"b"))),
            (format!(r#"{{"error":{{"id":7,"message":"{long}"}},"id":2}}"#), Some(json!(2))),
            (format!(r#"{{"id":1,"method":"sampling/createMessage","params":["{long}"]}}"#), None),
            (format!(r#"{{"method":"notifications/message","params":["{long}"]}}"#), None),
            (format!(r#"{{"id":null,"result":["{long}"]}}"#), None),
            (format!("not JSON {long}"), None),
        ] {
            let sent = format!("{line}\n{{\"id\":3}}\nunfinished");
            let mut passed = Vec::new();
            pass_lines(sent.as_bytes(), &mut passed, 100).await.unwrap();
            let error = expected.map(|id| {
                let error = json!({"code": -32603, "message": TOO_LONG});
                format!("{}\n", json!({"jsonrpc": "2.0", "id": id, "error": error}))
            });
            let expected = format!("{line}\n{}{{\"id\":3}}\nunfinished", error.unwrap_or_default());
            assert_eq!(String::from_utf8(passed).unwrap(), expected);
        }
    }
}
