//! The setup of an agent's turn: its prompts' limits, its price, and its tools, `recall` among them.

use forge_domain::compaction::{Compact, CompactionSettings, ContextCompactor, Rehearsal, Trigger};
use forge_domain::{
    Agent, Budget, ChatOptions, Conversation, Model, ModelId, ModelRef, Price, ProviderConfig, ProviderKind,
    Scale, TokenCounter, ToolDefinition, WindowSource, tools_tokens,
};

use super::Engine;
use super::events::Events;
use crate::RunError;
use crate::learned_limit::LearnedLimit;
use crate::recall::{RECALL, recall_definition};
use crate::window_setting::window_setting;

/// The share of the room that the schema of `recall` may take, in percent, unless the user asks for it: in a
/// small window it would cost more compactions than it gives back.
const SCHEMA_PERCENT: u64 = 10;

/// The setup of an agent's turn.
pub(crate) struct Setup {
    pub(crate) limits: PromptLimits,
    pub(crate) price: Option<Price>,
    /// The origin of the window.
    pub(crate) window_source: WindowSource,
    /// The summaries that were requested ahead of the next compaction.
    pub(crate) rehearsal: Rehearsal,
}

/// The limits of an agent's prompts with certain tools.
#[derive(Clone)]
pub(crate) struct PromptLimits {
    pub(crate) budget: Budget,
    pub(crate) compact: CompactionSettings,
}

impl PromptLimits {
    /// Resolves the limits of `agent` with `tools`.
    ///
    /// # Errors
    /// [`RunError::Compact`] if the agent's block contradicts itself.
    fn of(
        engine: &Engine,
        agent: &Agent,
        model: &Model,
        tools: Vec<ToolDefinition>,
    ) -> Result<Self, RunError> {
        let run = engine.run_id();
        let options = ChatOptions { cache_key: run.map(|run| run.to_string()), ..agent.chat_options(model) };
        let budget = Budget::new(model.limits, options, tools, &*engine.services.counter);
        let block = agent.compact.clone().unwrap_or_default();
        let invalid = |source| RunError::Compact { agent: agent.id.to_string(), source };
        let compact = block.resolve(&budget).map_err(invalid)?;
        let Some(limit) = engine.limits.of(&model.reference) else {
            return Ok(Self { budget, compact });
        };
        let budget = budget.narrow(limit);
        // Limits that made sense in the larger room may be invalid in this one: the defaults never are.
        let unlimited = Compact { token_threshold: None, max_tokens: None, ..block.clone() };
        let compact = block.resolve(&budget).or_else(|_| unlimited.resolve(&budget)).map_err(invalid)?;
        Ok(Self { budget, compact })
    }

    /// Returns the limits for a provider that counts by `scale`.
    pub(crate) fn at_scale(&self, scale: Scale) -> Self {
        let compact = self.compact.measured(scale, &self.budget);
        Self { budget: self.budget.measured(scale), compact }
    }

    /// Returns the trigger that makes a compaction of `conversation` due.
    pub(crate) fn due(
        &self,
        conversation: &Conversation,
        compactor: &ContextCompactor,
        counter: &dyn TokenCounter,
    ) -> Option<Trigger> {
        compactor.due(&self.compact, &conversation.view(), &self.budget, counter)
    }
}

impl Setup {
    /// Returns the model that is asked.
    pub(crate) const fn model(&self) -> &ModelRef {
        &self.limits.budget.options().model
    }

    /// Returns the limits of the next prompt, as the provider counts `conversation`.
    pub(crate) fn next_limits(&self, conversation: &Conversation) -> PromptLimits {
        self.limits.at_scale(conversation.scale(self.model()))
    }

    /// Checks whether the next call compacts the view.
    pub(crate) fn is_compaction_due(
        &self,
        conversation: &Conversation,
        compactor: &ContextCompactor,
        counter: &dyn TokenCounter,
    ) -> bool {
        self.next_limits(conversation).due(conversation, compactor, counter).is_some()
    }
}

/// Returns the tools that `agent` offers to `model`: its own, and `recall` if it fits easily or is
/// configured. They are the same from the first call to the last, and in the order of their names: tools
/// stand at the beginning of a prompt, so that a change would cost the provider's cache, and the model its
/// reasoning.
pub(crate) fn offered_tools(
    agent: &Agent,
    model: &Model,
    own: Vec<ToolDefinition>,
    counter: &dyn TokenCounter,
) -> Vec<ToolDefinition> {
    let with_recall = recall_tools(agent, &own).filter(|tools| {
        let options = agent.chat_options(model);
        let room = Budget::new(model.limits, options, own.clone(), counter).room();
        let schema = tools_tokens(tools, counter) - tools_tokens(&own, counter);
        agent.recall == Some(true) || schema <= room.share(SCHEMA_PERCENT, 100)
    });
    let mut tools = with_recall.unwrap_or(own);
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    tools
}

