//! The files and branches of a pin, put into the folder of a run.

use std::path::{Path, PathBuf};

use forge_domain::{CommitId, GitTree, RunId};

use super::beginning::{Mirror, ref_of};
use super::files::{Files, Kind, path_of};
use super::git::{Git, GitError};
use super::heads::Heads;
use super::mirror_of;
use super::slot::{Slot, delete};

/// The folder of a run with the files of its last pin, and the repositories beside it.
pub(super) struct Restored {
    pub(super) files: Files,
    pub(super) heads: Heads,
    /// The repository of the pins.
    pub(super) pins: Git,
    /// The mirror of the repository of the run.
    pub(super) mirror: PathBuf,
}

/// Puts the files and the branches of `tree` into `folder`. What an earlier slice left there that git ignores
/// stays, such as the results of builds.
pub(super) async fn restore(
    root: &Path,
    slot: &Slot,
    run: &RunId,
    tree: &GitTree,
    folder: &Path,
) -> Result<Restored, GitError> {
    // Held until the folder is filled from it.
    let mirror = Mirror::open(&mirror_of(root, &tree.git), &tree.git).await?;
    mirror.ensure(&tree.base).await?;
    let place = Place { mirror: mirror.repository.folder(), run, tree, folder, slot };
    if folder.exists() {
        match place.update().await {
            Ok(restored) => return Ok(restored),
            Err(error) => tracing::info!(%error, "the folder of an earlier slice is made again"),
        }
    }
    slot.clear()?;
    place.fill().await
}

struct Place<'a> {
    /// The mirror of the repository of the run.
    mirror: &'a Path,
    run: &'a RunId,
    tree: &'a GitTree,
    folder: &'a Path,
    slot: &'a Slot,
}

