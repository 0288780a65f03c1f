//! The folder of a run's workspace on this machine, which one process at a time has.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forge_domain::RunId;

use super::git::GitError;

/// The time after which a folder that nothing uses is deleted.
const MOST_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The most processes that can have folders for one run: one at work, and frozen ones.
const MOST_SLOTS: usize = 64;

/// The name of the folder that has those of all runs.
const RUNS: &str = "runs";

/// A folder for a run, which no other process has. It is still there for the next slice of the run.
#[derive(Debug)]
pub(super) struct Slot {
    folder: PathBuf,
    /// The lock, which the system gives back when this process ends.
    lock: File,
}

impl Slot {
    /// Takes the first folder for `run` below `root` that no other process has. A process that was frozen
    /// keeps its own, so that it disturbs nobody when it wakes up.
    pub(super) fn take(root: &Path, run: &RunId) -> Result<Self, GitError> {
        let of_run = root.join(RUNS).join(run.to_string());
        let mut folders = std::fs::DirBuilder::new();
        folders.recursive(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt as _;
            folders.mode(0o700);
        }
        for n in 0..MOST_SLOTS {
            let folder = of_run.join(n.to_string());
            folders.create(&folder).map_err(GitError::io(&folder))?;
            if let Some(lock) = lock(&folder)?
                && is_still(&folder, &lock)
            {
                return Ok(Self { folder, lock });
            }
        }
        let source = std::io::Error::other("other processes have all of the folders of the run");
        Err(GitError::Io { path: of_run, source })
    }

    /// Returns the path of something in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Notes that the files are those of `commit`, with what is `known` of them.
    pub(super) fn leave(&self, commit: &str, known: &[u8]) -> Result<(), GitError> {
        let (path, text) = (self.path(LEFT), [commit.as_bytes(), b"\n", known].concat());
        std::fs::write(&path, text).map_err(GitError::io(&path))
    }

    /// Takes the note that the last slice left, which does not hold any more then.
    pub(super) fn take_left(&self) -> Option<(String, Vec<u8>)> {
        let path = self.path(LEFT);
        let text = std::fs::read(&path).ok()?;
        std::fs::remove_file(&path).ok()?;
        let at = text.iter().position(|byte| *byte == b'\n')?;
        Some((String::from_utf8_lossy(&text[..at]).into_owned(), text[at + 1..].to_vec()))
    }

    /// Deletes what is in the folder.
    pub(super) fn clear(&self) -> Result<(), GitError> {
        for entry in std::fs::read_dir(&self.folder).map_err(GitError::io(&self.folder))? {
            let entry = entry.map_err(GitError::io(&self.folder))?;
            if entry.file_name() != LOCK {
                delete(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Deletes the folder, and that of the run if no other process has one.
    pub(super) fn delete(&self) -> Result<(), GitError> {
        self.clear()?;
        delete(&self.folder)?;
        if let Some(of_run) = self.folder.parent() {
            // Another process may have a folder there.
            drop(std::fs::remove_dir(of_run));
        }
        Ok(())
    }
}

/// The name of the lock in a folder.
const LOCK: &str = ".lock";

/// The name of the note about the files in a folder.
const LEFT: &str = ".left";

/// Checks whether the lock is that of the folder, and not of one that was deleted in the meantime.
fn is_still(folder: &Path, lock: &File) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        let (locked, there) = (lock.metadata(), std::fs::metadata(folder.join(LOCK)));
        matches!((locked, there), (Ok(locked), Ok(there)) if locked.ino() == there.ino() && locked.dev() == there.dev())
    }
    #[cfg(not(unix))]
    {
        let _ = (folder, lock);
        true
    }
}

/// Locks the folder; `None` if another process has it.
fn lock(folder: &Path) -> Result<Option<File>, GitError> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(GitError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(source)) => Err(GitError::Io { path, source }),
    }
}

/// Deletes a file, or a folder with all that is in it, also where its owner may not write.
pub(super) fn delete(path: &Path) -> Result<(), GitError> {
    let remove = |path: &Path| match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match remove(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            open_folders(path);
            remove(path).map_err(GitError::io(path))
        }
        Err(source) => Err(GitError::Io { path: path.to_owned(), source }),
    }
}

/// Lets the owner write in the folder and all folders in it, as a build may have forbidden it.
fn open_folders(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let is_folder = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
        if is_folder && std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).is_ok() {
            for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
                open_folders(&entry.path());
            }
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Deletes folders below `root` of runs that were continued elsewhere: those that nothing has used for a
/// week. Their files are in the repository.
pub fn sweep_workspaces(root: &Path) {
    let is_old = |path: &Path| {
        let used = std::fs::metadata(path.join(LOCK)).and_then(|found| found.modified()).ok();
        used.and_then(|used| SystemTime::now().duration_since(used).ok()).is_some_and(|age| age > MOST_AGE)
    };
    for of_run in folders_in(&root.join(RUNS)) {
        for folder in folders_in(&of_run).into_iter().filter(|folder| is_old(folder)) {
            if let Ok(Some(lock)) = lock(&folder)
                && let Err(error) = (Slot { folder, lock }).delete()
            {
                tracing::debug!(%error, "an old workspace stays");
            }
        }
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

impl Drop for Slot {
    fn drop(&mut self) {
        // The time of the last use, by which old folders are known.
        drop(self.lock.set_modified(SystemTime::now()));
        // Closing the file is not enough: a child that was just started has it open until its program begins.
        drop(self.lock.unlock());
    }
}
