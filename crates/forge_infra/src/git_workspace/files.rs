//! The files of a workspace: the changes since the last pin, as the input of `git fast-import`, and the files
//! of a pin, written into the folder. All of it goes through one handle of the folder, which leads nowhere
//! else, whatever links the agent makes.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Read as _, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use serde::{Deserialize, Serialize};

use super::git::GitError;
use super::leftovers::{Fault, Leftovers, MOST_BYTES};
use crate::tools::{Step, WalkEnd, open_entry, walk_repository};

/// A time between two changes of a file that its stamps certainly tell apart.
const APART: Duration = Duration::from_millis(100);
/// The age that restored files are given, so that a change right after is told apart.
const AGE: Duration = Duration::from_secs(2);

/// The kind of an entry of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    File,
    Program,
    Link,
    /// A submodule: its folder stays empty.
    Module,
}

impl Kind {
    /// Returns the kind of the mode in a tree.
    pub(super) fn of_mode(mode: &str) -> Option<Self> {
        match mode {
            "100644" | "100664" => Some(Self::File),
            "100755" => Some(Self::Program),
            "120000" => Some(Self::Link),
            "160000" => Some(Self::Module),
            _ => None,
        }
    }

    const fn mode(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Program => "100755",
            Self::Link => "120000",
            Self::Module => "160000",
        }
    }

    fn of(found: &Metadata) -> Option<Self> {
        if found.is_symlink() {
            return Some(Self::Link);
        }
        #[cfg(unix)]
        let is_program = {
            use cap_std::fs::MetadataExt as _;
            found.mode() & 0o100 != 0
        };
        #[cfg(not(unix))]
        let is_program = false;
        found.is_file().then_some(if is_program { Self::Program } else { Self::File })
    }
}

/// The traces by which a file is known to be as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Stamp {
    kind: Kind,
    bytes: u64,
    /// The time of the last change, in nanoseconds.
    changed: u128,
    /// The number of the file, and the time of its last change of any kind, where the system has them.
    node: (u64, i64, i64),
    /// False if it may have been changed again within the same moment.
    is_sure: bool,
}

impl Stamp {
    fn of(found: &Metadata) -> Option<Self> {
        let changed = found.modified().map_or(SystemTime::UNIX_EPOCH, cap_std::time::SystemTime::into_std);
        let nanos = changed.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        #[cfg(unix)]
        let node = {
            use cap_std::fs::MetadataExt as _;
            (found.ino(), found.ctime(), found.ctime_nsec())
        };
        #[cfg(not(unix))]
        let node = (0, 0, 0);
        let age = SystemTime::now().duration_since(changed).unwrap_or_default();
        Some(Self { kind: Kind::of(found)?, bytes: found.len(), changed: nanos, node, is_sure: age > APART })
    }
}

/// The files of a workspace as they were at the last pin.
pub(super) struct Files {
    root: Dir,
    stamps: BTreeMap<PathBuf, Stamp>,
    /// The paths that a commit has: they travel although git may ignore them.
    tracked: BTreeSet<PathBuf>,
}

/// The state of a changed file in the next pin.
enum Now {
    There(Vec<u8>),
    Gone,
    /// That of the last pin, if it had one.
    AsBefore,
}

/// The changes since the last pin.
pub(super) struct Changes {
    /// The number of files that were written or removed.
    pub(super) n: usize,
    stamps: BTreeMap<PathBuf, Stamp>,
}

impl Files {
    /// Opens the folder, of which nothing is known.
    pub(super) fn open(folder: &Path) -> Result<Self, GitError> {
        let root = Dir::open_ambient_dir(folder, ambient_authority()).map_err(GitError::io(folder))?;
        Ok(Self { root, stamps: BTreeMap::new(), tracked: BTreeSet::new() })
    }

    /// Returns the handle of the folder.
    pub(super) const fn root(&self) -> &Dir {
        &self.root
    }

    /// Knows the files from what [`Self::known`] returned.
    pub(super) fn know(&mut self, known: &[u8]) -> bool {
        let stamps: Option<Vec<(Vec<u8>, Stamp)>> = serde_json::from_slice(known).ok();
        let is_known = stamps.is_some();
        self.stamps = stamps.into_iter().flatten().map(|(path, stamp)| (path_of(&path), stamp)).collect();
        is_known
    }

