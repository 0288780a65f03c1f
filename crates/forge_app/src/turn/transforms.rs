//! Transforms, the deprecated predecessors of `compact:`. They run in one place, before the fit. Their
//! summaries are compaction entries.

use std::collections::BTreeSet;
use std::time::Instant;

use forge_domain::compaction::{
    AssistantRun, CompactionImpact, CompactionReport, CompactionRules, Outcome, StrategyError, Trigger,
    enrich, is_enriched,
};
use forge_domain::{
    AgentId, Context, ContextMessage, Conversation, Event, HookPoint, Message, MessageId, StrategyId,
    SummaryInput, Tokens, Transform,
};
use forge_services::workflow::Finding;

use super::Turn;
use super::agents::{Memory, SubAgents};
use super::prompt::ask_compaction_hooks;
use crate::deprecation::deprecations;
use crate::hooks::Ruling;
use crate::{Engine, RunReport, StopReason};

/// The template of a context as a text.
const TRANSCRIPT: &str = include_str!("../../templates/transcript.md.hbs");
/// The share of the summarizing agent's room that its input may use: the rest is for its prompts.
const SHARE_OF_ROOM: (u64, u64) = (3, 4);

/// The state of the transforms over one turn.
#[derive(Default)]
pub(super) struct TransformState {
    /// Transforms that failed, by their place in the list: they are not tried again in this turn.
    given_up: BTreeSet<usize>,
    /// Runs whose summary was no smaller, by their ends.
    passed_over: BTreeSet<(Option<MessageId>, Option<MessageId>)>,
    /// Calls to the models of agents that did not summarize.
    pub(super) calls: usize,
}

impl TransformState {
    /// Adds the report of an agent that did not summarize to the turn's report.
    pub(super) fn count(&mut self, theirs: RunReport, ours: &mut RunReport) {
        self.calls += theirs.iterations;
        ours.usage += theirs.usage;
        ours.summary_calls += theirs.summary_calls;
        ours.summary_usage += theirs.summary_usage;
        ours.cost += theirs.cost;
        ours.summary_cost += theirs.summary_cost;
        ours.outcomes.extend(theirs.outcomes);
    }

    /// Returns the oldest run of the assistant that is worth a summary.
    fn worthwhile_run(&self, view: &Context, rules: &CompactionRules, limit: Tokens) -> Option<AssistantRun> {
        let runs = AssistantRun::all(view, rules);
        let total = view.size().tokens;
        let least: Tokens = total - runs.iter().map(|run| run.tokens(view)).sum();
        runs.into_iter().find(|run| {
            // If what must stay exceeds the limit alone, nothing brings the context below it. Then only what
            // makes a difference is summarized, and not each new exchange.
            !self.passed_over.contains(&run.ends(view))
                && (least <= limit
                    || rules.min_reduction.reached_by(run.tokens(view).as_u64(), total.as_u64()))
        })
    }
}

/// A reason why a transform did nothing, in words.
struct Failure(String);

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self(why)
    }
}

/// The settings of a transform of type `assistant`.
#[derive(Clone, Copy)]
struct Summary<'a> {
    agent_id: &'a AgentId,
    input: &'a str,
    output: &'a str,
    limit: Tokens,
}

impl Turn<'_, '_> {
    /// Runs the agent's transforms on its conversation, in order.
    pub(super) async fn transform(&mut self) {
        let n_compactions = self.work.conversation.n_compactions();
        let transforms = self.agent.transforms.as_deref().unwrap_or_default();
        for Finding { what, .. } in deprecations(self.agent) {
            self.engine.events.notice_once(&what);
        }
        if !transforms.is_empty() && self.report.iterations == 0 {
            // A session file belongs to the first agent that is saved.
            self.save_session().await;
        }
        for (place, transform) in transforms.iter().enumerate() {
            if self.transforms.given_up.contains(&place) {
                continue;
            }
            if let Err(Failure(why)) = self.run_transform(transform).await {
                self.transforms.given_up.insert(place);
                self.engine.events.notice(&format!(
                    "the transform `{}` of the agent `{}` did nothing: {why}",
                    transform.type_name(),
                    self.agent.id
                ));
            }
        }
        self.state().save_compaction(n_compactions).await;
    }

    #[expect(deprecated, reason = "it is still run")]
    async fn run_transform(&mut self, transform: &Transform) -> Result<(), Failure> {
        match transform {
            Transform::Assistant { input, output, agent_id, token_limit } => {
                let summary = Summary { agent_id, input, output, limit: Tokens::new(*token_limit) };
                while self.work.conversation.view().size().tokens > summary.limit {
                    if !self.summarize_oldest(summary).await? {
                        break;
                    }
                }
                Ok(())
            }
            Transform::User { agent_id, input, output } => {
                let view = self.work.conversation.view();
                if is_enriched(&view, agent_id, output) != Some(false) {
                    return Ok(());
                }
                let question = view.plain().last().map(Message::to_text).unwrap_or_default();
                let event = Event::new(input, question);
                let theirs = SubAgents::of(self).ask(agent_id, &event, Memory::Kept).await?;
                let answer = answer(&theirs, agent_id, output);
                self.transforms.count(theirs, &mut self.report);
                let counter = &*self.engine.services.counter;
                match enrich(&view, agent_id, output, &answer?, counter) {
                    Some(enriched) => record(&mut self.work.conversation, &enriched),
                    None => Ok(()),
                }
            }
            Transform::PassThrough { agent_id, input } => {
                let view = self.work.conversation.view();
                let event = Event::new(input, transcript(self.engine, view.plain().collect())?);
                let theirs = SubAgents::of(self).ask(agent_id, &event, Memory::Kept).await?;
                self.transforms.count(theirs, &mut self.report);
                Ok(())
            }
        }
    }

