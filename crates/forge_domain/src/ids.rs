//! Names and numbers that identify things, each of its own type.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An id that must hold at least one character and got none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} must not be empty")]
pub struct EmptyIdError(&'static str);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(try_from = "String", into = "String")]
        #[schemars(inline, extend("pattern" = r"\S"))]
        pub struct $name(String);

        impl $name {
            /// Makes the id from a text that is not blank.
            ///
            /// # Errors
            /// [`EmptyIdError`] if `text` is empty or blank.
            pub fn new(text: impl Into<String>) -> Result<Self, EmptyIdError> {
                let text = text.into();
                if text.trim().is_empty() { Err(EmptyIdError($what)) } else { Ok(Self(text)) }
            }

            /// Returns the id as it was written.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = EmptyIdError;
            fn try_from(text: String) -> Result<Self, Self::Error> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Names an agent of a workflow.
    AgentId, "an agent's id"
}
text_id! {
    /// Names a model: `provider:model`, or the bare name that the provider knows.
    ModelId, "a model's id"
}
text_id! {
    /// Names a provider of a workflow.
    ProviderId, "a provider's name"
}
text_id! {
    /// Names an MCP server of a workflow; its tools are named after it.
    McpServerId, "an MCP server's name"
}
text_id! {
    /// A tool's name, as the model sees it.
    ToolName, "a tool's name"
}
text_id! {
    /// Names a compaction strategy; the same word in YAML, file and log.
    StrategyId, "a strategy's id"
}

text_id! {
    /// Names one run of a workflow; checkpoints belong to a run.
    RunId, "a run's id"
}
text_id! {
    /// Names a checkpoint for people, such as `researcher-iteration-6`. Where a run was rewound, two of its
    /// checkpoints may have the same name; their [`CheckpointKey`]s differ.
    CheckpointId, "a checkpoint's id"
}

/// The separator between an agent's id and the number of one of its lanes.
const LANE: char = '~';

impl AgentId {
    /// Returns the id under which the agent works for others who call it as a tool: each lane is a
    /// conversation of its own, so that calls can run in parallel.
    #[must_use]
    pub fn lane(&self, n: usize) -> Self {
        Self(format!("{}{LANE}{n}", self.0))
    }

    /// Returns the id of the agent whose lane this is; the id itself if it is not a lane.
    pub fn without_lane(&self) -> &str {
        match self.0.rsplit_once(LANE) {
            Some((agent, n)) if !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()) => agent,
            _ => &self.0,
        }
    }
}

impl RunId {
    /// Most characters of a plain name.
    const PLAIN_CHARS: usize = 128;

    /// Checks whether the name cannot be taken for a checkpoint, and a shell, a terminal and a file system
    /// take it as it is: letters, digits, `-`, `_` and `.`, of which the first is a letter or a digit; no
    /// number, and not `last`.
    pub fn is_plain(&self) -> bool {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        self.0.starts_with(char::is_alphanumeric)
            && self.0.chars().all(is_plain)
            && self.0.chars().nth(Self::PLAIN_CHARS).is_none()
            && self.0 != "last"
            && !self.0.bytes().all(|byte| byte.is_ascii_digit())
    }
}

impl CheckpointId {
    /// Returns the name of a checkpoint of `agent` at `step`.
    pub fn of(agent: &AgentId, step: &str) -> Self {
        Self(format!("{agent}-{step}"))
    }
}

/// A checkpoint's number in one store, over all its runs; it grows with every save and is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CheckpointKey(u64);

impl CheckpointKey {
    /// Returns the key of that number.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CheckpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A message's number in one conversation; it grows with every message of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(u64);

impl MessageId {
    /// The id of a log's first message.
    pub const FIRST: Self = Self(0);

    /// Returns the id of that number, to read a log back.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the next id.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for MessageId {
    /// Writes the short label by which people and models refer to a message, such as `m1042`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}", self.0)
    }
}

/// A text that is not a message's label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid message label '{0}' (expected a label such as m12)")]
pub struct MessageLabelError(String);

impl FromStr for MessageId {
    type Err = MessageLabelError;
    fn from_str(label: &str) -> Result<Self, Self::Err> {
        let digits = label.strip_prefix('m').filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        number.map(Self).ok_or_else(|| MessageLabelError(label.to_owned()))
    }
}

/// A compaction entry's number in one conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntryId(u64);

impl EntryId {
    /// Returns the id of the `n`-th compaction of a log, counted from zero.
    pub const fn nth(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns the number of compactions of the log before it.
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}", self.0)
    }
}

/// A text that is not a compaction's label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid compaction label '{0}' (expected a label such as c2)")]
pub struct EntryLabelError(String);

impl FromStr for EntryId {
    type Err = EntryLabelError;
    fn from_str(label: &str) -> Result<Self, Self::Err> {
        let digits = label.strip_prefix('c').unwrap_or(label);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number);
        number.map(Self).ok_or_else(|| EntryLabelError(label.to_owned()))
    }
}
