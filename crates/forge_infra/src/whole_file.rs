//! Files that are written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use tempfile::NamedTempFile;

/// Replaces the file at `path` by `bytes`, whole or not at all.
///
/// A new file is written beside the old one and then replaces it. The file keeps its permissions and, as far
/// as the system allows, its owner; a new one is readable by its owner alone. If the path is a symbolic link,
/// its target is replaced and the link stays. Something other than a file, such as a terminal or a pipe,
/// cannot be replaced and is written to. A dangling link is refused.
///
/// # Errors
/// Fails with [`io::Error`] if the folder or the disk refuses; the old file is unchanged then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_if(path, &[bytes], || Ok(true)).map(drop)
}

/// The place of a file that a run writes later, as it was found when this value was made.
///
/// Commands of the run may change what is there in the meantime, such as by a symbolic link that leads to
/// another file of the user. Then nothing is written. A link that was there at first is the user's own: the
/// place is its target.
#[derive(Clone, Debug)]
pub struct FilePlace {
    named: PathBuf,
    /// The folder of the path that was given, without links.
    beside: PathBuf,
    /// The folder of the file, without links. It is another one if the path was a link.
    folder: PathBuf,
    /// The file in that folder.
    file: PathBuf,
}

impl FilePlace {
    /// Looks at `path` and remembers its place.
    pub fn of(path: impl Into<PathBuf>) -> Self {
        let named = path.into();
        let real = match fs::read_link(&named) {
            Ok(_) => fs::canonicalize(&named).unwrap_or_else(|_| named.clone()),
            Err(_) => named.clone(),
        };
        let (beside, folder) =
            (Self::without_links(folder_of(&named)), Self::without_links(folder_of(&real)));
        let file = real.file_name().map_or_else(|| real.clone(), |name| folder.join(name));
        Self { named, beside, folder, file }
    }

    /// Returns a folder's path without links: of what does not exist yet, the part that does.
    fn without_links(folder: &Path) -> PathBuf {
        let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
        let mut plain = PathBuf::new();
        for part in whole.components() {
            match part {
                Component::ParentDir if !plain.exists() => drop(plain.pop()),
                part => plain.push(part),
            }
        }
        let real = plain.ancestors().find_map(|there| Some((there, fs::canonicalize(there).ok()?)));
        let joined = real.and_then(|(there, real)| Some(real.join(plain.strip_prefix(there).ok()?)));
        // The end of nothing is a slash.
        joined.map_or(plain, |joined| joined.components().collect())
    }

    /// Returns the path as it was given.
    pub fn path(&self) -> &Path {
        &self.named
    }

    /// Returns the place of another file in the folder of the path that was given.
    pub(crate) fn beside(&self, name: impl AsRef<Path>) -> Self {
        let (named, folder) = (self.named.with_file_name(name.as_ref()), self.beside.clone());
        Self { named, beside: folder.clone(), file: folder.join(name), folder }
    }

    /// Checks that the file could be written now: its folder exists and takes new files.
    ///
    /// # Errors
    /// As [`FilePlace::write`].
    pub fn probe(&self) -> io::Result<()> {
        self.check()?;
        new_beside(&self.folder).map(drop)
    }

    /// Replaces the file by `bytes`, whole or not at all, as [`write_whole`] does with a file.
    ///
    /// # Errors
    /// As [`write_whole`], and if the folder leads elsewhere by now or something other than a file is there.
    pub fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let old = self.check()?;
        check_size(bytes.len() as u64)?;
        let file = write_beside(&self.folder, &[bytes], old.as_ref())?;
        self.check()?;
        put(file, &self.file, &self.folder)
    }

    /// Checks that the folder is the same and that only a file may be there, and returns its metadata.
    fn check(&self) -> io::Result<Option<fs::Metadata>> {
        if fs::canonicalize(&self.folder)? != self.folder {
            let what = format!("its folder {} was replaced during the run", self.folder.display());
            return Err(io::Error::other(what));
        }
        let what = match fs::symlink_metadata(&self.file) {
            Ok(found) if found.is_file() => return Ok(Some(found)),
            Ok(found) if found.is_symlink() => "a symbolic link is there now, which may lead to another file",
            Ok(found) if found.is_dir() => "a folder is there",
            Ok(_) => "a pipe or a device is there",
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Err(io::Error::other(what))
    }
}

/// Creates the file beside the one that is asked for. Its error names the folder alone.
pub(crate) fn new_beside(folder: &Path) -> io::Result<NamedTempFile> {
    let made = tempfile::Builder::new().prefix(".forge-").suffix(".tmp").tempfile_in(folder);
    made.map_err(|error| {
        let text = error.to_string();
        let what = text.split_once(" at path ").map_or(text.as_str(), |(what, _)| what);
        io::Error::new(error.kind(), what.to_owned())
    })
}

/// Writes `pieces` into a new file in `folder`, one after the other and to the disk. It has the owner and the
/// permissions of `old`, if there is one.
pub(crate) fn write_beside(
    folder: &Path,
    pieces: &[&[u8]],
    old: Option<&fs::Metadata>,
) -> io::Result<NamedTempFile> {
    let mut file = new_beside(folder)?;
    for piece in pieces {
        // Its own writer would name it in an error.
        file.as_file_mut().write_all(piece)?;
    }
    if let Some(old) = old {
        keep_owner(file.as_file(), old);
        file.as_file().set_permissions(old.permissions())?;
    }
    file.as_file().sync_all()?;
    Ok(file)
}

