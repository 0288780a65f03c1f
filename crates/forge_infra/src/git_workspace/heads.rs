//! The branches of the agent's own repository, which travel with its files.

use std::collections::BTreeMap;
use std::path::Path;

use forge_domain::CommitId;

use super::git::{Git, GitError};

/// The branches of a repository, and what is checked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Heads {
    /// The branch that is checked out, `refs/heads/…`, whether or not it has a commit; `None` if a commit is.
    pub(super) branch: Option<String>,
    /// The commit that is checked out; `None` if the branch has none yet.
    pub(super) commit: Option<CommitId>,
    /// Each branch, `refs/heads/…`, with its commit.
    pub(super) branches: BTreeMap<String, CommitId>,
}

impl Heads {
    /// Reads those of the agent's repository in `folder`; `None` if it has none that can be read without
    /// leaving the folder.
    pub(super) async fn of(folder: &Path) -> Result<Option<Self>, GitError> {
        if !is_plain(&folder.join(".git")) {
            return Ok(None);
        }
        let listed = Git::default().answer(&["ls-remote", "--symref", "--", &path(folder)], b"").await?;
        if !listed.status.success() {
            return Ok(None);
        }
        Ok(Some(Self::listed(&String::from_utf8_lossy(&listed.stdout))))
    }

    /// Reads the lines of `git ls-remote --symref`.
    fn listed(text: &str) -> Self {
        let mut heads = Self::default();
        for line in text.lines() {
            let Some((what, name)) = line.split_once('\t') else { continue };
            match (what.strip_prefix("ref: "), name) {
                (Some(branch), "HEAD") => heads.branch = Some(branch.to_owned()),
                (None, name) => {
                    let Ok(commit) = CommitId::try_from(what.to_owned()) else { continue };
                    if name == "HEAD" {
                        heads.commit = Some(commit);
                    } else if name.starts_with("refs/heads/") {
                        heads.branches.insert(name.to_owned(), commit);
                    }
                }
                _ => {}
            }
        }
        heads
    }

    /// Returns all commits, each once.
    pub(super) fn commits(&self) -> Vec<&CommitId> {
        let mut commits: Vec<&CommitId> = self.branches.values().chain(&self.commit).collect();
        commits.sort();
        commits.dedup();
        commits
    }

    /// Returns the lines by which [`Self::read`] knows them again.
    pub(super) fn lines(&self) -> String {
        let commit = self.commit.as_ref().map(|commit| format!("{commit}\tHEAD\n")).unwrap_or_default();
        let branch = self.branch.as_ref().map(|branch| format!("ref: {branch}\tHEAD\n")).unwrap_or_default();
        let branches = self.branches.iter().map(|(name, commit)| format!("{commit}\t{name}\n"));
        branch + &commit + &branches.collect::<String>()
    }

    /// Reads what [`Self::lines`] wrote into the message of a pin.
    pub(super) fn read(message: &str) -> Self {
        Self::listed(message)
    }
}

/// Returns the path as an argument.
pub(super) fn path(path: &Path) -> String {
    path.display().to_string()
}

/// Checks whether the folder is a repository all of whose parts are in it. Otherwise commits of another
/// repository, which the agent may not be allowed to read, would be taken for its own.
fn is_plain(git: &Path) -> bool {
    let is_folder = |path: &Path| std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let is_missing = |path: &Path| std::fs::symlink_metadata(path).is_err();
    let has_no_link = |folder: &Path| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.into_iter().all(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()))
    };
    let objects = git.join("objects");
    is_folder(git)
        && is_folder(&objects)
        && is_missing(&git.join("commondir"))
        && is_missing(&objects.join("info/alternates"))
        && [git, &objects, &objects.join("pack"), &objects.join("info")].into_iter().all(has_no_link)
        && std::fs::read_dir(&objects).into_iter().flatten().flatten().all(|entry| has_no_link(&entry.path()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn branches_are_read_as_they_were_written() {
        let id = |digit: &str| CommitId::try_from(digit.repeat(40)).unwrap();
        let branches: BTreeMap<_, _> = [("refs/heads/a b", "a"), ("refs/heads/main", "b")]
            .map(|(name, at)| (name.to_owned(), id(at)))
            .into();
        for heads in [
            Heads {
                branch: Some("refs/heads/main".into()),
                commit: Some(id("b")),
                branches: branches.clone(),
            },
            Heads { branch: None, commit: Some(id("c")), branches },
            Heads { branch: Some("refs/heads/new".into()), ..Heads::default() },
        ] {
            assert_eq!(Heads::read(&format!("Files of run r\n\n{}", heads.lines())), heads);
        }
    }
}
