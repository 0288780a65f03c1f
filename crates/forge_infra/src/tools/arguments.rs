//! The arguments of a call as a model wrote them, checked against the tool's own schema. Faults are described
//! so that the model can fix them.

use boon::{
    CompileError, Compiler, ErrorKind, InstanceLocation, InstanceToken, SchemaIndex, Schemas, UrlLoader,
    ValidationError,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Arguments that the tool's schema allows.
#[derive(Clone, Debug)]
pub(super) struct Arguments(Value);

/// The reason why arguments cannot be used, as a text for the model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ArgumentsError {
    #[error("the arguments are not JSON ({why}); write an object with {known}")]
    NotJson { why: String, known: String },
    #[error("the arguments must be a JSON object with {known}")]
    NotAnObject { known: String },
    #[error("{}", .0.join("; "))]
    Refused(Vec<String>),
}

/// The most faults that are reported at once.
const MOST_FAULTS: usize = 5;
/// The most characters of a value that are quoted.
const MOST_SHOWN: usize = 60;

impl Arguments {
    /// Reads `text`, which a model wrote, for a tool whose arguments have the JSON Schema `parameters`.
    pub(super) fn parse(text: &str, parameters: &Value) -> Result<Self, ArgumentsError> {
        validate(text, parameters).map(|fields| Self(Value::Object(fields)))
    }

    /// Returns the arguments as the tool's own type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, ArgumentsError> {
        T::deserialize(&self.0).map_err(|error| ArgumentsError::Refused(vec![error.to_string()]))
    }

    /// Returns one of them, if it is a text.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }
}

/// Returns the arguments in `text`, which a model wrote, for a tool whose arguments have the JSON Schema
/// `schema`.
///
/// Common mistakes of models are corrected if they can mean only one thing. An empty text means no arguments,
/// and `null` that an argument is left out. A number, `true` or `false` in quotes is that value; a number in
/// place of a text is its digits; a list or an object in quotes is parsed, and one item in place of a list is
/// a list of it. An invalid schema allows everything: its server checks for itself.
pub(crate) fn validate(text: &str, schema: &Value) -> Result<Map<String, Value>, ArgumentsError> {
    let known = || known_in(schema);
    let text = if text.trim().is_empty() { "{}" } else { text };
    let mut value: Value = serde_json::from_str(text)
        .map_err(|error| ArgumentsError::NotJson { why: error.to_string(), known: known() })?;
    if let Value::String(quoted) = &value
        && let Ok(object @ Value::Object(_)) = serde_json::from_str(quoted)
    {
        value = object;
    }
    if value.is_null() {
        value = Value::Object(Map::new());
    }
    if !value.is_object() {
        return Err(ArgumentsError::NotAnObject { known: known() });
    }
    put_right(&mut value, schema);
    if let Ok((schemas, root)) = compile(schema)
        && let Err(error) = schemas.validate(&value, root)
    {
        return Err(ArgumentsError::Refused(faults(&error, &value, schema)));
    }
    match value {
        Value::Object(fields) => Ok(fields),
        _ => Err(ArgumentsError::NotAnObject { known: known() }),
    }
}

/// Checks whether the schema allows no argument at all.
fn has_no_properties(schema: &Value) -> bool {
    schema["properties"].as_object().is_none_or(Map::is_empty)
}

