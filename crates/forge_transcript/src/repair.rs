//! Moves results to their calls: what no provider accepts is repaired, and a legal session stays unchanged.

use std::collections::HashMap;

use forge_domain::{Body, Message, ToolCall, ToolResult};
use serde::Serialize;

use crate::recording::NO_RESULT;

/// One repair.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "repair", rename_all = "snake_case")]
pub enum Repair {
    /// A call had no result; it got one that tells so.
    MissingResult {
        /// Id of the call.
        call_id: String,
    },
    /// A result named no call; it followed one that had no other result, and now names it.
    NamedResult {
        /// Id of the call.
        call_id: String,
    },
    /// A result answered no call; it was dropped.
    OrphanResult {
        /// Id that it names.
        call_id: String,
    },
    /// A message had not the form of its protocol; it was given it.
    Form {
        /// The index of the entry among the messages, from 0.
        entry: usize,
    },
    /// A result was separate from its call; it was moved after it.
    MovedResult {
        /// Id of the call.
        call_id: String,
    },
}

/// Orders `items` in a way that every provider accepts: results directly after their calls. `message` returns
/// the outline of an item's message, `whole` all of it. A result belongs to the nearest earlier call of its
/// id that has none; one that names no call, to the first call right before it that nothing else answers.
/// Missing ones come from `made`.
pub(crate) fn repair<T>(
    items: Vec<T>,
    message: impl Fn(&T) -> &Message,
    whole: impl Fn(&T) -> Message,
    made: impl Fn(Message) -> T,
) -> (Vec<T>, Vec<Repair>) {
    let mut repairs = Vec::new();
    let results = results(&items, &message, &mut repairs);
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(items.len());
    for caller in 0..items.len() {
        let Some(item) = items[caller].take_if(|item| !matches!(message(item).body, Body::Tool(_))) else {
            continue;
        };
        let mut open: Vec<ToolCall> = message(&item).calls().to_vec();
        ordered.push(item);
        let mut nameless = Vec::new();
        for result in results.get(&caller).into_iter().flatten().filter_map(|at| items[*at].take()) {
            let Body::Tool(answer) = &message(&result).body else { continue };
            match open.iter().position(|call| call.id == answer.call_id) {
                Some(answered) => {
                    open.remove(answered);
                    ordered.push(result);
                }
                None => nameless.push(result),
            }
        }
        for result in nameless {
            let mut named = whole(&result);
            let Body::Tool(answer) = &mut named.body else { continue };
            if open.is_empty() {
                repairs.push(Repair::OrphanResult { call_id: answer.call_id.clone() });
                continue;
            }
            let ToolCall { id, name, .. } = open.remove(0);
            repairs.push(Repair::NamedResult { call_id: id.clone() });
            (answer.call_id, answer.name) = (id, Some(name));
            ordered.push(made(named));
        }
        for call in open {
            ordered.push(made(Message::tool(ToolResult::answer(&call, NO_RESULT))));
            repairs.push(Repair::MissingResult { call_id: call.id });
        }
    }
    (ordered, repairs)
}

/// Returns for each message with calls the places of their results.
fn results<T>(
    items: &[T],
    message: &impl Fn(&T) -> &Message,
    repairs: &mut Vec<Repair>,
) -> HashMap<usize, Vec<usize>> {
    let mut unanswered: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    let mut before = None;
    for (place, item) in items.iter().enumerate() {
        for call in message(item).calls() {
            unanswered.entry(&call.id).or_default().push(place);
        }
        let Body::Tool(result) = &message(item).body else {
            before = Some(place);
            continue;
        };
        let call_id = result.call_id.clone();
        match unanswered.get_mut(result.call_id.as_str()).and_then(Vec::pop) {
            // It names nothing, so only its position counts.
            None if call_id.is_empty()
                && before.is_some_and(|at| !message(&items[at]).calls().is_empty()) =>
            {
                results.entry(before.unwrap_or_default()).or_default().push(place);
            }
            None => repairs.push(Repair::OrphanResult { call_id }),
            Some(caller) => {
                if before != Some(caller) {
                    repairs.push(Repair::MovedResult { call_id });
                }
                results.entry(caller).or_default().push(place);
            }
        }
    }
    results
}

#[cfg(test)]
mod tests {
    use forge_domain::{ToolName, openai_breaches};
    use pretty_assertions::assert_eq;

    use super::*;

    fn call(id: char) -> ToolCall {
        ToolCall { id: id.to_string(), name: ToolName::new("t").unwrap(), arguments: "{}".into() }
    }

    /// Builds messages of a word each: `u`, `a`, `t` with the ids of its calls, `r` with that of its call.
    fn messages(text: &str) -> Vec<Message> {
        let message = |word: &str| match word.split_at(1) {
            ("u", _) => Message::user("hi"),
            ("a", _) => Message::assistant("yes"),
            ("t", ids) => Message::calling(ids.chars().map(call).collect()),
            (_, "") => {
                let nameless = ToolResult { call_id: String::new(), ..ToolResult::answer(&call('x'), "out") };
                Message::tool(nameless)
            }
            (_, id) => Message::tool(ToolResult::answer(&call(id.chars().next().unwrap()), "out")),
        };
        text.split_whitespace().map(message).collect()
    }

    fn words(messages: &[Message]) -> String {
        let word = |message: &Message| match &message.body {
            Body::Tool(result) if result.content == NO_RESULT.into() => format!("n{}", result.call_id),
            Body::Tool(result) => format!("r{}", result.call_id),
            Body::Assistant { calls, .. } if !calls.is_empty() => {
                format!("t{}", calls.iter().map(|call| call.id.as_str()).collect::<String>())
            }
            Body::Assistant { .. } => "a".to_owned(),
            _ => "u".to_owned(),
        };
        messages.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn results_are_brought_to_their_calls_and_the_legal_is_left() {
        for (before, expected, n_repairs) in [
            ("u tx rx a u", "u tx rx a u", 0),
            ("u txy ry rx u tx rx", "u txy ry rx u tx rx", 0),
            ("u tx u rx", "u tx rx u", 1),
            ("u tx", "u tx nx", 1),
            ("u txy ry u", "u txy ry nx u", 1),
            ("rx u", "u", 1),
            ("u tx rx rx", "u tx rx", 1),
            ("u tx ty rx ry", "u tx rx ty ry", 1),
            ("u tx u tx rx", "u tx nx u tx rx", 1),
            ("u txx rx rx", "u txx rx rx", 0),
            // Far away, in another order, after another exchange; ids used again pair by position.
            ("u txyz rz rx ry", "u txyz rz rx ry", 0),
            ("u txy ry u a rx a", "u txy ry rx u a a", 1),
            ("u tx ty ry rx u", "u tx rx ty ry u", 1),
            ("u tx u tx rx rx", "u tx rx u tx rx", 1),
            ("u tx tx tx rx", "u tx nx tx nx tx rx", 2),
            // Results that name no call: by position, the named ones first.
            ("u tx r a", "u tx rx a", 1),
            ("u txy r r", "u txy rx ry", 2),
            ("u txy r rx", "u txy rx ry", 1),
            ("u tx r r", "u tx rx", 2),
            ("u r a", "u a", 1),
            ("u tx u r", "u tx nx u", 2),
        ] {
            let (after, repairs) =
                repair(messages(before), |message| message, Message::clone, |message| message);
            assert_eq!(
                (words(&after).as_str(), repairs.len()),
                (expected, n_repairs),
                "{before}: {repairs:?}"
            );
            assert_eq!(openai_breaches(&after), [], "{before}");
        }
    }
}
