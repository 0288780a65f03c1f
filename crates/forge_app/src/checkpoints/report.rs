//! The report on a checkpoint: its figures, the layers of compactions, and the view.

use std::collections::{BTreeMap, HashMap};
use std::ops::Add;

use forge_domain::{
    Body, Checkpoint, CheckpointInfo, CompactionEntry, Configuration, ContextMessage, Conversation, Coverage,
    Entry, EntryId, MessageId, Progress, REQUEST_TOKENS, Role, Size, Tokens, ToolName, searched_text,
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
    let mut sizes = ViewSizes::new();
    let mut layers = Vec::new();
    for (line, entry) in conversation.entries().iter().enumerate() {
        let before = sizes.view;
        sizes.take(entry);
        let Entry::Compaction(entry) = entry else { continue };
        layers.push(CompactionLayer {
            id: entry.id().to_string(),
            line,
            state: states.get(&entry.id()).copied().unwrap_or(LayerState::InForce),
            before,
            after: sizes.view,
            replaced: entry.replacements().iter().map(|replacement| replacement.replaces.len()).sum(),
            absorbs: entry.absorbs().iter().map(ToString::to_string).collect(),
            summary: entry.summary(),
        });
    }
    layers
}

/// The size of the view while a log is read. To make the view for each compaction would take time in
/// proportion to the square of a long log.
struct ViewSizes {
    /// After the lines so far.
    view: Size,
    messages: HashMap<MessageId, Size>,
    effects: HashMap<EntryId, Effect>,
}

/// The effect of a compaction on the messages as they were appended.
struct Effect {
    left: Size,
    made: Size,
    absorbs: Vec<EntryId>,
}

impl ViewSizes {
    fn new() -> Self {
        let view = Size { tokens: REQUEST_TOKENS, ..Size::default() };
        Self { view, messages: HashMap::new(), effects: HashMap::new() }
    }

    /// Takes the next line of the log.
    fn take(&mut self, entry: &Entry) {
        match entry {
            Entry::Message(message) => {
                let size = size_of(message);
                self.view = self.view + size;
                self.messages.extend(message.id().map(|id| (id, size)));
            }
            Entry::Compaction(entry) => {
                for absorbed in entry.absorbs() {
                    self.lift(*absorbed);
                }
                let replaced = entry.replacements().iter().flat_map(|replacement| &replacement.replaces);
                let left = replaced.filter_map(|id| self.messages.get(id).copied());
                let left = left.fold(Size::default(), Add::add);
                let made = entry.replacements().iter().flat_map(|replacement| &replacement.with);
                let made = made.map(size_of).fold(Size::default(), Add::add);
                let effect = Effect { left, made, absorbs: entry.absorbs().to_vec() };
                self.effects.insert(entry.id(), effect);
                self.put_in_force(entry.id());
            }
            Entry::Undo(id) => {
                self.lift(*id);
                let absorbed = self.effects.get(id).map(|effect| effect.absorbs.clone());
                for id in absorbed.unwrap_or_default() {
                    self.put_in_force(id);
                }
            }
        }
    }

    fn put_in_force(&mut self, id: EntryId) {
        if let Some(Effect { left, made, .. }) = self.effects.get(&id) {
            self.view = without(self.view + *made, *left);
        }
    }

    fn lift(&mut self, id: EntryId) {
        if let Some(Effect { left, made, .. }) = self.effects.get(&id) {
            self.view = without(self.view + *left, *made);
        }
    }
}

fn size_of(message: &ContextMessage) -> Size {
    Size { messages: 1, turns: usize::from(message.starts_turn()), tokens: message.tokens() }
}

fn without(size: Size, part: Size) -> Size {
    Size {
        messages: size.messages.saturating_sub(part.messages),
        turns: size.turns.saturating_sub(part.turns),
        tokens: size.tokens - part.tokens,
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{Message, Replacement};
    use pretty_assertions::assert_eq;

    use super::*;

    fn message(id: u64) -> ContextMessage {
        ContextMessage::restored(MessageId::new(id), Tokens::new(100 + id), Message::user("u"))
    }

    fn compaction(nth: u64, replaces: &[u64], record: Option<u64>, absorbs: &[u64]) -> Entry {
        let made = |id: u64| {
            let message = Message::user("r").compacted();
            ContextMessage::restored(MessageId::new(id), Tokens::new(10 + id), message)
        };
        let replaces = replaces.iter().map(|id| MessageId::new(*id)).collect();
        let replacement = Replacement { replaces, with: record.map(made).into_iter().collect() };
        let absorbs = absorbs.iter().map(|id| EntryId::nth(*id)).collect();
        Entry::Compaction(CompactionEntry::restored(EntryId::nth(nth), vec![replacement], absorbs))
    }

    #[test]
    fn the_size_before_and_after_a_compaction_is_that_of_the_view() {
        let said = |ids: std::ops::Range<u64>| ids.map(|id| Entry::Message(message(id)));
        let mut entries: Vec<Entry> = said(0..4).collect();
        entries.push(compaction(0, &[0, 1], Some(4), &[]));
        entries.extend(said(5..6));
        entries.push(compaction(1, &[0, 1, 2, 3], Some(6), &[0]));
        entries.push(Entry::Undo(EntryId::nth(1)));
        entries.extend(said(7..8));
        entries.push(compaction(2, &[0, 1, 2], Some(8), &[0]));
        entries.push(compaction(3, &[5], None, &[]));
        entries.push(Entry::Undo(EntryId::nth(3)));
        entries.extend(said(9..10));
        entries.push(compaction(4, &[0, 1, 2, 3, 5, 7], Some(10), &[2]));
        let conversation = Conversation::restore(entries).unwrap();
        let size_at = |line: usize| conversation.rewound(line).unwrap().view().size();
        let layers = layers(&conversation);
        assert_eq!(layers.len(), 5);
        for layer in layers {
            let expected = (size_at(layer.line), size_at(layer.line + 1));
            assert_eq!((layer.before, layer.after), expected, "{}", layer.id);
        }
    }
}
