//! The supervisor: a process between this one and a command. It ends with both, and then ends all that the
//! command started.
//!
//! It is this very program, started again with one argument. On Linux, whatever the command leaves behind
//! becomes a child of the supervisor, even a daemon with a session of its own and an empty environment. So
//! the supervisor knows what to kill when the command ends, and when the process that started it closes the
//! line between them, dies or is killed. Elsewhere it kills the command's process group.
//!
//! The line is a socket, the supervisor's stdin. Only that socket and this process hold it open, so no
//! thread, signal or process number can be mistaken for the end of the other side.

use std::ffi::OsString;
use std::fs::File;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::OnceLock;
use std::task::Poll;
use std::time::Duration;

use forge_domain::SandboxNetwork;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, wait};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::signal::unix::{Signal as UnixSignal, SignalKind, signal};

use crate::sandbox::launch::{self, Launch, Partial};
#[cfg(target_os = "linux")]
use crate::sandbox::linux::{self, limits::Limits};
use crate::sandbox::order::{self, Order};
use crate::sandbox::{Limit, proxy};

/// The argument that turns this program into a supervisor.
const ARGUMENT: &str = "__supervise";
/// The time that killed processes may take to disappear; one in a system call may take forever.
const PATIENCE: Duration = Duration::from_secs(2);

/// The program to start as a supervisor, once [`supervise_commands`] was called.
static PROGRAM: OnceLock<PathBuf> = OnceLock::new();

/// Enables this program to supervise the commands that its tools, hooks and MCP servers run. Call it first in
/// `main`, and return the exit code if there is one: then this process was started as a supervisor, and its
/// work is done.
///
/// Without this call commands end with their call, but a process that has left its process group and emptied
/// its environment is missed, and commands survive if this process is killed by SIGKILL. They also keep this
/// process's terminal: only a supervisor starts a session of its own.
#[must_use = "return the exit code if there is one: this process is then a supervisor whose work is done"]
pub fn supervise_commands() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        // This must be done before the process opens anything itself.
        #[cfg(target_os = "linux")]
        close_inherited();
        return Some(match supervise(arguments.collect()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                // Only a person who tries it by hand reads this.
                eprintln!("error: Forge starts `{ARGUMENT}` itself, to end commands: {error}");
                ExitCode::from(2)
            }
        });
    }
    // The program itself, whatever has taken the place of its file since.
    let own = Path::new("/proc/self/exe");
    let program = if own.exists() { Some(own.to_owned()) } else { std::env::current_exe().ok() };
    if let Some(program) = program {
        // A second call finds what the first has set.
        let _ = PROGRAM.set(program);
    }
    None
}

/// Closes every file descriptor but the standard ones, which came from whatever started Forge: a terminal, a
/// file with keys, a socket. A command that inherited them could use them in spite of its sandbox.
#[cfg(target_os = "linux")]
fn close_inherited() {
    use rustix::process::{Resource, getrlimit};
    const FIRST: i32 = 3;
    // The numbers that are tried if `/proc` does not list the open ones.
    const MOST: u64 = 1 << 16;
    let open: Vec<i32> = match std::fs::read_dir("/proc/self/fd") {
        Ok(entries) => entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect(),
        Err(_) => {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST);
            (FIRST..i32::try_from(limit).unwrap_or(i32::MAX)).collect()
        }
    };
    for descriptor in open.into_iter().filter(|descriptor| *descriptor >= FIRST) {
        // One that was open while the list was read is closed already.
        let _ = nix::unistd::close(descriptor);
    }
}

/// Returns a command that starts the supervisor of `command`, if this program is one.
pub(crate) fn supervising(command: &[OsString]) -> Option<tokio::process::Command> {
    let mut supervisor = tokio::process::Command::new(PROGRAM.get()?);
    supervisor.arg0("supervise").arg(ARGUMENT).args(command);
    Some(supervisor)
}

