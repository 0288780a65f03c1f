//! The view of a run that is not a chat: the console, and the progress between what it prints.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Instant;

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use tokio::sync::watch;

use super::answer_schema::Answer;
use super::console_watcher::ConsoleWatcher;
use super::progress::Progress;
use super::view::{Break, RunStart, RunView};
use crate::failure::Exit;
use crate::output;

/// The console, and the progress between what it prints.
pub(crate) struct ProgressView {
    console: ConsoleWatcher,
    progress: watch::Sender<Progress>,
}

impl ProgressView {
    /// Creates the display of a run whose replies are printed.
    pub(crate) fn of_replies() -> Self {
        Self::of(ConsoleWatcher::default(), std::io::stdout().is_terminal())
    }

    /// Creates the display of a run whose answer has a schema: stdout is for it alone.
    pub(crate) fn of_answer() -> Self {
        Self::of(ConsoleWatcher::for_answer(), false)
    }

    fn of(console: ConsoleWatcher, is_streamed: bool) -> Self {
        let progress = watch::Sender::new(Progress::new(is_streamed, Instant::now()));
        let waits = progress.clone();
        let show = move |wait| waits.send_modify(|progress| progress.wait(wait, Instant::now()));
        output::watch_waits(Arc::new(show));
        Self { console, progress }
    }
}

impl RunView for ProgressView {
    fn show_start(&self, start: &RunStart) {
        self.console.show_start(start);
    }

    fn tell(&self, event: &RunEvent<'_>) {
        self.progress.send_modify(|progress| progress.take(event, Instant::now()));
        self.console.tell(event);
    }

    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        Some(self.progress.subscribe())
    }

    fn show_resume(&self, restored: &Restored, without_task: bool) {
        self.console.show_resume(restored, without_task);
    }

    fn show_saved_answer(&self, answer: &str) {
        self.console.show_saved_answer(answer);
    }

    fn show_answer(&self, answer: &Answer) {
        self.console.show_answer(answer);
    }

    fn show_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>, exit: Exit) {
        self.console.show_end(report, checkpoints, exit);
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, flags: &str) {
        self.console.show_break(why, checkpoints, flags);
    }

    fn end(&self) {
        self.console.end();
    }
}
