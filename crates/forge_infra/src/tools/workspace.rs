//! The folder that tools may touch, and the way a path of the model's becomes a path in it.

use std::borrow::Cow;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};

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

    /// The folder's real path, for commands that run in it.
    pub(super) fn root(&self) -> &Path {
        &self.roots[1]
    }

    /// What `path` names, as rules know it, with `/` between names: as it was given, and by where links lead.
    pub(super) fn names_of(&self, path: &str) -> Vec<String> {
        let relative = self.relative(path);
        let mut names = vec![plain(relative)];
        names.extend(self.real(relative).map(|real| plain(&real)).filter(|real| *real != names[0]));
        names
    }

    /// Where `path` leads; what is not there yet will be in the folder that its folder leads to.
    fn real(&self, path: &Path) -> Option<PathBuf> {
        match self.dir.canonicalize(path) {
            Ok(real) => Some(real),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = self.real(folder.unwrap_or(Path::new(".")))?;
                Some(folder.join(path.file_name()?))
            }
            Err(_) => None,
        }
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
            return Err(ToolFailure::Special { path: path.to_owned() });
        }
        Ok((open_regular(&self.dir, relative).map_err(failed)?, found))
    }
}

/// Opens the regular file `path` below `dir` for reading.
///
/// # Errors
/// Also if it is no regular file. That is checked after opening, so a named pipe that takes the file's place in that moment
/// does not block the caller: it is opened without waiting for a writer.
pub(super) fn open_regular(dir: &Dir, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        options
            .custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits().cast_signed());
    }
    let file = dir.open_with(path, &options)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// A path without detours, with `/` between its names; `.` for the root.
fn plain(path: &Path) -> String {
    let mut names: Vec<Cow<'_, str>> = Vec::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if names.last().is_some_and(|last| last != "..") => {
                names.pop();
            }
            part => names.push(part.as_os_str().to_string_lossy()),
        }
    }
    if names.is_empty() { ".".to_owned() } else { names.join("/") }
}
