//! Fills a record for what leaves a context.

use super::answered::Answered;
use super::choice::Choice;
use super::filling::Filling;
use super::leaving::Leaving;
use super::order::Highlights;
use super::record::Record;
use super::state::State;
use super::worth::Worth;
use crate::{ContextMessage, TokenCounter, Tokens};

/// The share of the room that the tasks, the files, the check and the errors may take, in percent.
const STATE_PERCENT: u64 = 35;
/// A record of talk with less room does not count what it does not quote.
const LEAST_COUNTED: Tokens = Tokens::new(800);
/// A record with less room does not say that the request below it came earlier.
const LEAST_NOTED: Tokens = Tokens::new(400);

impl Leaving<'_> {
    /// Returns the record in at most `room` tokens; `None` if nothing fits beside its frame.
    pub(super) fn fill(
        &self,
        room: Tokens,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        let counted = |record: &Record| ContextMessage::count(record.to_message(), counter);
        let mut base = self.base();
        if room < LEAST_NOTED {
            // The labels must do.
            base.around.request_below = None;
        }
        let mut message = counted(&base);
        let empty = counted(&Record::default()).tokens();
        let most = empty + (room - empty).share(STATE_PERCENT, 100);
        while message.tokens() > most && base.shed_at_once(message.tokens() - most) {
            message = counted(&base);
        }
        if message.tokens() > room {
            return None;
        }
        let answered = Answered::of(self.material, self.leaves, worth);
        let mut filling = self.choose(room - message.tokens(), &answered, worth, counter);
        loop {
            let mut record = filling.write(&base, self.material, &answered);
            // In talk, each side says about as much, and in a small room the order must do.
            let may_say_so = !self.material.is_talk && room >= LEAST_NOTED && !record.said.is_empty();
            record.around.words_above = may_say_so && self.all_said_is_older(&filling);
            if record.is_bare() {
                return None;
            }
            // In a short record of talk that goes without saying, and another turn says more.
            let is_counted = !self.material.is_talk || room >= LEAST_COUNTED;
            if let Some(unquoted) = is_counted.then(|| self.unquoted(&filling)).flatten() {
                record.left_out.insert(0, unquoted.entry());
            }
            message = counted(&record);
            // Each part was counted alone; if they exceed that together, the least valuable leaves.
            if message.tokens() <= room || !filling.shed(message.tokens() - room) {
                return Some(message);
            }
        }
    }

    /// Returns the record of tasks, files, the check and the errors.
    fn base(&self) -> Record {
        let State { record, tasks, known_tasks, .. } = self.material.state;
        let mut record = record.clone();
        record.around.request_below.clone_from(&self.request_below);
        record.tasks = match tasks {
            Some(list) if list.told_at.is_none_or(|position| !self.calls_stay[position]) => {
                list.tasks.clone()
            }
            Some(_) => Vec::new(),
            None => known_tasks.clone(),
        };
        record
    }

    /// Chooses what is most worth `room` tokens.
    fn choose(
        &self,
        room: Tokens,
        answered: &Answered,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Filling {
        worth.begin_again();
        let newest = self.newest();
        let staying =
            self.material.context.messages().iter().zip(self.leaves).filter(|(_, leaves)| !**leaves);
        let staying = staying.map(|(message, _)| &message.features().text);
        let filling = Filling::beside(staying.chain(self.left.iter().map(|(_, text)| text)));
        let passages = self.passages(&newest, answered, &filling);
        let antecedent = self.antecedent_in_record(&passages);
        let mut candidates = worth.candidates(passages, &answered.interview);
        self.left.iter().for_each(|(position, text)| worth.note_shown(&mut candidates, *position, text));
        let highlights = Highlights { material: self.material, newest, antecedent, answered };
        Choice::new(self, worth, candidates, filling, &answered.interview, room, counter)
            .carry_out(&highlights)
    }
}
