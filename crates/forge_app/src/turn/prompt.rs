//! The prompt: the view, made to fit before a call or because the user asks.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use forge_domain::compaction::{
    CompactionReport, CompactionSettings, ContextCompactor, Fit, Fitted, Focus, LoggedServices, Outcome,
    Rehearsal, Settled, Trigger,
};
use forge_domain::{
    Agent, AgentId, CompactEdit, Context, Conversation, HookEvent, HookPoint, MessageId, PostCompact,
    PreCompact, Prompt, Size, StillOver,
};
use tracing::{Instrument, Span};

use super::Turn;
use crate::engine::{AgentServices, PromptLimits};
use crate::hooks::{Denial, Ruling};
use crate::spans::{compact_span, record_compaction};
use crate::{Engine, RunError, RunEvent};

impl Turn<'_, '_> {
    /// Makes the view fit: it is compacted if that is due, and the compaction is recorded in the log.
    ///
    /// # Errors
    /// [`RunError`] if it cannot fit.
    pub(super) async fn fit(&mut self) -> Result<Prompt, RunError> {
        let n_compactions = self.work.conversation.n_compactions();
        let started = Instant::now();
        let compactor = &self.engine.compactor;
        let counter = &*self.engine.services.counter;
        // Everything is counted by us from here on; the limits are what the provider would count.
        let limits = self.setup.next_limits(&self.work.conversation);
        let view = self.work.conversation.view().within(limits.budget.frame());
        let due = compactor.due(&limits.compact, &view, &limits.budget, counter);
        let span = compact_span(&self.agent.id, view.size(), due.is_some());
        let compaction = Compaction {
            engine: self.engine,
            agent: self.agent,
            limits: &limits,
            rehearsal: &self.setup.rehearsal,
            compactor,
            log: &self.work.conversation,
            occasion: Occasion::Call,
            due,
        };
        let (fit, denial) = compaction.run(view).instrument(span.clone()).await;
        record_compaction(&span, &fit.report);
        self.engine.ledger.add_summaries(&self.agent.id, &fit.report);
        let settled = match fit.report.outcome {
            Outcome::Applied { .. } => Settled::Compacted,
            _ => Settled::NotCompacted,
        };
        self.settle_rehearsal(settled);
        let Fit { report, result } = fit;
        let conversation = &mut self.work.conversation;
        let result = match result {
            Err(over) => Err(refusal(self.agent, &limits.compact, denial, over)),
            Ok(Fitted { prompt, compacted: Some(compacted) }) => {
                conversation.record(&compacted).map(|_| prompt).map_err(RunError::Record)
            }
            Ok(Fitted { prompt, compacted: None }) => Ok(prompt),
        };
        let took = trace_fit(started, &span);
        self.report_compaction(&report, took).await;
        self.work.course.count_fit(&report);
        self.report.count_fit(report);
        if result.is_ok() {
            self.state().save_compaction(n_compactions).await;
        }
        result
    }

    /// Compacts the view because the user asks for it: to the block's target, or to half of its size if that
    /// is less.
    ///
    /// # Errors
    /// [`RunError::Record`].
    pub(crate) async fn compact(mut self, focus: Option<Focus>) -> Result<CompactionReport, RunError> {
        let n_compactions = self.work.conversation.n_compactions();
        let started = Instant::now();
        let limits = self.setup.next_limits(&self.work.conversation);
        let view = self.work.conversation.view().within(limits.budget.frame());
        let compact = settings_on_request(&limits.compact, view.size(), focus);
        let limits = PromptLimits { compact, ..limits };
        let compactor = &self.engine.compactor;
        let span = compact_span(&self.agent.id, view.size(), true);
        let compaction = Compaction {
            engine: self.engine,
            agent: self.agent,
            limits: &limits,
            rehearsal: &Rehearsal::default(),
            compactor,
            log: &self.work.conversation,
            occasion: Occasion::Request,
            due: Some(Trigger::Asked),
        };
        let (Fit { report, result }, _) = compaction.run(view).instrument(span.clone()).await;
        record_compaction(&span, &report);
        self.engine.ledger.add_summaries(&self.agent.id, &report);
        if let Ok(Fitted { compacted: Some(compacted), .. }) = result {
            self.work.conversation.record(&compacted).map_err(RunError::Record)?;
        }
        let took = trace_fit(started, &span);
        self.report_compaction(&report, took).await;
        self.work.course.count_fit(&report);
        self.state().save_compaction(n_compactions).await;
        Ok(report)
    }

    /// Reports a compaction to the watcher, and to the hooks if it was due.
    pub(super) async fn report_compaction(&self, report: &CompactionReport, took: Duration) {
        self.engine.events.emit(&RunEvent::Fitted { report, took });
        if report.trigger.is_some() {
            let (agent, duration_ms) = (&self.agent.id, took.as_millis() as u64);
            let event = HookEvent::PostCompact(PostCompact { agent, report, duration_ms });
            self.engine.notify_hooks(agent, event).await;
        }
    }
}

