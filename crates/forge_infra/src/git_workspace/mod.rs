//! Workspaces that travel: the files of a run are pinned in a git repository with each checkpoint, and
//! restored on whichever machine continues it.
//!
//! Commands of an agent may write everything in its folder, `.git` included, whose settings can name
//! commands. So git is never called there, nor told of it: files are read and written here, through one
//! handle of the folder, and git is called in repositories of Forge's own beside it (`.pins.git`, and
//! `.agent.git`, a copy of the objects in the agent's).

mod agent_commits;
mod agent_repository;
mod beginning;
mod files;
mod git;
mod heads;
mod leftovers;
mod pins;
mod restoring;
mod slot;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{GitAddress, RunId, UnkeptFiles, Workspace, WorkspaceKeeper};
use tokio::sync::Mutex;

pub use self::beginning::{BegunTree, begin_git_tree};
pub use self::git::GitError;
use self::pins::Pins;
use self::slot::Slot;
pub use self::slot::sweep_workspaces;

/// Tells the user something about a workspace.
pub type WorkspaceNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// The folder of a run's workspace, for the time of a slice.
pub struct TravellingWorkspace {
    folder: PathBuf,
    /// The last pin, and what is needed for the next one; `None` if the folder is not kept.
    pins: Mutex<Option<Pins>>,
    slot: Slot,
}

impl TravellingWorkspace {
    /// Prepares the folder of `workspace` for `run` below `root`, with the files of its last pin. `notice` is
    /// told of files that do not travel.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn open(
        root: &Path,
        run: &RunId,
        workspace: &Workspace,
        notice: WorkspaceNotice,
    ) -> Result<Self, GitError> {
        let slot = Slot::take(root, run)?;
        match workspace {
            Workspace::None => {
                slot.clear()?;
                let folder = slot.path("workspace");
                std::fs::create_dir(&folder).map_err(GitError::io(&folder))?;
                Ok(Self { folder, pins: Mutex::new(None), slot })
            }
            Workspace::Git(tree) => {
                let folder = slot.path(&tree.git.project());
                let restored = restoring::restore(root, &slot, run, tree, &folder).await?;
                let pins = Pins::new(run, tree.clone(), restored, &slot, notice).await?;
                Ok(Self { folder, pins: Mutex::new(Some(pins)), slot })
            }
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Ends the use of the folder as `left`.
    ///
    /// # Errors
    /// [`GitError`].
    pub async fn close(&self, left: Left) -> Result<(), GitError> {
        match (left, &*self.pins.lock().await) {
            (Left::Over, _) | (_, None) => self.slot.delete(),
            (Left::Paused, Some(pins)) => {
                let (commit, known) = pins.last();
                self.slot.leave(commit.as_str(), &known)
            }
            (Left::Broken, Some(_)) => Ok(()),
        }
    }
}

/// The state in which a slice leaves its folder. One in which nothing is kept is deleted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The run is over: the folder is deleted.
    Over,
    /// The files are those of the last pin: the next slice on this machine finds them there.
    Paused,
    /// Something may have been done after the last pin, which the next slice undoes.
    Broken,
}

#[async_trait]
impl WorkspaceKeeper for TravellingWorkspace {
    async fn pin(&self) -> Result<Workspace, UnkeptFiles> {
        match &mut *self.pins.lock().await {
            None => Ok(Workspace::None),
            Some(pins) => {
                let pinned = pins.pin().await.map_err(|error| UnkeptFiles(error.to_string()))?;
                Ok(Workspace::Git(pinned))
            }
        }
    }
}

/// Returns the repository that keeps what was fetched from an address, for all runs on this machine.
fn mirror_of(root: &Path, git: &GitAddress) -> PathBuf {
    use sha2::{Digest as _, Sha256};
    let name = hex::encode(&Sha256::digest(git.as_str())[..8]);
    root.join("mirrors").join(format!("{}-{name}.git", git.project()))
}