/// Returns the names of an object's properties, for the model.
fn known_in(schema: &Value) -> String {
    let names: Vec<&str> =
        schema["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() { "nothing in it".to_owned() } else { names.join(", ") }
}

/// Corrects mistakes that can mean only one thing.
fn put_right(value: &mut Value, schema: &Value) {
    let Some(kind) = schema["type"].as_str() else { return };
    if let (Value::String(text), "array" | "object") = (&*value, kind)
        && let Ok(inner) = serde_json::from_str::<Value>(text)
        && (inner.is_array() && kind == "array" || inner.is_object() && kind == "object")
    {
        *value = inner;
    }
    match (kind, &mut *value) {
        ("object", Value::Object(fields)) => {
            let required = schema["required"].as_array();
            let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
            let takes_null = |name: &str| {
                let kind = &schema["properties"][name]["type"];
                kind == "null" || !kind.is_string()
            };
            fields.retain(|name, field| !field.is_null() || is_required(name) || takes_null(name));
            for (name, field) in fields {
                put_right(field, &schema["properties"][name.as_str()]);
            }
        }
        ("array", Value::Array(items)) => {
            items.iter_mut().for_each(|item| put_right(item, &schema["items"]));
        }
        ("array", only) if !only.is_null() && schema["items"]["type"] == kind_of(only) => {
            *value = Value::Array(vec![only.take()]);
            put_right(value, schema);
        }
        ("integer", number) => {
            let whole = match &*number {
                Value::String(text) => text.trim().parse::<i64>().ok(),
                // 3.0 is a whole number, and typed as one.
                Value::Number(float) if !float.is_i64() && !float.is_u64() => float
                    .as_f64()
                    .filter(|float| float.fract() == 0.0 && float.abs() < 1e15)
                    .map(|float| float as i64),
                _ => None,
            };
            if let Some(whole) = whole {
                *number = whole.into();
            }
        }
        ("number", Value::String(text)) => {
            if let Ok(float) = text.trim().parse::<f64>()
                && let Some(float) = serde_json::Number::from_f64(float)
            {
                *value = Value::Number(float);
            }
        }
        ("boolean", Value::String(text)) => match text.trim().to_ascii_lowercase().as_str() {
            "true" => *value = Value::Bool(true),
            "false" => *value = Value::Bool(false),
            _ => {}
        },
        ("string", Value::Number(number)) => *value = Value::String(number.to_string()),
        ("string", Value::Bool(word)) => *value = Value::String(word.to_string()),
        _ => {}
    }
}

/// Returns the schema's word for the type of `value`.
const fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A loader that loads nothing: a schema comes from a server, and may name no file or address.
struct NoLoader;

impl UrlLoader for NoLoader {
    fn load(&self, url: &str) -> Result<Value, Box<dyn std::error::Error>> {
        Err(format!("{url} is outside the schema").into())
    }
}

/// Returns `schema` ready to validate.
///
/// # Errors
/// The reason, if it is not a schema, or refers to something outside it.
pub(crate) fn compile(schema: &Value) -> Result<(Schemas, SchemaIndex), Box<CompileError>> {
    // Whole, or it would become a path in the working folder, which errors name.
    const ROOT: &str = "file:///schema.json";
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.use_loader(Box::new(NoLoader));
    compiler.add_resource(ROOT, schema.clone()).map_err(Box::new)?;
    let root = compiler.compile(ROOT, &mut schemas).map_err(Box::new)?;
    Ok((schemas, root))
}

/// Describes the faults in `error`, in words that name what to write instead. A name that is unknown comes
/// before one that is missing at the same place: the model may have meant it.
fn faults(error: &ValidationError<'_, '_>, arguments: &Value, schema: &Value) -> Vec<String> {
    let mut leaves = Vec::new();
    collect_leaves(error, &mut leaves);
    let location = |leaf: &ValidationError<'_, '_>| place(&leaf.instance_location);
    for at_one_place in leaves.chunk_by_mut(|last, next| location(last) == location(next)) {
        at_one_place.sort_by_key(|leaf| !matches!(leaf.kind, ErrorKind::AdditionalProperties { .. }));
    }
    let mut faults = Vec::new();
    for leaf in leaves {
        push_fault(leaf, arguments, schema, &mut faults);
    }
    faults.dedup();
    faults.truncate(MOST_FAULTS);
    faults
}

/// Appends the errors that describe a fault themselves to `leaves`: not those that only group others, such as
/// that of a reference.
pub(crate) fn collect_leaves<'e, 's, 'v>(
    error: &'e ValidationError<'s, 'v>,
    leaves: &mut Vec<&'e ValidationError<'s, 'v>>,
) {
    let is_choice = matches!(error.kind, ErrorKind::AnyOf | ErrorKind::OneOf(_));
    if is_choice || error.causes.is_empty() {
        leaves.push(error);
    } else {
        error.causes.iter().for_each(|cause| collect_leaves(cause, leaves));
    }
}

