//! Moves results to their calls: what no provider accepts is repaired, and a legal session stays unchanged.

use std::collections::HashMap;

use forge_domain::{Body, Message, ToolCall, ToolResult, tool_twin};
use serde::Serialize;
use smallvec::SmallVec;

use crate::flat_text::NO_RESULT;
use crate::harness::{ANSWERED, announced_result, is_announced_result};

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

/// A message by its calls and its result: they are what has to be in order.
pub(crate) trait Linked {
    /// Returns the ids of its calls, in order.
    fn call_ids(&self) -> impl Iterator<Item = &str>;

    /// Returns the id of the call that it answers, if it is a result.
    fn answered_id(&self) -> Option<&str>;

    /// Checks whether it is a note that announces a result, and names no call.
    fn is_announced_result(&self) -> bool;
}

impl Linked for Message {
    fn call_ids(&self) -> impl Iterator<Item = &str> {
        self.calls().iter().map(|call| call.id.as_str())
    }

    fn answered_id(&self) -> Option<&str> {
        match &self.body {
            Body::Tool(result) => Some(&result.call_id),
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
        }
    }

    fn is_announced_result(&self) -> bool {
        is_announced_result(self)
    }
}

/// Orders `items` in a way that every provider accepts: results directly after their calls. `whole` returns
/// all of an item's message. A result belongs to the nearest earlier call of its id that has none, or else to
/// a later one, as some agents write both at once in no order; a result that names no call, or that a note
/// announces, belongs to the first call right before it that nothing else answers. Missing ones come from
/// `made`.
pub(crate) fn repair<T: Linked>(
    items: Vec<T>,
    whole: impl Fn(&T) -> Message,
    made: impl Fn(Message) -> T,
) -> (Vec<T>, Vec<Repair>) {
    let mut repairs = Vec::new();
    let answers = answers(&items, &mut repairs);
    if repairs.is_empty() && is_in_order(&items, &answers) {
        return (items, repairs);
    }
    let mut results: HashMap<usize, Vec<usize>> = HashMap::new();
    for (place, caller) in answers.iter().enumerate().filter(|(_, caller)| **caller != NO_CALLER) {
        results.entry(*caller as usize).or_default().push(place);
    }
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    let mut ordered = Vec::with_capacity(items.len());
    for caller in 0..items.len() {
        let Some(item) = items[caller].take_if(|item| item.answered_id().is_none()) else { continue };
        let mut open: Vec<(usize, String)> =
            item.call_ids().enumerate().map(|(nth, id)| (nth, id.to_owned())).collect();
        let at = ordered.len();
        ordered.push(item);
        let mut nameless = Vec::new();
        for result in results.get(&caller).into_iter().flatten().filter_map(|at| items[*at].take()) {
            match open.iter().position(|(_, id)| result.answered_id() == Some(id)) {
                Some(answered) => {
                    open.remove(answered);
                    ordered.push(result);
                }
                None => nameless.push(result),
            }
        }
        if nameless.is_empty() && open.is_empty() {
            continue;
        }
        let calls = whole(&ordered[at]).calls().to_vec();
        let mut open = open.into_iter().filter_map(|(nth, _)| calls.get(nth));
        for result in nameless {
            let mut named = whole(&result);
            if result.is_announced_result() {
                // So its agent sends results.
                match open.next() {
                    Some(call) => {
                        let answer = Message::tool(ToolResult::answer(call, announced_result(&named)));
                        ordered.push(made(Message { timestamp: named.timestamp, ..answer }));
                    }
                    None => ordered.push(result),
                }
                continue;
            }
            let Body::Tool(answer) = &mut named.body else { continue };
            let Some(ToolCall { id, name, .. }) = open.next() else {
                repairs.push(Repair::OrphanResult { call_id: answer.call_id.clone() });
                continue;
            };
            repairs.push(Repair::NamedResult { call_id: id.clone() });
            (answer.call_id, answer.name) = (id.clone(), Some(name.clone()));
            ordered.push(made(named));
        }
        let later = items[caller + 1..].iter().flatten();
        for call in open {
            let is_answered = asks(call) && is_answered(later.clone(), &whole);
            let said = if is_answered { ANSWERED } else { NO_RESULT };
            ordered.push(made(Message::tool(ToolResult::answer(call, said))));
            repairs.push(Repair::MissingResult { call_id: call.id.clone() });
        }
    }
    (ordered, repairs)
}

/// Checks whether a call asks the user something.
fn asks(call: &ToolCall) -> bool {
    tool_twin(call.name.as_str()) == Some("ask")
}

/// Checks whether the user says something in `later` items, before the next call.
fn is_answered<'t, T: Linked + 't>(
    later: impl Iterator<Item = &'t T>,
    whole: &impl Fn(&T) -> Message,
) -> bool {
    let mut before_call = later.take_while(|item| item.call_ids().next().is_none());
    before_call.any(|item| whole(item).starts_turn())
}

