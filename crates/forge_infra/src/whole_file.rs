//! Files that are written whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

/// Replaces the file at `path` by `bytes`, whole or not at all.
///
/// A new file is written beside the old one and then replaces it. The file keeps its permissions; a new one
/// is readable by its owner alone. If the path is a symbolic link, its target is replaced and the link stays.
/// Something other than a file, such as a terminal or a pipe, cannot be replaced and is written to. A
/// dangling link is refused.
///
/// # Errors
/// Fails with [`io::Error`] if the folder or the disk refuses; the old file is unchanged then.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_pieces(path, &[bytes])
}

/// Returns the system's error without the name of the file beside the one that was asked for.
fn of_the_system(error: io::Error) -> io::Error {
    let source = error.get_ref().and_then(|inner| inner.source()?.downcast_ref::<io::Error>());
    source.and_then(io::Error::raw_os_error).map_or(error, io::Error::from_raw_os_error)
}

/// Replaces the file at `path` by `pieces`, one after the other, as [`write_whole`] does.
///
/// # Errors
/// As [`write_whole`].
pub fn write_pieces(path: &Path, pieces: &[&[u8]]) -> io::Result<()> {
    let (path, permissions) = match fs::metadata(path) {
        // Asked before the path is made plain: a pipe has none, though `/dev/stdout` leads to it.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => return fs::write(path, pieces.concat()),
        Ok(metadata) => (fs::canonicalize(path)?, Some(metadata.permissions())),
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
    let mut file = NamedTempFile::new_in(folder).map_err(of_the_system)?;
    for piece in pieces {
        file.write_all(piece)?;
    }
    if let Some(permissions) = permissions {
        file.as_file().set_permissions(permissions)?;
    }
    file.as_file().sync_all()?;
    file.persist(&path).map_err(|refused| refused.error)?;
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