/// Appends a description of `error` alone.
fn push_fault(error: &ValidationError<'_, '_>, arguments: &Value, schema: &Value, faults: &mut Vec<String>) {
    let location = &error.instance_location;
    let at = place(location);
    let inside = |name: &str| if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
    let actual = || shorten(&value_at(arguments, location).to_string());
    faults.push(match &error.kind {
        ErrorKind::Required { want } => {
            faults.extend(want.iter().map(|name| format!("`{}` is missing", inside(name))));
            return;
        }
        ErrorKind::AdditionalProperties { .. } if at.is_empty() && has_no_properties(schema) => {
            "it takes no arguments: write `{}`".to_owned()
        }
        ErrorKind::AdditionalProperties { got } => {
            let names: Vec<String> = got.iter().map(|name| format!("`{}`", inside(name))).collect();
            let arguments = if names.len() == 1 { "argument" } else { "arguments" };
            let known = known_in(schema_at(schema, location));
            format!("unknown {arguments} {} (expected one of {known})", names.join(", "))
        }
        ErrorKind::Type { want, .. } => {
            let wanted = match &schema_at(schema, location)["type"] {
                Value::String(kind) => in_words(kind).to_owned(),
                _ => want.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or "),
            };
            format!("`{at}` must be {wanted}, not {}", actual())
        }
        ErrorKind::FalseSchema if at.is_empty() => "it takes no arguments: write `{}`".to_owned(),
        ErrorKind::MinLength { want: 1, .. } => format!("`{at}` must not be empty"),
        ErrorKind::MinItems { want: 1, .. } => format!("`{at}` must have at least one item"),
        ErrorKind::Minimum { want, .. } => format!("`{at}` must be at least {want}, not {}", actual()),
        ErrorKind::Maximum { want, .. } => format!("`{at}` must be at most {want}, not {}", actual()),
        ErrorKind::Enum { want } => {
            format!("`{at}` must be one of {}, not {}", Value::Array((*want).clone()), actual())
        }
        kind => format!("`{at}`: {}", shorten(&kind.to_string())),
    });
}

/// Returns a place in the arguments as people write it, such as `edits[0].old_text`.
pub(crate) fn place(location: &InstanceLocation<'_>) -> String {
    let mut place = String::new();
    for token in &location.tokens {
        match token {
            InstanceToken::Prop(name) if place.is_empty() => place.push_str(name),
            InstanceToken::Prop(name) => place.push_str(&format!(".{name}")),
            InstanceToken::Item(index) => place.push_str(&format!("[{index}]")),
        }
    }
    place
}

/// Returns the value at that place.
fn value_at<'a>(arguments: &'a Value, location: &InstanceLocation<'_>) -> &'a Value {
    location.tokens.iter().fold(arguments, |value, token| match token {
        InstanceToken::Prop(name) => &value[name.as_ref()],
        InstanceToken::Item(index) => &value[index],
    })
}

/// Returns the part of the schema for that place, if it is plain.
fn schema_at<'a>(schema: &'a Value, location: &InstanceLocation<'_>) -> &'a Value {
    location.tokens.iter().fold(schema, |schema, token| match token {
        InstanceToken::Prop(name) => &schema["properties"][name.as_ref()],
        InstanceToken::Item(_) => &schema["items"],
    })
}

