//! The parts of a session that come along to the agent that continues, and those that do not.

use std::path::PathBuf;

use forge_domain::{Message, Tokens, message_tokens, quantity};
use forge_services::O200kCounter;
use forge_transcript::{Format, Loss, Successor};
use serde::Serialize;

use super::{Heir, Origin};
use crate::output::{self, visible, with_separators};
use crate::redaction::{Redacted, redaction_text};

/// The parts of a session that come along to the agent that continues, and those that do not.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    session: String,
    id: String,
    format: Option<Format>,
    pub(super) with: &'static str,
    messages: usize,
    calls: usize,
    tokens: Tokens,
    left_out: Vec<Loss>,
    redacted: Option<Vec<Redacted>>,
    /// The new file.
    pub(super) file: Option<PathBuf>,
    /// The command that continues the session.
    pub(super) command: Option<Vec<String>>,
    /// True if the file was written.
    pub(super) is_written: bool,
}

impl Plan {
    /// Returns the plan for a session, before anything is written.
    pub(super) fn of(origin: &Origin, with: Heir) -> Self {
        let messages = &origin.handover.messages;
        Self {
            session: origin.name.clone(),
            id: origin.id.clone(),
            format: origin.format,
            with: with.successor().map_or("forge", Successor::id),
            messages: messages.len(),
            calls: messages.iter().map(|message| message.calls().len()).sum(),
            tokens: messages.iter().map(tokens).sum(),
            left_out: origin.handover.losses.clone(),
            redacted: origin.redacted.clone(),
            file: None,
            command: None,
            is_written: false,
        }
    }

    /// Prints the plan of a dry run to stdout.
    pub(super) fn show(&self, is_json: bool) -> anyhow::Result<()> {
        if is_json {
            return output::print_json(self);
        }
        self.lines().iter().for_each(|line| output::print_line(line));
        output::print_line("nothing was written");
        Ok(())
    }

    /// Prints the plan to stderr.
    pub(super) fn say(&self) {
        self.lines().iter().for_each(|line| output::say(line));
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "from {}: {}, {}, {}",
            visible(&self.session),
            quantity(self.messages, "message"),
            quantity(self.calls, "tool call"),
            quantity(with_separators(self.tokens), "token"),
        )];
        if !self.left_out.is_empty() {
            lines.push("does not come along:".to_owned());
            lines.extend(self.left_out.iter().map(|loss| format!("  {loss}")));
        }
        lines.extend(self.redacted.as_deref().map(redaction_text));
        lines
    }

    /// Returns the tokens of the messages.
    pub(super) const fn tokens(&self) -> Tokens {
        self.tokens
    }
}

fn tokens(message: &Message) -> Tokens {
    message_tokens(message, &O200kCounter)
}
