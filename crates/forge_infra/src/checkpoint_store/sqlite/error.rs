//! The conversion of SQLite's errors to those of the port.

use std::fmt;

use forge_domain::StoreError;
use rusqlite::ffi::SQLITE_IOERR_SHMSIZE;
use rusqlite::{Error, ErrorCode};

/// The store's name for errors.
#[derive(Clone)]
pub(super) struct StoreFileName(pub(super) String);

impl fmt::Display for StoreFileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StoreFileName {
    /// Converts the error of `result` to one that names this store.
    pub(super) fn on<T>(&self, result: Result<T, Error>) -> Result<T, StoreError> {
        result.map_err(|error| self.failure(error))
    }

    fn failure(&self, error: Error) -> StoreError {
        let place = self.0.clone();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => StoreError::Full { place, source: error.into() },
            // The index that processes share did not fit on the disk.
            Some(_)
                if error.sqlite_error().is_some_and(|error| error.extended_code == SQLITE_IOERR_SHMSIZE) =>
            {
                StoreError::Full { place, source: error.into() }
            }
            Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { place },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { place },
            Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt { place, what: error.to_string() },
            Some(ErrorCode::NotADatabase) => StoreError::NotAStore { place },
            _ => StoreError::Unavailable { place, source: error.into() },
        }
    }

    pub(super) fn corrupt(&self, what: impl Into<String>) -> StoreError {
        StoreError::Corrupt { place: self.0.clone(), what: what.into() }
    }

    pub(super) fn no_such(&self, what: impl Into<String>) -> StoreError {
        StoreError::NotFound { place: self.0.clone(), what: what.into() }
    }

    pub(super) fn unwritable(&self, error: serde_json::Error) -> StoreError {
        StoreError::Unavailable { place: self.0.clone(), source: error.into() }
    }

    /// Returns this place, with the reason why read-only access is not enough.
    pub(super) fn migration_needed(&self, version: u32) -> String {
        format!("{self} (of schema {version}, which must be migrated first)")
    }
}
