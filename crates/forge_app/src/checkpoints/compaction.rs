//! Compacting a run's own conversation by hand.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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

/// The result of a manual compaction.
#[derive(Clone, Debug)]
pub struct CompactedRun {
    /// The report on it. Its messages are those of the view before.
    pub report: SessionReport,
    /// The state, with the compaction, if there was one, as the last line of its log.
    pub snapshot: ContextSnapshot,
    /// The compaction; `None` if nothing was to be done.
    pub entry: Option<EntryId>,
}

/// A request for a manual compaction, beside the agent's configuration when the checkpoint was made.
#[derive(Clone, Debug, Default)]
pub struct CompactRun {
    /// The block to use instead of the agent's.
    pub compact: Option<Compact>,
    /// The limit and the target in one, for the whole request. If unset, the model of the agent decides.
    pub limit: Option<Tokens>,
}

/// An error of a manual compaction that could not be tried.
pub type CompactRunError = CompactSessionError;

impl CompactRun {
    /// Returns the agent's block when `checkpoint` was made; the defaults if it had none.
    pub fn block_of(checkpoint: &Checkpoint) -> Compact {
        let agent = key::<Agent>(&checkpoint.snapshot.configuration, "agent");
        agent.and_then(|agent| agent.compact).unwrap_or_default()
    }
}

/// Counts the tokens of the tool schemas of `checkpoint`'s agent.
pub fn tools_tokens_of(checkpoint: &Checkpoint, counter: &dyn TokenCounter) -> Tokens {
    let tools = checkpoint.snapshot.configuration.0.get("tools").and_then(Value::as_object);
    match tools.filter(|tools| !tools.is_empty()) {
        Some(tools) => counter.count(&Value::Array(tools.values().cloned().collect()).to_string()),
        None => Tokens::ZERO,
    }
}

/// Compacts the view of `checkpoint` if that is due or `asked` demands it. Nothing is saved yet.
///
/// # Errors
/// [`CompactRunError`] if it cannot be tried. That it cannot fit is an outcome, not an error.
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
    let by = report.by().into();
    let replacements = entry.as_ref().map(CompactionEntry::replacements).unwrap_or_default();
    report.messages = fates(&before, &snapshot.conversation.view(), replacements, &by);
    Ok(CompactedRun { report, snapshot, entry: entry.map(|entry| entry.id()) })
}

/// Saves what [`compact_run`] did to the checkpoint `from` as a new checkpoint of the same run; `None` if it
/// did nothing. It can be undone like any other compaction.
///
/// # Errors
/// [`StoreError`] if another process writes the run, or the store fails.
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
    writer.write_at(store, &from.info.run, from.expected_latest(), save).await
}

/// Returns the limits of the agent's model. The agent's own limit of an answer is its reserve.
fn limits_of(checkpoint: &Checkpoint) -> ModelLimits {
    let configuration = &checkpoint.snapshot.configuration;
    let unknown = ModelLimits { window: ASSUMED_WINDOW, max_output: None };
    let limits = key::<ModelLimits>(configuration, "limits").unwrap_or(unknown);
    let own = key::<Agent>(configuration, "agent").and_then(|agent| agent.max_output_tokens);
    ModelLimits { max_output: own.map(|most| Tokens::new(most.get() as u64)).or(limits.max_output), ..limits }
}

/// Reads a key of a configuration, as far as this version of forge can.
fn key<T: for<'de> Deserialize<'de>>(configuration: &Configuration, name: &str) -> Option<T> {
    T::deserialize(configuration.0.get(name)?).ok()
}

/// Returns the fate of each message in the view of `before`.
fn fates(
    before: &Conversation,
    after: &Context,
    replacements: &[Replacement],
    by: &Arc<str>,
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
                (fate, Some(Arc::from(why)))
            }
        };
        MessageReport {
            id,
            role: message.message().role(),
            tokens: message.tokens(),
            fate,
            by: why.is_some().then(|| Arc::clone(by)),
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

/// Checks whether `after` is a shorter form of the message `before`. A summary is not.
fn is_same(before: &Message, after: &Message) -> bool {
    let calls = |message: &Message| message.calls().iter().map(|call| call.id.clone()).collect::<Vec<_>>();
    let same_body = match (&before.body, &after.body) {
        (Body::Tool(before), Body::Tool(after)) => before.call_id == after.call_id,
        _ => before.role() == after.role() && calls(before) == calls(after),
    };
    same_body && before.is_compacted == after.is_compacted && before.timestamp == after.timestamp
}
