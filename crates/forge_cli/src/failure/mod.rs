//! The message for a failure, and the exit code: decided here, once.

mod panic_report;

use std::fmt;
use std::process::ExitCode;

use console::style;
use forge_app::{CheckpointTally, CheckpointsError, DeniedCall, RunError, StopReason};
use forge_domain::{StoreError, Workflow};

use crate::output;

pub(crate) use self::panic_report::report_panics;

/// An error in the arguments or the configuration: nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misconfigured(pub(crate) String);

/// Returns the error about an agent that is not in the workflow.
pub(crate) fn unknown_agent(id: &str, workflow: &Workflow) -> Misconfigured {
    let known: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
    if known.is_empty() {
        return Misconfigured(format!("there is no agent `{id}`: no configuration file defines one"));
    }
    Misconfigured(format!("there is no agent `{id}` (expected one of {})", known.join(", ")))
}

/// The advice about the error that it is the context of. It is printed after the reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Help(pub(crate) &'static str);

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// A project's file that asks for something without consent: nothing was started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Untrusted(pub(crate) String);

/// The end of a command, as its exit code. The README and `docs/exit-codes.md` list the codes; interruptions
/// have the codes of their signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything is done.
    Done = 0,
    /// It started and failed.
    Failed = 1,
    /// Nothing started: the arguments or the configuration are invalid.
    NotBegun = 2,
    /// A limit of the agent or of the run stopped it.
    Limit = 3,
    /// The model's reply was cut off, or the provider withheld the rest.
    Cut = 4,
    /// The model only repeated itself.
    Repetition = 5,
    /// The model gave no answer.
    NoAnswer = 6,
    /// A hook denied the start, a model call, or a necessary compaction; or calls were not made because a
    /// rule denied them, or no one could consent to them.
    Denied = 7,
    /// The work is done, but its last state is not saved.
    Unsaved = 8,
    /// Another process took the run over.
    Fenced = 9,
    /// Nothing started: the project's file asks for something that the user has not allowed.
    Untrusted = 10,
    /// The answer does not match the schema that was asked for.
    Mismatch = 11,
}

impl Exit {
    /// Returns the exit code of the process.
    pub(crate) const fn code(self) -> u8 {
        self as u8
    }

    /// Returns the exit of a completed run. An unfinished run reports why; only a finished one can report
    /// that its last state is not saved, or that another process has the run.
    pub(crate) fn of_run(
        stop: &StopReason,
        denials: &[DeniedCall],
        checkpoints: Option<&CheckpointTally>,
    ) -> Self {
        match stop {
            StopReason::Done if denials.iter().any(|denied| denied.by.leaves_work()) => Self::Denied,
            StopReason::Done if checkpoints.is_some_and(|tally| tally.is_taken_over) => Self::Fenced,
            StopReason::Done if checkpoints.is_some_and(|tally| tally.unsaved.is_some()) => Self::Unsaved,
            StopReason::Done => Self::Done,
            StopReason::MaxIterations(_)
            | StopReason::MaxTurns(_)
            | StopReason::MaxEvents(_)
            | StopReason::BudgetSpent(_)
            | StopReason::Paused
            | StopReason::Waiting => Self::Limit,
            StopReason::Cut | StopReason::Withheld => Self::Cut,
            StopReason::Repeating { .. } => Self::Repetition,
            StopReason::NoAnswer => Self::NoAnswer,
            StopReason::Denied { .. } => Self::Denied,
        }
    }

    /// Returns the exit of a command that failed with `error`.
    pub(crate) fn of_error(error: &anyhow::Error) -> Self {
        let is_fenced =
            |cause: &StdError| matches!(cause.downcast_ref::<StoreError>(), Some(StoreError::Fenced { .. }));
        let is_denied =
            |cause: &StdError| matches!(cause.downcast_ref::<RunError>(), Some(RunError::Denied { .. }));
        let names_nothing = |cause: &StdError| {
            let error = cause.downcast_ref::<CheckpointsError>();
            matches!(error, Some(CheckpointsError::Unknown { .. } | CheckpointsError::Ambiguous { .. }))
        };
        if error.chain().any(<dyn std::error::Error>::is::<Untrusted>) {
            Self::Untrusted
        } else if error.chain().any(<dyn std::error::Error>::is::<Misconfigured>)
            || error.chain().any(names_nothing)
        {
            Self::NotBegun
        } else if error.chain().any(is_fenced) {
            Self::Fenced
        } else if error.chain().any(is_denied) {
            Self::Denied
        } else {
            Self::Failed
        }
    }
}

/// Returns the error of a run. If a state of the run is saved, it has started: the error is then no longer
/// one by which nothing started.
pub(crate) fn of_run(error: anyhow::Error, checkpoints: Option<&CheckpointTally>) -> anyhow::Error {
    let has_started = checkpoints.is_some_and(|tally| tally.saved > 0);
    if has_started && Exit::of_error(&error) == Exit::NotBegun {
        anyhow::anyhow!(in_a_line(&error))
    } else {
        error
    }
}

