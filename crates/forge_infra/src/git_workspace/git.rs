//! Calls of the `git` command. It never asks for a password, runs no hooks, and reads no repository that
//! variables of this process name.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use forge_domain::{CommitId, CommitIdError, GitAddress};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The longest time of one call.
const MOST_TIME: Duration = Duration::from_secs(15 * 60);
/// The variables by which git would be led to another repository.
const MISLEADING: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];
/// The most characters of git's own words in an error.
const MOST_SAID: usize = 400;

/// The reason why git did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It cannot be started.
    #[error("git cannot be started ({0}): install it, on this machine and on those of the workers")]
    Missing(#[source] io::Error),
    /// It failed.
    #[error("git {what} failed: {said}")]
    Failed {
        /// The command.
        what: String,
        /// Its own words.
        said: String,
    },
    /// It did not end in time.
    #[error("git {0} did not end within {time} minutes", time = MOST_TIME.as_secs() / 60)]
    TimedOut(String),
    /// It answered something else than expected.
    #[error("git {what} answered something unexpected: {said}")]
    Strange {
        /// The command.
        what: String,
        /// The answer.
        said: String,
    },
    /// A file or folder of the workspace cannot be used.
    #[error("{}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The repository has no such revision.
    #[error("{git} has no branch, tag or commit `{rev}`")]
    NoRevision {
        /// The repository.
        git: GitAddress,
        /// The revision.
        rev: String,
    },
    /// The repository has no commit.
    #[error("{0} has no commit to begin with")]
    Empty(GitAddress),
}

impl GitError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Io { path: path.to_owned(), source }
    }
}

impl From<CommitIdError> for GitError {
    fn from(error: CommitIdError) -> Self {
        Self::Strange { what: "rev-parse".to_owned(), said: error.to_string() }
    }
}

/// A repository that only Forge writes, or none, in which git is called.
#[derive(Clone, Debug, Default)]
pub(super) struct Git {
    repository: Option<PathBuf>,
    work_tree: Option<PathBuf>,
}

impl Git {
    /// Calls git in the repository whose own folder is `repository`.
    pub(super) fn of(repository: &Path) -> Self {
        Self { repository: Some(repository.to_owned()), ..Self::default() }
    }

    /// Calls git about the files below `folder`.
    pub(super) fn about(self, folder: &Path) -> Self {
        Self { work_tree: Some(folder.to_owned()), ..self }
    }

    fn command(&self) -> Command {
        let mut command = Command::new("git");
        for name in MISLEADING {
            command.env_remove(name);
        }
        // Hooks and watchers of this machine's user are not meant for what is done here.
        let settings =
            ["core.hooksPath=/dev/null", "core.fsmonitor=false", "gc.auto=0", "maintenance.auto=false"];
        let advice = ["advice.addEmbeddedRepo=false", "advice.detachedHead=false", "core.safecrlf=false"];
        let network = ["http.lowSpeedLimit=1000", "http.lowSpeedTime=60", "protocol.version=2"];
        for setting in settings.into_iter().chain(advice).chain(network) {
            command.args(["-c", setting]);
        }
        command
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("LC_ALL", "C");
        if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        if let Some(repository) = &self.repository {
            command.env("GIT_DIR", repository);
        }
        if let Some(folder) = &self.work_tree {
            command.env("GIT_WORK_TREE", folder).current_dir(folder);
        }
        command
    }

    /// Calls git with these arguments, and `input` on its stdin.
    pub(super) async fn answer<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: &[u8],
    ) -> Result<Output, GitError> {
        let what =
            arguments.first().map(|word| word.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        let mut command = self.command();
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the worker, which lets what was begun come to its end.
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn().map_err(GitError::Missing)?;
        let stdin = child.stdin.take();
        let write = async {
            if let Some(mut stdin) = stdin
                && let Err(error) = stdin.write_all(input).await
            {
                tracing::debug!(%error, "git does not read its input");
            }
        };
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        match tokio::time::timeout(MOST_TIME, both).await {
            Ok(output) => output.map_err(GitError::Missing),
            Err(_) => Err(GitError::TimedOut(what)),
        }
    }

    /// Calls git, and returns what it printed.
    pub(super) async fn call<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, GitError> {
        let output = self.answer(arguments, b"").await?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned());
        }
        let what =
            arguments.first().map(|word| word.as_ref().to_string_lossy().into_owned()).unwrap_or_default();
        Err(GitError::Failed { what, said: said(&output) })
    }

    /// Checks whether git succeeds.
    pub(super) async fn succeeds(&self, arguments: &[&str]) -> Result<bool, GitError> {
        Ok(self.answer(arguments, b"").await?.status.success())
    }

    /// Checks whether the repository has the commit.
    pub(super) async fn has(&self, commit: &CommitId) -> Result<bool, GitError> {
        self.succeeds(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).await
    }

    /// Calls git, and returns the paths that it printed, each ended by a zero byte.
    pub(super) async fn paths(&self, arguments: &[&str]) -> Result<Vec<OsString>, GitError> {
        let output = self.answer(arguments, b"").await?;
        if !output.status.success() {
            return Err(GitError::Failed { what: arguments[0].to_owned(), said: said(&output) });
        }
        let paths = output.stdout.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(path_of).collect())
    }
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt as _;
    OsStr::from_bytes(bytes).to_owned()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> OsString {
    String::from_utf8_lossy(bytes).into_owned().into()
}

/// Returns what git said of its failure, in one line.
pub(super) fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return output.status.to_string();
    }
    lines.join("; ").chars().take(MOST_SAID).collect()
}
