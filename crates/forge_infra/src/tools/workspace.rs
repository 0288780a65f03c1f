//! The folder that tools may touch, and the way a path of the model's becomes a path in it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata};

use super::failure::ToolFailure;

/// One folder, open. The kernel, or cap-std in its stead, resolves each path below it and refuses one that leaves.
#[derive(Debug)]
pub(super) struct Workspace {
    dir: Dir,
    /// The root by its given and its real path: models know one or the other from what they were told.
    roots: [PathBuf; 2],
    /// Held while a file is changed, so that of two calls at once the later sees what the earlier wrote.
    writing: Mutex<()>,
}

impl Workspace {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let real = std::fs::canonicalize(root)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self { dir, roots: [std::path::absolute(root)?, real], writing: Mutex::new(()) })
    }

    /// The folder itself.
    pub(super) const fn dir(&self) -> &Dir {
        &self.dir
    }

    /// `path` relative to the root: an absolute path below the root loses that beginning, any other stays as it is.
    pub(super) fn relative<'path>(&self, path: &'path str) -> &'path Path {
        let path = Path::new(path);
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
    }

    /// The right to change files, until it is dropped.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file that a model calls `path`.
    pub(super) fn open_file(&self, path: &str) -> Result<(File, Metadata), ToolFailure> {
        let relative = self.relative(path);
        let failed = |source| ToolFailure::io(path, source);
        let found = self.dir.metadata(relative).map_err(failed)?;
        if found.is_dir() {
            return Err(ToolFailure::Directory { path: path.to_owned() });
        }
        if !found.is_file() {
            // To open a named pipe would wait for whoever writes to it.
            return Err(ToolFailure::Special { path: path.to_owned() });
        }
        Ok((self.dir.open(relative).map_err(failed)?, found))
    }
}
