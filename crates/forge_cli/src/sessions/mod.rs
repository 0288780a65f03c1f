//! The sessions on this machine: those of agents whose places are known, and the user's own runs.

mod look;
mod own_runs;
mod title;

use std::path::{Path, PathBuf};

use forge_app::{SessionName, SessionNameError, Which};
use forge_domain::AgentSession;
use forge_infra::{find_sessions, is_kept_in_folder, known_agents};

pub(crate) use self::look::{Counted, ListedSession, look};
pub(crate) use self::own_runs::{OwnRuns, view_of_run};

use crate::failure::{Misconfigured, Untrusted};
use crate::output::{visible, visible_lines};
use crate::places;
use crate::run::shell_quote;
use crate::session_file::SessionFile;

/// The word for the user's own runs in names.
pub(crate) const OWN: &str = "forge";

/// The sessions on this machine.
pub(crate) struct Sessions {
    /// The sessions, newest first.
    pub(crate) all: Vec<AgentSession>,
    /// The store of the user's own runs, if it has any.
    pub(crate) runs: Option<OwnRuns>,
    /// The places that could not be read.
    pub(crate) faults: Vec<String>,
    here: PathBuf,
}

/// A session that was named on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NamedSession {
    /// A file, and the session in it if it has several.
    File { path: PathBuf, part: Option<String> },
    /// A run of the user's own.
    Run(String),
}

/// Returns the words of all agents, the user's own runs among them.
pub(crate) fn agent_words() -> Vec<&'static str> {
    known_agents().map(|agent| agent.id).chain([OWN]).collect()
}

/// Returns the name of an agent for people.
pub(crate) fn agent_name(id: &str) -> &str {
    known_agents().find(|agent| agent.id == id).map_or("Forge", |agent| agent.name)
}

impl Sessions {
    /// Finds the sessions of the agents that `wanted` accepts.
    pub(crate) fn find(wanted: &dyn Fn(&str) -> bool) -> Self {
        let here = std::env::current_dir().unwrap_or_default();
        let found = find_sessions(&places::environment(), &here, wanted);
        let mut sessions = Self { all: found.sessions, runs: None, faults: found.faults, here };
        if wanted(OWN) {
            match OwnRuns::find() {
                Ok(Some((runs, own))) => {
                    sessions.all.extend(own);
                    sessions.runs = Some(runs);
                }
                Ok(None) => {}
                Err(error) if error.is::<Untrusted>() => {
                    let why =
                        "the project's file names their store, and is not trusted: `forge trust` shows it";
                    sessions.faults.push(format!("the runs of Forge: {why}"));
                }
                Err(error) => sessions.faults.push(format!("the runs of Forge: {error:#}")),
            }
        }
        sessions.all.sort_by_key(|session| std::cmp::Reverse(session.changed));
        sessions
    }

    /// Checks whether a session is about `folder`. It may be read for that, up to its first lines.
    pub(crate) fn is_about(&self, session: &AgentSession, folder: &Path) -> bool {
        look::is_about(session, folder, self.runs.as_ref())
    }

    /// Returns the session of that name. The last one is never a file of the folder itself, which a cloned
    /// repository would choose: it is the newest other one.
    pub(crate) fn session(&self, name: &SessionName) -> Result<&AgentSession, SessionNameError> {
        let found = name.find(&self.all, &|session| self.is_about(session, &self.here))?;
        let is_chosen_by_id = matches!(name.which, Which::Id(_));
        if is_chosen_by_id || !is_kept_in_folder(found.agent) {
            return Ok(found);
        }
        let is_meant = |session: &&AgentSession| {
            name.is_of(session)
                && !is_kept_in_folder(session.agent)
                && (name.which == Which::Last || self.is_about(session, &self.here))
        };
        if let Some(other) = self.all.iter().find(is_meant) {
            return Ok(other);
        }
        let path = found
            .path
            .strip_prefix(&self.here)
            .map_or_else(|_| found.path.clone(), |rest| Path::new(".").join(rest));
        Err(SessionNameError::InFolder { name: name.clone(), path: path.display().to_string() })
    }
}

/// Returns the session that a word of the command line names: `@AGENT:ID`, `-` for stdin, or else a path.
pub(crate) fn resolve(word: &Path) -> anyhow::Result<NamedSession> {
    resolve_and_show(word, &mut |_| {})
}

/// Does the same, and shows the session to `show` if it was found by a name.
pub(crate) fn resolve_and_show(
    word: &Path,
    show: &mut dyn FnMut(&AgentSession),
) -> anyhow::Result<NamedSession> {
    if cfg!(unix) && word == Path::new("-") {
        return Ok(NamedSession::File { path: "/dev/stdin".into(), part: None });
    }
    let Some(text) = word.to_str().filter(|text| text.starts_with('@')) else {
        return Ok(NamedSession::File { path: word.to_owned(), part: None });
    };
    let explain = |error: SessionNameError| {
        let quoted = shell_quote(&format!("./{text}"));
        let help = match &error {
            SessionNameError::Form(_) if word.exists() => {
                format!("a file of that name is written {quoted}")
            }
            SessionNameError::InFolder { path, .. } => {
                format!("write {} in place of the name", shell_quote(&visible(path)))
            }
            SessionNameError::Form(_) => {
                "write @claude:last, or list the names with `forge sessions`".to_owned()
            }
            _ => "`forge sessions` lists the sessions on this machine".to_owned(),
        };
        Misconfigured(format!("{}\n  help: {help}", visible_error(&error)))
    };
    let name: SessionName = text.parse().map_err(explain)?;
    name.check(&agent_words()).map_err(explain)?;
    let wanted = |agent: &str| name.agent.as_deref().is_none_or(|wanted| wanted == agent);
    let sessions = Sessions::find(&wanted);
    let found = sessions.session(&name).map_err(|error| match sessions.faults.first() {
        Some(fault) if matches!(error, SessionNameError::None { .. }) => {
            Misconfigured(format!("{}\n  help: not read: {}", visible_error(&error), visible_lines(fault)))
        }
        _ => explain(error),
    })?;
    show(found);
    Ok(NamedSession::of(found))
}

/// Returns the words of an error, in which ids of others may be.
fn visible_error(error: &SessionNameError) -> String {
    error.to_string().lines().map(visible).collect::<Vec<_>>().join("\n  ")
}

/// Returns the number of the last session in a file; `None` if it cannot be read.
fn last_chat(path: &Path) -> Option<String> {
    let sessions = SessionFile::read(path, None, None).ok()?.sessions;
    sessions.len().checked_sub(1).map(|last| last.to_string())
}

impl NamedSession {
    /// Returns the place of a session.
    pub(crate) fn of(session: &AgentSession) -> Self {
        match session.agent {
            OWN => Self::Run(session.id.clone()),
            // A file of aider has all chats of its folder; the session is the last one.
            "aider" => Self::File { path: session.path.clone(), part: last_chat(&session.path) },
            _ => Self::File { path: session.path.clone(), part: session.part.clone() },
        }
    }
}
