//! What leaves a context, and the record of it.

use std::collections::HashSet;

use memchr::memmem;

use super::Material;
use super::choice::Choice;
use super::contents::Unquoted;
use super::excerpt::{is_answer, said_in};
use super::filling::Filling;
use super::label::number;
use super::order::Highlights;
use super::outdated::Outdated;
use super::passage::{Origin, Passage, move_introductions, passages, passages_of_record, without_known};
use super::picks::picked;
use super::record::{Record, Section};
use super::state::State;
use super::tasks::is_about_tasks;
use super::worth::{Worth, asks};
use crate::compaction::answered_call::answered_call;
use crate::compaction::features::{Features, Line, TermHasher, hash};
use crate::compaction::findings::Deed;
use crate::compaction::omission::is_marker;
use crate::compaction::record_tag::is_record;
use crate::compaction::strategies::summarization::said_in_summary;
use crate::compaction::stub::is_stub;
use crate::tool_twin::asks_agent;
use crate::{ContextMessage, MessageId, Role, TokenCounter, Tokens, user_words};

/// The share of the room that the tasks, the files, the check and the errors may take, in percent.
const STATE_PERCENT: u64 = 35;
/// The number of the agent's texts that are its newest.
const N_NEWEST: usize = 3;
/// Most characters of an answer of the person's that says nothing by itself, and of one to a question.
const SHORT_ANSWER_CHARS: usize = 16;
const ANSWER_CHARS: usize = 24;
/// The most such answers of which the record tells what they are about.
const MOST_ASKED: usize = 12;
/// Most characters of a message that picks from a list and is repeated below it.
const REPEATED_CHARS: usize = 120;
/// A record of talk with less room does not count what it does not quote.
const LEAST_COUNTED: Tokens = Tokens::new(800);
/// A record with less room does not say that the request below it came earlier.
const LEAST_NOTED: Tokens = Tokens::new(400);
/// Fewer terms before an announcement say nothing.
const LEAST_SAID: usize = 4;
/// The fewest terms of a call that a passage repeats if it says nothing else, and for each of its own.
const LEAST_REPEATED: usize = 4;
const REPEATED_TO_NEW: usize = 4;

/// The messages that leave a context, of which a record tells.
pub(super) struct Leaving<'a> {
    pub(super) material: &'a Material<'a>,
    /// True for each message that leaves, or of which less stays than its source has.
    pub(super) leaves: &'a [bool],
    /// The text that stays of each message that is shortened.
    pub(super) left: &'a [(usize, String)],
    /// True for each message whose calls stay as they were, even if its text is shortened.
    pub(super) calls_stay: &'a [bool],
    /// The label of the person's latest message, if the record comes before it and something else after it
    /// leaves.
    pub(super) request_below: Option<String>,
    /// The position of the first message of the person's that stays above the record, beside the first of
    /// all.
    pub(super) words_above: Option<usize>,
}

impl Answered {
    /// Iterates over the lists from which the person picked.
    fn lists(&self) -> impl Iterator<Item = &Picked> {
        self.picks.iter().chain(&self.picked)
    }
}

/// A text of the agent's that the person answered in a few words, by the positions of both.
pub(super) struct Asked {
    pub(super) position: usize,
    pub(super) answer: usize,
}

/// A list of the agent's from which the person picked.
pub(super) struct Picked {
    /// Its position and that of the person's message.
    pub(super) position: usize,
    pub(super) answer: usize,
    /// The starts of the lines with the items that were picked.
    pub(super) items: Vec<u32>,
    /// True if the record repeats the message below the list.
    pub(super) is_repeated: bool,
}

/// The words of the agent that the person answered in a few words, which say nothing by themselves.
pub(super) struct Answered {
    /// The list from which their latest request picks.
    pub(super) picks: Option<Picked>,
    /// Those from which they picked before, the newest first.
    pub(super) picked: Vec<Picked>,
    /// The texts that leave, the newest first.
    pub(super) asked: Vec<Asked>,
    /// The entries of earlier records, each with its answer.
    pub(super) carried: Vec<[Passage; 2]>,
}

