//! Postgres's errors in the words of the port.

use std::fmt;

use forge_domain::{StoreCause, StoreError};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// The store as errors name it: without the password.
#[derive(Clone)]
pub(super) struct Place(pub(super) String);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Place {
    /// The result with its error told of this place.
    pub(super) fn on<T>(&self, result: Result<T, Error>) -> Result<T, StoreError> {
        result.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: Error) -> StoreError {
        let place = self.0.clone();
        match error.code() {
            Some(code) if *code == SqlState::DISK_FULL => StoreError::Full { place, source: said(error) },
            Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { place },
            Some(code) if [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) => {
                StoreError::Locked { place }
            }
            Some(code) if [SqlState::DATA_CORRUPTED, SqlState::INDEX_CORRUPTED].contains(code) => {
                StoreError::Corrupt { place, what: said(error).to_string() }
            }
            _ => StoreError::Unavailable { place, source: said(error) },
        }
    }

    pub(super) fn unavailable(&self, source: impl Into<StoreCause>) -> StoreError {
        StoreError::Unavailable { place: self.0.clone(), source: source.into() }
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        StoreError::Corrupt { place: self.0.clone(), what: what.into() }
    }

    pub(super) fn no_such(&self, what: impl Into<String>) -> StoreError {
        StoreError::NotFound { place: self.0.clone(), what: what.into() }
    }
}

/// The error with what the server says in it: the driver's own text is "db error".
fn said(error: Error) -> StoreCause {
    match error.as_db_error() {
        Some(said) => said.message().to_owned().into(),
        None => match std::error::Error::source(&error).map(ToString::to_string) {
            Some(cause) => format!("{error}: {cause}").into(),
            None => error.into(),
        },
    }
}
