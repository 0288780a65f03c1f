//! A tool as the model sees it.

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::ToolName;

/// A tool's name, what it does, and the JSON Schema of its arguments. Serialises in OpenAI's form, which is
/// also the form that is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// The name by which the model calls it.
    pub name: ToolName,
    /// The description for the model: what it does and when to use it.
    pub description: String,
    /// JSON Schema of the arguments: an object schema.
    pub parameters: Value,
}

impl Serialize for ToolDefinition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let function =
            json!({"name": self.name, "description": self.description, "parameters": self.parameters});
        let mut tool = serializer.serialize_struct("Tool", 2)?;
        tool.serialize_field("type", "function")?;
        tool.serialize_field("function", &function)?;
        tool.end()
    }
}
