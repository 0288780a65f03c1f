//! The display of a run on the console: the answer on stdout, everything else on stderr.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use console::style;
use forge_app::{
    CheckpointTally, DeniedBy, DeniedCall, Remedy, Restored, RunEvent, RunReport, RunTotals, StopReason,
};
use forge_domain::compaction::{CompactionReport, Outcome};
use forge_domain::{AgentId, Content, StoreError, ToolCall, ToolResult, Usage, quantity, without_mcp_mark};

use super::answer_schema::Answer;
use super::checkpoints::{self, shell_quote};
use super::compaction_text::{because, change, failed_attempts, strategy_lines};
use super::tool_line::{call_text, edit_text, failure_text};
use super::view::{Break, RunStart, RunView};
use crate::failure::Exit;
use crate::output::line_wrap::{FRAME, Flow};
use crate::output::{self, beginning, visible, with_separators};

/// The separator between an interrupted reply and its replacement.
pub(crate) const RESTARTED: &str = "── the reply above was interrupted and is discarded; it starts again ──";

/// The most characters of a call's arguments or of a result that are shown.
const SHOWN: usize = 100;

/// The display of a run. On a terminal a reply is streamed; elsewhere it is printed once it is complete,
/// because an interrupted one is requested again and nothing can be removed from a file or a pipe. There,
/// stdout has the answer alone: no reply that calls tools, and none that is asked for again.
#[derive(Default)]
pub(crate) struct ConsoleWatcher {
    /// True if the answer's last line is still open.
    is_open: Mutex<bool>,
    /// The incomplete word at the answer's end.
    flow: Mutex<Flow>,
    /// True if several agents work on the task.
    is_shared: AtomicBool,
    /// The agent that an event started last.
    speaker: Mutex<Speaker>,
    /// The agent whose events come now, if another one asked it: several may work at the same time.
    asked: Mutex<Option<AgentId>>,
    /// The calls that run, by id: when each began and how many lines of its output were shown.
    running: Mutex<BTreeMap<String, Running>>,
    /// The text of the current reply.
    reply: Mutex<String>,
    /// The text before it that was cut off, of which it is not known yet whether it belongs to the answer.
    unfinished: Mutex<String>,
    /// The number of failures of hooks, by the line that reported the first one.
    failed_hooks: Mutex<BTreeMap<String, usize>>,
    /// The error of the last unsaved checkpoint, once it was reported.
    unsaved: Mutex<Option<String>>,
    /// True if stdout is for the answer by a schema alone, and for no reply.
    is_for_answer: bool,
}

/// The agent that speaks. Those that it calls have no label.
#[derive(Default)]
struct Speaker {
    agent: Option<AgentId>,
    is_over: bool,
}

/// A call that runs, or ran a moment ago.
struct Running {
    began: Instant,
    took: Option<Duration>,
    n_shown: usize,
}

/// The most lines of a call's output that are printed while it runs.
const SHOWN_LINES: usize = 20;

/// Checks whether the answer is shown at a terminal.
fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

impl RunView for ConsoleWatcher {
    fn show_start(&self, start: &RunStart) {
        self.is_shared.store(start.agents.len() > 1, Ordering::Relaxed);
    }

