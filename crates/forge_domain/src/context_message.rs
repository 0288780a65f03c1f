//! A message as the log and the context hold it: counted once, shared, numbered by the log.

use std::sync::Arc;

use crate::{Message, MessageId, TokenCounter, Tokens, message_tokens};

/// A counted message. Cloning shares the message.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextMessage {
    id: Option<MessageId>,
    tokens: Tokens,
    message: Arc<Message>,
}

impl ContextMessage {
    /// Counts `message`; it has no id until a log takes it in.
    pub fn count(message: Message, counter: &dyn TokenCounter) -> Self {
        let tokens = message_tokens(&message, counter);
        Self { id: None, tokens, message: Arc::new(message) }
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
        &self.message
    }

    /// The same message under `id`.
    pub(crate) fn numbered(self, id: MessageId) -> Self {
        Self { id: Some(id), ..self }
    }
}
