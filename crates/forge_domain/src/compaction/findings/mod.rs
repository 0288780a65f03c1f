//! The findings in a message for a record, computed once, when they are first needed.

mod check;
mod command_line;
mod deed;
mod ending;
mod failure;
mod pattern;
mod shell_change;

pub(crate) use self::check::Check;
pub(crate) use self::deed::{Deed, Extent, FileState, Outcome, Touch, identity};
pub(crate) use self::ending::only_says_success;
use self::ending::{Evidence, Unfinished};
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

    /// Returns its failure if it is the result of a change of a file, computed once.
    fn failure_of_change(&self) -> Option<&Failure> {
        self.form(FailureOfChange::of).0.as_ref()
    }

    /// Returns how far the command is whose result it is, if that did not end by itself, computed once.
    fn unfinished(&self) -> Option<&Unfinished> {
        self.form(Progress::of).0.as_ref()
    }

    /// Returns what it reports if it is the result of a check, computed once.
    fn report_of_check(&self) -> &CheckReport {
        self.form(CheckReport::of)
    }
}

/// The failure of a change of a file.
struct FailureOfChange(Option<Failure>);

impl FailureOfChange {
    fn of(message: &Message) -> Self {
        Self(match &message.body {
            Body::Tool(result) => Failure::of_change(result),
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
        })
    }
}

/// The end of a command that is not there yet, or that did not come by itself.
struct Progress(Option<Unfinished>);

impl Progress {
    fn of(message: &Message) -> Self {
        Self(match &message.body {
            Body::Tool(result) => Unfinished::of_result(result),
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
        })
    }
}

/// The report of a check.
struct CheckReport {
    failure: Option<Failure>,
    /// The evidence that it passed, whatever its failure says.
    evidence: Evidence,
}

impl CheckReport {
    fn of(message: &Message) -> Self {
        match &message.body {
            Body::Tool(result) => Self { failure: Failure::of_check(result), evidence: Evidence::of(result) },
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => {
                Self { failure: None, evidence: Evidence::None }
            }
        }
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
