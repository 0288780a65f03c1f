//! A model that makes the same calls over and over and learns nothing new by it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::{Body, Content, Conversation, Entry, Part, ToolCall, ToolResult};

/// Longest circle that is noticed, in replies.
const LONGEST_CIRCLE: usize = 3;
/// The words by which a call is known to wait for something, in its tool's name or in its arguments.
const WAITS: [&str; 2] = ["sleep", "wait"];

/// The parts of a result that are left out if it may differ in numbers: ids in hexadecimal, numbers, dates
/// and times, and the white space that aligns them.
static NUMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let id = r"(?-u:\b)(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{7,})(?-u:\b)";
    Regex::new(&format!(r"(?i){id}|[0-9]+(?:[-:.][0-9]+)*|[ \t\r\n]+")).ok()
});

/// A repetition of calls with the same results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repetition {
    /// The number of times, including the first; at least 2.
    pub times: usize,
    /// The tools of one round, in order.
    pub tools: Vec<String>,
    /// True if a call of the round waits for something before it looks at it.
    pub does_wait: bool,
}

/// A degree to which results have to agree to count as the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// They are equal.
    Equal,
    /// They differ at most in numbers, dates, times and ids in hexadecimal.
    ApartFromNumbers,
}

/// A reply's calls and their results.
struct Step<'a> {
    calls: &'a [ToolCall],
    results: Vec<&'a ToolResult>,
}

impl Repetition {
    /// Returns the repetition at the end of the current turn in `conversation`, counted up to `most` times:
    /// in a row, or in a circle of up to three replies. Calls are the same if tool and arguments are,
    /// whatever the order of their keys; `likeness` decides about results.
    ///
    /// If numbers may differ, calls that wait never count as repeated: a job is watched in that way, and a
    /// counter may be all that its log changes.
    pub fn at_the_end_of(conversation: &Conversation, most: usize, likeness: Likeness) -> Option<Self> {
        let steps = last_steps(conversation, most.saturating_add(1).saturating_mul(LONGEST_CIRCLE));
        let repeated = |circle: usize| {
            let same =
                (circle..steps.len()).take_while(|at| steps[*at].is_like(&steps[at - circle], likeness));
            let same = same.count();
            // In the middle of a round nothing is new.
            if same % circle == 0 { (same / circle + 1, circle) } else { (1, circle) }
        };
        // Of two that explain as much the shorter one.
        let (times, circle) = (1..=LONGEST_CIRCLE).rev().map(repeated).max_by_key(|(times, _)| *times)?;
        let round = steps.get(..circle).filter(|_| times > 1)?;
        let does_wait = round.iter().flat_map(|step| step.calls).any(waits);
        if likeness == Likeness::ApartFromNumbers && does_wait {
            return None;
        }
        let tools = round.iter().rev().flat_map(|step| step.calls).map(|call| call.name.to_string());
        Some(Self { times, tools: tools.collect(), does_wait })
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
    fn is_like(&self, other: &Self, likeness: Likeness) -> bool {
        let is_answered_alike = |(a, b): (&&ToolResult, &&ToolResult)| {
            a.is_error == b.is_error && likeness.holds(&a.content, &b.content)
        };
        self.calls.len() == other.calls.len()
            && self.results.len() == other.results.len()
            && self.calls.iter().zip(other.calls).all(|(a, b)| is_same_call(a, b))
            && self.results.iter().zip(&other.results).all(is_answered_alike)
    }
}

impl Likeness {
    fn holds(self, a: &Content, b: &Content) -> bool {
        a == b
            || self == Self::ApartFromNumbers
                && words(a).is_some_and(|words_of_a| Some(words_of_a) == words(b))
    }
}

/// Returns a content without its numbers; `None` if it has more than text, which is compared as it is.
fn words(content: &Content) -> Option<String> {
    let is_text = match content {
        Content::Text(_) => true,
        Content::Parts(parts) => parts.iter().all(|part| matches!(part, Part::Text(_))),
    };
    // A placeholder, so that a number is not the same as none.
    is_text.then(|| Some(NUMBERS.as_ref()?.replace_all(&content.text(), "0").into_owned()))?
}

/// Checks whether a call waits for something before it looks at it.
fn waits(call: &ToolCall) -> bool {
    let texts = [call.name.as_str(), call.arguments.as_str()].map(str::to_ascii_lowercase);
    texts.iter().any(|text| WAITS.iter().any(|word| text.contains(*word)))
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
    /// `u` is a user message, `n` a note. An upper-case letter has the same arguments and another result. All
    /// digits have the same arguments, and each is answered with itself and some words.
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
                    let (argument, answer) = match letter {
                        '0'..='9' => ('#', format!("took {letter}.5 s")),
                        letter => (letter.to_ascii_lowercase(), letter.to_string()),
                    };
                    let arguments = format!(r#"{{"a": 1, "b": "{argument}"}}"#);
                    let call = ToolCall { id: "c".into(), name: ToolName::new("t").unwrap(), arguments };
                    let result = ToolResult::answer(&call, answer);
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
            ("u123", 9, None),
            ("u122", 9, Some((2, 1))),
        ] {
            let actual = Repetition::at_the_end_of(&conversation(letters), most, Likeness::Equal);
            let actual = actual.map(|repetition| (repetition.times, repetition.tools.len()));
            assert_eq!(actual, expected, "{letters}");
        }
    }

