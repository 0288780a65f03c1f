//! The files and branches of a pin, put into the folder of a run.

use std::path::Path;

use forge_domain::{CommitId, GitTree};

use super::beginning::Mirror;
use super::git::{Git, GitError};
use super::heads::{Heads, path};
use super::mirror_of;
use super::slot::{Slot, delete};

/// Attributes by which files are kept byte by byte, whatever those of the repository say.
const RAW: &str = "* -text -eol -ident -filter -working-tree-encoding\n";

/// Puts the files and the branches of `tree` into `folder`, and returns the branches. What an earlier slice
/// left there that git ignores stays, such as the results of builds.
pub(super) async fn restore(
    root: &Path,
    slot: &Slot,
    tree: &GitTree,
    folder: &Path,
    repository: &Path,
) -> Result<Heads, GitError> {
    let mirror = Mirror::open(&mirror_of(root, &tree.git), &tree.git).await?;
    mirror.ensure(&tree.base).await?;
    let place = Place { mirror: &mirror.folder.clone(), tree, folder, repository };
    // What was fetched stays: others need not wait until this folder is filled.
    drop(mirror);
    if folder.exists() && tree.pin.is_some() {
        match place.update().await {
            Ok(heads) => return Ok(heads),
            Err(error) => tracing::info!(%error, "the folder of an earlier slice is made again"),
        }
    }
    slot.clear()?;
    place.fill().await
}

struct Place<'a> {
    /// The mirror of the repository of the run.
    mirror: &'a Path,
    tree: &'a GitTree,
    folder: &'a Path,
    /// The repository of the pins.
    repository: &'a Path,
}

