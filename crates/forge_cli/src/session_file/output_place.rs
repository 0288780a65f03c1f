//! The place of an output beside a session: never that of the session itself.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use same_file::is_same_file;

use crate::failure::Misconfigured;

/// Rejects the `output` of a `flag` if it is the file that is read.
pub(crate) fn refuse_input(flag: &str, output: &Path, input: &Path) -> Result<(), Misconfigured> {
    if is_same(output, input) {
        let what = format!("{flag} {} is the input, which is never overwritten", output.display());
        return Err(Misconfigured(what));
    }
    Ok(())
}

/// Checks whether both lead to one regular file, by any links; or to one path that does not exist yet.
pub(crate) fn is_same(one: &Path, other: &Path) -> bool {
    let (Ok(first), Ok(second)) = (std::fs::metadata(one), std::fs::metadata(other)) else {
        return place(one) == place(other);
    };
    // A pipe or a device may serve as several, and must not be opened.
    first.is_file()
        && second.is_file()
        && is_same_file(one, other).unwrap_or_else(|_| one.canonicalize().ok() == other.canonicalize().ok())
}

/// Returns the folder and the name of a file that may not exist.
fn place(path: &Path) -> (Option<PathBuf>, Option<&OsStr>) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    (folder.canonicalize().ok(), path.file_name())
}
