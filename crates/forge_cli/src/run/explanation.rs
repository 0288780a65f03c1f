//! Errors of a run, with what to do about them.

use forge_app::{ResumeError, RunError};
use forge_domain::ProviderError;

use super::checkpoints;
use crate::failure::{Help, Misconfigured};

/// Explains why a run cannot be resumed.
pub(crate) fn explain_resume(error: ResumeError) -> anyhow::Error {
    match error {
        ResumeError::Work(error) => explain(error),
        error => checkpoints::explain(error),
    }
}

/// Classifies errors that the configuration can fix.
pub(crate) fn explain(error: RunError) -> anyhow::Error {
    match error {
        RunError::NobodyListens { .. } => {
            Misconfigured(format!("{error}\n  help: --agent ID names the agent that is to start")).into()
        }
        RunError::NoModel { .. } => {
            let help = "set it in forge.yaml, or the model of every agent with FORGE_MODEL or --model";
            Misconfigured(format!("{error}\n  help: {help}")).into()
        }
        RunError::UnknownAgent { .. }
        | RunError::Model { .. }
        | RunError::Reasoning { .. }
        | RunError::NoImages { .. }
        | RunError::Tools { .. }
        | RunError::Compact { .. }
        | RunError::Unpriced { .. }
        | RunError::Template(_)
        | RunError::Provider(ProviderError::MissingKey { .. }) => Misconfigured(error.to_string()).into(),
        RunError::ToolsUnavailable { .. } => anyhow::Error::new(error).context(Help(
            "`forge doctor` looks at every server; `FORGE_LOG=forge::mcp=info` shows what it prints",
        )),
        RunError::Provider(ProviderError::UnreadableCall { .. }) => anyhow::Error::new(error).context(Help(
            "`forge run --resume` tries again; a newer server, the model's own chat template or another model may help",
        )),
        RunError::StillOver(_) => anyhow::Error::new(error)
            .context(Help("shorten what must stay, or use a model with a larger window")),
        RunError::Denied { .. } => anyhow::Error::new(error).context(Help(
            "nothing was sent: let the hook allow a compaction whose `trigger` is `window`, remove it from \
             `hooks.pre_compact`, or use a model with a larger window",
        )),
        RunError::SwitchedOff { .. } => anyhow::Error::new(error)
            .context(Help("nothing was sent: set `auto_compact: true`, or use a model with a larger window")),
        error => error.into(),
    }
}