impl Place<'_> {
    /// Fills an empty place.
    async fn fill(&self) -> Result<Heads, GitError> {
        let pins = Git::of(self.repository);
        pins.call(&["init", "--quiet", "--bare"]).await?;
        let info = self.repository.join("objects/info/alternates");
        let objects = format!("{}\n", self.mirror.join("objects").display());
        std::fs::write(&info, objects).map_err(GitError::io(&info))?;
        let info = self.repository.join("info/attributes");
        std::fs::write(&info, RAW).map_err(GitError::io(&info))?;
        let Some(pin) = &self.tree.pin else { return self.check_out().await };
        let heads = self.fetch_pin(pin).await?;
        self.clone_heads(&heads).await?;
        self.put_files(pin).await?;
        self.set_index(&heads).await?;
        Ok(heads)
    }

    /// Brings the place of an earlier slice up to date.
    async fn update(&self) -> Result<Heads, GitError> {
        // This process alone has the place: the lock is that of a process that was killed.
        for lock in ["index.lock", "HEAD.lock", "packed-refs.lock", "shallow.lock"] {
            delete(&self.repository.join(lock))?;
        }
        let heads = self.fetch_pin(self.tree.commit()).await?;
        let is_same = Heads::of(self.folder).await?.as_ref() == Some(&heads);
        if !is_same {
            delete(&self.folder.join(".git"))?;
            self.clone_heads(&heads).await?;
        }
        self.put_files(self.tree.commit()).await?;
        if !is_same {
            self.set_index(&heads).await?;
        }
        Ok(heads)
    }

    /// Checks out the base as anybody would, with the attributes of the repository.
    async fn check_out(&self) -> Result<Heads, GitError> {
        let commit = self.tree.base.clone();
        let branch = self.tree.branch.as_ref().map(|branch| format!("refs/heads/{branch}"));
        let branches = branch.iter().map(|branch| (branch.clone(), commit.clone())).collect();
        let heads = Heads { branch, commit: Some(commit), branches };
        self.clone_heads(&heads).await?;
        let own = Git::of(&self.folder.join(".git")).about(self.folder);
        own.call(&["reset", "--quiet", "--hard"]).await?;
        Ok(heads)
    }

    /// Fetches the pin, unless it is there, and returns the branches that it holds.
    async fn fetch_pin(&self, pin: &CommitId) -> Result<Heads, GitError> {
        let pins = Git::of(self.repository);
        if !pins.has(pin).await? {
            let keeper = self.tree.keeper().as_str();
            let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", keeper, pin.as_str()];
            pins.call(&fetch).await?;
        }
        Ok(Heads::read(&pins.call(&["log", "-1", "--format=%B", pin.as_str()]).await?))
    }

    /// Makes the agent's repository, with these branches and nothing checked out.
    async fn clone_heads(&self, heads: &Heads) -> Result<(), GitError> {
        // Objects are copied: those in the agent's folder can be changed by it.
        let new = self.folder.with_file_name(".clone");
        delete(&new)?;
        let clone = ["clone", "--quiet", "--no-hardlinks", "--no-checkout"];
        let (mirror, place) = (path(self.mirror), path(&new));
        Git::default().call(&[&clone[..], &["--", &mirror, &place]].concat()).await?;
        let own = Git::of(&new.join(".git"));
        let commits = heads.commits();
        let mut fetch = vec!["fetch", "--quiet", "--no-tags", "--no-write-fetch-head"];
        let pins = path(self.repository);
        fetch.extend(["--", &pins]);
        fetch.extend(commits.iter().map(|commit| commit.as_str()));
        if !commits.is_empty() {
            own.call(&fetch).await?;
        }
        own.call(&["remote", "set-url", "origin", self.tree.git.as_str()]).await?;
        // Nothing is checked out while branches change.
        let away = heads.commit.as_ref().unwrap_or(&self.tree.base);
        own.call(&["update-ref", "--no-deref", "HEAD", away.as_str()]).await?;
        let known = own.call(&["for-each-ref", "--format=%(refname)", "refs/heads/"]).await?;
        let gone = known.lines().filter(|name| !heads.branches.contains_key(*name));
        let gone = gone.map(|name| format!("delete {name}\n"));
        let kept = heads.branches.iter().map(|(name, commit)| format!("update {name} {commit}\n"));
        let updates: String = gone.chain(kept).collect();
        let updated = own.answer(&["update-ref", "--stdin"], updates.as_bytes()).await?;
        if !updated.status.success() {
            return Err(GitError::Failed { what: "update-ref".into(), said: super::git::said(&updated) });
        }
        if let Some(branch) = &heads.branch {
            own.call(&["symbolic-ref", "HEAD", branch]).await?;
        }
        if let Some(branch) = heads.branch.as_deref().and_then(|branch| branch.strip_prefix("refs/heads/")) {
            let names = [("remote", "origin".to_owned()), ("merge", format!("refs/heads/{branch}"))];
            for (key, value) in names {
                own.call(&["config", &format!("branch.{branch}.{key}"), &value]).await?;
            }
        }
        std::fs::create_dir_all(self.folder).map_err(GitError::io(self.folder))?;
        let (from, to) = (new.join(".git"), self.folder.join(".git"));
        std::fs::rename(&from, &to).map_err(GitError::io(&to))?;
        delete(&new)
    }

    /// Puts the files of the pin into the folder, and removes all others that git does not ignore.
    async fn put_files(&self, pin: &CommitId) -> Result<(), GitError> {
        let pins = Git::of(self.repository).about(self.folder);
        pins.call(&["read-tree", "--reset", "-u", pin.as_str()]).await?;
        pins.call(&["clean", "-ffdq"]).await.map(drop)
    }

    /// Makes the index of the agent's repository that of the commit which is checked out. The repository is
    /// new, so that nothing in it is the agent's.
    async fn set_index(&self, heads: &Heads) -> Result<(), GitError> {
        if heads.commit.is_none() {
            return Ok(());
        }
        let own = Git::of(&self.folder.join(".git")).about(self.folder);
        own.call(&["reset", "--quiet", "--mixed"]).await.map(drop)
    }
}
