//! The lines of a long text that are asked about: they stay where the rest between head and tail leaves.

use std::collections::HashSet;
use std::ops::Range;

use super::features::{ByTerm, Features, Line, TermHasher};
use super::question::{Question, rarity};
use super::short_text::{byte_of_char, end_of_head, head_and_tail_of, omission, start_of_tail};
use crate::{Context, Message, MessageId};

/// The part of what stays that the lines asked for may take, one of so many.
const PART: usize = 3;
/// A line counts if it has this share of what the best one has of a question.
const OF_BEST: f32 = 0.7;
/// Fewer lines are no text to look for anything in.
const LEAST_LINES: usize = 20;
/// A line answers only with a term that at most one of so many lines has.
const RARE: usize = 20;
/// Most characters of a text's end, and of its beginning, that may be a question about the rest of it.
const QUESTION_CHARS: usize = 400;

/// A long text, and the lines of it that are asked for.
pub(crate) struct AskedLines<'a> {
    label: Option<MessageId>,
    text: &'a str,
    /// The lines as parts of the text, those that answer best first.
    lines: Vec<Range<usize>>,
}

impl<'a> AskedLines<'a> {
    /// Reads `text`, the content of the message at `position`: what the newest requests and calls of
    /// `context` ask about and, if it is the user's, what its own end and beginning do.
    pub(crate) fn of(context: &Context, position: usize, text: &'a str) -> Self {
        let message = &context.messages()[position];
        let (label, known) = (message.id(), message.features());
        // The features of the message are usually those of this text.
        let own = (known.text != text).then(|| Features::of(&Message::user(text)));
        let features = own.as_ref().unwrap_or(known);
        if features.lines.len() < LEAST_LINES {
            return Self { label, text, lines: Vec::new() };
        }
        let is_request = context.latest_user() == Some(position);
        let questions = match is_request {
            true => edges(text),
            false => {
                let mut questions = asked_in(context, position);
                // Who pastes a log may ask about it before or after that.
                let own = if message.starts_turn() { edges(text) } else { Vec::new() };
                questions.extend(own.into_iter().filter(|question| question.stands_apart(text)));
                questions
            }
        };
        let mut answers: Vec<(f32, &Line)> =
            questions.iter().flat_map(|question| question.answers(features)).collect();
        answers.sort_by(|(one, first), (other, second)| {
            other.total_cmp(one).then(first.start.cmp(&second.start))
        });
        let lines = answers.into_iter().map(|(_, line)| line.start as usize..line.end as usize);
        Self { label, text, lines: lines.collect() }
    }

    /// Returns the text shortened to head, tail and the lines between them, with at most about `keep`
    /// characters.
    pub(crate) fn shortened(&self, keep: usize) -> String {
        let share = keep / PART;
        let mut left = share;
        let mut lines: Vec<&Range<usize>> = Vec::new();
        let (head, tail) = ends(self.text, (keep - share) / 2);
        for line in self.lines.iter().filter(|line| line.start >= head && line.end <= tail) {
            let n_chars = self.text[line.clone()].chars().count();
            if n_chars <= left && !lines.contains(&line) {
                left -= n_chars;
                lines.push(line);
            }
        }
        // Head and tail have the characters that the lines do not need.
        let (head, tail) = ends(self.text, (keep - share + left) / 2);
        lines.retain(|line| line.start >= head && line.end <= tail);
        if lines.is_empty() {
            return head_and_tail_of(self.label, self.text, keep);
        }
        lines.sort_by_key(|line| line.start);
        let mut shortened = self.text[..head].to_owned();
        let mut at = head;
        let omit = |shortened: &mut String, part: &str| {
            shortened.push('\n');
            if !part.trim().is_empty() {
                shortened.push_str(&omission(self.label, part));
                shortened.push('\n');
            }
        };
        for line in lines {
            omit(&mut shortened, &self.text[at..line.start]);
            shortened.push_str(&self.text[line.clone()]);
            at = line.end;
        }
        omit(&mut shortened, &self.text[at..tail]);
        shortened.push_str(&self.text[tail..]);
        shortened
    }
}

/// Returns the end of a text's head and the start of its tail, whole lines or words of about `keep`
/// characters each.
fn ends(text: &str, keep: usize) -> (usize, usize) {
    let n_chars = text.chars().count();
    let (head, tail) = (byte_of_char(text, keep), byte_of_char(text, n_chars - keep.min(n_chars)));
    let line = text[..head].rfind('\n').filter(|end| end * 2 > head);
    let head = line.unwrap_or_else(|| end_of_head(text, head));
    let tail = text[tail..].find('\n').map_or_else(|| start_of_tail(text, tail), |end| tail + end + 1);
    (head, tail.max(head))
}

/// A question about a text: its terms, and the part of the text that asks, if it is in there.
struct Asking {
    terms: HashSet<u64, TermHasher>,
    asks: Range<usize>,
}

/// Returns what the newest requests and the calls after it ask about the message at `position`. Earlier
/// calls ask nothing about it: a result answers its own with all that it says.
fn asked_in(context: &Context, position: usize) -> Vec<Asking> {
    let asks = |at: usize| at > position || context.messages()[at].starts_turn();
    let question = Question::of(context, None);
    let asked = question.asked().filter(|asked| asked.position().is_none_or(asks));
    asked.map(|asked| Asking { terms: asked.terms().collect(), asks: 0..0 }).collect()
}

