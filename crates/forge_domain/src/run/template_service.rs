//! The port through which all text for models is rendered.

use crate::compaction::SummaryTemplate;
use crate::{Agent, Event, TemplateError, ToolDefinition};

/// A renderer of templates. A variable that a template names and nothing supplies is an error.
pub trait TemplateService: SummaryTemplate {
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
}
