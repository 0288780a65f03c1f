//! The reasons why a tool failed, in words that tell the model what to do instead.

use std::io;

use super::arguments::ArgumentsError;

#[derive(Debug, thiserror::Error)]
pub(super) enum ToolFailure {
    #[error(transparent)]
    Arguments(ArgumentsError),
    #[error("`{path}` leads outside the workspace; give a path inside it, relative to its root")]
    Outside { path: String },
    #[error("there is no `{path}` in the workspace; `list` shows what is there")]
    NotFound { path: String },
    #[error("`{path}` is a directory; `list` shows what is in it")]
    Directory { path: String },
    #[error("`{path}` is a file, not a directory; `read` shows what is in it")]
    File { path: String },
    #[error("`{path}` is neither a file nor a directory")]
    Special { path: String },
    #[error(
        "`{path}` is not UTF-8 text and cannot be shown ({n_bytes} bytes); if it is text in another encoding, \
         `iconv` in a shell converts it"
    )]
    Binary { path: String, n_bytes: u64 },
    #[error("`{path}` has no line {offset}: it has {n_lines}")]
    PastEnd { path: String, offset: u64, n_lines: u64 },
    #[error(
        "line {offset} of `{path}` was not reached: its first {n_mib} MiB have {n_lines} whole line{s}; it is too large to be read by \
         lines, `search` with this `path` finds places in it",
        n_mib = n_bytes / 1_048_576,
        s = if *n_lines == 1 { "" } else { "s" }
    )]
    TooFar { path: String, offset: u64, n_lines: u64, n_bytes: u64 },
    #[error("`{path}` has {n_bytes} bytes, which is too much to change here")]
    TooLarge { path: String, n_bytes: u64 },
    #[error("{0}")]
    Refused(String),
    #[error("cannot open `{path}`: {source}")]
    Io {
        path: String,
        #[source]
        source: io::Error,
    },
}

impl ToolFailure {
    /// Describes what `source` means for a call about `path`.
    pub(super) fn io(path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            // A refusal of the confinement has no number of the operating system; one of the file's
            // permissions has.
            io::ErrorKind::PermissionDenied if source.raw_os_error().is_none() => Self::Outside { path },
            _ => Self::Io { path, source },
        }
    }
}

impl From<ArgumentsError> for ToolFailure {
    fn from(error: ArgumentsError) -> Self {
        Self::Arguments(error)
    }
}
