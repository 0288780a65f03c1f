//! Conversations and checkpoints to store.

use forge_domain::{
    AgentId, CheckpointKey, CheckpointReason, CheckpointStore, Claim, CompactionEntry, Configuration,
    Content, ContextMessage, ContextSnapshot, Conversation, Entry, EntryId, Holder, Message, MessageId,
    NewCheckpoint, Part, Progress, Replacement, RunId, Takeover, Tokens, ToolCall, ToolName, ToolResult,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

pub(crate) fn run(name: &str) -> RunId {
    RunId::new(name).unwrap()
}

pub(crate) fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

/// Every holder before this one is gone.
pub(crate) struct Forgetful;

impl Holder for Forgetful {
    fn name(&self) -> &str {
        "a test"
    }

    fn is_gone(&self, _: &str) -> bool {
        true
    }
}

/// The hour `n` of the tests' time.
pub(crate) fn hour(n: i64) -> Timestamp {
    "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_hours(n)
}

/// Appends a message as if it had been counted.
pub(crate) fn append(conversation: &mut Conversation, message: Message) -> MessageId {
    let tokens = Tokens::new(4 + message.to_text().len() as u64 / 4);
    conversation.append(ContextMessage::restored(MessageId::FIRST, tokens, message))
}

/// A conversation of users' messages of those texts.
pub(crate) fn said(texts: &[&str]) -> Conversation {
    let mut conversation = Conversation::new();
    for text in texts {
        append(&mut conversation, Message::user(*text));
    }
    conversation
}

/// A conversation of `n` messages, each longer than the one before it.
pub(crate) fn conversation(n: usize) -> Conversation {
    let texts: Vec<String> = (0..n).map(|n| format!("message {n} {}", "and more ".repeat(n * 9))).collect();
    said(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The conversation with the messages `first` to `last` replaced by a summary; `absorbs` names entries taken over.
pub(crate) fn compacted(conversation: &Conversation, first: u64, last: u64, absorbs: &[u64]) -> Conversation {
    let mut entries = conversation.entries().to_vec();
    let n = conversation.compactions().count() as u64;
    let made = entries.iter().flat_map(|entry| match entry {
        Entry::Message(message) => message.id().into_iter().collect::<Vec<_>>(),
        Entry::Compaction(entry) => entry
            .replacements()
            .iter()
            .flat_map(|replacement| &replacement.with)
            .filter_map(ContextMessage::id)
            .collect(),
        Entry::Undo(_) => Vec::new(),
    });
    let next = made.max().map_or(0, |id| id.as_u64() + 1);
    let summary = Message::user(format!("What was said from m{first} to m{last}.")).compacted();
    let replacement = Replacement {
        replaces: (first..=last).map(MessageId::new).collect(),
        with: vec![ContextMessage::restored(MessageId::new(next), Tokens::new(9), summary)],
    };
    let absorbs = absorbs.iter().copied().map(EntryId::nth).collect();
    entries.push(Entry::Compaction(CompactionEntry::restored(EntryId::nth(n), vec![replacement], absorbs)));
    Conversation::restore(entries).unwrap()
}

/// A conversation that has one of everything: each kind of message, every key, a compaction that absorbed another, an
/// undone one.
pub(crate) fn one_of_everything() -> Conversation {
    let mut log = Conversation::new();
    let call = |id: &str| ToolCall {
        id: id.into(),
        name: ToolName::new("read").unwrap(),
        arguments: "{ \"path\":\"ä\\u0000 b\" ".into(),
    };
    append(&mut log, Message::system("Be brief."));
    let mut user = Message::user(Content::Parts(vec![
        Part::Text("Look:\u{0} 読む \u{1F980}".into()),
        Part::Media(json!({"type": "image_url", "image_url": {"url": "data:,", "detail": 0.1}})),
    ]));
    user.metadata.insert("pinned".into(), json!([true, null, 1e300, 0.30000000000000004]));
    append(&mut log, user.at(hour(1)));
    let mut calling =
        Message::calling(vec![call("c1"), call("c1")]).at("-009000-01-01T00:00:00.5Z".parse().unwrap());
    calling.extra.insert("reasoning".into(), json!({"signature": "é\"\\", "n": 18446744073709551615_u64}));
    append(&mut log, calling);
    append(&mut log, Message::tool(ToolResult::answer(&call("c1"), "x".repeat(5_000))));
    append(&mut log, Message::tool(ToolResult::error(&call("c1"), "")));
    append(&mut log, Message::assistant(""));
    append(&mut log, Message::user("Go on."));
    log = compacted(&log, 2, 4, &[]);
    append(&mut log, Message::assistant("Done."));
    log = compacted(&log, 2, 5, &[0]);
    log.undo().unwrap();
    append(&mut log, Message::user("Thanks."));
    log.clear().unwrap();
    append(&mut log, Message::user("And now?"));
    log
}

/// A checkpoint of `conversation` by the agent `name`.
pub(crate) fn checkpoint(name: &str, step: &str, conversation: &Conversation) -> NewCheckpoint {
    let progress = Progress { iterations: conversation.entries().len(), ..Progress::default() };
    let configuration =
        serde_json::from_value(json!({"agent": {"id": name, "model": "m"}, "tools": {"read": {"x": 1.5}}}));
    NewCheckpoint {
        snapshot: ContextSnapshot {
            agent: agent(name),
            conversation: conversation.clone(),
            progress,
            configuration: configuration.unwrap_or_else(|_| Configuration::default()),
        },
        step: step.into(),
        reason: CheckpointReason::Iteration,
        created_at: hour(conversation.entries().len() as i64),
        parent: None,
    }
}

/// The same checkpoint as one that grew from `parent`.
pub(crate) fn after(parent: CheckpointKey, checkpoint: NewCheckpoint) -> NewCheckpoint {
    NewCheckpoint { parent: Some(parent), ..checkpoint }
}

/// Stores a run `a` of three checkpoints, which stays claimed, and a run `b` of one; the claim and the last of `a`.
pub(crate) async fn two_runs(store: &dyn CheckpointStore) -> (Claim, CheckpointKey) {
    let claim = store.claim(&run("a"), "the first", Takeover::Never, None, hour(0)).await.unwrap();
    let mut parent = None;
    for n in 1..=3 {
        let new = NewCheckpoint { parent, ..checkpoint("writer", &n.to_string(), &conversation(n)) };
        parent = Some(store.save(&claim, &new).await.unwrap().key);
    }
    let other = store.claim(&run("b"), "the first", Takeover::Never, None, hour(0)).await.unwrap();
    store.save(&other, &checkpoint("scribe", "1", &one_of_everything())).await.unwrap();
    store.release(&other).await.unwrap();
    (claim, parent.unwrap())
}
