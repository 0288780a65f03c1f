//! Work that a user attends: keys work in the meantime, and Ctrl-C stops it.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forge_app::Conduct;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot::Receiver;
use tokio::time::MissedTickBehavior;

use super::keyboard::Keyboard;
use super::screen::{Screen, Wanted};
use super::stops::{Stop, Stops};
use crate::output;
use crate::run::Interruption;
use crate::run::status::Doing;
use crate::terminal::Taken;

/// The interval of redrawing what changes with time.
const TICK: Duration = Duration::from_millis(120);

/// The outcome of attended work.
pub(super) enum Attended<T> {
    Done(T),
    /// The work was stopped; the chat continues.
    Stopped,
    /// The work was stopped, and the chat ends.
    Ended(Interruption),
}

impl<T> Attended<T> {
    /// Returns the same, with what was done as `change` makes it.
    pub(super) fn map<U>(self, change: impl FnOnce(T) -> U) -> Attended<U> {
        match self {
            Self::Done(done) => Attended::Done(change(done)),
            Self::Stopped => Attended::Stopped,
            Self::Ended(interruption) => Attended::Ended(interruption),
        }
    }
}

/// The keyboard, the signals and the clock of a chat.
pub(super) struct Attendant {
    pub(super) screen: Arc<Screen>,
    pub(super) stops: Stops,
    /// True if keys are read one by one; else the terminal turns them into signals.
    pub(super) has_keys: bool,
    pub(super) began: Instant,
    /// The conduct of the run, of which the mode is switched.
    pub(super) conduct: Arc<Conduct>,
    /// The interruptions of the process, received at all times.
    pub(super) signals: UnboundedReceiver<Interruption>,
}

impl Attendant {
    /// Returns the time of the chat.
    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Runs `work` until it is done or stopped. It is stopped by dropping it.
    pub(super) async fn attend<T>(&mut self, doing: Doing, work: impl Future<Output = T>) -> Attended<T> {
        let screen = Arc::clone(&self.screen);
        screen.begin(doing);
        let (hears, mut keys) = unbounded_channel();
        let keyboard = self.has_keys.then(|| {
            Taken::expect_keys();
            Keyboard::listen(hears.clone())
        });
        let outcome = {
            let mut work = pin!(work);
            let mut ticks = tokio::time::interval(TICK);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    done = &mut work => break Attended::Done(done),
                    Some(key) = keys.recv() => match screen.press(&key) {
                        Wanted::Stop => break self.stop(),
                        Wanted::Pause => break Attended::Stopped,
                        Wanted::Mode => self.next_mode().await,
                        Wanted::Nothing => {}
                    },
                    Some(found) = self.signals.recv() => break match found {
                        Interruption::Interrupted => self.stop(),
                        interruption => Attended::Ended(interruption),
                    },
                    _ = ticks.tick() => screen.tick(),
                }
            }
        };
        drop(keyboard);
        // What was typed in the last moment is not lost.
        let mut outcome = outcome;
        while let Ok(key) = keys.try_recv() {
            if screen.press(&key) == Wanted::Stop
                && let ended @ Attended::Ended(_) = self.stop()
            {
                outcome = ended;
            }
        }
        screen.end();
        outcome
    }

    /// Waits for the answer to a question; `None` if it was withdrawn.
    pub(super) async fn attend_answer(&mut self, answer: Receiver<String>) -> Attended<Option<String>> {
        self.attend(Doing::Waiting, async { answer.await.ok() }).await
    }

    /// Switches to the next mode; one that cannot be used here is passed over.
    pub(super) async fn next_mode(&self) {
        let mut mode = self.conduct.mode().next();
        if let Err(refused) = self.conduct.set_mode(mode).await {
            output::note(&refused.to_string());
            mode = mode.next();
            // Only `auto` is ever refused.
            let _ = self.conduct.set_mode(mode).await;
        }
        self.screen.figures(|figures| figures.mode = mode);
    }

    fn stop<T>(&mut self) -> Attended<T> {
        match self.stops.at_work(self.now()) {
            Stop::Chat => Attended::Ended(Interruption::Interrupted),
            _ => Attended::Stopped,
        }
    }
}
