//! Commands that run for hooks, tools and MCP servers: their environment is cleaned, everything that they
//! start is ended, and their output is read to its end.
//!
//! A command has a supervisor if the program offers one (`supervisor.rs`): then nothing that the command
//! started outlives it or this process. Otherwise its process group is killed, and every process with its
//! mark.

#[cfg(unix)]
mod line;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
#[cfg(unix)]
use std::os::{fd::OwnedFd, unix::net::UnixStream};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use forge_domain::HARMLESS_VARIABLES;
#[cfg(unix)]
use tokio::io::AsyncWriteExt;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

#[cfg(unix)]
use self::line::Line;
#[cfg(unix)]
use crate::sandbox::order::{self, Order};
use crate::sandbox::{CommandSandbox, Enforced, Limit};
#[cfg(unix)]
use crate::supervisor::{self, Report};

/// Variables by which programs start an editor, a pager or a question for a password. A command has no
/// terminal, so each would wait until the time limit: editors fail at once, and pagers print.
const WITHOUT_A_PERSON: [(&str, &str); 5] = [
    ("EDITOR", "false"),
    ("VISUAL", "false"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
];
/// The same for git, as settings that come after those of files: `git -c core.editor=true` has its way.
const WITHOUT_AN_EDITOR: [(&str, &str); 5] = [
    ("GIT_CONFIG_COUNT", "2"),
    ("GIT_CONFIG_KEY_0", "core.editor"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_CONFIG_KEY_1", "sequence.editor"),
    ("GIT_CONFIG_VALUE_1", "false"),
];
/// The variables of which one says that there is an editor, or has settings of its own.
const EDITORS: [&str; 5] = ["EDITOR", "VISUAL", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_CONFIG_COUNT"];

/// Returns the part of `environment` that a command sees: the harmless variables and those that are `named`.
/// Keys are not passed on. No program waits for a person, unless its variable is named.
pub(crate) fn clean_environment(
    environment: &BTreeMap<String, String>,
    named: &[String],
) -> BTreeMap<String, String> {
    let is_seen = |name: &String| HARMLESS_VARIABLES.contains(&name.as_str()) || named.contains(name);
    let seen = environment.iter().filter(|(name, _)| is_seen(name));
    let has_editor = named.iter().any(|name| EDITORS.contains(&name.as_str()));
    let git = WITHOUT_AN_EDITOR.into_iter().filter(|_| !has_editor);
    let fixed = WITHOUT_A_PERSON.into_iter().filter(|(name, _)| !named.iter().any(|named| named == name));
    let fixed = fixed.chain(git).map(|(name, value)| (name.to_owned(), value.to_owned()));
    fixed.chain(seen.map(|(name, value)| (name.clone(), value.clone()))).collect()
}

/// A command to start.
pub(crate) struct Program {
    /// The program and its arguments.
    pub(crate) command: Vec<OsString>,
    /// The folder in which it runs; the current one if there is none.
    pub(crate) folder: Option<PathBuf>,
    /// Its whole environment, apart from [`MARK`].
    pub(crate) environment: BTreeMap<String, String>,
    /// True if it gets a pipe as stdin, instead of an empty one.
    pub(crate) has_input: bool,
    /// True if its stderr can be read, instead of being discarded.
    pub(crate) has_errors: bool,
    /// The sandbox in which it runs, if any.
    pub(crate) sandbox: Option<Arc<CommandSandbox>>,
}

/// The variable that marks the processes of one command if there is no supervisor.
const MARK: &str = "FORGE_CALL";

impl Program {
    /// Returns `sh -c` with these arguments.
    pub(crate) fn shell(folder: &Path, environment: &BTreeMap<String, String>, arguments: &[&str]) -> Self {
        let command = ["sh", "-c"].iter().chain(arguments).map(OsString::from).collect();
        let (folder, environment) = (Some(folder.to_owned()), environment.clone());
        Self { command, folder, environment, has_input: false, has_errors: false, sandbox: None }
    }

    /// Starts it as the leader of a process group of its own.
    ///
    /// # Errors
    /// Fails with the operating system's error if it cannot be started.
    pub(crate) async fn start(&self) -> io::Result<Running> {
        static STARTED: AtomicU64 = AtomicU64::new(0);
        keep_memory_to_ourselves();
        let mark = format!("{}-{}", std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        #[cfg(unix)]
        if let Some(supervisor) = supervisor::supervising(&self.command) {
            match self.start_supervised(supervisor, &mark).await {
                Ok(Start::Done(started)) => return started.map(|running| *running),
                Ok(Start::Again) => {
                    order::do_without_namespaces();
                    return Box::pin(self.start()).await;
                }
                // Without its supervisor it has no sandbox.
                Err(error) if self.sandbox.is_some() => return Err(error),
                Err(error) => tracing::warn!("a command runs without its supervisor: {error}"),
            }
        }
        if let Some(sandbox) = &self.sandbox {
            sandbox.judge(Enforced::default())?;
        }
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]).kill_on_drop(true);
        self.set_up(&mut command, &mark);
        // Ctrl-C is for this process, which ends commands in an orderly way.
        #[cfg(unix)]
        command.process_group(0);
        #[cfg(unix)]
        let stdin = {
            let (read, write) = self.input()?;
            command.stdin(read.map_or_else(Stdio::null, Stdio::from));
            write
        };
        #[cfg(not(unix))]
        command.stdin(if self.has_input { Stdio::piped() } else { Stdio::null() });
        let mut child = command.spawn()?;
        let group = Group::of(&child).with_mark(mark);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        #[cfg(not(unix))]
        let stdin = child.stdin.take();
        Ok(Running {
            stdin,
            stdout,
            stderr,
            child,
            group: Some(group),
            exceeded: None,
            #[cfg(unix)]
            line: None,
        })
    }

    fn set_up(&self, command: &mut Command, mark: &str) {
        let mut environment = self.environment.clone();
        if let Some(sandbox) = &self.sandbox {
            sandbox.add_to(&mut environment);
        }
        command.env_clear().envs(&environment).env(MARK, mark);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdout(Stdio::piped());
        command.stderr(if self.has_errors { Stdio::piped() } else { Stdio::null() });
    }

    /// Returns both ends of stdin, if it has one.
    #[cfg(unix)]
    fn input(&self) -> io::Result<(Option<OwnedFd>, Option<Input>)> {
        if !self.has_input {
            return Ok((None, None));
        }
        let (read, write) = io::pipe()?;
        Ok((Some(read.into()), Some(Input::from_owned_fd(write.into())?)))
    }

    /// Starts it below `supervisor`. The outer error means that there is no supervisor and nothing was
    /// started.
    #[cfg(unix)]
    async fn start_supervised(&self, mut supervisor: Command, mark: &str) -> io::Result<Start> {
        let (read, stdin) = self.input()?;
        let (ours, theirs) = UnixStream::pair()?;
        supervisor::send_input(&ours, read.as_ref())?;
        drop(read);
        let order = self.sandbox.as_ref().map(|sandbox| {
            sandbox.create_own_folders();
            Order::to_enforce(sandbox.policy())
        });
        ours.set_nonblocking(true)?;
        let stream = tokio::net::UnixStream::from_std(ours)?;
        // The leader of a process group could not start a session of its own, as the supervisor does at once.
        self.set_up(&mut supervisor, mark);
        supervisor.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut child = supervisor.spawn()?;
        // It holds their end of the line, which must not stay open here.
        drop(supervisor);
        let mut line = Line::new(stream, &child, mark);
        line.send(order.as_ref()).await?;
        let leader = loop {
            match line.report().await {
                Ok(Report::Enforced(parts)) => {
                    if let Some(sandbox) = &self.sandbox
                        && let Err(error) = sandbox.judge(Enforced::from_bits(parts))
                    {
                        // Closing the line ends it before it has done much.
                        return Ok(Start::Done(Err(error)));
                    }
                }
                Ok(Report::NoNamespaces) => return Ok(Start::Again),
                Ok(Report::Started(id)) => break id,
                Ok(Report::Failed(error)) => {
                    return Ok(Start::Done(Err(io::Error::from_raw_os_error(error))));
                }
                Ok(Report::Ended(_) | Report::Exceeded(_)) | Err(_) => {
                    // The command may have begun, and have killed it: it must not be started again.
                    drop(Group { leader: None, mark: Some(mark.to_owned()) });
                    return Ok(Start::Done(Err(io::Error::other("its supervisor was killed"))));
                }
            }
        };
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let group = Some(Group { leader: rustix::process::Pid::from_raw(leader), mark: None });
        let running = Running { stdin, stdout, stderr, child, group, exceeded: None, line: Some(line) };
        Ok(Start::Done(Ok(Box::new(running))))
    }
}

/// The result of a start below a supervisor.
#[cfg(unix)]
enum Start {
    /// The command runs, or could not be started.
    Done(io::Result<Box<Running>>),
    /// Nothing was started, and the start must be repeated without namespaces.
    Again,
}

/// Runs an empty command in this sandbox, and describes what the system does not enforce.
///
/// # Errors
/// Fails if it cannot be started.
pub async fn examine_sandbox(sandbox: &Arc<CommandSandbox>) -> io::Result<Vec<&'static str>> {
    let mut program = Program::shell(sandbox.workspace(), &BTreeMap::new(), &[":"]);
    program.sandbox = Some(Arc::clone(sandbox));
    program.start().await?.wait().await?;
    Ok(sandbox.lacks())
}

/// The writing end of a command's stdin.
#[cfg(unix)]
pub(crate) type Input = tokio::net::unix::pipe::Sender;
/// The writing end of a command's stdin.
#[cfg(not(unix))]
pub(crate) type Input = tokio::process::ChildStdin;

/// A running command. It ends, with all that it started, at the latest when this is dropped.
pub(crate) struct Running {
    pub(crate) stdin: Option<Input>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
    /// The line to the supervisor. It is closed before the supervisor's process number can be reused.
    #[cfg(unix)]
    line: Option<Line>,
    /// The command, or its supervisor.
    child: Child,
    /// The processes that this process kills; `None` once all have ended.
    group: Option<Group>,
    /// The limit of its sandbox for which it was killed.
    exceeded: Option<Limit>,
}

impl Running {
    /// Returns the limit of its sandbox for which it was killed, if it was.
    pub(crate) const fn exceeded(&self) -> Option<Limit> {
        self.exceeded
    }

    /// Waits for the command to end. By then, everything that it started has ended too.
    ///
    /// # Errors
    /// Fails also if its supervisor was killed.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        #[cfg(unix)]
        if let Some(line) = &mut self.line {
            let mut report = line.report().await.ok();
            if let Some(Report::Exceeded(limit)) = report {
                self.exceeded = Some(limit);
                report = line.report().await.ok();
            }
            return self.supervised_status(report);
        }
        let status = self.child.wait().await;
        self.group = None;
        status
    }

    /// Ends the command and all that it started, and waits for that, except for processes that cannot be
    /// ended.
    pub(crate) async fn end(mut self) {
        const PATIENCE: Duration = Duration::from_secs(5);
        #[cfg(unix)]
        if let Some(line) = &mut self.line {
            line.wake();
            // Where it is closed already, it is about to end.
            let _ = line.stream.shutdown().await;
            let _ = tokio::time::timeout(PATIENCE, self.wait()).await;
            return;
        }
        self.group = None;
        let _ = tokio::time::timeout(PATIENCE, self.child.wait()).await;
    }

    /// Checks whether the command has ended.
    #[cfg(feature = "mcp")]
    pub(crate) fn has_ended(&mut self) -> bool {
        #[cfg(unix)]
        if let Some(line) = &mut self.line {
            if line.ended.is_some() {
                return true;
            }
            return match line.report_now() {
                None => false,
                Some(Ok(Report::Exceeded(limit))) => {
                    self.exceeded = Some(limit);
                    false
                }
                Some(report) => {
                    let _ = self.supervised_status(report.ok());
                    true
                }
            };
        }
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Derives the exit status from the supervisor's report, or from its absence.
    #[cfg(unix)]
    fn supervised_status(&mut self, report: Option<Report>) -> io::Result<ExitStatus> {
        use std::os::unix::process::ExitStatusExt;
        if let Some(Report::Ended(status)) = report {
            // Nothing is left of it, and its number may be another's soon.
            if let Some(group) = &mut self.group {
                group.leader = None;
            }
            self.group = None;
            return Ok(ExitStatus::from_raw(status));
        }
        let mark = self.line.as_ref().map(|line| line.mark.clone());
        if let (Some(group), Some(mark)) = (self.group.take(), mark) {
            drop(group.with_mark(mark));
        }
        Err(io::Error::other("its supervisor was killed"))
    }
}

/// Prevents the commands that it starts from reading this process in `/proc`, above all its environment with
/// all keys.
fn keep_memory_to_ourselves() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Where the kernel refuses, permissions are all there is.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// A command's processes, which are killed at the latest when this is dropped.
struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
    /// The value of [`MARK`] in the environment of its processes.
    mark: Option<String>,
}

