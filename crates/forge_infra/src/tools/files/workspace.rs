//! The folder that tools may touch, and the conversion of a model's path to a path in it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, OpenOptions};
use cap_std::time::SystemTime;
use forge_domain::{EditorFiles, is_hidden};
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::Handle;

use crate::tools::failure::ToolFailure;

/// The largest file that is changed.
const MAX_CHANGED_BYTES: u64 = 8 * 1_024 * 1_024;

/// One open folder. The kernel, or cap-std in its place, resolves each path below it and refuses one that
/// leaves.
pub(in crate::tools) struct Workspace {
    dir: Dir,
    /// The root by its given and its real path: models know either.
    roots: [PathBuf; 2],
    /// A lock that is held while a file is changed, so that the later of two simultaneous calls sees what the
    /// earlier wrote.
    writing: Mutex<()>,
    /// The editor that has some of the files open.
    editor: OnceLock<Arc<dyn EditorFiles>>,
    /// The state in which the model knows each file, by its real path.
    known: Mutex<HashMap<PathBuf, Stamp>>,
}

/// The state of a file: when it was changed last, and its size. A change that leaves both is not noticed.
type Stamp = (Option<SystemTime>, u64);

fn stamp(metadata: &Metadata) -> Stamp {
    (metadata.modified().ok(), metadata.len())
}

impl Workspace {
    pub(in crate::tools) fn open(root: &Path) -> io::Result<Self> {
        let real = std::fs::canonicalize(root)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority())?;
        Ok(Self {
            dir,
            roots: [std::path::absolute(root)?, real],
            writing: Mutex::new(()),
            editor: OnceLock::new(),
            known: Mutex::default(),
        })
    }

    /// Uses the files of an editor; only the first one counts.
    pub(in crate::tools) fn edit_in(&self, editor: Arc<dyn EditorFiles>) {
        drop(self.editor.set(editor));
    }

    /// Returns the text of an existing file as the editor shows it; `None` if only the disk has it. It
    /// blocks.
    pub(super) fn unsaved_text(&self, path: &str) -> Option<String> {
        let editor = self.editor.get()?;
        let path = self.roots[1].join(self.real(self.relative(path))?);
        Handle::try_current().ok()?.block_on(editor.read(&path))
    }

    /// Has the editor write the file at `path`, which is relative to the root and resolved; `None` if it is
    /// to be written to the disk. It blocks.
    pub(super) fn write_in_editor(&self, path: &Path, text: &str) -> Option<Result<(), String>> {
        let editor = self.editor.get()?;
        let path = self.roots[1].join(path);
        Handle::try_current().ok()?.block_on(editor.write(&path, text))
    }

    /// Returns the folder itself.
    pub(super) const fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Returns `path` relative to the root: an absolute path below the root loses that beginning, any other
    /// stays as it is.
    pub(super) fn relative<'path>(&self, path: &'path str) -> &'path Path {
        let path = Path::new(path);
        let relative = self.roots.iter().find_map(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
    }

    /// Returns the folder's real path, for commands that run in it.
    pub(in crate::tools) fn root(&self) -> &Path {
        &self.roots[1]
    }

    /// Returns the names of `path` for the rules, with `/` between names: as given, and after resolving
    /// links.
    pub(super) fn names_of(&self, path: &str) -> Vec<String> {
        let relative = self.relative(path);
        let mut names = vec![plain(relative)];
        names.extend(self.real(relative).map(|real| plain(&real)).filter(|real| *real != names[0]));
        names
    }

    /// Resolves `path`; a missing file is located in its resolved folder.
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

    /// Notes that the model knows a file in the state of `metadata`.
    pub(super) fn note_known(&self, path: &str, metadata: &Metadata) {
        if let Some(real) = self.real(self.relative(path)) {
            self.known.lock().insert(real, stamp(metadata));
        }
    }

    /// Notes that the model knows a file in the state that it has now.
    pub(super) fn note_known_now(&self, path: &str) {
        if let Ok(metadata) = self.dir.metadata(self.relative(path)) {
            self.note_known(path, &metadata);
        }
    }

    /// Checks whether a file has changed since the model knew it; one that it never knew has not. An editor
    /// saves its files when it likes, and has the model's changes itself.
    pub(super) fn has_changed(&self, path: &str) -> bool {
        if self.editor.get().is_some() {
            return false;
        }
        let relative = self.relative(path);
        let known = self.real(relative).and_then(|real| self.known.lock().get(&real).copied());
        let now = || self.dir.metadata(relative).ok().map(|metadata| stamp(&metadata));
        known.is_some_and(|known| now().is_some_and(|now| now != known))
    }

    /// Acquires the right to change files, until it is dropped.
    pub(super) fn writing(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
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

    /// Returns the text of a file that is small enough to be changed.
    pub(super) fn text(&self, path: &str) -> Result<String, ToolFailure> {
        let (file, found) = self.open_file(path)?;
        if let Some(text) = self.unsaved_text(path) {
            return Ok(text);
        }
        if found.len() > MAX_CHANGED_BYTES {
            return Err(ToolFailure::TooLarge { path: path.to_owned(), n_bytes: found.len() });
        }
        let mut bytes = Vec::new();
        file.take(MAX_CHANGED_BYTES)
            .read_to_end(&mut bytes)
            .map_err(|source| ToolFailure::io(path, source))?;
        String::from_utf8(bytes)
            .map_err(|_| ToolFailure::Binary { path: path.to_owned(), n_bytes: found.len() })
    }
}

