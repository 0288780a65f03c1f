//! A conversation by hand, as the documentation of the crate shows it.

use forge_domain::{ContextMessage, Conversation, Message, ToolCall, ToolName, ToolResult};
use forge_services::O200kCounter;

#[test]
fn a_conversation_by_hand() -> Result<(), Box<dyn std::error::Error>> {
    let counter = O200kCounter;
    let mut conversation = Conversation::new();
    let mut add = |message: Message| conversation.append(ContextMessage::count(message, &counter));
    // Messages: a timestamp and facts of one's own may go with them.
    add(Message::system("Be brief."));
    let mut task = Message::user("What is in notes.txt?").at("2026-01-01T12:00:00Z".parse()?);
    task.metadata.insert("source".into(), "chat".into());
    add(task);
    // A tool call, and what the tool answered.
    let call = ToolCall {
        id: "call_1".into(),
        name: ToolName::new("read")?,
        arguments: r#"{"path":"notes.txt"}"#.into(),
    };
    add(Message::calling(vec![call.clone()]));
    add(Message::tool(ToolResult::answer(&call, "Buy milk.")));

    // The messages that the model would see, and their tokens, which are known without counting again.
    let before = conversation.view().size();
    assert_eq!(before.messages, 4);
    assert_eq!(
        before.tokens,
        forge_domain::REQUEST_TOKENS + conversation.messages().map(ContextMessage::tokens).sum()
    );

    // Kept and read back: the same down to the id of the next message.
    let kept = serde_json::to_string(&conversation)?;
    let mut restored: Conversation = serde_json::from_str(&kept)?;
    assert_eq!(restored, conversation);

    // Cleared down to the system messages; that is a compaction like any other.
    let entry = restored.clear()?.expect("there was something to clear").clone();
    let after = restored.view().size();
    assert_eq!((before.messages, after.messages), (4, 1));
    assert!(after.tokens < before.tokens && entry.summary().is_empty());
    assert_eq!(restored.messages().count(), 4, "the log keeps everything");

    // And taken back.
    restored.undo();
    assert_eq!(restored.view().messages(), conversation.view().messages());
    Ok(())
}
