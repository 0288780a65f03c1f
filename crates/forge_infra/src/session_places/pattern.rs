//! The files below a folder whose paths match a pattern.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use forge_domain::is_star_match;

/// Most files of one place: more than anyone keeps.
const MOST_FILES: usize = 200_000;

/// Returns the files below `root` that match `pattern`: names with slashes between them, in which `*` stands
/// for any text. Folders that cannot be read are reported in `faults`.
pub(super) fn matches_of(root: &Path, pattern: &str, faults: &mut Vec<String>) -> Vec<PathBuf> {
    let mut paths = vec![root.to_owned()];
    for name in pattern.split('/') {
        let mut next = Vec::new();
        for path in &paths {
            if !name.contains('*') {
                next.push(path.join(name));
                continue;
            }
            match entries(path, name, MOST_FILES - next.len().min(MOST_FILES)) {
                Ok(found) => next.extend(found),
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => faults.push(format!("{}: {error}", path.display())),
            }
        }
        paths = next;
    }
    paths.retain(|path| path.exists());
    paths
}

/// Returns the entries of the folder whose names match, at most `most`.
fn entries(folder: &Path, pattern: &str, most: usize) -> std::io::Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    let matching = entries.filter(|entry| is_match(pattern, &entry.file_name()));
    Ok(matching.take(most).map(|entry| entry.path()).collect())
}

/// Checks whether `name` matches `pattern`. A name that is not text does not.
fn is_match(pattern: &str, name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| is_star_match(pattern, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, name, expected) in [
            ("*", "x", true),
            ("*.jsonl", "x.jsonl", true),
            ("*.jsonl", "x.jsonl.zst", false),
            ("rollout-*.jsonl", "rollout-1.jsonl", true),
            ("rollout-*.jsonl", "old-rollout-1.jsonl", false),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXc", false),
            ("chats", "chats", true),
            ("chats", "chats2", false),
        ] {
            assert_eq!(is_match(pattern, OsStr::new(name)), expected, "{pattern} {name}");
        }
    }
}
