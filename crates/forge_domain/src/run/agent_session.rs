//! A session that an agent keeps on this machine: its place, and what is known without reading it.

use std::path::PathBuf;

use jiff::Timestamp;

/// A session that an agent keeps on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSession {
    /// The agent's word in names, such as `claude`.
    pub agent: &'static str,
    /// The id under which the agent knows it.
    pub id: String,
    /// The file, folder or database that holds it.
    pub path: PathBuf,
    /// Its id within the file, if the file holds several.
    pub part: Option<String>,
    /// The time of its last change.
    pub changed: Timestamp,
    /// The size of the file; zero if the file holds several sessions.
    pub bytes: u64,
    /// Its title, if the store of its agent has one.
    pub title: Option<String>,
    /// The folder that it is about, if that is known without reading it.
    pub folder: Option<String>,
    /// The tokens of its context, if the store of its agent has the number.
    pub tokens: Option<u64>,
}