/// A report from the supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The command runs, with this process number.
    Started(i32),
    /// The command could not be started, with this error of the operating system.
    Failed(i32),
    /// The command ended with this status, and nothing of it is left.
    Ended(i32),
    /// These parts of its sandbox are enforced.
    Enforced(i32),
    /// The command is about to be killed because it exceeded a limit.
    Exceeded(Limit),
    /// Nothing was started: namespaces are unusable here, and the start must be repeated without them.
    NoNamespaces,
}

impl Report {
    /// The bytes of a report.
    pub(crate) const SIZE: usize = 5;

    fn to_bytes(self) -> [u8; Self::SIZE] {
        let (kind, number) = match self {
            Self::Started(id) => (b's', id),
            Self::Failed(error) => (b'f', error),
            Self::Ended(status) => (b'e', status),
            Self::Enforced(parts) => (b'h', parts),
            Self::Exceeded(Limit::Processes) => (b'x', 0),
            Self::Exceeded(Limit::Memory) => (b'x', 1),
            Self::NoNamespaces => (b'n', 0),
        };
        let [a, b, c, d] = number.to_le_bytes();
        [kind, a, b, c, d]
    }

    /// Returns the report that a command was not started because of `error`.
    fn of_failure(error: &io::Error) -> Self {
        #[cfg(target_os = "linux")]
        if linux::is_useless(error) {
            return Self::NoNamespaces;
        }
        match error.get_ref().and_then(|error| error.downcast_ref()) {
            Some(Partial(parts)) => Self::Enforced(parts.bits()),
            None => Self::Failed(error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error())),
        }
    }

    /// Reads a report; `None` if it is invalid.
    pub(crate) fn read([kind, a, b, c, d]: [u8; Self::SIZE]) -> Option<Self> {
        let number = i32::from_le_bytes([a, b, c, d]);
        match kind {
            b's' => Some(Self::Started(number)),
            b'f' => Some(Self::Failed(number)),
            b'e' => Some(Self::Ended(number)),
            b'h' => Some(Self::Enforced(number)),
            b'x' if number == 0 => Some(Self::Exceeded(Limit::Processes)),
            b'x' if number == 1 => Some(Self::Exceeded(Limit::Memory)),
            b'n' => Some(Self::NoNamespaces),
            _ => None,
        }
    }
}

/// Sends the command's stdin, which is empty if there is none.
pub(crate) fn send_input(line: &UnixStream, input: Option<&impl AsFd>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let handles = input.map(|input| [input.as_fd()]);
    if let Some(handles) = &handles
        && !ancillary.push(SendAncillaryMessage::ScmRights(handles))
    {
        return Err(io::Error::other("cannot pass stdin on"));
    }
    sendmsg(line, &[IoSlice::new(b"i")], &mut ancillary, SendFlags::empty())?;
    Ok(())
}

fn receive_input(line: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = recvmsg(line, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Err(io::Error::other("the parent process is gone"));
    }
    let mut handles = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    Ok(handles.next())
}

