//! The worker: takes slices from the server and runs them.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use forge_app::{SchedulerError, SliceRunner};
use temporalio_client::Client;
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::runtime::{PollerBehavior, RuntimeOptions};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::TASK_QUEUE;
use crate::error::Place;
use crate::flow::{ForgeRun, Slices};

/// Runs in memory, which continue without a replay. One that waits for a person has a place, too.
const CACHED_RUNS: usize = 1_000;
/// The time for which the next step of a run waits for the worker that has it in memory before any other may
/// take it. A run loses it when that worker is lost between two slices.
const STICKY: Duration = Duration::from_secs(2);
/// Workflow tasks at once. Each takes a millisecond; the number only limits bursts.
const WORKFLOW_SLOTS: usize = 50;
/// Open requests for workflow tasks; the SDK wants two at least.
const WORKFLOW_POLLS: usize = 3;
/// Open requests for slices.
const SLICE_POLLS: usize = 3;

/// The connection of a worker.
#[derive(Clone)]
pub(crate) struct WorkerConnection {
    pub(crate) client: Client,
    pub(crate) place: Place,
    /// The heartbeat timeout of most runs.
    pub(crate) heartbeat: Duration,
}

/// Works until `drain` is ready, and then until the slices at work have paused; their runs continue at other
/// workers. The future is `Send`; workflows, which are not, get a thread of their own.
///
/// # Errors
/// [`SchedulerError::Unavailable`].
pub(crate) async fn work(
    connection: WorkerConnection,
    runner: Arc<dyn SliceRunner>,
    slots: NonZeroUsize,
    drain: impl Future<Output = ()> + Send,
) -> Result<(), SchedulerError> {
    let token = CancellationToken::new();
    // Dropping the future begins the same, without waiting for it.
    let _drains_when_dropped = token.clone().drop_guard();
    let slices = Slices { runner, drain: token.clone() };
    let (done, mut ended) = oneshot::channel();
    let place = connection.place.clone();
    let (runtime, halt) = (tokio::runtime::Handle::current(), token.clone());
    let thread = std::thread::Builder::new().name("forge-workflows".to_owned());
    let spawned = thread.spawn(move || {
        // No one hears the result if the future was dropped.
        drop(done.send(runtime.block_on(run(connection, slices, slots, halt))));
    });
    spawned.map_err(|error| place.worker(&error))?;
    let gone = |error: oneshot::error::RecvError| place.worker(&error);
    tokio::select! {
        result = &mut ended => return result.map_err(gone)?,
        () = drain => token.cancel(),
    }
    ended.await.map_err(gone)?
}

async fn run(
    WorkerConnection { client, place, heartbeat }: WorkerConnection,
    slices: Slices,
    slots: NonZeroUsize,
    drain: CancellationToken,
) -> Result<(), SchedulerError> {
    // A worker's own heartbeat feeds a list in the server's pages, for the price of more open requests.
    let options = RuntimeOptions::builder().heartbeat_interval(None).build();
    let options = options.map_err(|why| place.worker(&std::io::Error::other(why)))?;
    let runtime = Runtime::from_current_tokio(options).map_err(|error| place.worker(&error))?;
    let slots = slots.get();
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(FixedSizeSlotSupplier::new(WORKFLOW_SLOTS))
        .activity_task_slot_supplier(FixedSizeSlotSupplier::new(slots))
        .local_activity_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .nexus_task_slot_supplier(FixedSizeSlotSupplier::new(1))
        .build();
    let options = WorkerOptions::new(TASK_QUEUE)
        .register_activities(slices)
        .register_workflow::<ForgeRun>()
        .map_err(|error| place.worker(&error))?
        .max_cached_workflows(CACHED_RUNS)
        .sticky_queue_schedule_to_start_timeout(STICKY)
        .workflow_task_poller_behavior(PollerBehavior::SimpleMaximum(WORKFLOW_POLLS))
        .activity_task_poller_behavior(PollerBehavior::SimpleMaximum(SLICE_POLLS.min(slots)))
        // The SDK holds beats back for 0.8 of the heartbeat timeout: too close to it on a busy machine.
        .max_heartbeat_throttle_interval(heartbeat / 3)
        .tuner(tuner)
        .build();
    let mut worker = Worker::new(&runtime, client, options).map_err(|error| place.worker(&error))?;
    let halt = worker.shutdown_handle();
    tokio::spawn(async move {
        drain.cancelled().await;
        halt();
    });
    worker.run().await.map_err(|error| place.worker(&error))
}
