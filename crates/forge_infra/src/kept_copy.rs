//! The copy of a file's content from before it is replaced.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::whole_file::{folder_of, write_beside};

/// The most copies of one file.
const MOST_COPIES: usize = 1_000;

/// Writes `bytes` beside `path`, whole or not at all, as `NAME.bak`, or as `NAME.bak.1`, `NAME.bak.2`, … if
/// that exists: no file is ever overwritten. The copy has the permissions of the file at `path`. Returns the
/// copy's path.
///
/// # Errors
/// Fails with [`io::Error`] if the folder or the disk refuses, or if a thousand copies exist.
pub fn keep_copy(path: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let mut file = write_beside(folder_of(path), &[bytes], fs::metadata(path).ok().as_ref())?;
    for n in 0..MOST_COPIES {
        let copy = numbered_path(path, n);
        file = match file.persist_noclobber(&copy) {
            Ok(_) => return Ok(copy),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => refused.file,
            Err(refused) => return Err(refused.error),
        };
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("there are {MOST_COPIES} copies already")))
}

fn numbered_path(path: &Path, n: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".bak");
    if n > 0 {
        name.push(format!(".{n}"));
    }
    name.into()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn no_copy_is_ever_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.yaml");
        fs::write(&path, "now").unwrap();
        for (text, expected) in [("one", "a.yaml.bak"), ("two", "a.yaml.bak.1"), ("three", "a.yaml.bak.2")] {
            let copy = keep_copy(&path, text.as_bytes()).unwrap();
            assert_eq!(copy, folder.path().join(expected));
        }
        let texts: Vec<_> = ["a.yaml", "a.yaml.bak", "a.yaml.bak.1", "a.yaml.bak.2"]
            .map(|name| fs::read_to_string(folder.path().join(name)).unwrap())
            .into();
        assert_eq!(texts, ["now", "one", "two", "three"]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
    }
}
