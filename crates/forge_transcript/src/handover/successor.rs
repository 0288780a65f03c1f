//! The agents that can continue a session from a new file of their own.

use serde::Serialize;

use super::new_session::NewSession;
use super::{claude, codex, pi};
use crate::RewriteError;

/// An agent that can continue a session from a new file of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Successor {
    /// Codex.
    Codex,
    /// Pi.
    Pi,
    /// Claude Code.
    Claude,
}

impl Successor {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Codex, Self::Pi, Self::Claude];

    /// Returns the agent's word in names.
    pub const fn id(self) -> &'static str {
        match self {
            Self::Codex => "codex",
            Self::Pi => "pi",
            Self::Claude => "claude",
        }
    }

    /// Returns the path of the session's file below the agent's folder.
    pub fn path(self, new: &NewSession<'_>) -> String {
        match self {
            Self::Codex => codex::path(new),
            Self::Pi => pi::path(new),
            Self::Claude => claude::path(new),
        }
    }

    /// Writes the session's file.
    ///
    /// # Errors
    /// [`RewriteError`] if a message has no form there.
    pub fn write(self, new: &NewSession<'_>) -> Result<Vec<u8>, RewriteError> {
        let lines = match self {
            Self::Codex => codex::lines(new),
            Self::Pi => pi::lines(new),
            Self::Claude => claude::lines(new),
        };
        Ok(lines.into_bytes())
    }

    /// Returns the words of the command that continues a session: by its id, or by its file.
    pub const fn resuming<'a>(self, id: &'a str, file: &'a str) -> [&'a str; 3] {
        match self {
            Self::Codex => ["codex", "resume", id],
            Self::Pi => ["pi", "--session", file],
            Self::Claude => ["claude", "--resume", id],
        }
    }

    /// Returns the words of the command that continues the session in `file`.
    pub fn command(self, new: &NewSession<'_>, file: &str, task: Option<&str>) -> Vec<String> {
        let mut words = self.resuming(&new.id, file).to_vec();
        if let Some(model) = &new.model {
            words.extend([if self == Self::Codex { "-m" } else { "--model" }, model]);
        }
        words.extend(task);
        words.into_iter().map(str::to_owned).collect()
    }
}
