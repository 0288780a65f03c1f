//! The workspace of a run as its checkpoints keep it, and the port that keeps its files.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{GitAddress, Progress};

/// The name of the workspace beside the counters of a checkpoint.
const WORKSPACE: &str = "workspace";

/// The workspace of a run that has files of its own, apart from the folder of its process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workspace {
    /// An empty folder for each slice.
    None,
    /// The files of a git repository.
    Git(GitTree),
}

/// The files of a run in a git repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GitTree {
    /// The repository.
    pub git: GitAddress,
    /// The repository that keeps the pins, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<GitAddress>,
    /// The commit that the run began with.
    pub base: CommitId,
    /// The branch of that commit, if the run began with a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that has the files, and the branches of the run below it; `None` as long as they are those
    /// of the base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pin: Option<CommitId>,
}

impl GitTree {
    /// Returns the repository that keeps the pins.
    pub fn keeper(&self) -> &GitAddress {
        self.keep.as_ref().unwrap_or(&self.git)
    }

    /// Returns the commit that has the files.
    pub fn commit(&self) -> &CommitId {
        self.pin.as_ref().unwrap_or(&self.base)
    }
}

/// The name of a commit: 40 or 64 hexadecimal digits in lower case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

/// A text that is not the name of a commit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not the name of a commit")]
pub struct CommitIdError(String);

impl CommitId {
    /// Returns the digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CommitId {
    type Error = CommitIdError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if matches!(text.len(), 40 | 64) && text.bytes().all(is_digit) {
            Ok(Self(text))
        } else {
            Err(CommitIdError(text))
        }
    }
}

impl From<CommitId> for String {
    fn from(id: CommitId) -> Self {
        id.0
    }
}

impl std::fmt::Display for CommitId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Workspace {
    /// Returns the workspace that was saved with `progress`.
    pub fn saved_with(progress: &Progress) -> Option<Self> {
        serde_json::from_value(progress.extra.get(WORKSPACE)?.clone()).ok()
    }

    /// Saves it with `progress`.
    pub fn save_with(&self, progress: &mut Progress) {
        progress.extra.extend(serde_json::to_value(self).ok().map(|value| (WORKSPACE.to_owned(), value)));
    }

    /// Forgets the workspace that was saved with `progress`.
    pub fn forget(progress: &mut Progress) {
        progress.extra.remove(WORKSPACE);
    }
}

/// The port that keeps the files of a run together with its checkpoints.
#[async_trait]
pub trait WorkspaceKeeper: Send + Sync {
    /// Pins the files as they are now, so that another machine can restore them, and returns the workspace
    /// that the checkpoint is to keep. Where nothing has changed since the last pin, that one is returned.
    ///
    /// # Errors
    /// [`UnkeptFiles`]. The last pin is still there then.
    async fn pin(&self) -> Result<Workspace, UnkeptFiles>;
}

/// The reason why files are not kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the files of the workspace are not kept: {0}")]
pub struct UnkeptFiles(pub String);

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_workspace_is_saved_with_the_counters_and_forgotten() {
        let id = |digit: &str| CommitId::try_from(digit.repeat(40)).unwrap();
        let tree = GitTree {
            git: GitAddress::try_from("/srv/x.git".to_owned()).unwrap(),
            keep: None,
            base: id("a"),
            branch: Some("main".to_owned()),
            pin: None,
        };
        let mut progress = Progress::default();
        for workspace in [Workspace::None, Workspace::Git(GitTree { pin: Some(id("b")), ..tree })] {
            workspace.save_with(&mut progress);
            assert_eq!(Workspace::saved_with(&progress), Some(workspace));
        }
        Workspace::forget(&mut progress);
        assert_eq!(progress, Progress::default());
    }

    #[test]
    fn a_commit_is_never_an_option_of_git() {
        for (text, is_one) in
            [("a".repeat(40), true), ("0".repeat(64), true), ("A".repeat(40), false), ("--x".into(), false)]
        {
            assert_eq!(CommitId::try_from(text.clone()).is_ok(), is_one, "{text}");
        }
    }
}
