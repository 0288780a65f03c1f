//! The beginning of a run's workspace: its revision is resolved to a commit, and the user learns what will
//! not travel.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use forge_domain::{CommitId, GitAddress, GitSource, GitTree, RunId, quantity};

use super::git::{Git, GitError, MOST_TIME};
use super::mirror_of;

/// The pause before a lock is tried again.
const MOMENT: Duration = Duration::from_millis(100);

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
    mirror.repository.call(&["push", "--quiet", "--", tree.keeper().as_str(), &place]).await?;
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
    pub(super) repository: Git,
    git: GitAddress,
    /// Held while it is used, so that two processes do not write it at once.
    _lock: File,
}

impl Mirror {
    /// Opens the mirror in `folder`, and waits until no other process uses it.
    pub(super) async fn open(folder: &Path, git: &GitAddress) -> Result<Self, GitError> {
        let above = folder.parent().unwrap_or(folder);
        std::fs::create_dir_all(above).map_err(GitError::io(above))?;
        let lock = wait_for(&folder.with_extension("lock")).await?;
        remove_old_locks(folder);
        let repository = Git::of(folder);
        // Of one that is there already, nothing changes.
        repository.call(&["init", "--quiet", "--bare"]).await?;
        Ok(Self { repository, git: git.clone(), _lock: lock })
    }

    /// Fetches all branches and tags.
    pub(super) async fn fetch(&self) -> Result<(), GitError> {
        let git = self.git.as_str();
        let refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let fetch = ["fetch", "--quiet", "--no-tags", "--prune", "--force", "--update-head-ok", "--", git];
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
        let fetch = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--"];
        let place = [self.git.as_str(), commit.as_str()];
        self.repository.call(&[&fetch[..], &place].concat()).await.map(drop)
    }

    /// Returns the commit of the revision, and the branch if it is one.
    async fn resolve(&self, rev: Option<&str>) -> Result<(CommitId, Option<String>), GitError> {
        let Some(rev) = rev else { return self.resolve_head().await };
        let is_name = self.repository.succeeds(&["check-ref-format", &format!("refs/heads/{rev}")]).await?;
        if is_name && let Some(commit) = self.commit_of(&format!("refs/heads/{rev}")).await? {
            return Ok((commit, Some(rev.to_owned())));
        }
        let no_revision = || GitError::NoRevision { git: self.git.clone(), rev: rev.to_owned() };
        if is_name && let Some(commit) = self.commit_of(&format!("refs/tags/{rev}")).await? {
            return Ok((commit, None));
        }
        if let Ok(commit) = CommitId::try_from(rev.to_owned()) {
            self.ensure(&commit).await.map_err(|_| no_revision())?;
            return Ok((commit, None));
        }
        // An abbreviated commit, or one that is so many before a branch.
        let commit = self.commit_of(rev).await?;
        commit.map(|commit| (commit, None)).ok_or_else(no_revision)
    }

    async fn commit_of(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let name = format!("{name}^{{commit}}");
        let words = ["rev-parse", "--verify", "--quiet", "--end-of-options", &name];
        match self.repository.call(&words).await {
            Ok(text) => Ok(Some(text.try_into()?)),
            Err(GitError::Failed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the commit that the repository has checked out, and its branch.
    async fn resolve_head(&self) -> Result<(CommitId, Option<String>), GitError> {
        let said = self.repository.call(&["ls-remote", "--symref", "--", self.git.as_str(), "HEAD"]).await?;
        let mut branch = None;
        for (what, name) in said.lines().filter_map(|line| line.split_once('\t')) {
            match what.strip_prefix("ref: refs/heads/") {
                Some(named) => branch = Some(named.to_owned()),
                None if name == "HEAD" => {
                    let commit = CommitId::try_from(what.to_owned())?;
                    self.ensure(&commit).await?;
                    return Ok((commit, branch));
                }
                None => {}
            }
        }
        Err(GitError::Empty(self.git.clone()))
    }

    /// Returns what of the commit cannot be restored elsewhere, in words.
    async fn left_behind(&self, commit: &CommitId) -> Result<Vec<String>, GitError> {
        let mut notes = Vec::new();
        let entries =
            self.repository.records(&["ls-tree", "-r", "-z", "--full-tree", commit.as_str()]).await?;
        let n_modules = entries.iter().filter(|entry| entry.starts_with(b"160000 ")).count();
        if n_modules > 0 {
            let modules = quantity(n_modules, "submodule");
            notes.push(format!("{modules} of the repository are not fetched: their folders are empty"));
        }
        let large =
            ["grep", "--quiet", "filter=lfs", commit.as_str(), "--", ".gitattributes", "**/.gitattributes"];
        if self.repository.succeeds(&large).await? {
            notes
                .push("files of Git LFS are there as pointers, until `git lfs pull` fetches them".to_owned());
        }
        Ok(notes)
    }
}

/// Opens the file, and locks it as soon as no other process has it locked.
async fn wait_for(path: &Path) -> Result<File, GitError> {
    let file = OpenOptions::new().create(true).append(true).open(path).map_err(GitError::io(path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < MOST_TIME => tokio::time::sleep(MOMENT).await,
            Err(TryLockError::WouldBlock) => {
                let source = std::io::Error::other("another process has had it for too long: is it frozen?");
                return Err(GitError::Io { path: path.to_owned(), source });
            }
            Err(TryLockError::Error(source)) => return Err(GitError::Io { path: path.to_owned(), source }),
        }
    }
}

/// Removes git's own locks of processes that were killed: those that are older than any call may take.
fn remove_old_locks(folder: &Path) {
    let is_old = |path: &PathBuf| {
        let changed = std::fs::symlink_metadata(path).and_then(|found| found.modified()).ok();
        let age = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
        age.is_some_and(|age| age > MOST_TIME)
    };
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).into_iter().flatten().flatten() {
            let path = entry.path();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && entry.file_name() != "objects" {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|end| end == "lock") && is_old(&path) {
                drop(std::fs::remove_file(path));
            }
        }
    }
}
