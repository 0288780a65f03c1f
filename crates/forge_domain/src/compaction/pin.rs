//! User text that is pinned: it survives every compaction verbatim.
//!
//! A short message that matches is pinned whole. Of a long one only the matching lines are: a pasted log with
//! one pinned line in it need not be kept as a whole.

use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::short_text::readable_text;
use crate::{ContextMessage, Message, MessageId, TokenCounter, Tokens};

/// A pattern for user text that stays verbatim: a regular expression, matched in linear time, not anchored,
/// and case-sensitive unless it has `(?i)`.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("minLength" = 1))]
pub struct Pin(Regex);

/// A text that is not a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern '{pattern}': {what}")]
pub struct PinError {
    /// The text.
    pub pattern: String,
    /// The fault.
    pub what: String,
}

impl Pin {
    /// Returns the pattern as it was written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl TryFrom<String> for Pin {
    type Error = PinError;
    fn try_from(pattern: String) -> Result<Self, Self::Error> {
        let refused = |what: &str| PinError { pattern: pattern.clone(), what: what.to_owned() };
        let regex = Regex::new(&pattern).map_err(|error| {
            // The parser draws the pattern over several lines; its last one has the fault.
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            refused(last.strip_prefix("error: ").unwrap_or(last))
        })?;
        if regex.is_match("") {
            return Err(refused("it matches every text, the empty one too"));
        }
        Ok(Self(regex))
    }
}

impl From<Pin> for String {
    fn from(pin: Pin) -> Self {
        pin.0.as_str().to_owned()
    }
}

impl PartialEq for Pin {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Pin {}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.as_str())
    }
}

/// All that is pinned in one compaction: patterns, and messages by their id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pins {
    patterns: Vec<Pin>,
    kept: HashSet<MessageId>,
}

/// The text in place of lines that were left out.
const OMISSION: &str = "[... lines omitted ...]";
/// Most characters of a line that is pinned as one; a longer one is several.
const LINE_CHARS: usize = 400;

impl Pins {
    /// A message of at most so many tokens is pinned whole.
    pub(crate) const WHOLE: Tokens = Tokens::new(256);

    pub(crate) fn new(patterns: &[Pin], kept: &[MessageId]) -> Self {
        Self { patterns: patterns.to_vec(), kept: kept.iter().copied().collect() }
    }

    /// Checks whether there are no pins.
    pub(crate) fn is_empty(&self) -> bool {
        self.patterns.is_empty() && self.kept.is_empty()
    }

    /// Checks whether any part of the message is pinned. Messages that compaction made never are.
    pub(crate) fn hold(&self, message: &ContextMessage) -> bool {
        self.keeps(message) || self.matches(message.message())
    }

    /// Checks whether the message is a user's and a pattern matches it.
    pub(crate) fn matches(&self, message: &Message) -> bool {
        !self.patterns.is_empty()
            && message.starts_turn()
            && self.patterns.iter().any(|pin| pin.0.is_match(&readable_text(message)))
    }

    /// Returns the text with its pinned lines and, from its head and tail, as many others as have about
    /// `keep` characters together with them.
    pub(crate) fn excerpt(&self, text: &str, keep: usize) -> String {
        let lines = lines(text);
        let mut stays = self.mark_pinned(text, &lines);
        let n_chars = |line: &Range<usize>| text[line.clone()].chars().count();
        let pinned: usize =
            lines.iter().zip(&stays).filter(|(_, stays)| **stays).map(|(line, _)| n_chars(line)).sum();
        let mut left = keep.saturating_sub(pinned);
        let (mut head, mut tail) = (0, lines.len());
        while head < tail {
            let at = if head <= lines.len() - tail { head } else { tail - 1 };
            if !stays[at] {
                let Some(rest) = left.checked_sub(n_chars(&lines[at])).filter(|_| left > 0) else { break };
                left = rest;
                stays[at] = true;
            }
            if at == head { head += 1 } else { tail -= 1 }
        }
        join_lines(text, &lines, &stays)
    }

    /// Returns the message with its pinned lines alone, if it is pinned, long, and shorter then.
    pub(crate) fn least(
        &self,
        message: &ContextMessage,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        if message.tokens() <= Self::WHOLE { None } else { self.lines_alone(message, counter) }
    }

