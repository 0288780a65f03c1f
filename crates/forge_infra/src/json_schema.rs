//! A JSON Schema that a user wrote, ready to check values.

use std::fmt;
use std::sync::Arc;

use boon::{CompileError, SchemaIndex, Schemas, ValidationError};
use serde_json::Value;

use crate::tools::{collect_leaves, compile, place};

/// The most faults that are described at once.
const MOST_FAULTS: usize = 8;
/// The most characters of a fault.
const MOST_SHOWN: usize = 200;

/// A JSON Schema that is ready to check values.
#[derive(Clone)]
pub struct JsonSchema(Arc<(Schemas, SchemaIndex)>);

impl fmt::Debug for JsonSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JsonSchema")
    }
}

/// An error about a value that is not a JSON Schema, or that refers to something outside of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidJsonSchema(String);

impl JsonSchema {
    /// Reads `schema`.
    ///
    /// # Errors
    /// [`InvalidJsonSchema`] with the reason.
    pub fn new(schema: &Value) -> Result<Self, InvalidJsonSchema> {
        let compiled = compile(schema).map_err(|error| {
            if let CompileError::ValidationError { src, .. } = &*error {
                return InvalidJsonSchema(faults(src).join("; "));
            }
            // Its own file name means nothing to the user; the causes stand on lines of their own.
            let text = format!("{error:#}").replace("file:///", "").replace("schema.json", "the schema");
            InvalidJsonSchema(text.split_whitespace().collect::<Vec<_>>().join(" "))
        })?;
        Ok(Self(Arc::new(compiled)))
    }

    /// Checks `value`.
    ///
    /// # Errors
    /// The faults, each with its place, in words that tell what would be right.
    pub fn check(&self, value: &Value) -> Result<(), Vec<String>> {
        let (schemas, root) = &*self.0;
        schemas.validate(value, *root).map_err(|error| faults(&error))
    }
}

fn faults(error: &ValidationError<'_, '_>) -> Vec<String> {
    let mut leaves = Vec::new();
    collect_leaves(error, &mut leaves);
    let mut faults: Vec<String> = leaves
        .into_iter()
        .map(|leaf| {
            let at = place(&leaf.instance_location);
            let at = if at.is_empty() { "the whole".to_owned() } else { format!("`{at}`") };
            let what: String = leaf.kind.to_string().chars().take(MOST_SHOWN).collect();
            format!("{at}: {what}")
        })
        .collect();
    faults.dedup();
    faults.truncate(MOST_FAULTS);
    faults
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_fault_has_its_place() {
        let schema = JsonSchema::new(&json!({
            "type": "object", "required": ["nights"], "additionalProperties": false,
            "properties": {"nights": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
        }))
        .unwrap();
        for (value, expected) in [
            (json!({"nights": ["a"]}), &[][..]),
            (json!({}), &["the whole: missing properties 'nights'"]),
            (json!({"nights": []}), &["`nights`: minimum 1 items required, but got 0 items"]),
            (json!({"nights": ["a", 1]}), &["`nights[1]`: want string, but got number"]),
            (json!([]), &["the whole: want object, but got array"]),
        ] {
            let actual = schema.check(&value).err().unwrap_or_default();
            assert_eq!(actual, expected, "{value}");
        }
    }

    #[test]
    fn a_schema_names_nothing_outside_of_it() {
        for schema in [json!({"type": "strin"}), json!({"$ref": "http://127.0.0.1:9/x.json"}), json!("text")]
        {
            let error = JsonSchema::new(&schema).unwrap_err().to_string();
            assert!(!error.is_empty() && !error.contains("file:"), "{error}");
        }
        let error = JsonSchema::new(&json!({"type": "strin"})).unwrap_err().to_string();
        assert!(error.contains("`type`: ") && !error.contains("metaschema"), "{error}");
    }
}