impl Group {
    #[cfg(unix)]
    fn of(child: &Child) -> Self {
        Self { leader: pid_of(child), mark: None }
    }

    #[cfg(not(unix))]
    fn of(_: &Child) -> Self {
        Self { mark: None }
    }

    /// Adds every process that has left the group but still has `mark` in its environment, if `/proc` shows
    /// it.
    fn with_mark(mut self, mark: String) -> Self {
        self.mark = Some(mark);
        self
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader {
            // An empty group has no process to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
        #[cfg(target_os = "linux")]
        if let Some(mark) = &self.mark {
            // A process may start another just before it is killed, and has no environment for a moment
            // while it starts a program.
            for _ in 0..MOST_SEARCHES {
                let found = kill_marked(&format!("{MARK}={mark}"));
                if found.killed == 0 && found.unknown == 0 {
                    break;
                }
                if found.killed == 0 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = &self.mark;
    }
}

/// Returns the process number of a child that was not waited for yet.
#[cfg(unix)]
fn pid_of(child: &Child) -> Option<rustix::process::Pid> {
    child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?))
}

/// The most searches for marked processes: some programs have no environment at all.
#[cfg(target_os = "linux")]
const MOST_SEARCHES: usize = 5;

/// The result of a search for marked processes.
#[cfg(target_os = "linux")]
#[derive(Default)]
struct Search {
    killed: usize,
    /// Processes whose environment is empty, as while they start a program.
    unknown: usize,
}

/// Kills every process with `mark` in its environment.
#[cfg(target_os = "linux")]
fn kill_marked(mark: &str) -> Search {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let mut search = Search::default();
    let Ok(processes) = std::fs::read_dir("/proc") else { return search };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    for id in ids {
        let Ok(environment) = std::fs::read(format!("/proc/{id}/environ")) else { continue };
        // Threads of the kernel and processes that have ended have no program.
        if environment.is_empty() && std::fs::read_link(format!("/proc/{id}/exe")).is_ok() {
            search.unknown += 1;
        }
        let is_marked = |environment: &[u8]| {
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        if !is_marked(&environment) {
            continue;
        }
        let Some(handle) = Pid::from_raw(id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
            continue;
        };
        // The number may have become another's before it was held.
        let is_still = std::fs::read(format!("/proc/{id}/environ")).is_ok_and(|now| is_marked(&now));
        if is_still && pidfd_send_signal(handle, Signal::KILL).is_ok() {
            search.killed += 1;
        }
    }
    search
}

/// Reads a pipe to its end, so that its writer never blocks; `take` decides what to keep of it.
pub(crate) async fn read(pipe: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut bytes = vec![0; 8 * 1024];
    // What was read before a fault is what there is.
    while let Ok(n @ 1..) = pipe.read(&mut bytes).await {
        take(&bytes[..n]);
    }
}

/// Helpers for all tests that start processes.
#[cfg(all(test, target_os = "linux"))]
pub(crate) mod fixture {
    /// Checks whether the process still runs; a zombie does not.
    pub(crate) fn runs(id: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| state != 'Z')
    }

    /// Waits, without blocking other tasks, until something is found, such as the id that a child has
    /// written.
    pub(crate) async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    }
}