/// Returns the agent's tools with `recall` among them; `None` if it should not have it. An agent without
/// tools only has it if it is configured, as its model may support none. A tool with that name stays what it
/// is.
pub(crate) fn recall_tools(agent: &Agent, own: &[ToolDefinition]) -> Option<Vec<ToolDefinition>> {
    let is_wanted = agent.recall.unwrap_or(!own.is_empty());
    let is_taken = own.iter().any(|tool| tool.name.as_str() == RECALL);
    (is_wanted && !is_taken).then(|| own.iter().cloned().chain([recall_definition()]).collect())
}

impl Engine {
    /// Returns the setup of `agent` with the tools that are there now.
    ///
    /// # Errors
    /// [`RunError`] if the agent cannot work as it is configured.
    pub(crate) fn setup(&self, agent: &Agent) -> Result<Setup, RunError> {
        let tools = self.tools(agent)?;
        let named = || agent.id.to_string();
        let id = agent.model.as_ref().ok_or_else(|| RunError::NoModel { agent: named() })?;
        let model = self.catalog.model(&self.services, id);
        let model = model.map_err(|source| RunError::Model { agent: named(), source })?;
        let reasoning = agent.request_options().or(&model.request).reasoning;
        let unsupported = |source| RunError::Reasoning { agent: named(), source };
        model.check_reasoning(reasoning).map_err(unsupported)?;
        if self.catalog.is_unlisted(&model) {
            warn_of_unlisted_model(&self.events, &model.reference);
        }
        match self.limits.take_restored(&model.reference) {
            Some(limit) => report_learned_limit(&self.events, id, &model, limit),
            // A limit that was learned was reported when it was.
            None if self.limits.of(&model.reference).is_some() => {}
            // Its server may tell it after the first reply.
            None if self.catalog.is_early(&model.reference) => {}
            None => warn_of_assumed_window(&self.events, id, &model),
        }
        let tools = offered_tools(agent, &model, tools, &*self.services.counter);
        self.warn_of_unsent_options(agent, &model);
        Ok(Setup {
            limits: PromptLimits::of(self, agent, &model, tools)?,
            price: model.price,
            window_source: model.window_source,
            rehearsal: Rehearsal::default(),
        })
    }

    /// Warns the user, once for each model, of options that are set and not sent: the model refuses them, or
    /// the protocol of its provider has no field for them.
    fn warn_of_unsent_options(&self, agent: &Agent, model: &Model) {
        let name = &model.reference;
        let sampling = [("temperature", agent.temperature.is_some()), ("top_p", agent.top_p.is_some())];
        let sampling = sampling.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
        let refused: Vec<&str> = sampling.filter(|_| model.abilities.sampling == Some(false)).collect();
        if !refused.is_empty() {
            let refused = refused.join(", ");
            self.events
                .notice_once(&format!("`{name}` refuses to have its sampling set; not sent: {refused}"));
        }
        let provider = self.services.workflow.providers.get(&name.provider);
        let protocol = provider.map_or(ProviderKind::OpenAi, ProviderConfig::protocol);
        let unsent = protocol.unsent(&agent.request_options().or(&model.request));
        if !unsent.is_empty() {
            let unsent = unsent.join(", ");
            self.events
                .notice_once(&format!("the protocol of `{name}` has no field for these; not sent: {unsent}"));
        }
    }
}

/// Warns the user, once for each model, that its server does not list it. It may serve it under another name
/// even so.
fn warn_of_unlisted_model(events: &Events, model: &ModelRef) {
    let ModelRef { provider, model: name } = model;
    events.notice_once(&format!(
        "`{provider}` does not list a model `{name}`: if it refuses that name, use one that it lists"
    ));
}

/// Warns the user, once for each model, that a window is assumed.
fn warn_of_assumed_window(events: &Events, id: &ModelId, model: &Model) {
    if model.window_source == WindowSource::Assumed {
        let (window, setting) = (model.limits.window, window_setting(id, None));
        events.notice_once(&format!(
            "the window of `{id}` is unknown; {window} tokens are assumed. Set it in forge.yaml, as in \
             `{setting}`"
        ));
    }
}

/// Reports a limit that came with a checkpoint, unless the window is known by now.
fn report_learned_limit(events: &Events, id: &ModelId, model: &Model, limit: LearnedLimit) {
    if limit.window().is_some_and(|window| model.limits.window <= window) {
        return;
    }
    let (most, setting) = (limit.tokens(), window_setting(id, limit.window()));
    events.notice(&format!(
        "at most {most} tokens are sent to `{id}`: it refused a longer prompt earlier in this run. Set its \
         window in forge.yaml, as in `{setting}`"
    ));
}
