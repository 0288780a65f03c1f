//! The environment variables that anyone may see.

/// The environment variables that every command sees, and that a file may name before it is trusted: they say
/// where things are and in which language, and hold no keys.
pub const HARMLESS_VARIABLES: [&str; 10] =
    ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TMPDIR", "TERM", "TZ"];
