//! Which call a result answers.

use std::collections::HashMap;

use crate::findings::Deed;
use crate::{Body, ContextMessage, ToolCall};

/// A call that a result answers, and where it stands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Asked<'a> {
    pub(super) caller: usize,
    /// Which of its message's calls.
    pub(super) nth: usize,
    pub(super) call: &'a ToolCall,
    /// What the call does.
    pub(super) deed: &'a Deed,
}

/// For each message the call that it answers; `None` where it is no result, or where its call is not there. A result
/// belongs to the nearest earlier call of its id that has none yet, so reused ids pair by position.
pub(super) fn asked(messages: &[ContextMessage]) -> Vec<Option<Asked<'_>>> {
    let mut unanswered: HashMap<&str, Vec<Asked<'_>>> = HashMap::new();
    let mut asked = vec![None; messages.len()];
    for (position, message) in messages.iter().enumerate() {
        let deeds = message.message().calls().iter().zip(&message.findings().deeds);
        for (nth, (call, deed)) in deeds.enumerate() {
            unanswered.entry(&call.id).or_default().push(Asked { caller: position, nth, call, deed });
        }
        if let Body::Tool(result) = &message.message().body {
            asked[position] = unanswered.get_mut(result.call_id.as_str()).and_then(Vec::pop);
        }
    }
    asked
}
