//! The replay of a recorded session, call by call, in the unmodified engine.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forge_domain::compaction::{CompactionReport, Outcome, StrategyStatistics};
use forge_domain::{
    Agent, Checkpoint, ContextMessage, Conversation, Coverage, Message, Prompt, REQUEST_TOKENS, Role,
    StillOver, Tokens, openai_breaches,
};
use serde::Serialize;

use crate::checkpointing::Point;
use crate::conversations::{Conversations, Others, Work};
use crate::course::Course;
use crate::resume::find;
use crate::turn::Assignment;
use crate::{CheckpointTally, Engine, Resume, ResumeError, RunError, RunEvent, Watcher};

/// The report of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Recorded replies, each one call, including refused calls.
    pub calls: usize,
    /// Compactions that changed the view.
    pub compactions: Vec<ReplayedCompaction>,
    /// The statistics of each strategy over all compactions that were due.
    pub strategies: StrategyStatistics,
    /// Calls that were refused before anything was sent.
    pub refused: usize,
    /// The reason for each refusal.
    pub refusals: Vec<RefusedCall>,
    /// The tokens of the prompts, with and without compaction.
    #[serde(flatten)]
    pub totals: PromptTotals,
    /// Prompts sent with more tokens than the window.
    pub over_window: usize,
    /// Prompts sent in which a tool call stood without its results or a result without its call.
    pub split_exchanges: usize,
    /// Tokens of each prompt; `None` if the call was refused.
    pub prompt_tokens: Vec<Option<Tokens>>,
    /// The final coverage of the log.
    pub coverage: Coverage,
    /// Time spent in fitting contexts, in microseconds.
    pub fit_micros: u64,
    /// The tally and the cost of the checkpoints; `None` if none were saved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoints: Option<ReplayedCheckpoints>,
}

/// The tokens of a replay's prompts, with and without compaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PromptTotals {
    /// Tokens of the largest prompt that was sent.
    pub peak_prompt_tokens: Tokens,
    /// Tokens of all prompts that were sent.
    pub total_prompt_tokens: Tokens,
    /// Tokens of the largest prompt that would have been sent without compaction.
    pub peak_prompt_tokens_uncompacted: Tokens,
    /// Tokens of all prompts that would have been sent without compaction, including refused calls.
    pub total_prompt_tokens_uncompacted: Tokens,
}

/// The beginning and the end of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayPlan {
    /// The checkpoint that it resumes; the session's beginning if unset.
    pub resume: Option<Resume>,
    /// The number of calls after which it stops without releasing the run, as if the process had been killed;
    /// never if unset.
    pub calls: Option<usize>,
}

/// The cost of checkpoints in a replay. Times are in microseconds: all that the work waited for in one call
/// to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReplayedCheckpoints {
    /// Their tally.
    #[serde(flatten)]
    pub tally: CheckpointTally,
    /// Bytes of all messages of the log, as JSON.
    pub raw_bytes: usize,
    /// The median over the first twenty calls.
    pub early_save_micros: u64,
    /// The median over the last twenty calls.
    pub late_save_micros: u64,
    /// The longest.
    pub largest_save_micros: u64,
}

/// A compaction that changed the view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReplayedCompaction {
    /// The call before which it happened, from 1.
    pub call: usize,
    /// The strategies that did it, in order.
    pub strategies: Vec<String>,
    /// Its report.
    #[serde(flatten)]
    pub report: CompactionReport,
    /// Time it took, in microseconds.
    pub micros: u64,
}

/// A call that was refused before anything was sent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RefusedCall {
    /// The call, from 1.
    pub call: usize,
    /// The tokens that it needed at least, and those that were available.
    #[serde(flatten)]
    pub because: StillOver,
}

/// The notes of a replay's watcher.
#[derive(Default)]
pub(crate) struct Notes {
    fits: Vec<(CompactionReport, Duration)>,
    prompts: Vec<PromptNote>,
    /// The time that checkpoints took, by the number of calls before them.
    saves: BTreeMap<usize, Duration>,
}

struct PromptNote {
    tokens: Tokens,
    is_split: bool,
}

/// Replays `messages` with the model and the `compact` block of `agent`. `engine` creates the engine around
/// the watcher that it gets. Its provider and tools return the recorded replies and results in order, and
/// `skip` moves them past the next reply.
///
/// # Errors
/// [`ResumeError`] if there is nothing to resume, or a step fails for another reason than that the context
/// cannot fit.
pub async fn replay(
    messages: &[Message],
    agent: &Agent,
    engine: impl FnOnce(Watcher) -> Engine,
    skip: &(dyn Fn() + Send + Sync),
    plan: &ReplayPlan,
) -> Result<ReplayReport, ResumeError> {
    let notes = Arc::new(Mutex::new(Notes::default()));
    let engine = engine(note_taker(&notes)).for_playback();
    let work = match &plan.resume {
        Some(resume) => restore(&engine, agent, resume, messages).await?,
        None => Work::default(),
    };
    let mut player = Player { agent, engine, work, notes, report: empty_report(), calls: plan.calls };
    let mut rest = player.catch_up(messages, skip);
    while let Some((first, behind)) = rest.split_first() {
        if matches!(first.role(), Role::System | Role::User) {
            player.append(first);
            rest = behind;
        } else {
            let n_messages = rest
                .iter()
                .take_while(|message| !matches!(message.role(), Role::System | Role::User))
                .count();
            let (segment, behind) = rest.split_at(n_messages);
            player.play(segment, skip).await?;
            rest = behind;
        }
        if player.n_left() == Some(0) {
            return Ok(player.finish());
        }
    }
    player.engine.close().await;
    Ok(player.finish())
}