    /// Has the oldest run summarized for which that is worth it. Returns whether there was one.
    async fn summarize_oldest(&mut self, summary: Summary<'_>) -> Result<bool, Failure> {
        let started = Instant::now();
        let view = self.work.conversation.view();
        let limits = &self.setup.limits;
        let Some(whole) = self.transforms.worthwhile_run(&view, &limits.compact.rules, summary.limit) else {
            return Ok(false);
        };
        let id = &self.agent.id;
        if self.engine.hooks.listen_at(id, HookPoint::PreCompact) {
            let trigger = Trigger::TokenLimit;
            let ruling = ask_compaction_hooks(self.engine, id, trigger, limits, &view).await;
            if matches!(ruling, Ruling::Deny(_)) {
                return Ok(false);
            }
        }
        let run = whole.beginning(&view, longest_input(self.engine, summary.agent_id));
        let messages = run.messages(&view).iter().map(ContextMessage::message).collect();
        let event = Event::new(summary.input, transcript(self.engine, messages)?);
        let theirs = SubAgents::of(self).ask(summary.agent_id, &event, Memory::Cleared).await?;
        self.report.summary_calls += theirs.iterations + theirs.summary_calls;
        self.report.summary_usage += theirs.usage;
        self.report.summary_usage += theirs.summary_usage;
        self.report.summary_cost += theirs.cost;
        self.report.summary_cost += theirs.summary_cost;
        let answer = answer(&theirs, summary.agent_id, summary.output)?;
        let after = match run.summed_up(&view, summary.output, &answer, &*self.engine.services.counter) {
            Ok(after) => after,
            Err(StrategyError::SummaryInflated) => {
                self.transforms.passed_over.insert(whole.ends(&view));
                return Ok(true);
            }
            Err(error) => return Err(Failure(format!("the agent `{}`: {error}", summary.agent_id))),
        };
        record(&mut self.work.conversation, &after)?;
        let report = compaction_report(&view, &after);
        self.report_compaction(&report, started.elapsed()).await;
        self.report.count_fit(report);
        Ok(true)
    }
}

/// Returns the report of a summary, as of any compaction.
fn compaction_report(before: &Context, after: &Context) -> CompactionReport {
    let summary = CompactionReport::summary_of(before, after);
    let (before, after) = (before.size(), after.size());
    let strategies = StrategyId::new("transforms").into_iter().collect();
    let impact = CompactionImpact::new(before, after, Vec::new());
    CompactionReport {
        trigger: Some(Trigger::TokenLimit),
        outcome: Outcome::Applied { strategies, impact },
        summary,
        attempts: Vec::new(),
        before,
        after,
    }
}

/// Returns the most tokens of one event that the agent may summarize. Longer runs are split.
fn longest_input(engine: &Engine, id: &AgentId) -> Tokens {
    let agent = engine.services.workflow.agents.find(id.as_str());
    let setup = agent.and_then(|agent| engine.setup(agent).ok());
    setup.map_or(Tokens::MAX, |setup| setup.limits.budget.room().share(SHARE_OF_ROOM.0, SHARE_OF_ROOM.1))
}

/// Returns the messages as a text for another agent.
fn transcript(engine: &Engine, messages: Vec<&Message>) -> Result<String, Failure> {
    let summarization = SummaryInput {
        messages,
        goal: None,
        request: None,
        earlier_summary: None,
        focus: None,
        summary_tag: "",
        summary_max_tokens: 0,
    };
    let text = engine.services.templates.render_summarization(Some(TRANSCRIPT), &summarization);
    text.map(|text| text.trim().to_owned()).map_err(|error| Failure(error.to_string()))
}

/// Returns the agent's answer: the text in the tag `output` if there is one, else all of it. An answer that
/// is not complete is a failure.
fn answer(theirs: &RunReport, id: &AgentId, output: &str) -> Result<String, Failure> {
    if theirs.stop != StopReason::Done {
        return Err(Failure(format!("the agent `{id}` {}", theirs.stop)));
    }
    let text = theirs.response.as_str();
    let (open, close) = (format!("<{output}>"), format!("</{output}>"));
    let in_tag = text.rfind(&close).and_then(|end| {
        let start = text[..end].rfind(&open)? + open.len();
        Some(&text[start..end])
    });
    match in_tag.unwrap_or(text).trim() {
        "" => Err(Failure(format!("the answer of the agent `{id}` is empty"))),
        answer => Ok(answer.to_owned()),
    }
}

/// Appends a compaction entry to the log.
fn record(log: &mut Conversation, compacted: &Context) -> Result<(), Failure> {
    log.record(compacted).map(drop).map_err(|error| Failure(error.to_string()))
}
