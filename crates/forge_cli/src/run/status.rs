//! The status line: what a run does, and what it has used, fitted to the available columns.

use std::time::Duration;

use console::measure_text_width;
use forge_app::{RunEvent, RunStatistics};
use forge_domain::{Cost, Mode, Tokens, quantity};

use crate::output::line_wrap::cut;
use crate::output::{visible, with_separators};

/// The current activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    /// The prompt is being built.
    #[default]
    Preparing,
    /// The server is asked for the window of the model.
    Learning,
    /// The context is being compacted.
    Compacting,
    /// The model was called and has not answered yet.
    Asking,
    /// The model is reasoning.
    Thinking,
    /// The model is writing.
    Writing,
    /// Tools are running; one of them may report progress.
    Running { tools: Vec<String>, progress: Option<String> },
    /// A call failed, and the next attempt is made after this wait.
    Retrying(Duration),
    /// A question waits for the user.
    Waiting,
    /// The same, and the keys belong to a line that was begun before.
    WaitingForLine,
    /// The current work is being stopped.
    Stopping,
}

impl Doing {
    /// Checks whether `next` is the same activity, such as a tool that reports how far it is.
    pub(crate) fn continues_as(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Running { tools: before, .. }, Self::Running { tools: now, .. }) => before == now,
            // Each wait is a new one.
            (Self::Retrying(_), Self::Retrying(_)) => false,
            _ => std::mem::discriminant(self) == std::mem::discriminant(next),
        }
    }

    /// Returns the activity in words.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Preparing => "preparing".to_owned(),
            Self::Learning => "asking the server for the model's window".to_owned(),
            Self::Compacting => "compacting".to_owned(),
            Self::Asking => "waiting for the model".to_owned(),
            Self::Thinking => "thinking".to_owned(),
            Self::Writing => "writing".to_owned(),
            Self::Running { tools, progress } => {
                let names = tools.iter().map(|tool| visible(tool)).collect::<Vec<_>>().join(", ");
                let progress = progress.as_deref().map(|progress| format!(" ({})", visible(progress)));
                format!("running {names}{}", progress.unwrap_or_default())
            }
            Self::Retrying(_) => "waiting to try again".to_owned(),
            Self::Waiting => "waiting for your answer".to_owned(),
            Self::WaitingForLine => "to answer, end your line: Enter sends it, Esc keeps it".to_owned(),
            Self::Stopping => "stopping".to_owned(),
        }
    }

    /// Returns the activity in words, with the time that it has lasted. Of the wait before an attempt, it is
    /// the time that is left; no event tells that the attempt is made.
    pub(crate) fn words_after(&self, elapsed: Duration) -> String {
        let left = self.wait().saturating_sub(elapsed);
        match self {
            Self::Retrying(_) if !left.is_zero() => {
                let seconds = left.as_millis().div_ceil(1_000) as u64;
                format!("{},{} left", self.words(), span(Duration::from_secs(seconds)))
            }
            Self::Retrying(wait) => Self::Asking.words_after(elapsed.saturating_sub(*wait)),
            _ => format!("{}{}", self.words(), span(elapsed)),
        }
    }

    /// Returns the wait before an attempt; zero for any other activity.
    pub(crate) const fn wait(&self) -> Duration {
        match self {
            Self::Retrying(wait) => *wait,
            _ => Duration::ZERO,
        }
    }
}

/// The activities of a run, as its events tell them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activities {
    /// The tools that run.
    running: Vec<String>,
}

impl Activities {
    /// Returns the activity that begins with `event`; `None` if the current one continues.
    pub(crate) fn begun_by(&mut self, event: &RunEvent<'_>) -> Option<Doing> {
        match event {
            RunEvent::Text(_) => Some(Doing::Writing),
            RunEvent::Reasoning(_) => Some(Doing::Thinking),
            RunEvent::Learning { .. } => Some(Doing::Learning),
            RunEvent::Compacting { .. } => Some(Doing::Compacting),
            RunEvent::Sending(_) => Some(Doing::Asking),
            RunEvent::Fitted { .. } | RunEvent::Replied { .. } => Some(Doing::Preparing),
            // Results are told when all of them are there.
            RunEvent::Woken { .. } | RunEvent::ToolResult(_) => {
                self.running.clear();
                Some(Doing::Preparing)
            }
            RunEvent::ToolStarted(call) => {
                self.running.push(call.name.to_string());
                Some(self.tools(None))
            }
            RunEvent::ToolFinished(call) => {
                // Two calls of a tool look alike: one of them is over.
                if let Some(at) = self.running.iter().position(|tool| tool == call.name.as_str()) {
                    self.running.remove(at);
                }
                Some(self.tools(None))
            }
            RunEvent::ToolProgress { tool, done, of, message } => {
                let of = of.map(|of| format!("/{of}")).unwrap_or_default();
                let progress = format!("{tool} {done}{of} {}", message.unwrap_or_default());
                Some(self.tools(Some(progress.trim_end().to_owned())))
            }
            _ => None,
        }
    }

