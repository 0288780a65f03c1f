//! The file of a store, as long as it is open.

use std::path::{Path, PathBuf};

use forge_domain::StoreError;

use super::error::StoreFileName;

/// The file that was opened. SQLite writes on into one that was removed, and tells no one.
pub(super) struct OpenedFile {
    path: PathBuf,
    identity: Option<(u64, u64)>,
}

impl OpenedFile {
    /// Returns the file at `path`, which was just opened.
    pub(super) fn at(path: &Path) -> Self {
        // The working folder may be another one later.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { identity: identity(&path), path }
    }

    /// Checks that it is still in its place.
    ///
    /// # Errors
    /// [`StoreError::Removed`] if it is not.
    pub(super) fn check(&self, place: &StoreFileName) -> Result<(), StoreError> {
        if identity(&self.path) == self.identity {
            return Ok(());
        }
        Err(StoreError::Removed { place: place.0.clone() })
    }
}

/// Returns the numbers that tell a file from all others; `None` if there is no file.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// Returns nothing: on this system, a file that is open cannot be removed.
#[cfg(not(unix))]
fn identity(_: &Path) -> Option<(u64, u64)> {
    None
}
