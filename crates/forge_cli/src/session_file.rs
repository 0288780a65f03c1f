//! A file with recorded sessions: its bytes, what was read from them, and which session is meant.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use forge_transcript::{Format, Session};

use crate::arguments::FormatName;
use crate::failure::Misconfigured;

/// A file with recorded sessions.
pub(crate) struct SessionFile {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
    pub(crate) sessions: Vec<Session>,
}

/// The bytes of a file that was named on the command line as a `what`.
pub(crate) fn read_named(path: &Path, what: &str) -> Result<Vec<u8>, Misconfigured> {
    std::fs::read(path).map_err(|error| {
        let way_out = match error.kind() {
            ErrorKind::NotFound => "; look for it with `ls`, or give its whole path",
            ErrorKind::IsADirectory => "; name a file in that folder",
            ErrorKind::PermissionDenied => "; let it be read with `chmod +r`, or run as its owner",
            _ => "",
        };
        Misconfigured(format!("cannot read the {what} {}: {error}{way_out}", path.display()))
    })
}

impl SessionFile {
    /// Reads the file; its format is told by the content where `from` does not say it.
    pub(crate) fn read(path: &Path, from: FormatName) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let bytes = read_named(path, "session")?;
        let sessions = match from.format() {
            Some(format) => forge_transcript::read_as(format, &bytes, &name)?,
            None => forge_transcript::read(&bytes, &name)?,
        };
        Ok(Self { path: path.to_owned(), bytes, sessions })
    }

    /// The number of the one session that is meant.
    pub(crate) fn the_one(&self, wanted: Option<&str>) -> anyhow::Result<usize> {
        match (wanted, self.sessions.as_slice()) {
            (Some(wanted), _) => nth_of(&self.sessions, wanted),
            (None, [_]) => Ok(0),
            (None, several) => {
                let name = self.path.display();
                let what =
                    format!("{name} holds {} sessions: pick one with --session ID|INDEX", several.len());
                Err(Misconfigured(what).into())
            }
        }
    }
}

/// The number of the session that `wanted` names: its id, or its number from 0.
pub(crate) fn nth_of(sessions: &[Session], wanted: &str) -> anyhow::Result<usize> {
    let by_id = sessions.iter().position(|session| session.id == wanted);
    let by_index = || wanted.parse().ok().filter(|index| *index < sessions.len());
    by_id.or_else(by_index).ok_or_else(|| {
        let known: Vec<&str> = sessions.iter().take(20).map(|session| session.id.as_str()).collect();
        let more = if sessions.len() > known.len() { ", ..." } else { "" };
        let last = sessions.len().saturating_sub(1);
        Misconfigured(format!(
            "there is no session `{wanted}`: write a number from 0 to {last}, or one of {}{more}",
            known.join(", ")
        ))
        .into()
    })
}

impl FormatName {
    /// The format; `None` where it is told by the content.
    pub(crate) const fn format(self) -> Option<Format> {
        match self {
            Self::Auto => None,
            Self::Openai => Some(Format::Openai),
            Self::Anthropic => Some(Format::Anthropic),
            Self::ClaudeCode => Some(Format::ClaudeCode),
            Self::TauBench => Some(Format::TauBench),
        }
    }

    /// The name of `format`.
    pub(crate) const fn of(format: Format) -> Self {
        match format {
            Format::Openai => Self::Openai,
            Format::Anthropic => Self::Anthropic,
            Format::ClaudeCode => Self::ClaudeCode,
            Format::TauBench => Self::TauBench,
        }
    }
}
