//! `forge config schema`: prints the JSON Schema.

use std::process::ExitCode;

use clap::Args;
use forge_services::workflow::schema;

use crate::output;

/// Print the JSON Schema of forge.yaml, for completion and checks in editors
///
/// Save it next to a forge.yaml whose first line is `# yaml-language-server: $schema=forge.schema.json`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArguments {}

impl SchemaArguments {
    /// Prints the schema.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        output::print(&schema_text()?)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the schema as in the shipped file.
pub(crate) fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}
