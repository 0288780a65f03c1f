//! Commands that a shell runs for hooks and tools: a cleaned environment, a process group of their own that is killed whole,
//! output that is read to its end.

use std::collections::BTreeMap;
use std::path::Path;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// What every command may know of the environment.
const HARMLESS: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "TERM", "TZ"];

/// What of `environment` a command sees: what is harmless, and what is `named`. Keys are not handed on.
pub(crate) fn cleaned(environment: &BTreeMap<String, String>, named: &[String]) -> BTreeMap<String, String> {
    let is_seen = |name: &String| HARMLESS.contains(&name.as_str()) || named.contains(name);
    let seen = environment.iter().filter(|(name, _)| is_seen(name));
    seen.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// `sh -c` in `folder`, which sees `environment` and nothing else, as the head of a process group of its own.
pub(crate) fn shell(folder: &Path, environment: &BTreeMap<String, String>) -> Command {
    keep_memory_to_ourselves();
    let mut command = Command::new("sh");
    command.arg("-c").current_dir(folder).env_clear().envs(environment).kill_on_drop(true);
    #[cfg(unix)]
    command.process_group(0);
    command
}

/// What this process knows, its environment with all keys first, is nothing for what it starts to read from `/proc`.
fn keep_memory_to_ourselves() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Where the kernel refuses, permissions are all there is.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}

/// Kills a command and all that it started, at the latest when it is dropped.
pub(crate) struct Group {
    #[cfg(unix)]
    leader: Option<rustix::process::Pid>,
    /// What stands in the environment of all that belongs to it.
    mark: Option<String>,
}

impl Group {
    #[cfg(unix)]
    pub(crate) fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| rustix::process::Pid::from_raw(i32::try_from(id).ok()?));
        Self { leader, mark: None }
    }

    #[cfg(not(unix))]
    pub(crate) fn of(_: &Child) -> Self {
        Self { mark: None }
    }

    /// The same with whatever has left the group but still has `mark`, such as `NAME=value`, in its environment; where `/proc`
    /// tells.
    pub(crate) fn marked(mut self, mark: String) -> Self {
        self.mark = Some(mark);
        self
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        #[cfg(unix)]
        if let Some(leader) = self.leader {
            // Where nobody is left in it, there is nobody to kill.
            let _ = rustix::process::kill_process_group(leader, rustix::process::Signal::KILL);
        }
        #[cfg(target_os = "linux")]
        if let Some(mark) = &self.mark {
            // Who is killed may have started another in that moment.
            for _ in 0..3 {
                if kill_marked(mark) == 0 {
                    break;
                }
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = &self.mark;
    }
}

/// Kills every process in whose environment `mark` stands; how many there were.
#[cfg(target_os = "linux")]
fn kill_marked(mark: &str) -> usize {
    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
    let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
    let ids = processes.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let mut n_killed = 0;
    for id in ids {
        let is_marked = || {
            let environment = std::fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        if !is_marked() {
            continue;
        }
        let Some(handle) = Pid::from_raw(id).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok()) else {
            continue;
        };
        // The number may have become another's before it was held.
        if is_marked() && pidfd_send_signal(handle, Signal::KILL).is_ok() {
            n_killed += 1;
        }
    }
    n_killed
}

/// Reads a pipe to its end, so that whoever writes to it is never stopped; what to keep of it is up to `take`.
pub(crate) async fn read(pipe: Option<impl AsyncRead + Unpin>, mut take: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut bytes = vec![0; 8 * 1024];
    // What was read before a fault is what there is.
    while let Ok(n @ 1..) = pipe.read(&mut bytes).await {
        take(&bytes[..n]);
    }
}

/// What the tests of all who start processes share.
#[cfg(all(test, target_os = "linux"))]
pub(crate) mod fixture {
    /// Whether the process still runs; one that nobody has reaped yet does not.
    pub(crate) fn runs(id: &str) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| state != 'Z')
    }

    /// Waits, politely for other tasks' sake, until something is found, such as the id that a child has written.
    pub(crate) async fn until<T>(mut found: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(found) = found() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    }
}
