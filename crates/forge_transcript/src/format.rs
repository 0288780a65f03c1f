//! A format of recorded sessions: its names, and the protocol of its messages.

use std::fmt;

use forge_wire::Protocol;

/// A format of recorded sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its name on the command line and in files: `claude-code`.
    pub(crate) id: &'static str,
    /// Its name in sentences: "Claude Code sessions".
    pub(crate) name: &'static str,
    /// Its layout, in one line.
    pub(crate) description: &'static str,
    /// The protocol whose messages its records hold; `None` if they have a form of their own.
    pub(crate) protocol: Option<Protocol>,
}

impl Format {
    /// Returns its name on the command line and in files: `claude-code`.
    pub const fn id(self) -> &'static str {
        self.id
    }

    /// Returns its layout, in one line.
    pub const fn description(self) -> &'static str {
        self.description
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.description)
    }
}
