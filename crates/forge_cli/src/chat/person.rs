//! The person of a chat: questions above, answers in the line that is typed in below.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{Consent, ConsentRequest, NobodyThere, Person, Question};
use tokio::sync::Mutex;

use super::screen::Screen;
use crate::terminal_person::{ConsentPages, chosen, question_lines};

/// Whoever chats, who is asked one thing at a time.
pub(super) struct ChatPerson {
    screen: Arc<Screen>,
    turn: Mutex<()>,
}

impl ChatPerson {
    pub(super) fn at(screen: Arc<Screen>) -> Self {
        Self { screen, turn: Mutex::new(()) }
    }

    async fn asked(&self, lines: Vec<String>, prompt: &str) -> Result<String, NobodyThere> {
        let answer = self.screen.ask(&lines, prompt);
        let _open = Open(&self.screen);
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

#[async_trait]
impl Person for ChatPerson {
    async fn answer(&self, question: &Question) -> Result<String, NobodyThere> {
        let _turn = self.turn.lock().await;
        let answer = self.asked(question_lines(question), ">").await?;
        Ok(chosen(question, answer))
    }

    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, NobodyThere> {
        let _turn = self.turn.lock().await;
        let mut pages = ConsentPages::of(request);
        loop {
            let (lines, prompt) = pages.next();
            let answer = self.asked(lines, prompt).await?;
            if let Some(consent) = pages.answered(&answer) {
                return Ok(consent);
            }
        }
    }
}
