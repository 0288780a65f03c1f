//! Ids of calls that are unique in a conversation: some servers begin again with each reply, or give none.

use std::collections::HashSet;

use forge_domain::{Body, Conversation, Message};

/// Gives each call of `reply` an id of its own if an earlier call of the conversation has the same. Another
/// provider may refuse a history in which two calls have one id, and would do so for good.
pub(super) fn make_unique(reply: &mut Message, earlier: &Conversation) {
    let Body::Assistant { calls, .. } = &mut reply.body else { return };
    if calls.is_empty() {
        return;
    }
    let earlier = earlier.messages().flat_map(|message| message.message().calls());
    let earlier: Vec<&str> = earlier.map(|call| call.id.as_str()).collect();
    let taken: HashSet<&str> = earlier.iter().copied().collect();
    for at in 0..calls.len() {
        let id = &calls[at].id;
        if !taken.contains(id.as_str()) {
            continue;
        }
        // The number of the call in the conversation: hardly one is taken.
        let mut numbered = (earlier.len() + at + 1..).map(|n| format!("{id}_{n}"));
        let free =
            numbered.find(|id| !taken.contains(id.as_str()) && calls.iter().all(|call| call.id != *id));
        if let Some(free) = free {
            calls[at].id = free;
        }
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{ContextMessage, TokenCounter, Tokens, ToolCall, ToolName};
    use pretty_assertions::assert_eq;

    use super::*;

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    fn calling(ids: &[&str]) -> Message {
        let name = ToolName::new("read").unwrap();
        let call = |id: &&str| ToolCall { id: (*id).into(), name: name.clone(), arguments: "{}".into() };
        Message::calling(ids.iter().map(call).collect())
    }

    #[test]
    fn ids_that_come_again_are_numbered() {
        for (replies, expected) in [
            (vec![vec!["a"], vec!["b", "c"]], "a b c"),
            (vec![vec!["call_0", "call_1"], vec!["call_0", "call_1"]], "call_0 call_1 call_0_3 call_1_4"),
            (vec![vec!["x"], vec!["x"], vec!["x"]], "x x_2 x_3"),
            // A number that is taken already.
            (vec![vec!["x", "x_3"], vec!["x"], vec!["x_3"]], "x x_3 x_4 x_3_4"),
            (vec![vec!["x"], vec!["x", "x_2"]], "x x_3 x_2"),
        ] {
            let mut conversation = Conversation::new();
            for ids in &replies {
                let mut reply = calling(ids);
                make_unique(&mut reply, &conversation);
                conversation.append(ContextMessage::count(reply, &Characters));
            }
            let calls = conversation.messages().flat_map(|message| message.message().calls());
            let actual: Vec<&str> = calls.map(|call| call.id.as_str()).collect();
            assert_eq!(actual.join(" "), expected);
        }
    }
}
