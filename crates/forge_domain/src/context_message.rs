//! A message as the log and the context hold it: counted once, shared, numbered by the log.

use std::sync::{Arc, OnceLock};

use crate::features::Features;
use crate::findings::Findings;
use crate::{Message, MessageId, TokenCounter, Tokens, message_tokens};

/// A counted message. Cloning shares the message and what was found out about it.
#[derive(Clone, Debug)]
pub struct ContextMessage {
    id: Option<MessageId>,
    tokens: Tokens,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    message: Message,
    features: OnceLock<Features>,
    findings: OnceLock<Findings>,
}

impl AsRef<Message> for ContextMessage {
    fn as_ref(&self) -> &Message {
        self.message()
    }
}

impl Shared {
    const fn new(message: Message) -> Self {
        Self { message, features: OnceLock::new(), findings: OnceLock::new() }
    }
}

impl PartialEq for ContextMessage {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
            && self.tokens == other.tokens
            && (Arc::ptr_eq(&self.shared, &other.shared) || self.shared.message == other.shared.message)
    }
}

impl ContextMessage {
    /// Counts `message`; it has no id until a log takes it in.
    pub fn count(message: Message, counter: &dyn TokenCounter) -> Self {
        let tokens = message_tokens(&message, counter);
        Self { id: None, tokens, shared: Arc::new(Shared::new(message)) }
    }

    /// A message as a log had it before: numbered and counted then.
    pub fn restored(id: MessageId, tokens: Tokens, message: Message) -> Self {
        Self { id: Some(id), tokens, shared: Arc::new(Shared::new(message)) }
    }

    /// Its id; `None` while no log has taken it in.
    pub const fn id(&self) -> Option<MessageId> {
        self.id
    }

    /// Its tokens, by the formula of [`message_tokens`].
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// The message itself.
    pub fn message(&self) -> &Message {
        &self.shared.message
    }

    /// What is known of its lines, found out once.
    pub(crate) fn features(&self) -> &Features {
        self.shared.features.get_or_init(|| Features::of(&self.shared.message))
    }

    /// What it says for a record, found out once.
    pub(crate) fn findings(&self) -> &Findings {
        self.shared.findings.get_or_init(|| Findings::of(&self.shared.message))
    }

    /// The same message under `id`.
    pub(crate) fn numbered(self, id: MessageId) -> Self {
        Self { id: Some(id), ..self }
    }
}
