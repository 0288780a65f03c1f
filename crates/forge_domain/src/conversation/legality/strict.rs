//! Chat templates with strict turns, as many open models have them.

use super::{Breach, Rule, RuleSet};
use crate::{Message, Role};

/// Returns the places where `messages` break the rules of strict chat templates in a way that no codec fixes:
/// the first message after the system messages is the user's own. The way in which messages are sent fulfils
/// the other demands of such templates: adjacent messages of one role are one message, and the assistant
/// speaks between results and the user. That calls and results belong together is OpenAI's rule as well.
pub fn strict_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let first = messages.iter().map(M::as_ref).position(|message| message.role() != Role::System);
    match first {
        Some(at) if messages[at].as_ref().role() == Role::User => Vec::new(),
        _ => {
            let position = first.unwrap_or(messages.len());
            vec![Breach { position, protocol: RuleSet::Strict, rule: Rule::UserDoesNotOpen }]
        }
    }
}
