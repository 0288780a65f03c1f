//! The JSON Schema of a workflow, for editors: derived from the types that the loader fills.

use forge_domain::Workflow;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

/// Returns the JSON Schema (draft 7, which editors know best) of a `forge.yaml`.
///
/// Keys, kinds of values and descriptions are those of the types and of their doc comments; defaults are
/// and examples are attributes of the fields. It demands no more than the loader and `check` do, but for one
/// thing: it wants no quotes around numbers and `true`, where the loader passes over them.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft07().into_generator().into_root_schema_for::<Workflow>().to_value();
    if let Value::Object(root) = &mut schema {
        root.insert("title".to_owned(), json!("forge.yaml"));
        // The description of the top, and the place of all others in it, is no matter of the text but of the
        // file.
        root.insert(
            "description".to_owned(),
            json!("The configuration of Forge. `forge config check` reports errors in it."),
        );
    }
    depend(&mut schema);
    take_any_text(&mut schema);
    tidy(&mut schema);
    schema
}

/// Adds the demands of one key on another, as `check` has them.
fn depend(schema: &mut Value) {
    let needs = json!({
        "max_messages": ["message_threshold"],
        "max_turns": ["turn_threshold"],
        "prompt": ["model"],
        "summary_tag": ["model"],
        "summary_max_tokens": ["model"],
    });
    let has = |strategies: &[&str]| {
        let named = strategies
            .iter()
            .flat_map(|id| [json!({ "const": id }), json!({ "type": "object", "required": [id] })]);
        json!({ "type": "array", "contains": { "anyOf": named.collect::<Vec<_>>() } })
    };
    let summaries_need_a_model = json!({
        "if": { "required": ["strategies"], "properties": { "strategies": has(&["summarization"]) } },
        "then": { "required": ["model"] },
    });
    let a_focus_needs_who_heeds_it = json!({
        "if": {
            "required": ["focus", "strategies"],
            "properties": { "focus": { "type": "string" }, "strategies": { "type": "array" } },
        },
        "then": { "properties": { "strategies": has(&["summarization", "extraction"]) } },
    });
    if let Some(Value::Object(compact)) = schema.pointer_mut("/definitions/Compact") {
        compact.insert("dependencies".to_owned(), needs);
        compact.insert("allOf".to_owned(), json!([summaries_need_a_model, a_focus_needs_who_heeds_it]));
    }
    for list in ["/definitions/Compact/properties/strategies", "/definitions/Agent/properties/tools"] {
        if let Some(Value::Object(list)) = schema.pointer_mut(list) {
            list.insert("uniqueItems".to_owned(), json!(true));
        }
    }
}

/// Allows a number, `true` or `false` wherever any text is allowed: YAML distinguishes these by quotes, and
/// the loader accepts them as they are written. A text of one form alone, such as `80%`, stays a text.
fn take_any_text(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(take_any_text),
        Value::Object(schema) => {
            let is_any = !["enum", "const"].iter().any(|word| schema.contains_key(*word))
                && schema.get("pattern").is_none_or(|pattern| pattern == NOT_BLANK);
            if let Some(kind) = schema.get_mut("type").filter(|kind| is_any && is_text(kind)) {
                let kinds = kind.as_array().cloned().unwrap_or_else(|| vec![kind.clone()]);
                *kind = kinds.into_iter().chain([json!("number"), json!("boolean")]).collect();
            }
            let parts = schema.iter_mut().filter(|(key, _)| *key != "default" && *key != "examples");
            parts.for_each(|(_, part)| take_any_text(part));
        }
        _ => {}
    }
}

/// The pattern of a text that must not be blank.
const NOT_BLANK: &str = r"\S";

/// Checks whether a schema's `type` is a text, or a text or nothing.
fn is_text(kind: &Value) -> bool {
    *kind == json!("string") || *kind == json!(["string", "null"])
}

