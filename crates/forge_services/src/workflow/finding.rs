//! A fault of a workflow that was read.

/// A part of a workflow that cannot work, with the path of its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The key's path, such as `agents.researcher.compact.model`.
    pub path: String,
    /// The fault.
    pub what: String,
    /// The way to fix it.
    pub hint: Option<String>,
}
