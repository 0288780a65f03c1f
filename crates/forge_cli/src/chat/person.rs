//! The person of a chat: questions above, answers in the line that is typed in below.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::NobodyThere;

use super::screen::Screen;
use crate::terminal_person::{PersonAt, Prompt};

/// The line of a chat, with its questions above it.
pub(super) struct ChatPrompt(Arc<Screen>);

impl ChatPrompt {
    /// Returns the person who chats at `screen`.
    pub(super) fn person(screen: Arc<Screen>) -> PersonAt<Self> {
        PersonAt::new(Self(screen))
    }
}

#[async_trait]
impl Prompt for ChatPrompt {
    async fn ask(&self, lines: Vec<String>, prompt: &'static str) -> Result<String, NobodyThere> {
        let answer = self.0.ask(&lines, prompt);
        let _open = Open(&self.0);
        answer.await.map(|answer| answer.trim().to_owned()).map_err(|_| NobodyThere)
    }
}

/// A question that is taken back where nobody waits for the answer any more.
struct Open<'a>(&'a Screen);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}
