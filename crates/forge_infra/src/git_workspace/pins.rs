//! Pins: commits of the files and branches of a run, in a repository of Forge's own.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forge_domain::{CommitId, GitTree, RunId};

use super::beginning::ref_of;
use super::git::{Git, GitError, said};
use super::heads::{Heads, path};
use super::leftovers::Leftovers;

/// The pins of a run: its last one, and the means to make the next.
pub(super) struct Pins {
    run: RunId,
    tree: GitTree,
    folder: PathBuf,
    repository: Git,
    /// The ref that leads to the pins of this slice. Each has one of its own, so that a slice that was frozen
    /// disturbs no other.
    place: String,
    /// The refs of earlier slices, which the next pin contains.
    earlier: Vec<String>,
    /// The branches in the last pin.
    heads: Heads,
    /// The files in the last pin.
    files: Option<String>,
    leftovers: Leftovers,
}

impl Pins {
    /// Prepares pins that follow the one of `tree`, which is in `folder` with the branches `heads`.
    pub(super) async fn new(
        run: &RunId,
        tree: GitTree,
        heads: Heads,
        folder: &Path,
        repository: &Path,
        leftovers: Leftovers,
    ) -> Result<Self, GitError> {
        let repository = Git::of(repository).about(folder);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let place = ref_of(run, &format!("{since:x}-{:x}", std::process::id()));
        // The files of the last pin: those of the base were checked out with its attributes, so that they may
        // differ from what would be kept.
        let files = match &tree.pin {
            Some(pin) => Some(repository.call(&["rev-parse", &format!("{pin}^{{tree}}")]).await?),
            None => {
                repository.call(&["read-tree", tree.base.as_str()]).await?;
                None
            }
        };
        let mut pins = Self {
            run: run.clone(),
            tree,
            folder: folder.to_owned(),
            repository,
            place,
            earlier: Vec::new(),
            heads,
            files,
            leftovers,
        };
        if pins.files.is_none() {
            pins.files = Some(pins.keep_files().await?);
        }
        pins.earlier = pins.contained().await?;
        Ok(pins)
    }

    /// Pins the files and branches as they are now, unless they are those of the last pin.
    pub(super) async fn pin(&mut self) -> Result<GitTree, GitError> {
        let heads = match Heads::of(&self.folder).await? {
            Some(heads) => heads,
            None => {
                self.leftovers.tell_repository();
                self.heads.clone()
            }
        };
        let files = self.keep_files().await?;
        if heads == self.heads && self.files.as_ref() == Some(&files) {
            return Ok(self.tree.clone());
        }
        if heads != self.heads {
            self.keep_commits(&heads).await?;
        }
        let pin = self.commit(&files, &heads).await?;
        self.send(&pin).await?;
        self.tree.pin = Some(pin);
        (self.heads, self.files) = (heads, Some(files));
        Ok(self.tree.clone())
    }

    /// Keeps the files in the own repository, and returns the name of their tree.
    async fn keep_files(&mut self) -> Result<String, GitError> {
        let listed = ["ls-files", "-z", "--others", "--modified", "--exclude-standard"];
        let changed = self.repository.paths(&listed).await?;
        self.leftovers.sort_out(changed, &self.folder, &self.repository, &self.tree.base).await?;
        // What cannot be read is left behind, and the rest is kept all the same.
        let added = self.repository.answer(&["add", "--all", "--ignore-errors"], b"").await?;
        if !added.status.success() {
            self.leftovers.tell_unread(&said(&added));
        }
        self.repository.call(&["write-tree"]).await
    }

    /// Keeps the commits of the agent's branches in the own repository.
    async fn keep_commits(&self, heads: &Heads) -> Result<(), GitError> {
        let folder = path(&self.folder);
        let mut fetch = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", &folder];
        let commits = heads.commits();
        fetch.extend(commits.iter().map(|commit| commit.as_str()));
        if commits.is_empty() {
            return Ok(());
        }
        self.repository.call(&fetch).await.map(drop)
    }

    async fn commit(&self, files: &str, heads: &Heads) -> Result<CommitId, GitError> {
        let message = format!("Files of run {}\n\n{}", self.run, heads.lines());
        let mut parents = vec![self.tree.commit()];
        parents.extend(heads.commits().into_iter().filter(|commit| *commit != self.tree.commit()));
        let mut commit =
            vec!["-c", "user.name=forge", "-c", "user.email=forge@localhost", "commit-tree", files];
        commit.extend(parents.iter().flat_map(|parent| ["-p", parent.as_str()]));
        let made = self.repository.answer(&commit, message.as_bytes()).await?;
        if !made.status.success() {
            return Err(GitError::Failed { what: "commit-tree".to_owned(), said: said(&made) });
        }
        Ok(String::from_utf8_lossy(&made.stdout).trim().to_owned().try_into()?)
    }

    /// Sends the pin to the repository that keeps it. The refs of earlier slices are not needed any more.
    async fn send(&mut self, pin: &CommitId) -> Result<(), GitError> {
        let (keeper, place) = (self.tree.keeper().as_str(), format!("{pin}:{}", self.place));
        self.repository.call(&["push", "--quiet", "--", keeper, &place]).await?;
        if !self.earlier.is_empty() {
            let mut push = vec!["push", "--quiet", "--delete", "--", keeper];
            let earlier = std::mem::take(&mut self.earlier);
            push.extend(earlier.iter().map(String::as_str));
            // Another slice may have deleted them, and they do no harm.
            self.repository.answer(&push, b"").await?;
        }
        Ok(())
    }

    /// Returns the refs of the run whose commits the next pin will contain.
    async fn contained(&self) -> Result<Vec<String>, GitError> {
        let of_run = ref_of(&self.run, "*");
        let listed = self.repository.call(&["ls-remote", "--", self.tree.keeper().as_str(), &of_run]).await?;
        let mut contained = Vec::new();
        for (commit, name) in listed.lines().filter_map(|line| line.split_once('\t')) {
            let Ok(commit) = CommitId::try_from(commit.to_owned()) else { continue };
            let below = ["merge-base", "--is-ancestor", commit.as_str(), self.tree.commit().as_str()];
            if name != self.place
                && self.repository.has(&commit).await?
                && self.repository.succeeds(&below).await?
            {
                contained.push(name.to_owned());
            }
        }
        Ok(contained)
    }
}
