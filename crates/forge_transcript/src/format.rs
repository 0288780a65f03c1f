//! A format of recorded sessions: its names, and the protocol of its messages.

use std::fmt;

use forge_wire::Protocol;

/// A format of recorded sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format(pub(crate) &'static FormatFacts);

/// The names of a format, and the protocol of its messages.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FormatFacts {
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
        self.0.id
    }

    /// Returns its layout, in one line.
    pub const fn description(self) -> &'static str {
        self.0.description
    }

    /// Returns the protocol whose messages its records hold; `None` if they have a form of their own.
    pub(crate) const fn protocol(self) -> Option<Protocol> {
        self.0.protocol
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.name, self.0.description)
    }
}