impl Leaving<'_> {
    /// Returns the record in at most `room` tokens; `None` if nothing fits beside its frame.
    pub(super) fn fill(
        &self,
        room: Tokens,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Option<ContextMessage> {
        let counted = |record: &Record| ContextMessage::count(record.to_message(), counter);
        let mut base = self.base();
        if room < LEAST_NOTED {
            // The labels must do.
            base.request_below = None;
        }
        let mut message = counted(&base);
        let empty = counted(&Record::default()).tokens();
        while message.tokens() - empty > (room - empty).share(STATE_PERCENT, 100) && base.shed() {
            message = counted(&base);
        }
        if message.tokens() > room {
            return None;
        }
        let answered = self.answered();
        let mut filling = self.choose(room - message.tokens(), &answered, worth, counter);
        loop {
            let mut record = filling.write(&base, self.material, &answered);
            // In talk, each side says about as much, and in a small room the order must do.
            let may_say_so = !self.material.is_talk && room >= LEAST_NOTED && !record.said.is_empty();
            record.words_above = may_say_so && self.all_said_is_older(&filling);
            if record.is_bare() {
                return None;
            }
            // In a short record of talk that goes without saying, and another turn says more.
            let is_counted = !self.material.is_talk || room >= LEAST_COUNTED;
            if let Some(unquoted) = is_counted.then(|| self.unquoted(&filling)).flatten() {
                record.left_out.insert(0, unquoted.entry());
            }
            message = counted(&record);
            // Each part was counted alone; if they exceed that together, the least valuable leaves.
            if message.tokens() <= room || !filling.shed(message.tokens() - room) {
                return Some(message);
            }
        }
    }

    /// Returns the record of tasks, files, the check and the errors.
    fn base(&self) -> Record {
        let State { record, tasks, known_tasks, .. } = self.material.state;
        let mut record = Record { request_below: self.request_below.clone(), ..record.clone() };
        record.tasks = match tasks {
            Some(list) if list.told_at.is_none_or(|position| !self.calls_stay[position]) => {
                list.tasks.clone()
            }
            Some(_) => Vec::new(),
            None => known_tasks.clone(),
        };
        record
    }

    /// Chooses what is most worth `room` tokens.
    fn choose(
        &self,
        room: Tokens,
        answered: &Answered,
        worth: &mut Worth<'_>,
        counter: &dyn TokenCounter,
    ) -> Filling {
        worth.begin_again();
        let newest = self.newest();
        let staying =
            self.material.context.messages().iter().zip(self.leaves).filter(|(_, leaves)| !**leaves);
        let staying = staying.map(|(message, _)| &message.features().text);
        let filling = Filling::beside(staying.chain(self.left.iter().map(|(_, text)| text)));
        let passages = self.passages(&newest, answered, &filling);
        let antecedent = self.antecedent_in_record(&passages);
        let mut candidates = worth.candidates(passages);
        self.left.iter().for_each(|(position, text)| worth.note_shown(&mut candidates, *position, text));
        let highlights = Highlights { leaving: self, newest, antecedent, answered };
        Choice::new(self, worth, candidates, filling, room, counter).carry_out(&highlights)
    }

    /// Checks whether a result repeats what the agent wrote into a file, or into its list of tasks.
    fn echoes(&self, position: usize) -> bool {
        let result = &self.material.sources[position];
        answered_call(self.material.context, position).is_some_and(|asked| {
            is_about_tasks(asked.call) || asked.deed.changes_files() && asked.deed.failure(result).is_none()
        })
    }

    /// Checks whether an entry of an earlier record is not chosen by itself: unquoted messages are counted
    /// again, and an answer comes along with its question.
    fn is_no_choice(&self, entry: &Passage) -> bool {
        let text = entry.text(self.material.sources);
        match entry.origin {
            Origin::Record(Section::LeftOut) => Unquoted::parse(text).is_some(),
            Origin::Record(Section::Story) => is_answer(text),
            _ => false,
        }
    }

    /// Checks whether a result is what another agent reports.
    fn is_report(&self, position: usize) -> bool {
        let asked = answered_call(self.material.context, position);
        asked.is_some_and(|asked| {
            asks_agent(asked.call.name.as_str())
                && asked.deed.failure(&self.material.sources[position]).is_none()
        })
    }

    /// Returns the terms of the call that the message at `position` answers, and of those beside it.
    fn terms_called(&self, position: usize) -> HashSet<u64, TermHasher> {
        let asked = answered_call(self.material.context, position);
        let caller = asked.map(|asked| self.material.sources[asked.place.message].features());
        let terms = caller.into_iter().flat_map(|caller| &caller.terms);
        terms.filter(|term| term.is_called()).map(|term| term.hash()).collect()
    }

    /// Checks whether the agent wrote a passage into a file.
    pub(super) fn is_written(&self, passage: &Passage) -> bool {
        let source = &self.material.sources[passage.message as usize];
        let writes = || source.findings().deeds.iter().any(Deed::changes_files);
        passage.origin == Origin::Work
            && !passage.tells_little()
            && source.role() == Role::Assistant
            && writes()
    }

    /// Returns the passages of everything that leaves; `newest` are the agent's newest texts, which are kept
    /// together with the code in them. Lines that only repeat what stays are left out.
    /// Of the lists from which the person picked, each line is one.
    fn passages(&self, newest: &[usize], answered: &Answered, staying: &Filling) -> Vec<Passage> {
        let mut all = Vec::new();
        let leaving = self.material.sources.iter().enumerate().filter(|(position, _)| self.leaves[*position]);
        for (position, source) in leaving {
            let message = source.message();
            let left = self.left.iter().find(|(cut, _)| *cut == position).map(|(_, left)| left.as_str());
            let origin = match message.role() {
                Role::User if is_record(message) => {
                    let entries = passages_of_record(source, position);
                    all.extend(entries.into_iter().filter(|passage| !self.is_no_choice(passage)));
                    continue;
                }
                Role::User if is_marker(message) || message.is_renewed() => continue,
                Role::User if message.note_by().is_some() && is_stub(&message.text()) => continue,
                // The user's words in a result are told with its call.
                Role::Tool if self.echoes(position) || user_words(message).is_some() => continue,
                // Another program's summary: what its agent concluded.
                Role::User if message.is_compacted => Origin::Agent,
                // The rest of a text that is shortened where it stands is an excerpt of it.
                Role::User if source.starts_turn() && left.is_none() => Origin::Person,
                // The report of another agent is what this one found by it.
                Role::Tool if self.is_report(position) => Origin::Agent,
                Role::Assistant => Origin::Agent,
                Role::User | Role::System | Role::Tool => Origin::Work,
            };
            let mut content = self.material.frames.content(position);
            if is_summary(source) {
                // The quotes in it are the person's words.
                let (_, length) = said_in_summary(&source.features().text);
                let of_quotes = |line: &&Line| (line.start as usize) < length;
                content.start = source.features().lines.iter().take_while(of_quotes).count();
            }
            let mut found = passages(source, position, origin, content);
            if origin == Origin::Person {
                // The answers of other agents in a user message are no words of the person's.
                let said = message.text_without_answers().len();
                for passage in found.iter_mut().filter(|passage| passage.end as usize > said) {
                    passage.origin = Origin::Work;
                }
            }
            let is_known = |line: &str| staying.known.contains(&hash(line));
            found = found
                .into_iter()
                .filter_map(|passage| match passage.origin {
                    Origin::Agent => without_known(passage, source.features(), is_known),
                    // Of work, what is contiguous stays together.
                    Origin::Work => without_known(passage, source.features(), is_known).map(|_| passage),
                    _ => Some(passage),
                })
                .collect();
            let is_newest = newest.contains(&position);
            if is_newest {
                let code = found.iter_mut().filter(|passage| passage.origin == Origin::Code);
                code.for_each(|passage| (passage.origin, passage.is_code) = (Origin::Agent, true));
            }
            move_introductions(&mut found, source.features(), is_newest);
            if let Some(end) =
                self.material.announcements.end_before(self.material.sources, position).filter(|_| !is_newest)
            {
                found = found.into_iter().filter_map(|passage| said_before(passage, source, end)).collect();
            }
            if answered.lists().any(|list| list.position == position) {
                found = found.iter().flat_map(|passage| passage.by_lines(source.features())).collect();
            }
            // The newest list of tasks stands in its own section, and older ones are out of date.
            if message.calls().iter().any(is_about_tasks) {
                found.retain(|passage| passage.origin != Origin::Work);
            }
            if message.role() == Role::Tool {
                let called = self.terms_called(position);
                found.retain(|passage| !repeats(passage, source.features(), &called));
            }
            if let Some(after) = self.material.changes.after(position, self.material.context, source) {
                for passage in found.iter_mut().filter(|passage| passage.origin == Origin::Work) {
                    let outdated = after.outdates(passage, source.features());
                    passage.is_outdated = matches!(outdated, Outdated::Mostly | Outdated::Unwritten);
                }
            }
            match left {
                Some(left) => {
                    let is_left = |line: &str| memmem::find(left.as_bytes(), line.as_bytes()).is_some();
                    let new = |passage| without_known(passage, source.features(), is_left);
                    all.extend(found.into_iter().filter_map(new));
                }
                None => all.extend(found),
            }
        }
        all
    }

    /// Returns what the person says in the quotes of the summaries that leave, oldest first, each with the
    /// number of its message and the position of the summary.
    pub(super) fn said_in_summaries(&self) -> Vec<(u64, usize, String)> {
        let mut all = Vec::new();
        for (position, source) in self.material.sources.iter().enumerate() {
            if self.leaves[position] && is_summary(source) {
                let (said, _) = said_in_summary(&source.features().text);
                let number = |label: &str| label.parse().map_or(0, MessageId::as_u64);
                all.extend(said.into_iter().map(|(label, text)| (number(label), position, text)));
            }
        }
        all
    }

    /// Returns the messages of the person that leave and of which `filling` quotes nothing, with those that
    /// earlier records quote or tell of.
    fn unquoted(&self, filling: &Filling) -> Option<Unquoted> {
        let sources = self.material.sources.iter().enumerate();
        let all = sources.flat_map(|(position, source)| match is_record(source.message()) {
            true => self.unquoted_of_record(position, source, filling),
            false => {
                let is_left = || self.left.iter().any(|(left, _)| *left == position);
                let text = &source.features().text;
                let leaves = self.leaves[position] && source.starts_turn() && !is_left();
                let is_quoted = || filling.has_any_of(position, |_| true, text);
                let unquoted = leaves && !source.message().is_compacted && !is_quoted();
                unquoted.then(|| Unquoted::one(number(source))).into_iter().collect()
            }
        });
        all.reduce(Unquoted::and)
    }

    /// Returns what of the person's words an earlier record tells of or quotes, and `filling` does not.
    fn unquoted_of_record(
        &self,
        position: usize,
        source: &ContextMessage,
        filling: &Filling,
    ) -> Vec<Unquoted> {
        let entries = passages_of_record(source, position);
        let unquoted = entries.into_iter().filter_map(|entry| {
            let text = entry.text(self.material.sources);
            match entry.origin {
                Origin::Record(Section::LeftOut) => Unquoted::parse(text),
                // It has no label, but came before the record.
                Origin::Record(Section::Said) => {
                    let is_it = |passage: &Passage| passage.start == entry.start;
                    (!filling.has_any_of(position, is_it, text)).then(|| Unquoted::before(number(source)))
                }
                _ => None,
            }
        });
        unquoted.collect()
    }

    /// Returns the number of the message that the latest request answers, if a record alone quotes it.
    fn antecedent_in_record(&self, passages: &[Passage]) -> Option<u64> {
        let latest = self.material.context.latest_user()?;
        let sources = self.material.sources;
        let in_record = passages.iter().filter(|passage| passage.origin == Origin::Record(Section::Story));
        let said = in_record.filter_map(|passage| said_in(passage.text(sources)));
        let before_it = said.filter(|said| *said < number(&sources[latest])).max()?;
        let in_context = (0..latest).rev().find(|position| self.has_agent_text(*position));
        in_context.is_none_or(|position| number(&sources[position]) < before_it).then_some(before_it)
    }

    /// Checks whether the agent says something in the message at `position`.
    fn has_agent_text(&self, position: usize) -> bool {
        let message = self.material.sources[position].message();
        message.role() == Role::Assistant && !message.text().trim().is_empty()
    }

    /// Checks whether all of the person's words that `filling` quotes came before those above the record.
    fn all_said_is_older(&self, filling: &Filling) -> bool {
        let mut said = filling.passages.iter().filter(|(passage, _)| passage.origin == Origin::Person);
        self.words_above.is_some_and(|above| said.all(|(passage, _)| (passage.message as usize) < above))
    }

    /// Returns what the agent said before each answer of the person's in a few words, which say nothing by
    /// themselves, if it leaves; the newest first.
    fn asked(&self) -> Vec<Asked> {
        let sources = self.material.sources;
        let asked = (1..sources.len()).rev().filter(|position| sources[*position].starts_turn());
        let asked = asked.filter_map(|answer| {
            let mut before = (0..answer).rev().take_while(|before| !sources[*before].starts_turn());
            let asked = before.find(|before| self.has_agent_text(*before))?;
            let text = sources[asked].message().text();
            let said = sources[answer].message().text();
            let is_short = is_short_answer(said.trim(), asks(&text));
            (is_short && self.leaves[asked]).then_some(Asked { position: asked, answer })
        });
        asked.take(MOST_ASKED).collect()
    }

    /// Returns what the person answered in a few words. In talk, most is such.
    fn answered(&self) -> Answered {
        let asked = if self.material.is_talk { Vec::new() } else { self.asked() };
        let sources = self.material.sources;
        let latest = self.material.context.latest_user();
        let before = (1..latest.unwrap_or(0)).rev().filter(|position| sources[*position].starts_turn());
        let picked = before.filter(|answer| asked.iter().all(|asked| asked.answer != *answer));
        let picked = picked.filter_map(|answer| self.picked(answer, false)).take(MOST_ASKED).collect();
        let picks = latest.and_then(|latest| self.picked(latest, true));
        Answered { picks, picked, asked, carried: self.answered_in_records() }
    }

    /// Returns the list from which the person picks in the message at `answer`, if it leaves: it is what the
    /// agent said last before that, but the latest request may mean any.
    fn picked(&self, answer: usize, is_latest: bool) -> Option<Picked> {
        let sources = self.material.sources;
        let said = sources[answer].message().text();
        let before = (0..answer).rev().take_while(|at| is_latest || !sources[*at].starts_turn());
        let told = before.filter(|at| self.has_agent_text(*at));
        let told = told.map(|position| (position, picked(said_beside_calls(&sources[position]), &said)));
        let most = if is_latest { usize::MAX } else { 1 };
        let lists = told.take(most).filter(|(_, items)| !items.is_empty());
        // Of lists that have as much of what is meant, the newest.
        let (position, items) = lists.max_by_key(|(position, items)| (items.len(), *position))?;
        let is_repeated = !is_latest && said.chars().nth(REPEATED_CHARS).is_none();
        self.leaves[position].then_some(Picked { position, answer, items, is_repeated })
    }

    /// Returns the entries of the records that leave which quote what the person answered, each with the
    /// answer.
    fn answered_in_records(&self) -> Vec<[Passage; 2]> {
        let sources = self.material.sources;
        let records = (0..sources.len()).filter(|at| self.leaves[*at] && is_record(sources[*at].message()));
        let pairs = records.flat_map(|at| {
            let entries = passages_of_record(&sources[at], at);
            entries.windows(2).map(|pair| [pair[0], pair[1]]).collect::<Vec<_>>()
        });
        pairs
            .filter(|[_, answer]| {
                answer.origin == Origin::Record(Section::Story) && is_answer(answer.text(sources))
            })
            .collect()
    }

    /// Returns the positions of the agent's newest texts that leave, and of the text that the latest request
    /// answers.
    fn newest(&self) -> Vec<usize> {
        let has_text = |position: &usize| self.has_agent_text(*position);
        let mut newest: Vec<usize> =
            (0..self.material.sources.len()).rev().filter(has_text).take(N_NEWEST).collect();
        let latest = self.material.context.latest_user().unwrap_or(0);
        newest.extend((0..latest).rev().find(has_text));
        newest.retain(|position| self.leaves[*position]);
        newest
    }
}

