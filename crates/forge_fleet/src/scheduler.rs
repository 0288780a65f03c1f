//! The scheduler: runs are submitted to the Temporal server, looked at there, and spoken to.

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use forge_app::{Answer, RunDetails, RunState, ScheduledRun, Scheduler, SchedulerError, SliceRunner};
use forge_domain::RunId;
use futures::StreamExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use temporalio_client::tonic::IntoRequest;
use temporalio_client::{
    Client, ClientOptions, Connection, ConnectionOptions, RpcOptions, Url, WorkflowDescribeOptions,
    WorkflowExecutionStatus, WorkflowFetchHistoryOptions, WorkflowHandle, WorkflowIdConflictPolicy,
    WorkflowIdReusePolicy, WorkflowListOptions, WorkflowQueryOptions, WorkflowSignalOptions,
    WorkflowStartOptions,
};
use temporalio_common::protos::temporal::api::workflow::v1::PendingActivityInfo;
use temporalio_common::protos::temporal::api::workflowservice::v1::{
    DescribeNamespaceRequest, DescribeWorkflowExecutionResponse,
};
use temporalio_common::{HasWorkflowDefinition, SignalDefinition, WorkflowDefinition};

use crate::error::Place;
use crate::flow::ForgeRun;
use crate::past::Past;
use crate::state::{HEARTBEAT, RunInput, RunResult, SLICES_PER_HISTORY};
use crate::tls::TemporalTls;
use crate::worker::{self, WorkerConnection};
use crate::{ID_PREFIX, TASK_QUEUE, WORKFLOW_TYPE};

/// The longest time for a connection, and for a worker's answer to a query.
const PATIENCE: Duration = Duration::from_secs(5);
/// The pause before the server is asked again about a run that has just ended.
const MOMENT: Duration = Duration::from_millis(50);
/// The longest time for which a worker may hold a workflow task, which takes milliseconds. For so long a run
/// stands still if a worker is lost just then.
const WORKFLOW_TASK_TIMEOUT: Duration = Duration::from_secs(3);

/// The options of runs that are submitted.
#[derive(Clone, Debug)]
pub struct TemporalOptions {
    /// The time without a beat after which a slice is given to another worker.
    pub heartbeat: Duration,
    /// The slices after which a run begins a new history.
    pub slices_per_history: u32,
    /// The name of this process in histories, once or twice for each slice: best short. If it is empty, it is
    /// `PID@HOST`.
    pub identity: String,
    /// The encryption of the connection; none by default.
    pub tls: TemporalTls,
}

impl Default for TemporalOptions {
    fn default() -> Self {
        Self {
            heartbeat: HEARTBEAT,
            slices_per_history: SLICES_PER_HISTORY,
            identity: String::new(),
            tls: TemporalTls::default(),
        }
    }
}

/// A scheduler on a Temporal server.
#[derive(Clone)]
pub struct TemporalScheduler {
    client: Client,
    options: TemporalOptions,
    pub(crate) place: Place,
}

/// The workflow of a run as its handles name it. Its own type cannot move to another thread, as a handle
/// must.
pub(crate) struct AnyRun;

impl HasWorkflowDefinition for AnyRun {
    type Run = <ForgeRun as HasWorkflowDefinition>::Run;
}

impl WorkflowDefinition for AnyRun {
    type Input = RunInput;
    type Output = RunResult;

    fn name(&self) -> &str {
        WORKFLOW_TYPE
    }
}

pub(crate) type Handle = WorkflowHandle<Client, AnyRun>;

impl TemporalScheduler {
    /// Connects to the server at `temporal://HOST:PORT/NAMESPACE`; without a namespace it is `default`.
    ///
    /// # Errors
    /// [`SchedulerError::Address`], and [`SchedulerError::Unavailable`] if nothing answers there or it has no
    /// such namespace.
    pub async fn connect(address: &str, options: TemporalOptions) -> Result<Self, SchedulerError> {
        let (mut url, place) = parse(address)?;
        let TemporalTls { options: tls, api_key } = options.tls.clone();
        if tls.is_some() {
            // Both schemes are of one kind, so that one can take the other's place.
            url.set_scheme("https").map_err(|()| SchedulerError::Address {
                address: address.to_owned(),
                why: "it cannot be encrypted".to_owned(),
            })?;
        }
        let connection = ConnectionOptions::new(url)
            .connect_timeout(PATIENCE)
            .identity(options.identity.clone())
            // One server behind one address: there is nothing to balance.
            .dns_load_balancing(None)
            .maybe_tls_options(tls)
            .maybe_api_key(api_key)
            .build();
        let connection = Connection::connect(connection).await.map_err(|error| place.connect(&error))?;
        // Asked now: a worker would otherwise only log it.
        let request = DescribeNamespaceRequest { namespace: place.namespace.clone(), ..Default::default() };
        let mut service = connection.workflow_service();
        let described = service.describe_namespace(request.into_request()).await;
        described.map_err(|status| place.status(&status, None))?;
        let client = Client::new(connection, ClientOptions::new(place.namespace.clone()).build());
        let client = client.map_err(|error| place.worker(&error))?;
        Ok(Self { client, options, place })
    }

