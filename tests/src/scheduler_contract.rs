//! What every scheduler of a fleet does, as cases over a bench: a scheduler, a runner with a script for each run,
//! and workers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use forge_app::{
    Answer, AnswerWhat, OutcomeEnd, Pulse, RunDetails, RunState, ScheduledRun, Scheduler, SchedulerError,
    SliceFailure, SliceOrder, SliceOutcome, SliceRunner, Word,
};
use forge_domain::{CheckpointKey, Dollars, FencingToken, RunId};
use futures::FutureExt;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What a slice of the script does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Ends so.
    Ends(OutcomeEnd),
    /// Fails so.
    Fails(SliceFailure),
    /// Works until it is asked to pause.
    WorksUntilAsked,
}

/// A runner that follows a script, and logs what it was given.
#[derive(Default)]
struct Script {
    steps: Mutex<BTreeMap<RunId, VecDeque<Step>>>,
    orders: Mutex<Vec<SliceOrder>>,
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
    /// The keys of checkpoints, which a store would give.
    n_saved: AtomicUsize,
}

#[async_trait]
impl SliceRunner for Script {
    async fn run_slice(
        &self,
        order: SliceOrder,
        pulse: Arc<dyn Pulse>,
    ) -> Result<SliceOutcome, SliceFailure> {
        let at_work = self.at_work.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_at_work.fetch_max(at_work, Ordering::SeqCst);
        pulse.beat();
        self.orders.lock().unwrap().push(order.clone());
        let step = self.steps.lock().unwrap().get_mut(&order.run).and_then(VecDeque::pop_front);
        let end = match step {
            None => Ok(OutcomeEnd::Done("done".into())),
            Some(Step::Ends(end)) => Ok(end),
            Some(Step::Fails(failure)) => Err(failure),
            Some(Step::WorksUntilAsked) => {
                while pulse.pause_asked().now_or_never().is_none() {
                    pulse.beat();
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                Ok(OutcomeEnd::Paused)
            }
        };
        self.at_work.fetch_sub(1, Ordering::SeqCst);
        let key = self.n_saved.fetch_add(1, Ordering::SeqCst) as u64 + 1;
        end.map(|end| SliceOutcome {
            end,
            checkpoint: Some(CheckpointKey::new(key)),
            token: Some(FencingToken::new(key)),
            calls: 2 * key as usize,
            cost: Dollars::new(0.25).unwrap(),
        })
    }
}

/// A scheduler at work.
pub struct Bench {
    scheduler: Arc<dyn Scheduler>,
    script: Arc<Script>,
}

/// A worker that can be told to drain.
struct Worker {
    drain: Arc<Notify>,
    task: JoinHandle<Result<(), SchedulerError>>,
}

impl Worker {
    async fn drain(self) {
        self.drain.notify_one();
        self.task.await.unwrap().unwrap();
    }
}

impl Bench {
    /// Creates a bench for a scheduler that has none of the runs of the cases.
    pub fn new(scheduler: Arc<dyn Scheduler>) -> Self {
        Self { scheduler, script: Arc::default() }
    }

    fn worker(&self, slots: usize) -> Worker {
        let drain = Arc::<Notify>::default();
        let (scheduler, script, asked) =
            (Arc::clone(&self.scheduler), Arc::clone(&self.script), Arc::clone(&drain));
        let slots = NonZeroUsize::new(slots).unwrap();
        let task = tokio::spawn(async move {
            scheduler.work(script, slots, async move { asked.notified().await }.boxed()).await
        });
        Worker { drain, task }
    }

    async fn submit(&self, name: &str, steps: &[Step]) -> RunId {
        let run = RunId::new(name).unwrap();
        self.script.steps.lock().unwrap().insert(run.clone(), steps.iter().cloned().collect());
        self.scheduler.submit(&run).await.unwrap();
        run
    }

