//! Files that do not travel: secrets, repositories within the workspace, and what is too large.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use forge_domain::{CommitId, find_secrets, secret_by_name};

use super::WorkspaceNotice;
use super::git::{Git, GitError};

/// The largest file that travels, in bytes: what the usual servers of git accept.
const MOST_BYTES: u64 = 100_000_000;
/// The largest part of a file in which secrets are looked for, in bytes.
const MOST_SEARCHED: u64 = 4 << 20;

/// The files of a workspace that do not travel, each said once.
pub(super) struct Leftovers {
    notice: WorkspaceNotice,
    /// The file in which git is told of them.
    list: PathBuf,
    known: BTreeSet<OsString>,
    has_told_repository: bool,
    unread: Option<String>,
}

impl Leftovers {
    /// Begins with none. `repository` is that of the pins.
    pub(super) fn new(repository: &Path, notice: WorkspaceNotice) -> Self {
        let list = repository.join("info/exclude");
        Self { notice, list, known: BTreeSet::new(), has_told_repository: false, unread: None }
    }

    /// Sorts out those of the `changed` files below `folder` that do not travel. What the repository had
    /// already at `base` always does.
    pub(super) async fn sort_out(
        &mut self,
        changed: Vec<OsString>,
        folder: &Path,
        repository: &Git,
        base: &CommitId,
    ) -> Result<(), GitError> {
        let new: Vec<OsString> = changed.into_iter().filter(|path| !self.known.contains(path)).collect();
        if new.is_empty() {
            return Ok(());
        }
        let place = folder.to_owned();
        let faults = move || -> Vec<(OsString, String)> {
            let faulty = |path: OsString| fault_of(&place, &path).map(|why| (path, why));
            new.into_iter().filter_map(faulty).collect()
        };
        let faults = tokio::task::spawn_blocking(faults).await.unwrap_or_default();
        let mut is_changed = false;
        for (path, why) in faults {
            let shown = path.to_string_lossy().into_owned();
            if repository.succeeds(&["cat-file", "-e", &format!("{base}:{shown}")]).await? {
                continue;
            }
            // It may have been kept when it was another file.
            let name = format!(":(top,literal){}", shown.trim_end_matches('/'));
            let remove = ["rm", "--cached", "-r", "--force", "--quiet", "--ignore-unmatch", "--", &name];
            repository.call(&remove).await?;
            (self.notice)(&format!("{shown} does not travel with the run: {why}"));
            self.known.insert(path);
            is_changed = true;
        }
        if is_changed {
            self.write_list()?;
        }
        Ok(())
    }

    /// Says once that the branches are not kept.
    pub(super) fn tell_repository(&mut self) {
        if !std::mem::replace(&mut self.has_told_repository, true) {
            (self.notice)(
                "the workspace has no git repository of its own any more, or one that leads out of it: its \
                 branches stay those of the last checkpoint",
            );
        }
    }

    /// Says which files cannot be read, if that is news.
    pub(super) fn tell_unread(&mut self, said: &str) {
        if self.unread.as_deref() != Some(said) {
            (self.notice)(&format!("not all files travel with the run: {said}"));
            self.unread = Some(said.to_owned());
        }
    }

    fn write_list(&self) -> Result<(), GitError> {
        let mut text = Vec::new();
        for path in &self.known {
            text.push(b'/');
            for byte in path.as_encoded_bytes() {
                // What a pattern of git would take for something else than itself.
                if b"*?[\\!# ".contains(byte) {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'\n');
        }
        std::fs::write(&self.list, text).map_err(GitError::io(&self.list))
    }
}

/// Returns why the file does not travel; `None` if it does.
fn fault_of(folder: &Path, path: &OsString) -> Option<String> {
    let shown = path.to_string_lossy();
    // So git lists a repository.
    if shown.ends_with('/') {
        return Some("it is a git repository of its own".to_owned());
    }
    if let Some(kind) = secret_by_name(&shown) {
        return Some(format!("it is {kind}"));
    }
    let file = folder.join(path);
    let found = std::fs::symlink_metadata(&file).ok().filter(std::fs::Metadata::is_file)?;
    if found.len() > MOST_BYTES {
        return Some(format!("it has more than {} MB", MOST_BYTES / 1_000_000));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(&file).ok()?.take(MOST_SEARCHED).read_to_end(&mut bytes).ok()?;
    if bytes.contains(&0) {
        return None;
    }
    let secret = find_secrets(&String::from_utf8_lossy(&bytes)).into_iter().next()?;
    Some(format!("line {} has {}", secret.first_line, secret.kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_travel_is_said_with_its_reason() {
        let folder = tempfile::tempdir().unwrap();
        let key = format!("AKIA{}", "Z7Q2M4X5K3P6W3T6");
        let huge = std::fs::File::create(folder.path().join("huge")).unwrap();
        huge.set_len(MOST_BYTES + 1).unwrap();
        for (name, text, why) in [
            (".env", "A=1\n", Some("it is")),
            ("notes.txt", "nothing\n", None),
            ("keys.txt", &*format!("one\nkey = {key}\n"), Some("line 2 has")),
            ("within/", "", Some("it is a git repository")),
            ("huge", "", Some("more than 100 MB")),
            ("gone", "", None),
        ] {
            if !text.is_empty() {
                std::fs::write(folder.path().join(name), text).unwrap();
            }
            let said = fault_of(folder.path(), &name.into());
            assert_eq!(said.is_some(), why.is_some(), "{name}: {said:?}");
            assert!(said.unwrap_or_default().contains(why.unwrap_or_default()), "{name}");
        }
    }
}