    /// Returns what is known of the files, for another process.
    pub(super) fn known(&self) -> Vec<u8> {
        let stamps: Vec<_> = self.stamps.iter().map(|(path, stamp)| (bytes_of(path), stamp)).collect();
        serde_json::to_vec(&stamps).unwrap_or_default()
    }

    /// Adds paths that a commit has.
    pub(super) fn track(&mut self, paths: impl IntoIterator<Item = PathBuf>) {
        self.tracked.extend(paths);
    }

    /// Writes what has changed as commands of `git fast-import`. What does not travel is told to `leftovers`.
    pub(super) fn write_changes(
        &self,
        leftovers: &mut Leftovers,
        to: &mut impl Write,
    ) -> Result<Changes, GitError> {
        let mut seen = self.seen()?;
        let mut changed = Vec::new();
        for (path, found) in &seen {
            if self.stamps.get(path).is_none_or(|known| known != found || !known.is_sure) {
                changed.push(path.clone());
            }
        }
        let io = |source| GitError::Io { path: PathBuf::from("the changes of the workspace"), source };
        let mut n = 0;
        for path in self.stamps.keys().filter(|path| !seen.contains_key(*path)) {
            write_removal(to, path).map_err(io)?;
            n += 1;
        }
        for path in changed {
            let known = self.stamps.get(&path);
            match self.now(&path, seen[&path], leftovers) {
                Now::There(content) => {
                    write_file(to, &path, seen[&path].kind, &content).map_err(io)?;
                    n += 1;
                }
                Now::Gone => {
                    seen.remove(&path);
                    if known.is_some() {
                        write_removal(to, &path).map_err(io)?;
                        n += 1;
                    }
                }
                Now::AsBefore => match known {
                    Some(known) => drop(seen.insert(path, Stamp { is_sure: false, ..*known })),
                    None => drop(seen.remove(&path)),
                },
            }
        }
        Ok(Changes { n, stamps: seen })
    }

    /// Takes the changes for those of the last pin.
    pub(super) fn accept(&mut self, changes: Changes) {
        self.stamps = changes.stamps;
    }

    /// Returns the files that travel, with their stamps.
    fn seen(&self) -> Result<BTreeMap<PathBuf, Stamp>, GitError> {
        let mut seen = BTreeMap::new();
        let ended = walk_repository(&self.root, &mut |visit| {
            if is_of_git(visit.path) || visit.is_ignored {
                return Step::Past;
            }
            if !visit.kind.is_dir()
                && let Some(stamp) = self.root.symlink_metadata(visit.path).ok().as_ref().and_then(Stamp::of)
            {
                seen.insert(visit.path.to_owned(), stamp);
            }
            Step::Into
        });
        if ended.map_err(GitError::io(Path::new("the workspace")))? == WalkEnd::Early {
            return Err(GitError::TooMany);
        }
        for path in self.tracked.iter().chain(self.stamps.keys()) {
            if !seen.contains_key(path)
                && !is_of_git(path)
                && let Some(stamp) = self.root.symlink_metadata(path).ok().as_ref().and_then(Stamp::of)
            {
                seen.insert(path.clone(), stamp);
            }
        }
        Ok(seen)
    }

