//! The settings of the sandbox in YAML.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::values::{MemorySize, SandboxNetwork, SandboxPath, common};

/// The sandbox in which commands of `shell`, hooks and MCP servers run. They write the workspace and their
/// temporary folder, read what holds no keys, and reach no network. Your own forge.yaml can allow more; a
/// project's can only allow less.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// The network that commands reach: `none`, `all`, or a list of hosts such as `crates.io`, `*.npmjs.org`
    /// and `localhost:5432`. Listed hosts are reached by HTTP and HTTPS, through a proxy that Forge runs.
    /// Default `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "none", "examples" = [["crates.io", "*.npmjs.org"]]))]
    pub network: Option<SandboxNetwork>,
    /// Files and folders that commands may write besides the workspace, such as `~/.cache/pip`. A folder that
    /// does not exist is created. Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["~/.cache/pip"]]))]
    pub write: Option<Vec<SandboxPath>>,
    /// Files and folders that commands may read although they are closed by default, such as `~/.npmrc`.
    /// Unset: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["~/.npmrc"]]))]
    pub read: Option<Vec<SandboxPath>>,
    /// Runs commands without a sandbox. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub off: Option<bool>,
    /// Reaction to a system that cannot enforce the sandbox: `proceed` with a notice, or `deny` every
    /// command. Default `proceed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "proceed", "examples" = ["deny"]))]
    pub if_missing: Option<SandboxMissing>,
    /// Most processes of one command at the same time; the command is killed if it starts more. Default 2048.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 2048, "examples" = [500]))]
    pub processes: Option<NonZeroU32>,
    /// Most memory of one command and all that it starts, such as `512M` or `4G`; the command is killed if it
    /// takes more. Unset: three quarters of the machine's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["4G"]))]
    pub memory: Option<MemorySize>,
}

/// The reaction to a system that cannot enforce the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxMissing {
    /// Commands run, and a notice says what is not enforced.
    #[default]
    Proceed,
    /// No command runs.
    Deny,
}

/// The choice of a sandbox on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxMode {
    /// The sandbox is on, as the files configure it.
    On,
    /// There is no sandbox.
    Off,
    /// The sandbox is on, and the whole network can be reached.
    Network,
}

impl Sandbox {
    /// Returns these settings as far as `project` allows them: of each key the stricter value counts. A
    /// project adds nothing.
    #[must_use]
    pub fn tighten(&self, project: &Self) -> Self {
        let network = self.network.clone().unwrap_or_default();
        Self {
            network: match &project.network {
                Some(theirs) => Some(network.intersection(theirs)),
                None => self.network.clone(),
            },
            write: intersection(self.write.as_deref(), project.write.as_deref()),
            read: intersection(self.read.as_deref(), project.read.as_deref()),
            off: match project.off {
                Some(false) => Some(false),
                _ => self.off,
            },
            if_missing: match project.if_missing {
                Some(SandboxMissing::Deny) => Some(SandboxMissing::Deny),
                _ => self.if_missing,
            },
            processes: smaller(self.processes, project.processes),
            memory: smaller(self.memory, project.memory),
        }
    }

    /// Returns the keys of `asked` that these settings, which it has tightened, do not grant.
    pub fn refused_keys(&self, asked: &Self) -> Vec<&'static str> {
        let is_wider = |asked: Option<&[SandboxPath]>, granted: Option<&[SandboxPath]>| {
            let granted = granted.unwrap_or_default();
            asked.unwrap_or_default().iter().any(|path| !granted.contains(path))
        };
        let network = self.network.clone().unwrap_or_default();
        let keys = [
            ("network", asked.network.as_ref().is_some_and(|asked| *asked != network)),
            ("write", is_wider(asked.write.as_deref(), self.write.as_deref())),
            ("read", is_wider(asked.read.as_deref(), self.read.as_deref())),
            ("off", asked.is_off() && !self.is_off()),
            (
                "if_missing",
                asked.if_missing.is_some()
                    && asked.if_missing != self.if_missing
                    && self.if_missing.is_some(),
            ),
            ("processes", asked.processes > self.processes),
            ("memory", asked.memory > self.memory),
        ];
        keys.into_iter().filter(|(_, is_refused)| *is_refused).map(|(key, _)| key).collect()
    }

    /// Returns these settings with what the command line says.
    #[must_use]
    pub fn with_mode(self, mode: SandboxMode) -> Self {
        match mode {
            SandboxMode::On => Self { off: Some(false), ..self },
            SandboxMode::Off => Self { off: Some(true), ..self },
            SandboxMode::Network => Self { off: Some(false), network: Some(SandboxNetwork::All), ..self },
        }
    }

    /// Returns whether commands run without a sandbox.
    pub fn is_off(&self) -> bool {
        self.off == Some(true)
    }
}

