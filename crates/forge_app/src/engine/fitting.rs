//! Makes the view fit before a call: measured, as the hooks rule, traced and told to everyone.

use std::borrow::Cow;
use std::time::Instant;

use forge_domain::compaction::{
    Compact, CompactionReport, ContextCompactor, Fit, Fitted, Focus, Outcome, Rehearsal, Settled, Trigger,
};
use forge_domain::{
    Agent, AgentId, Budget, CompactEdit, Context, Conversation, HookEvent, HookPoint, PostCompact,
    PreCompact, Prompt, Size, StillOver, TokenLimit,
};
use tracing::{Instrument, Span};

use super::spending::Within;
use super::{Engine, Setup};
use crate::course::Course;
use crate::hooks::{Denial, Ruling};
use crate::spans::{compact_span, record_compaction};
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
        let is_due =
            compactor.due(&measured.compact, &view, &measured.budget, &*self.services.counter).is_some();
        let span = compact_span(&agent.id, view.size(), is_due);
        let (fit, denial) = self
            .ruled_fit(agent, &measured, &setup.rehearsal, &compactor, view, Occasion::Call)
            .instrument(span.clone())
            .await;
        record_compaction(&span, &fit.report);
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
        self.tell_fitted(agent, &said, started, &span).await;
        course.take(&said);
        report.take(said);
        result
    }

    /// Tells everyone what became of a context since `started`.
    async fn tell_fitted(&self, agent: &Agent, said: &CompactionReport, started: Instant, span: &Span) {
        let took = started.elapsed();
        tracing::debug!(target: "forge::compaction", parent: span, micros = took.as_micros() as u64, "context fitted");
        self.tell(&RunEvent::Fitted { report: said, took });
        if said.trigger.is_some() {
            let duration_ms = took.as_millis() as u64;
            let event = HookEvent::PostCompact(PostCompact { agent: &agent.id, report: said, duration_ms });
            self.tell_hooks(&agent.id, event).await;
        }
    }

    /// Compacts the view because somebody asks for it: to the block's target, or to half of what is there where that is less.
    pub(crate) async fn compact_asked(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        course: &mut Course,
        focus: Option<Focus>,
    ) -> Result<CompactionReport, RunError> {
        self.learn(agent).await?;
        self.services.prepare(agent).await?;
        let setup = self.setup(agent)?;
        let started = Instant::now();
        let view = conversation.view();
        let scale = conversation.scale(&setup.budget.options().model);
        // What is compacted may be recalled, so the schema of that tool counts already.
        let measured = setup.recall.as_deref().unwrap_or(&setup).measured(scale);
        let compact = asked_for(&measured.compact, view.size(), focus);
        let asked = Setup { compact, ..measured };
        let compactor = self.compactor.clone().informed_by(course.strategies.clone());
        let span = compact_span(&agent.id, view.size(), true);
        let (Fit { report: said, result }, _) = self
            .ruled_fit(agent, &asked, &Rehearsal::default(), &compactor, view, Occasion::Asked)
            .instrument(span.clone())
            .await;
        record_compaction(&span, &said);
        self.book_summaries(&agent.id, &said);
        let n_compactions = conversation.n_compactions();
        if let Ok(Fitted { compacted: Some(compacted), .. }) = result {
            conversation.record(&compacted).map_err(RunError::Record)?;
        }
        self.tell_fitted(agent, &said, started, &span).await;
        course.take(&said);
        self.keep_compaction(agent, conversation, course, n_compactions).await;
        Ok(said)
    }

    /// The view, made to fit as the hooks rule where a compaction is due; and who denied that, if somebody did.
    async fn ruled_fit(
        &self,
        agent: &Agent,
        setup: &Setup,
        rehearsal: &Rehearsal,
        compactor: &ContextCompactor,
        view: Context,
        occasion: Occasion,
    ) -> (Fit, Option<Denial>) {
        let Setup { budget, compact, .. } = setup;
        if let Some(trigger) = occasion.trigger(compact, view.size(), budget) {
            self.tell(&RunEvent::Compacting { trigger });
        }
        let within = Within { engine: self, agent };
        let services = rehearsal.answering(&within);
        let is_asked = self.hooks.listen_at(&agent.id, HookPoint::PreCompact);
        let due = match occasion {
            _ if !is_asked => None,
            Occasion::Asked => Some(Trigger::Asked),
            Occasion::Call => compactor.due(compact, &view, budget, &*self.services.counter),
        };
        let ruling = match due {
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
        let compact = match ruling {
            Ruling::Edit(edit) => Cow::Owned(edit.applied_to(compact)),
            _ => Cow::Borrowed(compact),
        };
        let fit = match occasion {
            Occasion::Call => compactor.fit(&compact, view, budget, &services).await,
            Occasion::Asked => compactor.compact_context(&compact, view, budget, &services).await,
        };
        (fit, None)
    }
}

/// Why a context is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// A call is to be made.
    Call,
    /// Somebody wants it smaller.
    Asked,
}

impl Occasion {
    /// What makes a compaction likely, by a look that costs nothing.
    fn trigger(self, compact: &Compact, size: Size, budget: &Budget) -> Option<Trigger> {
        match self {
            Self::Asked => Some(Trigger::Asked),
            Self::Call if !compact.compacts_by_itself() => None,
            Self::Call if size.tokens > budget.room() => Some(Trigger::Window),
            Self::Call => compact.should_compact(size),
        }
    }
}

/// The block for a compaction that is asked for: whoever asks wants something to go, also below the block's own target.
fn asked_for(compact: &Compact, size: Size, focus: Option<Focus>) -> Compact {
    let target = compact.target_tokens().min(size.tokens.share(1, 2));
    Compact {
        max_tokens: Some(TokenLimit::Tokens(target)),
        focus: focus.or_else(|| compact.focus.clone()),
        ..compact.clone()
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
