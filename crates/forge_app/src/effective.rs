//! The limits of an agent in numbers.

use forge_domain::compaction::CompactionSettings;
use forge_domain::{Agent, Budget, Model, ModelInfo, WindowSource};

use crate::Services;
use crate::engine::offered_tools;

/// The limits of an agent for its model.
#[derive(Clone, Debug)]
pub struct Effective {
    /// The model that it asks.
    pub model: Model,
    /// The room of its prompts.
    pub budget: Budget,
    /// Its `compact` block with every default filled in and every limit in tokens.
    pub compact: CompactionSettings,
}

/// Returns the limits of `agent`; `None` if they are invalid, which [`crate::check_workflow`] reports. `told`
/// is what the server reports about the agent's model, which a run asks if the window is not configured.
pub fn effective(agent: &Agent, services: &Services, told: Option<&ModelInfo>) -> Option<Effective> {
    let model = services.workflow.model(agent.model.as_ref()?).ok()?;
    let model = match told {
        Some(told) if model.window_source == WindowSource::Assumed => model.informed_by(told),
        _ => model,
    };
    let tools = services.tools.definitions(agent.tools.as_deref().unwrap_or_default()).ok()?;
    let tools = offered_tools(agent, &model, tools, &*services.counter);
    let options = agent.chat_options(&model);
    let budget = Budget::new(model.limits, options, tools, &*services.counter);
    let compact = agent.compact.clone().unwrap_or_default().resolve(&budget).ok()?;
    Some(Effective { model, budget, compact })
}
