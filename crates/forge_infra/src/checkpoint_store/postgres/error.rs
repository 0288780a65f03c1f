//! The conversion of Postgres's errors to those of the port.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forge_domain::{StoreCause, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The store's name for errors, without the password, and its time limit.
#[derive(Clone)]
pub(super) struct Place {
    name: String,
    /// The longest time without an answer.
    pub(super) patience: Duration,
    /// The number of answers so far.
    answers: Arc<AtomicU64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Place {
    pub(super) fn new(name: &str, patience: Duration) -> Self {
        Self { name: name.to_owned(), patience, answers: Arc::default() }
    }

    /// Converts the error of `result` to one that names this store, and counts an answer.
    pub(super) fn on<T>(&self, result: Result<T, Error>) -> Result<T, StoreError> {
        self.answers.fetch_add(1, Ordering::Relaxed);
        result.map_err(|error| self.failed(error))
    }

    /// Waits for `work` as long as the server keeps answering: each statement may take up to `patience`.
    /// Abandoned work leaves its connection in an unknown state.
    ///
    /// # Errors
    /// Fails with [`StoreError::TimedOut`], or with the error of the work.
    pub(super) async fn answering<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut work = std::pin::pin!(work);
        let mut answers = self.answers.load(Ordering::Relaxed);
        loop {
            if let Ok(done) = tokio::time::timeout(patience, &mut work).await {
                return done;
            }
            let before = std::mem::replace(&mut answers, self.answers.load(Ordering::Relaxed));
            if before == answers {
                return Err(self.timed_out(patience));
            }
        }
    }

    fn timed_out(&self, patience: Duration) -> StoreError {
        StoreError::TimedOut { place: self.name.clone(), seconds: patience.as_secs_f64().ceil() as u64 }
    }

    fn failed(&self, error: Error) -> StoreError {
        let place = self.name.clone();
        let io = std::error::Error::source(&error).and_then(|cause| cause.downcast_ref::<io::Error>());
        if io.is_some_and(|io| io.kind() == io::ErrorKind::TimedOut) {
            return self.timed_out(self.patience);
        }
        match error.code() {
            Some(code) if *code == SqlState::DISK_FULL => StoreError::Full { place, source: said(error) },
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { place },
            Some(code) if [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => {
                StoreError::Locked { place }
            }
            Some(code) if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
                StoreError::Corrupt { place, what: said(error).to_string() }
            }
            Some(code) if *code == SqlState::QUERY_CANCELED => self.timed_out(self.patience),
            _ => StoreError::Unavailable { place, source: said(error) },
        }
    }

    pub(super) fn unavailable(&self, source: impl Into<StoreCause>) -> StoreError {
        StoreError::Unavailable { place: self.name.clone(), source: source.into() }
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        StoreError::Corrupt { place: self.name.clone(), what: what.into() }
    }

    pub(super) fn no_such(&self, what: impl Into<String>) -> StoreError {
        StoreError::NotFound { place: self.name.clone(), what: what.into() }
    }
}

/// Returns the error with the server's message: the driver's own text is just "db error".
fn said(error: Error) -> StoreCause {
    match error.as_db_error() {
        Some(said) => said.message().to_owned().into(),
        None => match std::error::Error::source(&error).map(ToString::to_string) {
            Some(cause) => format!("{error}: {cause}").into(),
            None => error.into(),
        },
    }
}
