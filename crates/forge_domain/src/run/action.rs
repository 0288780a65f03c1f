//! The actions of a run on the world outside its conversations, as its store keeps them.

use std::fmt;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::AgentId;

/// The kind of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionKind {
    /// A command of `shell`.
    Command,
    /// A file that is written.
    File,
    /// An address that is asked.
    Address,
    /// A server of tools that is started or reached.
    Server,
    /// The command of a hook.
    Hook,
    /// A call of a tool of which no more is known than its name, such as an MCP server's.
    Call,
    /// A secret of the workspace that the model is shown.
    Secret,
}

impl ActionKind {
    /// Returns its name, as tables and JSON have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::File => "file",
            Self::Address => "address",
            Self::Server => "server",
            Self::Hook => "hook",
            Self::Call => "call",
            Self::Secret => "secret",
        }
    }
}

/// The consent to an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum ActionConsent {
    /// It needs none.
    NotNeeded,
    /// Rules allow it.
    Rule {
        /// The rules as they are written, each with its layer.
        rules: Vec<String>,
    },
    /// The user consented at the prompt.
    User {
        /// True if they did so earlier, for the rest of the run.
        earlier: bool,
    },
    /// The configuration asks for it.
    Configured {
        /// The key that does, with its file.
        key: String,
    },
}

impl fmt::Display for ActionConsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotNeeded => f.write_str("no consent needed"),
            Self::Rule { rules } => write!(f, "allowed by {}", rules.join(" and ")),
            Self::User { earlier: false } => f.write_str("allowed by the user"),
            Self::User { earlier: true } => f.write_str("allowed by the user earlier, for this run"),
            Self::Configured { key } => write!(f, "configured by {key}"),
        }
    }
}

/// An action that is about to happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewAction {
    /// The time at which it begins.
    pub at: Timestamp,
    /// The agent that does it; `None` if it is the run as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentId>,
    /// Its kind.
    pub kind: ActionKind,
    /// The command, the path, or the address without secrets.
    pub what: String,
    /// The tool, hook point, server or provider.
    pub through: String,
    /// The consent to it.
    pub consent: ActionConsent,
}

/// The end of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionEnd {
    /// The time at which it ended.
    pub at: Timestamp,
    /// True if it failed.
    pub failed: bool,
    /// Its outcome in a few words, such as an exit status.
    pub outcome: String,
    /// The number of times that it happened until then: addresses of providers are kept once, and counted.
    pub count: u64,
}

/// An action as a store keeps it, in the order of the beginnings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Action {
    /// Its beginning.
    #[serde(flatten)]
    pub begun: NewAction,
    /// Its end; `None` if the run ended before it.
    pub end: Option<ActionEnd>,
}

/// The number under which a store keeps an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionKey(u64);

impl ActionKey {
    /// Returns the key of that number.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// The port through which adapters report what they are about to do.
#[async_trait]
pub trait ActionRecorder: Send + Sync {
    /// Saves that a server of tools is about to be started or reached. Returns the number under which its end
    /// is saved.
    async fn begin_server(&self, server: &str, what: &str) -> u64;

    /// Saves how that ended.
    async fn end_server(&self, number: u64, failure: Option<&str>);
}
