//! The owners of files and folders.

use std::fs::Metadata;

/// Checks whether a file or folder belongs to the user of this process; `None` if this system has no owners
/// that Forge could compare.
#[cfg(unix)]
pub fn is_of_user(metadata: &Metadata) -> Option<bool> {
    use std::os::unix::fs::MetadataExt as _;
    Some(metadata.uid() == rustix::process::geteuid().as_raw())
}

/// Returns `None`: this system has no owners that Forge could compare.
#[cfg(not(unix))]
pub fn is_of_user(_: &Metadata) -> Option<bool> {
    None
}
