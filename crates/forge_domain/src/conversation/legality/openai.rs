//! OpenAI's chat completions: results directly follow the message that calls.

use super::{Breach, Rule, RuleSet};
use crate::{Body, Message, ToolCall};

/// Returns the places where `messages` break OpenAI's rules: every call is answered by the tool messages
/// directly after its message, in any order; every tool message answers such a call, once; an assistant
/// message has text or calls.
pub fn openai_breaches<M: AsRef<Message>>(messages: &[M]) -> Vec<Breach> {
    let breach = |position, rule| Breach { position, protocol: RuleSet::OpenAi, rule };
    let mut breaches = Vec::new();
    let mut position = 0;
    while let Some(message) = messages.get(position).map(M::as_ref) {
        let mut open: Vec<&ToolCall> = message.calls().iter().collect();
        match &message.body {
            Body::Tool(result) => {
                let call_id = result.call_id.clone();
                breaches.push(breach(position, Rule::ResultWithoutCall { call_id }));
            }
            // Other protocols' keys may say it instead.
            Body::Assistant { content: None, calls } if calls.is_empty() && message.extra.is_empty() => {
                breaches.push(breach(position, Rule::Empty));
            }
            Body::System(_) | Body::User(_) | Body::Assistant { .. } => {}
        }
        let caller = position;
        position += 1;
        if open.is_empty() {
            continue;
        }
        while let Some(Body::Tool(result)) = messages.get(position).map(|message| &message.as_ref().body) {
            match open.iter().position(|call| call.id == result.call_id) {
                Some(answered) => drop(open.remove(answered)),
                None => {
                    let call_id = result.call_id.clone();
                    breaches.push(breach(position, Rule::ResultWithoutCall { call_id }));
                }
            }
            position += 1;
        }
        let unanswered = open.iter().map(|call| Rule::CallUnanswered { call_id: call.id.clone() });
        breaches.extend(unanswered.map(|rule| breach(caller, rule)));
    }
    breaches
}