    fn tools(&self, progress: Option<String>) -> Doing {
        if self.running.is_empty() {
            Doing::Preparing
        } else {
            Doing::Running { tools: self.running.clone(), progress }
        }
    }
}

/// The usage of a run and of its window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusFigures {
    /// Tokens of the last prompt by our count, tool schemas included, with its answer once that is complete.
    pub(crate) used: Tokens,
    /// Tokens of the window; zero before the first call.
    pub(crate) window: Tokens,
    pub(crate) cost: Cost,
    /// Calls to models.
    pub(crate) calls: usize,
    /// The mode of work.
    pub(crate) mode: Mode,
}

impl StatusFigures {
    /// Takes in what an event tells of the usage.
    pub(crate) fn take(&mut self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Fitted { report, .. } => self.cost += report.cost(),
            RunEvent::Sending(prompt) => (self.used, self.window) = (prompt.tokens(), prompt.window()),
            RunEvent::Replied { usage, cost, .. } => {
                self.calls += 1;
                self.cost += *cost;
                // By the count of `/context`: a provider's own count of the prompt differs.
                self.used += usage.map(|usage| usage.completion_tokens).unwrap_or_default();
            }
            _ => {}
        }
    }

    /// Returns how full the window is, in percent.
    pub(crate) fn percent(&self) -> Option<u64> {
        let window = self.window.as_u64();
        (window > 0).then(|| (self.used.as_u64() * 100).div_ceil(window))
    }

    /// Returns the cost; empty if it is unknown.
    pub(crate) fn cost(&self) -> Option<String> {
        let is_known = self.cost.unpriced_calls == 0 && self.calls > 0;
        let is_something = self.cost.dollars != Cost::default().dollars;
        (is_known || is_something).then(|| self.cost.dollars.to_string())
    }
}

/// Returns what is shown of a mode; nothing of the usual one.
pub(crate) const fn mode_words(mode: Mode) -> Option<&'static str> {
    match mode {
        Mode::Plan => Some("plan mode"),
        Mode::Ask => None,
        Mode::Edits => Some("edits without asking"),
        Mode::Auto => Some("auto"),
    }
}

/// Returns what a run has used so far.
pub(crate) fn in_a_line(statistics: &RunStatistics) -> String {
    let summaries = match statistics.summary_calls {
        0 => String::new(),
        n => format!(" and {n} for summaries"),
    };
    format!(
        "{}{summaries} · {} · {}",
        quantity(statistics.calls, "call"),
        quantity(with_separators(statistics.spent.tokens), "token"),
        statistics.spent.cost
    )
}

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The time for each frame of the spinner, in milliseconds.
const SPIN: u128 = 120;

/// Returns the frame of the spinner at that time.
pub(crate) fn spinner(elapsed: Duration) -> &'static str {
    SPINNER[(elapsed.as_millis() / SPIN) as usize % SPINNER.len()]
}

/// Returns a duration in a form for people.
pub(crate) fn span(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0 => String::new(),
        seconds @ 1..60 => format!(" {seconds} s"),
        seconds @ 60..3_600 => format!(" {} min {:02} s", seconds / 60, seconds % 60),
        seconds => format!(" {} h {:02} min", seconds / 3_600, seconds / 60 % 60),
    }
}