/// Returns the smaller limit; one that is unset is no limit of the layer's.
fn smaller<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Returns what both lists contain, a folder containing all below it.
fn intersection(own: Option<&[SandboxPath]>, theirs: Option<&[SandboxPath]>) -> Option<Vec<SandboxPath>> {
    let Some(theirs) = theirs else { return own.map(<[SandboxPath]>::to_vec) };
    Some(common(own.unwrap_or_default(), theirs, SandboxPath::contains))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn sandbox(yaml: &str) -> Sandbox {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn a_project_only_tightens() {
        for (own, project, expected) in [
            // What the project does not mention stays.
            ("{network: all, write: [/a], off: true}", "{}", "{network: all, write: [/a], off: true}"),
            // What it would add is dropped.
            (
                "{}",
                "{network: all, write: [/a], read: [/b], off: true}",
                "{network: none, write: [], read: []}",
            ),
            ("{network: [a.org]}", "{network: all}", "{network: [a.org]}"),
            ("{if_missing: deny}", "{if_missing: proceed}", "{if_missing: deny}"),
            ("{processes: 10, memory: 1G}", "{processes: 20, memory: 2G}", "{processes: 10, memory: 1G}"),
            // What it takes away is gone.
            ("{off: true}", "{off: false}", "{off: false}"),
            ("{network: all}", "{network: none}", "{network: none}"),
            ("{network: all}", "{network: [a.org]}", "{network: [a.org]}"),
            (
                "{network: [a.org, '*.b.org', c.org]}",
                "{network: ['*.org', x.b.org]}",
                "{network: [a.org, '*.b.org', c.org]}",
            ),
            ("{network: ['*.b.org']}", "{network: [x.b.org, y.org]}", "{network: [x.b.org]}"),
            ("{write: [/a, /b/c, ~/d]}", "{write: [/a/x, /b, /e]}", "{write: [/b/c, /a/x]}"),
            ("{write: [/ab]}", "{write: [/a]}", "{write: []}"),
            ("{read: [~/.npmrc]}", "{read: []}", "{read: []}"),
            (
                "{}",
                "{processes: 20, memory: 2G, if_missing: deny}",
                "{processes: 20, memory: 2G, if_missing: deny}",
            ),
        ] {
            let actual = sandbox(own).tighten(&sandbox(project));
            assert_eq!(actual, sandbox(expected), "{own} by {project}");
            // Twice is no more than once.
            assert_eq!(actual.tighten(&sandbox(project)), actual, "{own} by {project}, twice");
        }
    }

    #[test]
    fn the_command_line_has_the_last_word() {
        for (mode, expected) in [
            (SandboxMode::On, "{off: false, write: [/a]}"),
            (SandboxMode::Off, "{off: true, write: [/a]}"),
            (SandboxMode::Network, "{off: false, network: all, write: [/a]}"),
        ] {
            assert_eq!(sandbox("{off: true, write: [/a]}").with_mode(mode), sandbox(expected));
        }
    }

    #[test]
    fn what_is_invalid_is_refused() {
        for (yaml, expected) in [
            ("{write: [a]}", "must begin with `/` or `~/`"),
            ("{write: [/a/../b]}", "must not contain `..`"),
            ("{network: some}", "expected none, all or a list of hosts"),
            ("{network: ['http://a.org']}", "invalid host 'http://a.org'"),
            ("{network: ['a.*.org']}", "invalid host 'a.*.org'"),
            ("{network: ['a.org:0']}", "invalid host 'a.org:0'"),
            ("{memory: 5}", "expected"),
            ("{memory: 0G}", "invalid size '0G'"),
            ("{processes: 0}", "nonzero"),
            ("{if_missing: ask}", "unknown variant"),
            ("{nothing: 1}", "unknown field"),
        ] {
            let error = serde_saphyr::from_str::<Sandbox>(yaml).unwrap_err().to_string();
            assert!(error.contains(expected), "{yaml}: {error}");
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        for yaml in
            ["{}", "{network: [a.org, '*.b.org:8080', '[::1]:5432'], write: [/a], memory: 512M, off: true}"]
        {
            let json = serde_json::to_string(&sandbox(yaml)).unwrap();
            assert_eq!(serde_json::from_str::<Sandbox>(&json).unwrap(), sandbox(yaml));
        }
    }
}
