//! The rights of a command, decided from the settings and from where things are, in plain data.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::settings::{Sandbox, SandboxMissing};
use super::values::SandboxNetwork;
use crate::settings::key_places::key_places;

/// The paths that the sandbox has to know. All are absolute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxPlaces {
    /// The workspace.
    pub workspace: PathBuf,
    /// The folder of this run's own for temporary files.
    pub temporary: PathBuf,
    /// The home folder that `~` means.
    pub home: Option<PathBuf>,
    /// Every home folder of this user: keys are looked for in each.
    pub homes: Vec<PathBuf>,
    /// The home folders of other users.
    pub others: Vec<PathBuf>,
    /// Forge's own configuration and stores.
    pub own: Vec<PathBuf>,
}

/// The access that a command has to a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SandboxAccess {
    /// Neither read nor write it.
    Closed,
    /// Read it.
    Read,
    /// Read and write it.
    Write,
}

/// The rights of a command. Forge decides them, and the command's supervisor enforces them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxPolicy {
    /// Paths that may be written, with all below them.
    pub write: Vec<PathBuf>,
    /// Paths that may be neither read nor written, with all below them.
    pub closed: Vec<PathBuf>,
    /// Paths that may be read although something above them is closed.
    pub open: Vec<PathBuf>,
    /// The network that may be reached.
    pub network: SandboxNetwork,
    /// Most processes at the same time.
    pub processes: u32,
    /// Most memory in bytes of all processes together; unset if the machine's memory decides.
    pub memory: Option<u64>,
    /// True if no command runs on a system that cannot enforce this.
    pub is_required: bool,
}

/// Most processes of a command where nothing else is configured.
const PROCESSES: u32 = 2048;

/// Devices, and the files and folders of the machine that hold keys and passwords.
const SYSTEM: [&str; 15] = [
    "/dev",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/kubernetes",
    "/run/secrets",
    "/run/credentials",
    "/run/user",
];

impl SandboxPolicy {
    /// Decides what commands may do by these settings, where things are in these places.
    pub fn decide(settings: &Sandbox, places: &SandboxPlaces) -> Self {
        let home = places.home.as_deref();
        let named = |paths: &Option<Vec<super::SandboxPath>>| -> Vec<PathBuf> {
            paths.iter().flatten().filter_map(|path| path.resolve(home)).collect()
        };
        let mut write = vec![places.workspace.clone(), places.temporary.clone()];
        write.extend(named(&settings.write));
        let keys = places.homes.iter().flat_map(|home| key_places().map(|key| home.join(key)));
        let system = SYSTEM.iter().map(PathBuf::from);
        let closed =
            places.others.iter().cloned().chain(keys).chain(system).chain(places.own.iter().cloned());
        let mut open = places.homes.clone();
        open.extend(named(&settings.read));
        Self {
            write,
            closed: closed.collect(),
            open,
            network: settings.network.clone().unwrap_or_default(),
            processes: settings.processes.map_or(PROCESSES, u32::from),
            memory: settings.memory.map(super::MemorySize::bytes),
            is_required: settings.if_missing == Some(SandboxMissing::Deny),
        }
    }

    /// Returns what a command may do with a path. Of all rules about it the one about the longest path
    /// counts, and among those about the same path the most permissive: it was named by a person.
    pub fn access(&self, path: &Path) -> SandboxAccess {
        let rules = [
            (&self.closed, SandboxAccess::Closed),
            (&self.open, SandboxAccess::Read),
            (&self.write, SandboxAccess::Write),
        ];
        let all = rules.into_iter().flat_map(|(paths, access)| paths.iter().map(move |rule| (rule, access)));
        let about = all.filter(|(rule, _)| path.starts_with(rule));
        let longest = about.max_by_key(|(rule, access)| (rule.components().count(), *access));
        longest.map_or(SandboxAccess::Read, |(_, access)| access)
    }

    /// Returns whether something below this path is closed while the path is open, or open while the path is
    /// closed.
    pub fn has_exceptions_below(&self, path: &Path) -> bool {
        let is_below = |rule: &PathBuf| rule != path && rule.starts_with(path);
        match self.access(path) {
            SandboxAccess::Closed => self.open.iter().chain(&self.write).any(is_below),
            SandboxAccess::Read | SandboxAccess::Write => self.closed.iter().any(is_below),
        }
    }

