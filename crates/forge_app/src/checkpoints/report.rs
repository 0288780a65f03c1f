//! The report on a checkpoint: its figures, the layers of compactions, and the view.

use std::collections::BTreeMap;

use forge_domain::{
    Body, Checkpoint, CheckpointInfo, CompactionEntry, Configuration, ContextMessage, Conversation, Coverage,
    Entry, EntryId, Progress, Role, Size, Tokens, ToolName, searched_text,
};
use jiff::Timestamp;
use serde::Serialize;

/// A report on a checkpoint.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointReport {
    /// The facts that are known without loading it.
    #[serde(flatten)]
    pub info: CheckpointInfo,
    /// The coverage of the log.
    pub coverage: Coverage,
    /// The counters of the work.
    pub progress: Progress,
    /// The configuration of the agent.
    pub configuration: Configuration,
    /// Every compaction, oldest first.
    pub compactions: Vec<CompactionLayer>,
    /// The messages that the model would see.
    pub view: Vec<ViewedMessage>,
}

/// One compaction of a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionLayer {
    /// Its label, such as `c2`.
    pub id: String,
    /// Lines of the log before it: a fork from there has all that it replaced.
    pub line: usize,
    /// Its effect on the view.
    pub state: LayerState,
    /// The view before.
    pub before: Size,
    /// The view after.
    pub after: Size,
    /// Messages, as they were first appended, that it stands for.
    pub replaced: usize,
    /// Labels of earlier compactions that it took over.
    pub absorbs: Vec<String>,
    /// The text that replaces what left.
    pub summary: String,
}

/// A state of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerState {
    /// It shapes the view.
    InForce,
    /// A later one took it over; undoing that one brings it back.
    Absorbed,
    /// It was undone.
    Undone,
}

/// A message of the view.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ViewedMessage {
    /// Its label, such as `m12`.
    pub id: String,
    /// The role of its author.
    pub role: Role,
    /// The tool that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Its tokens.
    pub tokens: Tokens,
    /// Its time, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// True if a compaction made it in place of others.
    pub is_compacted: bool,
    /// Its text, including its calls.
    pub text: String,
}

/// Returns the report on `checkpoint`.
pub fn report(checkpoint: &Checkpoint) -> CheckpointReport {
    let conversation = &checkpoint.snapshot.conversation;
    CheckpointReport {
        info: checkpoint.info.clone(),
        coverage: conversation.coverage(),
        progress: checkpoint.snapshot.progress.clone(),
        configuration: checkpoint.snapshot.configuration.clone(),
        compactions: layers(conversation),
        view: conversation.view().messages().iter().map(ViewedMessage::of).collect(),
    }
}

impl ViewedMessage {
    /// Returns the message as it is shown to people.
    pub(super) fn of(message: &ContextMessage) -> Self {
        let plain = message.message();
        Self {
            id: message.id().map(|id| id.to_string()).unwrap_or_default(),
            role: plain.role(),
            tool: match &plain.body {
                Body::Tool(result) => result.name.clone(),
                _ => None,
            },
            tokens: message.tokens(),
            timestamp: plain.timestamp,
            is_compacted: plain.is_compacted,
            text: searched_text(plain),
        }
    }
}

/// Returns every compaction of `conversation`, oldest first.
fn layers(conversation: &Conversation) -> Vec<CompactionLayer> {
    let mut states: BTreeMap<EntryId, LayerState> = BTreeMap::new();
    for entry in conversation.entries() {
        match entry {
            Entry::Message(_) => {}
            Entry::Compaction(entry) => {
                states.extend(entry.absorbs().iter().map(|id| (*id, LayerState::Absorbed)));
                states.insert(entry.id(), LayerState::InForce);
            }
            Entry::Undo(id) => {
                states.insert(*id, LayerState::Undone);
                let undone = conversation.compactions().find(|entry| entry.id() == *id);
                let absorbed = undone.map(CompactionEntry::absorbs).unwrap_or_default();
                states.extend(absorbed.iter().map(|id| (*id, LayerState::InForce)));
            }
        }
    }
    let mut layers = Vec::new();
    for (line, entry) in conversation.entries().iter().enumerate() {
        let Entry::Compaction(entry) = entry else { continue };
        layers.push(CompactionLayer {
            id: entry.id().to_string(),
            line,
            state: states.get(&entry.id()).copied().unwrap_or(LayerState::InForce),
            before: view_size(conversation, line),
            after: view_size(conversation, line + 1),
            replaced: entry.replacements().iter().map(|replacement| replacement.replaces.len()).sum(),
            absorbs: entry.absorbs().iter().map(ToString::to_string).collect(),
            summary: entry.summary(),
        });
    }
    layers
}

/// Returns the size of the view after the first `line` lines of the log.
fn view_size(conversation: &Conversation, line: usize) -> Size {
    conversation.rewound(line).map_or_else(Size::default, |rewound| rewound.view().size())
}
