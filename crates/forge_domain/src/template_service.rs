//! The port through which all text said to models is rendered.

use serde::Serialize;

use crate::{Agent, Event, Message, ToolDefinition};

/// Why a template gave no text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("template {template}, line {line}, column {column}: {what}")]
pub struct TemplateError {
    /// Which template, such as `agent researcher, system_prompt`.
    pub template: String,
    /// Line of the fault, from 1.
    pub line: usize,
    /// Column of the fault, from 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

/// What a summariser is told.
#[derive(Clone, Debug, Serialize)]
pub struct Summarization<'a> {
    /// The messages to be summarised, in order.
    pub messages: Vec<&'a Message>,
    /// The summary of what came right before them, where the span was too long for one request.
    pub earlier_summary: Option<&'a str>,
    /// What the summary is to preserve, in words.
    pub focus: Option<&'a str>,
    /// The tag that the summary must stand in.
    pub summary_tag: &'a str,
    /// Most tokens of the summary.
    pub summary_max_tokens: u64,
}

/// Renders templates. A variable that a template names and nothing supplies is an error.
pub trait TemplateService: Send + Sync {
    /// The agent's system prompt; `None` where it has none.
    ///
    /// # Errors
    /// [`TemplateError`] where the template is broken or names an unknown variable.
    fn render_system(&self, agent: &Agent, tools: &[ToolDefinition])
    -> Result<Option<String>, TemplateError>;

    /// What the agent is told of `event`: its user prompt, or the event's value where it has none.
    ///
    /// # Errors
    /// [`TemplateError`] where the template is broken or names an unknown variable.
    fn render_event(&self, agent: &Agent, event: &Event) -> Result<String, TemplateError>;

    /// What the summariser is told: `prompt`, or the shipped template where it is `None`.
    ///
    /// # Errors
    /// [`TemplateError`] where the template is broken or names an unknown variable.
    fn render_summarization(
        &self,
        prompt: Option<&str>,
        summarization: &Summarization<'_>,
    ) -> Result<String, TemplateError>;
}
