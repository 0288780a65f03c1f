//! The rules that providers hold a request to, as checks over messages.
//!
//! A protocol sees the messages in its own way. OpenAI's reads them one by one. Anthropic's and Gemini's read
//! turns: system messages are separate, results are the user's, and adjacent messages of one side are one
//! turn. So a breach belongs to the protocol whose rule it breaks.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use crate::{ContextMessage, Groups, Message};

mod anthropic;
mod gemini;
mod openai;
mod outline;
mod reasoning;
mod scan;
mod strict;
mod turn;

pub use anthropic::anthropic_breaches;
pub use gemini::gemini_breaches;
pub use openai::openai_breaches;
pub use outline::outline;
pub use reasoning::stale_reasoning;
pub use scan::BreachScan;
pub use strict::strict_breaches;

/// A place where a request breaks a provider's rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Breach {
    /// Position of the offending message.
    pub position: usize,
    /// The protocol whose rule it breaks.
    pub protocol: RuleSet,
    /// Which rule it breaks.
    pub rule: Rule,
}

/// A protocol with rules of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RuleSet {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's contents.
    Gemini,
    /// The chat templates of open models with strict turns.
    Strict,
}

/// A rule on the order of messages and on what they must hold.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "rule", rename_all = "snake_case")]
pub enum Rule {
    /// Every call is answered directly after it: by the tool messages that follow, or in the turn that
    /// follows.
    CallUnanswered {
        /// Id of the call.
        call_id: String,
    },
    /// Every result answers a call of the assistant's right before the run of results, once.
    ResultWithoutCall {
        /// Id that the result names.
        call_id: String,
    },
    /// The results of a turn are in the order of its calls (Gemini).
    ResultOutOfOrder {
        /// Id that the result names.
        call_id: String,
    },
    /// The results of a turn come before any other content of the user's (Anthropic, Gemini).
    ResultBehindText {
        /// Id that the result names.
        call_id: String,
    },
    /// Every call of a request has an id of its own (Anthropic).
    CallIdReused {
        /// Id of the call.
        call_id: String,
    },
    /// The first turn is the user's (Anthropic, Gemini); the first message is the user's own (strict
    /// templates).
    UserDoesNotOpen,
    /// A message has text, calls or a result.
    Empty,
    /// Reasoning is whole, signature included, and travels with its call or not at all (Anthropic, Gemini).
    ReasoningTorn,
    /// Reasoning is sent only in the view in which it was made.
    ReasoningStale,
}

impl Breach {
    /// Compares two breaches by their place in a list: by position, then by rule, then by protocol.
    fn order(&self, other: &Self) -> Ordering {
        (self.position, &self.rule, self.protocol).cmp(&(other.position, &other.rule, other.protocol))
    }
}

impl fmt::Display for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Gemini",
            Self::Strict => "strict chat templates",
        })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CallUnanswered { call_id } => write!(f, "call {call_id} has no result after it"),
            Self::ResultWithoutCall { call_id } => {
                write!(f, "the result names call {call_id}, which does not precede it")
            }
            Self::ResultOutOfOrder { call_id } => {
                write!(f, "the result of call {call_id} is not in the order of the calls")
            }
            Self::ResultBehindText { call_id } => {
                write!(f, "the result of call {call_id} comes after a user message")
            }
            Self::CallIdReused { call_id } => write!(f, "an earlier call also has the id {call_id}"),
            Self::UserDoesNotOpen => f.write_str("the first turn is not the user's"),
            Self::Empty => f.write_str("it is empty"),
            Self::ReasoningTorn => f.write_str("its reasoning is incomplete"),
            Self::ReasoningStale => f.write_str("its reasoning was made in another view"),
        }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}: {} ({})", self.position, self.rule, self.protocol)
    }
}

/// Returns the places where `messages` break the rules of any protocol, in order; empty for a request that
/// all of them accept.
pub fn breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let mut found = openai_breaches(messages);
    found.append(&mut anthropic_breaches(messages));
    found.append(&mut gemini_breaches(messages));
    found.sort_by(Breach::order);
    found
}

