//! The arguments of a call, checked against the tool's own schema, with errors that a model can act on.

use serde_json::{Map, Value};

/// Arguments of which every name is known to the tool.
#[derive(Debug)]
pub(super) struct Arguments {
    fields: Map<String, Value>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ArgumentsError {
    #[error("the arguments are not JSON ({why}); write an object with {known}")]
    NotJson { why: String, known: String },
    #[error("the arguments must be a JSON object with {known}")]
    NotAnObject { known: String },
    #[error("unknown argument `{name}`; known are {known}")]
    Unknown { name: String, known: String },
    #[error("`{name}` is missing")]
    Missing { name: &'static str },
    #[error("`{name}` must be a text that is not empty, not {actual}")]
    NotText { name: &'static str, actual: Value },
    #[error("`{name}` must be a whole number from 1, not {actual}")]
    NotCount { name: &'static str, actual: Value },
}

impl Arguments {
    /// Reads `text`, which a model wrote, for a tool whose arguments have the JSON Schema `parameters`. No text at all
    /// means no arguments; so does `null` for one of them.
    pub(super) fn parse(text: &str, parameters: &Value) -> Result<Self, ArgumentsError> {
        let names: Vec<&str> = parameters["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.as_str())
            .collect();
        let known = || names.join(", ");
        if text.trim().is_empty() {
            return Ok(Self { fields: Map::new() });
        }
        let value: Value = serde_json::from_str(text)
            .map_err(|error| ArgumentsError::NotJson { why: error.to_string(), known: known() })?;
        let Value::Object(fields) = value else {
            return Err(ArgumentsError::NotAnObject { known: known() });
        };
        match fields.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(ArgumentsError::Unknown { name: name.clone(), known: known() }),
            None => Ok(Self { fields }),
        }
    }

    /// A text that may be left out.
    pub(super) fn text(&self, name: &'static str) -> Result<Option<&str>, ArgumentsError> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if !text.is_empty() => Ok(Some(text)),
            Some(actual) => Err(ArgumentsError::NotText { name, actual: actual.clone() }),
        }
    }

    /// A text that must be there.
    pub(super) fn required_text(&self, name: &'static str) -> Result<&str, ArgumentsError> {
        self.text(name)?.ok_or(ArgumentsError::Missing { name })
    }

    /// A whole number from 1 that may be left out.
    pub(super) fn count(&self, name: &'static str) -> Result<Option<u64>, ArgumentsError> {
        match self.fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(actual) => match actual.as_u64() {
                Some(count) if count >= 1 => Ok(Some(count)),
                _ => Err(ArgumentsError::NotCount { name, actual: actual.clone() }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<(String, Option<u64>), ArgumentsError> {
        let parameters = json!({"type": "object", "properties": {"path": {}, "offset": {}}});
        let arguments = Arguments::parse(text, &parameters)?;
        Ok((arguments.required_text("path")?.to_owned(), arguments.count("offset")?))
    }

    #[test]
    fn arguments_are_read_or_refused_with_the_reason() {
        for (text, expected) in [
            (r#"{"path": "a"}"#, Ok(("a", None))),
            (r#"{"path": "a", "offset": 3}"#, Ok(("a", Some(3)))),
            (r#"{"path": "a", "offset": null}"#, Ok(("a", None))),
            ("", Err("`path` is missing")),
            ("{}", Err("`path` is missing")),
            (r#"{"pth": "a"}"#, Err("unknown argument `pth`; known are path, offset")),
            (r#"{"path": 7}"#, Err("`path` must be a text that is not empty, not 7")),
            (r#"{"path": ""}"#, Err(r#"`path` must be a text that is not empty, not """#)),
            (r#"{"path": "a", "offset": 0}"#, Err("`offset` must be a whole number from 1, not 0")),
            (r#"{"path": "a", "offset": "3"}"#, Err(r#"`offset` must be a whole number from 1, not "3""#)),
            (r#"["a"]"#, Err("the arguments must be a JSON object with path, offset")),
            (
                r#"{"path": "#,
                Err("the arguments are not JSON (EOF while parsing a value at line 1 column 9); \
                     write an object with path, offset"),
            ),
        ] {
            let actual = read(text).map_err(|error| error.to_string());
            let expected = expected.map(|(path, offset)| (path.to_owned(), offset)).map_err(str::to_owned);
            assert_eq!(actual, expected, "{text}");
        }
    }
}
