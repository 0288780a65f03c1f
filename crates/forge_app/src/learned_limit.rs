//! Limits learned from rejected prompts, and how long they hold: a limit that one odd error taught must not
//! hold for ever.

use std::collections::BTreeMap;

use forge_domain::Tokens;
use serde::{Deserialize, Serialize};

/// The limits by model, as `provider:model`.
pub(crate) type LearnedLimits = BTreeMap<String, LearnedLimit>;

/// Replies after which the limit is raised, if the rejection had no figures of a smaller window.
const PATIENCE: u32 = 16;
/// Replies after which the limit is raised, if the server reported a smaller window than believed: that is
/// hardly ever wrong.
const PATIENCE_WITH_A_FACT: u32 = 256;
/// The largest patience. A rejection that was right doubles it, so that a true limit is exceeded ever less
/// often.
const MOST_PATIENCE: u32 = 4_096;

/// A limit learned from a rejected prompt. It is raised over time; a reply to a prompt no smaller than the
/// rejected one shows that the rejection meant nothing. All tokens are by our count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LearnedLimit {
    /// Most tokens that are sent.
    tokens: Tokens,
    /// The tokens that were rejected.
    refused: Tokens,
    /// Replies since either changed.
    replies: u32,
    /// Replies until the limit is raised.
    patience: u32,
    /// Raises since the rejection.
    raises: u32,
    /// The window that the server named, by its own count, if it is smaller than believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window: Option<Tokens>,
}

/// The evidence that a rejection gives about the model's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// It is smaller than believed: this, by the server's count.
    SmallerWindow(Tokens),
    /// The rejection told nothing new.
    None,
}

/// The effect of a reply on a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lesson {
    /// It stays as it is.
    Nothing,
    /// More may be sent now.
    Raised,
    /// The rejection was not about the size, so it set no limit.
    Refuted,
}

impl LearnedLimit {
    /// Learns to send at most `tokens` after `refused` were too many. `earlier` is what an earlier rejection
    /// taught.
    pub(crate) fn learn(earlier: Option<Self>, refused: Tokens, tokens: Tokens, evidence: Evidence) -> Self {
        let (least, window) = match evidence {
            Evidence::SmallerWindow(window) => (PATIENCE_WITH_A_FACT, Some(window)),
            Evidence::None => (PATIENCE, earlier.and_then(|earlier| earlier.window)),
        };
        let patience = match earlier {
            Some(Self { patience, raises: 1.., .. }) => patience.saturating_mul(2).min(MOST_PATIENCE),
            Some(Self { patience, raises: 0, .. }) => patience,
            None => least,
        };
        Self { tokens, refused, replies: 0, patience: patience.max(least), raises: 0, window }
    }

    /// Returns the most tokens that are sent.
    pub(crate) const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Returns the window that the server named, by its own count, if it is smaller than believed.
    pub(crate) const fn window(&self) -> Option<Tokens> {
        self.window
    }

