//! What is written can be read again, whatever it is.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::{
    Body, Content, ContextMessage, Conversation, Message, Part, TokenCounter, Tokens, ToolCall,
};
use forge_domain::{ToolName, ToolResult};
use forge_transcript::{read, write_messages, write_openai};
use pretty_assertions::assert_eq;
use proptest::prelude::*;
use serde_json::{Value, json};

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

#[test]
fn a_message_is_a_line() {
    let call = ToolCall { id: "c".into(), name: ToolName::new("f").unwrap(), arguments: "{}".into() };
    let messages = [
        Message::user("hi\n"),
        Message::calling(vec![call.clone()]),
        Message::tool(ToolResult::answer(&call, "é")),
    ];
    for (messages, expected) in [
        (&messages[..0], "{\"messages\":[]}\n"),
        (&messages[..1], "{\"messages\":[\n{\"role\":\"user\",\"content\":\"hi\\n\"}\n]}\n"),
        (
            &messages[..],
            "{\"messages\":[\n{\"role\":\"user\",\"content\":\"hi\\n\"},\n\
            {\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\
            \"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]},\n\
            {\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":\"é\"}\n]}\n",
        ),
    ] {
        assert_eq!(String::from_utf8(write_messages(messages)).unwrap(), expected);
    }
}

#[test]
fn the_log_is_written_and_not_the_view() {
    let mut conversation = Conversation::new();
    let messages = [Message::system("be brief"), Message::user("hi"), Message::assistant("yes")];
    for message in &messages {
        conversation.append(ContextMessage::count(message.clone(), &Characters));
    }
    assert_eq!(write_openai(&conversation), write_messages(&messages));
}

fn content() -> impl Strategy<Value = Content> {
    let media = any::<u32>().prop_map(|n| Part::Media(json!({"type": "image_url", "image_url": {"url": n}})));
    let part = prop_oneof![any::<String>().prop_map(Part::Text), media];
    prop_oneof![
        any::<String>().prop_map(Content::Text),
        proptest::collection::vec(part, 0..3).prop_map(Content::Parts),
    ]
}

fn extra() -> impl Strategy<Value = serde_json::Map<String, Value>> {
    let value = prop_oneof![
        any::<String>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        Just(Value::Null),
    ];
    proptest::collection::vec(("x_[a-z]{1,3}", value), 0..3).prop_map(|fields| fields.into_iter().collect())
}

fn message() -> impl Strategy<Value = Message> {
    let call = ("[a-c]", "[a-z]{1,4}", any::<String>()).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name: ToolName::new(name).unwrap(),
        arguments,
    });
    let calls = proptest::collection::vec(call, 0..3);
    let body = prop_oneof![
        content().prop_map(Body::System),
        content().prop_map(Body::User),
        (proptest::option::of(content()), calls)
            .prop_map(|(content, calls)| Body::Assistant { content, calls }),
        // The names of tools come from the calls, so these results answer none.
        ("[d-f]", content()).prop_map(|(call_id, content)| {
            Body::Tool(ToolResult { call_id, name: None, content, is_error: false })
        }),
    ];
    (body, extra()).prop_map(|(body, extra)| Message { extra, ..Message::new(body) })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn written_messages_are_read_again(messages in proptest::collection::vec(message(), 1..8)) {
        let read = read(&write_messages(&messages), "written").unwrap().remove(0);
        let actual: Vec<Message> = read.messages().collect();
        prop_assert_eq!(actual, messages);
    }
}