/// Opens the regular file `path` below `dir` for reading.
///
/// # Errors
/// Fails also if it is not a regular file. That is checked after opening, so a named pipe that replaces the
/// file in that moment does not block the caller: it is opened without waiting for a writer.
pub(super) fn open_regular(dir: &Dir, path: &Path) -> io::Result<File> {
    open(dir, path, Links::Followed)
}

/// Opens `name` in `dir`, which was not a link when the rules were checked; if it has become one, it is not
/// followed.
pub(crate) fn open_entry(dir: &Dir, name: &OsStr) -> io::Result<File> {
    open(dir, Path::new(name), Links::Refused)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Followed,
    Refused,
}

fn open(dir: &Dir, path: &Path, links: Links) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use cap_std::fs::OpenOptionsExt;
        use rustix::fs::OFlags;
        let follow = if links == Links::Followed { OFlags::empty() } else { OFlags::NOFOLLOW };
        options.custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY | follow).bits().cast_signed());
    }
    #[cfg(not(unix))]
    if links == Links::Refused && dir.symlink_metadata(path)?.is_symlink() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a link"));
    }
    let file = dir.open_with(path, &options)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"))
}

/// Returns the name of a file or folder for display: as it is, or in quotes with escapes if it holds more
/// than plain text. A name with a line end would pass for several lines, or for a note of the tool's.
pub(super) fn display(path: &Path) -> Cow<'_, str> {
    let is_plain = |c: char| !is_hidden(c);
    // A name in brackets with a blank in it looks like a note; others in brackets are usual.
    let is_like_note = |text: &str| text.starts_with('[') && text.ends_with(']') && text.contains(' ');
    match path.to_str() {
        Some(text) if text.chars().all(is_plain) && !text.starts_with('"') && !is_like_note(text) => {
            Cow::Borrowed(text)
        }
        Some(text) => {
            let escaped = text.chars().map(|c| match c {
                '"' | '\\' => format!("\\{c}"),
                c if is_plain(c) => c.to_string(),
                c => c.escape_default().to_string(),
            });
            Cow::Owned(format!("\"{}\"", escaped.collect::<String>()))
        }
        // Not Unicode: invalid bytes are shown by their numbers.
        None => {
            let bytes = path.as_os_str().as_encoded_bytes();
            let escaped = bytes.utf8_chunks().map(|chunk| {
                let valid = chunk.valid().escape_debug();
                let invalid: String = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")).collect();
                format!("{valid}{invalid}")
            });
            Cow::Owned(format!("\"{}\"", escaped.collect::<String>()))
        }
    }
}

/// Returns a path without detours, with `/` between its names; `.` for the root.
pub(super) fn plain(path: &Path) -> String {
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
