//! What a scripted server answers, request by request.

use serde_json::Value;

/// How one chat request is answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A text.
    Text(String),
    /// Tool calls, each a name and its arguments as JSON text.
    Calls(Vec<(String, String)>),
    /// A text and tool calls in one reply.
    Both {
        /// What is said.
        text: String,
        /// The calls, each a name and its arguments as JSON text.
        calls: Vec<(String, String)>,
    },
    /// A text and tool calls that reach the limit of the output, the last of them perhaps in its middle.
    Cut {
        /// What is said; may be empty.
        text: String,
        /// The calls, each a name and its arguments as far as they came.
        calls: Vec<(String, String)>,
    },
    /// A status with a body sent as JSON; 200 makes it a whole answer to whoever asked for a stream.
    Status {
        /// HTTP status.
        status: u16,
        /// The body as it is sent.
        body: String,
    },
    /// A status with headers of its own and a body.
    Headed {
        /// HTTP status.
        status: u16,
        /// Names and values.
        headers: Vec<(String, String)>,
        /// The body as it is sent, as JSON.
        body: String,
    },
    /// Part of a stream; then this event, as it is; then the body ends.
    StreamEvent(String),
    /// The connection is closed before anything is sent.
    HangUp,
    /// Tool calls, sent a byte at a time.
    Drip(Vec<(String, String)>),
    /// Part of a stream; then the body ends as if it were complete.
    CutStream,
    /// Part of a stream; then the connection breaks in the middle of the body.
    BreakStream,
    /// A stream of events that are no JSON.
    Garbage,
    /// Part of a stream; then silence until the client goes away.
    Hang,
    /// The first half of a text; the rest when the server is told to go on.
    Held(String),
}

/// A script that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub struct ScriptError(String);

impl std::fmt::Display for ScriptError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptError {}

impl Step {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// Tool calls, each a name and its arguments as JSON text.
    pub fn calls(calls: &[(&str, &str)]) -> Self {
        Self::Calls(owned(calls))
    }

    /// A text and tool calls in one reply.
    pub fn both(text: impl Into<String>, calls: &[(&str, &str)]) -> Self {
        Self::Both { text: text.into(), calls: owned(calls) }
    }

    /// A reply that reaches the limit of the output.
    pub fn cut(text: impl Into<String>, calls: &[(&str, &str)]) -> Self {
        Self::Cut { text: text.into(), calls: owned(calls) }
    }

    /// A refusal with `status` and `body`.
    pub fn status(status: u16, body: impl Into<String>) -> Self {
        Self::Status { status, body: body.into() }
    }

    /// Reads a script: a JSON list whose entries are
    /// `{"text": "…"}`, `{"calls": [{"name": "…", "arguments": {…}}]}`, both keys in one, with `"cut": true` where it reaches the
    /// limit of the output,
    /// `{"status": 429, "body": …}`, or one of `"cut_stream"`, `"break_stream"`, `"garbage"`, `"hang"`.
    /// Arguments that are a string are sent literally.
    ///
    /// # Errors
    /// [`ScriptError`] that names the entry.
    pub fn read_script(json: &str) -> Result<Vec<Self>, ScriptError> {
        let script: Vec<Value> = serde_json::from_str(json)
            .map_err(|error| ScriptError(format!("the script is no JSON list: {error}")))?;
        script
            .iter()
            .map(|entry| step(entry).ok_or_else(|| ScriptError(format!("no step: {entry}"))))
            .collect()
    }
}

fn owned(calls: &[(&str, &str)]) -> Vec<(String, String)> {
    calls.iter().map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned())).collect()
}

fn step(entry: &Value) -> Option<Step> {
    match entry.as_str() {
        Some("cut_stream") => return Some(Step::CutStream),
        Some("break_stream") => return Some(Step::BreakStream),
        Some("garbage") => return Some(Step::Garbage),
        Some("hang") => return Some(Step::Hang),
        Some(_) => return None,
        None => {}
    }
    if let Some(status) = entry["status"].as_u64() {
        return Some(Step::Status { status: status.try_into().ok()?, body: literal(&entry["body"]) });
    }
    let calls = entry["calls"].as_array().map(|calls| calls.iter().map(call).collect::<Option<Vec<_>>>());
    if entry["cut"] == true {
        let text = entry["text"].as_str().unwrap_or_default().to_owned();
        return Some(Step::Cut { text, calls: calls.unwrap_or_else(|| Some(Vec::new()))? });
    }
    match (entry["text"].as_str(), calls) {
        (Some(text), None) => Some(Step::text(text)),
        (None, Some(calls)) => Some(Step::Calls(calls?)),
        (Some(text), Some(calls)) => Some(Step::Both { text: text.to_owned(), calls: calls? }),
        (None, None) => None,
    }
}

fn call(call: &Value) -> Option<(String, String)> {
    Some((call["name"].as_str()?.to_owned(), literal(&call["arguments"])))
}

/// A string as it is, anything else as JSON.
fn literal(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_script_is_read_from_json() {
        let actual = Step::read_script(
            r#"[{"text": "a"}, {"calls": [{"name": "read", "arguments": {"path": "b"}}]},
                {"text": "c", "calls": [{"name": "list", "arguments": "{"}]},
                {"calls": [{"name": "write", "arguments": "{\"p"}], "cut": true},
                {"status": 429, "body": {"error": 1}}, "cut_stream", "break_stream", "garbage", "hang"]"#,
        );
        let expected = vec![
            Step::text("a"),
            Step::calls(&[("read", r#"{"path":"b"}"#)]),
            Step::both("c", &[("list", "{")]),
            Step::cut("", &[("write", "{\"p")]),
            Step::status(429, r#"{"error":1}"#),
            Step::CutStream,
            Step::BreakStream,
            Step::Garbage,
            Step::Hang,
        ];
        assert_eq!(actual, Ok(expected));
    }

    #[test]
    fn what_is_no_step_is_named() {
        for (script, expected) in [
            (r#"["nap"]"#, r#"no step: "nap""#),
            (r#"[{"say": "a"}]"#, r#"no step: {"say":"a"}"#),
            (r#"[{"calls": [{"arguments": {}}]}]"#, r#"no step: {"calls":[{"arguments":{}}]}"#),
        ] {
            assert_eq!(Step::read_script(script), Err(ScriptError(expected.to_owned())));
        }
    }
}
