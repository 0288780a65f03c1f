//! A model that makes the same calls over and over and learns nothing new by it.

use serde_json::Value;

use crate::{Body, Conversation, Entry, ToolCall, ToolResult};

/// Longest circle that is noticed, in replies.
const LONGEST_CIRCLE: usize = 3;

/// A repetition of calls with the same results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// The number of times, including the first; at least 2.
    pub times: usize,
    /// The tools of one round, in order.
    pub tools: Vec<String>,
}

/// A reply's calls and their results.
struct Step<'a> {
    calls: &'a [ToolCall],
    results: Vec<&'a ToolResult>,
}

impl Repetition {
    /// Returns the repetition at the end of the current turn in `conversation`, counted up to `most` times:
    /// in a row, or in a circle of up to three replies. Calls are the same if tool and arguments are,
    /// whatever the order of their keys.
    pub fn at_the_end_of(conversation: &Conversation, most: usize) -> Option<Self> {
        let steps = last_steps(conversation, most.saturating_add(1).saturating_mul(LONGEST_CIRCLE));
        let repeated = |circle: usize| {
            let same = (circle..steps.len()).take_while(|at| steps[*at].is_same(&steps[at - circle])).count();
            // In the middle of a round nothing is new.
            if same % circle == 0 { (same / circle + 1, circle) } else { (1, circle) }
        };
        // Of two that explain as much the shorter one.
        let (times, circle) = (1..=LONGEST_CIRCLE).rev().map(repeated).max_by_key(|(times, _)| *times)?;
        let round = steps.get(..circle).filter(|_| times > 1)?;
        let tools = round.iter().rev().flat_map(|step| step.calls).map(|call| call.name.to_string());
        Some(Self { times, tools: tools.collect() })
    }
}

/// Returns the last steps of the current turn, the newest first.
fn last_steps(conversation: &Conversation, most: usize) -> Vec<Step<'_>> {
    let (mut steps, mut results) = (Vec::new(), Vec::new());
    let messages = conversation.entries().iter().rev().filter_map(|entry| match entry {
        Entry::Message(message) => Some(message.message()),
        Entry::Compaction(_) | Entry::Undo(_) => None,
    });
    for message in messages.take_while(|message| !message.starts_turn()) {
        match &message.body {
            Body::Tool(result) => results.push(result),
            Body::Assistant { calls, .. } if !calls.is_empty() => {
                results.reverse();
                steps.push(Step { calls, results: std::mem::take(&mut results) });
                if steps.len() == most {
                    break;
                }
            }
            Body::Assistant { .. } | Body::User(_) | Body::System(_) => {}
        }
    }
    steps
}

impl Step<'_> {
    fn is_same(&self, other: &Self) -> bool {
        let is_answered_alike =
            |(a, b): (&&ToolResult, &&ToolResult)| a.is_error == b.is_error && a.content == b.content;
        self.calls.len() == other.calls.len()
            && self.results.len() == other.results.len()
            && self.calls.iter().zip(other.calls).all(|(a, b)| is_same_call(a, b))
            && self.results.iter().zip(&other.results).all(is_answered_alike)
    }
}

fn is_same_call(a: &ToolCall, b: &ToolCall) -> bool {
    let parsed = |call: &ToolCall| serde_json::from_str::<Value>(&call.arguments).ok();
    // Mappings are equal whatever the order of their keys.
    let is_same_value = || parsed(a).is_some_and(|value| Some(value) == parsed(b));
    a.name == b.name && (a.arguments == b.arguments || is_same_value())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{ContextMessage, Message, TokenCounter, Tokens, ToolName};

    struct Nothing;
    impl TokenCounter for Nothing {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    /// Builds a conversation of a letter per reply: it calls `t` with that letter and is answered with it;
    /// `u` is a user message, `n` a note. An upper-case letter has the same arguments and another result.
    fn conversation(letters: &str) -> Conversation {
        let mut log = Conversation::new();
        let mut add = |message: Message| {
            log.append(ContextMessage::count(message, &Nothing));
        };
        for letter in letters.chars() {
            match letter {
                'u' => add(Message::user("u")),
                'n' => add(Message::note("loop", "n")),
                letter => {
                    let arguments = format!(r#"{{"a": 1, "b": "{}"}}"#, letter.to_ascii_lowercase());
                    let call = ToolCall { id: "c".into(), name: ToolName::new("t").unwrap(), arguments };
                    let result = ToolResult::answer(&call, letter.to_string());
                    add(Message::calling(vec![call]));
                    add(Message::tool(result));
                }
            }
        }
        log
    }

    #[test]
    fn what_is_repeated_is_noticed() {
        for (letters, most, expected) in [
            ("", 9, None),
            ("ua", 9, None),
            ("uab", 9, None),
            ("uaa", 9, Some((2, 1))),
            ("uaaaa", 9, Some((4, 1))),
            ("uaaaab", 9, None),
            ("ubaaa", 9, Some((3, 1))),
            ("uaana", 9, Some((3, 1))),
            ("uaaua", 9, None),
            ("uaaA", 9, None),
            ("uaAaA", 9, Some((2, 2))),
            ("uabab", 9, Some((2, 2))),
            ("uababab", 9, Some((3, 2))),
            ("uababa", 9, None),
            ("uabcabcabc", 9, Some((3, 3))),
            ("uabcdabcd", 9, None),
            // It looks back no further than it has to.
            ("uaaaaaaaaa", 1, Some((6, 1))),
        ] {
            let actual = Repetition::at_the_end_of(&conversation(letters), most);
            let actual = actual.map(|repetition| (repetition.times, repetition.tools.len()));
            assert_eq!(actual, expected, "{letters}");
        }
    }

    #[test]
    fn the_order_of_keys_makes_no_difference() {
        let call = |arguments: &str| ToolCall {
            id: String::new(),
            name: ToolName::new("t").unwrap(),
            arguments: arguments.to_owned(),
        };
        for (a, b, expected) in [
            (r#"{"a": 1, "b": [1, 2]}"#, r#"{"b":[1,2],"a":1}"#, true),
            (r#"{"a": 1}"#, r#"{"a": 2}"#, false),
            (r#"{"a": [1, 2]}"#, r#"{"a": [2, 1]}"#, false),
            ("{", "{", true),
            ("{", "[", false),
        ] {
            assert_eq!(is_same_call(&call(a), &call(b)), expected, "{a} {b}");
        }
    }
}
