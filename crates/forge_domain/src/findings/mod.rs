//! What a message says for a record: found out once, when it is first asked for.

mod deed;

mod directives;

mod failure;

pub(crate) use self::deed::{Deed, Extent, FileState, Touch};
use self::directives::directives;
pub(crate) use self::directives::says_any;
pub(crate) use self::failure::Failure;
use crate::{Body, Message};

/// Most characters of a command or an error line that are kept.
const MAX_CHARS: usize = 160;

/// What a message orders, does or reports.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// What a person orders in it, sentence by sentence.
    pub(crate) directives: Vec<String>,
    /// What each of its calls does.
    pub(crate) deeds: Vec<Deed>,
    /// How it failed, if it is a result that did.
    pub(crate) failure: Option<Failure>,
}

impl Findings {
    pub(crate) fn of(message: &Message) -> Self {
        match &message.body {
            Body::System(_) => Self::default(),
            Body::User(_) => Self { directives: directives(message), ..Self::default() },
            Body::Assistant { calls, .. } => {
                Self { deeds: calls.iter().map(Deed::of).collect(), ..Self::default() }
            }
            Body::Tool(result) => Self { failure: Failure::of(result), ..Self::default() },
        }
    }
}
