//! The examples that errors give: those of the schema, by the path of the key.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::schema::schema;
use super::yaml::{KeyPath, Step};

/// The schema, which is generated for the first error that needs it.
static SCHEMA: LazyLock<Value> = LazyLock::new(schema);

/// Returns lines that would be right at `path`, in words; for an item of a list, those of the list.
pub(super) fn example(path: &KeyPath) -> Option<String> {
    let n_steps = path.0.iter().rposition(|step| matches!(step, Step::Key(_))).map_or(0, |last| last + 1);
    let (key, examples) = match path.last_key() {
        None => ("agents", examples(&[Step::Key("agents".to_owned())])),
        Some("") => ("name", examples(&path.0[..n_steps])),
        Some(key) => (key, examples(&path.0[..n_steps])),
    };
    let lines = examples.into_iter().map(|value| format!("`{}: {}`", scalar(key), flow(value)));
    let lines: Vec<_> = lines.collect();
    (!lines.is_empty()).then(|| format!("for example {}", lines.join(" or ")))
}

/// Returns the examples of the value to which `steps` lead: its own, or if its name is free, those in the
/// examples of its mapping.
pub(super) fn examples(steps: &[Step]) -> Vec<&'static Value> {
    let mut schemas = vec![&*SCHEMA];
    let mut examples = Vec::new();
    for step in steps {
        schemas = schemas.into_iter().flat_map(|schema| below(schema, step)).collect();
        let own: Vec<_> =
            schemas.iter().filter_map(|schema| schema["examples"].as_array()).flatten().collect();
        examples = if own.is_empty() { examples.into_iter().filter_map(first_part).collect() } else { own };
    }
    examples
}

/// Returns the schemas of the values to which `step` leads from one of `schema`.
fn below(schema: &'static Value, step: &Step) -> Vec<&'static Value> {
    let named =
        schema["$ref"].as_str().and_then(|reference| SCHEMA.pointer(reference.trim_start_matches('#')));
    let kinds = ["anyOf", "allOf", "oneOf"].iter().filter_map(|word| schema[*word].as_array()).flatten();
    let mut found: Vec<_> = named.into_iter().chain(kinds).flat_map(|part| below(part, step)).collect();
    match step {
        Step::Item(_) => found.extend(schema.get("items")),
        Step::Key(key) => match schema["properties"].get(key) {
            Some(value) => found.push(value),
            None => {
                found.extend(schema.get("additionalProperties"));
                found
                    .extend(schema["patternProperties"].as_object().into_iter().flat_map(|all| all.values()));
            }
        },
    }
    found
}

/// Returns the first value in a mapping or list.
fn first_part(example: &Value) -> Option<&Value> {
    match example {
        Value::Object(entries) => entries.values().next(),
        Value::Array(items) => items.first(),
        _ => None,
    }
}

/// Renders a value as YAML in one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => scalar(text),
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Renders a text as a scalar: in quotes if it has an unusual character, or would be read as anything else.
fn scalar(text: &str) -> String {
    let is_usual = text.chars().all(|c| c.is_alphanumeric() || " _-./:~$%".contains(c));
    let is_read_again =
        || serde_saphyr::from_str::<Value>(&format!("[{text}]")).is_ok_and(|value| value == json!([text]));
    if is_usual && is_read_again() { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn keys(path: &str) -> KeyPath {
        let step = |name: &str| name.parse().map_or_else(|_| Step::Key(name.to_owned()), Step::Item);
        KeyPath(path.split('/').filter(|name| !name.is_empty()).map(step).collect())
    }

    #[test]
    fn an_example_is_that_of_the_place() {
        for (path, expected) in [
            ("", "`agents: { researcher: { model: gpt-4o } }`"),
            ("agents/a", "`a: { model: gpt-4o }`"),
            ("agents/0", "`agents: { researcher: { model: gpt-4o } }`"),
            ("agents/0/tools/2", "`tools: [read, list]`"),
            ("agents/a b/id", "`id: researcher`"),
            ("models/m/price/input", "`input: 2.5`"),
            ("models/m/price/long_prompt/input", "`input: 5`"),
            ("agents/a/transforms/0/input", "`input: asked`"),
            ("agents/a/transforms/0/user/input", "`input: asked`"),
            ("checkpoint", "`checkpoint: { interval: 3 }`"),
            ("hooks/checkpoint", "`checkpoint: [{ command: ./check.sh, timeout: 10s }]`"),
            ("hooks/pre_compact/1/timeout", "`timeout: 10s`"),
            ("tool_settings/shell/timeout", "`timeout: 5m`"),
            ("agents/a/compact/strategies/1/sliding_window/keep_last", "`keep_last: 8`"),
            ("agents/a/compact/max_tokens", "`max_tokens: 50%` or `max_tokens: 4000`"),
            ("permissions/read", "`read: ask` or `read: { 'cargo *': allow }`"),
            ("permissions/read/*.rs", "`'*.rs': allow`"),
            ("mcp_servers/s/env/KEY", "`KEY: $TEAM_TOKEN`"),
        ] {
            assert_eq!(example(&keys(path)), Some(format!("for example {expected}")), "{path}");
        }
        for unknown in ["gateway", "agents/a/compact/gateway/x", "agents/a/compact/strategies/0/truncation"] {
            assert_eq!(example(&keys(unknown)), None, "{unknown}");
        }
    }

    #[test]
    fn a_text_has_quotes_only_where_yaml_needs_them() {
        for (text, expected) in [
            ("gpt-4o", "gpt-4o"),
            ("--verbose", "--verbose"),
            ("http://localhost:8080/v1", "http://localhost:8080/v1"),
            ("~/.npmrc", "~/.npmrc"),
            ("80%", "80%"),
            ("two words", "two words"),
            ("", "''"),
            ("~", "'~'"),
            ("true", "'true'"),
            ("12", "'12'"),
            ("1.5", "'1.5'"),
            ("a: b", "'a: b'"),
            ("- a", "'- a'"),
            (" a", "' a'"),
            ("it's", "'it''s'"),
            ("{{event.value}}", "'{{event.value}}'"),
        ] {
            assert_eq!(scalar(text), expected, "{text}");
            assert_eq!(serde_saphyr::from_str::<Value>(&flow(&json!([text]))).unwrap(), json!([text]));
        }
    }
}
