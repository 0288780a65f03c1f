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

/// Checks whether a server's figures cannot be true of a call that it answered: a prompt that it accepted
/// does not exceed its window. One that is a little too large tells that the window is not what it was
/// believed to be.
pub(crate) fn is_absurd(reported: Usage, sent: Tokens, window: Tokens) -> bool {
    let Usage { prompt_tokens, completion_tokens, .. } = reported;
    (prompt_tokens > window && prompt_tokens.share(1, 2) > sent) || completion_tokens.share(1, 4) > window
}

/// Returns a usage as an entry of the ledger.
pub(crate) fn expense(usage: Usage, price: Option<&Price>) -> Spent {
    let tokens = usage.prompt_tokens + usage.completion_tokens;
    Spent { tokens, cost: Cost::of_call(price, Some(usage)) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn figures_beyond_the_window_are_absurd() {
        for (prompt, completion, sent, expected) in [
            (4_500, 60, 4_386, false),
            (17_544, 60, 4_386, true),
            (1_000_000_000, 60, 4_386, true),
            // The tokenizer needs twice as many, or the window is larger than it was believed to be.
            (8_000, 60, 4_000, false),
            (9_000, 60, 7_000, false),
            (4_500, 9_000, 4_386, false),
            (4_500, 1_000_000_000, 4_386, true),
            (0, 0, 4_386, false),
        ] {
            let [prompt_tokens, completion_tokens, sent, window] =
                [prompt, completion, sent, 8_192].map(Tokens::new);
            let reported = Usage { prompt_tokens, completion_tokens, ..Usage::default() };
            assert_eq!(is_absurd(reported, sent, window), expected, "{reported:?} of {sent}");
        }
    }
}