/// Returns what the last and the first line of a text ask.
fn edges(text: &str) -> Vec<Asking> {
    let whole = text.trim_end();
    let n_chars = whole.chars().count();
    let from = byte_of_char(whole, n_chars.saturating_sub(QUESTION_CHARS));
    let last = whole[from..].rfind('\n').map_or(from, |end| from + end + 1)..whole.len();
    let to = byte_of_char(whole, QUESTION_CHARS.min(n_chars));
    let first = 0..whole[..to].find('\n').unwrap_or(to);
    let asking = |asks: Range<usize>| {
        let terms = Features::of(&Message::user(&text[asks.clone()])).terms;
        Asking { terms: terms.iter().map(|term| term.hash()).collect(), asks }
    };
    [last, first].map(asking).into()
}

impl Asking {
    /// Checks whether an empty line is between the question and the rest of the text.
    fn stands_apart(&self, text: &str) -> bool {
        let is_empty = |line: Option<&str>| line.is_some_and(|line| line.trim().is_empty());
        let before = text[..self.asks.start].strip_suffix('\n');
        let after = text[self.asks.end..].strip_prefix('\n');
        is_empty(before.and_then(|before| before.rsplit('\n').next()))
            || is_empty(after.and_then(|after| after.split('\n').next()))
    }

    /// Returns the lines that answer it best, each with how well it does.
    fn answers<'a>(&self, features: &'a Features) -> Vec<(f32, &'a Line)> {
        let named_in = |line: &'a Line| {
            let terms = features.places(line).iter().map(|place| features.terms[*place as usize].hash());
            (line, terms.filter(|term| self.terms.contains(term)).collect::<Vec<u64>>())
        };
        let others = features.lines.iter().filter(|line| !self.asks.contains(&(line.start as usize)));
        let found: Vec<(&Line, Vec<u64>)> = others.map(named_in).collect();
        let mut n_lines: ByTerm<usize> = ByTerm::default();
        found.iter().flat_map(|(_, terms)| terms).for_each(|term| *n_lines.entry(*term).or_default() += 1);
        let weight = |term: &u64| rarity(found.len(), n_lines[term]);
        let is_rare = |term: &u64| n_lines[term] * RARE <= found.len().max(RARE);
        let told = found.iter().filter(|(_, terms)| terms.iter().any(is_rare));
        let told: Vec<(f32, &Line)> =
            told.map(|(line, terms)| (terms.iter().map(weight).sum(), *line)).collect();
        let best = told.iter().map(|(worth, _)| *worth).fold(0.0, f32::max);
        told.into_iter().filter(|(worth, _)| *worth >= best * OF_BEST).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conversation;
    use crate::compaction::fixture::tool_call;

    fn log_text() -> String {
        let line = |n: usize| {
            format!("10:{:02} chunk ZK-{} of the import was written, {n} rows", n % 60, 77_000 + n)
        };
        (0..400).map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_line_that_is_asked_for_stays_in_a_long_text() {
        let log = log_text();
        let both = format!("{log}\n\nWhy was chunk ZK-77120 written twice?");
        for (said, position) in [
            (vec![log.as_str(), "Why was chunk ZK-77120 written twice?"], 0),
            (vec!["Here comes the log.", both.as_str()], 1),
            (vec![both.as_str(), "Thanks!"], 0),
        ] {
            let mut conversation = Conversation::new();
            for text in &said {
                conversation.user(*text);
            }
            let short = AskedLines::of(&conversation.view(), position, said[position]).shortened(2_000);
            assert!(short.chars().count() < 2_300, "{}", short.chars().count());
            assert!(
                short.contains("\n10:00 chunk ZK-77120 of the import was written, 120 rows\n"),
                "{short}"
            );
            assert!(
                short.starts_with("10:00 chunk ZK-77000") && short.matches(" omitted ...]").count() >= 2,
                "{short}"
            );
        }
    }

    #[test]
    fn a_result_answers_its_own_call_with_all_that_it_says() {
        let sought = |pattern: &str| format!(r#"{{"pattern":"{pattern}"}}"#);
        let log = log_text();
        for (own, later, expected) in [("ZK-77120", None, false), ("import", Some("ZK-77120"), true)] {
            let mut conversation = Conversation::new();
            conversation.user("Find out what is wrong.").call("grep", sought(own), log.as_str());
            if let Some(later) = later {
                conversation.add(Message::calling(vec![tool_call("grep", sought(later))]));
            }
            let short = AskedLines::of(&conversation.view(), 2, &log).shortened(2_000);
            assert_eq!(short.contains("\n10:00 chunk ZK-77120"), expected, "{own}: {short}");
        }
    }

    #[test]
    fn head_and_tail_end_with_lines_or_words() {
        for (text, keep, expected) in [
            ("one two three four", 9, ("one two", "four")),
            ("one two\nthree four\nfive six", 9, ("one two", "five six")),
            ("one", 9, ("one", "")),
            ("one", 0, ("", "")),
        ] {
            let (head, tail) = ends(text, keep);
            assert_eq!((&text[..head], &text[tail..]), expected, "{text}");
        }
    }

    #[test]
    fn where_nothing_is_asked_head_and_tail_stay() {
        let log = log_text();
        let mut conversation = Conversation::new();
        for text in [log.as_str(), "Thanks!"] {
            conversation.user(text);
        }
        let short = AskedLines::of(&conversation.view(), 0, &log).shortened(2_000);
        let label = conversation.view().messages()[0].id();
        assert_eq!(short, head_and_tail_of(label, &log, 2_000));
    }
}
