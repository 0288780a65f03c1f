//! The scheduler of one process, for programs that embed several runs. It remembers nothing when the process
//! ends; the runs are in the store.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{Clock, FencingToken, RunId};
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt, Shared};
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;

use super::{
    OutcomeEnd, Pulse, RunDetails, RunState, ScheduledRun, Scheduler, SchedulerError, SliceFailure,
    SliceOrder, SliceOutcome, SliceRunner, Word,
};
use crate::slice::Answer;

/// The name of the scheduler in errors.
const PLACE: &str = "this process";

/// A way to wait for a moment before a slice is tried again.
pub type Moment = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// A scheduler in the memory of this process.
pub struct LocalScheduler {
    desk: Mutex<Desk>,
    clock: Arc<dyn Clock>,
    moment: Moment,
}

#[derive(Default)]
struct Desk {
    runs: BTreeMap<RunId, Entry>,
    /// Each worker is woken when there may be something to do.
    workers: Vec<UnboundedSender<()>>,
}

/// A run that was submitted.
struct Entry {
    state: RunState,
    begun: Timestamp,
    ended: Option<Timestamp>,
    details: RunDetails,
    token: Option<FencingToken>,
    words: Vec<Word>,
    n_words: u64,
    /// The handle of the slice at work, which is asked to pause when it is dropped.
    at_work: Option<oneshot::Sender<()>>,
    /// True if the run ends when no slice is at work.
    is_stopping: bool,
}

/// The pulse of a slice at work. Nobody listens to its beats: this process cannot be lost without the slice.
struct LocalPulse {
    asked: Shared<BoxFuture<'static, ()>>,
}

#[async_trait]
impl Pulse for LocalPulse {
    fn beat(&self) {}

    fn patience(&self) -> Option<Duration> {
        None
    }

    async fn pause_asked(&self) {
        self.asked.clone().await;
    }
}

impl LocalScheduler {
    /// Creates a scheduler without runs. `moment` waits before a slice is tried again.
    pub fn new(clock: Arc<dyn Clock>, moment: Moment) -> Self {
        Self { desk: Mutex::default(), clock, moment }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the entry of an open run, and wakes the workers.
    fn change(&self, run: &RunId, change: impl FnOnce(&mut Entry)) -> Result<(), SchedulerError> {
        let mut desk = self.desk();
        let entry = desk.entry(run)?;
        if !entry.state.is_open() {
            return Err(SchedulerError::Over { run: run.clone() });
        }
        change(entry);
        desk.wake();
        Ok(())
    }

    /// Takes the next slice that nobody works on, and the words for it.
    fn next(&self) -> Option<(SliceOrder, Arc<dyn Pulse>)> {
        let mut desk = self.desk();
        let is_ready = |entry: &Entry| {
            let has_news = entry.state == RunState::Running || !entry.words.is_empty();
            entry.state.is_open() && entry.at_work.is_none() && has_news
        };
        let (run, entry) = desk.runs.iter_mut().find(|(_, entry)| is_ready(entry))?;
        let (sender, receiver) = oneshot::channel();
        entry.at_work = Some(sender);
        entry.state = RunState::Running;
        entry.details.waiting.clear();
        let order = SliceOrder {
            run: run.clone(),
            checkpoint: entry.details.checkpoint,
            token: entry.token,
            words: std::mem::take(&mut entry.words),
        };
        Some((order, Arc::new(LocalPulse { asked: receiver.map(drop).boxed().shared() })))
    }

    /// Records the result of a slice.
    fn settle(&self, order: SliceOrder, result: Result<SliceOutcome, SliceFailure>) {
        let now = self.clock.now();
        let mut desk = self.desk();
        let Some(entry) = desk.runs.get_mut(&order.run) else { return };
        entry.at_work = None;
        match result {
            Ok(outcome) => {
                entry.details.trouble = None;
                entry.details.checkpoint = outcome.checkpoint.or(entry.details.checkpoint);
                entry.token = outcome.token.or(entry.token);
                entry.details.calls = outcome.calls;
                entry.details.cost = outcome.cost;
                match outcome.end {
                    OutcomeEnd::Paused => {}
                    OutcomeEnd::Waiting(names) => {
                        (entry.state, entry.details.waiting) = (RunState::Waiting, names);
                    }
                    OutcomeEnd::Done(why) => entry.end(RunState::Done, why, now),
                }
            }
            Err(failure) => {
                let tries = entry.details.trouble.as_ref().map_or(0, |(tries, _)| *tries);
                entry.words.splice(0..0, order.words);
                match failure {
                    SliceFailure::Again(why) => entry.details.trouble = Some((tries + 1, why)),
                    SliceFailure::Final(why) => entry.end(RunState::Failed, why, now),
                }
            }
        }
        entry.stop_if_idle(now);
    }
}

impl Desk {
    fn entry(&mut self, run: &RunId) -> Result<&mut Entry, SchedulerError> {
        let missing = || SchedulerError::NoSuchRun { run: run.clone(), place: PLACE.to_owned() };
        self.runs.get_mut(run).ok_or_else(missing)
    }

