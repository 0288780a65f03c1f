//! The body of an error, in whichever of its many dialects.

use std::time::Duration;

use serde_json::Value;

use crate::wait;

/// A server's description of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorBody {
    /// The server's message, at most about 500 characters; empty if it sent none.
    pub message: String,
    /// The server's word for the kind of error (`context_length_exceeded`), else the error's type, status or
    /// number.
    pub code: Option<String>,
    /// Every word of its for the kind of error, in lower case.
    pub(crate) kinds: Vec<String>,
    /// The HTTP status in the body, which routers send inside a stream that began well.
    pub(crate) status: Option<u16>,
    /// The wait that the server asks for, if it is in a field of its own.
    pub(crate) wait: Option<Duration>,
    /// Tokens of the prompt and of the window, if they are in fields of their own.
    pub(crate) figures: (Option<u64>, Option<u64>),
    /// All its words, in lower case and with single blanks, for those who look for meaning in them.
    pub(crate) text: String,
}

/// The most characters of a server's words that are passed on.
const WORDS: usize = 500;

/// Reads the body of a response with an error status. Text that is not JSON is the message itself.
pub fn read_error(body: &[u8]) -> ErrorBody {
    match serde_json::from_slice(body) {
        Ok(body) => error_of(&body),
        Err(_) => {
            let text = String::from_utf8_lossy(body);
            let error = text_error(&text);
            match page_title(&text) {
                Some(title) => ErrorBody { message: shorten(&title), ..error },
                None => error,
            }
        }
    }
}

/// Returns the title of a web page, as a proxy sends one in place of the server; `None` of anything else.
fn page_title(text: &str) -> Option<String> {
    // As long as the text itself, so that places in one are places in the other.
    let lower = text.to_ascii_lowercase();
    let is_page = ["<!doctype html", "<html"].iter().any(|start| lower.trim_start().starts_with(start));
    let tag = lower.find("<title")?;
    let start = tag + lower[tag..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = decode_entities(&text[start..end]);
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    (is_page && !title.is_empty()).then_some(title)
}

/// The characters that titles of pages have by a name.
const ENTITIES: [(&str, char); 9] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("nbsp", ' '),
    ("ndash", '–'),
    ("mdash", '—'),
    ("middot", '·'),
];

/// Returns `text` with the characters that its entities stand for. Unknown ones stay.
fn decode_entities(text: &str) -> String {
    let mut parts = text.split('&');
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let entity = part.split_once(';').and_then(|(name, rest)| Some((entity_char(name)?, rest)));
        match entity {
            Some((character, rest)) => {
                decoded.push(character);
                decoded.push_str(rest);
            }
            None => {
                decoded.push('&');
                decoded.push_str(part);
            }
        }
    }
    decoded
}

/// Returns the character that an entity stands for, by its name or its number.
fn entity_char(name: &str) -> Option<char> {
    let Some(number) = name.strip_prefix('#') else {
        return ENTITIES.iter().find(|(known, _)| *known == name).map(|(_, character)| *character);
    };
    let code = match number.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    code.ok().and_then(char::from_u32)
}

/// Returns the error in `body`, if it is one in spite of its successful status.
pub(crate) fn refused(body: &Value) -> Option<ErrorBody> {
    // A stream of Gemini's that is refused as a whole is a list.
    let body = body.get(0).unwrap_or(body);
    let error = body.get("error").is_some_and(|error| !error.is_null());
    let named = ["object", "type"].iter().any(|key| body.get(*key).and_then(Value::as_str) == Some("error"));
    (error || named).then(|| error_of(body))
}

/// Returns an error of which only the text is known.
fn text_error(text: &str) -> ErrorBody {
    let words: Vec<_> = text.split_whitespace().map(str::to_lowercase).collect();
    ErrorBody { message: shorten(text), text: words.join(" "), ..ErrorBody::default() }
}

