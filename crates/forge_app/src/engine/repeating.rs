//! Notices where a model only repeats itself: it is told, and where that does not help, the turn ends.

use forge_domain::{Agent, Conversation, Entry, Message, Repetition};

use super::Engine;
use crate::StopReason;

/// By whom the model is told, in the conversation.
const LOOP: &str = "loop";

impl Engine {
    /// Why the turn ends, where the model has made the same calls with the same results too often. Before that, it is told, once at
    /// half the way and once before the end. All that this goes by is in the conversation: a resumed run comes to the same.
    pub(super) fn heed_repetition(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
    ) -> Option<StopReason> {
        let limit = agent.repetition_limit();
        if limit == usize::MAX {
            return None;
        }
        let Repetition { times, tools } = Repetition::at_the_end_of(conversation, limit)?;
        let tools = tools.join(", ");
        if times >= limit {
            return Some(StopReason::Repeating { times, tools });
        }
        let is_told = last_message(conversation).is_some_and(|last| last.note_by() == Some(LOOP));
        let is_due = times == limit.div_ceil(2) || times + 1 == limit;
        if is_due && times > 1 && !is_told {
            let left = limit - times;
            let note = format!(
                "[The last calls ({tools}) were made {times} times with the same arguments and had the same results. Doing it again \
                 will not give another. Try something else, or say what is missing. After {left} more the run ends.]"
            );
            self.append(conversation, Message::note(LOOP, note));
        }
        None
    }
}

fn last_message(conversation: &Conversation) -> Option<&Message> {
    conversation.entries().iter().rev().find_map(|entry| match entry {
        Entry::Message(message) => Some(message.message()),
        Entry::Compaction(_) | Entry::Undo(_) => None,
    })
}
