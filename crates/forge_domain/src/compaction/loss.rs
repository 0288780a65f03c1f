//! The loss of a compaction: the share of what the work is about, of the user's words and of the agent's
//! conclusions that is gone.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use super::Focus;
use super::features::hash;
use super::question::Question;
use crate::{Context, ContextMessage, MessageId, Role};

/// A compaction's loss, in hundredths of a percent: 0 is nothing, 10,000 everything.
///
/// The mean of three shares, each weighted by rarity: of the places that name what the task is about now, of
/// the user's sentences, and of the agent's. If one kind is missing, the others count alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Loss(pub(super) u64);

impl Loss {
    const ALL: u64 = 10_000;
}

/// The things in a context that a compaction may lose, found once, in time proportional to its text.
pub(super) struct Inventory {
    messages: HashSet<MessageId>,
    mentions: Vec<Mention>,
    /// The sentences of users.
    requests: Vec<Sentence>,
    /// The sentences of the agent, and of what earlier compactions wrote.
    conclusions: Vec<Sentence>,
}

/// A message that has a favoured term.
struct Mention {
    term: u64,
    weight: u64,
    said_in: Option<MessageId>,
}

/// A sentence: its weight, the messages that contain it, and the runs of words in it.
struct Sentence {
    weight: u64,
    said_in: Vec<MessageId>,
    runs: Vec<u64>,
}

/// The number of words in a run by which a sentence is found again. A shorter sentence is one run.
const RUN: usize = 3;

impl Inventory {
    pub(super) fn of(context: &Context, focus: Option<&Focus>) -> Self {
        let messages = context.messages();
        let is_conclusion =
            |message: &&ContextMessage| message.role() == Role::Assistant || message.message().is_compacted;
        Self {
            messages: messages.iter().filter_map(ContextMessage::id).collect(),
            mentions: mentions(context, focus),
            requests: sentences(messages.iter().filter(|message| message.starts_turn())),
            conclusions: sentences(messages.iter().filter(is_conclusion)),
        }
    }

    /// Returns what `after` lacks of it.
    pub(super) fn lost_in(&self, after: &Context) -> Loss {
        let mut kept: HashSet<MessageId> = HashSet::new();
        let mut terms: HashSet<u64> = HashSet::new();
        let mut runs: HashSet<u64> = HashSet::new();
        for message in after.messages() {
            match message.id().filter(|id| self.messages.contains(id)) {
                Some(id) => drop(kept.insert(id)),
                None => {
                    terms.extend(message.features().terms.iter().map(|term| term.hash()));
                    let text = message.message().to_text();
                    (1..=RUN).for_each(|length| runs.extend(runs_of(&text, length)));
                }
            }
        }
        let share_of_sentences = |sentences: &[Sentence]| {
            share_lost(sentences.iter().map(|sentence| {
                let is_there = sentence.said_in.iter().any(|id| kept.contains(id))
                    || sentence.runs.iter().all(|run| runs.contains(run));
                (sentence.weight, is_there)
            }))
        };
        let mentions = self.mentions.iter().map(|Mention { term, weight, said_in }| {
            (*weight, said_in.is_some_and(|id| kept.contains(&id)) || terms.contains(term))
        });
        let shares =
            [share_lost(mentions), share_of_sentences(&self.requests), share_of_sentences(&self.conclusions)];
        let shares: Vec<u64> = shares.into_iter().flatten().collect();
        Loss(shares.iter().sum::<u64>() / shares.len().max(1) as u64)
    }
}

/// Returns the weighted share of missing things; `None` if there are no things.
fn share_lost(things: impl Iterator<Item = (u64, bool)>) -> Option<u64> {
    let (mut all, mut lost) = (0_u64, 0_u64);
    for (weight, is_there) in things {
        all += weight;
        lost += if is_there { 0 } else { weight };
    }
    (all > 0).then(|| (u128::from(lost) * u128::from(Loss::ALL)).div_ceil(u128::from(all)) as u64)
}

/// Returns the inverse document frequency of what `n` of `n_messages` have, in whole numbers: sums do not
/// depend on their order.
fn rarity(n_messages: usize, n: usize) -> u64 {
    ((1.0 + n_messages as f64 / n.max(1) as f64).ln() * 1_000.0) as u64
}

/// The steps in which a strength counts here: sums of whole numbers do not depend on their order.
const STRENGTHS: f32 = 100.0;

/// Returns every message that has a favoured term. All mentions of one term weigh as much as its strength and
/// its rarity say.
fn mentions(context: &Context, focus: Option<&Focus>) -> Vec<Mention> {
    let strengths = Question::of(context, focus).strengths();
    let messages = context.messages();
    let mut n_with: HashMap<u64, usize> = HashMap::new();
    let mut mentions = Vec::new();
    for message in messages {
        for term in message.features().terms.iter().map(|term| term.hash()) {
            let strength = (strengths.get(&term).copied().unwrap_or_default() * STRENGTHS) as u64;
            if strength > 0 {
                *n_with.entry(term).or_default() += 1;
                mentions.push(Mention { term, weight: strength, said_in: message.id() });
            }
        }
    }
    for mention in &mut mentions {
        let n = n_with[&mention.term];
        mention.weight = (mention.weight * rarity(messages.len(), n) / n as u64).max(1);
    }
    mentions
}

