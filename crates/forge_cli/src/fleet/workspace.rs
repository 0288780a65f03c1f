//! The workspace of a run that is driven in slices: where it begins, and its folder on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use async_trait::async_trait;
use clap::Args;
use forge_domain::{GitTree, RunId, UnkeptFiles, Workspace, WorkspaceKeeper, WorkspaceSetting};
use forge_infra::{BegunTree, GitError, TravellingWorkspace, begin_git_tree, sweep_workspaces};

use crate::failure::Misconfigured;
use crate::output;
use crate::places::{self, environment};

/// The place of workspaces on this machine.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct WorkspacesFlag {
    /// The folder for workspaces of runs, with copies of their repositories [default: forge/workspaces in the
    /// user's folder for caches]
    #[arg(long, value_name = "FOLDER")]
    workspaces: Option<PathBuf>,
}

impl WorkspacesFlag {
    /// Returns the folder.
    pub(crate) fn folder(&self) -> anyhow::Result<PathBuf> {
        let usual = || places::cache_folder(&environment()).map(|folder| folder.join("workspaces"));
        let folder = self.workspaces.clone().or_else(usual).ok_or_else(|| {
            Misconfigured(
                "the home folder is unknown: name a folder for workspaces with --workspaces".to_owned(),
            )
        })?;
        Ok(std::path::absolute(folder)?)
    }

    /// Deletes the folders of runs that were continued elsewhere.
    pub(crate) fn sweep(&self) -> anyhow::Result<()> {
        sweep_workspaces(&self.folder()?);
        Ok(())
    }
}

/// The workspace that a run begins with.
pub(crate) struct BegunWorkspace {
    pub(crate) workspace: Option<Workspace>,
    /// Notes for the user, before anything runs.
    pub(crate) notes: Vec<String>,
}

impl BegunWorkspace {
    /// Begins the workspace of `run`. If it cannot be kept, nothing was done.
    pub(crate) async fn begin(setting: &WorkspaceSetting, run: &RunId) -> anyhow::Result<Self> {
        let (workspace, notes) = match setting {
            WorkspaceSetting::Shared => (None, Vec::new()),
            WorkspaceSetting::None => (Some(Workspace::None), Vec::new()),
            WorkspaceSetting::Git(source) => {
                let root = WorkspacesFlag::default().folder()?;
                output::note(&format!("fetching {}", source.git));
                let begun = begin_git_tree(&root, run, source).await;
                let BegunTree { tree, mut notes } =
                    begun.context("the run cannot begin with this workspace")?;
                notes.insert(0, first_note(&tree));
                (Some(Workspace::Git(tree)), notes)
            }
        };
        Ok(Self { workspace, notes })
    }

    /// Returns the keeper with which the task is saved.
    pub(crate) fn keeper(&self) -> Option<Arc<dyn WorkspaceKeeper>> {
        let workspace = self.workspace.clone()?;
        Some(Arc::new(Begun(workspace)))
    }
}

fn first_note(tree: &GitTree) -> String {
    let branch = tree.branch.as_ref().map(|branch| format!(" ({branch})")).unwrap_or_default();
    let commit: String = tree.base.as_str().chars().take(10).collect();
    format!("the run begins with commit {commit}{branch} of {}: what is not there does not travel", tree.git)
}

/// A workspace in which nothing was done yet.
struct Begun(Workspace);

#[async_trait]
impl WorkspaceKeeper for Begun {
    async fn pin(&self) -> Result<Workspace, UnkeptFiles> {
        Ok(self.0.clone())
    }
}

/// Prepares the folder of a slice of `run`.
pub(super) async fn open(
    root: &Path,
    run: &RunId,
    workspace: &Workspace,
) -> Result<Arc<TravellingWorkspace>, GitError> {
    let of_run = run.clone();
    let notice = move |text: &str| output::note(&output::visible(&format!("run {of_run}: {text}")));
    TravellingWorkspace::open(root, run, workspace, Arc::new(notice)).await.map(Arc::new)
}
