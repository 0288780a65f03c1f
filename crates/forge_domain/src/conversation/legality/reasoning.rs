//! Reasoning that is bound to its view: sent only where nothing before it has changed.

use super::{Breach, Rule, RuleSet};
use crate::Prompt;

/// Returns the messages of `prompt` that are sent with reasoning of another view: the model, the tools or a
/// message before it changed since, or was sent with other reasoning. Excuses the exchange that the model has
/// yet to continue, if the model only checks that the reasoning is its own.
pub fn stale_reasoning(prompt: &Prompt) -> Vec<Breach> {
    let (frame, messages) = (prompt.frame(), prompt.messages());
    let excused = frame.needed_position(messages);
    let is_stale = |position: &usize| {
        frame.is_stale(&messages[..*position], &messages[*position], excused == Some(*position))
    };
    let breach = |position| Breach { position, protocol: RuleSet::Anthropic, rule: Rule::ReasoningStale };
    (0..messages.len()).filter(is_stale).map(breach).collect()
}
