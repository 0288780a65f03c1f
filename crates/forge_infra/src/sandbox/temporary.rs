//! The folder for the temporary files of a run's commands.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::owner::is_of_user;

/// The beginning of the folders' names.
const PREFIX: &str = "forge-run-";
/// The age from which a folder that no run holds is removed: a younger one may belong to a run that begins.
const LEAST_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A folder that only the user can enter. Dropping it removes it.
pub(super) struct TemporaryFolder {
    folder: TempDir,
    /// Its lock, by which other runs see that it is used.
    _lock: Option<File>,
}

impl TemporaryFolder {
    /// Creates a folder, and removes those of runs that were killed.
    pub(super) fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> io::Result<Self> {
        remove_abandoned(parent);
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            builder.permissions(fs::Permissions::from_mode(0o700));
        }
        let folder = builder.tempdir_in(parent).map_err(|error| {
            let text = error.to_string();
            let why = text.split_once(" at path ").map_or(text.as_str(), |(why, _)| why);
            let what = format!(
                "no temporary folder can be created in {}: {why}; create that folder, or set TMPDIR to another",
                parent.display()
            );
            io::Error::new(error.kind(), what)
        })?;
        let lock = File::open(folder.path()).ok().filter(|lock| lock.try_lock().is_ok());
        Ok(Self { folder, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of killed runs in `parent`.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_named = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        if is_named && is_abandoned(&entry.path()) {
            // One that cannot be removed stays where it is.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Checks whether a folder is the user's own, is old, and is held by no run.
fn is_abandoned(folder: &Path) -> bool {
    let Ok(metadata) = fs::symlink_metadata(folder) else { return false };
    let age = metadata.modified().ok().and_then(|changed| changed.elapsed().ok());
    metadata.is_dir()
        && is_of_user(&metadata) == Some(true)
        && age.is_some_and(|age| age > LEAST_AGE)
        && File::open(folder).is_ok_and(|lock| lock.try_lock().is_ok())
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::SystemTime;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_missing_parent_is_named_with_its_variable() {
        let error = TemporaryFolder::within(Path::new("/no/such")).err().unwrap().to_string();
        assert!(error.contains("in /no/such: ") && error.contains("TMPDIR"), "{error}");
    }

    #[test]
    fn a_folder_is_for_its_user_alone() {
        let folder = TemporaryFolder::new().unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn folders_of_killed_runs_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let path = parent.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("file"), "x").unwrap();
            let folder = File::open(path).unwrap();
            folder.set_modified(SystemTime::UNIX_EPOCH + age).unwrap();
            folder
        };
        let now = fs::metadata(parent.path()).unwrap().modified().unwrap();
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        drop(make("forge-run-killed", now - LEAST_AGE * 2));
        drop(make("forge-run-new", now));
        drop(make("other", now - LEAST_AGE * 2));
        let held = make("forge-run-held", now - LEAST_AGE * 2);
        held.lock().unwrap();
        std::os::unix::fs::symlink("other", parent.path().join("forge-run-link")).unwrap();
        remove_abandoned(parent.path());
        let mut left: Vec<String> = fs::read_dir(parent.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["forge-run-held", "forge-run-link", "forge-run-new", "other"]);
    }
}