/// Returns the line in at most `width` columns; the least important parts are left out first.
pub(crate) fn status_line(doing: &Doing, elapsed: Duration, figures: &StatusFigures, width: usize) -> String {
    let mode = mode_words(figures.mode).map_or_else(String::new, |mode| format!(" · {mode}"));
    let doing = format!("{}{mode}", doing.words_after(elapsed));
    let long = figures.percent().map(|percent| {
        format!(
            "{} of {} tokens ({percent} %)",
            with_separators(figures.used),
            with_separators(figures.window)
        )
    });
    let short = figures.percent().map(|percent| format!("{percent} %"));
    let cost = figures.cost();
    let calls = match figures.calls {
        0 => None,
        n => Some(quantity(n, "call")),
    };
    let hint = Some("Ctrl-C stops".to_owned());
    let first = Some(doing.clone());
    let ways = [
        [&first, &long, &cost, &calls, &hint],
        [&first, &long, &cost, &calls, &None],
        [&first, &short, &cost, &calls, &None],
        [&first, &short, &cost, &None, &None],
        [&first, &short, &None, &None, &None],
    ];
    let joined =
        |way: &[&Option<String>; 5]| way.iter().copied().flatten().cloned().collect::<Vec<_>>().join(" · ");
    let fits = |line: &String| measure_text_width(line) <= width;
    ways.iter().map(joined).find(fits).unwrap_or_else(|| cut(&doing, width))
}

#[cfg(test)]
mod tests {
    use forge_domain::Dollars;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_time_is_said_as_people_say_it() {
        for (seconds, expected) in [
            (0, ""),
            (1, " 1 s"),
            (59, " 59 s"),
            (60, " 1 min 00 s"),
            (3_599, " 59 min 59 s"),
            (7_260, " 2 h 01 min"),
        ] {
            assert_eq!(span(Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn the_wait_before_an_attempt_is_counted_down() {
        let retrying = Doing::Retrying(Duration::from_millis(61_500));
        for (elapsed, expected) in [
            (0, "waiting to try again, 1 min 02 s left"),
            (60_000, "waiting to try again, 2 s left"),
            (61_400, "waiting to try again, 1 s left"),
            (61_500, "waiting for the model"),
            (66_500, "waiting for the model 5 s"),
        ] {
            assert_eq!(retrying.words_after(Duration::from_millis(elapsed)), expected);
        }
        assert!(!retrying.continues_as(&retrying));
    }

    #[test]
    fn what_says_least_is_left_out_first() {
        let figures = StatusFigures {
            used: Tokens::new(12_345),
            window: Tokens::new(128_000),
            cost: Cost { dollars: Dollars::new(0.25).unwrap(), unpriced_calls: 0 },
            calls: 4,
            mode: Mode::Ask,
        };
        let running =
            Doing::Running { tools: vec!["read".to_owned(), "sh\u{1b}ell".to_owned()], progress: None };
        for (doing, seconds, width, expected) in [
            (
                &Doing::Writing,
                3,
                100,
                "writing 3 s · 12,345 of 128,000 tokens (10 %) · $0.2500 · 4 calls · Ctrl-C stops",
            ),
            (&Doing::Writing, 3, 75, "writing 3 s · 12,345 of 128,000 tokens (10 %) · $0.2500 · 4 calls"),
            (&Doing::Writing, 3, 50, "writing 3 s · 10 % · $0.2500 · 4 calls"),
            (&Doing::Writing, 3, 30, "writing 3 s · 10 % · $0.2500"),
            (&Doing::Writing, 3, 20, "writing 3 s · 10 %"),
            (&Doing::Writing, 3, 8, "writing…"),
            (&running, 0, 42, "running read, sh\\u{1b}ell · 10 % · $0.2500"),
        ] {
            let actual = status_line(doing, Duration::from_secs(seconds), &figures, width);
            assert_eq!(actual, expected, "{width}");
        }
        let nothing = status_line(&Doing::Preparing, Duration::ZERO, &StatusFigures::default(), 80);
        assert_eq!(nothing, "preparing · Ctrl-C stops");
    }

    #[test]
    fn a_cost_that_is_not_known_is_not_said() {
        let figures = |dollars: f64, unpriced_calls, calls| StatusFigures {
            cost: Cost { dollars: Dollars::new(dollars).unwrap_or_default(), unpriced_calls },
            calls,
            ..StatusFigures::default()
        };
        assert_eq!(figures(0.0, 1, 1).cost(), None);
        assert_eq!(figures(0.5, 1, 2).cost().as_deref(), Some("$0.5000"));
        assert_eq!(figures(0.0, 0, 0).cost(), None);
    }
}
