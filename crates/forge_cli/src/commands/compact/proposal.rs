//! A planned compaction: saved to a file, reviewed, and applied unchanged.

use std::collections::HashSet;

use forge_domain::{
    ContextMessage, Message, MessageId, REQUEST_TOKENS, Replacement, TokenCounter, Tokens, added_breach,
    quantity,
};
use forge_transcript::{Draft, Format};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::failure::Misconfigured;

/// A compaction that was planned for one input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Proposal {
    /// SHA-256 of the input, in hexadecimal digits.
    pub(super) input_sha256: String,
    /// The format of the input.
    pub(super) from: Format,
    /// The format of the output.
    pub(super) to: Format,
    /// The session of the input, counted from 0.
    pub(super) session: usize,
    /// The replacements.
    replacements: Vec<Proposed>,
    /// The report on it.
    pub(super) report: Value,
}

/// The numbers of the removed messages, and the messages that replace them at the place of the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Proposed {
    replaces: Vec<MessageId>,
    with: Vec<Message>,
}

impl Proposal {
    /// Creates the proposal of `replacements` for session `session` of `input`.
    pub(super) fn new(
        input: &[u8],
        (from, to): (Format, Format),
        session: usize,
        replacements: &[Replacement],
        report: Value,
    ) -> Self {
        let proposed = |replacement: &Replacement| Proposed {
            replaces: replacement.replaces.clone(),
            with: replacement.with.iter().map(|message| message.message().clone()).collect(),
        };
        let replacements = replacements.iter().map(proposed).collect();
        Self { input_sha256: hash(input), from, to, session, replacements, report }
    }

    /// Rejects an input, the file of that `name`, for which it was not made.
    pub(super) fn check(&self, input: &[u8], name: &str) -> Result<(), Misconfigured> {
        let actual = hash(input);
        if actual == self.input_sha256 {
            return Ok(());
        }
        Err(Misconfigured(format!(
            "the proposal was made for a different input than {name}: its SHA-256 is {}, that of this one \
             {actual}; create a new one with --dry-run --proposal",
            self.input_sha256
        )))
    }

    /// Returns the result of applying it to `draft`, in messages and tokens, or why it is invalid: an edited
    /// proposal may name a message that does not exist, or lose a call or a result.
    pub(super) fn check_result(
        &self,
        draft: &Draft<'_>,
        replacements: &[Replacement],
        counter: &dyn TokenCounter,
    ) -> Result<(usize, Tokens), String> {
        let n_messages = draft.messages().count() as u64;
        let mut replaced = HashSet::new();
        for (at, proposed) in self.replacements.iter().enumerate() {
            let place = || format!("`replacements[{at}].replaces`");
            if proposed.replaces.is_empty() {
                return Err(format!("{} is empty", place()));
            }
            for id in &proposed.replaces {
                if id.as_u64() >= n_messages {
                    let messages = quantity(n_messages, "message");
                    return Err(format!("{} names {id}, and the session has {messages}", place()));
                }
                if !replaced.insert(*id) {
                    return Err(format!("{} names {id}, which is replaced already", place()));
                }
            }
        }
        let before: Vec<ContextMessage> = draft.counted_messages(counter).collect();
        let after =
            draft.with(replacements).map(|message| ContextMessage::count(message.into_owned(), counter));
        let after: Vec<ContextMessage> = after.collect();
        match added_breach(&before, &after) {
            Some(breach) => Err(format!("its result breaks a provider's rule: {breach}")),
            None => Ok((after.len(), REQUEST_TOKENS + after.iter().map(ContextMessage::tokens).sum())),
        }
    }

    /// Returns the replacements.
    pub(super) fn replacements(&self, counter: &dyn TokenCounter) -> Vec<Replacement> {
        let count = |message: &Message| ContextMessage::count(message.clone(), counter);
        let replacement = |proposed: &Proposed| Replacement {
            replaces: proposed.replaces.clone(),
            with: proposed.with.iter().map(count).collect(),
        };
        self.replacements.iter().map(replacement).collect()
    }
}

fn hash(input: &[u8]) -> String {
    hex::encode(Sha256::digest(input))
}