/// The place of the caller of what answers no call.
const NO_CALLER: u32 = u32::MAX;

/// Checks whether each message with calls is directly followed by one result for each of them, so that
/// nothing has to be moved or made.
fn is_in_order<T: Linked>(items: &[T], answers: &[u32]) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for (item, caller) in items.iter().zip(answers) {
        match item.answered_id() {
            Some(id) if *caller != NO_CALLER => match open.iter().position(|call| *call == id) {
                Some(answered) => drop(open.remove(answered)),
                None => return false,
            },
            Some(_) => return false,
            None if !open.is_empty() => return false,
            None => open.extend(item.call_ids()),
        }
    }
    open.is_empty()
}

/// Returns for each item the place of the message with the call that it answers.
fn answers<T: Linked>(items: &[T], repairs: &mut Vec<Repair>) -> Vec<u32> {
    let mut unanswered: HashMap<&str, SmallVec<[u32; 2]>> = HashMap::new();
    let mut answers = vec![NO_CALLER; items.len()];
    let mut before = None;
    let mut early = Vec::new();
    for (place, item) in items.iter().enumerate() {
        let number = u32::try_from(place).unwrap_or(NO_CALLER);
        for id in item.call_ids() {
            unanswered.entry(id).or_default().push(number);
        }
        let Some(call_id) = item.answered_id() else {
            let calls = before.filter(|at| items[*at as usize].call_ids().next().is_some());
            match calls.filter(|_| item.is_announced_result()) {
                Some(caller) => answers[place] = caller,
                None => before = Some(number),
            }
            continue;
        };
        let callers = unanswered.get_mut(call_id);
        let is_last = callers.as_ref().is_some_and(|callers| callers.len() == 1);
        match callers.and_then(SmallVec::pop) {
            // It names nothing, so only its position counts.
            None if call_id.is_empty()
                && before.is_some_and(|at| items[at as usize].call_ids().next().is_some()) =>
            {
                answers[place] = before.unwrap_or_default();
            }
            None => early.push((place, call_id)),
            Some(caller) => {
                if before != Some(caller) {
                    repairs.push(Repair::MovedResult { call_id: call_id.to_owned() });
                }
                answers[place] = caller;
            }
        }
        if is_last {
            unanswered.remove(call_id);
        }
    }
    for (place, call_id) in early {
        let caller = unanswered.get_mut(call_id).and_then(SmallVec::pop);
        let call_id = call_id.to_owned();
        repairs.push(match caller {
            Some(_) => Repair::MovedResult { call_id },
            None => Repair::OrphanResult { call_id },
        });
        answers[place] = caller.unwrap_or(NO_CALLER);
    }
    answers
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
            ("n", _) => Message::user("[look for 'a'] Result:\nout").noted_by("harness"),
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
            _ if is_announced_result(message) => "n".to_owned(),
            _ => "u".to_owned(),
        };
        messages.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_question_without_a_result_is_answered_by_what_the_user_says_next() {
        for (before, expected) in [
            ("u tx u a", "[answered in the user's next message]"),
            ("u tx a u", "[answered in the user's next message]"),
            ("u tx tx u", NO_RESULT),
            ("u tx a", NO_RESULT),
        ] {
            let mut asked = messages(before);
            for message in &mut asked {
                if let Body::Assistant { calls, .. } = &mut message.body {
                    let ask = ToolName::new("ask_followup_question").unwrap();
                    calls.iter_mut().for_each(|call| call.name = ask.clone());
                }
            }
            let (after, repairs) = repair(asked, Message::clone, |message| message);
            assert_eq!((after[2].to_text().as_str(), repairs.is_empty()), (expected, false), "{before}");
        }
    }

    #[test]
    fn results_are_brought_to_their_calls_and_the_legal_is_left() {
        for (before, expected, n_repairs) in [
            ("u tx rx a u", "u tx rx a u", 0),
            ("u txy ry rx u tx rx", "u txy ry rx u tx rx", 0),
            ("u tx u rx", "u tx rx u", 1),
            ("u rx tx a", "u tx rx a", 1),
            ("u rx tx rx", "u tx rx", 1),
            ("u rx ry txy u", "u txy rx ry u", 2),
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
            // Results that notes announce.
            ("u txy n n u", "u txy rx ry u", 0),
            ("u tx n n u", "u tx rx n u", 0),
            ("u txy n u", "u txy rx ny u", 1),
            ("u tx u n", "u tx nx u n", 1),
            ("u a n u", "u a n u", 0),
        ] {
            let (after, repairs) = repair(messages(before), Message::clone, |message| message);
            assert_eq!(
                (words(&after).as_str(), repairs.len()),
                (expected, n_repairs),
                "{before}: {repairs:?}"
            );
            assert_eq!(openai_breaches(&after), [], "{before}");
        }
    }
}