type StdError = dyn std::error::Error + 'static;

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Prints the error with its causes and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    say(error);
    Exit::of_error(error).into()
}

/// Prints the error with its causes.
pub(crate) fn say(error: &anyhow::Error) {
    let said = output::visible_lines(&chain(error));
    output::say(&format!("{} {said}", style("error:").red().bold().for_stderr()));
}

/// Returns the error and its causes, each once, and without what to do about it: some messages already end
/// with their cause's.
fn reasons(error: &anyhow::Error) -> Vec<String> {
    let is_helped = error.downcast_ref::<Help>().is_some();
    let mut reasons: Vec<String> = Vec::new();
    for cause in error.chain().skip(usize::from(is_helped)).map(ToString::to_string) {
        if !reasons.iter().any(|earlier| earlier.contains(&cause)) {
            reasons.push(cause);
        }
    }
    reasons
}

/// Returns the error with its causes, and then what to do, in a line for programs.
pub(crate) fn in_a_line(error: &anyhow::Error) -> String {
    let reasons = reasons(error).join(": ");
    error.downcast_ref::<Help>().map(|help| format!("{reasons}; {help}")).unwrap_or(reasons)
}

/// Returns the error with its causes in lines for people. What to do comes last.
fn chain(error: &anyhow::Error) -> String {
    let mut text = reasons(error).join("\n  because ");
    if let Some(help) = error.downcast_ref::<Help>() {
        text = format!("{text}\n  help: {help}");
    }
    text
}

#[cfg(test)]
mod tests {
    use forge_app::DeniedBy;
    use forge_domain::{AgentId, RunId, ToolName};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_reason_comes_before_what_to_do() {
        let error = anyhow::anyhow!("the port is taken").context("the server did not start");
        let plain = chain(&error);
        assert_eq!(plain, "the server did not start\n  because the port is taken");
        let helped = error.context(Help("name another port"));
        assert_eq!(chain(&helped), format!("{plain}\n  help: name another port"));
        assert_eq!(in_a_line(&helped), "the server did not start: the port is taken; name another port");
        // A message that ends with its cause's is enough.
        let whole = anyhow::anyhow!("it is taken").context("the port cannot be used: it is taken");
        assert_eq!(in_a_line(&whole), "the port cannot be used: it is taken");
    }

    #[test]
    fn each_end_of_a_run_has_its_code() {
        let tally = |unsaved: Option<&str>| CheckpointTally {
            run: RunId::new("r").unwrap(),
            saved: 1,
            failed: 0,
            unsaved: unsaved.map(str::to_owned),
            is_taken_over: false,
            is_resumed: false,
            last: None,
        };
        let denied = StopReason::Denied { hook: "h".to_owned(), reason: String::new() };
        let repeating =
            StopReason::Repeating { times: 3, tools: "read".to_owned(), do_numbers_differ: false };
        for (stop, unsaved, expected) in [
            (StopReason::Done, None, 0),
            (StopReason::Done, Some("the disk is full"), 8),
            (StopReason::MaxIterations(3), None, 3),
            (StopReason::MaxTurns(3), Some("the disk is full"), 3),
            (StopReason::MaxEvents(100), None, 3),
            (StopReason::Cut, None, 4),
            (StopReason::Withheld, None, 4),
            (repeating, None, 5),
            (StopReason::NoAnswer, None, 6),
            (denied, None, 7),
        ] {
            let actual = Exit::of_run(&stop, &[], Some(&tally(unsaved))).code();
            assert_eq!(actual, expected, "{stop}");
        }
        let denied = |by| DeniedCall {
            agent: AgentId::new("a").unwrap(),
            tool: ToolName::new("shell").unwrap(),
            call_id: "c".to_owned(),
            arguments: String::new(),
            about: Vec::new(),
            by,
            remedy: forge_app::Remedy::default(),
        };
        for (by, expected) in [
            (DeniedBy::Rule, Exit::Denied),
            (DeniedBy::Nobody, Exit::Denied),
            (DeniedBy::User, Exit::Done),
            (DeniedBy::Mode, Exit::Done),
            (DeniedBy::Hook, Exit::Done),
        ] {
            assert_eq!(Exit::of_run(&StopReason::Done, &[denied(by)], None), expected, "{by:?}");
        }
        let stop = StopReason::MaxIterations(1);
        assert_eq!(Exit::of_run(&stop, &[denied(DeniedBy::Rule)], None), Exit::Limit);
        assert_eq!(Exit::of_run(&StopReason::Done, &[], None), Exit::Done);
        let taken_over = CheckpointTally { is_taken_over: true, ..tally(Some("it was taken over")) };
        assert_eq!(Exit::of_run(&StopReason::Done, &[], Some(&taken_over)), Exit::Fenced);
    }
}
