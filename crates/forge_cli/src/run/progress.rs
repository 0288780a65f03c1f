//! The progress of a run that is not a chat: at a terminal a status line, elsewhere a note now and then, so
//! that a slow server can be told from one that hangs.

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use console::style;
use forge_app::RunEvent;
use forge_domain::Pause;
use tokio::sync::watch;

use super::status::{Activities, Doing, StatusFigures, spinner, status_line};
use crate::{output, terminal};

/// The interval of redrawing the status line.
const TICK: Duration = Duration::from_millis(120);
/// The silence before the status line is drawn: most of the time, something is printed before.
const BRIEF: Duration = Duration::from_secs(1);
/// The time that the model may take before the first note about it, and between two notes.
const FIRST_NOTE: Duration = Duration::from_secs(30);
const NEXT_NOTE: Duration = Duration::from_secs(60);

/// The progress of a run.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    activities: Activities,
    doing: Doing,
    /// The beginning of this activity.
    since: Instant,
    /// The latest time at which something was begun or printed.
    quiet_since: Instant,
    figures: StatusFigures,
    /// The number of times that the model was given something to do, or that this was put off.
    n_works: usize,
    /// True if the user sees the reply as it is written.
    is_streamed: bool,
}

impl Progress {
    /// Creates the progress of a run that begins now.
    pub(super) fn new(is_streamed: bool, at: Instant) -> Self {
        Self {
            activities: Activities::default(),
            doing: Doing::default(),
            since: at,
            quiet_since: at,
            figures: StatusFigures::default(),
            n_works: 0,
            is_streamed,
        }
    }

    /// Takes in an event.
    pub(super) fn take(&mut self, event: &RunEvent<'_>, at: Instant) {
        self.figures.take(event);
        match event {
            RunEvent::Learning { .. } | RunEvent::Sending(_) | RunEvent::Compacting { .. } => {
                self.n_works += 1;
                self.quiet_since = at;
            }
            RunEvent::Replied { .. } | RunEvent::ToolCall(_) | RunEvent::ToolResult(_) => {
                self.quiet_since = at;
            }
            _ => {}
        }
        let Some(doing) = self.activities.begun_by(event) else { return };
        if !self.doing.continues_as(&doing) {
            self.since = at;
        }
        self.doing = doing;
    }

    /// Notes that a call failed, and that the next attempt is made after this wait.
    pub(super) fn wait(&mut self, wait: Duration, at: Instant) {
        self.n_works += 1;
        (self.since, self.quiet_since) = (at, at);
        self.doing = Doing::Retrying(wait);
    }

    /// Checks whether the model works or will be asked again, and the user sees nothing of it.
    fn is_silent_work(&self) -> bool {
        match self.doing {
            Doing::Learning | Doing::Asking | Doing::Thinking | Doing::Compacting | Doing::Retrying(_) => {
                true
            }
            Doing::Writing => !self.is_streamed,
            _ => false,
        }
    }

    /// Returns the silence after which the first note about this activity is due: a question that takes a
    /// moment is told soon.
    fn first_note(&self) -> Duration {
        if self.doing == Doing::Learning { BRIEF } else { FIRST_NOTE }
    }

    /// Returns the status line for a terminal of so many columns; `None` while it would only flicker.
    fn line(&self, now: Instant, columns: usize) -> Option<String> {
        let is_seen = self.doing == Doing::Writing && self.is_streamed;
        if is_seen || now.duration_since(self.quiet_since) < BRIEF {
            return None;
        }
        let elapsed = now.duration_since(self.since);
        // The spinner, a blank, and the last column, which stays free.
        let status = status_line(&self.doing, elapsed, &self.figures, columns.saturating_sub(3));
        let (spinner, status) = (style(spinner(elapsed)).cyan(), style(status).dim());
        Some(format!("{} {}", spinner.for_stderr(), status.for_stderr()))
    }
}

