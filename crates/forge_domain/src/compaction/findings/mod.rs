//! The findings in a message for a record, computed once, when they are first needed.

mod acts;
mod answer;
mod aside;
mod check;
mod check_words;
mod command_line;
mod counts;
mod deed;
mod ending;
mod error_line;
mod failure;
mod failure_forms;
mod filter;
mod identity;
mod line_facts;
mod looks;
mod missing;
mod pattern;
mod powershell;
mod refusal;
mod result;
mod script_changes;
mod sections;
mod shell_change;
mod status;
mod told_changes;
mod touch;

pub(crate) use self::acts::{is_act, is_look};
pub(crate) use self::check::Check;
pub(crate) use self::command_line::{has_drive, is_absolute, join};
pub(crate) use self::deed::Deed;
use self::ending::{Evidence, Unfinished};
pub(crate) use self::ending::{
    is_of_log, is_of_status, only_says_status, only_says_success, says_nothing_written, tells_commit,
    tells_outcome, tells_push, tells_what_was_made,
};
pub(crate) use self::failure::{Failure, is_marked_failed};
pub(crate) use self::failure_forms::has_sign_of_failure;
pub(crate) use self::identity::{CHANGE, identity};
pub(crate) use self::refusal::{is_of_the_user, is_refused};
pub(crate) use self::result::Outcome;
use self::sections::Sections;
pub(crate) use self::shell_change::{ALL, ShellChange, ShellStep};
pub(crate) use self::status::code_in_fields;
pub(crate) use self::told_changes::told_changes;
pub(crate) use self::touch::{Extent, FileState, Touch};
use crate::{Body, ContextMessage, Message, ToolResult};

/// Most characters of a command or an error line that are kept.
const MAX_CHARS: usize = 160;

/// The effects of a message's calls.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) deeds: Vec<Deed>,
}

impl Findings {
    fn of(message: &Message) -> Self {
        match &message.body {
            Body::Assistant { calls, .. } => Self { deeds: calls.iter().map(Deed::of).collect() },
            Body::System(_) | Body::User(_) | Body::Tool(_) => Self::default(),
        }
    }
}

/// The failure that the result of a command, of another call or of a change of a file reports.
struct FailureOfCommand(Option<Failure>);
struct FailureOfCall(Option<Failure>);
struct FailureOfChange(Option<Failure>);
/// The state of a command that did not end by itself before its result was sent.
struct Progress(Option<Unfinished>);

/// The report of a check.
#[derive(Clone)]
struct CheckReport {
    failure: Option<Failure>,
    /// The evidence that it passed, whatever its failure says.
    evidence: Evidence,
}

impl CheckReport {
    fn of(message: &Message, unfinished: Option<&Unfinished>, sections: Option<&Sections>) -> Self {
        let evidence = read(message, |result| Some(Evidence::of(result, unfinished, sections)));
        Self {
            failure: read(message, |result| Failure::of_check(result, sections)),
            evidence: evidence.unwrap_or(Evidence::None),
        }
    }
}

/// Each is computed once. Which of the failures is meant is up to the call ([`Deed::failure`]).
impl ContextMessage {
    /// Returns the effects of its calls.
    pub(crate) fn findings(&self) -> &Findings {
        self.form(Findings::of)
    }

    fn failure_of_command(&self) -> Option<&Failure> {
        self.form(|message| FailureOfCommand(read(message, Failure::of))).0.as_ref()
    }

    fn failure_of_call(&self) -> Option<&Failure> {
        self.form(|message| FailureOfCall(read(message, Failure::of_call))).0.as_ref()
    }

    fn failure_of_change(&self) -> Option<&Failure> {
        self.form(|message| FailureOfChange(read(message, Failure::of_change))).0.as_ref()
    }

    /// Returns how far the command is whose result it is, if that did not end by itself.
    fn unfinished(&self) -> Option<&Unfinished> {
        self.form(|message| Progress(read(message, Unfinished::of_result))).0.as_ref()
    }

    fn report_of_check(&self) -> &CheckReport {
        // No form may be asked for while another one is made.
        let unfinished = self.unfinished();
        self.form(|message| CheckReport::of(message, unfinished, None))
    }

    /// Returns the report of the checks in some `sections` of what a command line wrote.
    fn report_in(&self, sections: &Sections) -> CheckReport {
        CheckReport::of(self.message(), self.unfinished(), Some(sections))
    }
}

/// Reads the result that a message is; `None` for other messages.
fn read<T>(message: &Message, read: impl Fn(&ToolResult) -> Option<T>) -> Option<T> {
    match &message.body {
        Body::Tool(result) => read(result),
        Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
    }
}