/// Returns what the agent says in a message, without its calls.
fn said_beside_calls(source: &ContextMessage) -> &str {
    let features = source.features();
    let calls = features.lines.iter().find(|line| line.is_call);
    &features.text[..calls.map_or(features.text.len(), |call| call.start as usize)]
}

/// Checks whether a text of the person's says nothing without what it answers: where nothing was asked, a
/// word or two that are no command of the harness.
fn is_short_answer(said: &str, was_asked: bool) -> bool {
    let most = if was_asked { ANSWER_CHARS } else { SHORT_ANSWER_CHARS };
    let is_remark = || !said.starts_with('/') && said.split_whitespace().nth(2).is_none();
    said.chars().nth(most).is_none() && (was_asked || is_remark())
}

/// Checks whether a passage of a result only repeats what the call says: nearly all of its terms, and each
/// name and number.
fn repeats(passage: &Passage, features: &Features, called: &HashSet<u64, TermHasher>) -> bool {
    let places = passage.lines(features).iter().flat_map(|line| features.places(line));
    let (mut n_called, mut n_new) = (0, 0);
    for term in places.map(|place| features.terms[*place as usize]) {
        match called.contains(&term.hash()) {
            true => n_called += 1,
            false if term.kind().is_a_name_given() => return false,
            false => n_new += 1,
        }
    }
    n_called >= LEAST_REPEATED && n_called >= n_new * REPEATED_TO_NEW
}

