//! Fills a record: user text, actions and unresolved errors first, then the lines and the names that are most
//! worth their tokens.

use std::collections::HashSet;

use super::candidate::{Candidate, Candidates, Chosen};
use super::ledger::Ledger;
use super::rank::{Name, Ranking};
use super::record::{Record, is_record, unquote};
use super::source::Sources;
use crate::compaction::features::Features;
use crate::{Context, ContextMessage, Edit, Message, TokenCounter, Tokens};

/// The share of the record that user text and actions may take, in percent.
const BASE_PERCENT: u64 = 60;
/// The share of the rest for bare names, in percent: a name alone says little, but an agent that knows it can
/// look up the rest.
const NAMES_PERCENT: u64 = 35;
/// The share that may stay unused, in percent.
const UNUSED_PERCENT: u64 = 3;
/// The approximate cost of a message's label.
const LABEL_TOKENS: Tokens = Tokens::new(4);
/// The line's end.
const END_TOKENS: Tokens = Tokens::new(1);

/// The messages that are combined into a record.
#[derive(Clone, Copy)]
pub(super) struct Folding<'a> {
    /// All of it, what stays included.
    pub(super) context: &'a Context,
    /// True for each message that leaves.
    pub(super) is_folded: &'a [bool],
    /// The messages that are shortened: what is cut out may be in the record as well.
    pub(super) cuts: &'a [Edit],
    /// Terms of the focus.
    pub(super) focus: &'a [u64],
}

impl<'a> Folding<'a> {
    /// Returns the record in at most `room` tokens; `None` if not even its frame fits.
    pub(super) fn fill(&self, room: Tokens, counter: &dyn TokenCounter) -> Option<ContextMessage> {
        let counted = |record: &Record| ContextMessage::count(record.to_message(), counter);
        let mut record = self.base();
        let mut message = counted(&record);
        // The oldest user text and actions leave if they would leave the lines too few tokens.
        while message.tokens() > room.share(BASE_PERCENT, 100) && record.shed() {
            message = counted(&record);
        }
        if message.tokens() > room {
            return None;
        }
        let sources = Sources::of(self.context.messages());
        let mut filling = self.choose(&record, &sources, room - message.tokens(), counter);
        loop {
            (record.lines, record.names) = filling.write_lines(self.context.messages(), &sources);
            message = counted(&record);
            // Each part was counted alone; if they exceed that together, the least valuable leaves.
            if message.tokens() <= room || !filling.shed(message.tokens() - room) {
                return Some(message);
            }
        }
    }

    /// Returns the record without lines and names.
    fn base(&self) -> Record {
        let earlier: Vec<Record> = self
            .context
            .messages()
            .iter()
            .map(ContextMessage::message)
            .filter(|message| is_record(message))
            .map(Record::of)
            .collect();
        let mut earlier_in_order = earlier.iter();
        let mut record = Record::default();
        let mut ledger = Ledger::default();
        let mut known = HashSet::new();
        for (message, is_folded) in self.context.messages().iter().zip(self.is_folded) {
            if is_record(message.message()) {
                let Some(earlier) = earlier_in_order.next() else { continue };
                ledger.take_record(earlier);
                known.extend(earlier.directives.iter().map(String::as_str));
                record.directives.extend_from_slice(&earlier.directives);
            } else if *is_folded {
                let directives = message.findings().directives.iter();
                let new = directives.filter(|directive| known.insert(directive.as_str()));
                record.directives.extend(new.cloned());
            }
        }
        // Messages that stay are included: a later success among them resolves an error before it.
        ledger.take_all(self.context);
        ledger.write_into(&mut record);
        record
    }

