//! Repetition: the model gets a note if it only repeats itself, and if that does not help, the turn ends.

use forge_domain::{Likeness, Message, Repetition};

use super::{Halt, Turn};
use crate::StopReason;
use crate::engine::newest_first;

/// The author of the note to the model, in the conversation.
const LOOP: &str = "loop";
/// The factor by which calls may be repeated more often if their results differ in numbers, or if they wait:
/// one that draws the next row, looks at a counter, or watches a job may be right.
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
        let patient = limit.saturating_mul(PATIENCE);
        for (likeness, limit) in [(Likeness::Equal, limit), (Likeness::ApartFromNumbers, patient)] {
            let log = &self.work.conversation;
            let Some(mut found) = Repetition::at_the_end_of(log, limit, likeness) else { continue };
            let mut limit = limit;
            if found.does_wait {
                limit = patient;
                found = Repetition::at_the_end_of(log, limit, likeness).unwrap_or(found);
            }
            if found.times >= limit {
                let (times, tools) = (found.times, found.tools.join(", "));
                let do_numbers_differ = likeness == Likeness::ApartFromNumbers;
                return Err(Halt::Stop(StopReason::Repeating { times, tools, do_numbers_differ }));
            }
            let is_noted = newest_first(log).next().is_some_and(|last| last.note_by() == Some(LOOP));
            let is_due = found.times == limit.div_ceil(2) || found.times + 1 == limit;
            if is_due && found.times > 1 && !is_noted {
                self.append(Message::note(LOOP, note_about(&found, likeness, limit)));
            }
        }
        Ok(())
    }
}

/// Returns the words about a repetition that ends the turn at `limit`, for the model.
fn note_about(found: &Repetition, likeness: Likeness, limit: usize) -> String {
    let Repetition { times, tools, does_wait } = found;
    let tools = tools.join(", ");
    let calls = format!("The last calls ({tools}) were made {times} times with the same arguments");
    let left = limit.saturating_sub(*times);
    let rest = format!("Try something else, or say what is missing. After {left} more the run ends.");
    match likeness {
        Likeness::Equal if *does_wait => format!(
            "[{calls} and had the same results. Check whether what you wait for still runs, or wait longer in one call. {rest}]"
        ),
        Likeness::Equal => {
            format!("[{calls} and had the same results. Doing it again will not give another. {rest}]")
        }
        Likeness::ApartFromNumbers => format!(
            "[{calls}, and their results differed only in numbers. If you wait for something, wait in the call, for example by \
             `sleep`. {rest}]"
        ),
    }
}
