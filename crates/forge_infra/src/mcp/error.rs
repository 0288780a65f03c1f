//! Why a server is of no use.

use std::io;
use std::time::Duration;

use forge_domain::McpServerError;

/// Why an MCP server is of no use.
#[derive(Debug, thiserror::Error)]
pub enum McpError {
    /// Its block cannot work.
    #[error("{0}")]
    Config(#[from] McpServerError),
    /// A variable that its block names is not set.
    #[error("the environment variable `{0}`, which it is to be given, is not set")]
    Missing(String),
    /// A header that is none.
    #[error("its header `{0}` is none: a name has letters, digits and `-`, a value is one line")]
    Header(String),
    /// Its program cannot be started.
    #[error("`{program}` cannot be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was not ready in time.
    #[error("it was not ready after {limit:?}{said}")]
    Slow {
        /// The limit.
        limit: Duration,
        /// What it said last on standard error, with words around it; may be empty.
        said: String,
    },
    /// It does not speak the protocol, refuses to, or ended.
    #[error("{what}{said}")]
    Handshake {
        /// What went wrong.
        what: String,
        /// What it said last on standard error, with words around it; may be empty.
        said: String,
    },
}
