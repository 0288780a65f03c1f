//! Landlock: the rules about files to read and write, targets of signals, abstract sockets, and the port to
//! connect to.
//!
//! Landlock knows only allowed paths, each with everything below it. So if a closed path is not covered
//! otherwise, all of its neighbours are allowed, one by one.

use std::fs;
use std::path::{Path, PathBuf};

use forge_domain::{SandboxAccess, SandboxPolicy};
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

/// The newest version of Landlock whose rights are requested; an older kernel grants what it has.
const NEWEST: ABI = ABI::V6;
/// Devices that every command may use.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// The rules for Landlock.
pub(super) struct Wanted<'a> {
    pub(super) policy: &'a SandboxPolicy,
    /// True if `/dev/shm` belongs to the command alone.
    pub(super) has_own_shared_memory: bool,
    /// The only TCP port to which the command may connect, if the network is restricted this way.
    pub(super) only_port: Option<u16>,
}

/// The rules that Landlock enforces.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restricted {
    pub(super) has_files: bool,
    pub(super) has_scopes: bool,
    pub(super) has_port: bool,
}

/// Restricts the calling thread.
pub(super) fn restrict(wanted: &Wanted<'_>) -> Restricted {
    // A kernel that cannot hold the port refuses the rule; the others hold without it.
    if wanted.only_port.is_some()
        && let Ok(restricted) = restrict_with(wanted, wanted.only_port)
    {
        return restricted;
    }
    restrict_with(wanted, None).unwrap_or_default()
}

fn restrict_with(wanted: &Wanted<'_>, port: Option<u16>) -> Result<Restricted, RulesetError> {
    let mut ruleset =
        Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?.scope(Scope::from_all(NEWEST))?;
    if port.is_some() {
        ruleset = ruleset
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::ConnectTcp)?
            .set_compatibility(CompatLevel::BestEffort);
    }
    let mut created = with_rules(ruleset.create()?, wanted)?;
    if let Some(port) = port {
        created = created.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let status = created.restrict_self()?;
    let has_files = status.ruleset != RulesetStatus::NotEnforced;
    let has_scopes = matches!(status.landlock, LandlockStatus::Available { effective_abi, .. } if effective_abi >= ABI::V6);
    Ok(Restricted { has_files, has_scopes, has_port: has_files && port.is_some() })
}

fn with_rules(created: RulesetCreated, wanted: &Wanted<'_>) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    // A device file in the workspace would be a way to the device.
    let write: BitFlags<AccessFs> = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let shared = wanted.has_own_shared_memory.then_some("/dev/shm");
    created
        // Names may be listed everywhere: Landlock cannot hide them from those who guess.
        .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
        .add_rules(path_beneath_rules(readable(wanted.policy), read))?
        .add_rules(path_beneath_rules(&wanted.policy.write, write))?
        .add_rules(path_beneath_rules(shared, write))?
        .add_rules(path_beneath_rules(DEVICES, device))
}

/// Returns the largest folders and files whose whole content may be read.
pub(super) fn readable(policy: &SandboxPolicy) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(policy, Path::new("/"), &mut found);
    found
}

fn collect(policy: &SandboxPolicy, path: &Path, found: &mut Vec<PathBuf>) {
    // What may be written has a rule of its own; what is closed in it is hidden otherwise.
    if policy.access(path) == SandboxAccess::Write {
        return;
    }
    if !policy.has_exceptions_below(path) {
        if policy.access(path) > SandboxAccess::Closed {
            found.push(path.to_owned());
        }
        return;
    }
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        // A link's target is allowed, or not, where it is.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            collect(policy, &entry.path(), found);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn around_what_is_closed_its_neighbours_are_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        for name in
            ["home/.ssh", "home/.config/gh", "home/.config/other", "home/work", "other/shared", "other/rest"]
        {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("home/.ssh"), root.join("home/link")).unwrap();
        let policy = SandboxPolicy {
            write: vec![root.join("home/work")],
            closed: vec![
                root.join("home/.ssh"),
                root.join("home/.config/gh"),
                root.join("home/.aws"),
                root.join("other"),
            ],
            open: vec![root.join("other/shared")],
            network: forge_domain::SandboxNetwork::None,
            processes: 1,
            memory: None,
            is_required: false,
        };
        let mut found = readable(&policy);
        found.retain(|path| path.starts_with(&root));
        found.sort();
        assert_eq!(found, [root.join("home/.config/other"), root.join("other/shared")]);
    }
}
