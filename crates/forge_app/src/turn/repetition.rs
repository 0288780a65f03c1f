//! Repetition: the model gets a note if it only repeats itself, and if that does not help, the turn ends.

use forge_domain::{Message, Repetition};

use super::{Halt, Turn};
use crate::StopReason;
use crate::engine::newest_first;

/// The author of the note to the model, in the conversation.
const LOOP: &str = "loop";

impl Turn<'_, '_> {
    /// Stops the turn if the model has made the same calls with the same results too often. Before that, it
    /// gets a note, once at half of the limit and once before the end. All that decides is in the
    /// conversation: a resumed run decides the same.
    pub(super) fn check_repetition(&mut self) -> Result<(), Halt> {
        let limit = self.agent.repetition_limit();
        if limit == usize::MAX {
            return Ok(());
        }
        let log = &self.work.conversation;
        let Some(Repetition { times, tools }) = Repetition::at_the_end_of(log, limit) else { return Ok(()) };
        let tools = tools.join(", ");
        if times >= limit {
            return Err(Halt::Stop(StopReason::Repeating { times, tools }));
        }
        let is_noted = newest_first(log).next().is_some_and(|last| last.note_by() == Some(LOOP));
        let is_due = times == limit.div_ceil(2) || times + 1 == limit;
        if is_due && times > 1 && !is_noted {
            let left = limit - times;
            let note = format!(
                "[The last calls ({tools}) were made {times} times with the same arguments and had the same results. Doing it again \
                 will not give another. Try something else, or say what is missing. After {left} more the run ends.]"
            );
            self.append(Message::note(LOOP, note));
        }
        Ok(())
    }
}