    /// Counts a reply to a prompt of `sent` tokens.
    pub(crate) fn count_reply(&mut self, sent: Tokens) -> Lesson {
        if sent >= self.refused {
            return Lesson::Refuted;
        }
        self.replies = self.replies.saturating_add(1);
        // A context is compacted well below the limit: it must exceed what was refused, or that is never sent
        // again.
        let most = self.refused + self.refused;
        if self.replies < self.patience || self.tokens >= most {
            return Lesson::Nothing;
        }
        self.replies = 0;
        self.raises = self.raises.saturating_add(1);
        self.tokens = (self.tokens + self.tokens.share(1, 4)).min(most);
        Lesson::Raised
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Simulates contexts that grow from a half to four fifths of the limit, and a server that rejects what
    /// exceeds its own limit, and once any prompt. Returns the rejections and the limit at the end.
    fn run(calls: u32, window: u64, truly: u64, odd_at: Option<u32>, evidence: Evidence) -> (u32, u64) {
        let (mut limit, mut n_refused): (Option<LearnedLimit>, u32) = (None, 0);
        let allowed =
            |limit: Option<LearnedLimit>| limit.map_or(window, |limit| limit.tokens().as_u64().min(window));
        for nth in 0..calls {
            let sent = |limit| allowed(limit) * (50 + u64::from(nth % 4) * 10) / 100;
            let mut is_odd = odd_at == Some(nth);
            while sent(limit) > truly || is_odd {
                is_odd = false;
                n_refused += 1;
                let refused = Tokens::new(sent(limit));
                limit = Some(LearnedLimit::learn(limit, refused, refused.share(9, 10), evidence));
            }
            if let Some(known) = &mut limit
                && known.count_reply(Tokens::new(sent(Some(*known)))) == Lesson::Refuted
            {
                limit = None;
            }
        }
        (n_refused, allowed(limit))
    }

    #[test]
    fn what_an_odd_error_taught_is_forgotten_and_what_is_true_is_not() {
        let with_figure = Evidence::SmallerWindow(Tokens::new(30_000));
        for (what, calls, truly, odd_at, evidence, expected) in [
            ("nothing is refused", 1_000, 100_000, None, Evidence::None, (0, 100_000)),
            ("one odd error, at once", 4, 100_000, Some(2), Evidence::None, (1, 63_000)),
            ("one odd error, later", 100, 100_000, Some(2), Evidence::None, (1, 100_000)),
            ("one odd error with a figure", 1_000, 100_000, Some(2), with_figure, (1, 100_000)),
        ] {
            assert_eq!(run(calls, 100_000, truly, odd_at, evidence), expected, "{what}");
        }
        // A true limit is run into ever less often.
        let refusals = |calls, evidence| run(calls, 100_000, 30_000, None, evidence).0;
        let actual = [100, 1_000, 10_000].map(|calls| refusals(calls, Evidence::None));
        assert_eq!(actual, [4, 7, 10]);
        let actual = [100, 1_000, 10_000].map(|calls| refusals(calls, with_figure));
        assert_eq!(actual, [2, 3, 6]);
    }

    #[test]
    fn a_refusal_in_one_go_with_another_is_no_proof() {
        let first = LearnedLimit::learn(None, Tokens::new(1_000), Tokens::new(900), Evidence::None);
        let second = LearnedLimit::learn(Some(first), Tokens::new(900), Tokens::new(800), Evidence::None);
        assert_eq!((second.tokens(), second.patience), (Tokens::new(800), PATIENCE));
        let mut raised = second;
        let lessons: Vec<Lesson> = (0..PATIENCE).map(|_| raised.count_reply(Tokens::new(100))).collect();
        assert_eq!(lessons.iter().filter(|lesson| **lesson == Lesson::Raised).count(), 1);
        assert_eq!(raised.tokens(), Tokens::new(1_000));
        let third = LearnedLimit::learn(Some(raised), Tokens::new(950), Tokens::new(850), Evidence::None);
        assert_eq!(third.patience, 2 * PATIENCE);
        assert_eq!(raised.count_reply(Tokens::new(900)), Lesson::Refuted);
    }

    #[test]
    fn the_window_that_a_server_named_is_kept_and_saved() {
        let figure = Evidence::SmallerWindow(Tokens::new(4_096));
        let first = LearnedLimit::learn(None, Tokens::new(5_000), Tokens::new(3_000), figure);
        let second = LearnedLimit::learn(Some(first), Tokens::new(3_000), Tokens::new(2_700), Evidence::None);
        assert_eq!(second.window(), Some(Tokens::new(4_096)));
        let text = serde_json::to_string(&second).unwrap();
        assert_eq!(serde_json::from_str::<LearnedLimit>(&text).unwrap(), second);
        // One that was saved before there was a window.
        let text = text.replace(",\"window\":4096", "");
        assert_eq!(serde_json::from_str::<LearnedLimit>(&text).unwrap().window(), None);
    }
}