/// Returns the error that `body` describes. An event of a response that failed has it inside, and so has the
/// error of a server that stands before another one (Lemonade).
pub(crate) fn error_of(body: &Value) -> ErrorBody {
    let body = body.get(0).unwrap_or(body);
    let inner = body.get("response").or_else(|| body.pointer("/error/details/response"));
    let body = inner.filter(|response| response["error"].is_object()).unwrap_or(body);
    let found: Vec<&Value> =
        ["/error/code", "/error/type", "/error/status", "/error/error_type", "/code", "/type", "/error_type"]
            .iter()
            .filter_map(|place| body.pointer(place))
            .collect();
    let details =
        body.pointer("/error/details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let in_details = |key: &str| details.iter().find_map(|detail| detail.get(key)?.as_str());
    let words: Vec<&str> =
        found.iter().filter_map(|value| value.as_str()).chain(in_details("reason")).collect();
    let number = found.iter().find_map(|value| value.as_u64());
    let figure = |keys: [&str; 2]| {
        let places = [body.get("error"), body.pointer("/error/metadata"), Some(body)];
        places.into_iter().flatten().find_map(|place| keys.iter().find_map(|key| place.get(key)?.as_u64()))
    };
    ErrorBody {
        code: words.first().map(|&word| word.to_owned()).or_else(|| number.map(|number| number.to_string())),
        kinds: words.iter().map(|word| word.to_lowercase()).collect(),
        status: number.and_then(|number| u16::try_from(number).ok()).filter(|n| (400..600).contains(n)),
        wait: in_details("retryDelay").and_then(wait::of_text),
        figures: (figure(["n_prompt_tokens", "prompt_tokens"]), figure(["n_ctx", "max_context_length"])),
        ..text_error(&message(body))
    }
}

fn message(body: &Value) -> String {
    let said = words(body).unwrap_or_else(|| body.to_string());
    // A router's own message ("Provider returned error") is useless; that of the server behind it is in
    // `raw`.
    match body.pointer("/error/metadata/raw").and_then(Value::as_str) {
        Some(raw) => format!("{said}: {raw}"),
        None => said,
    }
}

/// Returns the first text in `value`, under the keys that servers use for it.
fn words(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => (!text.trim().is_empty()).then(|| text.clone()),
        Value::Array(items) => items.iter().find_map(words),
        Value::Object(_) => {
            let said = ["error", "message", "detail", "msg", "errors"]
                .iter()
                .find_map(|key| value.get(key).and_then(words))?;
            Some(match place(&value["loc"]) {
                Some(place) => format!("{place}: {said}"),
                None => said,
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Returns the path of the field that a server complains about, such as `body.stream_options`.
fn place(path: &Value) -> Option<String> {
    let parts = path.as_array()?.iter().map(|part| match part {
        Value::String(name) => name.clone(),
        part => part.to_string(),
    });
    let place = parts.collect::<Vec<_>>().join(".");
    (!place.is_empty()).then_some(place)
}

fn shorten(text: &str) -> String {
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
            (
                r#"{"detail": [{"loc": ["body", "messages", 0], "msg": "field required"}]}"#,
                "body.messages.0: field required",
                None,
            ),
            (
                r#"{"error": {"message": "Provider returned error", "metadata": {"raw": "slow down"}}}"#,
                "Provider returned error: slow down",
                None,
            ),
            (r#"{"status": 1}"#, r#"{"status":1}"#, None),
            ("upstream connect error\n", "upstream connect error", None),
            (
                "<html>\r\n<head><title>502 Bad\n Gateway</title></head>\r\n<body>nginx</body></html>",
                "502 Bad Gateway",
                None,
            ),
            ("<!DOCTYPE html><TITLE lang=en>Gone</TITLE>", "Gone", None),
            (
                "<html><title>Bob&#39;s&nbsp;R&amp;D &#x2014; &lt;&amp;lt;&gt; &bull; A&B; 1 & 2 &#0x;</title>",
                "Bob's R&D — <&lt;> &bull; A&B; 1 & 2 &#0x;",
                None,
            ),
            ("<html><body>no title</body></html>", "<html><body>no title</body></html>", None),
            ("no page: <title>x</title>", "no page: <title>x</title>", None),
            ("", "", None),
            (long.as_str(), cut.as_str(), None),
        ] {
            let actual = read_error(body.as_bytes());
            assert_eq!((actual.message.as_str(), actual.code.as_deref()), (message, code), "{body}");
        }
    }
}
