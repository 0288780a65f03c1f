//! Anthropic's messages: turns that alternate, results first in the turn after their calls.

use std::collections::HashSet;

use serde_json::Value;

use super::turn::{Turn, says_something, turn_breaches};
use super::{Breach, Rule, RuleSet};
use crate::{Message, THINKING_BLOCKS};

/// Returns the places where `messages` break Anthropic's rules: the first turn is the user's; the turn after
/// calls starts with a result for each of them, in any order; ids of calls are not used again; no turn is
/// without text; reasoning has its signature.
pub fn anthropic_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let breach = |position, rule| Breach { position, protocol: RuleSet::Anthropic, rule };
    let turns = Turn::all_of(messages);
    let mut breaches = turn_breaches(&turns, messages.len(), RuleSet::Anthropic);
    let mut ids = HashSet::new();
    for (at, call) in turns.iter().flat_map(Turn::calls) {
        if !ids.insert(call.id.as_str()) {
            breaches.push(breach(at, Rule::CallIdReused { call_id: call.id.clone() }));
        }
    }
    for (at, message) in turns.iter().flat_map(|turn| &turn.messages) {
        if !says_something(message) {
            breaches.push(breach(*at, Rule::Empty));
        }
        let blocks = message.extra.get(THINKING_BLOCKS).and_then(Value::as_array);
        if !blocks.into_iter().flatten().all(is_whole) {
            breaches.push(breach(*at, Rule::ReasoningTorn));
        }
    }
    breaches.sort_by_key(|breach| breach.position);
    breaches
}

/// Checks whether a block of reasoning has its proof.
fn is_whole(block: &Value) -> bool {
    let has = |key: &str| block.get(key).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    match block.get("type").and_then(Value::as_str) {
        // The text itself may be hidden.
        Some("thinking") => block.get("thinking").is_some_and(Value::is_string) && has("signature"),
        Some("redacted_thinking") => has("data"),
        _ => false,
    }
}
