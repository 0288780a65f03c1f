//! The questions that the work is about now: the terms that the goal, the latest requests, the newest calls
//! and the focus name.

use std::collections::{HashMap, HashSet};

use super::Focus;
use super::features::{Term, TermHasher};
use crate::{Context, ContextMessage};

/// The questions that somebody asks now, the strongest first. The terms that they name are favoured wherever
/// something is chosen, whatever else in the context names them.
#[derive(Debug, Default)]
pub(crate) struct Question(Vec<Asked>);

/// One question: what one text names.
#[derive(Debug)]
pub(crate) struct Asked {
    terms: HashSet<u64, TermHasher>,
    strength: f32,
}

/// The strength of what the focus names: it was set for nothing else.
const FOCUS: f32 = 10.0;
/// The strength of what the latest user messages name, the latest first.
const REQUESTS: [f32; 2] = [2.0, 1.0];
/// The strength of what the newest calls name, the newest first.
const CALLS: [f32; 3] = [2.0, 1.5, 1.0];
/// The strength of what the first user message names.
const GOAL: f32 = 0.5;
/// A text with more terms than this asks less for each of them: pasted text is no question.
const TERMS: usize = 40;

/// A term that one of so many messages has answers nothing.
const MANY: usize = 10;

impl Question {
    /// Reads what `context` and `focus` ask about.
    pub(crate) fn of(context: &Context, focus: Option<&Focus>) -> Self {
        let messages = context.messages();
        let mut question = Self::default();
        question.ask(focus.map(Focus::terms).unwrap_or_default().into_iter(), FOCUS);
        let requests = messages.iter().rev().filter(|message| message.starts_turn());
        let calling = messages.iter().rev().filter(|message| !message.message().calls().is_empty());
        let hash = |term: &Term| term.hash();
        for (message, strength) in requests.zip(REQUESTS) {
            question.ask(message.features().terms.iter().map(hash), strength);
        }
        for (message, strength) in calling.zip(CALLS) {
            question.ask(message.features().terms.iter().filter(|term| term.is_called()).map(hash), strength);
        }
        if let Some(goal) = context.first_user() {
            question.ask(messages[goal].features().terms.iter().map(hash), GOAL);
        }
        question
    }

    /// Returns how strongly a term is asked about; zero if it is not.
    pub(crate) fn strength(&self, term: u64) -> f32 {
        self.0.iter().filter(|asked| asked.names(term)).map(|asked| asked.strength).fold(0.0, f32::max)
    }

    /// Checks whether the focus names a term.
    pub(crate) fn is_focus(&self, term: u64) -> bool {
        self.strength(term) >= FOCUS
    }

    /// Iterates over the questions that a passage may answer: the goal is too wide to be one.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Asked> {
        self.0.iter().filter(|asked| asked.strength > GOAL)
    }

    /// Returns for each message whether it may answer a question: it has one of the rarest terms that the
    /// question and anybody else name.
    pub(crate) fn answers(&self, context: &Context) -> Vec<bool> {
        let messages = context.messages();
        let mut answers = vec![false; messages.len()];
        for asked in self.asked() {
            let named = |message: &ContextMessage| -> Vec<u64> {
                let terms = message.features().terms.iter().map(|term| term.hash());
                terms.filter(|term| asked.names(*term)).collect()
            };
            let named: Vec<Vec<u64>> = messages.iter().map(named).collect();
            let mut n_messages: HashMap<u64, usize, TermHasher> = HashMap::default();
            named.iter().flatten().for_each(|term| *n_messages.entry(*term).or_default() += 1);
            let told = n_messages.values().copied().filter(|n| *n > 1);
            let Some(rarest) = told.min().filter(|rarest| rarest * MANY <= messages.len().max(MANY * 2))
            else {
                continue;
            };
            for (answer, named) in answers.iter_mut().zip(&named) {
                *answer |= named.iter().any(|term| n_messages[term] == rarest);
            }
        }
        answers
    }

    fn ask(&mut self, terms: impl Iterator<Item = u64>, strength: f32) {
        let terms: HashSet<u64, _> = terms.collect();
        let share = (TERMS as f32 / terms.len().max(TERMS) as f32).sqrt();
        if !terms.is_empty() {
            self.0.push(Asked { terms, strength: strength * share });
        }
    }
}

impl Asked {
    /// Checks whether the question names a term.
    pub(crate) fn names(&self, term: u64) -> bool {
        self.terms.contains(&term)
    }
}