    fn tell(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Speaker { agent } => self.mark_lines_of(*agent),
            RunEvent::Woken { agent } => self.show_speaker(agent),
            RunEvent::Text(text) => {
                self.reply.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
                if is_terminal() && !self.is_for_answer {
                    self.write(text);
                }
            }
            RunEvent::Restarted { .. } => {
                let reply = self.take_reply();
                if is_terminal() && !self.is_for_answer && !reply.is_empty() {
                    self.say(&style(RESTARTED).dim().for_stderr().to_string());
                }
            }
            RunEvent::Notice(notice) => {
                let notice = output::visible_lines(notice);
                self.say(&format!("{} {notice}", style("note:").yellow().for_stderr()));
            }
            RunEvent::HookFailed { hook, error } => {
                self.report_failed_hook(&format!(
                    "`{}`: {}",
                    one_line(hook.trim()),
                    one_line(&error.to_string())
                ));
            }
            RunEvent::HookDenied { point, tool, hook, reason } => {
                let mark = style("denied:").yellow().for_stderr();
                let what = tool.map_or_else(String::new, |tool| format!(" of {}", one_line(tool.as_str())));
                let (point, hook) = (point.as_str(), one_line(hook.trim()));
                let reason = after_colon(reason);
                self.say(&format!("{mark} {point}{what}, by the hook `{hook}`{reason}"));
            }
            RunEvent::Fitted { report, .. } => self.show_fit(report),
            RunEvent::Discarded(unused) => self.show_discarded(unused.len()),
            RunEvent::ToolCall(call) => {
                let running = Running { began: Instant::now(), took: None, n_shown: 0 };
                self.running().insert(call.id.clone(), running);
                self.show_call(call);
            }
            RunEvent::ToolStarted(call) => {
                if let Some(running) = self.running().get_mut(call.id.as_str()) {
                    running.began = Instant::now();
                }
            }
            RunEvent::ToolOutput { call, line } => self.show_output(call, line),
            RunEvent::ToolFinished(call) => {
                if let Some(running) = self.running().get_mut(call.id.as_str()) {
                    running.took = Some(running.began.elapsed());
                }
            }
            RunEvent::ToolProgress { tool, done, of, message } => {
                let of = of.map(|of| format!("/{of}")).unwrap_or_default();
                let message = message.map(one_line).unwrap_or_default();
                let line = format!("… {} {done}{of} {message}", one_line(tool.as_str()));
                // Its server does not tell for which agent it works.
                self.end();
                output::say(&style(line.trim_end()).dim().for_stderr().to_string());
            }
            RunEvent::ToolResult(result) => self.show_result(result),
            RunEvent::Replied { is_answer, is_unfinished, .. } => {
                self.finish_reply(*is_answer, *is_unfinished);
                self.end();
            }
            RunEvent::CheckpointFailed(error) => self.report_failed_checkpoint(error),
            RunEvent::Checkpointed { .. } => {
                drop(self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).take());
            }
            RunEvent::Stopped(stop) => {
                self.print_reply(&self.take_unfinished(), true);
                self.speaker.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
                if **stop != StopReason::Done {
                    self.say(&stop.to_string());
                }
            }
            _ => {}
        }
    }

    fn show_resume(&self, restored: &Restored, without_task: bool) {
        checkpoints::say_restored(restored, without_task);
    }

    fn show_saved_answer(&self, answer: &str) {
        if !self.is_for_answer && !answer.is_empty() {
            self.write(answer);
        }
    }

    fn show_answer(&self, answer: &Answer) {
        match answer {
            Ok(value) => output::print_or_note(&format!("{value:#}\n")),
            Err(faults) => {
                let mark = style("error:").red().bold().for_stderr();
                let faults: String = faults.iter().map(|fault| format!("\n  {}", visible(fault))).collect();
                self.say(&format!("{mark} the answer does not match the schema{faults}"));
            }
        }
    }

    fn show_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>, _: Exit) {
        self.mark_lines_of(None);
        self.count_failed_hooks();
        self.sum_up(report);
        self.show_denials(report);
        checkpoints::sum_up(checkpoints);
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, flags: &str) {
        if let Break::Interrupted { words, .. } = why {
            output::say(words);
        }
        // A run that another process took over is continued there.
        let is_fenced = matches!(why, Break::Failed(error) if checkpoints::is_fenced(error));
        if !is_fenced {
            checkpoints::say_how_to_resume(checkpoints, flags);
        }
    }

    fn end(&self) {
        if let Some(columns) = output::stdout_columns() {
            let rest = self.flow.lock().unwrap_or_else(PoisonError::into_inner).finish(columns);
            output::print_or_note(&rest);
        }
        let was_open = std::mem::take(&mut *self.is_open.lock().unwrap_or_else(PoisonError::into_inner));
        if was_open {
            output::print_or_note("\n");
        }
    }
}

