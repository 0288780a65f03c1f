//! The port through which the request for a summary is rendered.

use serde::Serialize;

use crate::{Message, TemplateError};

/// The input of a summarizer.
#[derive(Clone, Debug, Serialize)]
pub struct SummaryInput<'a> {
    /// The messages to be summarized, in order.
    pub messages: Vec<&'a Message>,
    /// The first user message: what the work is for. Its head and tail if it is long.
    pub goal: Option<&'a str>,
    /// The latest user message if it is another one: what is asked for now.
    pub request: Option<&'a str>,
    /// The summary of the messages right before, if the span was too long for one request.
    pub earlier_summary: Option<&'a str>,
    /// The focus of the summary, in words.
    pub focus: Option<&'a str>,
    /// The tag that must enclose the summary.
    pub summary_tag: &'a str,
    /// Most tokens of the summary.
    pub summary_max_tokens: u64,
}

/// A renderer of requests for summaries. A variable that a template names and nothing supplies is an error.
pub trait SummaryTemplate: Send + Sync {
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
