//! The beginning of a run's workspace: the revision becomes a commit, and what would not travel is said.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use forge_domain::{CommitId, GitAddress, GitSource, GitTree, RunId, quantity};

use super::git::{Git, GitError};
use super::mirror_of;

/// A workspace that a run can begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunTree {
    /// The workspace.
    pub tree: GitTree,
    /// The parts of the repository that do not travel, in words.
    pub notes: Vec<String>,
}

/// Finds the commit that `source` names, and proves that its files can be kept: the first ref of `run` is
/// written. `root` is the folder for workspaces on this machine.
///
/// # Errors
/// [`GitError`].
pub async fn begin_git_tree(root: &Path, run: &RunId, source: &GitSource) -> Result<BegunTree, GitError> {
    let GitSource { git, rev, keep } = source;
    let mirror = Mirror::open(&mirror_of(root, git), git).await?;
    mirror.fetch().await?;
    let (base, branch) = mirror.resolve(rev.as_deref()).await?;
    let tree = GitTree { git: git.clone(), keep: keep.clone(), base, branch, pin: None };
    let place = format!("{}:{}", tree.base, ref_of(run, "0"));
    mirror.repository.call(&["push", "--quiet", tree.keeper().as_str(), &place]).await?;
    let notes = mirror.left_behind(&tree.base).await?;
    Ok(BegunTree { tree, notes })
}

/// Returns the name of a ref of `run`.
pub(super) fn ref_of(run: &RunId, name: &str) -> String {
    // A run's name may hold what a ref may not: dots in a row, or at an end.
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let run: String = run.to_string().chars().map(plain).collect();
    format!("refs/forge/{run}/{name}")
}

/// All that was fetched from a repository, for all runs on this machine.
pub(super) struct Mirror {
    pub(super) folder: PathBuf,
    git: GitAddress,
    repository: Git,
    /// Held while it is used, so that two processes do not write it at once.
    _lock: File,
}

impl Mirror {
    /// Opens the mirror in `folder`, and waits until no other process uses it.
    pub(super) async fn open(folder: &Path, git: &GitAddress) -> Result<Self, GitError> {
        let above = folder.parent().unwrap_or(folder);
        std::fs::create_dir_all(above).map_err(GitError::io(above))?;
        let path = folder.with_extension("lock");
        let lock = OpenOptions::new().create(true).append(true).open(&path).map_err(GitError::io(&path))?;
        let lock = tokio::task::spawn_blocking(move || lock.lock().map(|()| lock)).await;
        let lock = lock.map_err(std::io::Error::other).flatten().map_err(GitError::io(&path))?;
        let repository = Git::of(folder);
        if !folder.join("HEAD").exists() {
            repository.call(&["init", "--quiet", "--bare"]).await?;
        }
        Ok(Self { folder: folder.to_owned(), git: git.clone(), repository, _lock: lock })
    }

    /// Fetches all branches and tags.
    pub(super) async fn fetch(&self) -> Result<(), GitError> {
        let git = self.git.as_str();
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let fetch = ["fetch", "--quiet", "--no-tags", "--prune", "--force", "--update-head-ok", git];
        self.repository.call(&[&fetch[..], &refs].concat()).await.map(drop)
    }

    /// Fetches the commit, unless it is there.
    pub(super) async fn ensure(&self, commit: &CommitId) -> Result<(), GitError> {
        if self.repository.has(commit).await? {
            return Ok(());
        }
        self.fetch().await?;
        if self.repository.has(commit).await? {
            return Ok(());
        }
        // No branch leads to it any more.
        let fetch =
            ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", self.git.as_str(), commit.as_str()];
        self.repository.call(&fetch).await.map(drop)
    }

    /// Returns the commit of the revision, and the branch if it is one.
    async fn resolve(&self, rev: Option<&str>) -> Result<(CommitId, Option<String>), GitError> {
        let rev = match rev {
            Some(rev) => rev.to_owned(),
            None => self.default_branch().await?,
        };
        if let Some(commit) = self.commit_of(&format!("refs/heads/{rev}")).await? {
            return Ok((commit, Some(rev)));
        }
        let no_revision = || GitError::NoRevision { git: self.git.clone(), rev: rev.clone() };
        if let Some(commit) = self.commit_of(&format!("refs/tags/{rev}")).await? {
            return Ok((commit, None));
        }
        if let Ok(commit) = CommitId::try_from(rev.clone()) {
            self.ensure(&commit).await.map_err(|_| no_revision())?;
            return Ok((commit, None));
        }
        let is_short = rev.len() >= 7 && rev.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = if is_short { self.commit_of(&rev).await? } else { None };
        commit.map(|commit| (commit, None)).ok_or_else(no_revision)
    }

    async fn commit_of(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let name = format!("{name}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        let output = self.repository.answer(&words, b"").await?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() { Ok(Some(text.try_into()?)) } else { Ok(None) }
    }

    /// Returns the branch that the repository names as its own.
    async fn default_branch(&self) -> Result<String, GitError> {
        let said = self.repository.call(&["ls-remote", "--symref", self.git.as_str(), "HEAD"]).await?;
        let named = said.lines().find_map(|line| line.strip_prefix("ref: refs/heads/")?.split('\t').next());
        let branch = named.ok_or_else(|| GitError::Empty(self.git.clone()))?;
        Ok(branch.to_owned())
    }

    /// Returns what of the commit cannot be restored elsewhere, in words.
    async fn left_behind(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let mut notes = Vec::new();
        let entries = self.repository.paths(&["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]).await?;
        let n_modules =
            entries.iter().filter(|entry| entry.as_encoded_bytes().starts_with(b"160000 ")).count();
        if n_modules > 0 {
            let modules = quantity(n_modules, "submodule");
            notes.push(format!("{modules} of the repository are not fetched: their folders are empty"));
        }
        let large =
            ["grep", "--quiet", "filter=lfs", commit.as_str(), "--", ".gitattributes", "**/.gitattributes"];
        if self.repository.succeeds(&large).await? {
            let note = "files of Git LFS are whole where the worker's machine has git-lfs set up, and elsewhere \
                        pointers";
            notes.push(note.to_owned());
        }
        Ok(notes)
    }
}