impl ConsoleWatcher {
    /// Creates the display of a run whose answer has a schema: stdout is for it alone.
    pub(crate) fn for_answer() -> Self {
        Self { is_for_answer: true, ..Self::default() }
    }

    fn take_reply(&self) -> String {
        std::mem::take(&mut self.reply.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints the totals of the whole run.
    fn sum_up(&self, report: &RunReport) {
        let n_compactions =
            report.outcomes.iter().filter(|fit| matches!(fit.outcome, Outcome::Applied { .. })).count();
        let summaries = match report.summary_calls {
            0 => String::new(),
            n => format!(
                " · {}: {}{} and {}, {}",
                quantity(n, "summary"),
                quantity(with_separators(report.summary_usage.prompt_tokens), "prompt token"),
                cache_share(&report.summary_usage),
                quantity(with_separators(report.summary_usage.completion_tokens), "completion token"),
                report.summary_cost
            ),
        };
        let has_asked = report.iterations > 0 || report.summary_calls > 0;
        let line = has_asked.then(|| {
            format!(
                "{} · {} · {} · {}{summaries}",
                quantity(report.iterations, "call"),
                quantity(n_compactions, "compaction"),
                usage_text(report.iterations, &report.usage),
                report.cost
            )
        });
        let RunTotals { calls, usage, spent } = &report.totals;
        let resumed = (*calls > report.iterations).then(|| {
            format!(
                "since the run started: {} · {} · {}",
                quantity(calls, "call"),
                usage_text(*calls, usage),
                spent.cost
            )
        });
        for line in line.into_iter().chain(resumed).chain(strategy_lines(&report.strategies)) {
            self.say(&style(line).dim().for_stderr().to_string());
        }
    }

    /// Prints which calls were not made because they were not allowed, and how they can be.
    fn show_denials(&self, report: &RunReport) {
        let denied: Vec<String> = report.denials.iter().map(denial_text).collect();
        if !denied.is_empty() {
            let mark = style("denied:").yellow().for_stderr();
            self.say(&format!("{mark} {}", denied.join("; ")));
        }
        if let Some(hint) = remedy_text(&report.denials) {
            output::note(&hint);
        }
    }

    /// Reports a hook that failed, once for each of its errors: it may fail at every call.
    fn report_failed_hook(&self, failure: &str) {
        let mut failed = self.failed_hooks.lock().unwrap_or_else(PoisonError::into_inner);
        let n = failed.entry(failure.to_owned()).or_default();
        *n += 1;
        let is_first = *n == 1;
        drop(failed);
        if is_first {
            self.say(&format!("{} {failure}", style("hook failed:").yellow().for_stderr()));
        }
    }

    /// Prints how often each failure of a hook came again.
    fn count_failed_hooks(&self) {
        let failed = std::mem::take(&mut *self.failed_hooks.lock().unwrap_or_else(PoisonError::into_inner));
        for (failure, n) in failed.into_iter().filter(|(_, n)| *n > 1) {
            let mark = style("hook failed:").yellow().for_stderr();
            self.say(&format!("{mark} {} in all: {failure}", quantity(n, "time")));
        }
    }

    /// Reports once why checkpoints fail, until one is saved again.
    fn report_failed_checkpoint(&self, error: &StoreError) {
        let text = error.to_string();
        let known = self.unsaved.lock().unwrap_or_else(PoisonError::into_inner).replace(text.clone());
        if known.as_ref() != Some(&text) {
            let mark = style("not saved:").yellow().for_stderr();
            match error {
                // The run's own error tells the rest.
                StoreError::Fenced { .. } => self.say(&format!("{mark} another process has this run now")),
                // Nothing that the run does will help: the user has to know it now, and not after hours.
                StoreError::NotAStore { .. }
                | StoreError::NewerSchema { .. }
                | StoreError::Removed { .. } => {
                    self.say(&format!("{mark} {text}; the run continues, and cannot be resumed"));
                }
                _ => self.say(&format!(
                    "{mark} {text}; the run continues, and the next checkpoint will include this state"
                )),
            }
        }
    }

    fn take_unfinished(&self) -> String {
        std::mem::take(&mut self.unfinished.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Prints a reply that is complete, after the text that it continues; keeps one that is to be continued.
    fn finish_reply(&self, is_answer: bool, is_unfinished: bool) {
        let reply = self.take_unfinished() + &self.take_reply();
        if is_unfinished {
            *self.unfinished.lock().unwrap_or_else(PoisonError::into_inner) = reply;
        } else {
            self.print_reply(&reply, is_answer);
        }
    }

    /// Prints a complete reply: an answer to stdout, other text to stderr. A terminal shows it already.
    fn print_reply(&self, reply: &str, is_answer: bool) {
        if is_terminal() || self.is_for_answer {
            return;
        }
        if is_answer && !reply.is_empty() {
            self.write(reply);
        } else if !is_answer && !reply.trim().is_empty() {
            self.say(&output::visible_lines(reply.trim_end()));
        }
    }

    fn write(&self, text: &str) {
        match output::stdout_columns() {
            None => output::print_or_note(&output::display_text(text)),
            Some(columns) => {
                let ready = self.flow.lock().unwrap_or_else(PoisonError::into_inner).push(text, columns);
                output::print_or_note(&ready);
            }
        }
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = !text.ends_with('\n');
    }

    /// Says a line, which begins with the name of the agent if another one asked it.
    fn say(&self, text: &str) {
        self.end();
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(agent) = asked else { return output::say(text) };
        let name = style(visible(agent.as_str())).dim().for_stderr().to_string();
        let lines: Vec<String> = text.split('\n').map(|line| format!("{name} {line}")).collect();
        output::say(&lines.join("\n"));
    }

    fn mark_lines_of(&self, agent: Option<&AgentId>) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = agent.cloned();
    }

    fn show_discarded(&self, n: usize) {
        let mark = style("note:").yellow().for_stderr();
        let verb = if n == 1 { "is" } else { "are" };
        self.say(&format!("{mark} {} requested in advance {verb} discarded", quantity(n, "summary")));
    }

    fn show_fit(&self, report: &CompactionReport) {
        if let Outcome::Vetoed { by, reason } = &report.outcome {
            let mark = style("not compacted").cyan().for_stderr();
            let (because, by, reason) = (because(report), one_line(by.trim()), after_colon(reason));
            self.say(&format!("{mark} ({because}): denied by the hook `{by}`{reason}"));
        }
        if let Outcome::Applied { strategies, .. } = &report.outcome {
            let strategies: Vec<&str> = strategies.iter().map(forge_domain::StrategyId::as_str).collect();
            let mark = style("compacted").cyan().for_stderr();
            let (change, because, failed) =
                (change(report.before, report.after), because(report), failed_attempts(report));
            let asked = match report.model_calls() {
                0 => String::new(),
                n => format!("; {}, {}", quantity(n, "request"), report.cost()),
            };
            self.say(&format!("{mark} by {}: {change} ({because}){failed}{asked}", strategies.join(", ")));
        }
    }

    fn show_call(&self, call: &ToolCall) {
        let line = style(call_line(&call_text(call))).green().for_stderr();
        self.say(&format!("→ {line}"));
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prints the name of an agent that starts, if it is not the only one.
    fn show_speaker(&self, agent: &AgentId) {
        let is_another = {
            let mut speaker = self.speaker.lock().unwrap_or_else(PoisonError::into_inner);
            let is_next = speaker.agent.is_none() || std::mem::take(&mut speaker.is_over);
            let before = if is_next { speaker.agent.replace(agent.clone()) } else { None };
            before.is_some_and(|before| before != *agent)
        };
        if is_another || self.is_shared.load(Ordering::Relaxed) {
            let label = format!("── {} ──", visible(agent.as_str()));
            self.say(&style(label).bold().for_stderr().to_string());
        }
    }

    /// Prints a line of a call's output at a terminal, up to a limit.
    fn show_output(&self, call: &ToolCall, line: &str) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let n_shown = match self.running().get_mut(call.id.as_str()) {
            Some(running) => {
                running.n_shown += 1;
                running.n_shown - 1
            }
            None => return,
        };
        let line = match n_shown {
            0..SHOWN_LINES => format!("{FRAME}{}", one_line(line)),
            SHOWN_LINES => format!("{FRAME}…"),
            _ => return,
        };
        self.say(&style(line).dim().for_stderr().to_string());
    }

    fn show_result(&self, result: &ToolResult) {
        let took = self.running().remove(result.call_id.as_str()).and_then(|running| running.took);
        let took = took.filter(|took| took.as_secs() > 0).map(|took| format!(" · {} s", took.as_secs()));
        let text = edit_text(result).or_else(|| failure_text(result));
        let text = text.unwrap_or_else(|| Content::to_text(&result.content));
        let mark = if result.is_error { style("✗").red() } else { style("←").dim() };
        let took = style(took.unwrap_or_default()).dim().for_stderr();
        self.say(&format!("{} {}{took}", mark.for_stderr(), one_line(without_mcp_mark(&text))));
    }
}

/// Describes the tokens that the provider counted in so many calls.
pub(crate) fn usage_text(n_calls: usize, usage: &Usage) -> String {
    if n_calls > 0 && *usage == Usage::default() {
        return "the provider reports no tokens".to_owned();
    }
    let (prompt, completion) =
        (with_separators(usage.prompt_tokens), with_separators(usage.completion_tokens));
    let prompt = quantity(prompt, "prompt token") + &cache_share(usage);
    format!("{prompt} · {}", quantity(completion, "completion token"))
}

/// Describes how much of a prompt came from the provider's cache.
fn cache_share(usage: &Usage) -> String {
    match (usage.cached_tokens.as_u64(), usage.prompt_tokens.as_u64()) {
        (0, _) => String::new(),
        (cached, all) => format!(" ({cached} cached, {} %)", cached * 100 / all.max(1)),
    }
}

/// Returns what would have allowed the calls that no one could consent to; `None` if no flag would have.
fn remedy_text(denials: &[DeniedCall]) -> Option<String> {
    let unanswered: Vec<&DeniedCall> =
        denials.iter().filter(|denied| denied.by == DeniedBy::Nobody).collect();
    let remedies: Vec<&Remedy> = unanswered
        .iter()
        .map(|denied| &denied.remedy)
        .filter(|remedy| **remedy != Remedy::default())
        .collect();
    let is_each = |is_one: fn(&Remedy) -> bool| !remedies.is_empty() && remedies.iter().copied().all(is_one);
    let mut rules: Vec<&str> = remedies.iter().filter_map(|remedy| remedy.rule.as_deref()).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut flags = Vec::new();
    flags.extend(is_each(|remedy| remedy.edits).then(|| "`--mode edits`".to_owned()));
    if is_each(|remedy| remedy.rule.is_some()) {
        let rules: Vec<String> =
            rules.iter().map(|rule| format!("--allow {}", shell_quote(&visible(rule)))).collect();
        flags.push(format!("`{}`", rules.join(" ")));
    }
    flags.extend(is_each(|remedy| remedy.everything).then(|| "`--yes`".to_owned()));
    let last = flags.pop()?;
    let flags = if flags.is_empty() { last } else { format!("{} or {last}", flags.join(", ")) };
    let what = match (remedies.len() == unanswered.len(), unanswered.len()) {
        (true, 1) => "it",
        (true, _) => "them",
        (false, _) => "some of them",
    };
    let calls = if unanswered.len() == 1 { "this call" } else { "these calls" };
    Some(format!("no one could consent to {calls}: {flags} allows {what} in advance"))
}

/// Describes a call that was denied.
fn denial_text(denied: &DeniedCall) -> String {
    let by = match denied.by {
        DeniedBy::Rule => "by a rule",
        DeniedBy::Mode => "in plan mode",
        DeniedBy::User => "by you",
        DeniedBy::Nobody => "without an answer",
        DeniedBy::Hook => "by a hook",
    };
    let about = denied.about.join(", ");
    let about = if about.is_empty() { about } else { format!(" ({about})") };
    one_line(&format!("{}{about} {by}", denied.tool))
}

/// Returns a call on one line. If it is cut, its bracket is closed again.
fn call_line(text: &str) -> String {
    let line = one_line(text);
    let is_cut = text.lines().nth(1).is_some() || text.chars().nth(SHOWN).is_some();
    if is_cut && text.ends_with(')') { line + ")" } else { line }
}

/// Returns a reason after a colon; nothing if none is given.
fn after_colon(reason: &str) -> String {
    if reason.trim().is_empty() { String::new() } else { format!(": {}", one_line(reason)) }
}

/// Returns the beginning of `text` on one line, so that a tool's output cannot steer the terminal.
fn one_line(text: &str) -> String {
    // Half a secret at the cut could not be found any more.
    let text = &*output::hide_secrets(text);
    let first = text.lines().next().unwrap_or_default();
    let n_lines = text.lines().count();
    let line = visible(&beginning(first, SHOWN));
    if n_lines > 1 { format!("{line} (+{})", quantity(n_lines - 1, "line")) } else { line }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_what_would_have_allowed_a_call_is_proposed() {
        let denied = |tool: &str, by, edits, rule: Option<&str>, everything| DeniedCall {
            agent: AgentId::new("a").unwrap(),
            tool: forge_domain::ToolName::new(tool).unwrap(),
            call_id: "c".to_owned(),
            arguments: "{}".to_owned(),
            about: Vec::new(),
            by,
            remedy: Remedy { edits, rule: rule.map(str::to_owned), everything },
        };
        let write = denied("write", DeniedBy::Nobody, true, Some("write"), true);
        let shell = denied("shell", DeniedBy::Nobody, false, Some("shell"), true);
        let steering = denied("write", DeniedBy::Nobody, false, Some("write:.git/a 'b'"), false);
        let secret = denied("read", DeniedBy::Nobody, false, None, false);
        let by_user = denied("shell", DeniedBy::User, false, None, false);
        for (denials, expected) in [
            (vec![], None),
            (vec![by_user.clone()], None),
            (vec![secret.clone()], None),
            (
                vec![write.clone(), by_user],
                Some("this call: `--mode edits`, `--allow write` or `--yes` allows it"),
            ),
            (vec![shell.clone()], Some("this call: `--allow shell` or `--yes` allows it")),
            (vec![steering], Some("this call: `--allow 'write:.git/a '\\''b'\\'''` allows it")),
            (
                vec![write.clone(), shell],
                Some("these calls: `--allow shell --allow write` or `--yes` allows them"),
            ),
            (
                vec![write, secret],
                Some("these calls: `--mode edits`, `--allow write` or `--yes` allows some of them"),
            ),
        ] {
            let expected = expected.map(|expected| format!("no one could consent to {expected} in advance"));
            assert_eq!(remedy_text(&denials), expected);
        }
    }

    #[test]
    fn what_a_tool_says_is_shown_on_one_harmless_line() {
        for (text, expected) in [
            ("", String::new()),
            ("one", "one".to_owned()),
            ("one\ntwo\nthree", "one (+2 lines)".to_owned()),
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb".to_owned()),
            (&"x".repeat(101), "x".repeat(100) + "…"),
        ] {
            assert_eq!(one_line(text), expected);
        }
    }

    #[test]
    fn a_call_that_is_cut_has_its_bracket() {
        for (text, expected) in [
            ("Shell(ls)", "Shell(ls)".to_owned()),
            ("Shell(echo a\necho b)", "Shell(echo a (+1 line))".to_owned()),
            (&format!("Shell({})", "x".repeat(100)), format!("Shell({}…)", "x".repeat(94))),
            ("git__log {\n}", "git__log { (+1 line)".to_owned()),
        ] {
            assert_eq!(call_line(text), expected);
        }
    }
}
