//! The loss of a compaction: the share of distinct identifiers and of user text that is gone.

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::compaction::features::hash;
use crate::{Context, ContextMessage, MessageId};

/// A compaction's loss, in hundredths of a percent: 0 is nothing, 10,000 everything.
///
/// The mean of two shares, each weighted by rarity: of the distinct identifiers (symbols, addresses, codes),
/// and of the sentences that users wrote. If there are none of one kind, the other counts alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Loss(pub(super) u64);

impl Loss {
    const ALL: u64 = 10_000;
}

/// The identifiers and sentences of a context, computed once, in time proportional to its text.
pub(super) struct Inventory {
    messages: HashSet<MessageId>,
    identifiers: Vec<(u64, u64)>,
    sentences: Vec<Sentence>,
}

/// A sentence of a user: its weight, the messages that contain it, and the runs of words in it.
struct Sentence {
    weight: u64,
    said_in: Vec<MessageId>,
    runs: Vec<u64>,
}

/// The number of words in a run by which a sentence is found again. A shorter sentence contains too little to
/// be missed.
const RUN: usize = 3;

impl Inventory {
    pub(super) fn of(context: &Context) -> Self {
        let messages = context.messages();
        let n_messages = messages.len();
        let mut identifiers: HashMap<u64, (usize, usize)> = HashMap::new();
        for (position, message) in messages.iter().enumerate() {
            for term in identifiers_of(message) {
                let (n, last) = identifiers.entry(term).or_insert((0, 0));
                if *last != position + 1 {
                    (*n, *last) = (*n + 1, position + 1);
                }
            }
        }
        let mut identifiers: Vec<(u64, u64)> =
            identifiers.into_iter().map(|(term, (n, _))| (term, rarity(n_messages, n))).collect();
        identifiers.sort_unstable();
        Self {
            identifiers,
            sentences: sentences(context),
            messages: messages.iter().filter_map(ContextMessage::id).collect(),
        }
    }

    /// Returns what `after` lacks of it.
    pub(super) fn lost_in(&self, after: &Context) -> Loss {
        let mut terms: HashSet<u64> = HashSet::new();
        let mut kept: HashSet<MessageId> = HashSet::new();
        let mut runs: HashSet<u64> = HashSet::new();
        for message in after.messages() {
            terms.extend(identifiers_of(message));
            match message.id().filter(|id| self.messages.contains(id)) {
                Some(id) => drop(kept.insert(id)),
                None => runs.extend(runs_of(&message.message().to_text())),
            }
        }
        let identifiers = self.identifiers.iter().map(|(term, weight)| (*weight, terms.contains(term)));
        let sentences = self.sentences.iter().map(|sentence| {
            let is_there = sentence.said_in.iter().any(|id| kept.contains(id))
                || sentence.runs.iter().all(|run| runs.contains(run));
            (sentence.weight, is_there)
        });
        let shares: Vec<u64> =
            [share_lost(identifiers), share_lost(sentences)].into_iter().flatten().collect();
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

fn identifiers_of(message: &ContextMessage) -> impl Iterator<Item = u64> {
    let terms = message.features().terms.iter();
    terms.filter(|term| term.kind().is_a_name_given()).map(|term| term.hash())
}

/// Returns the distinct sentences of user text.
fn sentences(context: &Context) -> Vec<Sentence> {
    let said: Vec<&ContextMessage> =
        context.messages().iter().filter(|message| message.starts_turn()).collect();
    let mut at: HashMap<Vec<u64>, usize> = HashMap::new();
    let mut sentences: Vec<Sentence> = Vec::new();
    for message in &said {
        for sentence in message.message().to_text().split_inclusive(['.', '!', '?', '\n']) {
            let runs = runs_of(sentence);
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
        sentence.weight = rarity(said.len(), sentence.said_in.len());
    }
    sentences
}

/// Returns the hashes of all runs of words in `text`.
fn runs_of(text: &str) -> Vec<u64> {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let words: Vec<u64> = words.map(hash).collect();
    let run = |words: &[u64]| {
        words.iter().fold(0_u64, |run, word| run.rotate_left(21) ^ word.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    };
    words.windows(RUN).map(run).collect()
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
            log.append(ContextMessage::count(message.clone(), &Characters));
        }
        log
    }

    /// Returns the loss if the messages at `gone` are replaced by one with `text`.
    fn lost(messages: &[Message], gone: std::ops::Range<usize>, text: &str) -> u64 {
        let before = log(messages).view();
        let groups = before.groups();
        let with = ContextMessage::count(Message::user(text).compacted(), &Characters);
        let after = before.edit(vec![Edit::Fold { span: groups.span(gone), with: vec![with] }]);
        Inventory::of(&before).lost_in(&after).0
    }

    #[test]
    fn the_share_of_identifiers_and_of_sentences_counts() {
        let said = [
            Message::user("Please mend the parser. Leave the lexer alone."),
            Message::assistant("In src/lexer.rs there is next_token, and in src/parser.rs parse_item."),
            Message::user("You must not touch the grammar file."),
        ];
        for (gone, text, expected) in [
            (1..2, "src/lexer.rs next_token src/parser.rs parse_item", 0),
            (1..2, "src/lexer.rs next_token", 2_500),
            (1..2, "nothing", 5_000),
            (2..3, "- You must not touch the grammar file.", 0),
            (2..3, "They said: you may touch the grammar file.", 1_667),
            (0..3, "nothing at all", 10_000),
        ] {
            assert_eq!(lost(&said, gone.clone(), text), expected, "{gone:?} {text}");
        }
    }

    #[test]
    fn what_is_rare_counts_more() {
        let mut said = vec![Message::assistant("only_once"), Message::assistant("very_often")];
        said.extend((0..8).map(|_| Message::assistant("very_often")));
        let (rare, common) = (lost(&said, 0..1, "very_often"), lost(&said, 1..10, "only_once"));
        assert!(rare > 2 * common, "{rare} {common}");
    }

    #[test]
    fn where_there_is_nothing_to_lose_nothing_is_lost() {
        assert_eq!(lost(&[Message::assistant("well"), Message::assistant("yes")], 0..1, "so"), 0);
    }
}