    /// Returns the message with its pinned lines alone, however short it is, if it is shorter then: for where
    /// nothing else helps.
    pub(crate) fn lines_alone(
        &self,
        message: &ContextMessage,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        if self.keeps(message) {
            return None;
        }
        let text = self.excerpt(&readable_text(message.message()), 0);
        let least = ContextMessage::count(message.message().with_content(text), counter);
        (least.tokens() < message.tokens()).then_some(least)
    }

    /// Checks whether the message is kept by its id.
    pub(crate) fn keeps(&self, message: &ContextMessage) -> bool {
        message.id().is_some_and(|id| self.kept.contains(&id))
    }

    /// Returns every text of `message` that must stay.
    pub(crate) fn texts(&self, message: &ContextMessage) -> Vec<String> {
        let text = readable_text(message.message());
        if message.tokens() <= Self::WHOLE {
            return vec![text];
        }
        let lines = lines(&text);
        let pinned = self.mark_pinned(&text, &lines);
        let pinned = lines.iter().zip(&pinned).filter(|(_, is_pinned)| **is_pinned);
        pinned.map(|(line, _)| text[line.clone()].trim().to_owned()).collect()
    }

    /// Marks those of `lines` that a match touches.
    fn mark_pinned(&self, text: &str, lines: &[Range<usize>]) -> Vec<bool> {
        let mut pinned = vec![false; lines.len()];
        for found in self.patterns.iter().flat_map(|pin| pin.0.find_iter(text)) {
            let first = lines.partition_point(|line| line.end <= found.start());
            for (line, pinned) in lines.iter().zip(&mut pinned).skip(first) {
                if line.start >= found.end() {
                    break;
                }
                *pinned = true;
            }
        }
        pinned
    }
}

/// Returns the text's lines with their ends, long ones in pieces, without gaps.
fn lines(text: &str) -> Vec<Range<usize>> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        while start < end {
            let rest = &text[start..end];
            let cut = rest.char_indices().nth(LINE_CHARS).map_or(rest.len(), |(at, _)| {
                // A piece ends after a blank if there is one.
                rest[..at].rfind(' ').map_or(at, |blank| blank + 1)
            });
            lines.push(start..start + cut);
            start += cut;
        }
    }
    lines
}

/// Joins the lines that stay, with a word for each gap between them.
fn join_lines(text: &str, lines: &[Range<usize>], stays: &[bool]) -> String {
    let mut joined = String::new();
    let mut is_gap = false;
    for (line, stays) in lines.iter().zip(stays) {
        let line = &text[line.clone()];
        // A gap that an earlier compaction left becomes part of this one.
        if !stays || line.trim_end() == OMISSION {
            is_gap = true;
            continue;
        }
        if is_gap {
            open_line(&mut joined);
            joined.push_str(OMISSION);
            joined.push('\n');
            is_gap = false;
        }
        joined.push_str(line);
    }
    if is_gap {
        open_line(&mut joined);
        joined.push_str(OMISSION);
    }
    joined
}

