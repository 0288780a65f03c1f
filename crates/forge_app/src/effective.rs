//! What an agent's limits come to in numbers.

use forge_domain::{Agent, Budget, Compact, Model, ModelInfo, WindowSource};

use crate::Services;

/// What an agent's limits come to for its model.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The model that it asks.
    pub model: Model,
    /// The room that its prompts have.
    pub budget: Budget,
    /// Its `compact` block with every default filled in and every limit in tokens.
    pub compact: Compact,
}

/// What `agent`'s limits come to; `None` where something about them is wrong, which [`crate::check_workflow`] says.
/// `told` is what the server says of the agent's model, which a run asks where the window is not configured.
pub fn effective(agent: &Agent, services: &Services, told: Option<&ModelInfo>) -> Option<Effective> {
    let model = services.workflow.model(agent.model.as_ref()?).ok()?;
    let model = match told {
        Some(told) if model.window_source == WindowSource::Assumed => model.informed_by(told),
        _ => model,
    };
    let tools = services.tools.definitions(agent.tools.as_deref().unwrap_or_default()).ok()?;
    let options = agent.chat_options(model.reference.clone());
    let budget = Budget::new(model.limits, options, tools, &*services.counter);
    let compact = agent.compact.clone().unwrap_or_default().resolve(&budget).ok()?;
    Some(Effective { model, budget, compact })
}
