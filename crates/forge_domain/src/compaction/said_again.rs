//! Messages of the user's that the same user says again later in nearly the same words: what they want stands
//! in the later one.

use std::collections::{HashMap, HashSet};

use super::features::{ByTerm, Kind, Term, TermHasher};
use crate::{ContextMessage, speaker};

/// The fewest terms of such a message: a shorter one says something else each time. Of more terms than the
/// most, the share that may be new is a text of its own.
const LEAST_TERMS: usize = 4;
const MOST_TERMS: usize = 40;
/// The share of its terms that the later one has, in percent.
const SAME_PERCENT: usize = 75;
/// The most later messages with one of its rarest terms that one is compared with.
const MOST_COMPARED: usize = 64;

/// A message that may be said again, or say one again.
struct Saying<'m> {
    position: usize,
    author: Option<&'m str>,
    terms: &'m [Term],
}

/// Returns the positions of such messages among `messages`.
pub(super) fn said_again(messages: &[ContextMessage]) -> HashSet<usize> {
    let sayings = messages.iter().enumerate().filter(|(_, message)| message.starts_turn());
    let sayings = sayings.map(|(position, message)| Saying {
        position,
        author: speaker(message.message()),
        terms: &message.features().terms,
    });
    let sayings: Vec<Saying<'_>> = sayings.collect();
    let mut n_sayings: ByTerm<usize> = ByTerm::default();
    for term in sayings.iter().flat_map(|saying| saying.terms) {
        *n_sayings.entry(term.hash()).or_default() += 1;
    }
    // The later ones that have each term, the oldest last.
    let mut later: HashMap<u64, Vec<usize>, TermHasher> = HashMap::default();
    let mut again = HashSet::new();
    for (nth, saying) in sayings.iter().enumerate().rev() {
        if (LEAST_TERMS..=MOST_TERMS).contains(&saying.terms.len()) {
            let mut terms: Vec<u64> = saying.terms.iter().map(|term| term.hash()).collect();
            terms.sort_by_key(|term| (n_sayings[term], *term));
            // One that has most of all terms has one of so few.
            let n_rarest = terms.len() - saying.least_shared() + 1;
            let mut with_any = terms[..n_rarest].iter().filter_map(|term| later.get(term));
            let repeats = |later: &Vec<usize>| {
                let newest = later.iter().rev().take(MOST_COMPARED);
                newest.map(|nth| &sayings[*nth]).any(|later| later.repeats(saying))
            };
            if with_any.any(repeats) {
                again.insert(saying.position);
            }
        }
        if saying.terms.len() >= LEAST_TERMS {
            saying.terms.iter().for_each(|term| later.entry(term.hash()).or_default().push(nth));
        }
    }
    again
}

impl Saying<'_> {
    /// Returns the fewest of its terms that one which says it again has.
    const fn least_shared(&self) -> usize {
        (self.terms.len() * SAME_PERCENT).div_ceil(100)
    }

    /// Checks whether it says nearly the same as an earlier one: most words, and each name and number.
    fn repeats(&self, earlier: &Self) -> bool {
        let own: HashSet<u64, TermHasher> = self.terms.iter().map(|term| term.hash()).collect();
        let (shared, others): (Vec<Term>, Vec<Term>) =
            earlier.terms.iter().copied().partition(|term| own.contains(&term.hash()));
        self.author == earlier.author
            && shared.len() >= earlier.least_shared()
            && others.iter().all(|term| term.kind() == Kind::Word)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Conversation, Message, said_by};

    #[test]
    fn what_the_same_user_says_again_in_nearly_the_same_words_is_found() {
        let first = "Yes, please change it to that boat and add one cabin.";
        for (again, expected) in [
            (first, true),
            ("Please, please change it to that boat, and add one more cabin for me.", true),
            ("Please add one cabin.", false),
            ("Do you sell maps of the islands beside the harbour?", false),
        ] {
            let mut log = Conversation::new();
            log.user(first).agent("Sorry?").user(again).agent("Done.");
            let found = said_again(log.view().messages());
            assert_eq!(found, if expected { HashSet::from([0]) } else { HashSet::new() }, "{again}");
        }
    }

    #[test]
    fn another_name_or_number_or_person_makes_another_message() {
        for (one, other, expected) in [
            ("We meet at the gate at 14:30 on board.", "We meet at the gate at 15:45 on board.", false),
            ("We meet at the gate with Ana today.", "We meet at the gate with Ben today.", false),
            ("We meet at the gate with Ana today.", "We meet at the gate with Ana and Ben.", true),
        ] {
            let mut log = Conversation::new();
            log.user(one).user(other);
            assert_eq!(said_again(log.view().messages()).len(), usize::from(expected), "{one} {other}");
            let mut log = Conversation::new();
            log.add(said_by(Message::user(one), "Ana")).add(said_by(Message::user(other), "Ben"));
            assert_eq!(said_again(log.view().messages()).len(), 0, "{one} {other}");
        }
    }
}
