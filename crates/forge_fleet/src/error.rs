//! The errors of the Temporal server, in the words of a scheduler.

use std::error::Error;

use forge_app::SchedulerError;
use forge_domain::RunId;
use temporalio_client::errors::{
    ClientConnectError, ClientError, WorkflowInteractionError, WorkflowQueryError, WorkflowStartError,
};
use temporalio_client::tonic::{Code, Status};

/// Returns the innermost cause, which is what a user can act on ("Connection refused").
fn innermost(error: &(dyn Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Returns an error with its causes on one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let part = source.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        next = source.source();
    }
    text
}

/// The place of a fleet, which its errors name.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// `HOST:PORT`.
    pub(crate) server: String,
    pub(crate) namespace: String,
}

impl Place {
    fn name(&self) -> String {
        format!("temporal://{}/{}", self.server, self.namespace)
    }

    fn failed(&self, why: impl Into<String>) -> SchedulerError {
        SchedulerError::Unavailable { place: self.name(), why: why.into() }
    }

    fn unreachable(&self, why: &str) -> SchedulerError {
        self.failed(format!("no Temporal server answers there ({why})"))
    }

    /// Returns the error of a worker.
    pub(crate) fn worker(&self, error: &(dyn Error + 'static)) -> SchedulerError {
        self.failed(format!("the worker stopped: {}", chain(error)))
    }

    /// Returns the error of a connection.
    pub(crate) fn connect(&self, error: &ClientConnectError) -> SchedulerError {
        match error {
            ClientConnectError::SystemInfoCallError(status) => self.status(status, None),
            other => self.unreachable(&innermost(other)),
        }
    }

    /// Returns the error in an answer of the server, about `run` if it is about one.
    pub(crate) fn status(&self, status: &Status, run: Option<&RunId>) -> SchedulerError {
        let message = status.message();
        match (status.code(), run) {
            (Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled, _) => {
                let cause = status.source().map(|_| innermost(status));
                self.unreachable(cause.as_deref().unwrap_or(message))
            }
            // The server has one code for all that is missing; only its text tells it apart.
            (Code::NotFound, _) if message.starts_with("Namespace ") => {
                self.failed(format!("the Temporal server has no namespace `{}`", self.namespace))
            }
            (Code::NotFound, Some(run)) if message.contains("already completed") => {
                SchedulerError::Over { run: run.clone() }
            }
            (Code::NotFound, Some(run)) => SchedulerError::NoSuchRun { run: run.clone(), place: self.name() },
            _ => self.failed(message),
        }
    }

    /// Returns the error of a run that could not be started.
    pub(crate) fn start(&self, error: &WorkflowStartError, run: &RunId) -> SchedulerError {
        match error {
            WorkflowStartError::AlreadyStarted { .. } => {
                SchedulerError::AlreadySubmitted { run: run.clone() }
            }
            WorkflowStartError::Rpc(status) => self.status(status, Some(run)),
            other => self.failed(chain(other)),
        }
    }

    /// Returns the error of a request about a run.
    pub(crate) fn interaction(&self, error: &WorkflowInteractionError, run: &RunId) -> SchedulerError {
        match error {
            WorkflowInteractionError::NotFound(status) | WorkflowInteractionError::Rpc(status) => {
                self.status(status, Some(run))
            }
            other => self.failed(chain(other)),
        }
    }

    /// Returns the error of a query.
    pub(crate) fn query(&self, error: &WorkflowQueryError, run: &RunId) -> SchedulerError {
        match error {
            WorkflowQueryError::NotFound(status) | WorkflowQueryError::Rpc(status) => {
                self.status(status, Some(run))
            }
            other => self.failed(chain(other)),
        }
    }

    /// Returns the error of a list.
    pub(crate) fn list(&self, error: &ClientError) -> SchedulerError {
        match error {
            ClientError::Rpc(status) => self.status(status, None),
            other => self.failed(chain(other)),
        }
    }
}
