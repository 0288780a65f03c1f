//! The view of a chat: the answer as Markdown, and around it the output of any run on the console.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use console::style;
use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};

use super::screen::Screen;
use super::status::Doing;
use crate::failure::Exit;
use crate::output;
use crate::run::{Break, ConsoleWatcher, RESTARTED, RunStart, RunView, checkpoints};

/// The view of a chat.
pub(super) struct ChatView {
    screen: Arc<Screen>,
    /// The console for everything except the answer.
    console: ConsoleWatcher,
    running: std::sync::Mutex<Vec<String>>,
    /// True if a part of the current reply is on the screen.
    has_text: AtomicBool,
}

impl ChatView {
    pub(super) fn at(screen: Arc<Screen>) -> Self {
        Self {
            screen,
            console: ConsoleWatcher::default(),
            running: std::sync::Mutex::default(),
            has_text: AtomicBool::new(false),
        }
    }

    /// Changes the list of running tools, and returns what is done now.
    fn update_running(&self, change: impl FnOnce(&mut Vec<String>)) -> Doing {
        let mut running = self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(&mut running);
        if running.is_empty() {
            Doing::Preparing
        } else {
            Doing::Running { tools: running.clone(), progress: None }
        }
    }
}

impl RunView for ChatView {
    fn tell(&self, event: &RunEvent<'_>) {
        let screen = &self.screen;
        match event {
            RunEvent::Text(text) => {
                screen.end_thought();
                screen.does(Doing::Writing);
                screen.answer(text);
                self.has_text.store(true, Ordering::Relaxed);
            }
            RunEvent::Restarted { .. } => {
                if self.has_text.swap(false, Ordering::Relaxed) {
                    output::say(&style(RESTARTED).dim().for_stderr().to_string());
                }
            }
            RunEvent::Reasoning(text) => {
                screen.does(Doing::Thinking);
                screen.think(text);
            }
            RunEvent::Woken { .. } => {
                self.console.tell(event);
                screen.does(self.update_running(Vec::clear));
            }
            RunEvent::ToolOutput { line, .. } => screen.output(line),
            RunEvent::Compacting { .. } => screen.does(Doing::Compacting),
            RunEvent::Fitted { report, .. } => {
                screen.does(Doing::Preparing);
                screen.figures(|figures| figures.cost += report.cost());
                self.console.tell(event);
            }
            RunEvent::Sending(prompt) => {
                screen.does(Doing::Asking);
                screen.figures(|figures| (figures.used, figures.window) = (prompt.tokens(), prompt.window()));
            }
            RunEvent::Replied { usage, cost, .. } => {
                screen.end_thought();
                screen.end_answer();
                self.has_text.store(false, Ordering::Relaxed);
                screen.does(Doing::Preparing);
                screen.figures(|figures| {
                    figures.calls += 1;
                    figures.cost += *cost;
                    // By the count of `/context`: a provider's own count of the prompt differs.
                    figures.used += usage.map(|usage| usage.completion_tokens).unwrap_or_default();
                });
            }
            RunEvent::ToolCall(call) => {
                self.console.tell(event);
                screen.does(self.update_running(|running| running.push(call.name.to_string())));
            }
            RunEvent::ToolFinished(call) => {
                self.console.tell(event);
                screen.does(self.update_running(|running| {
                    // Two calls of a tool look alike: one of them is over.
                    if let Some(at) = running.iter().position(|tool| tool == call.name.as_str()) {
                        running.remove(at);
                    }
                }));
            }
            RunEvent::ToolResult(_) => {
                // Results are told when all of them are there.
                screen.end_output();
                screen.does(self.update_running(Vec::clear));
                self.console.tell(event);
            }
            RunEvent::ToolProgress { tool, done, of, message } => {
                let of = of.map(|of| format!("/{of}")).unwrap_or_default();
                let progress = format!("{tool} {done}{of} {}", message.unwrap_or_default());
                let doing = match self.update_running(|_| {}) {
                    Doing::Running { tools, .. } => {
                        Doing::Running { tools, progress: Some(progress.trim_end().to_owned()) }
                    }
                    doing => doing,
                };
                screen.does(doing);
            }
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
