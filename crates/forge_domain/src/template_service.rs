//! The port through which all text for models is rendered.

use serde::Serialize;

use crate::{Agent, Event, Message, ToolDefinition};

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

/// The input of a summarizer.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryInput<'a> {
    /// The messages to be summarized, in order.
    pub messages: Vec<&'a Message>,
    /// The summary of the messages right before, if the span was too long for one request.
    pub earlier_summary: Option<&'a str>,
    /// The focus of the summary, in words.
    pub focus: Option<&'a str>,
    /// The tag that must enclose the summary.
    pub summary_tag: &'a str,
    /// Most tokens of the summary.
    pub summary_max_tokens: u64,
}

/// A renderer of templates. A variable that a template names and nothing supplies is an error.
pub trait TemplateService: Send + Sync {
    /// Renders the agent's system prompt; `None` if it has none.
    ///
    /// # Errors
    /// [`TemplateError`] if the template is broken or names an unknown variable.
    fn render_system(&self, agent: &Agent, tools: &[ToolDefinition])
    -> Result<Option<String>, TemplateError>;

    /// Renders the agent's message for `event`: its user prompt, or the event's value if it has none.
    ///
    /// # Errors
    /// [`TemplateError`] if the template is broken or names an unknown variable.
    fn render_event(&self, agent: &Agent, event: &Event) -> Result<String, TemplateError>;

    /// Renders the request to the summarizer: `prompt`, or the shipped template if it is `None`.
    ///
    /// # Errors
    /// [`TemplateError`] if the template is broken or names an unknown variable.
    fn render_summarization(
        &self,
        prompt: Option<&str>,
        summarization: &SummaryInput<'_>,
    ) -> Result<String, TemplateError>;
}