impl Place<'_> {
    /// Fills an empty place.
    async fn fill(&self) -> Result<Restored, GitError> {
        let pins = Git::of(&self.slot.path(".pins.git"));
        init_with(&pins, &[self.mirror]).await?;
        let heads = self.heads(&pins).await?;
        self.clone_heads(&pins, &heads).await?;
        let files = self.put_files(&pins).await?;
        Ok(Restored { files, heads, pins, mirror: self.mirror.to_owned() })
    }

    /// Brings the place of an earlier slice up to date.
    async fn update(&self) -> Result<Restored, GitError> {
        let pins = Git::of(&self.slot.path(".pins.git"));
        let heads = self.heads(&pins).await?;
        let files = match self.slot.take_left() {
            // Nothing was done after that pin.
            Some((commit, known)) if commit == self.tree.commit().as_str() => {
                let mut files = Files::open(self.folder)?;
                files.know(&known).then_some(files)
            }
            _ => None,
        };
        let files = match files {
            Some(files) => files,
            None => {
                delete(&self.folder.join(".git"))?;
                self.clone_heads(&pins, &heads).await?;
                let files = self.put_files(&pins).await?;
                files.remove_others()?;
                files
            }
        };
        Ok(Restored { files, heads, pins, mirror: self.mirror.to_owned() })
    }

    /// Returns the branches of the last pin, which is fetched unless it is there.
    async fn heads(&self, pins: &Git) -> Result<Heads, GitError> {
        let Some(pin) = &self.tree.pin else {
            let commit = self.tree.base.clone();
            let branch = self.tree.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
            let branches = branch.iter().map(|branch| (branch.clone(), commit.clone())).collect();
            return Ok(Heads { branch, commit: Some(commit), branches });
        };
        if !pins.has(pin).await? {
            let keeper = self.tree.keeper().as_str();
            let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--", keeper];
            let exact = pins.call(&[&fetch[..], &[pin.as_str()]].concat()).await;
            if exact.is_err() {
                // A server may give only what refs lead to.
                let all = format!("+{}:refs/restored/*", ref_of(self.run, "*"));
                pins.call(&[&fetch[..], &[all.as_str()]].concat()).await?;
            }
        }
        Ok(Heads::read(&pins.call(&["log", "-1", "--format=%B", pin.as_str()]).await?))
    }

    /// Makes the agent's repository, with these branches, and an index as if the commit had been checked out.
    async fn clone_heads(&self, pins: &Git, heads: &Heads) -> Result<(), GitError> {
        // Objects are copied: those in the agent's folder can be changed by it.
        let new = self.slot.path(".clone");
        delete(&new)?;
        std::fs::create_dir(&new).map_err(GitError::io(&new))?;
        let own = Git::of(&new.join(".git"));
        own.call(&["init", "--quiet", "--bare"]).await?;
        let mirror = self.mirror.display().to_string();
        let refs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--"];
        own.call(&[&fetch[..], &[mirror.as_str()], &refs].concat()).await?;
        let commits: Vec<&str> = heads.commits().into_iter().map(CommitId::as_str).collect();
        if !commits.is_empty() {
            let pins = pins.folder().display().to_string();
            own.call(&[&fetch[..], &[pins.as_str()], &commits].concat()).await?;
        }
        let mut settings = vec![
            ("core.bare".to_owned(), "false"),
            ("core.logAllRefUpdates".to_owned(), "true"),
            ("remote.origin.url".to_owned(), self.tree.git.as_str()),
            ("remote.origin.fetch".to_owned(), refs[0]),
        ];
        if let Some(branch) = heads.branch.as_deref().and_then(|branch| branch.strip_prefix("refs/heads/")) {
            settings.push((format!("branch.{branch}.remote"), "origin"));
            settings.push((format!("branch.{branch}.merge"), heads.branch.as_deref().unwrap_or_default()));
        }
        for (key, value) in settings {
            own.call(&["config", &key, value]).await?;
        }
        let branches = heads.branches.iter().map(|(name, commit)| format!("create {name} {commit}\n"));
        own.call_with(&["update-ref", "--stdin"], &branches.collect::<String>()).await?;
        match (&heads.branch, &heads.commit) {
            (Some(branch), _) => own.call(&["symbolic-ref", "HEAD", branch]).await.map(drop)?,
            (None, Some(commit)) => {
                own.call(&["update-ref", "--no-deref", "HEAD", commit.as_str()]).await.map(drop)?;
            }
            (None, None) => {}
        }
        // A tree that no index can have leaves it empty.
        if heads.commit.is_some()
            && let Err(error) = own.call(&["read-tree", "HEAD"]).await
        {
            tracing::info!(%error, "the agent's repository has an empty index");
        }
        std::fs::create_dir_all(self.folder).map_err(GitError::io(self.folder))?;
        let (from, to) = (new.join(".git"), self.folder.join(".git"));
        std::fs::rename(&from, &to).map_err(GitError::io(&to))?;
        delete(&new)
    }

    /// Puts the files of the last pin into the folder.
    async fn put_files(&self, pins: &Git) -> Result<Files, GitError> {
        let mut files = Files::open(self.folder)?;
        let entries = entries_of(pins, self.tree.commit()).await?;
        let fault = |path: &Path| {
            let path = self.folder.join(path);
            move |source| GitError::Io { path, source }
        };
        for (path, _, _) in entries.iter().filter(|(_, kind, _)| *kind == Kind::Module) {
            files.put(path, Kind::Module, b"").map_err(fault(path))?;
        }
        let entries: Vec<_> = entries.into_iter().filter(|(_, kind, _)| *kind != Kind::Module).collect();
        let ids: Vec<&str> = entries.iter().map(|(_, _, id)| id.as_str()).collect();
        let put = |at: usize, content: Vec<u8>| {
            let (path, kind, _) = &entries[at];
            files.put(path, *kind, &content).map_err(fault(path))
        };
        pins.read_objects(&ids, put).await?;
        Ok(files)
    }
}

/// Makes an empty repository that has the objects of others.
pub(super) async fn init_with(repository: &Git, others: &[&Path]) -> Result<(), GitError> {
    repository.call(&["init", "--quiet", "--bare"]).await?;
    let list = repository.folder().join("objects/info/alternates");
    let folders = others.iter().map(|other| format!("{}\n", other.join("objects").display()));
    std::fs::write(&list, folders.collect::<String>()).map_err(GitError::io(&list))
}

/// Returns the files of a commit: path, kind and object.
pub(super) async fn entries_of(
    repository: &Git,
    commit: &CommitId,
) -> Result<Vec<(PathBuf, Kind, String)>, GitError> {
    let listed = repository.records(&["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]).await?;
    let entry = |record: &Vec<u8>| {
        let at = record.iter().position(|byte| *byte == b'\t')?;
        let (about, path) = (String::from_utf8_lossy(&record[..at]), path_of(&record[at + 1..]));
        let mut words = about.split(' ');
        let kind = Kind::of_mode(words.next()?)?;
        Some((path, kind, words.nth(1)?.to_owned()))
    };
    Ok(listed.iter().filter_map(entry).collect())
}