    /// Wakes the workers that are still there.
    fn wake(&mut self) {
        self.workers.retain(|worker| worker.unbounded_send(()).is_ok());
    }
}

impl Entry {
    fn new(begun: Timestamp) -> Self {
        Self {
            state: RunState::Running,
            begun,
            ended: None,
            details: RunDetails::default(),
            token: None,
            words: Vec::new(),
            n_words: 0,
            at_work: None,
            is_stopping: false,
        }
    }

    /// Asks the slice at work to pause.
    fn ask_pause(&mut self) {
        if let Some(handle) = &mut self.at_work {
            drop(std::mem::replace(handle, oneshot::channel().0));
        }
    }

    /// Ends a run that is to stop, unless a slice of it is at work.
    fn stop_if_idle(&mut self, now: Timestamp) {
        if self.is_stopping && self.at_work.is_none() && self.state.is_open() {
            self.end(RunState::Stopped, "stopped".to_owned(), now);
        }
    }

    fn end(&mut self, state: RunState, why: String, now: Timestamp) {
        (self.state, self.details.why, self.ended) = (state, Some(why), Some(now));
        self.is_stopping = false;
        self.details.waiting.clear();
    }

    fn shown(&self, run: &RunId) -> ScheduledRun {
        ScheduledRun {
            run: run.clone(),
            state: self.state,
            details: Some(self.details.clone()),
            begun: Some(self.begun),
            ended: self.ended,
        }
    }
}

#[async_trait]
impl Scheduler for LocalScheduler {
    async fn submit(&self, run: &RunId) -> Result<(), SchedulerError> {
        let now = self.clock.now();
        let mut desk = self.desk();
        if desk.runs.contains_key(run) {
            return Err(SchedulerError::AlreadySubmitted { run: run.clone() });
        }
        desk.runs.insert(run.clone(), Entry::new(now));
        desk.wake();
        Ok(())
    }

    async fn steer(&self, run: &RunId, text: String) -> Result<(), SchedulerError> {
        self.change(run, |entry| {
            entry.n_words += 1;
            entry.words.push(Word::Steer { number: entry.n_words, text });
            entry.ask_pause();
        })
    }

    async fn answer(&self, run: &RunId, answer: Answer) -> Result<(), SchedulerError> {
        self.change(run, |entry| entry.words.push(Word::Answer(answer)))
    }

    async fn stop(&self, run: &RunId) -> Result<(), SchedulerError> {
        let now = self.clock.now();
        self.change(run, |entry| {
            entry.is_stopping = true;
            entry.ask_pause();
            entry.stop_if_idle(now);
        })
    }

    async fn retry(&self, run: &RunId) -> Result<(), SchedulerError> {
        let mut desk = self.desk();
        let entry = desk.entry(run)?;
        entry.state.check_retry(run)?;
        (entry.state, entry.details.why, entry.ended, entry.details.trouble) =
            (RunState::Running, None, None, None);
        desk.wake();
        Ok(())
    }

    async fn show(&self, run: &RunId) -> Result<ScheduledRun, SchedulerError> {
        self.desk().entry(run).map(|entry| entry.shown(run))
    }

    async fn list(&self) -> Result<Vec<ScheduledRun>, SchedulerError> {
        let mut runs: Vec<_> = self.desk().runs.iter().map(|(run, entry)| entry.shown(run)).collect();
        runs.sort_by_key(|run| std::cmp::Reverse(run.begun));
        Ok(runs)
    }

    async fn work(
        &self,
        runner: Arc<dyn SliceRunner>,
        slots: NonZeroUsize,
        drain: BoxFuture<'static, ()>,
    ) -> Result<(), SchedulerError> {
        let (sender, mut woken): (_, UnboundedReceiver<()>) = unbounded();
        self.desk().workers.push(sender);
        let mut drain = drain.fuse();
        let mut at_work = FuturesUnordered::new();
        let mut is_draining = false;
        loop {
            while !is_draining
                && at_work.len() < slots.get()
                && let Some((order, pulse)) = self.next()
            {
                at_work.push(run(&*runner, order, pulse, &self.moment));
            }
            if is_draining && at_work.is_empty() {
                return Ok(());
            }
            futures::select! {
                (order, result) = at_work.select_next_some() => {
                    self.settle(order, result);
                    self.desk().wake();
                }
                () = woken.select_next_some() => {}
                () = drain => {
                    is_draining = true;
                    // Those of other workers of this process pause as well, and are taken up again.
                    self.desk().runs.values_mut().for_each(Entry::ask_pause);
                }
            }
        }
    }
}

/// Runs a slice. One that is to be tried again is only reported after a moment.
async fn run(
    runner: &dyn SliceRunner,
    order: SliceOrder,
    pulse: Arc<dyn Pulse>,
    moment: &Moment,
) -> (SliceOrder, Result<SliceOutcome, SliceFailure>) {
    let result = runner.run_slice(order.clone(), pulse).await;
    if matches!(result, Err(SliceFailure::Again(_))) {
        moment().await;
    }
    (order, result)
}
