//! The rules that providers hold a request to, as checks over messages.

use std::fmt;

use crate::{Body, ContextMessage, ToolCall};

/// A place where a request breaks a provider's rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Position of the offending message.
    pub position: usize,
    /// Which rule it breaks.
    pub rule: Rule,
}

/// The rules of OpenAI's chat completions on tool exchanges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every call of an assistant message is answered by the tool messages right behind it.
    CallUnanswered {
        /// Id of the call.
        call_id: String,
    },
    /// Every tool message answers a call of the assistant message right before the run of tool messages, once.
    ResultWithoutCall {
        /// Id that the result names.
        call_id: String,
    },
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.rule {
            Rule::CallUnanswered { call_id } => {
                write!(f, "message {}: call {call_id} has no result behind it", self.position)
            }
            Rule::ResultWithoutCall { call_id } => {
                write!(
                    f,
                    "message {}: the result names call {call_id}, which is not before it",
                    self.position
                )
            }
        }
    }
}

/// Where `messages` break OpenAI's rules on tool exchanges; empty for a legal request.
pub fn openai_breaches(messages: &[ContextMessage]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut position = 0;
    while position < messages.len() {
        let message = messages[position].message();
        let mut open: Vec<&ToolCall> = message.calls().iter().collect();
        if let Body::Tool(result) = &message.body {
            breaches
                .push(Breach { position, rule: Rule::ResultWithoutCall { call_id: result.call_id.clone() } });
        }
        let caller = position;
        position += 1;
        if open.is_empty() {
            continue;
        }
        while let Some(Body::Tool(result)) = messages.get(position).map(|message| &message.message().body) {
            match open.iter().position(|call| call.id == result.call_id) {
                Some(answered) => {
                    open.remove(answered);
                }
                None => breaches.push(Breach {
                    position,
                    rule: Rule::ResultWithoutCall { call_id: result.call_id.clone() },
                }),
            }
            position += 1;
        }
        breaches.extend(open.iter().map(|call| Breach {
            position: caller,
            rule: Rule::CallUnanswered { call_id: call.id.clone() },
        }));
    }
    breaches
}
