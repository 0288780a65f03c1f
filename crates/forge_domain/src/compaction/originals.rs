//! The messages of a context as they were before results and images were cleared.

use super::CompactionServices;
use super::stub::{cleared_image_label, cleared_label};
use crate::{Context, ContextMessage, Role};

/// Returns the messages of `context`, each that was cleared as it was appended, if `services` know it.
pub(super) fn originals(context: &Context, services: &dyn CompactionServices) -> Vec<ContextMessage> {
    let original = |message: &ContextMessage| {
        let label = match message.role() {
            Role::Tool => cleared_label(&message.message().text()),
            // A message with an id is in the log as it is: nothing of it was cleared, whatever it says.
            Role::User if message.id().is_none() => cleared_image_label(&message.message().text()),
            Role::System | Role::User | Role::Assistant => None,
        };
        services.original(label?)
    };
    context.messages().iter().map(|message| original(message).unwrap_or_else(|| message.clone())).collect()
}
