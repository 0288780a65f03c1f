//! Calls of the `git` command, about repositories that only Forge writes. It never looks at the agent's
//! folder, never asks for a password, and runs no hooks.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use forge_domain::{CommitId, CommitIdError, GitAddress};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

/// The longest time of one call.
pub(super) const MOST_TIME: Duration = Duration::from_secs(15 * 60);
/// The variables by which git would be led to another repository, or to other behaviour.
const MISLEADING: [&str; 10] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_GRAFT_FILE",
];
/// Settings of all calls. What is fetched becomes a pack, which appears whole or not at all.
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.recurseSubmodules=false",
    "push.recurseSubmodules=no",
    "submodule.recurse=false",
    "transfer.unpackLimit=1",
    "fastimport.unpackLimit=1",
    "protocol.version=2",
    "http.lowSpeedLimit=1000",
    "http.lowSpeedTime=60",
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
    #[error("git {what} failed: {said}{}", hint(said))]
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
    /// The workspace has more files than can be kept.
    #[error(
        "the workspace has more than 200,000 files that git does not ignore, or folders that are too deep"
    )]
    TooMany,
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

/// Returns what helps where git asked for a password.
fn hint(said: &str) -> &'static str {
    if said.contains("terminal prompts disabled") || said.contains("could not read Username") {
        "; git asks for a password: give it to git's own helper (git config credential.helper)"
    } else {
        ""
    }
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

/// A repository that only Forge writes.
#[derive(Clone, Debug)]
pub(super) struct Git(PathBuf);

impl Git {
    /// Calls git in the repository whose own folder is `repository`.
    pub(super) fn of(repository: &Path) -> Self {
        Self(repository.to_owned())
    }

    /// Returns the folder of the repository.
    pub(super) fn folder(&self) -> &Path {
        &self.0
    }

    fn command<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Command {
        let mut command = Command::new("git");
        for name in MISLEADING {
            command.env_remove(name);
        }
        for setting in SETTINGS {
            command.args(["-c", setting]);
        }
        command
            .env("GIT_DIR", &self.0)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_NO_LAZY_FETCH", "1")
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_ALLOW_PROTOCOL", "file:git:http:https:ssh")
            .env("LC_ALL", "C")
            // The folder of this process is the agent's.
            .current_dir("/");
        if std::env::var_os("GIT_SSH_COMMAND").is_none() && std::env::var_os("GIT_SSH").is_none() {
            command.env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes");
        }
        command.args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the worker, which lets what was begun come to its end.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// Calls git with these arguments, and `input` as its stdin.
    async fn answer<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: impl Into<Stdio>,
    ) -> Result<Output, GitError> {
        let mut command = self.command(arguments);
        let child = command.stdin(input).spawn().map_err(GitError::Missing)?;
        match tokio::time::timeout(MOST_TIME, child.wait_with_output()).await {
            Ok(output) => output.map_err(GitError::Missing),
            Err(_) => Err(GitError::TimedOut(name_of(arguments))),
        }
    }

    /// Calls git, and returns what it printed.
    pub(super) async fn call<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, GitError> {
        self.call_from(arguments, Stdio::null()).await
    }

    /// Calls git with `input` as its stdin, such as a file, and returns what it printed.
    pub(super) async fn call_from<A: AsRef<OsStr>>(
        &self,
        arguments: &[A],
        input: impl Into<Stdio>,
    ) -> Result<String, GitError> {
        printed(arguments, self.answer(arguments, input).await?)
    }

    /// Calls git with `input` on its stdin, and returns what it printed.
    pub(super) async fn call_with(&self, arguments: &[&str], input: &str) -> Result<String, GitError> {
        let mut child = self.command(arguments).spawn().map_err(GitError::Missing)?;
        let write = write_all(&mut child, input.as_bytes().to_vec());
        let both = async { tokio::join!(write, child.wait_with_output()).1 };
        let output = match tokio::time::timeout(MOST_TIME, both).await {
            Ok(output) => output.map_err(GitError::Missing)?,
            Err(_) => return Err(GitError::TimedOut(name_of(arguments))),
        };
        printed(arguments, output)
    }

    /// Checks whether git succeeds.
    pub(super) async fn succeeds(&self, arguments: &[&str]) -> Result<bool, GitError> {
        Ok(self.answer(arguments, Stdio::null()).await?.status.success())
    }

    /// Checks whether the repository has the commit.
    pub(super) async fn has(&self, commit: &CommitId) -> Result<bool, GitError> {
        self.succeeds(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).await
    }

    /// Calls git, and returns the records that it printed, each ended by a zero byte.
    pub(super) async fn records(&self, arguments: &[&str]) -> Result<Vec<Vec<u8>>, GitError> {
        let output = checked(arguments, self.answer(arguments, Stdio::null()).await?)?;
        let records = output.stdout.split(|byte| *byte == 0).filter(|record| !record.is_empty());
        Ok(records.map(<[u8]>::to_vec).collect())
    }

    /// Reads objects one after the other, and gives each to `take` with its place in `ids`.
    pub(super) async fn read_objects(
        &self,
        ids: &[&str],
        mut take: impl FnMut(usize, Vec<u8>) -> Result<(), GitError>,
    ) -> Result<(), GitError> {
        if ids.is_empty() {
            return Ok(());
        }
        let strange = |said: &str| GitError::Strange { what: "cat-file".to_owned(), said: said.to_owned() };
        let mut child = self.command(&["cat-file", "--batch"]).spawn().map_err(GitError::Missing)?;
        let write = write_all(&mut child, (ids.join("\n") + "\n").into_bytes());
        let stdout = child.stdout.take().ok_or_else(|| strange("no output"))?;
        let read = async {
            let mut stdout = BufReader::new(stdout);
            for at in 0..ids.len() {
                let mut header = String::new();
                stdout.read_line(&mut header).await.map_err(GitError::Missing)?;
                let size = header.trim_end().rsplit(' ').next().and_then(|size| size.parse::<usize>().ok());
                let mut content = vec![0; size.ok_or_else(|| strange(header.trim_end()))?];
                stdout.read_exact(&mut content).await.map_err(GitError::Missing)?;
                stdout.read_u8().await.map_err(GitError::Missing)?;
                take(at, content)?;
            }
            Ok(())
        };
        match tokio::time::timeout(MOST_TIME, async { tokio::join!(write, read).1 }).await {
            Ok(done) => done,
            Err(_) => Err(GitError::TimedOut("cat-file".to_owned())),
        }
    }
}

/// Writes `bytes` to the stdin of `child`, and closes it.
fn write_all(child: &mut Child, bytes: Vec<u8>) -> impl Future<Output = ()> + use<> {
    let stdin = child.stdin.take();
    async move {
        if let Some(mut stdin) = stdin
            && let Err(error) = stdin.write_all(&bytes).await
        {
            tracing::debug!(%error, "git does not read its input");
        }
    }
}

fn name_of<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    arguments.first().map(|word| word.as_ref().to_string_lossy().into_owned()).unwrap_or_default()
}

fn checked<A: AsRef<OsStr>>(arguments: &[A], output: Output) -> Result<Output, GitError> {
    if output.status.success() {
        Ok(output)
    } else {
        Err(GitError::Failed { what: name_of(arguments), said: said(&output) })
    }
}

/// Returns what git printed, if it succeeded.
fn printed<A: AsRef<OsStr>>(arguments: &[A], output: Output) -> Result<String, GitError> {
    let output = checked(arguments, output)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned())
}

/// Returns what git said of its failure, in one line.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return output.status.to_string();
    }
    lines.join("; ").chars().take(MOST_SAID).collect()
}
