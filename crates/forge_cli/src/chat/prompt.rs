//! The user of a chat: questions are shown above, and answered in the input line below.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::Unanswered;

use super::screen::Screen;
use crate::terminal::person::{PersonAt, Prompt};

/// The input line of a chat, with its questions above it.
pub(super) struct ChatPrompt(Arc<Screen>);

impl ChatPrompt {
    /// Returns the person who chats at `screen`.
    pub(super) fn person(screen: Arc<Screen>) -> PersonAt<Self> {
        PersonAt::new(Self(screen))
    }
}

#[async_trait]
impl Prompt for ChatPrompt {
    async fn ask(&self, lines: Vec<String>, prompt: &'static str) -> Result<String, Unanswered> {
        let answer = self.0.ask(&lines, prompt);
        let _open = Open(&self.0);
        answer.await.map_err(|_| Unanswered::Nobody)
    }

    fn size(&self) -> Option<(usize, usize)> {
        Some(self.0.size())
    }
}

/// A question that is withdrawn when its asker stops waiting.
struct Open<'a>(&'a Screen);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.take_back();
    }
}
