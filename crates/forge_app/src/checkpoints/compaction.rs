//! Compacting a run's own conversation by hand.

use std::collections::{HashMap, HashSet};

use forge_domain::compaction::{CompactionServices, ContextCompactor};
use forge_domain::{
    ASSUMED_WINDOW, Agent, Body, Checkpoint, CheckpointInfo, CheckpointReason, CheckpointStore, Compact,
    CompactionEntry, Configuration, Context, ContextMessage, ContextSnapshot, Conversation, EntryId, Message,
    MessageId, ModelLimits, NewCheckpoint, Replacement, StoreError, TokenCounter, Tokens,
};
use serde::Deserialize;
use serde_json::Value;

use super::{Selected, Writer};
use crate::compact_session::{compact_conversation, is_stub, report};
use crate::{CompactSession, CompactSessionError, Fate, MessageReport, SessionReport, SessionRoom};

/// What came of it.
#[derive(Clone, Debug)]
pub struct CompactedRun {
    /// Everything there is to say about it; messages are those of the view before.
    pub report: SessionReport,
    /// The state, with the compaction as the last line of its log where there was one.
    pub snapshot: ContextSnapshot,
    /// The compaction; `None` where nothing was to be done.
    pub entry: Option<EntryId>,
}

/// What is asked for beside what the agent was configured with when the checkpoint was made.
#[derive(Clone, Debug, Default)]
pub struct CompactRun {
    /// Instead of the agent's block.
    pub compact: Option<Compact>,
    /// Limit and target in one, for the whole request; where unset, the model that the agent worked with
    /// decides.
    pub limit: Option<Tokens>,
}

/// Why a run could not be compacted at all.
pub type CompactRunError = CompactSessionError;

impl CompactRun {
    /// The agent's block when `checkpoint` was made; the defaults where it had none.
    pub fn block_of(checkpoint: &Checkpoint) -> Compact {
        let agent = key::<Agent>(&checkpoint.snapshot.configuration, "agent");
        agent.and_then(|agent| agent.compact).unwrap_or_default()
    }
}

/// Tokens of the tool schemas that `checkpoint`'s agent worked with.
pub fn tools_tokens_of(checkpoint: &Checkpoint, counter: &dyn TokenCounter) -> Tokens {
    let tools = checkpoint.snapshot.configuration.0.get("tools").and_then(Value::as_object);
    match tools.filter(|tools| !tools.is_empty()) {
        Some(tools) => counter.count(&Value::Array(tools.values().cloned().collect()).to_string()),
        None => Tokens::ZERO,
    }
}

/// Compacts the view of `checkpoint` where that is due or `asked` demands it. Nothing is saved yet.
///
/// # Errors
/// [`CompactRunError`] where it cannot be tried. That it cannot fit is no error but an outcome.
pub async fn compact_run(
    checkpoint: &Checkpoint,
    asked: CompactRun,
    compactor: &ContextCompactor,
    services: &dyn CompactionServices,
) -> Result<CompactedRun, CompactRunError> {
    let mut snapshot = checkpoint.snapshot.clone();
    let asked = CompactSession {
        compact: asked.compact.unwrap_or_else(|| CompactRun::block_of(checkpoint)),
        room: asked.limit.map_or_else(|| SessionRoom::Window(limits_of(checkpoint)), SessionRoom::Limit),
        tools_tokens: tools_tokens_of(checkpoint, services.counter()),
        number_of: |_| None,
    };
    let before = snapshot.conversation.clone();
    let (fit, entry) = compact_conversation(&mut snapshot.conversation, &asked, compactor, services).await?;
    let mut report = report(fit, &asked);
    let by = report.by();
    let replacements = entry.as_ref().map(CompactionEntry::replacements).unwrap_or_default();
    report.messages = fates(&before, &snapshot.conversation.view(), replacements, &by);
    Ok(CompactedRun { report, snapshot, entry: entry.map(|entry| entry.id()) })
}

