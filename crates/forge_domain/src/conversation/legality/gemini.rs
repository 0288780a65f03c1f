//! Gemini's contents: turns that alternate, as many responses as calls, in their order.

use super::turn::{Pairing, Turn, exchanges, says_something, turn_breaches};
use super::{Breach, Rule, RuleSet};
use crate::Message;

/// Returns the places where `messages` break Gemini's rules: the first turn is the user's; the turn after
/// calls starts with one response for each of them, in their order, because responses carry no ids; no turn
/// is without a part.
pub fn gemini_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let breach = |position, rule| Breach { position, protocol: RuleSet::Gemini, rule };
    let turns = Turn::all_of(messages);
    let mut breaches = turn_breaches(&turns, messages.len(), RuleSet::Gemini);
    for (calling, answering) in exchanges(&turns) {
        for (at, result) in Pairing::of(calling, answering).out_of_order {
            breaches.push(breach(at, Rule::ResultOutOfOrder { call_id: result.call_id.clone() }));
        }
    }
    let empty = turns.iter().flat_map(|turn| &turn.messages).filter(|(_, message)| !says_something(message));
    breaches.extend(empty.map(|(at, _)| breach(*at, Rule::Empty)));
    breaches.sort_by_key(|breach| breach.position);
    breaches
}
