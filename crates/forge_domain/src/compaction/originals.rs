//! The messages of a context as they were before results were cleared.

use super::CompactionServices;
use super::stub::cleared_label;
use crate::{Context, ContextMessage, Role};

/// Returns the messages of `context`, each cleared result as it was appended, if `services` know it.
pub(super) fn originals(context: &Context, services: &dyn CompactionServices) -> Vec<ContextMessage> {
    let original = |message: &ContextMessage| {
        let is_result = message.role() == Role::Tool;
        let label = is_result.then(|| cleared_label(&message.message().text())).flatten()?;
        services.original(label)
    };
    context.messages().iter().map(|message| original(message).unwrap_or_else(|| message.clone())).collect()
}