fn in_words(kind: &str) -> &str {
    match kind {
        "string" => "a text",
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        kind => kind,
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "minLength": 1},
                "offset": {"type": "integer", "minimum": 1},
                "share": {"type": "number"},
                "all": {"type": "boolean"},
                "kind": {"enum": ["a", "b"]},
                "edits": {"type": "array", "minItems": 1, "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "all": {"type": "boolean"}},
                    "required": ["old"],
                    "additionalProperties": false
                }},
                "words": {"type": "array", "items": {"type": "string"}},
                "any": {}
            },
            "required": ["path"],
            "additionalProperties": false
        })
    }

    #[test]
    fn what_can_mean_one_thing_only_is_put_right() {
        for (text, expected) in [
            (r#"{"path": "a"}"#, json!({"path": "a"})),
            (r#"{"path": "a", "offset": 3}"#, json!({"path": "a", "offset": 3})),
            (r#"{"path": "a", "offset": null, "any": null}"#, json!({"path": "a", "any": null})),
            (r#"{"path": "a", "offset": "3"}"#, json!({"path": "a", "offset": 3})),
            (r#"{"path": "a", "offset": 3.0}"#, json!({"path": "a", "offset": 3})),
            (r#"{"path": "a", "share": " 0.5 "}"#, json!({"path": "a", "share": 0.5})),
            (r#"{"path": "a", "all": "True"}"#, json!({"path": "a", "all": true})),
            (r#"{"path": 404}"#, json!({"path": "404"})),
            (r#"{"path": "a", "edits": {"old": "x"}}"#, json!({"path": "a", "edits": [{"old": "x"}]})),
            (r#"{"path": "a", "edits": "[{\"old\": 1}]"}"#, json!({"path": "a", "edits": [{"old": "1"}]})),
            (r#"{"path": "a", "words": "one"}"#, json!({"path": "a", "words": ["one"]})),
            (r#""{\"path\": \"a\"}""#, json!({"path": "a"})),
            // A text is a text, whatever it looks like.
            (r#"{"path": "{}"}"#, json!({"path": "{}"})),
            (r#"{"path": "7"}"#, json!({"path": "7"})),
        ] {
            let actual = validate(text, &schema()).map(Value::Object);
            assert_eq!(actual, Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_way_out() {
        for (text, expected) in [
            ("", "`path` is missing"),
            ("null", "`path` is missing"),
            (r#"{"path": null}"#, "`path` must be a text, not null"),
            (r#"{"path": ""}"#, "`path` must not be empty"),
            (r#"{"path": {"a": 1}}"#, r#"`path` must be a text, not {"a":1}"#),
            (
                r#"{"pth": "a", "path": "a"}"#,
                "unknown argument `pth` (expected one of path, offset, share, all, kind, edits, words, any)",
            ),
            (r#"{"path": "a", "offset": 0}"#, "`offset` must be at least 1, not 0"),
            (r#"{"path": "a", "offset": "many"}"#, r#"`offset` must be a whole number, not "many""#),
            (r#"{"path": "a", "offset": 1.5}"#, "`offset` must be a whole number, not 1.5"),
            (r#"{"path": "a", "all": "perhaps"}"#, r#"`all` must be true or false, not "perhaps""#),
            (r#"{"path": "a", "all": 1}"#, "`all` must be true or false, not 1"),
            (r#"{"path": "a", "kind": "c"}"#, r#"`kind` must be one of ["a","b"], not "c""#),
            (r#"{"path": "a", "edits": []}"#, "`edits` must have at least one item"),
            (
                r#"{"path": "a", "edits": [{"old": "x"}, {"new": "y"}]}"#,
                "unknown argument `edits[1].new` (expected one of old, all); `edits[1].old` is missing",
            ),
            (
                r#"["a"]"#,
                "the arguments must be a JSON object with path, offset, share, all, kind, edits, words, any",
            ),
            (
                r#"{"path": "#,
                "the arguments are not JSON (EOF while parsing a value at line 1 column 9); \
                 write an object with path, offset, share, all, kind, edits, words, any",
            ),
        ] {
            let actual = validate(text, &schema()).map_err(|error| error.to_string());
            assert_eq!(actual, Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_schema_that_cannot_be_used_allows_everything() {
        for schema in [json!({"type": "nonsense"}), json!({"$ref": "http://127.0.0.1:9/none"}), json!(7)] {
            assert!(validate(r#"{"a": 1}"#, &schema).is_ok(), "{schema}");
        }
        let refused = validate(r#"{"a": 1}"#, &json!({"type": "object", "additionalProperties": false}));
        assert_eq!(refused.unwrap_err().to_string(), "it takes no arguments: write `{}`");
    }
}
