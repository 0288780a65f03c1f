//! The body of an error, in whichever of its many dialects.

use serde_json::Value;

use crate::WireError;

/// What a server says went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorBody {
    /// The server's words, at most some 500 characters; empty where it says nothing.
    pub message: String,
    /// Its word for the kind of error (`context_length_exceeded`), else the error's type, status or number.
    pub code: Option<String>,
}

/// The most characters of a server's words that are passed on.
const WORDS: usize = 500;

/// Reads the body of an answer whose status tells of an error. What is not JSON is taken as the words themselves.
pub fn read_error(body: &[u8]) -> ErrorBody {
    match serde_json::from_slice(body) {
        Ok(body) => ErrorBody { message: bounded(&message(&body)), code: code(&body) },
        Err(_) => ErrorBody { message: bounded(&String::from_utf8_lossy(body)), code: None },
    }
}

/// The error that `body` is, where it is one in spite of its good status.
pub(super) fn refused(body: &Value) -> Option<WireError> {
    let error = body.get("error").is_some_and(|error| !error.is_null());
    let named = body.get("object").and_then(Value::as_str) == Some("error");
    (error || named).then(|| WireError::Refused { message: bounded(&message(body)) })
}

fn message(body: &Value) -> String {
    let said = words(body).unwrap_or_else(|| body.to_string());
    // A router's own words ("Provider returned error") say nothing; those of the server behind it are in `raw`.
    match body.pointer("/error/metadata/raw").and_then(Value::as_str) {
        Some(raw) => format!("{said}: {raw}"),
        None => said,
    }
}

/// The first words in `value`, by the keys under which servers put them.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.trim().is_empty()).then(|| text.clone()),
        Value::Array(items) => items.iter().find_map(words),
        Value::Object(_) => ["error", "message", "detail", "msg", "errors"]
            .iter()
            .find_map(|key| value.get(key).and_then(words)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn code(body: &Value) -> Option<String> {
    let body = body.get(0).unwrap_or(body);
    let found: Vec<&Value> = ["/error/code", "/error/type", "/error/status", "/code", "/type"]
        .iter()
        .filter_map(|place| body.pointer(place))
        .collect();
    let word = found.iter().find_map(|value| value.as_str().map(str::to_owned));
    word.or_else(|| found.iter().find(|value| value.is_number()).map(ToString::to_string))
}

fn bounded(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_servers_words_are_found_in_every_dialect() {
        let long = "x".repeat(600);
        let cut = format!("{}…", "x".repeat(500));
        for (body, message, code) in [
            (
                r#"{"error": {"message": "too long", "type": "invalid", "code": "context_length_exceeded"}}"#,
                "too long",
                Some("context_length_exceeded"),
            ),
            (r#"{"error": {"message": "no", "type": "invalid", "code": null}}"#, "no", Some("invalid")),
            (r#"{"error": {"code": 400, "message": "no", "status": "BAD"}}"#, "no", Some("BAD")),
            (r#"[{"error": {"code": 404, "message": "gone"}}]"#, "gone", Some("404")),
            (r#"{"error": "model not found"}"#, "model not found", None),
            (r#"{"message": "Unauthorized"}"#, "Unauthorized", None),
            (
                r#"{"object": "error", "message": {"detail": [{"msg": "extra"}]}, "type": "t"}"#,
                "extra",
                Some("t"),
            ),
            (r#"{"detail": "Not Found"}"#, "Not Found", None),
            (r#"{"detail": [{"loc": ["body"], "msg": "field required"}]}"#, "field required", None),
            (
                r#"{"error": {"message": "Provider returned error", "metadata": {"raw": "slow down"}}}"#,
                "Provider returned error: slow down",
                None,
            ),
            (r#"{"status": 1}"#, r#"{"status":1}"#, None),
            ("upstream connect error\n", "upstream connect error", None),
            ("", "", None),
            (long.as_str(), cut.as_str(), None),
        ] {
            let actual = read_error(body.as_bytes());
            let expected = ErrorBody { message: message.into(), code: code.map(Into::into) };
            assert_eq!(actual, expected, "{body}");
        }
    }
}
