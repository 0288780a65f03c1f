//! A question of the model's for the user.

use serde::{Deserialize, Serialize};

/// A question of the model's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The text of the question.
    pub text: String,
    /// Answers that it proposes; others may be given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}
