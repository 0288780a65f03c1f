//! Chat templates with strict turns, as many open models have them.

use super::{Breach, Protocol, Rule};
use crate::{Message, Role};

/// Where `messages` break the rules of strict chat templates in a way that no codec mends: the first message after the system
/// messages is the user's own. What else such templates demand holds by the way in which messages are sent: neighbours of one
/// role are one message, and the assistant speaks between results and the user. That calls and results belong
/// together is OpenAI's rule as well.
pub fn strict_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let first = messages.iter().map(M::as_ref).position(|message| message.role() != Role::System);
    match first {
        Some(at) if messages[at].as_ref().role() == Role::User => Vec::new(),
        _ => {
            let position = first.unwrap_or(messages.len());
            vec![Breach { position, protocol: Protocol::Strict, rule: Rule::UserDoesNotOpen }]
        }
    }
}