fn open_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, conversation, fit, fit_again};
    use super::super::{Outcome, Yield};
    use super::*;
    use crate::{Conversation, Role};

    fn pins(patterns: &[&str]) -> Pins {
        let patterns: Vec<Pin> =
            patterns.iter().map(|pattern| Pin::try_from((*pattern).to_owned()).unwrap()).collect();
        Pins::new(&patterns, &[])
    }

    #[test]
    fn a_pattern_is_valid_or_refused_with_the_reason() {
        for (pattern, expected) in [
            ("never .* prod", None),
            ("(?i)KEEP", None),
            ("(open", Some("invalid pattern '(open': unclosed group")),
            ("a{2", Some("invalid pattern 'a{2': unclosed counted repetition")),
            ("x*", Some("invalid pattern 'x*': it matches every text, the empty one too")),
            ("", Some("invalid pattern '': it matches every text, the empty one too")),
        ] {
            let actual = Pin::try_from(pattern.to_owned()).err().map(|error| error.to_string());
            assert_eq!(actual.as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn pinned_lines_stay_and_gaps_are_marked_once() {
        let pins = pins(&["KEEP", "first.*\n.*second"]);
        for (text, keep, expected) in [
            ("a\nb KEEP c\nd", 0, "[... lines omitted ...]\nb KEEP c\n[... lines omitted ...]"),
            ("KEEP\nb\nc\nd\nKEEP", 0, "KEEP\n[... lines omitted ...]\nKEEP"),
            ("a\nb KEEP c\nd\ne", 12, "a\nb KEEP c\n[... lines omitted ...]\ne"),
            ("the first\nthe second\nno", 0, "the first\nthe second\n[... lines omitted ...]"),
            ("a\nb", 9, "a\nb"),
        ] {
            let once = pins.excerpt(text, keep);
            assert_eq!(once, expected, "{text}");
            assert_eq!(pins.excerpt(&once, keep), once, "again: {text}");
        }
        let line = format!("{} KEEP {}", "words ".repeat(200), "more ".repeat(200));
        let excerpt = pins.excerpt(&line, 0);
        assert!(excerpt.contains(" KEEP ") && excerpt.chars().count() < 3 * LINE_CHARS, "{excerpt}");
    }

    /// Builds a session whose early messages are ordinary except for one.
    fn session(pinned: &str) -> Conversation {
        let mut conversation = conversation("suaa");
        conversation.user(pinned);
        conversation.add_all("auaauauaaauaaa");
        conversation
    }

    fn says(conversation: &Conversation, text: &str) -> bool {
        conversation
            .view()
            .plain()
            .any(|message| message.starts_turn() && readable_text(message).contains(text))
    }

    const STRATEGIES: [&str; 5] = [
        "strategies: [sliding_window]",
        "strategies: [truncation]",
        "strategies: [extraction]",
        "strategies: [summarization], model: m",
        "strategies: [sliding_window: { keep_first: 1, keep_last: 2 }], message_threshold: 6",
    ];

    #[test]
    fn pinned_text_survives_any_number_of_compactions_with_every_strategy() {
        let short = "Note: NEVER touch prod, it is live.";
        let long = format!("{}\n{short}\n{}", "a pasted line\n".repeat(80), "another line\n".repeat(80));
        for strategies in STRATEGIES {
            for pinned in [short, &long] {
                let mut lost = Vec::new();
                for pin in ["", "pin: ['NEVER .* prod'], "] {
                    let yaml = format!("{{ {pin}retention_window: 2, {strategies} }}");
                    let mut log = session(pinned);
                    for _ in 0..5 {
                        let fit = fit_again(&yaml, 1_400, &mut log, &Script::summarizing());
                        assert!(fit.result.is_ok(), "{yaml}: {:?}", fit.report);
                        log.add_all("uaaaaaa");
                    }
                    assert!(log.compactions().count() > 2, "{yaml}");
                    lost.push(!says(&log, short));
                }
                assert!(!lost[1], "{strategies} lost the pinned text");
                assert!(lost[0], "{strategies} keeps the text without a pin too: the test says nothing");
            }
        }
    }

    #[test]
    fn pins_yield_last_and_only_where_the_target_cannot_hold_otherwise() {
        use Yield::{LatestUserText, Pins, RetentionSize, SystemMessages};
        let yaml = "{ pin: ['^[2-9]'], strategies: [truncation], retention_window: 3 }";
        for (before, expected) in [
            // The pinned ones are 2 to 9; the target is 1,000.
            ("suuaaaaaaaaaaaaaaaaa", ("suu[aaaaaaaaaaa]aaaaaa", &[][..])),
            ("suauuaaaatRR", ("su[a]uu[aaaa]tR~R~", &[RetentionSize])),
            ("suuuuuuuuaaUtR", ("su[u]uuuuuu[aa]U~tR~", &[RetentionSize, LatestUserText, Pins])),
            (
                "suuuuSuuuuaaUtR",
                ("su[u]uu[S]uuuu[aa]U~tR~", &[RetentionSize, LatestUserText, SystemMessages, Pins]),
            ),
        ] {
            let (actual, report) = fit(yaml, 2_000, before, &Script::new(Vec::new()));
            let Outcome::Applied { impact, .. } = report.outcome else { panic!("{before}: {report:?}") };
            assert_eq!((actual.as_str(), impact.yielded.as_slice()), expected, "{before}");
            assert!(impact.after.tokens.as_u64() <= 1_000, "the target holds: {impact:?}");
        }
    }

    #[test]
    fn what_compaction_made_is_no_source_of_pins() {
        let made = Message::user("KEEP this").compacted();
        assert!(!pins(&["KEEP"]).matches(&made));
        assert!(!pins(&["KEEP"]).matches(&Message::assistant("KEEP this")));
        assert!(pins(&["KEEP"]).matches(&Message::user("KEEP this")));
        assert_eq!(made.role(), Role::User);
    }
}
