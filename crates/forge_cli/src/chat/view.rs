//! The view of a chat: the answer as Markdown, and around it the output of any run on the console.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use console::style;
use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};

use super::screen::Screen;
use crate::failure::Exit;
use crate::output;
use crate::run::status::Activities;
use crate::run::{Break, ConsoleWatcher, RESTARTED, RunStart, RunView, checkpoints};

/// The view of a chat.
pub(super) struct ChatView {
    screen: Arc<Screen>,
    /// The console for everything except the answer.
    console: ConsoleWatcher,
    activities: Mutex<Activities>,
    /// True if a part of the current reply is on the screen.
    has_text: AtomicBool,
}

impl ChatView {
    pub(super) fn at(screen: Arc<Screen>) -> Self {
        Self {
            screen,
            console: ConsoleWatcher::default(),
            activities: Mutex::default(),
            has_text: AtomicBool::new(false),
        }
    }
}

impl RunView for ChatView {
    fn tell(&self, event: &RunEvent<'_>) {
        let screen = &self.screen;
        let doing = self.activities.lock().unwrap_or_else(PoisonError::into_inner).begun_by(event);
        if let Some(doing) = doing {
            screen.does(doing);
        }
        match event {
            RunEvent::Text(text) => {
                screen.end_thought();
                screen.answer(text);
                self.has_text.store(true, Ordering::Relaxed);
            }
            RunEvent::Restarted { .. } => {
                if self.has_text.swap(false, Ordering::Relaxed) {
                    output::say(&style(RESTARTED).dim().for_stderr().to_string());
                }
            }
            RunEvent::Reasoning(text) => screen.think(text),
            RunEvent::ToolOutput { line, .. } => screen.output(line),
            RunEvent::Fitted { .. } => {
                screen.figures(|figures| figures.take(event));
                self.console.tell(event);
            }
            RunEvent::Sending(_) => {
                screen.figures(|figures| figures.take(event));
            }
            RunEvent::Replied { .. } => {
                screen.end_thought();
                screen.end_answer();
                self.has_text.store(false, Ordering::Relaxed);
                screen.figures(|figures| figures.take(event));
            }
            RunEvent::ToolResult(_) => {
                screen.end_output();
                self.console.tell(event);
            }
            // The status says how far it is.
            RunEvent::ToolProgress { .. } => {}
            event => self.console.tell(event),
        }
    }

    fn show_start(&self, start: &RunStart) {
        self.console.show_start(start);
    }

    fn show_resume(&self, restored: &Restored, _: bool) {
        checkpoints::say_restored(restored, false);
    }

    fn show_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>, exit: Exit) {
        self.console.show_end(report, checkpoints, exit);
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, flags: &str) {
        self.console.show_break(why, checkpoints, flags);
    }

    fn end(&self) {
        self.screen.end();
    }
}
