//! What runs consume and cost, and the end of it: no call is made that a budget has no room for.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use forge_domain::compaction::{CompactionReport, CompactionServices};
use forge_domain::{
    Agent, AgentId, ChatStream, Cost, Message, Model, ModelError, ModelId, ModelInfo, Overspend, Price,
    Prompt, ProviderError, ProviderId, ProviderService, Spent, TemplateService, TokenCounter, Tokens, Usage,
    message_tokens,
};

use super::Engine;
use super::catalog::Needed;
use crate::RunError;
use crate::spans::chatting;

/// What each agent has spent.
#[derive(Default)]
pub(super) struct Ledger(Mutex<BTreeMap<AgentId, Spent>>);

impl Ledger {
    pub(super) fn add(&self, agent: &AgentId, spent: Spent) {
        *self.entries().entry(agent.clone()).or_default() += spent;
    }

    /// Goes on from what `agent` had spent in an earlier process.
    pub(super) fn restore(&self, agent: &AgentId, spent: Spent) {
        self.entries().insert(agent.clone(), spent);
    }

    pub(super) fn of(&self, agent: &AgentId) -> Spent {
        self.entries().get(agent).copied().unwrap_or_default()
    }

    /// What the agent has spent under its own id and in its lanes.
    fn in_all_lanes(&self, agent: &AgentId) -> Spent {
        let mut all = Spent::default();
        let entries = self.entries();
        let own = entries.iter().filter(|(id, _)| id.without_lane() == agent.without_lane());
        own.for_each(|(_, spent)| all += *spent);
        all
    }

    pub(super) fn whole(&self) -> Spent {
        let mut whole = Spent::default();
        self.entries().values().for_each(|spent| whole += *spent);
        whole
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<AgentId, Spent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a call consumed: as the provider says it, else as we count it.
pub(super) fn consumed(
    said: Option<Usage>,
    sent: Tokens,
    reply: Option<&Message>,
    counter: &dyn TokenCounter,
) -> Usage {
    said.unwrap_or_else(|| Usage {
        prompt_tokens: sent,
        completion_tokens: reply.map_or(Tokens::ZERO, |reply| message_tokens(reply, counter)),
        ..Usage::default()
    })
}

/// A usage as an entry of the ledger.
pub(super) fn spent(usage: Usage, price: Option<&Price>) -> Spent {
    let tokens = usage.prompt_tokens + usage.completion_tokens;
    Spent { tokens, cost: Cost::of_call(price, Some(usage)) }
}

impl Engine {
    /// Learns what is not known of the models that `agent` asks.
    ///
    /// # Errors
    /// [`RunError::Unpriced`] where a budget in money applies and the price of one of them is not to be had.
    pub(crate) async fn learn(&self, agent: &Agent) -> Result<(), RunError> {
        let budgets = [agent.budget, self.services.workflow.budget];
        let has_money_budget = budgets.into_iter().flatten().any(|budget| budget.cost.is_some());
        let needed = if has_money_budget { Needed::WindowAndPrice } else { Needed::Window };
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        for id in agent.model.iter().chain(summarizer) {
            self.catalog.learn(&self.services, id, needed).await;
            let is_unpriced = |model: &Model| needed == Needed::WindowAndPrice && model.price.is_none();
            if let Some(model) = self.catalog.model(&self.services, id).ok().filter(is_unpriced) {
                let agent = agent.id.to_string();
                return Err(RunError::Unpriced { agent, model: model.reference.to_string() });
            }
        }
        Ok(())
    }

    /// The budget that a prompt of so many tokens would exceed: the agent's own, or that of the whole run.
    pub(super) fn overspent(
        &self,
        agent: &Agent,
        prompt: Tokens,
        price: Option<&Price>,
    ) -> Option<Overspend> {
        let own = agent
            .budget
            .and_then(|budget| budget.overspent(self.ledger.in_all_lanes(&agent.id), prompt, price));
        let whole = || self.services.workflow.budget?.overspent(self.ledger.whole(), prompt, price);
        own.or_else(whole)
    }

    /// What the run has spent until now, all agents together.
    pub fn spent(&self) -> Spent {
        self.ledger.whole()
    }

    /// What the agent, or the lane, has spent until now.
    pub(crate) fn spent_by(&self, agent: &AgentId) -> Spent {
        self.ledger.of(agent)
    }

    /// Books what summaries consumed.
    pub(super) fn book_summaries(&self, agent: &AgentId, report: &CompactionReport) {
        let usage = report.usage();
        let tokens = usage.prompt_tokens + usage.completion_tokens;
        self.ledger.add(agent, Spent { tokens, cost: report.cost() });
    }
}

/// The services of an agent's compactions: they know what servers told of models, and ask none for a summary that the
/// budget has no room for.
pub(super) struct Within<'a> {
    pub(super) engine: &'a Engine,
    pub(super) agent: &'a Agent,
}

impl CompactionServices for Within<'_> {
    fn templates(&self) -> &dyn TemplateService {
        &*self.engine.services.templates
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &*self.engine.services.counter
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.engine.catalog.model(&self.engine.services, id)
    }
}

#[async_trait]
impl ProviderService for Within<'_> {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let id = ModelId::new(prompt.options().model.to_string()).ok();
        let price = id.and_then(|id| self.model(&id).ok()).and_then(|model| model.price);
        match self.engine.overspent(self.agent, prompt.tokens(), price.as_ref()) {
            Some(over) => Err(ProviderError::OverBudget(over)),
            None => {
                let span = self.engine.chat_span(&prompt);
                chatting(span, self.engine.services.providers.chat(prompt)).await
            }
        }
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.engine.services.providers.models(provider).await
    }
}
