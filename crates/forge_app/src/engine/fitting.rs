//! Makes the view fit before a call: measured, as the hooks rule, traced and told to everyone.

use std::time::Instant;

use forge_domain::compaction::{
    Compact, CompactionReport, ContextCompactor, Fit, Fitted, Outcome, Rehearsal, Settled,
};
use forge_domain::{
    Agent, AgentId, CompactEdit, Context, Conversation, HookEvent, HookPoint, PostCompact, PreCompact,
    Prompt, Size, StillOver, StrategyId,
};
use tracing::field::Empty;
use tracing::{Instrument, Span};

use super::spending::Within;
use super::{Engine, Setup};
use crate::course::Course;
use crate::hooks::{Denial, Ruling};
use crate::{RunError, RunEvent, RunReport};

impl Engine {
    /// The view, made to fit: compacted where that is due, and the log told so.
    pub(super) async fn fit(
        &self,
        agent: &Agent,
        setup: &Setup,
        conversation: &mut Conversation,
        course: &mut Course,
        report: &mut RunReport,
    ) -> Result<Prompt, RunError> {
        let started = Instant::now();
        let view = conversation.view();
        let compactor = self.compactor.clone().informed_by(course.strategies.clone());
        // All that is counted from here on is ours; the limits are what the provider would count.
        let scale = conversation.scale(&setup.budget.options().model);
        let plain = setup.measured(scale);
        let measured = self.with_recall(setup, &plain, conversation, &compactor);
        let span = compact_span(view.size());
        let (fit, denial) = self
            .ruled_fit(agent, &measured, &setup.rehearsal, &compactor, view)
            .instrument(span.clone())
            .await;
        record(&span, &fit.report);
        self.book_summaries(&agent.id, &fit.report);
        let settled = match fit.report.outcome {
            Outcome::Applied { .. } => Settled::Compacted,
            _ => Settled::NotCompacted,
        };
        self.settle_rehearsal(&agent.id, &setup.rehearsal, settled, course, report);
        let Fit { report: said, result } = fit;
        let result = match result {
            Err(over) => Err(refusal(&agent.id, &measured.compact, denial, over)),
            Ok(Fitted { prompt, compacted: Some(compacted) }) => {
                conversation.record(&compacted).map(|_| prompt).map_err(RunError::Record)
            }
            // A compaction was due and came to nothing: nothing is there to be recalled.
            Ok(Fitted { prompt, compacted: None }) if !conversation.is_compacted() => {
                Ok(plain.budget.admit(conversation.view()).unwrap_or(prompt))
            }
            Ok(Fitted { prompt, compacted: None }) => Ok(prompt),
        };
        let took = started.elapsed();
        tracing::debug!(parent: &span, micros = took.as_micros() as u64, "context fitted");
        self.tell(&RunEvent::Fitted { report: &said, took });
        if said.trigger.is_some() {
            let duration_ms = took.as_millis() as u64;
            let event = HookEvent::PostCompact(PostCompact { agent: &agent.id, report: &said, duration_ms });
            self.tell_hooks(&agent.id, event).await;
        }
        course.take(&said);
        report.take(said);
        result
    }

    /// The view, made to fit as the hooks rule where a compaction is due; and who denied that, if somebody did.
    async fn ruled_fit(
        &self,
        agent: &Agent,
        setup: &Setup,
        rehearsal: &Rehearsal,
        compactor: &ContextCompactor,
        view: Context,
    ) -> (Fit, Option<Denial>) {
        let Setup { budget, compact, .. } = setup;
        let within = Within { engine: self, agent };
        let services = rehearsal.answering(&within);
        let is_asked = self.hooks.listen_at(&agent.id, HookPoint::PreCompact);
        let due = is_asked.then(|| compactor.due(compact, &view, budget, &*self.services.counter));
        let ruling = match due.flatten() {
            None => Ruling::Proceed,
            Some(trigger) => {
                let event = PreCompact::new(&agent.id, trigger, budget.room(), compact, &view);
                match self.ask_hooks::<CompactEdit>(&agent.id, HookEvent::PreCompact(event)).await {
                    Ruling::Deny(denial) => {
                        let fit = compactor.veto(trigger, &denial.by, &denial.reason, view, budget);
                        return (fit, Some(denial));
                    }
                    ruling => ruling,
                }
            }
        };
        let fit = match ruling {
            Ruling::Edit(edit) => compactor.fit(&edit.applied_to(compact), view, budget, &services).await,
            _ => compactor.fit(compact, view, budget, &services).await,
        };
        (fit, None)
    }
}

/// The error of a context that is over: it names who or what forbade to compact it, where that is why.
fn refusal(agent: &AgentId, compact: &Compact, denial: Option<Denial>, over: StillOver) -> RunError {
    match denial {
        Some(Denial { by: hook, reason }) => RunError::Denied { hook, reason, over },
        None if !compact.compacts_by_itself() => RunError::SwitchedOff { agent: agent.to_string(), over },
        None => RunError::StillOver(over),
    }
}

/// The span around a compaction; what comes of it is recorded at its end.
fn compact_span(before: Size) -> Span {
    tracing::info_span!(
        "compact",
        tokens_before = before.tokens.as_u64(),
        messages_before = before.messages as u64,
        tokens_after = Empty,
        messages_after = Empty,
        trigger = Empty,
        outcome = Empty,
        strategies = Empty,
        model_calls = Empty,
        cost = Empty,
    )
}

fn record(span: &Span, report: &CompactionReport) {
    span.record("tokens_after", report.after.tokens.as_u64());
    span.record("messages_after", report.after.messages as u64);
    span.record("outcome", report.outcome.name());
    if report.model_calls() > 0 {
        span.record("model_calls", report.model_calls() as u64);
        span.record("cost", tracing::field::display(report.cost()));
    }
    if let Some(trigger) = report.trigger {
        span.record("trigger", tracing::field::display(trigger));
    }
    if let Outcome::Applied { strategies, .. } = &report.outcome {
        let strategies: Vec<&str> = strategies.iter().map(StrategyId::as_str).collect();
        span.record("strategies", strategies.join(", "));
    }
}
