//! The breaches of a session that is read message by message.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

use super::{Breach, Rule, RuleSet, breaches};
use crate::Message;

/// The maker of the digests of ids.
const DIGEST: BuildHasherDefault<DefaultHasher> = BuildHasherDefault::new();

/// A search for the breaches of a session that may be larger than the memory: it finds what [`breaches`]
/// finds, and holds the messages of one exchange at a time.
///
/// No rule but one looks beyond the assistant's turn and the user's turn after it. So when the assistant
/// begins to speak again, everything before can be judged. That ids of calls are not used again is the
/// exception: a digest of each id is kept.
#[derive(Debug, Default)]
pub struct BreachScan {
    /// The messages that are not judged yet.
    open: Vec<Message>,
    /// The number of those that were judged.
    n_judged: usize,
    /// True if the last turn is the user's, false if it is the assistant's.
    is_users: Option<bool>,
    called: HashSet<u64>,
    found: Vec<Breach>,
}

impl BreachScan {
    /// Adds the next message; its [`outline`](super::outline) is enough.
    pub fn push(&mut self, message: Message) {
        let is_users = message.role().is_users();
        if is_users == Some(false) && self.is_users == Some(true) {
            self.judge();
        }
        self.is_users = is_users.or(self.is_users);
        self.open.push(message);
    }

    /// Returns the breaches of all messages, in order.
    pub fn finish(mut self) -> Vec<Breach> {
        if self.n_judged == 0 || !self.open.is_empty() {
            self.judge();
        }
        self.found
    }

    /// Returns the number of messages that it holds.
    #[cfg(test)]
    pub(super) const fn held(&self) -> usize {
        self.open.len()
    }

    /// Judges the open messages, which end where no rule connects them to the next one.
    fn judge(&mut self) {
        let mut found = breaches(&self.open);
        // The assistant opens all stretches but the first.
        let is_first = self.n_judged == 0;
        found.retain(|breach| match breach.rule {
            Rule::UserDoesNotOpen => is_first,
            Rule::CallIdReused { .. } => false,
            _ => true,
        });
        for (position, message) in self.open.iter().enumerate() {
            for call in message.calls() {
                if !self.called.insert(DIGEST.hash_one(&call.id)) {
                    let rule = Rule::CallIdReused { call_id: call.id.clone() };
                    found.push(Breach { position, protocol: RuleSet::Anthropic, rule });
                }
            }
        }
        found.sort_by(Breach::order);
        let n_judged = self.n_judged;
        self.found.extend(
            found.into_iter().map(|breach| Breach { position: breach.position + n_judged, ..breach }),
        );
        self.n_judged += self.open.len();
        self.open.clear();
    }
}