    async fn start(&self, mut input: RunInput, reuse: WorkflowIdReusePolicy) -> Result<(), SchedulerError> {
        let TemporalOptions { heartbeat, slices_per_history, .. } = self.options;
        let millis = u64::try_from(heartbeat.as_millis()).unwrap_or(u64::MAX);
        input.heartbeat_ms = (heartbeat != HEARTBEAT).then_some(millis);
        input.slices_per_history = (slices_per_history != SLICES_PER_HISTORY).then_some(slices_per_history);
        let run = input.run.clone();
        let options = WorkflowStartOptions::new(TASK_QUEUE, workflow_id(&run))
            .id_reuse_policy(reuse)
            .id_conflict_policy(WorkflowIdConflictPolicy::Fail)
            .task_timeout(WORKFLOW_TASK_TIMEOUT)
            .build();
        let started = self.client.start_workflow(ForgeRun::run, input, options).await;
        started.map(drop).map_err(|error| self.place.start(&error, &run))
    }

    /// Asks an open run where it is; `None` if no worker answers in time.
    async fn ask(&self, run: &RunId) -> Option<crate::state::Place> {
        let options = WorkflowQueryOptions::builder()
            .rpc_options(RpcOptions::builder().timeout(PATIENCE).build())
            .build();
        match tokio::time::timeout(PATIENCE, self.handle(run).query(ForgeRun::place, (), options)).await {
            Ok(Ok(place)) => Some(place),
            Ok(Err(error)) => {
                tracing::debug!(%run, error = %self.place.query(&error, run), "no worker answered");
                None
            }
            Err(_) => None,
        }
    }

    async fn signal<S>(&self, run: &RunId, signal: S, input: S::Input) -> Result<(), SchedulerError>
    where
        S: SignalDefinition<Workflow = <ForgeRun as HasWorkflowDefinition>::Run>,
        S::Input: Send,
    {
        let sent = self.handle(run).signal(signal, input, WorkflowSignalOptions::default()).await;
        sent.map_err(|error| self.place.interaction(&error, run))
    }

    pub(crate) fn handle(&self, run: &RunId) -> Handle {
        self.client.get_workflow_handle(workflow_id(run))
    }

    async fn describe(
        &self,
        run: &RunId,
    ) -> Result<(RunState, DescribeWorkflowExecutionResponse), SchedulerError> {
        let described = self.handle(run).describe(WorkflowDescribeOptions::default()).await;
        let described = described.map_err(|error| self.place.interaction(&error, run))?;
        Ok((state_of(described.status()), described.into_raw()))
    }

    async fn past(&self, run: &RunId) -> Result<Past, SchedulerError> {
        let history = self.handle(run).fetch_history(WorkflowFetchHistoryOptions::default());
        let events = history.into_events().await;
        Ok(Past::of(run, events.map_err(|error| self.place.interaction(&error, run))?))
    }
}

#[async_trait]
impl Scheduler for TemporalScheduler {
    async fn submit(&self, run: &RunId) -> Result<(), SchedulerError> {
        self.start(RunInput::new(run.clone()), WorkflowIdReusePolicy::RejectDuplicate).await
    }

    async fn steer(&self, run: &RunId, text: String) -> Result<(), SchedulerError> {
        self.signal(run, ForgeRun::steer, text).await
    }

    async fn answer(&self, run: &RunId, answer: Answer) -> Result<(), SchedulerError> {
        self.signal(run, ForgeRun::answer, answer).await
    }

    async fn stop(&self, run: &RunId) -> Result<(), SchedulerError> {
        self.signal(run, ForgeRun::stop, ()).await
    }

    async fn retry(&self, run: &RunId) -> Result<(), SchedulerError> {
        self.describe(run).await?.0.check_retry(run)?;
        let input = self.past(run).await?.at;
        // Of two that try again at once, the server lets one through: the other finds the run open.
        match self.start(input, WorkflowIdReusePolicy::AllowDuplicateFailedOnly).await {
            Err(SchedulerError::AlreadySubmitted { run }) => Err(SchedulerError::StillOpen { run }),
            started => started,
        }
    }

