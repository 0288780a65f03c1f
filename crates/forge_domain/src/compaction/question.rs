//! The questions that the work is about now: the terms that the goal, the latest requests, the newest calls
//! and the focus name.

use std::collections::HashMap;

use super::Focus;
use super::features::{ByTerm, Features, Kind, Term, TermHasher};
use crate::{Context, ContextMessage, Message, user_words};

/// The questions that are asked now, the strongest first. The terms that they name are favoured wherever
/// something is chosen, whatever else in the context names them.
#[derive(Debug, Default)]
pub(crate) struct Question(Vec<Asked>);

/// One question: what one text names.
#[derive(Debug)]
pub(crate) struct Asked {
    terms: ByTerm<Kind>,
    strength: f32,
    asker: Asker,
}

/// The place of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    Focus,
    /// A message, by its position.
    Message(usize),
    /// A task of the agent's list that is open.
    Task,
}

/// The strength of what the focus names: it was set for nothing else.
const FOCUS: f32 = 10.0;
/// The strength of what the latest user messages name, the latest first.
const REQUESTS: [f32; 2] = [2.0, 1.0];
/// The strength of what the newest calls name, the newest first.
const CALLS: [f32; 3] = [2.0, 1.5, 1.0];
/// The strength of what the first user message names.
const GOAL: f32 = 0.5;
/// The strength of what an open task names, and the most of them that ask: the first are worked on next.
const TASK: f32 = 1.2;
const MOST_TASKS: usize = 5;
/// A text with more terms than this asks less for each of them: pasted text is no question.
const TERMS: usize = 40;

/// A term that one of so many messages has answers nothing.
const MANY: usize = 10;
/// At most one of so many messages answers a question, or so few.
const MANY_ANSWERS: usize = 20;
const FEW_ANSWERS: usize = 3;
/// The weight of a given name in a question, where a word counts one: who asks for a value by its name asks
/// for nothing else.
const NAMED: f32 = 4.0;
/// An answer with this share of the best one is as good.
const NEARLY_BEST: f32 = 0.85;

impl Question {
    /// Reads what `context` and `focus` ask about.
    pub(crate) fn of(context: &Context, focus: Option<&Focus>) -> Self {
        let messages = context.messages();
        let mut question = Self::default();
        question.ask(Asker::Focus, focus.map(Focus::terms).unwrap_or_default().into_iter(), FOCUS);
        let newest_first = || messages.iter().enumerate().rev();
        let said = |(position, message): (usize, &ContextMessage)| {
            let words = user_words(message.message()).map(Message::user);
            let quoted = words.map(|words| Features::of(&words).terms);
            let whole = || message.starts_turn().then(|| message.features().terms.clone());
            Some((position, quoted.or_else(whole)?))
        };
        let requests = newest_first().filter_map(said);
        let calling = newest_first().filter(|(_, message)| !message.message().calls().is_empty());
        for ((position, terms), strength) in requests.zip(REQUESTS) {
            question.ask(Asker::Message(position), terms.into_iter(), strength);
        }
        for ((position, message), strength) in calling.zip(CALLS) {
            let called = message.features().terms.iter().filter(|term| term.is_called());
            question.ask(Asker::Message(position), called.copied(), strength);
        }
        if let Some(goal) = context.first_user() {
            question.ask(Asker::Message(goal), messages[goal].features().terms.iter().copied(), GOAL);
        }
        question
    }