/// Saves what [`compact_run`] did to the checkpoint `from` as a new checkpoint of the same run; `None` where
/// it did nothing. It can be undone like any other compaction.
///
/// # Errors
/// [`StoreError`] where somebody else writes the run, or the store fails.
pub async fn save_compaction(
    store: &dyn CheckpointStore,
    from: &Selected,
    compacted: &CompactedRun,
    writer: &Writer<'_>,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let Some(entry) = compacted.entry else { return Ok(None) };
    let new = NewCheckpoint {
        snapshot: compacted.snapshot.clone(),
        step: format!("compact-{entry}"),
        reason: CheckpointReason::Compaction,
        created_at: writer.now,
        parent: Some(from.info.key),
    };
    let save = async |claim| store.save(&claim, &new).await.map(Some);
    writer.writing_at(store, &from.info.run, from.expected_latest(), save).await
}

/// What the agent's model takes; the agent's own limit of an answer is its reserve.
fn limits_of(checkpoint: &Checkpoint) -> ModelLimits {
    let configuration = &checkpoint.snapshot.configuration;
    let unknown = ModelLimits { window: ASSUMED_WINDOW, max_output: None };
    let limits = key::<ModelLimits>(configuration, "limits").unwrap_or(unknown);
    let own = key::<Agent>(configuration, "agent").and_then(|agent| agent.max_output_tokens);
    ModelLimits { max_output: own.map(|most| Tokens::new(most.get() as u64)).or(limits.max_output), ..limits }
}

/// A key of what an agent worked with, as far as this forge can read it.
fn key<T: for<'de> Deserialize<'de>>(configuration: &Configuration, name: &str) -> Option<T> {
    T::deserialize(configuration.0.get(name)?).ok()
}

/// What became of each message of the view of `before`.
fn fates(
    before: &Conversation,
    after: &Context,
    replacements: &[Replacement],
    by: &str,
) -> Vec<MessageReport> {
    let kept: HashSet<Option<MessageId>> = after.messages().iter().map(ContextMessage::id).collect();
    // What earlier compactions made stands for what they replaced.
    let live = before.live_entries();
    let earlier = live.iter().flat_map(|entry| entry.replacements()).flat_map(|replacement| {
        let first = replacement.replaces.first().copied();
        replacement.with.iter().map(move |message| (message.id(), first))
    });
    let origin: HashMap<Option<MessageId>, Option<MessageId>> = earlier.collect();
    let report = |message: &ContextMessage| {
        let id = message.id();
        let origin = origin.get(&id).copied().unwrap_or(id);
        let instead = replacements.iter().find(|r| origin.is_some_and(|id| r.replaces.contains(&id)));
        let (fate, why) = match instead.filter(|_| !kept.contains(&id)) {
            None => (Fate::Kept, None),
            Some(replacement) => {
                let (fate, why) = fate(message, replacement);
                (fate, Some(why))
            }
        };
        MessageReport {
            id: id.map(|id| id.to_string()).unwrap_or_default(),
            role: message.message().role(),
            tokens: message.tokens(),
            fate,
            by: why.is_some().then(|| by.to_owned()),
            why,
        }
    };
    before.view().messages().iter().map(report).collect()
}

fn fate(before: &ContextMessage, replacement: &Replacement) -> (Fate, String) {
    let shorter = replacement.with.iter().find(|with| is_same(before.message(), with.message()));
    if let Some(after) = shorter {
        let fate = if is_stub(before.message(), after.message()) { Fate::Stubbed } else { Fate::Shortened };
        return (fate, format!("{} of {} tokens are left", after.tokens(), before.tokens()));
    }
    let labels: Vec<String> =
        replacement.with.iter().filter_map(|with| with.id().map(|id| id.to_string())).collect();
    match labels.as_slice() {
        [] => (Fate::Dropped, "nothing stands for it".to_owned()),
        labels => (Fate::Folded, format!("{} stands for it", labels.join(", "))),
    }
}

/// Whether `after` is the message `before` saying less: no summary is.
fn is_same(before: &Message, after: &Message) -> bool {
    let calls = |message: &Message| message.calls().iter().map(|call| call.id.clone()).collect::<Vec<_>>();
    let same_body = match (&before.body, &after.body) {
        (Body::Tool(before), Body::Tool(after)) => before.call_id == after.call_id,
        _ => before.role() == after.role() && calls(before) == calls(after),
    };
    same_body && before.is_compacted == after.is_compacted && before.timestamp == after.timestamp
}