/// Runs `command`, and ends it and all that it started when it ends or when the other end of the line is
/// closed.
fn supervise(command: Vec<OsString>) -> io::Result<()> {
    // A session of its own has no terminal, so the command can neither read keys nor paint over a question.
    rustix::process::setsid()?;
    let line = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let input = receive_input(&line)?;
    let order = order::receive(&line)?;
    // This must be done while there is one thread.
    #[cfg(target_os = "linux")]
    let Ok(entered) = order.as_ref().map(linux::enter).transpose() else {
        return (&line).write_all(&Report::NoNamespaces.to_bytes());
    };
    line.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut line = tokio::net::UnixStream::from_std(line)?;
        // Heard before there is anybody to end.
        let mut children = signal(SignalKind::child())?;
        let mut ends = EndSignals::listen()?;
        // A sandbox may refuse it. Then the process group is all that is known.
        #[cfg(target_os = "linux")]
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let begun = start(command, input, |command| {
            #[cfg(target_os = "linux")]
            if let (Some(order), Some(entered)) = (&order, &entered) {
                return launch::start(command, order, entered);
            }
            #[cfg(not(target_os = "linux"))]
            if let Some(order) = &order {
                return launch::start(command, order);
            }
            Launch::plainly(command)
        });
        let Launch { leader, enforced, proxy, held: _held } = match begun {
            Ok(begun) => begun,
            Err(error) => return line.write_all(&Report::of_failure(&error).to_bytes()).await,
        };
        let mut family = Family { leader, status: None, has_children: true };
        if order.is_some() {
            let _ = line.write_all(&Report::Enforced(enforced.bits()).to_bytes()).await;
        }
        // Whether anybody still listens is found out by reading.
        let _ = line.write_all(&Report::Started(leader.as_raw_nonzero().get()).to_bytes()).await;
        serve(proxy, order.as_ref());
        let mut watch = Watch::new(leader, order.as_ref());
        loop {
            family.reap();
            if family.status.is_some() {
                break;
            }
            let mut unused = [0; 16];
            tokio::select! {
                _ = children.recv() => {}
                read = line.read(&mut unused) => if !matches!(read, Ok(1..)) { break },
                limit = watch.wait_until_exceeded() => {
                    let _ = line.write_all(&Report::Exceeded(limit).to_bytes()).await;
                    break;
                }
                () = ends.recv() => break,
            }
        }
        let _ = tokio::time::timeout(PATIENCE, family.end(&mut children)).await;
        // One that does not die was sent the signal at least.
        let status = family.status.unwrap_or(Signal::KILL.as_raw());
        // The other side may be gone, which is why all this was done.
        let _ = line.write_all(&Report::Ended(status).to_bytes()).await;
        Ok(())
    })
}

/// The signals that ask for the end of the command, and must not end the supervisor alone.
struct EndSignals([UnixSignal; 4]);

