//! The kernel's limit on the processes and threads of a command. It is a control group if one can be created,
//! else a resource limit, which counts for one command alone only in a user namespace of its own, and never
//! for root.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use forge_domain::SandboxPolicy;
use rustix::process::{Resource, Rlimit, setrlimit};

/// The threads of one process that the kernel's limit allows for; the supervisor counts processes.
const THREADS: u32 = 4;
/// The beginning of our control groups' names, before the number of their supervisor.
const NAME: &str = "forge-command-";

/// A limit on this process and all that it starts; dropping it lifts the limit.
#[derive(Debug)]
pub(crate) struct TaskLimit {
    /// The control group, and the previous one of this process.
    groups: Option<(PathBuf, PathBuf)>,
    has_resource_limit: bool,
}

impl TaskLimit {
    /// Limits this process and all that it starts, as far as the kernel can.
    pub(super) fn set(policy: &SandboxPolicy, is_own_user: bool) -> Self {
        let most = policy.processes.saturating_mul(THREADS);
        let has_resource_limit = is_own_user && {
            let limit = Some(u64::from(most));
            setrlimit(Resource::Nproc, Rlimit { current: limit, maximum: limit }).is_ok()
        };
        let groups = if has_resource_limit { None } else { join_group(most) };
        Self { groups, has_resource_limit }
    }

    /// Checks whether the kernel counts.
    pub(super) const fn holds(&self) -> bool {
        self.has_resource_limit || self.groups.is_some()
    }
}

impl Drop for TaskLimit {
    fn drop(&mut self) {
        if let Some((own, before)) = &self.groups {
            // One that stays is removed by the next supervisor.
            let _ = move_to(before);
            let _ = fs::remove_dir(own);
        }
    }
}

/// Creates a control group and joins it; returns it and the previous one.
fn join_group(most: u32) -> Option<(PathBuf, PathBuf)> {
    let (before, parents) = places()?;
    parents.iter().find_map(|parent| {
        remove_abandoned(parent);
        let own = parent.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&own).ok()?;
        let joined = fs::write(own.join("pids.max"), most.to_string()).and_then(|()| move_to(&own));
        if joined.is_err() {
            let _ = fs::remove_dir(&own);
            return None;
        }
        Some((own, before.clone()))
    })
}

fn move_to(group: &Path) -> io::Result<()> {
    fs::write(group.join("cgroup.procs"), std::process::id().to_string())
}

/// Returns the control group of this process, and those in which a new one can be tried.
fn places() -> Option<(PathBuf, Vec<PathBuf>)> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    let root = Path::new("/sys/fs/cgroup");
    let of = |line: &str| -> Option<(PathBuf, Vec<PathBuf>)> {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?.trim_start_matches('/'));
        match controllers {
            // All controllers in one tree: beside this group, as one with processes has no groups with limits
            // below it.
            "" => {
                let own = root.join(path);
                let beside = own.parent().filter(|parent| parent.starts_with(root)).map(Path::to_owned);
                Some((own.clone(), beside.into_iter().chain([own]).collect()))
            }
            controllers if controllers.split(',').any(|name| name == "pids") => {
                let own = root.join(controllers).join(path);
                Some((own.clone(), vec![own]))
            }
            _ => None,
        }
    };
    let found: Vec<_> = text.lines().filter_map(of).collect();
    // A tree of its own for this controller has it; the common one does not then.
    found.iter().find(|(own, _)| !own.join("cgroup.controllers").exists()).or(found.first()).cloned()
}

/// Removes groups whose supervisor was killed.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(id) = name.to_str().and_then(|name| name.strip_prefix(NAME)) else { continue };
        if !Path::new("/proc").join(id).exists() {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