/// Shows the progress of a run until this is dropped.
pub(crate) async fn show_progress(
    progress: Option<watch::Receiver<Progress>>,
    pause: &dyn Pause,
) -> Infallible {
    let Some(progress) = progress else { return std::future::pending().await };
    if std::io::stderr().is_terminal() && !terminal::is_dumb() {
        draw(&progress, pause).await
    } else {
        note(progress, pause, &output::note).await
    }
}

/// The status line while it is drawn; it is gone when this is dropped.
struct Drawn;

impl Drop for Drawn {
    fn drop(&mut self) {
        output::clear_below();
    }
}

async fn draw(progress: &watch::Receiver<Progress>, pause: &dyn Pause) -> Infallible {
    let _drawn = Drawn;
    loop {
        pause.pause(TICK).await;
        // The line would be drawn over the shell's prompt.
        if !terminal::is_in_foreground() {
            continue;
        }
        let progress = progress.borrow().clone();
        let now = Instant::now();
        if progress.line(now, usize::MAX).is_some() {
            output::draw_below(|columns| progress.line(now, columns).unwrap_or_default());
        } else {
            output::clear_below();
        }
    }
}

/// Notes that the model still works, if it does so for long.
async fn note(
    mut progress: watch::Receiver<Progress>,
    pause: &dyn Pause,
    note: &(dyn Fn(&str) + Sync),
) -> Infallible {
    loop {
        let begun = progress.wait_for(Progress::is_silent_work).await;
        let begun = begun.map(|now| (now.n_works, now.doing.wait(), now.first_note()));
        // Nothing more will come of a run that is over.
        let Ok((nth, mut before, mut wait)) = begun else { return std::future::pending().await };
        let mut waited = Duration::ZERO;
        loop {
            let is_over = |now: &Progress| now.n_works != nth || !now.is_silent_work();
            let over = async { drop(progress.wait_for(is_over).await) };
            let is_over = tokio::select! {
                biased;
                () = over => true,
                // That it waits before an attempt is printed when this begins.
                () = pause.pause(before + wait) => false,
            };
            if is_over {
                break;
            }
            waited += wait;
            (before, wait) = (Duration::ZERO, NEXT_NOTE);
            let doing = progress.borrow().doing.clone();
            note(&format!("still {}", doing.words_after(doing.wait() + waited)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::Mutex;

    use async_trait::async_trait;
    use console::strip_ansi_codes;
    use forge_domain::compaction::Trigger;
    use forge_domain::{
        Budget, ChatOptions, Conversation, Cost, Dollars, FinishReason, ModelId, ModelLimits, ModelRef,
        Prompt, ProviderId, TokenCounter, Tokens,
    };
    use futures::FutureExt as _;
    use pretty_assertions::assert_eq;
    use tokio::sync::Semaphore;

    use super::*;

    struct Nothing;

    impl TokenCounter for Nothing {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    fn prompt() -> Prompt {
        let (provider, model) = (ProviderId::new("p").unwrap(), ModelId::new("m").unwrap());
        let limits = ModelLimits { window: Tokens::new(8_000), max_output: None };
        let options = ChatOptions::new(ModelRef { provider, model });
        Budget::new(limits, options, Vec::new(), &Nothing).admit(Conversation::new().view()).unwrap()
    }

    const REPLIED: RunEvent<'static> = RunEvent::Replied {
        usage: None,
        cost: Cost { dollars: Dollars::ZERO, unpriced_calls: 0 },
        finish_reason: &FinishReason::Stop,
        is_answer: true,
        is_unfinished: false,
    };

    /// A pause that is over as often as it is allowed to be.
    struct Allowed(Semaphore, Mutex<Vec<u64>>);

    #[async_trait]
    impl Pause for Allowed {
        async fn pause(&self, how_long: Duration) {
            self.1.lock().unwrap().push(how_long.as_secs());
            self.0.acquire().await.unwrap().forget();
        }
    }

    #[test]
    fn the_model_is_noted_after_half_a_minute_and_then_each_minute() {
        let prompt = prompt();
        let sender = watch::Sender::new(Progress::new(false, Instant::now()));
        let tell = |event: &RunEvent<'_>| sender.send_modify(|now| now.take(event, Instant::now()));
        let (pauses, noted) = (Allowed(Semaphore::new(0), Mutex::default()), Mutex::new(Vec::new()));
        let say = |text: &str| noted.lock().unwrap().push(text.to_owned());
        let mut noting = pin!(note(sender.subscribe(), &pauses, &say));
        let mut step = |n_pauses: usize| {
            pauses.0.add_permits(n_pauses);
            assert!(noting.as_mut().now_or_never().is_none());
            std::mem::take(&mut *noted.lock().unwrap())
        };
        let none: [&str; 0] = [];
        assert_eq!(step(0), none);
        tell(&RunEvent::Learning { model: "p:m" });
        assert_eq!(step(0), none);
        assert_eq!(step(1), ["still asking the server for the model's window 1 s"]);
        tell(&RunEvent::Sending(&prompt));
        assert_eq!(step(0), none);
        assert_eq!(step(1), ["still waiting for the model 30 s"]);
        // Thoughts of the model are not printed, and the time runs on.
        tell(&RunEvent::Reasoning("hm"));
        assert_eq!(step(1), ["still thinking 1 min 30 s"]);
        tell(&RunEvent::Text("It"));
        assert_eq!(step(1), ["still writing 2 min 30 s"]);
        tell(&REPLIED);
        assert_eq!(step(0), none);
        tell(&RunEvent::Compacting { trigger: Trigger::Tokens });
        assert_eq!(step(0), none);
        tell(&RunEvent::Sending(&prompt));
        assert_eq!(step(0), none);
        let expected = ["still waiting for the model 30 s", "still waiting for the model 1 min 30 s"];
        assert_eq!(step(2), expected);
        // The wait before another attempt does not count as time of the model.
        sender.send_modify(|now| now.wait(Duration::from_secs(20), Instant::now()));
        assert_eq!(step(0), none);
        assert_eq!(step(1), ["still waiting for the model 30 s"]);
        assert_eq!(*pauses.1.lock().unwrap(), [1, 60, 30, 60, 60, 60, 30, 30, 60, 60, 50, 60]);
    }

    #[test]
    fn the_line_is_drawn_while_nothing_is_printed() {
        let prompt = prompt();
        let began = Instant::now();
        let mut progress = Progress::new(true, began);
        // Each event after so many milliseconds, and the line then and a second and a half later.
        for (at, event, then, later) in [
            (0, RunEvent::Sending(&prompt), "", "waiting for the model 1 s · 3 of 8,000 tokens (1 %)"),
            (
                2_000,
                RunEvent::Reasoning(""),
                "thinking · 3 of 8,000 tokens (1 %)",
                "thinking 1 s · 3 of 8,000 tokens (1 %)",
            ),
            // A text that streams is seen.
            (4_000, RunEvent::Text("It"), "", ""),
            (5_000, REPLIED, "", "preparing 1 s · 3 of 8,000 tokens (1 %)"),
        ] {
            let at = began + Duration::from_millis(at);
            progress.take(&event, at);
            for (now, expected) in [(at, then), (at + Duration::from_millis(1_500), later)] {
                let line = progress.line(now, 200).unwrap_or_default();
                let line = strip_ansi_codes(&line).into_owned();
                let shown = line.split_once(' ').map_or("", |(_, status)| status);
                assert!(shown.starts_with(expected), "{event:?}: {line}");
                assert_eq!(shown.is_empty(), expected.is_empty(), "{event:?}: {line}");
            }
        }
        let waits = began + Duration::from_secs(10);
        progress.wait(Duration::from_secs(20), waits);
        for (seconds, expected) in [(5, "to try again, 15 s left ·"), (25, "for the model 5 s ·")] {
            let line = progress.line(waits + Duration::from_secs(seconds), 200).unwrap();
            assert!(line.contains(&format!("waiting {expected}")), "{line}");
        }
        let narrow = progress.line(began + Duration::from_secs(60), 15).unwrap();
        assert!(console::measure_text_width(&narrow) < 15, "{narrow}");
    }
}
