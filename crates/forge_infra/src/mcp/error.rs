//! The reasons why a server cannot be used.

use std::io;
use std::time::Duration;

use forge_domain::McpServerError;

/// The reason why an MCP server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// Its block is invalid.
    #[error("{0}")]
    Config(#[from] McpServerError),
    /// A variable that its block names is not set.
    #[error("the environment variable `{0}`, which it needs, is not set")]
    Missing(String),
    /// A header is invalid.
    #[error("invalid header '{0}' (expected a name of letters, digits and `-`, and a value of one line)")]
    Header(String),
    /// Its program cannot be started.
    #[error("`{program}` cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It was not ready in time.
    #[error("it was not ready after {limit:?}{said}")]
    Slow {
        /// The limit.
        limit: Duration,
        /// Its last line on stderr, with an introduction; may be empty.
        said: String,
    },
    /// It wants the user to log in.
    #[error("{shown} asks for a login: {help}")]
    Login {
        /// Its address, as it may be shown.
        shown: String,
        /// The way to log in.
        help: String,
    },
    /// It does not speak the protocol, refuses to, or ended.
    #[error("{what}{said}")]
    Handshake {
        /// The cause.
        what: String,
        /// Its last line on stderr, with an introduction; may be empty.
        said: String,
    },
}