/// Makes texts one line each, and drops what editors cannot use.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(tidy),
        Value::Object(schema) => {
            // The width of a Rust number is not a format that an editor knows.
            schema.remove("format");
            if let Some(Value::String(description)) = schema.get_mut("description") {
                *description = plain(description);
            }
            schema.iter_mut().filter(|(key, _)| *key != "default" && *key != "examples").for_each(
                |(_, value)| {
                    tidy(value);
                },
            );
        }
        _ => {}
    }
}

/// Returns a doc comment as one line of plain text: links to types lose their brackets.
fn plain(description: &str) -> String {
    description.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use forge_domain::{Budget, ChatOptions, Compact, ModelLimits, Tokens};
    use pretty_assertions::assert_eq;
    use serde_json::Map;

    use super::super::example::examples;
    use super::super::yaml::Step;
    use super::super::{Layers, Source, WorkflowError, load, reader};
    use super::*;
    use crate::ApproximateCounter;

    /// A mapping of the schema: its keys, and its place in a workflow.
    struct Mapping {
        path: Vec<String>,
        keys: Map<String, Value>,
        required: Vec<String>,
    }

    /// Returns every mapping with keys of its own, from the top down as a workflow nests them.
    fn mappings(schema: &Value) -> Vec<Mapping> {
        let mut found = Vec::new();
        walk(schema, schema, Vec::new(), &mut found);
        found
    }

    fn walk(root: &Value, schema: &Value, path: Vec<String>, found: &mut Vec<Mapping>) {
        let below = |step: &str| path.iter().cloned().chain([step.to_owned()]).collect::<Vec<_>>();
        if let Some(reference) = schema["$ref"].as_str() {
            return walk(root, root.pointer(&reference[1..]).unwrap(), path, found);
        }
        for word in ["anyOf", "allOf", "oneOf"] {
            for part in schema[word].as_array().into_iter().flatten() {
                walk(root, part, path.clone(), found);
            }
        }
        if schema["items"].is_object() {
            walk(root, &schema["items"], below("[]"), found);
        }
        for part in schema["patternProperties"].as_object().into_iter().flat_map(Map::values) {
            walk(root, part, below("*"), found);
        }
        if schema["additionalProperties"].is_object() {
            walk(root, &schema["additionalProperties"], below("*"), found);
        }
        if let Some(keys) = schema["properties"].as_object() {
            for (key, part) in keys {
                walk(root, part, below(key), found);
            }
            let required = schema["required"].as_array().into_iter().flatten();
            let required = required.map(|key| key.as_str().unwrap().to_owned()).collect();
            found.push(Mapping { path, keys: keys.clone(), required });
        }
    }

    /// Returns a workflow with `value` at `path`; a `*` is any name.
    fn nest(path: &[String], value: Value) -> Value {
        match path.split_first() {
            None => value,
            Some((step, rest)) if step == "[]" => json!([nest(rest, value)]),
            Some((step, rest)) => {
                json!({ if step == "*" { "researcher" } else { step.as_str() }: nest(rest, value) })
            }
        }
    }

    /// Returns the keys that the loader names when it refuses an unknown one.
    fn known_to_the_loader(path: &[String]) -> BTreeSet<String> {
        let yaml = nest(path, json!({ "∅": 1 })).to_string();
        let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
        let error = load(&layers).unwrap_err();
        assert_eq!(&*error.what, "unknown field `∅`", "at {path:?}: {error}");
        let hint = error.hint.unwrap_or_default();
        let list = hint.strip_prefix("use one of ").or_else(|| hint.strip_prefix("the only valid one is "));
        list.into_iter()
            .flat_map(|list| list.split(", "))
            .map(|key| key.trim_matches('`').to_owned())
            .collect()
    }

    #[test]
    fn the_schema_has_every_key_that_the_loader_knows_and_no_other() {
        let mappings = mappings(&schema());
        assert!(mappings.len() >= 10, "{} mappings", mappings.len());
        for mapping in mappings {
            // The strategies of `strategies` are words as well as keys: `Rung::IDS` has them.
            if mapping.path.last().is_some_and(|step| step == "[]") && mapping.keys.contains_key("truncation")
            {
                continue;
            }
            let actual: BTreeSet<_> = mapping.keys.keys().cloned().collect();
            let expected = known_to_the_loader(&mapping.path);
            assert_eq!(
                actual, expected,
                "the schema (left) and the loader (right) differ at {:?}",
                mapping.path
            );
        }
    }

    #[test]
    fn every_key_has_a_description_an_example_and_says_what_it_is_where_it_is_left_out() {
        let mut faults = Vec::new();
        for mapping in mappings(&schema()) {
            let is_list_of_strategies = mapping.keys.contains_key("truncation");
            for (key, value) in mapping.keys.iter().filter(|_| !is_list_of_strategies) {
                let path = [mapping.path.join("."), key.clone()].join(".");
                let description = value["description"].as_str().unwrap_or_default();
                if description.is_empty() {
                    faults.push(format!("`{path}` has no description: give its field a doc comment"));
                }
                if value["examples"].as_array().is_none_or(Vec::is_empty) {
                    faults.push(format!(
                        "`{path}` has no example: write `#[schemars(extend(\"examples\" = […]))]` on its field"
                    ));
                }
                let says_so = ["efault", "nset", "unset", "its key says it already"];
                let is_said = says_so.iter().any(|word| description.contains(word));
                if value.get("default").is_none() && !mapping.required.contains(key) && !is_said {
                    faults.push(format!(
                        "`{path}` does not say what holds where it is left out: write \
                         `#[schemars(extend(\"default\" = …))]` on its field, or \"Unset: …\" in its doc comment"
                    ));
                }
            }
        }
        faults.sort();
        faults.dedup();
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn every_example_is_accepted_and_printed_in_its_place() {
        for mapping in mappings(&schema()) {
            for (key, value) in &mapping.keys {
                let steps = mapping.path.iter().chain([key]).map(|step| match step.as_str() {
                    "[]" => Step::Item(0),
                    step => Step::Key(step.to_owned()),
                });
                let own = value["examples"].as_array().into_iter().flatten();
                assert!(own.clone().eq(examples(&steps.collect::<Vec<_>>())), "{:?} {key}", mapping.path);
                for example in own {
                    let yaml = nest(&mapping.path, json!({ key: example })).to_string();
                    let start = yaml.rfind(&json!({ key: example }).to_string()).unwrap();
                    let (_, faults) = reader::read_on(&Source::new("forge.yaml", yaml));
                    // What the mapping around it lacks is no fault of the example.
                    let is_inside = |fault: &WorkflowError| fault.position.unwrap().column > start + 1;
                    let faults: Vec<_> = faults.into_iter().filter(is_inside).collect();
                    assert_eq!(faults, Vec::new());
                }
            }
        }
    }

    #[test]
    fn a_default_written_out_is_the_same_as_leaving_it_out() {
        let model = serde_json::from_value(json!({ "provider": "p", "model": "m" })).unwrap();
        let options = ChatOptions::new(model);
        let limits = ModelLimits { window: Tokens::new(12_345), max_output: None };
        let budget = Budget::new(limits, options, Vec::new(), &ApproximateCounter);
        let resolved = |compact: Value| {
            let compact: Compact = serde_json::from_value(compact).unwrap();
            compact.resolve(&budget).unwrap()
        };
        let schema = schema();
        let keys = schema.pointer("/definitions/Compact/properties").unwrap().as_object().unwrap();
        let mut n_defaults = 0;
        for (key, default) in keys.iter().filter_map(|(key, value)| Some((key, value.get("default")?))) {
            if default.is_null() {
                continue;
            }
            n_defaults += 1;
            assert_eq!(resolved(json!({ key: default })), resolved(json!({})), "{key}: {default}");
        }
        assert!(n_defaults >= 9, "{n_defaults} defaults");
    }
}
