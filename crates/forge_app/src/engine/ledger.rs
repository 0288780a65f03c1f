//! The ledger: what agents spend.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::compaction::CompactionReport;
use forge_domain::{AgentId, Cost, Message, Price, Spent, TokenCounter, Tokens, Usage, message_tokens};

/// The ledger of a run: what each agent has spent.
#[derive(Default)]
pub(crate) struct Ledger(Mutex<BTreeMap<AgentId, Spent>>);

impl Ledger {
    /// Adds what `agent` spent.
    pub(crate) fn add(&self, agent: &AgentId, spent: Spent) {
        *self.entries().entry(agent.clone()).or_default() += spent;
    }

    /// Adds what the summaries of a compaction consumed.
    pub(crate) fn add_summaries(&self, agent: &AgentId, report: &CompactionReport) {
        let usage = report.usage();
        let tokens = usage.prompt_tokens + usage.completion_tokens;
        self.add(agent, Spent { tokens, cost: report.cost() });
    }

    /// Continues from what `agent` had spent in an earlier process.
    pub(super) fn restore(&self, agent: &AgentId, spent: Spent) {
        self.entries().insert(agent.clone(), spent);
    }

    /// Returns what the agent, or the lane, has spent.
    pub(crate) fn spent_by(&self, agent: &AgentId) -> Spent {
        self.entries().get(agent).copied().unwrap_or_default()
    }

    /// Returns what the agent has spent under its own id and in its lanes.
    pub(super) fn spent_in_lanes(&self, agent: &AgentId) -> Spent {
        let mut sum = Spent::default();
        for (id, spent) in &*self.entries() {
            if id.without_lane() == agent.without_lane() {
                sum += *spent;
            }
        }
        sum
    }

    /// Returns what all agents have spent.
    pub(super) fn total(&self) -> Spent {
        let mut sum = Spent::default();
        for spent in self.entries().values() {
            sum += *spent;
        }
        sum
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<AgentId, Spent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the usage of a call: as the provider reported it, else as we count it.
pub(crate) fn usage_of_call(
    reported: Option<Usage>,
    sent: Tokens,
    reply: Option<&Message>,
    counter: &dyn TokenCounter,
) -> Usage {
    reported.unwrap_or_else(|| Usage {
        prompt_tokens: sent,
        completion_tokens: reply.map_or(Tokens::ZERO, |reply| message_tokens(reply, counter)),
        ..Usage::default()
    })
}

/// Returns a usage as an entry of the ledger.
pub(crate) fn expense(usage: Usage, price: Option<&Price>) -> Spent {
    let tokens = usage.prompt_tokens + usage.completion_tokens;
    Spent { tokens, cost: Cost::of_call(price, Some(usage)) }
}