/// Describes `breaches` in words, with one line for what several protocols forbid.
pub fn breaches_in_words(breaches: &[Breach]) -> Vec<String> {
    let same = |one: &Breach, other: &Breach| (one.position, &one.rule) == (other.position, &other.rule);
    let line = |breaches: &[Breach]| {
        let protocols: Vec<String> = breaches.iter().map(|breach| breach.protocol.to_string()).collect();
        let Breach { position, rule, .. } = &breaches[0];
        format!("message {position}: {rule} ({})", protocols.join(", "))
    };
    breaches.chunk_by(same).map(line).collect()
}

/// Returns the first breach of `after` that `before`, of which it is a compaction, did not have.
///
/// The faults of a recorded session are not the compaction's, and positions change by nature. So breaches are
/// compared as a bag for each protocol and rule, the call's id included: `after` may have each of them at
/// most as often as `before`, or as often as the groups of `before` have it, each by itself: a broken
/// neighbour may have hidden it. Reasoning is compared by its call: if a call stays, the keys beside it stay
/// unchanged, unless all reasoning left because the view before it changed. The demands of strict chat
/// templates count as well.
pub fn added_breach(before: &[ContextMessage], after: &[ContextMessage]) -> Option<Breach> {
    torn_reasoning(before, after).or_else(|| {
        // Nothing is sent of a message that had only reasoning.
        let sent: Vec<&ContextMessage> =
            after.iter().filter(|message| !(message.is_bare() && message.says_only_reasoning())).collect();
        let found = all_breaches(&sent);
        if found.is_empty() {
            return None;
        }
        let mut known = bag(all_breaches(before));
        beyond(&found, known.clone())?;
        let groups = Groups::of(before);
        let by_themselves = groups.iter().flat_map(|group| breaches(&before[group.range()]));
        // Who opens is nothing that a group has by itself.
        let by_themselves = by_themselves.filter(|breach| breach.rule != Rule::UserDoesNotOpen);
        for (rule, n) in bag(by_themselves) {
            let known = known.entry(rule).or_default();
            *known = n.max(*known);
        }
        beyond(&found, known)
    })
}

/// Returns the breaches of every protocol's rules, and of strict templates'.
fn all_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let mut found = breaches(messages);
    found.append(&mut strict_breaches(messages));
    found
}

/// The number of breaches of each rule of each protocol.
type Bag = HashMap<(RuleSet, Rule), usize>;

fn bag(breaches: impl IntoIterator<Item = Breach>) -> Bag {
    let mut bag = Bag::new();
    for Breach { protocol, rule, .. } in breaches {
        *bag.entry((protocol, rule)).or_default() += 1;
    }
    bag
}

/// Returns the first of `found` that exceeds `known`.
fn beyond(found: &[Breach], mut known: Bag) -> Option<Breach> {
    let mut is_known = |breach: &&Breach| match known.get_mut(&(breach.protocol, breach.rule.clone())) {
        Some(left) if *left > 0 => {
            *left -= 1;
            true
        }
        _ => false,
    };
    found.iter().find(|breach| !is_known(breach)).cloned()
}

/// Checks whether `now` has the keys of `was`, if it may have them: its reasoning leaves as a whole.
fn is_kept(was: &Message, now: &ContextMessage) -> bool {
    let kept = &now.message().extra;
    *kept == was.extra || (now.is_bare() && *kept == was.without_bound_reasoning().extra)
}

/// Finds a message that still makes its calls, but lost the keys that came with it, such as reasoning.
fn torn_reasoning(before: &[ContextMessage], after: &[ContextMessage]) -> Option<Breach> {
    if before
        .iter()
        .map(ContextMessage::message)
        .all(|message| message.calls().is_empty() || message.extra.is_empty())
    {
        return None;
    }
    let mut calling: HashMap<&str, Vec<&Message>> = HashMap::new();
    // Ids may be used again: a message with other keys, or none, under the same id is no less itself.
    for message in before.iter().map(ContextMessage::message) {
        if let Some(call) = message.calls().first() {
            calling.entry(&call.id).or_default().push(message);
        }
    }
    let is_torn = |message: &ContextMessage| {
        let now = message.message();
        let was = now.calls().first().and_then(|call| calling.get(call.id.as_str()));
        was.is_some_and(|was| was.iter().all(|was| !is_kept(was, message)))
    };
    let position = after.iter().position(is_torn)?;
    Some(Breach { position, protocol: RuleSet::Anthropic, rule: Rule::ReasoningTorn })
}

#[cfg(test)]
mod tests;