    /// Returns the question with what the `open` tasks name, the next one first.
    pub(crate) fn with_tasks<'t>(mut self, open: impl Iterator<Item = &'t str>) -> Self {
        for task in open.take(MOST_TASKS) {
            let terms = Features::of(&Message::user(task)).terms;
            self.ask(Asker::Task, terms.into_iter(), TASK);
        }
        self
    }

    /// Returns the question without remarks. Most messages of the user's in a talk are remarks: they ask
    /// for nothing. A message asks for something if a few others have half of its terms, weighted by how rare
    /// they are, and more than the rest.
    pub(crate) fn without_remarks(mut self, context: &Context) -> Self {
        let messages = context.messages();
        let most = (messages.len() / MANY_ANSWERS).max(FEW_ANSWERS);
        self.0.retain(|asked| {
            let said = asked.position().filter(|position| messages[*position].starts_turn());
            let Some(position) = said else { return true };
            let others = messages.iter().enumerate().filter(|(other, _)| *other != position);
            let named: Vec<Vec<u64>> = others.map(|(_, message)| asked.named_by(message)).collect();
            let n_messages = n_messages(&named);
            let is_given = |term: &u64| asked.kind(*term).is_some_and(Kind::is_a_name_given);
            let weight = |term: &u64| {
                rarity(messages.len(), n_messages[term]) * if is_given(term) { NAMED } else { 1.0 }
            };
            let all: f32 = n_messages.keys().map(weight).sum();
            let shares: Vec<f32> = named.iter().map(|named| named.iter().map(weight).sum()).collect();
            // Many may have half of it; what is asked for has more than nearly all of them.
            let best = shares.iter().copied().fold(0.0, f32::max);
            let least = (all / 2.0).max(best * NEARLY_BEST);
            (1..=most).contains(&shares.iter().filter(|share| **share >= least).count())
        });
        self
    }

    /// Returns the terms that are asked about, each with how strongly it is.
    pub(crate) fn strengths(&self) -> HashMap<u64, f32, TermHasher> {
        let mut strengths: HashMap<u64, f32, TermHasher> = HashMap::default();
        for asked in &self.0 {
            for term in asked.terms() {
                let strength = strengths.entry(term).or_default();
                *strength = strength.max(asked.strength);
            }
        }
        strengths
    }

    /// Returns how strongly a term is asked about, by others than the message at `asker`.
    pub(crate) fn strength_beside(&self, asker: usize, term: u64) -> f32 {
        let others = self.0.iter().filter(|asked| asked.position() != Some(asker) && asked.names(term));
        others.map(|asked| asked.strength).fold(0.0, f32::max)
    }

    /// Checks whether the focus names a term.
    pub(crate) fn is_focus(&self, term: u64) -> bool {
        self.focus().is_some_and(|asked| asked.names(term))
    }

    /// Checks whether a focus asks for anything.
    pub(crate) fn has_focus(&self) -> bool {
        self.focus().is_some()
    }

    /// Returns the focus, which is the first of the questions.
    fn focus(&self) -> Option<&Asked> {
        self.0.first().filter(|asked| asked.is_focus())
    }

    /// Iterates over the questions that a passage may answer: the goal is too wide to be one.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.0.iter().filter(|asked| asked.strength > GOAL)
    }

    /// Returns for each message whether it may answer a question: it has one of the rarest terms that the
    /// question and anybody else name.
    pub(crate) fn answers(&self, context: &Context) -> Vec<bool> {
        let messages = context.messages();
        // One look-up for each term of the messages, however many questions there are.
        let mut askers: HashMap<u64, Vec<usize>, TermHasher> = HashMap::default();
        let mut named: Vec<HashMap<u64, Vec<usize>, TermHasher>> = Vec::new();
        for (nth, asked) in self.asked().enumerate() {
            asked.terms().for_each(|term| askers.entry(term).or_default().push(nth));
            named.push(HashMap::default());
        }
        for (position, message) in messages.iter().enumerate() {
            for term in message.features().terms.iter().map(|term| term.hash()) {
                for nth in askers.get(&term).into_iter().flatten() {
                    named[*nth].entry(term).or_default().push(position);
                }
            }
        }
        let mut answers = vec![false; messages.len()];
        for named in named {
            // The message that asks is one of them.
            let told = || named.values().filter(|positions| positions.len() > 1);
            let Some(rarest) = told().map(Vec::len).min() else { continue };
            if rarest * MANY <= messages.len().max(MANY * 2) {
                let rare = told().filter(|positions| positions.len() == rarest);
                rare.flatten().for_each(|position| answers[*position] = true);
            }
        }
        answers
    }

    fn ask(&mut self, asker: Asker, terms: impl Iterator<Item = Term>, strength: f32) {
        let terms: ByTerm<Kind> = terms.map(|term| (term.hash(), term.kind())).collect();
        let share = (TERMS as f32 / terms.len().max(TERMS) as f32).sqrt();
        if !terms.is_empty() {
            self.0.push(Asked { terms, strength: strength * share, asker });
        }
    }
}

