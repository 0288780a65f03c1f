//! The rehearsal of a compaction: summaries that the next call is likely to need are requested while tools
//! run. The result of the compaction is the same; it comes sooner.

use forge_domain::compaction::{LoggedServices, Settled, Unused};
use forge_domain::{
    Context, ContextMessage, Conversation, Cost, HookPoint, Message, ModelId, Role, Size, TokenCounter,
    Tokens, ToolCall, ToolResult, Usage,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::Turn;
use crate::engine::{AgentServices, PromptLimits, expense, usage_of_call};
use crate::{Engine, RunEvent};

impl<'a> Turn<'a, '_> {
    /// Returns the requests for summaries that the next call is likely to make, with guessed results of
    /// `calls`; `None` if no compaction is due then. Dropping it ends them.
    pub(super) fn rehearsal(&self, calls: &[ToolCall]) -> Option<BoxFuture<'a, ()>> {
        let (engine, agent, setup) = (self.engine, self.agent, &self.setup);
        let conversation = &self.work.conversation;
        let n_asked = self.work.course.progress.turn_iterations;
        let is_last = agent.max_iterations.is_some_and(|limit| n_asked >= limit.get());
        // The answer of a hook is not known yet.
        let is_open = engine.hooks.listen_at(&agent.id, HookPoint::PreCompact);
        if is_last || is_open || !setup.limits.compact.prepares_in_background() {
            return None;
        }
        let counter = &*engine.services.counter;
        let limits = setup.next_limits(conversation);
        let PromptLimits { budget, compact } = &limits;
        let view = conversation.view().within(budget.frame());
        // After a guess in vain nothing is guessed again: then only what is known counts.
        let each = if setup.rehearsal.was_wasted() { Tokens::ZERO } else { usual_result(&view) };
        let size = view.size();
        let ahead = Size {
            tokens: size.tokens + calls.iter().map(|_| each).sum(),
            messages: size.messages + calls.len(),
            ..size
        };
        let compactor = &engine.compactor;
        if ahead.tokens <= budget.room() && compact.rules.should_compact(ahead).is_none() {
            return None;
        }
        let expected = with_results(conversation, calls, each, counter);
        let rehearsal = setup.rehearsal.clone();
        engine.events.emit(&RunEvent::Preparing);
        let requests = async move {
            let services = AgentServices::new(engine, agent);
            let services = LoggedServices { services: &services, log: &expected };
            let services = rehearsal.asking(&services);
            compactor.rehearse(&limits.compact, expected.view(), &limits.budget, &services).await;
        };
        Some(requests.boxed())
    }

    /// Waits for the rest of a rehearsal, if the next call compacts the view.
    pub(super) async fn finish_rehearsal(&self, rehearsal: BoxFuture<'a, ()>) {
        let Engine { compactor, services, .. } = self.engine;
        if self.setup.is_compaction_due(&self.work.conversation, compactor, &*services.counter) {
            rehearsal.await;
        }
    }

    /// Books the summaries that were requested in vain, and forgets them.
    pub(super) fn settle_rehearsal(&mut self, settled: Settled) {
        let unused = self.setup.rehearsal.settle(settled);
        let services = &self.engine.services;
        let progress = &mut self.work.course.progress;
        for Unused { model, sent, usage } in &unused {
            let id = ModelId::new(model.to_string()).ok();
            let model = id.and_then(|id| self.engine.catalog.model(services, &id).ok());
            let price = model.and_then(|model| model.price);
            let used = usage_of_call(*usage, *sent, None, &*services.counter);
            self.engine.ledger.add(&self.agent.id, expense(used, price.as_ref()));
            self.report.summary_calls += 1;
            self.report.summary_usage += usage.unwrap_or_default();
            // What is refused costs nothing, whatever the price is.
            if *usage != Some(Usage::default()) {
                self.report.summary_cost += Cost::of_call(price.as_ref(), *usage);
            }
            progress.summary_calls += 1;
            progress.summary_usage += usage.unwrap_or_default();
        }
        if !unused.is_empty() {
            self.engine.events.emit(&RunEvent::Discarded(&unused));
        }
    }
}

/// Returns the average tokens of the tool results in `view`.
fn usual_result(view: &Context) -> Tokens {
    let results = view.messages().iter().filter(|message| message.role() == Role::Tool);
    let (n, sum) = results.fold((0, Tokens::ZERO), |(n, sum), message| (n + 1, sum + message.tokens()));
    if n == 0 { Tokens::ZERO } else { sum.share(1, n) }
}

/// Returns the log after each call is answered with a text of `each` tokens.
fn with_results(
    log: &Conversation,
    calls: &[ToolCall],
    each: Tokens,
    counter: &dyn TokenCounter,
) -> Conversation {
    let mut ahead = log.clone();
    for call in calls {
        let text = " word".repeat(each.as_u64() as usize);
        let result = Message::tool(ToolResult::answer(call, text));
        ahead.append(ContextMessage::count(result, counter));
    }
    ahead
}
