//! Gemini's contents: turns that alternate, as many responses as calls, in their order.

use super::turn::{Pairing, Turn, exchanges, says_something};
use super::{Breach, Protocol, Rule};
use crate::Message;

/// Where `messages` break Gemini's rules: the first turn is the user's; the turn behind calls opens with one response for
/// each of them, in their order, because responses carry no ids; no turn is without a part.
pub fn gemini_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let breach = |position, rule| Breach { position, protocol: Protocol::Gemini, rule };
    let mut breaches = Vec::new();
    let turns = Turn::all_of(messages);
    if !turns.first().is_some_and(|turn| turn.is_users) {
        let position = turns.first().map_or(messages.len(), |turn| turn.messages[0].0);
        breaches.push(breach(position, Rule::UserDoesNotOpen));
    }
    for (calling, answering) in exchanges(&turns) {
        let pairing = Pairing::of(calling, answering);
        for (at, call) in pairing.unanswered {
            breaches.push(breach(at, Rule::CallUnanswered { call_id: call.id.clone() }));
        }
        for (at, result) in pairing.without_call {
            breaches.push(breach(at, Rule::ResultWithoutCall { call_id: result.call_id.clone() }));
        }
        for (at, result) in pairing.out_of_order {
            breaches.push(breach(at, Rule::ResultOutOfOrder { call_id: result.call_id.clone() }));
        }
        if let Some((at, result)) = answering.and_then(Turn::result_behind_text) {
            breaches.push(breach(at, Rule::ResultBehindText { call_id: result.call_id.clone() }));
        }
    }
    let empty = turns.iter().flat_map(|turn| &turn.messages).filter(|(_, message)| !says_something(message));
    breaches.extend(empty.map(|(at, _)| breach(*at, Rule::Empty)));
    breaches.sort_by_key(|breach| breach.position);
    breaches
}
