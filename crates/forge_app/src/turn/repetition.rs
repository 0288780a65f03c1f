//! Repetition: the model gets a note if it only repeats itself, and if that does not help, the turn ends.

use forge_domain::{Likeness, Message, Repetition};

use super::{Halt, Turn};
use crate::StopReason;
use crate::engine::newest_first;

/// The author of the note to the model, in the conversation.
const LOOP: &str = "loop";
/// How many times as often calls may be repeated if their results differ in numbers: one that draws the next
/// row, or looks at a counter, may be right.
const PATIENCE: usize = 5;

impl Turn<'_, '_> {
    /// Stops the turn if the model has made the same calls with the same results too often. Before that, it
    /// gets a note, once at half of the limit and once before the end. All that decides is in the
    /// conversation: a resumed run decides the same.
    pub(super) fn check_repetition(&mut self) -> Result<(), Halt> {
        let limit = self.agent.repetition_limit();
        if limit == usize::MAX {
            return Ok(());
        }
        self.limit_repetition(Likeness::Equal, limit)?;
        self.limit_repetition(Likeness::ApartFromNumbers, limit.saturating_mul(PATIENCE))
    }

    fn limit_repetition(&mut self, likeness: Likeness, limit: usize) -> Result<(), Halt> {
        let log = &self.work.conversation;
        let Some(found) = Repetition::at_the_end_of(log, limit, likeness) else { return Ok(()) };
        let Repetition { times, tools } = found;
        let tools = tools.join(", ");
        if times >= limit {
            let do_numbers_differ = likeness == Likeness::ApartFromNumbers;
            return Err(Halt::Stop(StopReason::Repeating { times, tools, do_numbers_differ }));
        }
        let is_noted = newest_first(log).next().is_some_and(|last| last.note_by() == Some(LOOP));
        let is_due = times == limit.div_ceil(2) || times + 1 == limit;
        if is_due && times > 1 && !is_noted {
            let left = limit - times;
            let calls = format!("The last calls ({tools}) were made {times} times with the same arguments");
            let rest = format!("Try something else, or say what is missing. After {left} more the run ends.");
            let note = match likeness {
                Likeness::Equal => format!(
                    "[{calls} and had the same results. Doing it again will not give another. {rest}]"
                ),
                Likeness::ApartFromNumbers => format!(
                    "[{calls}, and their results differed only in numbers. If you wait for something, wait in the call, for example by \
                     `sleep`. {rest}]"
                ),
            };
            self.append(Message::note(LOOP, note));
        }
        Ok(())
    }
}