    #[test]
    fn results_may_differ_in_numbers() {
        for (letters, expected) in [
            ("u1", None),
            ("u123", Some((3, 1))),
            ("u1122", Some((4, 1))),
            ("u1a2a3a", Some((3, 2))),
            ("u12a", None),
            ("uaA", None),
            ("u12u3", None),
        ] {
            let log = conversation(letters);
            let actual = Repetition::at_the_end_of(&log, 9, Likeness::ApartFromNumbers);
            let actual = actual.map(|repetition| (repetition.times, repetition.tools.len()));
            assert_eq!(actual, expected, "{letters}");
        }
    }

    #[test]
    fn numbers_dates_and_ids_make_no_difference() {
        for (a, b, expected) in [
            ("took 9 ms", "took 10 ms", true),
            ("took 2s", "took 1.98s", true),
            ("pid 71, 12ms", "pid 4711, 8ms", true),
            ("   9 files", "  10 files", true),
            ("2026-02-01T10:00:01Z ok", "2026-02-03T22:59:07Z ok", true),
            ("at 3fa9c1d", "at 0b1c2d3", true),
            ("id 550e8400-e29b-41d4-abcd-446655440000", "id 123e4567-e89b-12d3-a456-426614174000", true),
            ("running", "passed", false),
            ("step 1\n", "step 1\nstep 2\n", false),
            ("1 failed", "1 passed", false),
            ("no errors", "7 errors", false),
            ("café 1", "café 2", true),
        ] {
            let (a, b) = (Content::from(a), Content::from(b));
            assert_eq!(Likeness::ApartFromNumbers.holds(&a, &b), expected, "{a:?} {b:?}");
            assert!(!Likeness::Equal.holds(&a, &b), "{a:?}");
        }
        let picture = |data: &str| Content::Parts(vec![Part::Media(Value::from(data))]);
        assert!(!Likeness::ApartFromNumbers.holds(&picture("1"), &picture("2")));
    }

    #[test]
    fn calls_that_wait_are_known_by_their_words() {
        for (name, arguments, expected) in [
            ("shell", r#"{"command": "tail -3 log"}"#, false),
            ("shell", r#"{"command": "cd x\nsleep 30; tail -3 log"}"#, true),
            ("shell", r#"{"command": "kubectl wait --for=condition=Ready pod/a"}"#, true),
            ("wait_for_job", "{}", true),
        ] {
            let (name, arguments) = (ToolName::new(name).unwrap(), arguments.to_owned());
            assert_eq!(
                waits(&ToolCall { id: String::new(), name, arguments: arguments.clone() }),
                expected,
                "{arguments}"
            );
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
