//! The limits of a command: the number of its processes, and the memory that they use together.
//!
//! The supervisor checks them several times a second. The kernel's own limit (`tasks.rs`) is wider, and does
//! not report that it was reached.

use std::fs;

use forge_domain::SandboxPolicy;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::sandbox::Limit;

/// The limits of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    processes: u32,
    memory: u64,
}

impl Limits {
    pub(crate) fn of(policy: &SandboxPolicy) -> Self {
        let usual = || memory_of_machine("MemTotal:").map_or(u64::MAX, |total| total / 4 * 3);
        Self { processes: policy.processes, memory: policy.memory.unwrap_or_else(usual) }
    }

    /// Returns the limit that the processes below this one exceed.
    pub(crate) fn exceeded(self) -> Option<Limit> {
        let may_be_many = tasks_of_machine().is_none_or(|tasks| tasks > self.processes);
        let used = memory_of_machine("MemTotal:").zip(memory_of_machine("MemAvailable:"));
        let may_be_much = used.is_none_or(|(total, available)| total.saturating_sub(available) > self.memory);
        if !may_be_many && !may_be_much {
            return None;
        }
        let family = descendants();
        if family.len() > self.processes as usize {
            return Some(Limit::Processes);
        }
        let memory: u64 = family.iter().map(|id| memory_of(*id)).sum();
        (may_be_much && memory > self.memory).then_some(Limit::Memory)
    }
}

/// Kills the process group of `leader` at once, and then every remaining process below this one.
pub(crate) fn end_all(leader: Pid) {
    // While the kernel kills a group, no process of it can start another, so a bomb cannot outrun this.
    let _ = kill_process_group(leader, Signal::KILL);
    for _ in 0..200 {
        let left = descendants();
        if left.is_empty() {
            return;
        }
        for process in left.into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// Returns the processes that this one has started, and their descendants.
fn descendants() -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = children(own);
    let mut next = 0;
    while let Some(id) = found.get(next).copied() {
        found.extend(children(id));
        next += 1;
    }
    found
}

fn children(id: i32) -> Vec<i32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{id}/task")) else { return Vec::new() };
    let lists =
        threads.flatten().filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns the private memory of a process in bytes.
fn memory_of(id: i32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{id}/statm")).unwrap_or_default();
    let mut pages =
        text.split_ascii_whitespace().skip(1).map(|number| number.parse::<u64>().unwrap_or_default());
    let (resident, shared) = (pages.next().unwrap_or_default(), pages.next().unwrap_or_default());
    resident.saturating_sub(shared) * rustix::param::page_size() as u64
}

/// Returns the number of threads on the machine, as far as this process sees them.
fn tasks_of_machine() -> Option<u32> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Returns a line of the machine's memory in bytes.
fn memory_of_machine(line: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let number = text.lines().find_map(|found| found.strip_prefix(line))?;
    Some(number.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
