//! Shows a run on the console: the answer on standard output, everything else on standard error.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use console::style;
use forge_app::{RunEvent, RunReport, StopReason};
use forge_domain::compaction::{CompactionReport, Outcome};
use forge_domain::{Content, ToolCall, ToolResult};

use crate::replay_view::{because, change};

/// Most characters of a call's arguments or of a result that are shown.
const SHOWN: usize = 100;

/// Shows a run while it goes on.
#[derive(Default)]
pub(crate) struct ConsoleWatcher {
    /// Whether the answer's last line is still open.
    is_open: Mutex<bool>,
}

impl ConsoleWatcher {
    /// Shows one event.
    pub(crate) fn tell(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Text(text) => self.write(text),
            RunEvent::Notice(notice) => {
                self.say(&format!("{} {notice}", style("note:").yellow().for_stderr()));
            }
            RunEvent::Fitted { report, .. } => self.fitted(report),
            RunEvent::ToolCall(call) => self.called(call),
            RunEvent::ToolResult(result) => self.answered(result),
            RunEvent::Replied { .. } => self.end(),
            RunEvent::Stopped(stop) if **stop != StopReason::Done => self.say(&stop.to_string()),
            _ => {}
        }
    }

    /// Ends the answer's line if it is still open.
    pub(crate) fn end(&self) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        if *is_open {
            // Nobody is left to be told that standard output is closed.
            let _ = writeln!(std::io::stdout());
            *is_open = false;
        }
    }

    /// Says what the whole run took.
    pub(crate) fn sum_up(&self, report: &RunReport) {
        let n_compactions =
            report.outcomes.iter().filter(|fit| matches!(fit.outcome, Outcome::Applied { .. })).count();
        let cached = match report.usage.cached_tokens.as_u64() {
            0 => String::new(),
            cached => format!(" ({cached} cached)"),
        };
        let line = format!(
            "{} calls · {n_compactions} compactions · {} prompt tokens{cached} · {} completion tokens",
            report.iterations, report.usage.prompt_tokens, report.usage.completion_tokens
        );
        self.say(&style(line).dim().for_stderr().to_string());
    }

    fn write(&self, text: &str) {
        let mut is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut out = std::io::stdout();
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        *is_open = !text.ends_with('\n');
    }

    fn say(&self, line: &str) {
        self.end();
        eprintln!("{line}");
    }

    fn fitted(&self, report: &CompactionReport) {
        if let Outcome::Applied { strategies, .. } = &report.outcome {
            let strategies: Vec<&str> = strategies.iter().map(forge_domain::StrategyId::as_str).collect();
            let mark = style("compacted").cyan().for_stderr();
            self.say(&format!(
                "{mark} by {}: {} ({})",
                strategies.join(", "),
                change(report),
                because(report)
            ));
        }
    }

    fn called(&self, call: &ToolCall) {
        let name = style(call.name.as_str()).green().for_stderr();
        self.say(&format!("→ {name} {}", one_line(&call.arguments)));
    }

    fn answered(&self, result: &ToolResult) {
        let text = Content::to_text(&result.content);
        let mark = if result.is_error { style("✗").red() } else { style("←").dim() };
        self.say(&format!("{} {}", mark.for_stderr(), one_line(&text)));
    }
}

/// The beginning of `text` on one line. Control characters are left out: a tool's output must not steer the terminal.
fn one_line(text: &str) -> String {
    let mut line = text.lines().next().unwrap_or_default().replace(char::is_control, "");
    let n_lines = text.lines().count();
    if line.chars().count() > SHOWN {
        line = line.chars().take(SHOWN).collect::<String>() + "…";
    }
    if n_lines > 1 { format!("{line} (+{} lines)", n_lines - 1) } else { line }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn what_a_tool_says_is_shown_on_one_harmless_line() {
        for (text, expected) in [
            ("", String::new()),
            ("one", "one".to_owned()),
            ("one\ntwo\nthree", "one (+2 lines)".to_owned()),
            ("a\u{1b}[2Jb", "a[2Jb".to_owned()),
            (&"x".repeat(101), "x".repeat(100) + "…"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }
}