/// Returns the distinct sentences of `said`.
fn sentences<'a>(said: impl Iterator<Item = &'a ContextMessage>) -> Vec<Sentence> {
    let mut n_messages = 0;
    let mut at: HashMap<Vec<u64>, usize> = HashMap::new();
    let mut sentences: Vec<Sentence> = Vec::new();
    for message in said {
        n_messages += 1;
        let text = message.message().to_text();
        for sentence in pieces(&text) {
            let runs = runs_of(sentence, RUN.min(words(sentence).count()));
            if runs.is_empty() {
                continue;
            }
            let next = sentences.len();
            let index = *at.entry(runs.clone()).or_insert(next);
            if index == next {
                sentences.push(Sentence { weight: 0, said_in: Vec::new(), runs });
            }
            sentences[index].said_in.extend(message.id());
        }
    }
    for sentence in &mut sentences {
        sentence.said_in.dedup();
        sentence.weight = rarity(n_messages, sentence.said_in.len());
    }
    sentences
}

/// Returns the sentences of a text in any language: a full stop ends one only before a space, so that names
/// with a dot stay whole; the signs of languages that are written without spaces end one anywhere.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut chars = rest.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let is_end = match c {
                '\n' | '。' | '！' | '？' | '｡' | '।' | '؟' | '۔' => true,
                '.' | '!' | '?' => chars.peek().is_none_or(|(_, next)| next.is_whitespace()),
                _ => false,
            };
            if is_end {
                let (piece, after) = rest.split_at(at + c.len_utf8());
                rest = after;
                return Some(piece);
            }
        }
        (!rest.is_empty()).then(|| std::mem::take(&mut rest))
    })
}

/// Iterates over the words of a text, without the marks between them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Returns the hashes of all runs of `length` words in `text`; none if the length is zero.
fn runs_of(text: &str, length: usize) -> Vec<u64> {
    let words: Vec<u64> = words(text).map(hash).collect();
    let run = |words: &[u64]| {
        words.iter().fold(0_u64, |run, word| run.rotate_left(21) ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    };
    words.windows(length.max(1)).map(run).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::Characters;
    use super::*;
    use crate::{Conversation, Edit, Message};

    fn log(messages: &[Message]) -> Conversation {
        let mut log = Conversation::new();
        for message in messages {
            log.add(message.clone());
        }
        log
    }

    /// Returns the loss if the messages at `gone` are replaced by one with `text`.
    fn loss(messages: &[Message], gone: std::ops::Range<usize>, text: &str) -> u64 {
        let before = log(messages).view();
        let groups = before.groups();
        let with = ContextMessage::count(Message::user(text).compacted(), &Characters);
        let after = before.edit(vec![Edit::Fold { span: groups.span(gone), with: vec![with] }]);
        Inventory::of(&before, None).lost_in(&after).0
    }

    #[test]
    fn each_kind_of_thing_counts_by_its_share() {
        let said = [
            Message::user("Please mend the parser. Leave the lexer alone."),
            Message::assistant("It was a loop. Now it ends."),
            Message::user("Well done, thank you."),
        ];
        for (gone, text, expected) in [
            (1..2, "It was a loop. Now it ends.", 0),
            // Of the conclusions a half, then all; of the rest nothing.
            (1..2, "Now it ends.", 1_666),
            (1..2, "nothing", 3_333),
            (2..3, "- Well done, thank you.", 0),
            (0..3, "nothing at all", 10_000),
        ] {
            assert_eq!(loss(&said, gone.clone(), text), expected, "{gone:?} {text}");
        }
    }

    #[test]
    fn what_the_task_is_about_counts_more_than_what_it_is_not_about() {
        let said = [
            Message::user("Begin."),
            Message::assistant("In src/parser.rs there is parse_item."),
            Message::assistant("In src/lexer.rs there is next_token."),
            Message::user("Rename parse_item."),
        ];
        let (asked, other) = (loss(&said, 1..2, "gone"), loss(&said, 2..3, "gone"));
        assert!(asked > other, "{asked} {other}");
        assert!(loss(&said, 1..2, "parse_item") < asked);
    }

    #[test]
    fn short_sentences_of_any_language_are_missed() {
        for sentence in
            ["Nein.", "不要碰数据库。", "本番に触らないで！", "Не трогай схему.", "لا تحذف شيئا؟", "No"]
        {
            let said = [
                Message::user("Begin now, and be quick about it."),
                Message::user(format!("{sentence} 好的。\nYes.")),
                Message::assistant("On it."),
                Message::user("And?"),
            ];
            assert!(loss(&said, 1..2, "好的。 Yes.") > 0, "{sentence}");
            assert_eq!(loss(&said, 1..2, &format!("{sentence} 好的。 Yes.")), 0, "{sentence}");
        }
    }

    #[test]
    fn a_sentence_ends_where_its_language_ends_it() {
        for (text, expected) in [
            ("See src/a.rs. Done!", vec!["See src/a.rs.", " Done!"]),
            ("一。二！三？四", vec!["一。", "二！", "三？", "四"]),
            ("3.5 is it\nwell", vec!["3.5 is it\n", "well"]),
            ("", vec![]),
        ] {
            assert_eq!(pieces(text).collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn what_is_rare_counts_more() {
        let mut said = vec![Message::assistant("only_once"), Message::assistant("very_often")];
        said.extend((0..8).map(|_| Message::assistant("very_often")));
        let (rare, common) = (loss(&said, 0..1, "very_often"), loss(&said, 1..10, "only_once"));
        assert!(rare > 2 * common, "{rare} {common}");
    }

    #[test]
    fn where_there_is_nothing_to_lose_nothing_is_lost() {
        assert_eq!(loss(&[Message::assistant("..."), Message::assistant("!")], 0..1, "so"), 0);
    }
}
