//! The state of the work: its files, its checks, the errors that stand and the tasks.

use std::collections::HashMap;

use super::label::Folder;
use super::ledger::Ledger;
use super::record::Record;
use super::tasks::{TaskList, open, tasks};
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::is_line_break;
use crate::compaction::record_tag::is_record;
use crate::{Context, ContextMessage, Tokens};

/// The state of the work at the end of a context, whatever leaves of it.
pub(super) struct State {
    /// The files, the check and the errors.
    pub(super) record: Record,
    pub(super) folder: Folder,
    /// The list of tasks by the calls, or that of an earlier record.
    pub(super) tasks: Option<TaskList>,
    pub(super) known_tasks: Vec<String>,
    /// The subjects of the commands that ran on after their results, by the ids under which later calls ask.
    pub(super) running: HashMap<String, String>,
}

impl State {
    /// Reads it from the calls of `context`, whose messages were `sources` at first, and its earlier records.
    pub(super) fn of(context: &Context, sources: &[ContextMessage]) -> Self {
        let messages = context.messages().iter().map(ContextMessage::message);
        let earlier: Vec<Record> = messages.filter(|message| is_record(message)).map(Record::of).collect();
        let known = earlier.iter().rev().find_map(|earlier| earlier.folder.clone());
        let folder = Folder::of(sources, known);
        let mut record = Record { folder: folder.as_deref().map(str::to_owned), ..Record::default() };
        let mut ledger = Ledger::new(folder.root().clone());
        earlier.iter().for_each(|earlier| ledger.take_record(earlier));
        // Messages that stay are included: a later success among them resolves an error before it.
        ledger.take_all(context, sources);
        ledger.write_into(&mut record);
        let known_tasks = earlier.into_iter().next_back().map(|earlier| earlier.tasks).unwrap_or_default();
        let tasks = tasks(context, sources, &known_tasks);
        let running = (0..sources.len()).filter_map(|position| {
            let asked = answered_call(context, position)?;
            let id = asked.deed.unfinished(&sources[position])?.id.clone()?;
            Some((id, folder.subject(asked.deed)))
        });
        let running = running.collect();
        Self { record, folder, tasks, known_tasks, running }
    }

    /// Iterates over the texts of the open tasks, the next one first.
    pub(super) fn open_tasks(&self) -> impl Iterator<Item = &str> {
        open(self.tasks.as_ref().map_or(&self.known_tasks, |list| &list.tasks))
    }
}

impl Record {
    /// Drops the sentence about the request, then the oldest of the most frequent kind; returns false if
    /// nothing is left.
    pub(super) fn shed(&mut self) -> bool {
        if self.around.request_below.take().is_some() {
            true
        } else if !self.files.is_empty() && self.files.len() >= self.tasks.len() {
            self.files.drain(..self.files.len().div_ceil(4));
            true
        } else if !self.errors.is_empty() {
            self.errors.remove(0);
            true
        } else if !self.tasks.is_empty() {
            // Nobody has to work on what is completed.
            let done = self.tasks.iter().position(|task| is_completed(task));
            self.tasks.remove(done.unwrap_or(self.tasks.len() - 1));
            true
        } else {
            self.last_check.take().or_else(|| self.last_test.take()).is_some()
        }
    }

    /// Drops as [`Self::shed`] does, and of many tasks several at once: those that would leave one by one
    /// until `excess` tokens may be saved. A token has at least one byte.
    pub(super) fn shed_at_once(&mut self, excess: Tokens) -> bool {
        let (n_tasks, n_bytes) = (self.tasks.len(), self.bytes_of_tasks());
        let is_shed = self.shed();
        if self.tasks.len() == n_tasks {
            return is_shed;
        }
        let saved = (n_bytes - self.bytes_of_tasks() + AT_BOUNDARIES) as u64;
        let mut excess = excess.as_u64().saturating_sub(saved);
        // Once there are as many files, those are next.
        let mut n_next = self.tasks.len().saturating_sub(self.files.len());
        let mut leaves = |task: &String| {
            let leaves = n_next > 0 && excess > 0;
            if leaves {
                n_next -= 1;
                excess = excess.saturating_sub(bytes_of_task(task) as u64);
            }
            leaves
        };
        self.tasks.retain(|task| !(is_completed(task) && leaves(task)));
        while self.tasks.last().is_some_and(&mut leaves) {
            self.tasks.pop();
        }
        is_shed
    }

    fn bytes_of_tasks(&self) -> usize {
        self.tasks.iter().map(|task| bytes_of_task(task)).sum()
    }
}

/// By so many tokens, what stays may be counted otherwise beside what left.
const AT_BOUNDARIES: usize = 16;
/// Most bytes that a character's byte has in a quoted task, and those of its frame.
const QUOTED_BYTES: usize = 6;
const FRAME_BYTES: usize = 5;

/// Returns the most bytes that the line of a task has in a record.
fn bytes_of_task(task: &str) -> usize {
    let may_be_quoted = task.starts_with('"') || task.contains(is_line_break);
    FRAME_BYTES + task.len() * if may_be_quoted { QUOTED_BYTES } else { 1 }
}

fn is_completed(task: &str) -> bool {
    task.starts_with("completed:")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::findings::FileState;
    use crate::compaction::fixture::Characters;

    #[test]
    fn many_tasks_leave_at_once_and_the_same_as_one_by_one() {
        let n = 600;
        for (n_files, most) in [(0, 4_000), (100, 9_000), (500, 9_000), (0, 0)] {
            let task = |nth: usize| match nth % 3 {
                0 => format!("completed: the {nth}th\nof many"),
                _ => format!("pending: \"the {nth}th\" {}", "of many ".repeat(nth % 7)),
            };
            let files = (0..n_files).map(|nth| (format!("src/{nth}.rs"), FileState::Created)).collect();
            let whole = Record { tasks: (0..n).map(task).collect(), files, ..Record::default() };
            let tokens = |record: &Record| ContextMessage::count(record.to_message(), &Characters).tokens();
            let most = Tokens::new(most);
            let (mut one_by_one, mut at_once, mut n_counted) = (whole.clone(), whole, 0);
            while tokens(&one_by_one) > most && one_by_one.shed() {}
            while tokens(&at_once) > most && at_once.shed_at_once(tokens(&at_once) - most) {
                n_counted += 1;
            }
            assert_eq!(at_once, one_by_one, "{n_files} {most:?}");
            assert!(n_counted < n / 4, "{n_counted}");
        }
    }
}
