//! Messages as turns, as the protocols see them that have but two sides.

use std::collections::HashMap;

use super::{Breach, Rule, RuleSet};
use crate::{Body, Message, Role, ToolCall, ToolResult};

/// A run of messages of one side. System messages are separate and divide nothing.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    pub(super) is_users: bool,
    /// Its messages with their positions.
    pub(super) messages: Vec<(usize, &'a Message)>,
}

impl<'a> Turn<'a> {
    /// Returns the turns of `messages`; those of the user and the assistant alternate.
    pub(super) fn all_of<M: AsRef<Message>>(messages: &'a [M]) -> Vec<Self> {
        let mut turns: Vec<Self> = Vec::new();
        for (position, message) in messages.iter().map(M::as_ref).enumerate() {
            let Some(is_users) = message.role().is_users() else { continue };
            match turns.last_mut() {
                Some(turn) if turn.is_users == is_users => turn.messages.push((position, message)),
                _ => turns.push(Self { is_users, messages: vec![(position, message)] }),
            }
        }
        turns
    }

    /// Iterates over its calls in order, each with the position of its message.
    pub(super) fn calls(&self) -> impl Iterator<Item = (usize, &'a ToolCall)> {
        self.messages.iter().flat_map(|(at, message)| message.calls().iter().map(move |call| (*at, call)))
    }

    /// Iterates over its results in order, each with the position of its message.
    pub(super) fn results(&self) -> impl Iterator<Item = (usize, &'a ToolResult)> {
        self.messages.iter().filter_map(|(at, message)| match &message.body {
            Body::Tool(result) => Some((*at, result)),
            _ => None,
        })
    }

    /// Returns the position of the first user text in it beside results.
    fn says_at(&self) -> Option<usize> {
        self.messages.iter().find(|(_, message)| message.role() == Role::User).map(|(at, _)| *at)
    }
}

/// The pairing of one turn's results with the calls of the turn before it.
#[derive(Debug, Default)]
pub(super) struct Pairing<'a> {
    /// Calls without a result, with the positions of their messages.
    pub(super) unanswered: Vec<(usize, &'a ToolCall)>,
    /// Results without a call, with their positions.
    pub(super) without_call: Vec<(usize, &'a ToolResult)>,
    /// Results that answer a call from before that of an earlier result, with their positions.
    pub(super) out_of_order: Vec<(usize, &'a ToolResult)>,
}

impl<'a> Pairing<'a> {
    /// Pairs `calls` with the results of the turn after them by id, the first of equals first.
    pub(super) fn of(calls: Option<&Turn<'a>>, results: Option<&Turn<'a>>) -> Self {
        let calls: Vec<_> = calls.into_iter().flat_map(Turn::calls).collect();
        // The first open call of each id, and for each call the next one of the same id.
        let mut open: HashMap<&str, usize> = HashMap::new();
        let mut next = vec![None; calls.len()];
        for (n, (_, call)) in calls.iter().enumerate().rev() {
            next[n] = open.insert(&call.id, n);
        }
        let mut is_answered = vec![false; calls.len()];
        let mut pairing = Self::default();
        let mut furthest = None;
        for (at, result) in results.into_iter().flat_map(Turn::results) {
            match open.remove(result.call_id.as_str()) {
                None => pairing.without_call.push((at, result)),
                Some(n) => {
                    is_answered[n] = true;
                    open.extend(next[n].map(|next| (result.call_id.as_str(), next)));
                    if furthest.is_some_and(|furthest| n < furthest) {
                        pairing.out_of_order.push((at, result));
                    }
                    furthest = furthest.max(Some(n));
                }
            }
        }
        let unanswered = calls.iter().zip(&is_answered).filter(|(_, is_answered)| !**is_answered);
        pairing.unanswered = unanswered.map(|(call, _)| *call).collect();
        pairing
    }
}

/// Pairs each turn of the assistant and each of the user with its neighbour: the calls and their answers.
pub(super) fn exchanges<'t, 'a>(
    turns: &'t [Turn<'a>],
) -> impl Iterator<Item = (Option<&'t Turn<'a>>, Option<&'t Turn<'a>>)> {
    let opening = turns.first().filter(|turn| turn.is_users).map(|turn| (None, Some(turn)));
    let calling = turns.iter().enumerate().filter(|(_, turn)| !turn.is_users);
    opening.into_iter().chain(calling.map(|(at, turn)| (Some(turn), turns.get(at + 1))))
}

/// Checks whether `message` has content or calls: a text that is not blank, any other part, a call or a
/// result.
pub(super) fn says_something(message: &Message) -> bool {
    let shows = match message.content() {
        Some(crate::Content::Text(text)) => !text.trim().is_empty(),
        Some(crate::Content::Parts(parts)) => parts.iter().any(|part| match part {
            crate::Part::Text(text) => !text.trim().is_empty(),
            crate::Part::Media(_) => true,
        }),
        None => false,
    };
    shows || !message.calls().is_empty() || message.role() == Role::Tool || !message.extra.is_empty()
}

/// Returns the breaches that the protocols with two sides share: `turns`, of `n_messages` messages, start
/// with the user's, and the turn after calls starts with a result for each of them and for nothing else.
pub(super) fn turn_breaches(turns: &[Turn<'_>], n_messages: usize, protocol: RuleSet) -> Vec<Breach> {
    let breach = |position, rule| Breach { position, protocol, rule };
    let mut breaches = Vec::new();
    if !turns.first().is_some_and(|turn| turn.is_users) {
        let position = turns.first().map_or(n_messages, |turn| turn.messages[0].0);
        breaches.push(breach(position, Rule::UserDoesNotOpen));
    }
    for (calling, answering) in exchanges(turns) {
        let pairing = Pairing::of(calling, answering);
        for (at, call) in pairing.unanswered {
            breaches.push(breach(at, Rule::CallUnanswered { call_id: call.id.clone() }));
        }
        // A result without a call is wrong anywhere; one that answers comes before any other content.
        let said_at = answering.and_then(Turn::says_at);
        let late = |at: &usize| said_at.is_some_and(|said_at| *at > said_at);
        let is_lost = |at: &usize| pairing.without_call.iter().any(|(lost, _)| lost == at);
        let mut results = answering.into_iter().flat_map(Turn::results);
        if let Some((at, result)) = results.find(|(at, _)| late(at) && !is_lost(at)) {
            breaches.push(breach(at, Rule::ResultBehindText { call_id: result.call_id.clone() }));
        }
        for (at, result) in pairing.without_call {
            breaches.push(breach(at, Rule::ResultWithoutCall { call_id: result.call_id.clone() }));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ToolName;

    #[test]
    fn of_calls_with_one_id_the_first_is_answered_first() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: ToolName::new("ls").unwrap(),
            arguments: "{}".to_owned(),
        };
        let answer = |id: &str| Message::tool(ToolResult::answer(&call(id), "done"));
        let mut messages = vec![Message::calling(["a", "b", "a", "c"].map(call).to_vec())];
        messages.extend(["b", "a", "a", "a"].map(answer));
        let turns = Turn::all_of(&messages);
        let pairing = Pairing::of(turns.first(), turns.get(1));
        let unanswered: Vec<&str> = pairing.unanswered.iter().map(|(_, call)| call.id.as_str()).collect();
        let at = |results: &[(usize, &ToolResult)]| results.iter().map(|(at, _)| *at).collect::<Vec<_>>();
        assert_eq!(unanswered, ["c"]);
        assert_eq!(at(&pairing.without_call), [4]);
        assert_eq!(at(&pairing.out_of_order), [2]);
    }
}