/// Restores the work of `agent` alone on the session of `messages` as it was saved, and claims its run.
///
/// # Errors
/// [`ResumeError`]. Nothing is claimed then.
async fn restore(
    engine: &Engine,
    agent: &Agent,
    resume: &Resume,
    messages: &[Message],
) -> Result<Work, ResumeError> {
    let checkpointing = engine.checkpointing().ok_or(ResumeError::NotKept)?;
    let mut found = find(checkpointing.store(), &resume.which, checkpointing.folder()).await?;
    if !is_of(&found.checkpoint.snapshot.conversation, messages) {
        return Err(ResumeError::OtherSession(found.checkpoint.info.run));
    }
    engine.services().prepare(agent).await?;
    let now = engine.configuration(agent)?;
    if found.is_latest {
        found = found.adopt(checkpointing, resume.take_from).await?;
    }
    let Checkpoint { info, snapshot } = found.checkpoint;
    let (conversation, mut course, limits) = Course::restore(snapshot, info.key);
    course.configuration = Some(now);
    let mut work = Work { conversation, course };
    engine.restore(&agent.id, &work, limits);
    if !found.is_latest {
        engine.state(agent, &mut work).save(Point::Fork).await;
    }
    Ok(work)
}

/// Checks whether a log is of the session of `messages`, by what its user says.
fn is_of(log: &Conversation, messages: &[Message]) -> bool {
    let is_users = |message: &&Message| message.role() == Role::User;
    let saved = log.messages().map(ContextMessage::message).filter(is_users);
    let mut pairs = saved.zip(messages.iter().filter(is_users));
    pairs.all(|(saved, recorded)| saved.to_text() == recorded.to_text())
}

/// A player of a recorded session.
struct Player<'a> {
    agent: &'a Agent,
    engine: Engine,
    work: Work,
    notes: Arc<Mutex<Notes>>,
    report: ReplayReport,
    calls: Option<usize>,
}