impl Asked {
    /// Iterates over the terms that the question names, in no order.
    pub(crate) fn terms(&self) -> impl Iterator<Item = u64> {
        self.terms.keys().copied()
    }

    /// Returns the kind of a term, as the question names it.
    pub(crate) fn kind(&self, term: u64) -> Option<Kind> {
        self.terms.get(&term).copied()
    }

    /// Returns the position of the message that asks; `None` if it is none.
    pub(crate) const fn position(&self) -> Option<usize> {
        match self.asker {
            Asker::Message(position) => Some(position),
            Asker::Focus | Asker::Task => None,
        }
    }

    /// Checks whether it is the focus.
    pub(crate) fn is_focus(&self) -> bool {
        self.asker == Asker::Focus
    }

    /// Checks whether the question names a term.
    fn names(&self, term: u64) -> bool {
        self.terms.contains_key(&term)
    }

    /// Returns the terms of a message that the question names.
    fn named_by(&self, message: &ContextMessage) -> Vec<u64> {
        let terms = message.features().terms.iter().map(|term| term.hash());
        terms.filter(|term| self.names(*term)).collect()
    }
}

/// Returns the weight of a term in a question, by how many of all texts have it.
pub(crate) fn rarity(n_all: usize, n_having: usize) -> f32 {
    (n_all as f32 / n_having.max(1) as f32).ln_1p().powi(2)
}

/// Returns for each of the terms that messages have how many of them have it.
fn n_messages(named: &[Vec<u64>]) -> HashMap<u64, usize, TermHasher> {
    let mut n_messages: HashMap<u64, usize, TermHasher> = HashMap::default();
    named.iter().flatten().for_each(|term| *n_messages.entry(*term).or_default() += 1);
    n_messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Conversation;
    use crate::compaction::features::hash;

    #[test]
    fn a_remark_asks_for_nothing() {
        for (last, is_asked) in [
            ("Where was the flat in Lisbon again?", true),
            ("里斯本的公寓在哪里？", true),
            ("What was the value of tide_gauge again?", true),
            ("Thanks, Clara! Good night, sleep well", false),
            ("Tomorrow it will rain cats and dogs", false),
        ] {
            let mut log = Conversation::new();
            log.user("Hello Clara")
                .agent("We saw a flat in Lisbon, near the river. 里斯本的公寓在河边。")
                .user("tide_gauge = 12");
            for n in 0..4 {
                log.agent(format!("What a sight, {n}"))
                    .user(format!("It is well worth its value, {n}"))
                    .agent(format!("Again a pleasure, {n}"));
            }
            for n in 0..40 {
                log.user(format!("Thanks, Clara! That was good, number {n}"))
                    .agent(format!("Good night, sleep well, {n}"));
            }
            log.user(last);
            let context = log.view();
            let question = Question::of(&context, None).without_remarks(&context);
            let of_last = question.0.iter().any(|asked| asked.position() == context.latest_user());
            assert_eq!(of_last, is_asked, "{last}");
        }
        let focus = serde_json::from_str("\"the harbour\"").unwrap();
        let context = Conversation::new().view();
        assert!(Question::of(&context, Some(&focus)).without_remarks(&context).is_focus(hash("harbour")));
    }
}