impl EndSignals {
    fn listen() -> io::Result<Self> {
        let kinds =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup(), SignalKind::quit()];
        let [terminate, interrupt, hang_up, quit] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hang_up?, quit?]))
    }

    /// Waits for any of them.
    async fn recv(&mut self) {
        poll_fn(|context| {
            let is_here = self.0.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
            if is_here { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Prepares the command as the leader of a process group, starts it through `spawn`, and releases its
/// outputs.
fn start(
    mut command: Vec<OsString>,
    input: Option<OwnedFd>,
    spawn: impl FnOnce(Command) -> io::Result<Launch>,
) -> io::Result<Launch> {
    if command.is_empty() {
        return Err(Errno::INVAL.into());
    }
    let arguments = command.split_off(1);
    let mut command = Command::new(&command[0]);
    command.args(arguments).stdin(input.map_or_else(Stdio::null, Stdio::from)).process_group(0);
    let begun = spawn(command)?;
    // Their reader sees their end when the last process of the command closes them.
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(&nothing)?;
    Ok(begun)
}

/// Serves the hosts that an order names, for as long as the runtime lives.
fn serve(proxy: Option<std::net::TcpListener>, order: Option<&Order>) {
    if let (Some(proxy), Some(order)) = (proxy, order)
        && let SandboxNetwork::Hosts(hosts) = &order.policy.network
    {
        tokio::spawn(proxy::serve(proxy, hosts.clone().into()));
    }
}

/// A timer that checks whether the command exceeds a limit.
#[cfg(target_os = "linux")]
struct Watch(Option<(Pid, Limits, tokio::time::Interval)>);

#[cfg(target_os = "linux")]
impl Watch {
    fn new(leader: Pid, order: Option<&Order>) -> Self {
        const PAUSE: Duration = Duration::from_millis(50);
        let limited = |order: &Order| {
            let mut pauses = tokio::time::interval(PAUSE);
            pauses.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            (leader, Limits::of(&order.policy), pauses)
        };
        Self(order.map(limited))
    }

    /// Waits until a limit is exceeded, and kills every process of the command.
    async fn wait_until_exceeded(&mut self) -> Limit {
        let Some((leader, limits, pauses)) = &mut self.0 else { return std::future::pending().await };
        loop {
            pauses.tick().await;
            if let Some(limit) = limits.exceeded() {
                linux::limits::end_all(*leader);
                return limit;
            }
        }
    }
}

/// A watch that counts nothing, for other systems.
#[cfg(not(target_os = "linux"))]
struct Watch;

#[cfg(not(target_os = "linux"))]
impl Watch {
    fn new(_: Pid, _: Option<&Order>) -> Self {
        Self
    }

    async fn wait_until_exceeded(&mut self) -> Limit {
        std::future::pending().await
    }
}

/// The command and all that it has started.
struct Family {
    leader: Pid,
    /// The command's exit status, once it has ended.
    status: Option<i32>,
    has_children: bool,
}

impl Family {
    /// Reaps every process that has ended.
    fn reap(&mut self) {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((id, status))) if id == self.leader => {
                    self.status = Some(status.as_raw());
                    // What it left in its group; its number is not anybody else's in this moment.
                    let _ = kill_process_group(self.leader, Signal::KILL);
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => {
                    self.has_children = false;
                    return;
                }
            }
        }
    }

    /// Kills the command's group and every child: on Linux their children become children of this process in
    /// turn. Returns whether there was a process to kill.
    fn kill(&self) -> bool {
        let mut has_killed = false;
        if self.status.is_none() {
            has_killed |= kill_process_group(self.leader, Signal::KILL).is_ok();
        }
        // The number of a child stays its own until this process has asked for its end.
        for child in children() {
            has_killed |= kill_process(child, Signal::KILL).is_ok();
        }
        has_killed
    }

    /// Kills all of it, again and again until nothing is left. `ended` receives a signal for each end.
    async fn end(&mut self, ended: &mut UnixSignal) {
        let mut pause = Duration::from_millis(1);
        while self.has_children && self.kill() {
            self.reap();
            if self.has_children {
                let _ = tokio::time::timeout(pause, ended.recv()).await;
                self.reap();
                pause = (pause * 2).min(Duration::from_millis(50));
            }
        }
    }
}

/// Returns the children of this process; none if `/proc` does not show them.
fn children() -> Vec<Pid> {
    let numbers = |text: &str| -> Vec<Pid> {
        text.split_ascii_whitespace().filter_map(|id| Pid::from_raw(id.parse().ok()?)).collect()
    };
    // All threads but the first are gone as soon as they have done what they were started for.
    let own = rustix::process::getpid().as_raw_nonzero();
    if let Ok(text) = std::fs::read_to_string(format!("/proc/self/task/{own}/children")) {
        return numbers(&text);
    }
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let parent_of = |id: &str| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // The name in brackets may hold anything, brackets and blanks as well.
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
    };
    processes
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|id| id.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(|id| parent_of(id) == Some(own.get()))
        .flat_map(|id| numbers(&id))
        .collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_written() {
        for report in [
            Report::Started(77),
            Report::Failed(2),
            Report::Ended(9),
            Report::Ended(0x0100),
            Report::Enforced(63),
            Report::Exceeded(Limit::Processes),
            Report::Exceeded(Limit::Memory),
            Report::NoNamespaces,
        ] {
            assert_eq!(Report::read(report.to_bytes()), Some(report));
        }
        assert_eq!(Report::read(*b"x1234"), None);
    }

    #[test]
    fn an_input_is_handed_over() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_input(&ours, None::<&File>).unwrap();
        assert!(receive_input(&theirs).unwrap().is_none());
        let file = tempfile::tempfile().unwrap();
        rustix::io::write(&file, b"text").unwrap();
        send_input(&ours, Some(&file)).unwrap();
        let received = File::from(receive_input(&theirs).unwrap().unwrap());
        assert_eq!(received.metadata().unwrap().len(), 4);
        drop(ours);
        assert!(receive_input(&theirs).is_err());
    }
}
