//! The arguments of calls in the form that servers take back: a JSON object.
//!
//! Small models write broken JSON. Servers that render a history by a chat template parse it, and refuse
//! every later request of the conversation if they cannot.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// Returns arguments as an object. What is not one is put, as text, under `input`.
pub(crate) fn arguments_object(arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(Value::Object(fields)) => Value::Object(fields),
        _ if arguments.trim().is_empty() => Value::Object(Map::new()),
        _ => json!({"input": arguments}),
    }
}

/// Returns the text of [`arguments_object`]: as it is, if it is an object.
fn arguments_text(arguments: &str) -> Cow<'_, str> {
    let is_object = serde_json::from_str::<Map<String, Value>>(arguments).is_ok();
    if is_object { arguments.into() } else { arguments_object(arguments).to_string().into() }
}

/// Replaces arguments in a message that is sent by their text as an object, if they are not one.
pub(crate) fn correct_arguments(arguments: &mut Value) {
    if let Value::String(arguments) = arguments
        && let Cow::Owned(object) = arguments_text(arguments)
    {
        *arguments = object;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_an_object() {
        for (arguments, expected) in [
            (r#"{"a": 1}"#, r#"{"a": 1}"#),
            ("", "{}"),
            ("[1]", r#"{"input":"[1]"}"#),
            (r#"{"command": "echo hi"#, r#"{"input":"{\"command\": \"echo hi"}"#),
        ] {
            assert_eq!(arguments_text(arguments), expected);
            assert_eq!(arguments_object(arguments), serde_json::from_str::<Value>(expected).unwrap());
        }
    }
}