/// Gives `file` to the owner and the group of the one that it replaces, as far as the system allows that:
/// only the administrator can give files away.
#[cfg(unix)]
fn keep_owner(file: &fs::File, old: &fs::Metadata) {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let is_same = |new: fs::Metadata| (new.uid(), new.gid()) == (old.uid(), old.gid());
    if !file.metadata().is_ok_and(is_same) && fchown(file, Some(old.uid()), Some(old.gid())).is_err() {
        let _ = fchown(file, None, Some(old.gid()));
    }
}

#[cfg(not(unix))]
const fn keep_owner(_: &fs::File, _: &fs::Metadata) {}

/// Replaces the file at `path` by `pieces`, one after the other, as [`write_whole`] does, if `is_so` when
/// they are on the disk and nothing but the name has to be moved. Returns whether it was.
///
/// # Errors
/// As [`write_whole`], and that of `is_so`.
pub fn replace_if(
    path: &Path,
    pieces: &[&[u8]],
    is_so: impl FnOnce() -> io::Result<bool>,
) -> io::Result<bool> {
    let (path, old) = match fs::metadata(path) {
        // Asked before the path is made plain: a pipe has none, though `/dev/stdout` leads to it.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => {
            return fs::write(path, pieces.concat()).map(|()| true);
        }
        Ok(metadata) => (fs::canonicalize(path)?, Some(metadata)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => {
                let what = format!("it is a link to {}, which does not exist", target.display());
                return Err(io::Error::new(error.kind(), what));
            }
            Err(_) => (path.to_owned(), None),
        },
        Err(error) => return Err(error),
    };
    check_size(pieces.iter().map(|piece| piece.len() as u64).sum())?;
    let folder = folder_of(&path);
    let file = write_beside(folder, pieces, old.as_ref())?;
    if !is_so()? {
        return Ok(false);
    }
    put(file, &path, folder)?;
    Ok(true)
}

/// Gives a complete file its name in `folder`. A link of that name is replaced and not followed.
fn put(file: NamedTempFile, path: &Path, folder: &Path) -> io::Result<()> {
    file.persist(path).map_err(|refused| refused.error)?;
    // The new name outlives a power cut only once its folder is on the disk too. Not every file system can do
    // that, and the file is complete in either case.
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Checks that the user's limit of file sizes (`ulimit -f`) allows a file of `bytes`: beyond it, the system
/// would end the process, which would leave half a file behind.
#[cfg(unix)]
fn check_size(bytes: u64) -> io::Result<()> {
    use rustix::process::{Resource, getrlimit};
    match getrlimit(Resource::Fsize).current {
        Some(most) if bytes > most => Err(rustix::io::Errno::FBIG.into()),
        _ => Ok(()),
    }
}

#[cfg(not(unix))]
const fn check_size(_: u64) -> io::Result<()> {
    Ok(())
}

/// Returns the folder that contains `path`.
pub(crate) fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

    use super::*;

    #[test]
    fn a_replaced_file_keeps_its_owner_and_its_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only the administrator can try this with another owner.
        let is_given = chown(&path, Some(65_534), Some(65_534)).is_ok();
        let before = fs::metadata(&path).unwrap();
        write_whole(&path, b"new").unwrap();
        let after = fs::metadata(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let facts = |of: &fs::Metadata| (of.uid(), of.gid(), of.mode());
        assert_eq!(facts(&before), facts(&after), "given to another: {is_given}");
    }

    #[test]
    fn a_file_that_is_no_longer_so_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (is_so, expected) in [(false, "old and more"), (true, "new")] {
            fs::write(&path, "old").unwrap();
            let change = || {
                fs::write(&path, "old and more")?;
                Ok(is_so)
            };
            assert_eq!(replace_if(&path, &[b"ne", b"w"], change).unwrap(), is_so);
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_is_put_in_the_place_of_a_file_is_not_written_to() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let [precious, out, gone] = ["precious", "out", "gone"].map(|name| folder.path().join(name));
        fs::create_dir(&out).unwrap();
        fs::write(&precious, "precious").unwrap();
        let place = FilePlace::of(out.join("report"));
        for text in ["one", "two"] {
            place.write(text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(out.join("report")).unwrap(), text);
        }
        fs::remove_file(out.join("report")).unwrap();
        symlink(&precious, out.join("report")).unwrap();
        assert!(place.write(b"three").unwrap_err().to_string().contains("symbolic link"));
        // One that was there before is the user's own.
        FilePlace::of(out.join("report")).write(b"four").unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "four");
        fs::remove_file(out.join("report")).unwrap();
        fs::create_dir(out.join("report")).unwrap();
        assert!(place.write(b"five").unwrap_err().to_string().contains("a folder"));
        fs::remove_dir(out.join("report")).unwrap();
        fs::rename(&out, &gone).unwrap();
        symlink(&gone, &out).unwrap();
        assert!(place.write(b"six").unwrap_err().to_string().contains("was replaced"));
        assert_eq!(fs::read_dir(&gone).unwrap().count(), 0);
    }

    #[test]
    fn an_error_does_not_name_the_file_beside() {
        let error = write_whole(Path::new("/proc/forge"), b"new").unwrap_err();
        assert!(!error.to_string().contains(".forge-") && !error.to_string().contains("tmp"), "{error}");
    }
}
