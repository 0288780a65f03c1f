//! The findings in a message for a record, computed once, when they are first needed.

mod command_line;
mod deed;
mod failure;
mod shell_change;

pub(crate) use self::deed::{Check, Deed, Extent, FileState, Touch};
pub(crate) use self::failure::Failure;
pub(crate) use self::shell_change::ShellChange;
use crate::{Body, ContextMessage, Message};

/// Most characters of a command or an error line that are kept.
const MAX_CHARS: usize = 160;

/// The actions or reports in a message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    /// The effects of its calls.
    pub(crate) deeds: Vec<Deed>,
    /// The failure, if it is a result that failed or reads so; whether it did is up to the call
    /// ([`Deed::failure`]).
    failure: Option<Failure>,
}

impl ContextMessage {
    /// Returns its findings for a record, computed once.
    pub(crate) fn findings(&self) -> &Findings {
        self.form(Findings::of)
    }

    /// Returns the failure of the check whose result it is, computed once.
    fn failure_of_check(&self) -> Option<&Failure> {
        self.form(FailureOfCheck::of).0.as_ref()
    }
}

/// The failure of a check.
struct FailureOfCheck(Option<Failure>);

impl FailureOfCheck {
    fn of(message: &Message) -> Self {
        Self(match &message.body {
            Body::Tool(result) => Failure::of_check(result),
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
        })
    }
}

impl Findings {
    pub(crate) fn of(message: &Message) -> Self {
        match &message.body {
            Body::System(_) | Body::User(_) => Self::default(),
            Body::Assistant { calls, .. } => {
                Self { deeds: calls.iter().map(Deed::of).collect(), ..Self::default() }
            }
            Body::Tool(result) => Self { failure: Failure::of(result), ..Self::default() },
        }
    }
}