impl Player<'_> {
    fn append(&mut self, message: &Message) {
        self.engine.append(&mut self.work.conversation, message.clone());
    }

    /// Returns the number of calls that are left; `None` if there is no limit.
    fn n_left(&self) -> Option<usize> {
        self.calls.map(|calls| calls.saturating_sub(self.report.calls))
    }

    /// Moves the recording past what the log has. Results that the log lacks for its last calls are used as
    /// recorded.
    fn catch_up<'m>(&mut self, messages: &'m [Message], skip: &(dyn Fn() + Send + Sync)) -> &'m [Message] {
        let n_known = self.work.conversation.messages().count().min(messages.len());
        let (known, mut rest) = messages.split_at(n_known);
        known.iter().filter(|message| message.role() == Role::Assistant).for_each(|_| skip());
        while n_known > 0
            && let Some((result, behind)) = rest.split_first().filter(|(next, _)| next.role() == Role::Tool)
        {
            self.append(result);
            rest = behind;
        }
        rest
    }

    /// Plays a sequence of recorded exchanges, one call each. After a refusal the recorded reply is used as
    /// it is.
    async fn play(&mut self, segment: &[Message], skip: &(dyn Fn() + Send + Sync)) -> Result<(), RunError> {
        let exchanges = exchanges(segment);
        let mut n_played = 0;
        while let Some(n_left) =
            NonZeroUsize::new((exchanges.len() - n_played).min(self.n_left().unwrap_or(usize::MAX)))
        {
            // What was recorded was seen as it was recorded, and is replayed even if it repeats itself.
            let agent = self.agent.clone().max_iterations(n_left);
            let agent = agent.max_result_tokens(NonZeroUsize::MAX).max_repetitions(NonZeroUsize::MAX);
            self.work.course.progress.turn_iterations = 0;
            let mut others = Conversations::besides(&agent.id);
            let others = &Others::new(&mut others);
            let Self { engine, work, .. } = &mut *self;
            let result = Assignment { engine, agent: &agent, work, others }.run().await;
            n_played += self.take_notes();
            let Err(error) = result else { continue };
            match error.still_over() {
                Some(because) => {
                    self.refuse(because.clone());
                    skip();
                    for message in exchanges.get(n_played).copied().unwrap_or_default() {
                        self.append(message);
                    }
                    n_played += 1;
                }
                None => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds what the engine did since the last time to the report. Returns how many prompts it sent.
    fn take_notes(&mut self) -> usize {
        let mut noted = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let saves = std::mem::take(&mut noted.saves);
        let notes = std::mem::replace(&mut *noted, Notes { saves, ..Notes::default() });
        drop(noted);
        let first_call = self.report.calls + 1;
        for (at, (fit, took)) in notes.fits.into_iter().enumerate() {
            let micros = took.as_micros() as u64;
            self.report.fit_micros += micros;
            self.report.strategies.take(&fit);
            if let Outcome::Applied { strategies, .. } = &fit.outcome {
                let strategies = strategies.iter().map(ToString::to_string).collect();
                self.report.compactions.push(ReplayedCompaction {
                    call: first_call + at,
                    strategies,
                    report: fit,
                    micros,
                });
            }
        }
        let n_sent = notes.prompts.len();
        for prompt in notes.prompts {
            self.report.calls += 1;
            self.report.prompt_tokens.push(Some(prompt.tokens));
            self.report.split_exchanges += usize::from(prompt.is_split);
        }
        n_sent
    }

    fn refuse(&mut self, because: StillOver) {
        self.report.calls += 1;
        self.report.refused += 1;
        self.report.prompt_tokens.push(None);
        self.report.refusals.push(RefusedCall { call: self.report.calls, because });
    }

    fn finish(self) -> ReplayReport {
        let checkpoints = self.engine.checkpoints().map(|tally| {
            let json =
                |message: &ContextMessage| serde_json::to_vec(message.message()).map_or(0, |json| json.len());
            let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            let saves: Vec<u64> = notes.saves.values().map(|took| took.as_micros() as u64).collect();
            ReplayedCheckpoints {
                tally,
                raw_bytes: self.work.conversation.messages().map(json).sum(),
                early_save_micros: median(&saves[..saves.len().min(20)]),
                late_save_micros: median(&saves[saves.len().saturating_sub(20)..]),
                largest_save_micros: saves.iter().copied().max().unwrap_or_default(),
            }
        });
        let sent = || self.report.prompt_tokens.iter().flatten().copied();
        let uncompacted = prompts_without_compaction(&self.work.conversation);
        let window = self.agent.model.as_ref().and_then(|id| self.engine.services().workflow.model(id).ok());
        let window = window.map_or(Tokens::MAX, |model| model.limits.window);
        ReplayReport {
            totals: PromptTotals {
                peak_prompt_tokens: sent().max().unwrap_or_default(),
                total_prompt_tokens: sent().sum(),
                peak_prompt_tokens_uncompacted: uncompacted.iter().copied().max().unwrap_or_default(),
                total_prompt_tokens_uncompacted: uncompacted.into_iter().sum(),
            },
            over_window: sent().filter(|tokens| *tokens > window).count(),
            coverage: self.work.conversation.coverage(),
            checkpoints,
            ..self.report
        }
    }
}

fn note_taker(notes: &Arc<Mutex<Notes>>) -> Watcher {
    let notes = Arc::clone(notes);
    Arc::new(move |event| {
        let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            RunEvent::Fitted { report, took } => notes.fits.push((CompactionReport::clone(report), *took)),
            RunEvent::Sending(prompt) => notes.prompts.push(note(prompt)),
            RunEvent::Checkpointed { info, took } => *notes.saves.entry(info.iteration).or_default() += *took,
            _ => {}
        }
    })
}

/// Counts the prompt as it is sent, message by message. The tokens for which it was proven are not trusted
/// here.
fn note(prompt: &Prompt) -> PromptNote {
    let messages = prompt.messages();
    let tokens = REQUEST_TOKENS + messages.iter().map(ContextMessage::tokens).sum();
    PromptNote { tokens, is_split: !openai_breaches(messages).is_empty() }
}

/// Returns the exchanges of a sequence of assistant and tool messages: a reply and its results each.
fn exchanges(segment: &[Message]) -> Vec<&[Message]> {
    segment.chunk_by(|_, next| next.role() == Role::Tool).collect()
}

/// Returns the tokens that each prompt would have had without compaction.
fn prompts_without_compaction(conversation: &Conversation) -> Vec<Tokens> {
    let mut so_far = REQUEST_TOKENS;
    let mut prompts = Vec::new();
    for message in conversation.messages() {
        if message.message().role() == Role::Assistant {
            prompts.push(so_far);
        }
        so_far += message.tokens();
    }
    prompts
}

fn empty_report() -> ReplayReport {
    ReplayReport {
        calls: 0,
        compactions: Vec::new(),
        strategies: StrategyStatistics::default(),
        refused: 0,
        refusals: Vec::new(),
        totals: PromptTotals::default(),
        over_window: 0,
        split_exchanges: 0,
        prompt_tokens: Vec::new(),
        coverage: Coverage { appended: 0, verbatim: 0, replaced: 0 },
        fit_micros: 0,
        checkpoints: None,
    }
}

fn median(times: &[u64]) -> u64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}