    /// Returns what is closed although what holds it may be written.
    pub fn closed_within_writable(&self) -> impl Iterator<Item = &Path> {
        let is_held = |path: &&PathBuf| self.write.iter().any(|held| *path != held && path.starts_with(held));
        let is_closed = |path: &&PathBuf| self.access(path) == SandboxAccess::Closed;
        self.closed.iter().filter(is_held).filter(is_closed).map(PathBuf::as_path)
    }

    /// Returns the writable folders on the way to what is closed within them, outer ones first. A command
    /// that renames one could put another in its place.
    pub fn ways_to_closed(&self) -> Vec<&Path> {
        let above = self.closed_within_writable().flat_map(|path| path.ancestors().skip(1));
        let is_within =
            |folder: &&Path| self.write.iter().any(|held| folder != held && folder.starts_with(held));
        let mut ways: Vec<&Path> = above.filter(is_within).collect();
        ways.sort();
        ways.dedup();
        ways
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn places() -> SandboxPlaces {
        SandboxPlaces {
            workspace: "/home/me/work".into(),
            temporary: "/tmp/forge-1".into(),
            home: Some("/home/me".into()),
            homes: vec!["/home/me".into(), "/srv/me".into()],
            others: vec!["/home/you".into(), "/root".into()],
            own: vec!["/data/forge/e.db".into()],
        }
    }

    fn policy(yaml: &str) -> SandboxPolicy {
        SandboxPolicy::decide(&serde_saphyr::from_str(yaml).unwrap(), &places())
    }

    #[test]
    fn the_longest_rule_counts() {
        use SandboxAccess::{Closed, Read, Write};
        let usual = "{}";
        let loose = "{write: [~/.cache/x, ~/.aws], read: [~/.ssh/known_hosts, /home/you/shared]}";
        for (yaml, path, expected) in [
            (usual, "/home/me/work/a/b", Write),
            (usual, "/home/me/work", Write),
            (usual, "/home/me/workshop", Read),
            (usual, "/tmp/forge-1/x", Write),
            (usual, "/tmp/other", Read),
            (usual, "/usr/bin/sh", Read),
            (usual, "/home/me/.ssh/id_rsa", Closed),
            (usual, "/srv/me/.ssh/id_rsa", Closed),
            (usual, "/home/me/.config/gh/hosts.yml", Closed),
            (usual, "/home/me/.config/other", Read),
            (usual, "/home/you/a", Closed),
            (usual, "/root", Closed),
            (usual, "/etc/shadow", Closed),
            (usual, "/etc/passwd", Read),
            (usual, "/data/forge/e.db", Closed),
            (loose, "/home/me/.cache/x/y", Write),
            (loose, "/home/me/.cache", Read),
            (loose, "/home/me/.aws/credentials", Write),
            (loose, "/home/me/.ssh/known_hosts", Read),
            (loose, "/home/me/.ssh/id_rsa", Closed),
            (loose, "/home/you/shared/a", Read),
            (loose, "/home/you/a", Closed),
        ] {
            assert_eq!(policy(yaml).access(Path::new(path)), expected, "{yaml} {path}");
        }
    }

    #[test]
    fn an_exception_below_a_path_is_found() {
        let policy = policy("{read: [/home/you/shared]}");
        for (path, expected) in [
            ("/", true),
            ("/home/me", true),
            ("/home/me/.config", true),
            ("/home/me/.ssh", false),
            ("/home/me/work", false),
            ("/home/you", true),
            ("/root", false),
            ("/tmp", false),
        ] {
            assert_eq!(policy.has_exceptions_below(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn what_is_closed_stays_closed_inside_what_may_be_written() {
        let places = SandboxPlaces { workspace: "/home/me".into(), ..places() };
        let policy = SandboxPolicy::decide(&Sandbox::default(), &places);
        assert_eq!(policy.access(Path::new("/home/me/.ssh/id_rsa")), SandboxAccess::Closed);
        let within: Vec<&Path> = policy.closed_within_writable().collect();
        assert_eq!(within.len(), key_places().count());
        assert_eq!(within[0], Path::new("/home/me/.ssh"));
        let ways = policy.ways_to_closed();
        for (path, expected) in [
            ("/home/me", false),
            ("/home/me/.config", true),
            ("/home/me/.local/state", true),
            ("/data", false),
        ] {
            assert_eq!(ways.contains(&Path::new(path)), expected, "{path}");
        }
    }
}