    /// Waits until the run is in that state, and returns it.
    async fn until(&self, run: &RunId, state: RunState) -> (ScheduledRun, RunDetails) {
        loop {
            let shown = self.scheduler.show(run).await.unwrap();
            if let Some(details) = shown.details.clone().filter(|_| shown.state == state) {
                return (shown, details);
            }
            assert!(shown.state.is_open() || state.is_open(), "{shown:?}, and {state:?} was expected");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until so many slices of the run were begun.
    async fn until_begun(&self, run: &RunId, n: usize) {
        while self.orders(run).len() < n {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn orders(&self, run: &RunId) -> Vec<SliceOrder> {
        self.script.orders.lock().unwrap().iter().filter(|order| order.run == *run).cloned().collect()
    }
}

fn paused() -> Step {
    Step::Ends(OutcomeEnd::Paused)
}

fn waiting(name: &str) -> Step {
    Step::Ends(OutcomeEnd::Waiting(vec![name.to_owned()]))
}

fn answer(id: &str) -> Answer {
    Answer { id: id.to_owned(), what: AnswerWhat::Text("blue".to_owned()) }
}

fn steer(number: u64, text: &str) -> Word {
    Word::Steer { number, text: text.to_owned() }
}

/// Each slice gets the names of the one before, and the run is the sum of them.
pub async fn slices_follow_each_other_until_the_run_is_done(bench: Bench) {
    let worker = bench.worker(2);
    let run = bench.submit("follow", &[paused(), paused(), Step::Ends(OutcomeEnd::Done("cut".into()))]).await;
    let (shown, details) = bench.until(&run, RunState::Done).await;
    let orders = bench.orders(&run);
    let keys: Vec<_> = orders.iter().map(|order| order.checkpoint.map(CheckpointKey::as_u64)).collect();
    assert_eq!(keys, [None, Some(1), Some(2)]);
    assert_eq!(orders[2].token, Some(FencingToken::new(2)));
    assert!(orders.iter().all(|order| order.words.is_empty()));
    let expected = (Some(CheckpointKey::new(3)), 6, Dollars::new(0.25).unwrap(), Some("cut"));
    assert_eq!((details.checkpoint, details.calls, details.cost, details.why.as_deref()), expected);
    assert!(shown.begun.is_some() && shown.ended >= shown.begun, "{shown:?}");
    assert_eq!(bench.scheduler.list().await.unwrap().iter().filter(|listed| listed.run == run).count(), 1);
    worker.drain().await;
}

/// What is said to a run that waits begins its next slice, with all that was said, in order.
pub async fn a_run_waits_for_its_answer_and_nothing_runs_meanwhile(bench: Bench) {
    let worker = bench.worker(2);
    let run = bench.submit("wait", &[waiting("boss-1-1"), waiting("boss-2-1")]).await;
    let (_, details) = bench.until(&run, RunState::Waiting).await;
    assert_eq!(details.waiting, ["boss-1-1"]);
    // Another run passes; this one is not touched.
    let other = bench.submit("pass", &[paused()]).await;
    bench.until(&other, RunState::Done).await;
    assert_eq!(bench.orders(&run).len(), 1);
    bench.scheduler.answer(&run, answer("boss-1-1")).await.unwrap();
    bench.until_begun(&run, 2).await;
    while bench.until(&run, RunState::Waiting).await.1.waiting != ["boss-2-1"] {}
    bench.scheduler.steer(&run, "quickly".into()).await.unwrap();
    bench.until(&run, RunState::Done).await;
    let words: Vec<_> = bench.orders(&run).into_iter().map(|order| order.words).collect();
    assert_eq!(words, [vec![], vec![Word::Answer(answer("boss-1-1"))], vec![steer(1, "quickly")]]);
    worker.drain().await;
}

/// A try that failed has consumed nothing.
pub async fn a_slice_that_failed_for_now_is_tried_again_with_its_words(bench: Bench) {
    let again = Step::Fails(SliceFailure::Again("the run is held".into()));
    let run = bench.submit("again", &[waiting("a"), again.clone(), again, waiting("b")]).await;
    let worker = bench.worker(1);
    bench.until(&run, RunState::Waiting).await;
    bench.scheduler.answer(&run, answer("a")).await.unwrap();
    bench.until_begun(&run, 4).await;
    bench.until(&run, RunState::Waiting).await;
    let words: Vec<_> = bench.orders(&run).into_iter().map(|order| order.words).collect();
    let answered = vec![Word::Answer(answer("a"))];
    assert_eq!(words, [vec![], answered.clone(), answered.clone(), answered]);
    worker.drain().await;
}

/// Only a person tries a run again that failed for good. It continues where it was.
pub async fn a_run_that_failed_is_tried_again_when_somebody_says_so(bench: Bench) {
    let worker = bench.worker(1);
    let fails = Step::Fails(SliceFailure::Final("no key".into()));
    let run = bench.submit("fail", &[waiting("a"), fails, paused()]).await;
    bench.until(&run, RunState::Waiting).await;
    bench.scheduler.steer(&run, "one".into()).await.unwrap();
    let (shown, details) = bench.until(&run, RunState::Failed).await;
    assert!(details.why.as_deref().unwrap().contains("no key") && shown.ended.is_some(), "{details:?}");
    let over = bench.scheduler.steer(&run, "more".into()).await;
    assert!(matches!(over, Err(SchedulerError::Over { .. })), "{over:?}");
    bench.scheduler.retry(&run).await.unwrap();
    bench.until(&run, RunState::Done).await;
    let orders = bench.orders(&run);
    assert_eq!(orders[2].words, [steer(1, "one")], "the words that no slice has heard");
    assert_eq!(orders[2].checkpoint, Some(CheckpointKey::new(1)));
    worker.drain().await;
}

/// A slice at work pauses first; a run that waits ends at once.
pub async fn a_run_is_stopped_at_work_and_while_it_waits(bench: Bench) {
    let worker = bench.worker(2);
    let busy = bench.submit("busy", &[Step::WorksUntilAsked, paused()]).await;
    bench.until_begun(&busy, 1).await;
    bench.scheduler.stop(&busy).await.unwrap();
    let (_, details) = bench.until(&busy, RunState::Stopped).await;
    assert!(details.checkpoint.is_some(), "what it did is known: {details:?}");
    assert_eq!(bench.orders(&busy).len(), 1);
    let idle = bench.submit("idle", &[waiting("a")]).await;
    bench.until(&idle, RunState::Waiting).await;
    bench.scheduler.stop(&idle).await.unwrap();
    bench.until(&idle, RunState::Stopped).await;
    for run in [&busy, &idle] {
        bench.scheduler.retry(run).await.unwrap();
        bench.until(run, RunState::Done).await;
    }
    worker.drain().await;
}

/// A slice at work pauses for advice, and the next one hears it.
pub async fn advice_is_heard_at_the_next_safe_point(bench: Bench) {
    let worker = bench.worker(1);
    let run = bench.submit("advice", &[Step::WorksUntilAsked, paused()]).await;
    bench.until_begun(&run, 1).await;
    bench.scheduler.steer(&run, "not there".into()).await.unwrap();
    bench.until(&run, RunState::Done).await;
    let orders = bench.orders(&run);
    assert_eq!(orders[1].words, [steer(1, "not there")]);
    assert_eq!(orders[1].checkpoint, Some(CheckpointKey::new(1)));
    worker.drain().await;
}

/// Errors name the run.
pub async fn what_cannot_be_done_is_said(bench: Bench) {
    let nobody = RunId::new("nobody").unwrap();
    for missing in [
        bench.scheduler.show(&nobody).await.map(drop),
        bench.scheduler.steer(&nobody, "x".into()).await,
        bench.scheduler.answer(&nobody, answer("a")).await,
        bench.scheduler.stop(&nobody).await,
        bench.scheduler.retry(&nobody).await,
    ] {
        assert!(
            matches!(&missing, Err(SchedulerError::NoSuchRun { run, .. }) if *run == nobody),
            "{missing:?}"
        );
    }
    let run = bench.submit("twice", &[]).await;
    let twice = bench.scheduler.submit(&run).await;
    assert!(matches!(twice, Err(SchedulerError::AlreadySubmitted { .. })), "{twice:?}");
    let open = bench.scheduler.retry(&run).await;
    assert!(matches!(open, Err(SchedulerError::StillOpen { .. })), "{open:?}");
    let worker = bench.worker(1);
    bench.until(&run, RunState::Done).await;
    for over in [
        bench.scheduler.steer(&run, "x".into()).await,
        bench.scheduler.stop(&run).await,
        bench.scheduler.retry(&run).await,
    ] {
        assert!(matches!(over, Err(SchedulerError::Over { .. })), "{over:?}");
    }
    let twice = bench.scheduler.submit(&run).await;
    assert!(matches!(twice, Err(SchedulerError::AlreadySubmitted { .. })), "even if it is over: {twice:?}");
    worker.drain().await;
}

/// A worker that drains waits for its slices to pause; their runs continue elsewhere.
pub async fn a_worker_that_drains_leaves_its_runs_to_others(bench: Bench) {
    let first = bench.worker(2);
    let run = bench.submit("drain", &[Step::WorksUntilAsked, paused()]).await;
    bench.until_begun(&run, 1).await;
    first.drain().await;
    assert_eq!(bench.script.at_work.load(Ordering::SeqCst), 0);
    assert_eq!(bench.orders(&run).len(), 1);
    let second = bench.worker(1);
    bench.until(&run, RunState::Done).await;
    assert_eq!(bench.orders(&run)[1].checkpoint, Some(CheckpointKey::new(1)));
    second.drain().await;
}

/// As many runs as slots work at once, and no more.
pub async fn a_worker_has_no_more_slices_at_once_than_slots(bench: Bench) {
    const SLOTS: usize = 3;
    let worker = bench.worker(SLOTS);
    let mut runs = Vec::new();
    for n in 0..SLOTS * 2 {
        runs.push(bench.submit(&format!("slot-{n}"), &[Step::WorksUntilAsked]).await);
    }
    while bench.script.at_work.load(Ordering::SeqCst) < SLOTS {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for run in &runs {
        bench.scheduler.stop(run).await.unwrap();
    }
    for run in &runs {
        bench.until(run, RunState::Stopped).await;
    }
    assert_eq!(bench.script.most_at_work.load(Ordering::SeqCst), SLOTS);
    worker.drain().await;
}

/// Makes a test of every case. `$bench` is an async function from the name of the case to its bench, with what
/// must live as long; `None` skips the case.
#[macro_export]
macro_rules! test_scheduler {
    ($bench:ident) => {
        $crate::test_scheduler! { $bench:
            slices_follow_each_other_until_the_run_is_done,
            a_run_waits_for_its_answer_and_nothing_runs_meanwhile,
            a_slice_that_failed_for_now_is_tried_again_with_its_words,
            a_run_that_failed_is_tried_again_when_somebody_says_so,
            a_run_is_stopped_at_work_and_while_it_waits,
            advice_is_heard_at_the_next_safe_point,
            what_cannot_be_done_is_said,
            a_worker_that_drains_leaves_its_runs_to_others,
            a_worker_has_no_more_slices_at_once_than_slots
        }
    };
    ($bench:ident: $($case:ident),*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $case() {
            if let Some((bench, _kept)) = $bench(stringify!($case)).await {
                $crate::scheduler_contract::$case(bench).await;
            }
        })*
    };
}