    async fn show(&self, run: &RunId) -> Result<ScheduledRun, SchedulerError> {
        let (mut state, mut raw) = self.describe(run).await?;
        let mut place = None;
        while state.is_open() {
            place = self.ask(run).await;
            let is_over = place.as_ref().is_some_and(|place| !place.state.is_open());
            if !is_over {
                break;
            }
            // It ended between the two questions: the server knows in a moment.
            tokio::time::sleep(MOMENT).await;
            (state, raw) = self.describe(run).await?;
        }
        let info = raw.workflow_execution_info.unwrap_or_default();
        let (state, details) = match (state.is_open(), place) {
            (true, Some(place)) => (place.state, Some(place.details)),
            (true, None) => (state, None),
            (false, _) => {
                let past = self.past(run).await?;
                (state, Some(RunDetails { why: past.why, ..past.at.details() }))
            }
        };
        let details = details.map(|details| RunDetails {
            trouble: raw.pending_activities.first().and_then(trouble),
            history_bytes: info.history_size_bytes.try_into().unwrap_or_default(),
            ..details
        });
        let time = |stamp: Option<_>| stamp.and_then(|stamp| timestamp(SystemTime::try_from(stamp).ok()?));
        Ok(ScheduledRun {
            run: run.clone(),
            state,
            details,
            begun: time(info.start_time),
            ended: time(info.close_time),
        })
    }

    async fn list(&self) -> Result<Vec<ScheduledRun>, SchedulerError> {
        let query = format!("WorkflowType = '{WORKFLOW_TYPE}' AND ExecutionStatus != 'ContinuedAsNew'");
        let mut found = self.client.list_workflows(query, WorkflowListOptions::default());
        let (mut runs, mut seen) = (Vec::new(), HashSet::new());
        while let Some(execution) = found.next().await {
            let execution = execution.map_err(|error| self.place.list(&error))?;
            let Some(run) = execution.id().strip_prefix(ID_PREFIX).and_then(|id| RunId::new(id).ok()) else {
                continue;
            };
            // A run that was tried again is there once for each try, the newest first.
            if seen.insert(run.clone()) {
                runs.push(ScheduledRun {
                    run,
                    state: state_of(execution.status()),
                    details: None,
                    begun: execution.start_time().and_then(timestamp),
                    ended: execution.close_time().and_then(timestamp),
                });
            }
        }
        Ok(runs)
    }

    async fn work(
        &self,
        runner: Arc<dyn SliceRunner>,
        slots: NonZeroUsize,
        drain: BoxFuture<'static, ()>,
    ) -> Result<(), SchedulerError> {
        let Self { client, options, place } = self.clone();
        worker::work(WorkerConnection { client, place, heartbeat: options.heartbeat }, runner, slots, drain)
            .await
    }
}

fn workflow_id(run: &RunId) -> String {
    format!("{ID_PREFIX}{run}")
}

fn timestamp(time: SystemTime) -> Option<Timestamp> {
    Timestamp::try_from(time).ok()
}

/// Returns the state that Temporal's status tells. It does not tell whether an open run waits.
fn state_of(status: WorkflowExecutionStatus) -> RunState {
    match status {
        WorkflowExecutionStatus::Completed => RunState::Done,
        WorkflowExecutionStatus::Failed | WorkflowExecutionStatus::TimedOut => RunState::Failed,
        WorkflowExecutionStatus::Canceled | WorkflowExecutionStatus::Terminated => RunState::Stopped,
        // A history that was closed is followed by the next one of the same run.
        _ => RunState::Running,
    }
}

fn trouble(activity: &PendingActivityInfo) -> Option<(u32, String)> {
    let failure = activity.last_failure.as_ref()?;
    Some((activity.attempt.try_into().unwrap_or_default(), failure.message.clone()))
}

/// Splits an address into the server's and the namespace.
fn parse(address: &str) -> Result<(Url, Place), SchedulerError> {
    let bad = |why: &str| SchedulerError::Address { address: address.to_owned(), why: why.to_owned() };
    let rest = address.strip_prefix("temporal://").ok_or_else(|| bad("another scheme"))?;
    let (server, namespace) = rest.split_once('/').unwrap_or((rest, "default"));
    let namespace = if namespace.is_empty() { "default" } else { namespace };
    if namespace.contains(['/', '?', '#']) {
        return Err(bad("a namespace without slashes"));
    }
    let (_, port) = server.rsplit_once(':').ok_or_else(|| bad("no port"))?;
    port.parse::<u16>().map_err(|_| bad("the port is not a number"))?;
    let url = Url::from_str(&format!("http://{server}")).map_err(|error| bad(&error.to_string()))?;
    Ok((url, Place { server: server.to_owned(), namespace: namespace.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_server_and_a_namespace() {
        let (url, place) = parse("temporal://10.0.0.1:7233/team").unwrap();
        assert_eq!((url.as_str(), place.namespace.as_str()), ("http://10.0.0.1:7233/", "team"));
        assert_eq!(parse("temporal://[::1]:7233").unwrap().1.namespace, "default");
        for wrong in
            ["http://a:1/n", "temporal://a/n", "temporal://a:x/n", "temporal://:1/n", "temporal://a:1/n/m"]
        {
            assert!(matches!(parse(wrong), Err(SchedulerError::Address { .. })), "{wrong}");
        }
    }
}
