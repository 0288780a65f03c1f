//! The error of a template of text for models.

/// The reason why a template gave no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template {template}, line {line}, column {column}: {what}")]
pub struct TemplateError {
    /// Which template, such as `agent researcher, system_prompt`.
    pub template: String,
    /// Line of the fault, from 1.
    pub line: usize,
    /// Column of the fault, from 1.
    pub column: usize,
    /// The fault there.
    pub what: String,
}
