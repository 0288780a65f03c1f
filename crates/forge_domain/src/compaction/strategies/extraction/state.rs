//! The state of the work: its files, its checks, the errors that stand and the tasks.

use std::collections::HashMap;

use super::label::Folder;
use super::ledger::Ledger;
use super::record::Record;
use super::tasks::{TaskList, open, tasks};
use crate::compaction::answered_call::answered_call;
use crate::compaction::record_tag::is_record;
use crate::{Context, ContextMessage};

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
            let done = self.tasks.iter().position(|task| task.starts_with("completed:"));
            self.tasks.remove(done.unwrap_or(self.tasks.len() - 1));
            true
        } else {
            self.last_check.take().or_else(|| self.last_test.take()).is_some()
        }
    }
}
