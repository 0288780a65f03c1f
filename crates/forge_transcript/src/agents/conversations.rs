//! Chats that a program of somebody's own keeps in one file, each with OpenAI's messages.

use forge_wire::Protocol;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::codec::{Evidence, Fields};
use crate::flat_text::flat_value;
use crate::foreign::is_role;
use crate::format::FormatFacts;
use crate::openai::{MessageLists, NamedList};

/// The format of such files.
pub(super) const CONVERSATIONS: MessageLists = MessageLists {
    facts: &FormatFacts {
        id: "openai-conversations",
        name: "conversations of OpenAI messages",
        description: "{\"conversations\": [{\"id\", \"messages\"}]}",
        protocol: Some(Protocol::OpenAi),
    },
    detect,
    keeps_form: false,
    lists,
};

fn detect(evidence: &Evidence<'_>) -> bool {
    let Some(file) = evidence.document() else { return false };
    let chats = file.items("conversations").into_iter().map(|chat| Fields::of(chat.get()));
    let mut first =
        chats.filter_map(|chat| chat.items("messages").first().map(|first| Fields::of(first.get())));
    first.next().is_some_and(|message| is_role(&message.text("role")))
}

/// A file of conversations.
#[derive(Deserialize)]
struct File<'a> {
    #[serde(borrow)]
    conversations: Vec<Conversation<'a>>,
}

/// One of them. Its name may be a number.
#[derive(Deserialize)]
struct Conversation<'a> {
    id: Option<Value>,
    title: Option<Value>,
    #[serde(borrow)]
    messages: &'a RawValue,
}

fn lists(text: &str) -> Result<Vec<NamedList<'_>>, serde_json::Error> {
    let file: File<'_> = serde_json::from_str(text)?;
    file.conversations.into_iter().enumerate().map(|(n, chat)| list(n, chat)).collect()
}

fn list(n: usize, chat: Conversation<'_>) -> Result<NamedList<'_>, serde_json::Error> {
    let names = [chat.id, chat.title].into_iter().flatten().map(|name| flat_value(&name));
    let id = names.chain([format!("conversation{n}")]).find(|name| !name.is_empty());
    NamedList::of(id, format!("messages of conversation {n}"), chat.messages.get())
}