/// Traces the fit of a context since `started`. Returns the time that it took.
fn trace_fit(started: Instant, span: &Span) -> Duration {
    let took = started.elapsed();
    tracing::debug!(target: "forge::compaction", parent: span, micros = took.as_micros() as u64, "context fitted");
    took
}

/// A compaction that hooks may deny or edit.
struct Compaction<'a> {
    engine: &'a Engine,
    agent: &'a Agent,
    limits: &'a PromptLimits,
    rehearsal: &'a Rehearsal,
    compactor: &'a ContextCompactor,
    log: &'a Conversation,
    occasion: Occasion,
    /// The trigger of the compaction; `None` if none is due.
    due: Option<Trigger>,
}

impl Compaction<'_> {
    /// Makes the view fit, as the hooks decide if a compaction is due. Returns the denial, too, if there is
    /// one.
    async fn run(&self, view: Context) -> (Fit, Option<Denial>) {
        let Self { engine, compactor, .. } = self;
        let PromptLimits { budget, compact } = self.limits;
        if let Some(trigger) = self.due {
            engine.events.emit(&RunEvent::Compacting { trigger });
        }
        let edit = match self.ask_hooks(&view).await {
            Err((trigger, denial)) => {
                let fit = compactor.veto(trigger, &denial.by, &denial.reason, view, budget);
                return (fit, Some(denial));
            }
            Ok(edit) => edit,
        };
        let compact = match edit {
            Some(edit) => Cow::Owned(edit.applied_to(compact)),
            None => Cow::Borrowed(compact),
        };
        let services = AgentServices::new(engine, self.agent);
        let services = LoggedServices { services: &services, log: self.log };
        let services = self.rehearsal.answering(&services);
        let fit = match self.occasion {
            Occasion::Call => compactor.fit(&compact, view, budget, &services).await,
            Occasion::Request => compactor.compact_context(&compact, view, budget, &services).await,
        };
        (fit, None)
    }

    /// Asks the hooks if a compaction is due. Returns their edit, or the denial with the trigger.
    async fn ask_hooks(&self, view: &Context) -> Result<Option<CompactEdit>, (Trigger, Denial)> {
        let id = &self.agent.id;
        if !self.engine.hooks.listen_at(id, HookPoint::PreCompact) {
            return Ok(None);
        }
        let Some(trigger) = self.due else { return Ok(None) };
        match ask_compaction_hooks(self.engine, id, trigger, self.limits, view).await {
            Ruling::Proceed => Ok(None),
            Ruling::Edit(edit) => Ok(Some(edit)),
            Ruling::Deny(denial) => Err((trigger, denial)),
        }
    }
}

/// Asks the hooks before a compaction.
pub(super) async fn ask_compaction_hooks(
    engine: &Engine,
    id: &AgentId,
    trigger: Trigger,
    PromptLimits { budget, compact }: &PromptLimits,
    view: &Context,
) -> Ruling<CompactEdit> {
    let event = HookEvent::PreCompact(PreCompact::new(id, trigger, budget.room(), compact, view));
    let ruling: Ruling<CompactEdit> = engine.ask_hooks(&[id], event).await;
    if let Ruling::Edit(edit) = &ruling {
        let is_here =
            |wanted: &&MessageId| view.messages().iter().any(|message| message.id() == Some(**wanted));
        for unknown in edit.keep.iter().filter(|wanted| !is_here(wanted)) {
            let what = format!("a `pre_compact` hook wants to keep {unknown}, which is not in the view");
            engine.events.emit(&RunEvent::Notice(&what));
        }
    }
    ruling
}

/// A reason to look at a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Occasion {
    /// A call is to be made.
    Call,
    /// The user wants it smaller.
    Request,
}

/// Returns the settings for a compaction on request: the user wants something to leave, even below the
/// block's own target.
fn settings_on_request(
    settings: &CompactionSettings,
    size: Size,
    focus: Option<Focus>,
) -> CompactionSettings {
    let mut settings = settings.clone();
    let target = &mut settings.rules.target.tokens;
    *target = (*target).min(size.tokens.share(1, 2));
    settings.rules.focus = focus.or(settings.rules.focus);
    settings
}

/// Returns the error of a context that cannot fit. It names the hook or the setting that forbids to compact
/// it.
fn refusal(agent: &Agent, compact: &CompactionSettings, denial: Option<Denial>, over: StillOver) -> RunError {
    match denial {
        Some(Denial { by: hook, reason }) => RunError::Denied { hook, reason, over },
        None if !compact.auto_compact => RunError::SwitchedOff { agent: agent.id.to_string(), over },
        None => RunError::StillOver(over),
    }
}
