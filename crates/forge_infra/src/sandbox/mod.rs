//! The sandbox in which commands of tools, hooks and MCP servers run: `forge_domain` decides what they may
//! do, and this module enforces it.
//!
//! The supervisor (`supervisor.rs`) applies it to the command that it starts, so a command without a
//! supervisor has no sandbox.

mod enforcement;
#[cfg(unix)]
pub(crate) mod launch;
#[cfg(target_os = "linux")]
pub(crate) mod linux;
#[cfg(any(target_os = "macos", test))]
pub(crate) mod macos;
#[cfg(unix)]
pub(crate) mod order;
#[cfg(unix)]
mod places;
#[cfg(unix)]
pub(crate) mod proxy;
mod temporary;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forge_domain::{Denial, Sandbox, SandboxPolicy};
use parking_lot::Mutex;

pub(crate) use self::enforcement::Enforced;
#[cfg(target_os = "macos")]
pub(crate) use self::enforcement::Part;
use self::temporary::TemporaryFolder;

/// A function that receives notices about a sandbox for the user.
pub type SandboxNotice = Arc<dyn Fn(&str) + Send + Sync>;

/// The places on the machine that a sandbox depends on.
#[derive(Clone, Debug, Default)]
pub struct SandboxSurroundings {
    /// The workspace.
    pub workspace: PathBuf,
    /// The home folder, if it is known.
    pub home: Option<PathBuf>,
    /// The folders of Forge's own configuration and states, which commands do not see.
    pub own_folders: Vec<PathBuf>,
    /// The files of its store, which commands do not see either.
    pub own_files: Vec<PathBuf>,
}

/// The sandbox of a run's commands.
pub struct CommandSandbox {
    policy: SandboxPolicy,
    /// The folder for commands' temporary files; it is removed at the end.
    temporary: TemporaryFolder,
    workspace: PathBuf,
    home: Option<PathBuf>,
    /// The folders of Forge's own configuration and states.
    #[cfg(unix)]
    own_folders: Vec<PathBuf>,
    notice: SandboxNotice,
    /// The hints of which the user was notified.
    told: Mutex<BTreeSet<String>>,
    /// The parts that the system enforced for the last command.
    enforced: Mutex<Option<Enforced>>,
}

impl fmt::Debug for CommandSandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandSandbox").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A limit that a command exceeded.
#[cfg_attr(not(unix), allow(dead_code, reason = "no limit is watched there"))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    /// It had too many processes at the same time.
    Processes,
    /// It used too much memory.
    Memory,
}

impl CommandSandbox {
    /// Sets up the sandbox that `settings` describe; `None` if they turn it off. `notice` receives what the
    /// system cannot enforce.
    ///
    /// # Errors
    /// Fails if the folder for temporary files cannot be created, or the workspace cannot be found.
    pub fn new(
        settings: &Sandbox,
        surroundings: &SandboxSurroundings,
        notice: SandboxNotice,
    ) -> io::Result<Option<Self>> {
        if settings.is_off() {
            return Ok(None);
        }
        let temporary = TemporaryFolder::new()?;
        let policy = decide(settings, surroundings, temporary.path())?;
        let workspace = std::fs::canonicalize(&surroundings.workspace)?;
        let home = surroundings.home.clone();
        #[cfg(unix)]
        let own_folders = places::absolute(&surroundings.own_folders)?;
        Ok(Some(Self {
            policy,
            temporary,
            workspace,
            home,
            #[cfg(unix)]
            own_folders,
            notice,
            told: Mutex::default(),
            enforced: Mutex::default(),
        }))
    }

    /// Creates those of Forge's own folders that a command could create in its place.
    #[cfg(unix)]
    pub(crate) fn create_own_folders(&self) {
        places::create_folders(&self.policy, &self.own_folders);
    }

    #[cfg(unix)]
    pub(crate) const fn policy(&self) -> &SandboxPolicy {
        &self.policy
    }

    /// Adds the folder for temporary files to the environment of a command.
    pub(crate) fn add_to(&self, environment: &mut BTreeMap<String, String>) {
        if let Some(folder) = self.temporary.path().to_str() {
            for name in ["TMPDIR", "TMP", "TEMP"] {
                environment.insert(name.to_owned(), folder.to_owned());
            }
        }
    }

    /// Returns what a failed command's output reveals about the sandbox, for the model, and notifies the user
    /// of each denial once: a hook may fail at every call.
    pub(crate) fn hints(&self, output: &str) -> Vec<String> {
        let hints = self.denials(output);
        for hint in &hints {
            let is_new = self.told.lock().insert(hint.clone());
            if is_new {
                (self.notice)(&format!("a command failed; perhaps {hint}"));
            }
        }
        hints
    }

    /// Returns what a failed program's output reveals about the sandbox.
    pub(crate) fn denials(&self, output: &str) -> Vec<String> {
        let found = Denial::find(&self.policy, output, &self.workspace, self.home.as_deref());
        found.iter().map(ToString::to_string).collect()
    }

    /// Returns the answer for a command that exceeded a limit, and notifies the user.
    pub(crate) fn excess(&self, limit: Limit) -> String {
        let text = match limit {
            Limit::Processes => format!(
                "the sandbox killed it and all its processes: it had more than {} processes; `sandbox: {{ \
                 processes: N }}` \
                 in the user's own forge.yaml allows more",
                self.policy.processes
            ),
            Limit::Memory => "the sandbox killed it and all its processes: it used more memory than \
                 `sandbox: { memory: SIZE }` in the user's own forge.yaml allows"
                .to_owned(),
        };
        (self.notice)(&text);
        text
    }

    /// Records what the system enforces, and reports missing parts once.
    ///
    /// # Errors
    /// Fails if something is missing and the rules require all of it.
    pub(crate) fn judge(&self, enforced: Enforced) -> io::Result<()> {
        static TOLD: AtomicBool = AtomicBool::new(false);
        *self.enforced.lock() = Some(enforced);
        if enforced.is_whole() {
            return Ok(());
        }
        let lacks = enforced.lacks().join("; ");
        if self.policy.is_required {
            return Err(io::Error::other(format!(
                "the sandbox cannot be enforced here, and `sandbox: {{ if_missing: deny }}` requires it: \
                 {lacks}"
            )));
        }
        if !TOLD.swap(true, Ordering::Relaxed) {
            (self.notice)(&format!(
                "the sandbox cannot be enforced in full here: {lacks} (see docs/sandbox.md)"
            ));
        }
        Ok(())
    }

    /// Returns the folder in which its commands run.
    pub(crate) fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Describes what the system does not enforce, according to the last command.
    pub(crate) fn lacks(&self) -> Vec<&'static str> {
        let enforced = *self.enforced.lock();
        enforced.unwrap_or_default().lacks()
    }
}

#[cfg(unix)]
fn decide(
    settings: &Sandbox,
    surroundings: &SandboxSurroundings,
    temporary: &Path,
) -> io::Result<SandboxPolicy> {
    places::decide(settings, surroundings, temporary)
}

/// Decides on nothing: this system enforces nothing, which is reported when the first command starts.
#[cfg(not(unix))]
fn decide(
    settings: &Sandbox,
    surroundings: &SandboxSurroundings,
    temporary: &Path,
) -> io::Result<SandboxPolicy> {
    let places = forge_domain::SandboxPlaces {
        workspace: surroundings.workspace.clone(),
        temporary: temporary.to_owned(),
        ..forge_domain::SandboxPlaces::default()
    };
    Ok(SandboxPolicy::decide(settings, &places))
}
