//! The change that a call would make to a file, as the user is shown it.

use serde::{Deserialize, Serialize};

/// A change of one file: shown before consent, and made only to the content that was shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file, as the call names it.
    pub path: String,
    /// The current text; `None` if there is no such file yet.
    pub before: Option<String>,
    /// The text after the change.
    pub after: String,
}