/// Returns as much of a passage of what the agent says as stands before `end`; `None` if that says hardly
/// anything.
fn said_before(mut passage: Passage, source: &ContextMessage, end: u32) -> Option<Passage> {
    if passage.origin != Origin::Agent || passage.end <= end {
        return Some(passage);
    }
    let features = source.features();
    // Words in a command come after the announcement and are no part of it.
    if passage.lines(features).first().is_some_and(|line| line.is_call) {
        return Some(passage);
    }
    let before = passage.lines(features).iter().take_while(|line| line.start < end);
    let n_terms = before.clone().flat_map(|line| features.places_before(line, end)).count();
    (passage.end, passage.lines_to) = (end, passage.lines_from + before.count() as u32);
    (n_terms >= LEAST_SAID).then_some(passage)
}

/// Checks whether a passage is all that the person says in a message, or an entry of one line.
pub(super) fn is_said_whole(passage: &Passage, sources: &[ContextMessage]) -> bool {
    match passage.origin {
        Origin::Person => ends_at(passage, sources) == [true; 2],
        Origin::Record(Section::Said) => !passage.text(sources).contains('\n'),
        _ => false,
    }
}

/// Returns whether a passage begins with its message, and whether it ends with it.
pub(super) fn ends_at(passage: &Passage, sources: &[ContextMessage]) -> [bool; 2] {
    let n_lines = sources[passage.message as usize].features().lines.len();
    [passage.lines_from == 0, passage.lines_to as usize == n_lines]
}

/// Checks whether a message is a summary that a model wrote.
pub(super) fn is_summary(message: &ContextMessage) -> bool {
    message.role() == Role::Assistant && message.message().is_compacted
}
