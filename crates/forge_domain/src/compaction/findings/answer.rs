//! Answers in JSON that say that their call failed.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::pattern::{Pattern, any_of, matches};

/// An answer in JSON that says that its call failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FailedAnswer {
    /// Its reason, in its own words.
    pub(super) why: Option<String>,
}

/// Longer answers are data.
const MOST_BYTES: usize = 16_384;
/// An object with more fields is about something that has an error, rather than an error.
const MOST_FIELDS: usize = 4;

impl FailedAnswer {
    /// Reads it from a text; `None` if that is not a JSON object, or reports no failure.
    pub(super) fn of(text: &str) -> Option<Self> {
        let text = text.trim();
        if !text.starts_with('{') || !text.ends_with('}') || text.len() > MOST_BYTES {
            return None;
        }
        let value: Value = serde_json::from_str(text).ok()?;
        let fields = value.as_object()?;
        let says_so = denies_success(fields) || fields.len() <= MOST_FIELDS && is_an_error(fields);
        says_so.then(|| Self { why: why(&value) })
    }
}

/// Checks whether a text begins as an answer that says that its call failed: its end may be cut off, or
/// another text may follow it.
pub(super) fn begins_as_failed(text: &str) -> bool {
    text.trim_start().starts_with('{') && matches(&FAILED_BEGINNING, text)
}

static FAILED_BEGINNING: Pattern = LazyLock::new(|| {
    any_of(
        "",
        &[r#"\A\s*\{[^{}\[\]]{0,400}"(?:(?:success|ok)"\s*:\s*false\b|status"\s*:\s*"(?:error|fail))"#],
    )
});

/// Checks for a field by which an answer says that it is a failure.
fn denies_success(fields: &Map<String, Value>) -> bool {
    let is = |names: [&str; 2], value: bool| {
        names.iter().any(|name| fields.get(*name) == Some(&Value::Bool(value)))
    };
    let status = fields.get("status").and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase();
    is(["success", "ok"], false)
        || is(["isError", "is_error"], true)
        || ["error", "fail", "denied", "rejected"].iter().any(|word| status.starts_with(word))
}

/// Checks whether an answer is nothing but an error.
fn is_an_error(fields: &Map<String, Value>) -> bool {
    let number = |name: &str| fields.get(name).and_then(Value::as_u64);
    let has_code = ["code", "status", "statusCode", "status_code"]
        .iter()
        .any(|name| number(name).is_some_and(|code| (400..600).contains(&code)));
    let counts = || fields.values().filter_map(Value::as_u64);
    let is_said = |value: &Value| match value {
        Value::String(said) => !said.trim().is_empty() && !said.eq_ignore_ascii_case("none"),
        Value::Array(all) => !all.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    };
    let has_error = ["error", "errors"].iter().any(|name| fields.get(*name).is_some_and(is_said));
    // Of several, some may have succeeded.
    let all_failed = number("failed").is_some_and(|failed| failed > 0 && counts().sum::<u64>() == failed);
    has_code || has_error || all_failed
}

/// Returns the message of an error, in whatever field it is.
pub(super) fn why(value: &Value) -> Option<String> {
    const NAMES: [&str; 8] =
        ["error", "errors", "message", "detail", "reason", "description", "content", "text"];
    match value {
        Value::String(said) => Some(said.trim().to_owned()).filter(|said| !said.is_empty()),
        Value::Array(all) => all.iter().find_map(why),
        Value::Object(fields) => NAMES.iter().find_map(|name| why(fields.get(*name)?)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_answer_in_json_says_that_its_call_failed() {
        let failed = |why: &str| Some(Some(why.to_owned()));
        for (text, expected) in [
            (r#"{"content":[{"type":"text","text":"No rights."}],"isError":true}"#, failed("No rights.")),
            (r#"{"error":"quota exceeded"}"#, failed("quota exceeded")),
            (r#"{"data":null,"errors":[{"message":"no such field"}]}"#, failed("no such field")),
            (r#"{"type":"error","error":{"type":"x","message":"late"}}"#, failed("late")),
            (r#"{"code":403,"message":"Forbidden"}"#, failed("Forbidden")),
            (r#"{"status":"FAILED","id":7}"#, Some(None)),
            (r#"{"applied":0,"failed":2}"#, Some(None)),
            (r#"{"success":false,"a":1,"b":2,"c":3,"message":"no"}"#, failed("no")),
            (r#"{"applied":3,"failed":2}"#, None),
            (r#"{"error":null,"result":[1]}"#, None),
            (r#"{"id":1,"title":"a","state":"open","owner":"b","error":"late"}"#, None),
            (r#"{"code":200}"#, None),
            (r#"[{"error":"late"}]"#, None),
            ("{error", None),
        ] {
            assert_eq!(FailedAnswer::of(text).map(|answer| answer.why), expected, "{text}");
        }
    }

    #[test]
    fn the_beginning_of_an_answer_says_that_its_call_failed() {
        assert!(FAILED_BEGINNING.is_some());
        for (text, expected) in [
            (r#"{"success": false, "error": "la"#, true),
            ("{\"status\":\"error\"}\nThat is all.", true),
            (r#"{"ok":true}"#, false),
            (r#"{"rows":[{"ok":false}]}"#, false),
            (r#"[{"ok":false}]"#, false),
        ] {
            assert_eq!(begins_as_failed(text), expected, "{text}");
        }
    }
}
