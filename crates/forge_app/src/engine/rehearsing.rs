//! Asks for the summaries that the next call is likely to need while tools run. What comes of the compaction is the same;
//! it comes sooner.

use forge_domain::compaction::{Rehearsal, Settled, Unused};
use forge_domain::{
    Agent, AgentId, Context, ContextMessage, Conversation, Cost, HookPoint, Message, ModelId, Role, Size,
    Tokens, ToolCall, ToolResult, Usage,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::spending::{Within, consumed, spent};
use super::{Engine, Setup};
use crate::course::Course;
use crate::{RunEvent, RunReport};

impl Engine {
    /// The requests for summaries that the next call is likely to make, with results of the calls that nobody knows yet:
    /// `None` where none is due. Dropping it ends them.
    pub(super) fn rehearsal<'a>(
        &'a self,
        agent: &'a Agent,
        setup: &'a Setup,
        calls: &[ToolCall],
        conversation: &Conversation,
        course: &Course,
    ) -> Option<BoxFuture<'a, ()>> {
        let is_last =
            agent.max_iterations.is_some_and(|limit| course.progress.turn_iterations >= limit.get());
        // What a hook will say of it is not known yet.
        let is_open = self.hooks.listen_at(&agent.id, HookPoint::PreCompact);
        if is_last || is_open || !setup.compact.prepares_in_background() {
            return None;
        }
        let plain = setup.measured(conversation.scale(&setup.budget.options().model));
        let view = conversation.view();
        // What was guessed in vain is not guessed again: then only what is known counts.
        let each = if setup.rehearsal.was_wasted() { Tokens::ZERO } else { usual_result(&view) };
        let size = view.size();
        let ahead = Size {
            tokens: size.tokens + calls.iter().map(|_| each).sum(),
            messages: size.messages + calls.len(),
            ..size
        };
        let compactor = self.compactor.clone().informed_by(course.strategies.clone());
        let measured = self.with_recall(setup, &plain, conversation, &compactor);
        let is_over = |Setup { budget, compact, .. }: &Setup| {
            ahead.tokens > budget.room() || compact.should_compact(ahead).is_some()
        };
        if !is_over(&measured) {
            return None;
        }
        let expected = with_results(conversation, calls, each, self);
        let Setup { budget, compact, .. } =
            self.with_recall(setup, &plain, &expected, &compactor).into_owned();
        self.tell(&RunEvent::Preparing);
        let rehearsing = async move {
            let within = Within { engine: self, agent };
            let services = setup.rehearsal.asking(&within);
            compactor.rehearse(&compact, expected.view(), &budget, &services).await;
        };
        Some(rehearsing.boxed())
    }

    /// Whether the next call compacts the view.
    pub(super) fn is_compaction_due(&self, setup: &Setup, conversation: &Conversation) -> bool {
        let plain = setup.measured(conversation.scale(&setup.budget.options().model));
        let measured = self.with_recall(setup, &plain, conversation, &self.compactor);
        let Setup { budget, compact, .. } = &*measured;
        self.compactor.due(compact, &conversation.view(), budget, &*self.services.counter).is_some()
    }

    /// Books what was asked for in vain, and forgets it.
    pub(super) fn settle_rehearsal(
        &self,
        agent: &AgentId,
        rehearsal: &Rehearsal,
        settled: Settled,
        course: &mut Course,
        report: &mut RunReport,
    ) {
        let unused = rehearsal.settle(settled);
        for Unused { model, sent, usage } in &unused {
            let id = ModelId::new(model.to_string()).ok();
            let model = id.and_then(|id| self.catalog.model(&self.services, &id).ok());
            let price = model.and_then(|model| model.price);
            let used = consumed(*usage, *sent, None, &*self.services.counter);
            self.ledger.add(agent, spent(used, price.as_ref()));
            report.summary_calls += 1;
            report.summary_usage += usage.unwrap_or_default();
            // What is refused costs nothing, whatever a price would be.
            if *usage != Some(Usage::default()) {
                report.summary_cost += Cost::of_call(price.as_ref(), *usage);
            }
            course.progress.summary_calls += 1;
            course.progress.summary_usage += usage.unwrap_or_default();
        }
        if !unused.is_empty() {
            self.tell(&RunEvent::Discarded(&unused));
        }
    }
}

/// Tokens of a tool's result, as those in `view` are on average.
fn usual_result(view: &Context) -> Tokens {
    let results = view.messages().iter().filter(|message| message.role() == Role::Tool);
    let (n, sum) = results.fold((0, Tokens::ZERO), |(n, sum), message| (n + 1, sum + message.tokens()));
    if n == 0 { Tokens::ZERO } else { sum.share(1, n) }
}

/// The conversation once the calls are answered, each by a text of `each` tokens.
fn with_results(
    conversation: &Conversation,
    calls: &[ToolCall],
    each: Tokens,
    engine: &Engine,
) -> Conversation {
    let mut ahead = conversation.clone();
    for call in calls {
        let text = " word".repeat(each.as_u64() as usize);
        let result = Message::tool(ToolResult::answer(call, text));
        ahead.append(ContextMessage::count(result, &*engine.services.counter));
    }
    ahead
}