    /// Returns the state of a changed file in the next pin.
    fn now(&self, path: &Path, found: Stamp, leftovers: &mut Leftovers) -> Now {
        let content = match self.content(path, found) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Now::Gone,
            Err(error) => {
                leftovers.tell_unread(path, &error);
                return Now::AsBefore;
            }
        };
        if found.kind == Kind::Link {
            return Now::There(content.unwrap_or_default());
        }
        match leftovers.fault(path, content.as_deref()) {
            None => Now::There(content.unwrap_or_default()),
            Some(Fault::Secret(_)) => Now::Gone,
            Some(Fault::Large) => Now::AsBefore,
        }
    }

    /// Reads a file, or the target of a link; `None` if it has more bytes than travel.
    fn content(&self, path: &Path, found: Stamp) -> io::Result<Option<Vec<u8>>> {
        if found.bytes > MOST_BYTES {
            return Ok(None);
        }
        if found.kind == Kind::Link {
            return self.root.read_link_contents(path).map(|target| Some(bytes_of(&target)));
        }
        let (dir, name) = self.parent(path)?;
        let file = open_entry(dir.as_ref().unwrap_or(&self.root), name)?;
        let mut content = Vec::new();
        file.take(MOST_BYTES + 1).read_to_end(&mut content)?;
        Ok((content.len() as u64 <= MOST_BYTES).then_some(content))
    }

    fn parent<'p>(&self, path: &'p Path) -> io::Result<(Option<Dir>, &'p OsStr)> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((folder.map(|folder| self.root.open_dir(folder)).transpose()?, name))
    }

    /// Writes an entry of a tree into the folder, in place of whatever is there.
    pub(super) fn put(&mut self, path: &Path, kind: Kind, content: &[u8]) -> io::Result<()> {
        let is_plain = path.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || is_of_git(path) || path.as_os_str().is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no path of a workspace"));
        }
        let mut folder = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            match self.root.symlink_metadata(&folder) {
                Ok(found) if found.is_dir() => {}
                found => {
                    if found.is_ok() {
                        self.root.remove_file(&folder)?;
                    }
                    self.root.create_dir(&folder)?;
                }
            }
        }
        match self.root.symlink_metadata(path) {
            Ok(found) if found.is_dir() && kind == Kind::Module => return Ok(()),
            Ok(found) if found.is_dir() => self.root.remove_dir_all(path)?,
            Ok(_) => self.root.remove_file(path)?,
            Err(_) => {}
        }
        match kind {
            Kind::Module => return self.root.create_dir(path),
            Kind::Link => self.root.symlink_contents(path_of(content), path)?,
            Kind::File | Kind::Program => self.write(path, kind, content)?,
        }
        let stamp = Stamp::of(&self.root.symlink_metadata(path)?);
        self.stamps.extend(stamp.map(|stamp| (path.to_owned(), stamp)));
        Ok(())
    }

    fn write(&self, path: &Path, kind: Kind, content: &[u8]) -> io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use cap_std::fs::OpenOptionsExt as _;
            options.mode(if kind == Kind::Program { 0o777 } else { 0o666 });
        }
        #[cfg(not(unix))]
        let _ = kind;
        let mut file = self.root.open_with(path, &options)?;
        file.write_all(content)?;
        file.into_std().set_modified(SystemTime::now() - AGE)
    }

    /// Removes all files that git does not ignore and that are none of the last pin.
    pub(super) fn remove_others(&self) -> Result<(), GitError> {
        let folder = Path::new("the workspace");
        for path in self.seen()?.keys().filter(|path| !self.stamps.contains_key(*path)) {
            self.root.remove_file(path).map_err(GitError::io(folder))?;
            // Folders that are empty now go, too, as they do not travel.
            for above in path.ancestors().skip(1).take_while(|above| !above.as_os_str().is_empty()) {
                if self.root.remove_dir(above).is_err() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Checks whether a part of the path is git's own. No tree may have one.
fn is_of_git(path: &Path) -> bool {
    path.iter().any(|part| part.eq_ignore_ascii_case(".git"))
}

fn write_removal(to: &mut impl Write, path: &Path) -> io::Result<()> {
    to.write_all(b"D ")?;
    write_path(to, path)?;
    to.write_all(b"\n")
}

fn write_file(to: &mut impl Write, path: &Path, kind: Kind, content: &[u8]) -> io::Result<()> {
    write!(to, "M {} inline ", kind.mode())?;
    write_path(to, path)?;
    write!(to, "\ndata {}\n", content.len())?;
    to.write_all(content)?;
    to.write_all(b"\n")
}

/// Writes the path as `git fast-import` reads it: in quotes, with strange bytes as octal numbers.
fn write_path(to: &mut impl Write, path: &Path) -> io::Result<()> {
    to.write_all(b"\"")?;
    for byte in bytes_of(path) {
        match byte {
            b'"' | b'\\' => to.write_all(&[b'\\', byte])?,
            b' '..=b'~' => to.write_all(&[byte])?,
            _ => write!(to, "\\{byte:03o}")?,
        }
    }
    to.write_all(b"\"")
}

/// Returns the path of these bytes.
#[cfg(unix)]
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(not(unix))]
pub(super) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}

/// Returns the bytes of the path, as a tree of git has them.
#[cfg(unix)]
fn bytes_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

#[cfg(not(unix))]
fn bytes_of(path: &Path) -> Vec<u8> {
    path.to_string_lossy().replace('\\', "/").into_bytes()
}