    /// Chooses the lines and names that are most worth `room` tokens beside what stays in the context anyway.
    fn choose(
        &self,
        base: &Record,
        sources: &Sources,
        room: Tokens,
        counter: &dyn TokenCounter,
    ) -> Filling<'a> {
        let messages = self.context.messages();
        let mut leaves = self.is_folded.to_vec();
        let mut ranking = Ranking::of(messages, sources);
        for cut in self.cuts {
            if let Edit::Shorten { position, with } = cut {
                leaves[*position] = true;
                ranking.cover(with.features());
            }
        }
        for (position, _) in leaves.iter().enumerate().filter(|(_, leaves)| !**leaves) {
            ranking.cover_message(position);
        }
        ranking.cover(&Features::of(&Message::user(base.to_text())));
        ranking.favour(self.focus);

        let (lines, names) = Candidates::of(messages, &leaves, sources, |position| ranking.numbers(position));
        let mut labelled = HashSet::new();
        let mut count = |line: &Candidate| {
            let tokens = counter.count(line.text(messages)) + END_TOKENS;
            if labelled.insert(sources.label(messages, line.message, line.nth)) {
                tokens + LABEL_TOKENS
            } else {
                tokens
            }
        };
        let mut chosen = ranking.choose(&lines, &[], room - room.share(NAMES_PERCENT, 100), &mut count);
        let used: Tokens = chosen.iter().map(|chosen| chosen.tokens).sum();
        let names =
            ranking.names(&[&lines, &names], room - used, &mut |name| counter.count(name) + END_TOKENS);
        let left = room - used - names.iter().map(|(_, tokens)| *tokens).sum();
        if left > room.share(UNUSED_PERCENT, 100) {
            // People who talk give few things names: the lines have the room then.
            let more = ranking.choose(&lines, &chosen, left, &mut count);
            chosen.extend(more);
        }
        Filling { lines: chosen, names }
    }
}

/// The content of a record, each part with its tokens, the most worth first.
struct Filling<'a> {
    lines: Vec<Chosen>,
    names: Vec<(Name<'a>, Tokens)>,
}

impl Filling<'_> {
    /// Drops the least valuable of the rest until `excess` is saved; returns false if nothing is left.
    fn shed(&mut self, excess: Tokens) -> bool {
        let mut saved = Tokens::ZERO;
        while saved < excess {
            let gone = self.names.pop().map(|(_, tokens)| tokens);
            let Some(tokens) = gone.or_else(|| self.lines.pop().map(|line| line.tokens)) else { break };
            saved += tokens;
        }
        saved > Tokens::ZERO
    }

    /// Writes lines with their labels, and names, in their original order.
    fn write_lines(
        &self,
        messages: &[ContextMessage],
        sources: &Sources,
    ) -> (Vec<(String, String)>, Vec<String>) {
        let mut lines: Vec<Candidate> = self.lines.iter().map(|chosen| chosen.line).collect();
        lines.sort_by_key(|line| (line.message, line.nth));
        let mut names: Vec<&Name<'_>> = self.names.iter().map(|(name, _)| name).collect();
        names.sort_by_key(|name| name.place);
        (
            lines
                .into_iter()
                .map(|line| {
                    let text = line.text(messages);
                    // What an earlier record has quoted is quoted again when it is written.
                    let is_carried = sources.record(line.message as usize).is_some();
                    let text = if is_carried { unquote(text) } else { text.into() };
                    (sources.label(messages, line.message, line.nth).to_string(), text.into_owned())
                })
                .collect(),
            names.into_iter().map(|name| name.text.to_owned()).collect(),
        )
    }
}

impl Record {
    /// Drops the oldest of the most frequent kind; returns false if nothing is left.
    fn shed(&mut self) -> bool {
        if !self.directives.is_empty() && self.directives.len() >= self.files.len() {
            self.directives.drain(..self.directives.len().div_ceil(4));
            true
        } else if !self.files.is_empty() {
            self.files.drain(..self.files.len().div_ceil(4));
            true
        } else if !self.errors.is_empty() {
            self.errors.remove(0);
            true
        } else {
            self.last_check.take().is_some()
        }
    }
}
